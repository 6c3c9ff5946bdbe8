/* The entry of the command line: finds the verb, reads its arguments, runs it, and makes sure that
 * what it printed has arrived. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

const struct verb_line cli_verbs[] = {
#define GROUP(text) {.title = (text)},
#define VERB(name) {.verb = &verb_##name},
#include "cli/verbs.def"
#undef GROUP
#undef VERB
};
const size_t cli_verb_count = sizeof cli_verbs / sizeof cli_verbs[0];

const struct verb *cli_verb(const char *name)
{
    const char *names[sizeof cli_verbs / sizeof cli_verbs[0]];
    size_t count = 0;
    for (size_t i = 0; i < cli_verb_count; i++) {
        const struct verb *verb = cli_verbs[i].verb;
        if (verb == NULL)
            continue;
        if (strcmp(name, verb->name) == 0)
            return verb;
        names[count++] = verb->name;
    }

    const char *nearest = nearest_word(name, names, count);
    if (nearest == NULL)
        cli_remark("pawl: unknown command '%s'", name);
    else
        cli_remark("pawl: unknown command '%s'. Did you mean '%s'?", name, nearest);
    cli_remark("'pawl help' lists all commands.");
    return NULL;
}

/* Options belong to verbs, so none can stand in front of one. */
static enum cli_exit option_first(int argc, char **argv)
{
    const char *verb = "VERB";
    for (int i = 2; i < argc && strcmp(verb, "VERB") == 0; i++)
        for (size_t v = 0; v < cli_verb_count; v++)
            if (cli_verbs[v].verb != NULL && strcmp(argv[i], cli_verbs[v].verb->name) == 0)
                verb = cli_verbs[v].verb->name;
    cli_remark("pawl: options follow the command: pawl %s %s ...", verb, argv[1]);
    cli_remark("'pawl help' lists all commands.");
    return CLI_USAGE;
}

/* Whether a verb is asked for its help; what stands behind "--" is not for us. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static enum cli_exit run_verb(const struct verb *verb, int argc, char **argv)
{
    struct args args;
    enum cli_exit code = args_parse(verb, argc, argv, &args);
    if (code == CLI_DONE)
        code = cli_expand_ids(&args);
    if (code == CLI_DONE)
        code = verb->run(&args);
    args_free(&args);
    return code;
}

static enum cli_exit run(int argc, char **argv)
{
    if (argc < 2) {
        help_overview();
        return CLI_DONE;
    }

    char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return run_verb(&verb_help, argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        return run_verb(&verb_version, argc - 1, argv + 1);
    if (name[0] == '-')
        return option_first(argc, argv);

    const struct verb *verb = cli_verb(name);
    if (verb == NULL)
        return CLI_USAGE;
    if (wants_help(argc - 1, argv + 1)) {
        help_write(verb);
        return CLI_DONE;
    }
    return run_verb(verb, argc - 1, argv + 1);
}

/* A message must not end up in whatever file is opened next. */
static void fill_standard_files(void)
{
    int file;
    do
        file = open("/dev/null", O_RDWR);
    while (file >= 0 && file <= STDERR_FILENO);
    if (file > STDERR_FILENO)
        (void)close(file);
}

int main(int argc, char **argv)
{
    fill_standard_files();
    enum cli_exit code = run(argc, argv);

    /* A full disk shows only here; without this a cut file would look like success. */
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == CLI_DONE) {
        cli_remark("pawl: cannot write the output: %s", strerror(errno));
        code = CLI_FAILED;
    }
    return (int)code;
}
