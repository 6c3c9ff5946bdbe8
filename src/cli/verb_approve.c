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
    .summary = "answer an open question",
    .arguments = "ID [STEP]",
    .about =
        "Answers an open question of a job or step. If 'pawl inbox' shows choices, --answer must\n"
        "be one of them. Without choices the worker gets the answer, or {\"approved\": true} if\n"
        "none is given. For an effect in doubt the answer is retry (run it again) or done (it\n"
        "happened; --result is its result).\n",
    .options = options,
    .examples = "  pawl inbox\n"
                "  pawl approve 0190163d-8694-739b-aea5-966c26f8ad91 --comment 'as discussed'\n"
                "  pawl approve 0190163d-8694-739b-aea5-966c26f8ad91 --answer tonight\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
