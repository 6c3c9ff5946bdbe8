#include <stdio.h>

#include "cli/cli.h"

static enum cli_exit run(const struct args *args)
{
    if (cli_has(args, "--json"))
        printf("{\"version\":\"%s\"}\n", pawl_version());
    else
        printf("pawl %s\n", pawl_version());
    return CLI_DONE;
}

const struct verb verb_version = {
    .name = "version",
    .summary = "print the version",
    .about = "Prints the version as 'pawl MAJOR.MINOR.PATCH'.\n",
    .takes = TAKES_JSON,
    .run = run,
};
