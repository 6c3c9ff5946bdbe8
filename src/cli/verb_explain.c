#include <stdio.h>

#include "cli/cli.h"
#include "cli/screen.h"

static void print_list(const char *title, struct pawl_json list)
{
    struct pawl_json item = {NULL, 0};
    bool first = true;
    while (pawl_json_next(list, &item, NULL) != 0) {
        if (first)
            printf("\n%s\n", title);
        first = false;
        fputs("  - ", stdout);
        print_value(item);
        fputc('\n', stdout);
    }
}

static enum cli_exit run(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_text(request, "id", cli_word(args, 0));
    enum cli_exit code = cli_ask_once(args, pawl_explain, request, &answer);
    if (code != CLI_DONE)
        return code;
    struct pawl_json value = pawl_json_read(answer);
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        print_value(pawl_json_get(value, "summary"));
        fputc('\n', stdout);
        print_list("Why:", pawl_json_get(value, "reasons"));
        print_list("Next actions:", pawl_json_get(value, "moves"));
    }
    pawl_free(answer);
    return CLI_DONE;
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "explain the status of a job and list the next actions",
    .arguments = "ID",
    .about =
        "Explains why a job has its status, what it waits for and what the next actions are.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
