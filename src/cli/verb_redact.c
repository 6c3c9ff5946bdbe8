#include "cli/cli.h"
#include "cli/confirm.h"

static enum cli_exit run(const struct args *args)
{
    struct pawl *pawl;
    enum cli_exit result =
        confirm(args, "permanently erases the payloads, results, errors and labels of %zu job%s",
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
    .summary = "erase the data of ended jobs",
    .arguments = "ID...",
    .about =
        "Permanently erases the data of ended jobs: payloads, results, errors, prompts, answers,\n"
        "labels and goals. The history of states and times and its hashes are kept, so 'pawl\n"
        "verify' still works. An erased job cannot be run again. Copies in backups and exports\n"
        "are not affected. Must be confirmed: on a terminal by typing yes, elsewhere with --yes.\n",
    .options = options,
    .examples = "  pawl redact 0190163d-8694-739b-aea5-966c26f8ad91 --yes\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
