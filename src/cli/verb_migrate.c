#include <stdio.h>

#include "cli/cli.h"
#include "pawl.h"

static enum cli_exit run(int argc, char **argv)
{
    const char *said = NULL;
    struct pawl_error error;
    struct pawl_migration migration;
    for (int i = 1; i < argc; i++) {
        if (!cli_store_option(argc, argv, &i, &said))
            return cli_usage(&verb_migrate, "there is no argument '%s'", argv[i]);
        if (said == NULL)
            return cli_usage(&verb_migrate, "--store needs a URL");
    }
    const char *url = cli_store_url(said);
    enum pawl_code code = pawl_migrate(url, &migration, &error);
    /* A store that is not there is out of reach for every verb that does not make one. */
    if (code == PAWL_NOT_FOUND)
        error.code = PAWL_UNAVAILABLE;
    if (code != PAWL_OK)
        return cli_failed(&verb_migrate, &error);
    if (migration.from == migration.to)
        printf("The schema is up to date: version %lld.\n", migration.to);
    else
        printf("The schema was version %lld and is now version %lld.\n", migration.from,
               migration.to);
    return CLI_DONE;
}

const struct verb verb_migrate = {
    .name = "migrate",
    .summary = "bring the schema of a store up to date",
    .help = "usage: pawl migrate [--store URL]\n"
            "\n"
            "Brings the schema of a store up to the version that this program knows. An SQLite\n"
            "file is brought up to date whenever it is opened, after a copy beside it; a\n"
            "PostgreSQL database only by this verb, so that servers can be upgraded one by one.\n"
            "\n"
            "  --store URL   sqlite:PATH or postgres://HOST/DATABASE; if nothing is said the\n"
            "                environment's PAWL_STORE, else sqlite:pawl.db\n",
    .run = run,
};
