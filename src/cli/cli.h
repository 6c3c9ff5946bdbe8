/* What the verbs of the command line share: how a verb is described, how it reports wrong usage,
 * and what the program's exit codes mean.
 *
 * Each verb is a file of its own, verb_<name>.c, that defines one struct verb; main.c has the list.
 * All that a verb knows of Pawl comes from pawl.h. Results go to stdout, complaints to stderr. */
#ifndef PAWL_CLI_CLI_H
#define PAWL_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>

/* Numbers are for ever: scripts depend on them. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_FOUND = 3,
    CLI_CONFLICT = 4,
    CLI_OUT_OF_REACH = 5,
};

struct verb {
    const char *name;
    const char *summary; /* a line of `pawl help` */
    const char *help;    /* all of `pawl help NAME`, starting with its usage */

    /* Does it. argv[0] is the verb's name. Says on stderr why when it returns another code than
     * CLI_DONE. `--help` never gets here. */
    enum cli_exit (*run)(int argc, char **argv);
};

extern const struct verb verb_help;
extern const struct verb verb_machine;
extern const struct verb verb_migrate;
extern const struct verb verb_version;

struct pawl_error;

/* ---- store.c ---- */

/* Whether argv[*at] is --store, as cli_option; its value goes to *url. */
bool cli_store_option(int argc, char **argv, int *at, const char **url);

/* The store to use: what --store said (NULL: nothing), else PAWL_STORE, else sqlite:pawl.db. */
const char *cli_store_url(const char *said);

/* Says on stderr what went wrong in a verb, and returns the exit code for it. */
enum cli_exit cli_failed(const struct verb *verb, const struct pawl_error *error);

/* ---- main.c ---- */

/* All verbs, in the order in which help lists them. */
extern const struct verb *const cli_verbs[];
extern const size_t cli_verb_count;

/* The verb of that name. When there is none, says so on stderr, names the nearest one, and returns
 * NULL: the exit code is then CLI_USAGE. */
const struct verb *cli_verb(const char *name);

/* Says on stderr what is wrong with the arguments of a verb and where its help is. Always returns
 * CLI_USAGE, so that a verb can `return cli_usage(...)`. */
enum cli_exit cli_usage(const struct verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Whether argv[*at] is the option `name` ("--format"), as "--format VALUE" or "--format=VALUE". If
 * so *ret_value is its value, or NULL when there is none, and *at stands on the last argument that
 * belongs to the option. */
bool cli_option(int argc, char **argv, int *at, const char *name, const char **ret_value);

#endif
