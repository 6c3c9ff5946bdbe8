#include "cli/cli.h"
#include "cli/confirm.h"

static enum cli_exit run(const struct args *args)
{
    struct pawl *pawl;
    enum cli_exit result =
        confirm(args, "erases the payloads, results, errors and labels of %zu job%s for ever",
                args->word_count, args->word_count == 1 ? "" : "s");
    if (result == CLI_DONE)
        result = cli_open(args, false, &pawl);
    if (result != CLI_DONE)
        return result;
    for (size_t i = 0; i < args->word_count; i++) {
        enum cli_exit code = cli_do_one(args, pawl, pawl_redact, args->words[i], "erased");
        result = result == CLI_DONE ? code : result;
    }
    pawl_close(pawl);
    return result;
}

static const struct option options[] = {
    CONFIRM_OPTION,
    {0},
};

const struct verb verb_redact = {
    .name = "redact",
    .summary = "erase the payloads of jobs that have ended",
    .arguments = "ID...",
    .about =
        "Erases everything that callers and workers have put into jobs: payloads, results,\n"
        "errors, prompts, answers, labels, goals. What happened and when stays, and so do the\n"
        "hashes: 'pawl verify' still holds. Only jobs that have ended can be erased; such a job\n"
        "cannot be run again. Copies, in backups and exports, are not reached.\n"
        "It must be confirmed: on a terminal by typing yes, elsewhere with --yes.\n",
    .options = options,
    .examples = "  pawl redact 0190163d-8694-739b-aea5-966c26f8ad91 --yes\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
