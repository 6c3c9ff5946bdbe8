#include "cli/cli.h"
#include "cli/queue_switch.h"

static enum cli_exit run(const struct args *args)
{
    static const struct queue_switch how = {
        .call = pawl_pause, .past = "paused", .can_create = true};
    return queue_switch(args, &how);
}

static const struct option options[] = {
    {.name = "--create", .text = "also pause queues that have no jobs yet"},
    {0},
};

const struct verb verb_pause = {
    .name = "pause",
    .summary = "pause a queue",
    .arguments = "QUEUE...",
    .about = "Pauses queues: no worker can claim their jobs until 'pawl resume'. Running jobs\n"
             "continue.\n",
    .options = options,
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
