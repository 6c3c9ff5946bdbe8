#include <stdio.h>

#include "cli/cli.h"
#include "pawl.h"

static enum cli_exit run(int argc, char **argv)
{
    if (argc > 1)
        return cli_usage(&verb_version, "there is nothing to say about '%s'", argv[1]);
    printf("pawl %s\n", pawl_version());
    return CLI_DONE;
}

const struct verb verb_version = {
    .name = "version",
    .summary = "which version of Pawl this is",
    .help = "usage: pawl version\n"
            "\n"
            "Prints the version of the library that runs, as 'pawl MAJOR.MINOR.PATCH'.\n",
    .run = run,
};
