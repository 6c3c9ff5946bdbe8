/* The entry of the command line: finds the verb, runs it, and makes sure that what it printed has
 * arrived. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const struct verb *const cli_verbs[] = {
    &verb_migrate,
    &verb_machine,
    &verb_help,
    &verb_version,
};
const size_t cli_verb_count = sizeof cli_verbs / sizeof cli_verbs[0];

enum { WORD_LEN_MAX = 31 };

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters must be added, dropped, changed or swapped with their neighbour to turn one word
 * into the other. Of a long word only the beginning counts. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t distance[WORD_LEN_MAX + 1][WORD_LEN_MAX + 1];
    size_t a_len = min_size(strlen(a), WORD_LEN_MAX);
    size_t b_len = min_size(strlen(b), WORD_LEN_MAX);

    for (size_t i = 0; i <= a_len; i++) {
        for (size_t k = 0; k <= b_len; k++) {
            if (i == 0 || k == 0) {
                distance[i][k] = i + k;
                continue;
            }
            size_t changed = distance[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            size_t moved = min_size(distance[i - 1][k], distance[i][k - 1]) + 1;
            distance[i][k] = min_size(changed, moved);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                distance[i][k] = min_size(distance[i][k], distance[i - 2][k - 2] + 1);
        }
    }
    return distance[a_len][b_len];
}

/* The verb that was most likely meant: one that starts like that, else the nearest within two
 * letters; NULL when none is near. */
static const struct verb *nearest_verb(const char *name)
{
    enum { NEAR = 2 };
    const struct verb *nearest = NULL;
    size_t distance = NEAR + 1;
    for (size_t i = 0; i < cli_verb_count; i++) {
        const struct verb *verb = cli_verbs[i];
        if (name[0] != '\0' && strncmp(verb->name, name, strlen(name)) == 0)
            return verb;
        size_t away = edit_distance(name, verb->name);
        if (away < distance) {
            nearest = verb;
            distance = away;
        }
    }
    return nearest;
}

const struct verb *cli_verb(const char *name)
{
    for (size_t i = 0; i < cli_verb_count; i++)
        if (strcmp(name, cli_verbs[i]->name) == 0)
            return cli_verbs[i];

    const struct verb *nearest = nearest_verb(name);
    if (nearest == NULL)
        fprintf(stderr, "pawl: there is no verb '%s'\n", name);
    else
        fprintf(stderr, "pawl: there is no verb '%s'; the nearest is '%s'\n", name, nearest->name);
    fprintf(stderr, "'pawl help' lists them all.\n");
    return NULL;
}

enum cli_exit cli_usage(const struct verb *verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "pawl %s: ", verb->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n'pawl help %s' says how it is used.\n", verb->name);
    va_end(arguments);
    return CLI_USAGE;
}

bool cli_option(int argc, char **argv, int *at, const char *name, const char **ret_value)
{
    size_t len = strlen(name);
    const char *argument = argv[*at];
    if (strncmp(argument, name, len) != 0)
        return false;

    if (argument[len] == '=') {
        *ret_value = argument + len + 1;
        return true;
    }
    if (argument[len] != '\0')
        return false;

    *ret_value = NULL;
    if (*at + 1 < argc) {
        *at += 1;
        *ret_value = argv[*at];
    }
    return true;
}

/* Whether a verb is asked for its help; what stands behind "--" is not for us. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static enum cli_exit run(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: pawl VERB [ARGUMENT]...\n'pawl help' lists the verbs.\n");
        return CLI_USAGE;
    }

    char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return verb_help.run(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        return verb_version.run(argc - 1, argv + 1);

    const struct verb *verb = cli_verb(name);
    if (verb == NULL)
        return CLI_USAGE;
    if (wants_help(argc - 1, argv + 1)) {
        fputs(verb->help, stdout);
        return CLI_DONE;
    }
    return verb->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    enum cli_exit code = run(argc, argv);

    /* A full disk shows only here; without this a cut file would look like success. */
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == CLI_DONE) {
        fprintf(stderr, "pawl: the output could not be written: %s\n", strerror(errno));
        code = CLI_FAILED;
    }
    return (int)code;
}
