/* Reads the arguments of a verb by the verb's own description. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/text.h"

#define STORE_OPTION                                                                               \
    {                                                                                              \
        .name = "--store", .value = "URL",                                                         \
        .text = "the store (default: PAWL_STORE, then sqlite:pawl.db)"                             \
    }
#define JSON_OPTION                                                                                \
    {                                                                                              \
        .name = "--json", .text = "print the response as JSON on one line"                         \
    }
#define HELP_OPTION                                                                                \
    {                                                                                              \
        .name = "--help", .text = "print this help", .letter = 'h'                                 \
    }

const struct option *cli_common_options(const struct verb *verb)
{
    static const struct option all[] = {STORE_OPTION, JSON_OPTION, HELP_OPTION, {0}};
    static const struct option store[] = {STORE_OPTION, HELP_OPTION, {0}};
    static const struct option *const without_store = all + 1;
    static const struct option *const help = all + 2;
    if ((verb->takes & TAKES_STORE) != 0)
        return (verb->takes & TAKES_JSON) != 0 ? all : store;
    return (verb->takes & TAKES_JSON) != 0 ? without_store : help;
}

/* ---- the description ---- */

bool is_choice(const char *value)
{
    return value != NULL && value[0] >= 'a' && value[0] <= 'z';
}

bool slot_next(const char **at, struct slot *ret)
{
    if (*at == NULL || **at == '\0')
        return false;
    struct slot slot = {.name = *at, .len = strcspn(*at, " ")};
    *at += slot.len;
    *at += strspn(*at, " ");
    if (slot.len > 2 && slot.name[0] == '[' && slot.name[slot.len - 1] == ']') {
        slot.optional = true;
        slot.name++;
        slot.len -= 2;
    }
    if (slot.len > 3 && strncmp(slot.name + slot.len - 3, "...", 3) == 0) {
        slot.repeated = true;
        slot.len -= 3;
    }
    slot.choice = is_choice(slot.name);
    *ret = slot;
    return true;
}

bool choice_next(const char **at, size_t *len_left, const char **ret_word, size_t *ret_len)
{
    if (*len_left == 0)
        return false;
    size_t len = 0;
    while (len < *len_left && (*at)[len] != '|')
        len++;
    *ret_word = *at;
    *ret_len = len;
    size_t used = len < *len_left ? len + 1 : len;
    *at += used;
    *len_left -= used;
    return true;
}

static bool choice_has(const char *choice, size_t len, const char *word)
{
    const char *one;
    size_t one_len;
    assert(word != NULL);
    while (choice_next(&choice, &len, &one, &one_len))
        if (strlen(word) == one_len && strncmp(word, one, one_len) == 0)
            return true;
    return false;
}

