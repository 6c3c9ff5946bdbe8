/* What the verbs of the command line share: how a verb is described, what it is given, how it opens
 * a store, how it complains, and what the program's exit codes mean.
 *
 * Each verb is a file of its own, verb_<name>.c, that defines one struct verb; verbs.def has the
 * list. Help, the man page, shell completion and the parser are all made from that struct. All that
 * a verb knows of Pawl comes from pawl.h. Results go to stdout, complaints to stderr. */
#ifndef PAWL_CLI_CLI_H
#define PAWL_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "pawl.h"

/* Numbers are for ever: scripts depend on them. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3,
    CLI_CONFLICT = 4,
    CLI_OUT_OF_REACH = 5,
};

/* How often an option may be given. */
enum option_times {
    OPTION_ONCE = 0,
    OPTION_REPEATED, /* --label a:b --label c:d, or --label a:b,c:d ("\\," is a comma in a value) */
    OPTION_MANY,     /* also --kind a b: all arguments up to the next option */
};

struct option {
    const char *name;  /* "--queue"; NULL: the end of the table */
    const char *value; /* what to write behind it, "Q", or a choice, "table|tsv"; NULL: nothing */
    const char *text;  /* a line for help */
    enum option_times times;
    char letter; /* 'f' for -f; 0: none */
    const char
        *field;    /* what the library calls it, "run_at"; other names behind |; NULL: nothing */
    bool required; /* the verb does not do without it */
};

/* What a verb takes besides its own options. */
enum verb_takes {
    TAKES_STORE = 1,
    TAKES_JSON = 2,
    TAKES_COMMAND = 4, /* what stands behind "--" is a command, and must be there */
    TAKES_COMMAND_OR_NOT = 8,
};

struct args;

struct verb {
    const char *name;
    const char *summary; /* a line of `pawl help` */

    /* What it takes besides options, as help shows it: "ID [STEP]", "job|step", "[ID...]". One word
     * each: in lower case a choice, in brackets it may be left out, with dots it may come again.
     * NULL: nothing. The parser holds callers to it. */
    const char *arguments;
    const char *about;            /* sentences, in lines of at most 80 columns */
    const struct option *options; /* NULL: none of its own */
    const char *examples;         /* lines; NULL: none */
    int takes;                    /* enum verb_takes */

    /* Does it. Says on stderr why when it returns another code than CLI_DONE. */
    enum cli_exit (*run)(const struct args *args);
};

#define GROUP(title)
#define VERB(name) extern const struct verb verb_##name;
#include "cli/verbs.def"
#undef GROUP
#undef VERB

/* ---- main.c ---- */

/* All verbs, in the order in which help lists them. A line without a verb is a title. */
struct verb_line {
    const char *title;
    const struct verb *verb;
};

extern const struct verb_line cli_verbs[];
extern const size_t cli_verb_count;

/* The verb of that name. If it is unknown, says so on stderr, names the nearest one, and returns
 * NULL: the exit code is then CLI_USAGE. */
const struct verb *cli_verb(const char *name);

/* ---- args.c: what was said on the command line ---- */

struct given {
    const struct option *option;
    const char *value; /* NULL: the option has none */
};

enum { JOB_ID_LEN = 36 };

struct args {
    const struct verb *verb;
    const char **words;          /* all that are neither options nor their values */
    char (*ids)[JOB_ID_LEN + 1]; /* of each word the whole id, when it was shortened */
    size_t word_count;
    struct given *given;
    size_t given_count;
    char *split;    /* the values of lists, each ended by NUL */
    char **command; /* what stands behind "--", ended by NULL; NULL: none */
};

/* The options that all verbs have in common and `verb` takes, ended by one without a name. */
const struct option *cli_common_options(const struct verb *verb);

/* Reads the arguments of a verb; argv[0] is its name. CLI_USAGE: they are wrong, and it was said
 * how. Free with args_free also then. */
enum cli_exit args_parse(const struct verb *verb, int argc, char **argv, struct args *ret);
void args_free(struct args *args);

/* One of a verb's arguments, as struct verb describes them. */
struct slot {
    const char *name; /* with its length; not in brackets, without dots */
    size_t len;
    bool optional;
    bool repeated;
    bool choice; /* its name is the words that it may be, divided by | */
};

/* Walks verb->arguments: *at is that at first, and NULL is allowed. False when there are no more.
 */
bool slot_next(const char **at, struct slot *ret);

/* Walks the words of a choice, "table|tsv": *at is that at first. */
bool choice_next(const char **at, size_t *len_left, const char **ret_word, size_t *ret_len);

/* Whether what is asked for is one of several words, and not any text: written in lower case. */
bool is_choice(const char *value);

/* The word at a place; NULL: there are fewer. */
const char *cli_word(const struct args *args, size_t at);

/* Options by name, which must be one that the verb takes. Whether it was given; its value (the
 * first); the value at a place, when it may come again. NULL: it was not given. */
bool cli_has(const struct args *args, const char *name);
const char *cli_value(const struct args *args, const char *name);
const char *cli_value_at(const struct args *args, const char *name, size_t at);
size_t cli_count(const struct args *args, const char *name);

