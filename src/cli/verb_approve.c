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
        "Answers a job that waits for a person with {\"approved\": true}, and with the answer\n"
        "and the name if they are given. A step gets the answer itself, if there is one. Where\n"
        "'pawl inbox' has choices the answer must be one of them. To an effect in doubt it is\n"
        "retry (do it again) or done (it has happened).\n",
    .options = options,
    .examples = "  pawl inbox\n"
                "  pawl approve 0190163d-8694-739b-aea5-966c26f8ad91 --answer 'up to 500 euros'\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
