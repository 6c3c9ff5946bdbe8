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
        return cli_usage(args->verb, "--grace is for a soft cancel: remove --hard");
    static const struct steer cancel = {
        .action = "cancel", .past = "cancelled", .one = pawl_cancel, .put = put};
    return steer_run(args, &cancel);
}

static const struct option options[] = {
    FILTER_OPTION,
    {.name = "--hard", .text = "cancel immediately and revoke the lease"},
    {.name = "--grace",
     .value = "D",
     .field = "grace_ms",
     .text = "grace period (default: of the kind or server, 30s)"},
    {.name = "--reason", .value = "TEXT", .text = "reason, recorded in the history"},
    BULK_OPTIONS,
    {0},
};

const struct verb verb_cancel = {
    .name = "cancel",
    .summary = "cancel jobs, by id or by filter",
    .arguments = "[ID...]",
    .about =
        "Cancels jobs. A job without a worker is cancelled immediately. A worker is asked to stop\n"
        "at its next heartbeat and gets a grace period; with --hard the lease is revoked\n"
        "immediately and later reports of the worker are rejected.\n"
        "\n" FILTER_ABOUT,
    .options = options,
    .examples = "  pawl cancel 0190163d-8694-739b-aea5-966c26f8ad91 --reason 'not needed'\n"
                "  pawl cancel --filter kind=email --filter status=queued --dry-run\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
