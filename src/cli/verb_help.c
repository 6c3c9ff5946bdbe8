#include "cli/cli.h"

static enum cli_exit run(const struct args *args)
{
    const char *name = cli_word(args, 0);
    if (cli_has(args, "--man")) {
        if (name != NULL)
            return cli_usage(args->verb, "--man takes no command, but got '%s'", name);
        help_man();
        return CLI_DONE;
    }
    if (name == NULL) {
        help_overview();
        return CLI_DONE;
    }
    const struct verb *verb = cli_verb(name);
    if (verb == NULL)
        return CLI_USAGE;
    help_write(verb);
    return CLI_DONE;
}

static const struct option options[] = {
    {.name = "--man", .text = "print the man page in roff format"},
    {0},
};

const struct verb verb_help = {
    .name = "help",
    .summary = "show help for all commands or one of them",
    .arguments = "[VERB]",
    .about = "Lists the commands, or shows help for one. 'pawl COMMAND --help' prints the same.\n",
    .options = options,
    .examples = "  pawl help submit\n"
                "  pawl help --man | man -l -\n",
    .run = run,
};
