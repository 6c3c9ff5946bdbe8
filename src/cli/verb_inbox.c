#include <stdio.h>

#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/when.h"

static const struct column columns[] = {
    {.title = "ID"},
    {.title = "STEP", .gives_way = true},
    {.title = "KIND", .optional = true, .gives_way = true},
    {.title = "QUESTION", .gives_way = true},
    {.title = "CHOICES", .gives_way = true},
    {.title = "ASKED", .optional = true, .gives_way = true},
    {.title = "SINCE"},
    {.title = "UNTIL", .optional = true},
};

/* The deadline, and the answer that is given then if there is one. */
static void put_deadline(struct table *table, struct pawl_json question)
{
    struct pawl_json otherwise = pawl_json_get(question, "default_answer");
    char *until = pawl_json_text(pawl_json_get(question, "until"));
    char *answer = otherwise.at != NULL ? pawl_json_text(otherwise) : NULL;
    long long ms;
    if (until == NULL || answer == NULL || !when_parse(until, &ms)) {
        table_time(table, pawl_json_get(question, "until"));
    } else {
        char relative[WHEN_LEN_MAX];
        char text[WHEN_LEN_MAX + 128];
        when_relative(ms, when_now(), relative);
        snprintf(text, sizeof text, "%s, then %s", relative, answer);
        table_text(table, text);
    }
    pawl_free(answer);
    pawl_free(until);
}

static void add_row(struct table *table, struct pawl_json question)
{
    table_value(table, pawl_json_get(question, "id"));
    table_value(table, pawl_json_get(question, "step"));
    table_value(table, pawl_json_get(question, "kind"));
    table_value(table, pawl_json_get(question, "prompt"));
    table_json(table, pawl_json_get(question, "choices"));
    table_value(table, pawl_json_get(question, "assignee"));
    table_time(table, pawl_json_get(question, "since"));
    put_deadline(table, question);
}

/* One page, from `cursor` on if there is one. */
static enum cli_exit ask_page(const struct args *args, const char *cursor, char **ret)
{
    enum { LIMIT_MAX = 500 };
    struct pawl_object *request = pawl_object_new();
    enum cli_exit code = cli_put_number(args, "--limit", 1, LIMIT_MAX, request, "limit");
    cli_put_text(args, "--assignee", request, "assignee");
    if (cursor != NULL)
        pawl_object_text(request, "cursor", cursor);
    else
        cli_put_text(args, "--cursor", request, "cursor");
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    return cli_ask_once(args, pawl_inbox, request, ret);
}

/* A page may be short, or empty: the questions of others are left out of it. So all are asked for,
 * unless somebody wants so many. */
static enum cli_exit add_pages(const struct args *args, struct table *table)
{
    char *cursor = NULL;
    enum cli_exit code;
    do {
        char *answer;
        code = ask_page(args, cursor, &answer);
        pawl_free(cursor);
        cursor = NULL;
        if (code != CLI_DONE)
            break;
        struct pawl_json said = pawl_json_read(answer);
        struct pawl_json questions = pawl_json_get(said, "questions");
        struct pawl_json next = pawl_json_get(said, "next_cursor");
        struct pawl_json question = {NULL, 0};
        bool found = false;
        while (pawl_json_next(questions, &question, NULL) != 0) {
            add_row(table, question);
            found = true;
        }
        if (next.at != NULL && !(found && cli_has(args, "--limit")))
            cursor = pawl_json_text(next);
        pawl_free(answer);
    } while (cursor != NULL);
    return code;
}

static enum cli_exit run(const struct args *args)
{
    char *answer;
    if (cli_has(args, "--json")) {
        enum cli_exit code = ask_page(args, NULL, &answer);
        if (code != CLI_DONE)
            return code;
        print_answer(answer);
        pawl_free(answer);
        return CLI_DONE;
    }
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    enum cli_exit code = add_pages(args, table);
    if (code == CLI_DONE)
        return table_finish(args->verb, table, "No open questions.");
    table_free(table);
    return code;
}

static const struct option options[] = {
    {.name = "--assignee",
     .value = "WHO",
     .field = "assignee",
     .text = "only questions assigned to WHO"},
    {.name = "--limit", .value = "N", .text = "maximum number of jobs (default: all)"},
    {.name = "--cursor",
     .value = "TEXT",
     .field = "cursor",
     .text = "continue at this next_cursor"},
    {0},
};

const struct verb verb_inbox = {
    .name = "inbox",
    .summary = "list open questions",
    .about =
        "Lists open questions of jobs and steps, newest first. 'pawl approve' and 'pawl reject'\n"
        "answer them. UNTIL is the deadline, after which the default answer is used if there is\n"
        "one. --json also shows goal, labels, correlation id and payload.\n",
    .options = options,
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
