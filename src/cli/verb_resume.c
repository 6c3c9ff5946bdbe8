#include "cli/cli.h"
#include "cli/queue_switch.h"

static enum cli_exit run(const struct args *args)
{
    static const struct queue_switch how = {
        .call = pawl_resume, .past = "resumed", .can_create = false};
    return queue_switch(args, &how);
}

const struct verb verb_resume = {
    .name = "resume",
    .summary = "resume a paused queue",
    .arguments = "QUEUE...",
    .about = "Resumes paused queues.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
