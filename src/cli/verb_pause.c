#include "cli/cli.h"
#include "cli/queue_switch.h"

static enum cli_exit run(const struct args *args)
{
    return queue_switch(args, pawl_pause, "paused");
}

const struct verb verb_pause = {
    .name = "pause",
    .summary = "give out no more work of a queue",
    .arguments = "QUEUE...",
    .about =
        "Pauses queues: their jobs stay, but no worker is given one until 'pawl resume'. Work\n"
        "that is under way goes on.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
