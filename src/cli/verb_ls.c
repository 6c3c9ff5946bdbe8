#include <stdio.h>

#include "cli/cli.h"
#include "cli/filter.h"
#include "cli/job_view.h"
#include "cli/screen.h"

enum { PAGE_MAX = 500, LIMIT = 50, LIMIT_MAX = 1000000, LABELS_MAX = 17 /* one too many */ };

/* All labels but the first. */
static void put_labels(const struct args *args, struct pawl_object *request)
{
    const char *labels[LABELS_MAX];
    size_t count = cli_count(args, "--label");
    size_t more = 0;
    for (size_t i = 1; i < count && more < LABELS_MAX; i++)
        labels[more++] = cli_value_at(args, "--label", i);
    if (more > 0)
        pawl_object_list(request, "labels", labels, more);
}

static enum cli_exit make_request(const struct args *args, long long limit, const char *cursor,
                                  struct pawl_object *request)
{
    cli_put_text(args, "--kind", request, "kind");
    cli_put_text(args, "--queue", request, "queue");
    cli_put_text(args, "--agent", request, "agent_id");
    cli_put_text(args, "--correlation", request, "correlation_id");
    cli_put_text(args, "--label", request, "label");
    cli_put_text(args, "--key", request, "idempotency_key");
    cli_put_text(args, "--search", request, "search");
    put_labels(args, request);
    pawl_object_int(request, "limit", limit < PAGE_MAX ? limit : PAGE_MAX);
    pawl_object_text(request, "cursor", cursor);
    enum cli_exit code = cli_put_joined(args, "--status", request, "status");
    if (code == CLI_DONE)
        code = cli_put_joined(args, "--include", request, "include");
    if (code != CLI_DONE)
        return code;
    code = filter_put_time(args, "--created-after", cli_value(args, "--created-after"), request,
                           "created_after");
    if (code == CLI_DONE)
        code = filter_put_time(args, "--created-before", cli_value(args, "--created-before"),
                               request, "created_before");
    return code;
}

static enum cli_exit ask(const struct args *args, struct pawl *pawl, long long limit,
                         const char *cursor, char **ret_answer)
{
    struct pawl_object *request = pawl_object_new();
    enum cli_exit code = make_request(args, limit, cursor, request);
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    return cli_ask(args, pawl, pawl_list, request, ret_answer);
}

/* Fills the table, page after page. *cursor is where to start, and then where more is; NULL: there
 * is no more. */
static enum cli_exit fill(const struct args *args, struct pawl *pawl, long long limit,
                          struct table *table, char **cursor)
{
    while (limit > 0) {
        char *text;
        enum cli_exit code = ask(args, pawl, limit, *cursor, &text);
        if (code != CLI_DONE)
            return code;
        struct pawl_json answer = pawl_json_read(text);
        struct pawl_json next = pawl_json_get(answer, "next_cursor");
        struct pawl_json jobs = pawl_json_get(answer, "jobs");
        struct pawl_json job = {NULL, 0};
        while (pawl_json_next(jobs, &job, NULL) != 0) {
            jobs_table_add(table, job);
            limit--;
        }
        pawl_free(*cursor);
        *cursor = next.at != NULL ? pawl_json_text(next) : NULL;
        pawl_free(text);
        if (*cursor == NULL)
            break;
    }
    return CLI_DONE;
}

static enum cli_exit print_table(const struct args *args, struct pawl *pawl, long long limit)
{
    struct table *table = jobs_table();
    const char *from = cli_value(args, "--cursor");
    char *cursor = from != NULL ? pawl_copy(from) : NULL;
    enum cli_exit code = fill(args, pawl, limit, table, &cursor);
    bool more = cursor != NULL;
    pawl_free(cursor);
    if (code != CLI_DONE) {
        table_free(table);
        return code;
    }
    code = table_finish(args->verb, table, "No matching jobs.");
    if (more && screen_is_terminal())
        cli_remark("More results exist; use --limit N to show them.");
    return code;
}

static enum cli_exit run(const struct args *args)
{
    bool json = cli_has(args, "--json");
    long long limit = LIMIT;
    struct pawl *pawl;
    enum cli_exit code = cli_number(args, "--limit", 1, json ? PAGE_MAX : LIMIT_MAX, &limit);
    if (code == CLI_DONE && cli_has(args, "--include") && !json)
        code =
            cli_usage(args->verb, "--include requires --json; 'pawl show ID' prints a whole job");
    if (code == CLI_DONE)
        code = cli_open(args, false, &pawl);
    if (code != CLI_DONE)
        return code;

    char *answer;
    if (!json) {
        code = print_table(args, pawl, limit);
    } else {
        code = ask(args, pawl, limit, cli_value(args, "--cursor"), &answer);
        if (code == CLI_DONE) {
            print_answer(answer);
            pawl_free(answer);
        }
    }
    pawl_close(pawl);
    return code;
}

static const struct option options[] = {
    {.name = "--status",
     .value = "S",
     .field = "status",
     .text = "only jobs with one of these statuses",
     .times = OPTION_MANY},
    {.name = "--kind", .value = "K", .field = "kind", .text = "only jobs of this kind"},
    {.name = "--queue", .value = "Q", .field = "queue", .text = "only jobs of this queue"},
    {.name = "--agent", .value = "A", .field = "agent_id", .text = "only jobs of this agent"},
    {.name = "--correlation",
     .value = "C",
     .field = "correlation_id",
     .text = "only jobs with this correlation id"},
    {.name = "--label",
     .value = "K:V",
     .field = "label",
     .text = "only jobs with all of these labels",
     .times = OPTION_MANY},
    {.name = "--key",
     .value = "K",
     .field = "idempotency_key",
     .text = "the job with this idempotency key in --queue (default: default)"},
    {.name = "--created-before",
     .value = "TIME",
     .text = "only jobs created before this time, or 1h for an hour ago"},
    {.name = "--created-after",
     .value = "TIME",
     .text = "only jobs created after this time, or 1h for the last hour"},
    {.name = "--search",
     .value = "TEXT",
     .field = "search",
     .text = "search in id, names, labels, goal and error"},
    {.name = "--limit",
     .value = "N",
     .text = "maximum number of jobs (default: 50; at most 500 with --json)"},
    {.name = "--cursor",
     .value = "TEXT",
     .field = "cursor",
     .text = "continue at this next_cursor"},
    {.name = "--include",
     .value = "PART",
     .field = "include",
     .text = "include payload,result (requires --json)",
     .times = OPTION_MANY},
    {0},
};

const struct verb verb_ls = {
    .name = "ls",
    .summary = "list jobs, newest first",
    .about = "Lists jobs, newest first.\n",
    .options = options,
    .examples = "  pawl ls --status failed,dead_lettered\n"
                "  pawl ls --kind email --created-after 1h --json\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
