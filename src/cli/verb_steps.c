#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/table.h"

static const struct column columns[] = {
    {.title = "STEP", .gives_way = true},
    {.title = "STATE", .status = true},
    {.title = "KIND", .gives_way = true},
    {.title = "DEPS", .optional = true, .gives_way = true},
    {.title = "ATTEMPT", .optional = true, .right = true},
    {.title = "FAILURES", .optional = true, .right = true},
    {.title = "WORKER", .gives_way = true},
    {.title = "QUESTION OR ERROR", .gives_way = true},
};

static void add_row(struct table *table, struct pawl_json step)
{
    struct pawl_json question = pawl_json_get(step, "question.prompt");
    struct pawl_json message = pawl_json_get(step, "error.message");
    table_value(table, pawl_json_get(step, "id"));
    table_value(table, pawl_json_get(step, "state"));
    table_value(table, pawl_json_get(step, "kind"));
    table_json(table, pawl_json_get(step, "deps"));
    table_value(table, pawl_json_get(step, "attempt"));
    table_value(table, pawl_json_get(step, "failures"));
    table_value(table, pawl_json_get(step, "lease.worker_id"));
    table_value(table, question.at != NULL ? question : message);
}

static enum cli_exit run(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_text(request, "id", cli_word(args, 0));
    enum cli_exit code = cli_ask_once(args, pawl_steps, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
        struct pawl_json steps = pawl_json_get(pawl_json_read(answer), "steps");
        struct pawl_json step = {NULL, 0};
        while (pawl_json_next(steps, &step, NULL) != 0)
            add_row(table, step);
        code = table_finish(args->verb, table, "The job has no plan.");
    }
    pawl_free(answer);
    return code;
}

const struct verb verb_steps = {
    .name = "steps",
    .summary = "show the steps of a plan",
    .arguments = "ID",
    .about = "Prints the steps of a job's plan. With --json also the history of each.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
