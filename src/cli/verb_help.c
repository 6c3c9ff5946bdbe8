#include <stdio.h>

#include "cli/cli.h"

static void overview(void)
{
    fputs("Pawl runs jobs that survive crashes, retries and long waits.\n"
          "\n"
          "usage: pawl VERB [ARGUMENT]...\n"
          "\n",
          stdout);
    for (size_t i = 0; i < cli_verb_count; i++)
        printf("  %-10s %s\n", cli_verbs[i]->name, cli_verbs[i]->summary);
    fputs("\n"
          "'pawl help VERB' says more about one of them.\n"
          "\n"
          "Exit codes: 0 done, 1 the operation failed, 2 wrong usage, 3 not found,\n"
          "4 conflict, 5 store or server out of reach.\n",
          stdout);
}

static enum cli_exit run(int argc, char **argv)
{
    if (argc > 2)
        return cli_usage(&verb_help, "one verb at a time, not '%s' too", argv[2]);
    if (argc < 2) {
        overview();
        return CLI_DONE;
    }

    const struct verb *verb = cli_verb(argv[1]);
    if (verb == NULL)
        return CLI_USAGE;
    fputs(verb->help, stdout);
    return CLI_DONE;
}

const struct verb verb_help = {
    .name = "help",
    .summary = "what the verbs do, or one of them",
    .help = "usage: pawl help [VERB]\n"
            "\n"
            "Lists the verbs, or says how one is used. 'pawl VERB --help' is the same.\n",
    .run = run,
};