/* Writes the words of a choice as "table, tsv, mermaid". */
static void choice_text(const char *choice, size_t len, char *ret, size_t size)
{
    const char *one;
    size_t one_len;
    size_t end = 0;
    ret[0] = '\0';
    while (choice_next(&choice, &len, &one, &one_len) && end < size) {
        int wrote =
            snprintf(ret + end, size - end, "%s%.*s", end > 0 ? ", " : "", (int)one_len, one);
        end += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* ---- the parser ---- */

struct parser {
    struct args *args;
    int argc;
    char **argv;
    int at;
    char *split;      /* where the next value of a list is copied to */
    size_t given_cap; /* of args->given */
};

static bool is_option(const char *argument)
{
    return argument[0] == '-' && argument[1] != '\0';
}

/* Whether an argument names that option: "--queue", "--queue=VALUE" or "-f". */
static bool names(const struct option *option, const char *argument)
{
    size_t len = strlen(option->name);
    if (option->letter != 0 && argument[1] == option->letter && argument[2] == '\0')
        return true;
    return strncmp(argument, option->name, len) == 0 &&
           (argument[len] == '\0' || argument[len] == '=');
}

static const struct option *find(const struct verb *verb, const char *argument)
{
    for (const struct option *option = verb->options; option != NULL && option->name != NULL;
         option++)
        if (names(option, argument))
            return option;
    for (const struct option *option = cli_common_options(verb); option->name != NULL; option++)
        if (names(option, argument))
            return option;
    return NULL;
}

static enum cli_exit unknown_option(const struct verb *verb, const char *argument)
{
    enum { OPTIONS_MAX = 64 };
    const char *words[OPTIONS_MAX];
    size_t count = 0;
    for (const struct option *option = verb->options;
         option != NULL && option->name != NULL && count < OPTIONS_MAX; option++)
        words[count++] = option->name;
    for (const struct option *option = cli_common_options(verb);
         option->name != NULL && count < OPTIONS_MAX; option++)
        words[count++] = option->name;

    char said[64];
    snprintf(said, sizeof said, "%.*s", (int)strcspn(argument, "="), argument);
    /* A lone "--" or a single letter is near to everything. */
    const char *nearest = strlen(said) > 3 ? nearest_word(said, words, count) : NULL;
    if (nearest != NULL)
        return cli_usage(verb, "unknown option '%s'. Did you mean '%s'?", said, nearest);
    return cli_usage(verb, "unknown option '%s'", said);
}

static enum cli_exit add_given(struct parser *parser, const struct option *option,
                               const char *value)
{
    const struct verb *verb = parser->args->verb;
    if (value != NULL && !text_is_utf8(value))
        return cli_usage(verb, "%s: '%s' is not UTF-8", option->name, value);
    if (value != NULL && is_choice(option->value) &&
        !choice_has(option->value, strlen(option->value), value)) {
        char words[256];
        choice_text(option->value, strlen(option->value), words, sizeof words);
        return cli_usage(verb, "unknown %s '%s'; valid: %s", option->name + 2, value, words);
    }
    assert(parser->args->given_count < parser->given_cap);
    parser->args->given[parser->args->given_count++] = (struct given){option, value};
    return CLI_DONE;
}

/* The values of a list, "a,b": each is copied to the end of args->split. */
static enum cli_exit add_list(struct parser *parser, const struct option *option, const char *list)
{
    enum cli_exit code = CLI_DONE;
    for (const char *at = list; code == CLI_DONE; at++) {
        const char *value = parser->split;
        for (; *at != '\0' && *at != ','; at++) {
            at += at[0] == '\\' && at[1] == ',';
            *parser->split++ = *at;
        }
        *parser->split++ = '\0';
        code = *value != '\0' || *list == '\0'
                   ? add_given(parser, option, value)
                   : cli_usage(parser->args->verb, "%s: '%s' contains an empty value", option->name,
                               list);
        if (*at == '\0')
            break;
    }
    return code;
}

static enum cli_exit add_value(struct parser *parser, const struct option *option,
                               const char *value)
{
    return option->times == OPTION_ONCE ? add_given(parser, option, value)
                                        : add_list(parser, option, value);
}

static enum cli_exit no_value(const struct verb *verb, const struct option *option)
{
    if (!is_choice(option->value))
        return cli_usage(verb, "%s requires a value: %s %s", option->name, option->name,
                         option->value);
    char words[256];
    choice_text(option->value, strlen(option->value), words, sizeof words);
    return cli_usage(verb, "%s requires one of: %s", option->name, words);
}

static enum cli_exit parse_option(struct parser *parser)
{
    struct args *args = parser->args;
    const char *argument = parser->argv[parser->at];
    const struct option *option = find(args->verb, argument);
    if (option == NULL)
        return unknown_option(args->verb, argument);
    if (option->times == OPTION_ONCE && cli_has(args, option->name))
        return cli_usage(args->verb, "%s may be given only once", option->name);

    const char *equals = argument[1] == '-' ? strchr(argument, '=') : NULL;
    if (option->value == NULL) {
        if (equals != NULL)
            return cli_usage(args->verb, "%s takes no value, but got '%s'", option->name,
                             equals + 1);
        return add_given(parser, option, NULL);
    }
    if (equals != NULL)
        return add_value(parser, option, equals + 1);
    /* What looks like an option is not taken for a value, since the value was more likely
     * forgotten; with = it can be said all the same. Numbers may be negative. */
    const char *value = parser->at + 1 < parser->argc ? parser->argv[parser->at + 1] : NULL;
    if (value == NULL || strncmp(value, "--", 2) == 0)
        return no_value(args->verb, option);
    parser->at++;
    enum cli_exit code = add_value(parser, option, value);
    while (code == CLI_DONE && option->times == OPTION_MANY && parser->at + 1 < parser->argc &&
           !is_option(parser->argv[parser->at + 1]))
        code = add_value(parser, option, parser->argv[++parser->at]);
    return code;
}

static enum cli_exit parse_one(struct parser *parser)
{
    struct args *args = parser->args;
    const char *argument = parser->argv[parser->at];
    if (!text_is_utf8(argument))
        return cli_usage(args->verb, "'%s' is not UTF-8", argument);
    if (is_option(argument))
        return parse_option(parser);
    args->words[args->word_count++] = argument;
    return CLI_DONE;
}

/* What stands behind "--": a command, or words that look like options. */
static enum cli_exit parse_rest(struct parser *parser)
{
    struct args *args = parser->args;
    parser->at++;
    if ((args->verb->takes & (TAKES_COMMAND | TAKES_COMMAND_OR_NOT)) != 0) {
        if (parser->at < parser->argc)
            args->command = parser->argv + parser->at;
        parser->at = parser->argc;
        return CLI_DONE;
    }
    for (; parser->at < parser->argc; parser->at++)
        if (!text_is_utf8(parser->argv[parser->at]))
            return cli_usage(args->verb, "'%s' is not UTF-8", parser->argv[parser->at]);
        else
            args->words[args->word_count++] = parser->argv[parser->at];
    return CLI_DONE;
}

/* Holds the words to what the verb says that it takes. */
static enum cli_exit check_words(const struct args *args)
{
    const char *rest = args->verb->arguments;
    struct slot slot;
    char words[256];
    size_t at = 0;
    while (slot_next(&rest, &slot)) {
        if (slot.choice)
            choice_text(slot.name, slot.len, words, sizeof words);
        else
            snprintf(words, sizeof words, "%.*s", (int)slot.len, slot.name);
        if (at >= args->word_count && !slot.optional)
            return slot.choice ? cli_usage(args->verb, "missing argument: %s", words)
                               : cli_usage(args->verb, "%s is required", words);
        for (bool first = true; at < args->word_count && (first || slot.repeated); first = false) {
            const char *word = args->words[at++];
            assert(word != NULL);
            if (slot.choice && !choice_has(slot.name, slot.len, word))
                return cli_usage(args->verb, "unknown argument '%s'; valid: %s", word, words);
            if (word[0] == '\0')
                return cli_usage(args->verb, "%s must not be empty", words);
        }
    }
    if (at < args->word_count)
        return cli_usage(args->verb, "unexpected argument '%s'", args->words[at]);
    if ((args->verb->takes & TAKES_COMMAND) != 0 && args->command == NULL)
        return cli_usage(args->verb, "missing command: -- COMMAND...");
    return CLI_DONE;
}

enum cli_exit args_parse(const struct verb *verb, int argc, char **argv, struct args *ret)
{
    *ret = (struct args){.verb = verb};
    size_t values = (size_t)argc + 1;
    size_t bytes = 1;
    for (int i = 0; i < argc; i++) {
        bytes += strlen(argv[i]) + 1;
        for (const char *comma = strchr(argv[i], ','); comma != NULL;
             comma = strchr(comma + 1, ','))
            values++;
    }
    ret->words = calloc((size_t)argc + 1, sizeof *ret->words);
    ret->ids = calloc((size_t)argc + 1, sizeof *ret->ids);
    ret->given = calloc(values, sizeof *ret->given);
    ret->split = calloc(bytes, 1);
    if (ret->words == NULL || ret->ids == NULL || ret->given == NULL || ret->split == NULL)
        return cli_no_memory(verb);

    struct parser parser = {
        .args = ret, .argc = argc, .argv = argv, .at = 1, .split = ret->split, .given_cap = values};
    for (; parser.at < argc; parser.at++) {
        enum cli_exit code =
            strcmp(argv[parser.at], "--") == 0 ? parse_rest(&parser) : parse_one(&parser);
        if (code != CLI_DONE)
            return code;
    }
    return check_words(ret);
}

void args_free(struct args *args)
{
    free(args->words);
    free(args->ids);
    free(args->given);
    free(args->split);
    *args = (struct args){0};
}

/* ---- what was given ---- */

const char *cli_word(const struct args *args, size_t at)
{
    return at < args->word_count ? args->words[at] : NULL;
}

/* The given option of that name at a place, counted from 0. */
static const struct given *given_at(const struct args *args, const char *name, size_t at)
{
    assert(find(args->verb, name) != NULL);
    for (size_t i = 0; i < args->given_count; i++)
        if (strcmp(args->given[i].option->name, name) == 0 && at-- == 0)
            return &args->given[i];
    return NULL;
}

bool cli_has(const struct args *args, const char *name)
{
    return given_at(args, name, 0) != NULL;
}

const char *cli_value(const struct args *args, const char *name)
{
    return cli_value_at(args, name, 0);
}

const char *cli_value_at(const struct args *args, const char *name, size_t at)
{
    const struct given *given = given_at(args, name, at);
    return given != NULL ? given->value : NULL;
}

size_t cli_count(const struct args *args, const char *name)
{
    size_t count = 0;
    while (given_at(args, name, count) != NULL)
        count++;
    return count;
}

enum cli_exit cli_number(const struct args *args, const char *name, long long min, long long max,
                         long long *ret)
{
    const char *said = cli_value(args, name);
    if (said == NULL)
        return CLI_DONE;
    char *end;
    errno = 0;
    long long number = strtoll(said, &end, 10);
    bool digits =
        said[0] == '-' ? said[1] >= '0' && said[1] <= '9' : said[0] >= '0' && said[0] <= '9';
    if (!digits || *end != '\0' || errno != 0 || number < min || number > max)
        return cli_usage(args->verb, "%s must be a whole number from %lld to %lld, not '%s'", name,
                         min, max, said);
    *ret = number;
    return CLI_DONE;
}

enum cli_exit cli_duration(const struct args *args, const char *name, long long *ret_ms)
{
    const char *said = cli_value(args, name);
    if (said == NULL || duration_parse(said, ret_ms))
        return CLI_DONE;
    return cli_usage(args->verb, "%s must be a duration like 30s, 1h30m or 500ms, not '%s'", name,
                     said);
}

enum cli_exit cli_put_number(const struct args *args, const char *name, long long min,
                             long long max, struct pawl_object *request, const char *key)
{
    long long number = 0;
    enum cli_exit code = cli_number(args, name, min, max, &number);
    if (code == CLI_DONE && cli_has(args, name))
        pawl_object_int(request, key, number);
    return code;
}

enum cli_exit cli_put_duration(const struct args *args, const char *name,
                               struct pawl_object *request, const char *key)
{
    long long ms = 0;
    enum cli_exit code = cli_duration(args, name, &ms);
    if (code == CLI_DONE && cli_has(args, name))
        pawl_object_int(request, key, ms);
    return code;
}

void cli_put_text(const struct args *args, const char *name, struct pawl_object *request,
                  const char *key)
{
    pawl_object_text(request, key, cli_value(args, name));
}

enum cli_exit cli_put_joined(const struct args *args, const char *name, struct pawl_object *request,
                             const char *key)
{
    size_t count = cli_count(args, name);
    size_t bytes = 1;
    if (count == 0)
        return CLI_DONE;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(cli_value_at(args, name, i)) + 1;
    char *joined = malloc(bytes);
    if (joined == NULL)
        return cli_no_memory(args->verb);
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const char *value = cli_value_at(args, name, i);
        if (i > 0)
            joined[end++] = ',';
        memcpy(joined + end, value, strlen(value) + 1);
        end += strlen(value);
    }
    pawl_object_text(request, key, joined);
    free(joined);
    return CLI_DONE;
}
