#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "pawl.h"

static bool parse_kind(const char *word, enum pawl_machine_kind *ret)
{
    if (strcmp(word, "job") == 0)
        *ret = PAWL_MACHINE_JOB;
    else if (strcmp(word, "step") == 0)
        *ret = PAWL_MACHINE_STEP;
    else
        return false;
    return true;
}

static bool parse_format(const char *word, enum pawl_machine_format *ret)
{
    if (strcmp(word, "table") == 0)
        *ret = PAWL_FORMAT_TABLE;
    else if (strcmp(word, "tsv") == 0)
        *ret = PAWL_FORMAT_TSV;
    else if (strcmp(word, "mermaid") == 0)
        *ret = PAWL_FORMAT_MERMAID;
    else
        return false;
    return true;
}

struct arguments {
    enum pawl_machine_kind kind; /* 0: not said */
    enum pawl_machine_format format;
};

static enum cli_exit parse(int argc, char **argv, struct arguments *ret)
{
    struct arguments arguments = {.format = PAWL_FORMAT_TABLE};
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (cli_option(argc, argv, &i, "--format", &value)) {
            if (value == NULL)
                return cli_usage(&verb_machine, "--format needs one of: table, tsv, mermaid");
            if (!parse_format(value, &arguments.format))
                return cli_usage(&verb_machine,
                                 "there is no format '%s'; choose from table, tsv, mermaid", value);
        } else if (argv[i][0] == '-') {
            return cli_usage(&verb_machine, "there is no option '%s'", argv[i]);
        } else if (arguments.kind != 0) {
            return cli_usage(&verb_machine, "one machine at a time, not '%s' too", argv[i]);
        } else if (!parse_kind(argv[i], &arguments.kind)) {
            return cli_usage(&verb_machine, "there is no machine '%s'; choose from job, step",
                             argv[i]);
        }
    }
    if (arguments.kind == 0)
        return cli_usage(&verb_machine, "say which machine: job or step");

    *ret = arguments;
    return CLI_DONE;
}

static enum cli_exit run(int argc, char **argv)
{
    struct arguments arguments = {0};
    enum cli_exit wrong = parse(argc, argv, &arguments);
    if (wrong != CLI_DONE)
        return wrong;

    char *text;
    enum pawl_code code = pawl_machine(arguments.kind, arguments.format, &text);
    if (code != PAWL_OK) {
        fprintf(stderr, "pawl machine: %s\n", pawl_code_text(code));
        return CLI_FAILED;
    }
    fputs(text, stdout);
    pawl_free(text);
    return CLI_DONE;
}

const struct verb verb_machine = {
    .name = "machine",
    .summary = "how jobs and steps move from state to state",
    .help = "usage: pawl machine job|step [--format table|tsv|mermaid]\n"
            "\n"
            "Prints every legal move of a job, or of a step of a job's plan, as this program\n"
            "obeys them. It needs no store.\n"
            "\n"
            "  --format table    for people (if nothing is said)\n"
            "  --format tsv      for programs: a move a line, from, event and to for a job,\n"
            "                    from and to for a step, divided by tabs\n"
            "  --format mermaid  a diagram for Markdown pages\n",
    .run = run,
};
