#include "cli/bulk.h"
#include "cli/cli.h"

static void put(const struct args *args, struct pawl_object *request)
{
    cli_put_text(args, "--reason", request, "reason");
}

static enum cli_exit run(const struct args *args)
{
    struct pawl *pawl;
    if (args->word_count == 0)
        return cli_usage(args->verb, "missing jobs: give ID...");
    enum cli_exit code = cli_open(args, false, &pawl);
    if (code != CLI_DONE)
        return code;
    code = each_run(args, pawl, 0, pawl_run_now, put);
    pawl_close(pawl);
    return code;
}

static const struct option options[] = {
    {.name = "--reason", .value = "TEXT", .text = "reason, recorded in the history"},
    {0},
};

const struct verb verb_run = {
    .name = "run",
    .summary = "run scheduled or retrying jobs now",
    .arguments = "[ID...]",
    .about = "Makes scheduled and retrying jobs ready now. A job that is already ready does not\n"
             "change.\n",
    .options = options,
    .examples = "  pawl run 0190163d-8694-739b-aea5-966c26f8ad91\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
