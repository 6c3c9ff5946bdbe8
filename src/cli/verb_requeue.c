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
    {.name = "--fresh", .text = "discard recorded effects, so that they run again"},
    {.name = "--reason", .value = "TEXT", .text = "reason, recorded in the history"},
    BULK_OPTIONS,
    {0},
};

const struct verb verb_requeue = {
    .name = "requeue",
    .summary = "requeue failed jobs, or retry now",
    .arguments = "[ID...]",
    .about = "Queues failed jobs and dead letters again, and ends the backoff of retrying jobs.\n"
             "Recorded effects do not run again, unless --fresh is given.\n"
             "\n" FILTER_ABOUT,
    .options = options,
    .examples = "  pawl requeue 0190163d-8694-739b-aea5-966c26f8ad91\n"
                "  pawl requeue --filter status=failed --filter created_after=1h --rate 10\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
