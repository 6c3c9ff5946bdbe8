#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static enum pawl_machine_format format_of(const char *word)
{
    if (word != NULL && strcmp(word, "tsv") == 0)
        return PAWL_FORMAT_TSV;
    if (word != NULL && strcmp(word, "mermaid") == 0)
        return PAWL_FORMAT_MERMAID;
    return PAWL_FORMAT_TABLE;
}

static enum cli_exit run(const struct args *args)
{
    enum pawl_machine_kind kind =
        strcmp(cli_word(args, 0), "job") == 0 ? PAWL_MACHINE_JOB : PAWL_MACHINE_STEP;
    char *text;
    enum pawl_code code = pawl_machine(kind, format_of(cli_value(args, "--format")), &text);
    if (code != PAWL_OK) {
        cli_complain(args->verb, "%s", pawl_code_text(code));
        return CLI_FAILED;
    }
    fputs(text, stdout);
    pawl_free(text);
    return CLI_DONE;
}

static const struct option options[] = {
    {.name = "--format", .value = "table|tsv|mermaid", .text = "output format (default: table)"},
    {0},
};

const struct verb verb_machine = {
    .name = "machine",
    .summary = "print the state machines of jobs and steps",
    .arguments = "job|step",
    .about =
        "Prints the state transitions of a job or of a step of a plan. Needs no store. As tsv,\n"
        "each line is a transition: from, event and to for a job, from and to for a step,\n"
        "separated by tabs. A mermaid diagram is for Markdown.\n",
    .options = options,
    .examples = "  pawl machine job\n"
                "  pawl machine step --format mermaid\n",
    .run = run,
};
