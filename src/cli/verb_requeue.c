#include "cli/bulk.h"
#include "cli/cli.h"
#include "cli/steer.h"

static void put(const struct args *args, struct pawl_object *request)
{
    if (cli_has(args, "--fresh"))
        pawl_object_flag(request, "fresh", 1);
    cli_put_text(args, "--reason", request, "reason");
}

static enum cli_exit run(const struct args *args)
{
    static const struct steer requeue = {
        .action = "requeue", .past = "requeued", .one = pawl_requeue, .put = put};
    return steer_run(args, &requeue);
}

static const struct option options[] = {
    FILTER_OPTION,
    {.name = "--fresh", .text = "forget the recorded effects, so that they are done again"},
    {.name = "--reason", .value = "TEXT", .text = "why, for the history"},
    BULK_OPTIONS,
    {0},
};

const struct verb verb_requeue = {
    .name = "requeue",
    .summary = "run failed jobs anew, or retrying ones now",
    .arguments = "[ID...]",
    .about =
        "Gives failed jobs and dead letters another life, and ends the delay of retrying ones.\n"
        "Effects that were recorded are not done again, unless --fresh says so.\n\n" FILTER_ABOUT,
    .options = options,
    .examples = "  pawl requeue 0190163d-8694-739b-aea5-966c26f8ad91\n"
                "  pawl requeue --filter status=failed --filter created_after=1h --rate 10\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
