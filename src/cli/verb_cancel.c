#include "cli/bulk.h"
#include "cli/cli.h"
#include "cli/steer.h"

static void put(const struct args *args, struct pawl_object *request)
{
    if (cli_has(args, "--hard"))
        pawl_object_text(request, "mode", "hard");
    cli_put_text(args, "--reason", request, "reason");
    (void)cli_put_duration(args, "--grace", request, "grace_ms"); /* checked before */
}

static enum cli_exit run(const struct args *args)
{
    long long grace_ms = 0;
    enum cli_exit code = cli_duration(args, "--grace", &grace_ms);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--grace") && cli_has(args, "--hard"))
        return cli_usage(args->verb, "--grace is for a soft cancel; leave out --hard");
    static const struct steer cancel = {
        .action = "cancel", .past = "cancelled", .one = pawl_cancel, .put = put};
    return steer_run(args, &cancel);
}

static const struct option options[] = {
    FILTER_OPTION,
    {.name = "--hard", .text = "now, whatever its worker is doing"},
    {.name = "--grace",
     .value = "D",
     .field = "grace_ms",
     .text = "until it turns hard; else as kind or server say (30s)"},
    {.name = "--reason", .value = "TEXT", .text = "why, for the history"},
    BULK_OPTIONS,
    {0},
};

const struct verb verb_cancel = {
    .name = "cancel",
    .summary = "cancel jobs, by id or by filter",
    .arguments = "[ID...]",
    .about =
        "Cancels jobs. One that no worker has is cancelled at once. A worker is told with its\n"
        "next heartbeat, and has some time to end in good order; with --hard the job is\n"
        "cancelled now, and what the worker still reports is refused.\n\n" FILTER_ABOUT,
    .options = options,
    .examples = "  pawl cancel 0190163d-8694-739b-aea5-966c26f8ad91 --reason 'not needed'\n"
                "  pawl cancel --filter kind=email --filter status=queued --dry-run\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