/* An option's value as a whole number from `min` to `max`, or as a duration in ms. Leaves *ret
 * alone when it was not given. CLI_USAGE: it is invalid, and that was said. */
enum cli_exit cli_number(const struct args *args, const char *name, long long min, long long max,
                         long long *ret);
enum cli_exit cli_duration(const struct args *args, const char *name, long long *ret_ms);

/* The same into a request, under `key`, if it was given. */
enum cli_exit cli_put_number(const struct args *args, const char *name, long long min,
                             long long max, struct pawl_object *request, const char *key);
enum cli_exit cli_put_duration(const struct args *args, const char *name,
                               struct pawl_object *request, const char *key);
void cli_put_text(const struct args *args, const char *name, struct pawl_object *request,
                  const char *key);

/* The same for all values of an option that takes many, with commas between. */
enum cli_exit cli_put_joined(const struct args *args, const char *name, struct pawl_object *request,
                             const char *key);

/* ---- complain.c ---- */

/* A line on stderr, "pawl NAME: ...". Control characters in it are made visible. */
void cli_complain(const struct verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same without a verb in front: what happened on the way, and is no failure. */
void cli_remark(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says what is wrong with the arguments of a verb and where its help is. Always returns CLI_USAGE,
 * so that a verb can `return cli_usage(...)`. */
enum cli_exit cli_usage(const struct verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says what went wrong in a verb, and returns the exit code for it. Fields of a request that come
 * from options are called as those are: --run-at, not run_at. */
enum cli_exit cli_failed(const struct verb *verb, const struct pawl_error *error);
enum cli_exit cli_no_memory(const struct verb *verb);

/* ---- store.c ---- */

/* The store to use: what --store said, else PAWL_STORE, else sqlite:pawl.db. */
const char *cli_store_url(const struct args *args);

/* The user's name, for histories; NULL if missing, or one with strange characters. */
const char *cli_user(void);

/* A URL for people to read: without its password. To be freed; NULL: no memory. */
char *cli_url_text(const char *url);

/* Opens the store. One that is not there is made when `create`, which is said on stderr, and is out
 * of reach otherwise. It is tried as long as PAWL_PATIENCE says, else 10 s: for people. */
enum cli_exit cli_open(const struct args *args, bool create, struct pawl **ret_pawl);

/* One of pawl.h's verbs. */
typedef enum pawl_code (*cli_call)(struct pawl *pawl, const char *request, char **ret_answer,
                                   struct pawl_error *error);

/* Opens the store for a request. One that is not there is made, and that is said; but first the
 * request is tried on a store in memory, so that one which is refused leaves nothing behind. Then
 * *ret_pawl is NULL, `refusal` says why, and nobody was told yet. */
enum cli_exit cli_open_for(const struct args *args, cli_call call, const char *request,
                           struct pawl **ret_pawl, struct pawl_error *refusal);

/* Asks the store with a request, which is freed here, and complains when that fails. NULL: no
 * memory. The answer is for pawl_free. */
enum cli_exit cli_ask(const struct args *args, struct pawl *pawl, cli_call call,
                      struct pawl_object *request, char **ret_answer);

/* The same with the store opened and closed around it. */
enum cli_exit cli_ask_once(const struct args *args, cli_call call, struct pawl_object *request,
                           char **ret_answer);

/* Asks for something to be done with what has this id, and says "ID: done", or prints the answer as
 * JSON. */
enum cli_exit cli_do_one(const struct args *args, struct pawl *pawl, cli_call call, const char *id,
                         const char *done);

/* Whether a job with this status has ended, as the library's machine says. */
bool cli_has_ended(const char *status);

/* ---- job_id.c ---- */

/* Replaces the first digits of a job's id, at least 4 of them, by the whole id. CLI_NOT_FOUND: no
 * job has such an id. CLI_USAGE: several have. Other words are left alone. */
enum cli_exit cli_expand_id(const struct args *args, size_t at);

/* The same for all words that the verb calls ID. */
enum cli_exit cli_expand_ids(const struct args *args);

/* ---- input.c ---- */

/* The value of an option that takes JSON: as it stands, from a file (@FILE) or from stdin (-). To
 * be freed; NULL when the option was not given. CLI_USAGE: it is not JSON. CLI_FAILED: the file
 * cannot be read. */
enum cli_exit cli_json_option(const struct args *args, const char *name, char **ret_json);

/* The same for a text that came from elsewhere; `what` says what it is. */
enum cli_exit cli_json_input(const struct args *args, const char *what, const char *said,
                             char **ret_json);

/* All of a file, or of stdin when it is called "-", as a text to be freed. CLI_FAILED: it cannot be
 * read. CLI_USAGE: it has a zero byte in it. Both are said. */
enum cli_exit cli_read_file(const struct args *args, const char *path, char **ret_text);

/* ---- help.c ---- */

void help_write(const struct verb *verb);
void help_overview(void);
void help_man(void);

/* ---- nearest.c ---- */

/* The word of the list that was most likely meant: one that starts like that, else the nearest
 * within two letters; NULL when none is near. */
const char *nearest_word(const char *word, const char *const *words, size_t count);

#endif
