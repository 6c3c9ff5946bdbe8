#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/screen.h"

/* On a terminal somebody can still think better of it. */
static bool is_meant(const struct args *args)
{
    char line[16] = "";
    if (cli_has(args, "--yes") || isatty(STDIN_FILENO) != 1)
        return true;
    fprintf(stderr,
            "This erases all payloads, results, errors and labels of %zu job%s, for ever. "
            "Go on? [y/N] ",
            args->word_count, args->word_count == 1 ? "" : "s");
    fflush(stderr);
    if (fgets(line, sizeof line, stdin) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    return strcmp(line, "y") == 0 || strcmp(line, "Y") == 0 || strcmp(line, "yes") == 0;
}

static enum cli_exit run(const struct args *args)
{
    struct pawl *pawl;
    enum cli_exit result = cli_open(args, false, &pawl);
    if (result != CLI_DONE)
        return result;
    bool meant = is_meant(args);
    for (size_t i = 0; i < args->word_count && meant; i++) {
        enum cli_exit code = cli_do_one(args, pawl, pawl_redact, args->words[i], "erased");
        result = result == CLI_DONE ? code : result;
    }
    pawl_close(pawl);
    if (meant)
        return result;
    cli_complain(args->verb, "nothing was erased");
    return CLI_FAILED;
}

static const struct option options[] = {
    {.name = "--yes", .text = "do not ask"},
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
        "On a terminal it asks first.\n",
    .options = options,
    .examples = "  pawl redact 0190163d-8694-739b-aea5-966c26f8ad91\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
