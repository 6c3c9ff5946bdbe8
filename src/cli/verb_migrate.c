#include <stdio.h>

#include "cli/cli.h"

static enum cli_exit run(const struct args *args)
{
    struct pawl_error error = {0};
    struct pawl_migration migration;
    enum pawl_code code = pawl_migrate(cli_store_url(args), &migration, &error);
    /* A store that is not there is out of reach for every verb that does not make one. */
    if (code == PAWL_NOT_FOUND)
        error.code = PAWL_UNAVAILABLE;
    if (code != PAWL_OK)
        return cli_failed(args->verb, &error);
    if (cli_has(args, "--json"))
        printf("{\"from\":%lld,\"to\":%lld}\n", migration.from, migration.to);
    else if (migration.from == migration.to)
        printf("The schema is up to date: version %lld.\n", migration.to);
    else
        printf("The schema was version %lld and is now version %lld.\n", migration.from,
               migration.to);
    return CLI_DONE;
}

const struct verb verb_migrate = {
    .name = "migrate",
    .summary = "update the schema of a store",
    .about =
        "Updates the schema of a store to the version of this program. A SQLite file is updated\n"
        "whenever it is opened, after a copy is made next to it; a PostgreSQL database only by\n"
        "this command, so that servers can be upgraded one by one.\n",
    .examples = "  pawl migrate --store postgres://localhost/jobs\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
