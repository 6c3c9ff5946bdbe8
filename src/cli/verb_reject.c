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
    .summary = "answer an open question with no",
    .arguments = "ID [STEP]",
    .about =
        "Answers an open question with {\"approved\": false}. If 'pawl inbox' shows choices, use\n"
        "'pawl approve --answer' with one of them instead. A plan step that only waits for the\n"
        "answer fails. Rejecting an effect in doubt fails the job when it begins the effect\n"
        "again.\n",
    .options = options,
    .examples = "  pawl reject 0190163d-8694-739b-aea5-966c26f8ad91 --comment 'too expensive'\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
