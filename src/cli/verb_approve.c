#include "cli/cli.h"
#include "cli/verdict.h"

static enum cli_exit run(const struct args *args)
{
    return verdict_run(args, true);
}

static const struct option options[] = {
    VERDICT_OPTIONS,
    {0},
};

const struct verb verb_approve = {
    .name = "approve",
    .summary = "answer yes to a job or step that asks a person",
    .arguments = "ID [STEP]",
    .about =
        "Answers a job or a step that asks a person. Where 'pawl inbox' has choices, --answer is\n"
        "one of them, and that is what the worker gets. Without choices the worker gets the\n"
        "answer, or {\"approved\": true} when there is none. To an effect in doubt the answer is\n"
        "retry (do it again) or done (it has happened; --result says what it gave back).\n",
    .options = options,
    .examples = "  pawl inbox\n"
                "  pawl approve 0190163d-8694-739b-aea5-966c26f8ad91 --comment 'as discussed'\n"
                "  pawl approve 0190163d-8694-739b-aea5-966c26f8ad91 --answer tonight\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
