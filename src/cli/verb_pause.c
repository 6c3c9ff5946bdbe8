#include "cli/cli.h"
#include "cli/queue_switch.h"

static enum cli_exit run(const struct args *args)
{
    static const struct queue_switch how = {
        .call = pawl_pause, .past = "paused", .can_create = true};
    return queue_switch(args, &how);
}

static const struct option options[] = {
    {.name = "--create", .text = "also queues that hold no jobs yet"},
    {0},
};

const struct verb verb_pause = {
    .name = "pause",
    .summary = "give out no more work of a queue",
    .arguments = "QUEUE...",
    .about =
        "Pauses queues: their jobs stay, but no worker is given one until 'pawl resume'. Work\n"
        "that is under way goes on.\n",
    .options = options,
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
