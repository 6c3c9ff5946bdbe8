#include "cli/cli.h"
#include "cli/verdict.h"

static enum cli_exit run(const struct args *args)
{
    return verdict_run(args, false);
}

static const struct option options[] = {
    VERDICT_OPTIONS,
    {0},
};

const struct verb verb_reject = {
    .name = "reject",
    .summary = "answer no to a job or step that asks a person",
    .arguments = "ID [STEP]",
    .about =
        "Answers a job or a step that asks a person with {\"approved\": false}. Where 'pawl "
        "inbox'\n"
        "has choices there is no plain no: 'pawl approve --answer' takes one of them. A step of a\n"
        "plan that only waits for the answer fails, and so does an effect in doubt: its job fails\n"
        "when it begins the effect again.\n",
    .options = options,
    .examples = "  pawl reject 0190163d-8694-739b-aea5-966c26f8ad91 --comment 'too expensive'\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
