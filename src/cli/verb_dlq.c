#include <string.h>

#include "cli/bulk.h"
#include "cli/cli.h"
#include "cli/confirm.h"
#include "cli/job_view.h"
#include "cli/screen.h"

static const struct column columns[] = {
    {.title = "ID"},
    {.title = "KIND", .gives_way = true},
    {.title = "QUEUE", .optional = true, .gives_way = true},
    {.title = "REASON"},
    {.title = "ATTEMPTS", .optional = true, .right = true},
    {.title = "SINCE"},
    {.title = "LAST ERROR", .gives_way = true},
};

static void add_row(struct table *table, struct pawl_json job)
{
    table_value(table, pawl_json_get(job, "id"));
    table_value(table, pawl_json_get(job, "kind"));
    table_value(table, pawl_json_get(job, "queue"));
    table_value(table, pawl_json_get(job, "dead_letter.reason_code"));
    table_value(table, pawl_json_get(job, "dead_letter.attempts"));
    table_time(table, pawl_json_get(job, "dead_letter.at"));
    table_value(table, pawl_json_get(job, "dead_letter.last_error.message"));
}

static void put_filter(const struct args *args, struct pawl_object *request)
{
    cli_put_text(args, "--kind", request, "kind");
    cli_put_text(args, "--queue", request, "queue");
    cli_put_text(args, "--reason-code", request, "reason_code");
    cli_put_text(args, "--group", request, "group");
}

static enum cli_exit run_ls(const struct args *args, struct pawl *pawl)
{
    enum { LIMIT_MAX = 500 };
    struct pawl_object *request = pawl_object_new();
    char *answer;
    enum cli_exit code = cli_put_number(args, "--limit", 1, LIMIT_MAX, request, "limit");
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    put_filter(args, request);
    cli_put_text(args, "--cursor", request, "cursor");
    code = cli_ask(args, pawl, pawl_dead_letters, request, &answer);
    if (code != CLI_DONE)
        return code;
    struct pawl_json value = pawl_json_read(answer);
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
        struct pawl_json jobs = pawl_json_get(value, "jobs");
        struct pawl_json job = {NULL, 0};
        while (pawl_json_next(jobs, &job, NULL) != 0)
            add_row(table, job);
        code = table_finish(args->verb, table, "No matching dead letters.");
        if (pawl_json_get(value, "next_cursor").at != NULL && screen_is_terminal())
            cli_remark("More results exist; use --limit N to show them.");
    }
    pawl_free(answer);
    return code;
}

static const struct column group_columns[] = {
    {.title = "GROUP"},
    {.title = "COUNT", .right = true},
    {.title = "KIND", .gives_way = true},
    {.title = "REASON"},
    {.title = "NEWEST", .optional = true},
    {.title = "ERROR", .gives_way = true},
};

/* How many there are of each kind, reason and error. */
static enum cli_exit run_groups(const struct args *args, struct pawl *pawl)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    cli_put_text(args, "--kind", request, "kind");
    cli_put_text(args, "--queue", request, "queue");
    enum cli_exit code = cli_ask(args, pawl, pawl_dead_letter_groups, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
        pawl_free(answer);
        return CLI_DONE;
    }
    struct table *table = table_new(group_columns, sizeof group_columns / sizeof group_columns[0]);
    struct pawl_json groups = pawl_json_get(pawl_json_read(answer), "groups");
    struct pawl_json group = {NULL, 0};
    while (pawl_json_next(groups, &group, NULL) != 0) {
        struct pawl_json type = pawl_json_get(group, "type");
        table_value(table, pawl_json_get(group, "group"));
        table_value(table, pawl_json_get(group, "count"));
        table_value(table, pawl_json_get(group, "kind"));
        table_value(table, pawl_json_get(group, "reason_code"));
        table_time(table, pawl_json_get(group, "newest_at"));
        table_value(table, type.at != NULL ? type : pawl_json_get(group, "message"));
    }
    code = table_finish(args->verb, table, "No dead letters.");
    pawl_free(answer);
    return code;
}

/* What is said of a job that becomes a dead letter. */
static void put_letter(const struct args *args, struct pawl_object *request)
{
    cli_put_text(args, "--reason-code", request, "reason_code");
    cli_put_text(args, "--stage", request, "stage");
    cli_put_text(args, "--message", request, "message");
}

static enum cli_exit run_show(const struct args *args, struct pawl *pawl)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_text(request, "id", cli_word(args, 1));
    enum cli_exit code = cli_ask(args, pawl, pawl_get, request, &answer);
    if (code != CLI_DONE)
        return code;
    struct pawl_json job = pawl_json_read(answer);
    if (pawl_json_get(job, "dead_letter").at == NULL) {
        cli_complain(args->verb, "%s is not a dead letter; use 'pawl show'", cli_word(args, 1));
        code = CLI_NOT_FOUND;
    } else if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        job_print(job);
    }
    pawl_free(answer);
    return code;
}

/* What redrive and drop ask for: the letter whose id `arg` is, or all that pass. */
static struct pawl_object *many_request(const struct args *args, void *arg)
{
    struct pawl_object *request = pawl_object_new();
    if (request == NULL)
        return NULL;
    pawl_object_text(request, "id", arg);
    put_filter(args, request);
    if (strcmp(cli_word(args, 0), "redrive") == 0) {
        if (cli_has(args, "--fresh"))
            pawl_object_flag(request, "fresh", 1);
        cli_put_text(args, "--reason", request, "reason");
    }
    return request;
}

/* Dropping deletes histories, so it must be confirmed. */
static enum cli_exit confirm_drop(const struct args *args, struct pawl *pawl,
                                  const struct bulk *bulk)
{
    long long count = (long long)args->word_count - 1;
    enum cli_exit code = CLI_DONE;
    if (cli_has(args, "--dry-run") || cli_has(args, "--yes"))
        return CLI_DONE;
    if (count == 0)
        code = bulk_count(args, pawl, bulk, &count);
    return code == CLI_DONE
               ? confirm(args, "permanently deletes %lld dead letter%s with all history", count,
                         count == 1 ? "" : "s")
               : code;
}

static enum cli_exit run_many(const struct args *args, struct pawl *pawl)
{
    bool redrive = strcmp(cli_word(args, 0), "redrive") == 0;
    struct bulk bulk = {
        .call = redrive ? pawl_redrive : pawl_drop,
        .past = redrive ? "redriven" : "dropped",
        .request = many_request,
    };
    enum cli_exit result = redrive ? CLI_DONE : confirm_drop(args, pawl, &bulk);
    if (result != CLI_DONE)
        return result;
    if (args->word_count == 1)
        return bulk_run(args, pawl, &bulk);
    for (size_t i = 1; i < args->word_count; i++) {
        char *id = pawl_copy(args->words[i]);
        bulk.arg = id;
        enum cli_exit code = id != NULL ? bulk_run(args, pawl, &bulk) : cli_no_memory(args->verb);
        result = result == CLI_DONE ? code : result;
        pawl_free(id);
    }
    return result;
}

/* Which of its options and words go together. */
static enum cli_exit check(const struct args *args)
{
    const char *action = cli_word(args, 0);
    bool many = strcmp(action, "redrive") == 0 || strcmp(action, "drop") == 0;
    bool filtered = cli_has(args, "--kind") || cli_has(args, "--queue") ||
                    cli_has(args, "--reason-code") || cli_has(args, "--group");
    bool named = args->word_count > 1;
    if (strcmp(action, "show") == 0 && args->word_count != 2)
        return cli_usage(args->verb, "show takes exactly one ID");
    if (strcmp(action, "ls") == 0 && named)
        return cli_usage(args->verb, "ls takes no ID; use 'pawl dlq show ID'");
    if (strcmp(action, "groups") == 0 &&
        (named || cli_has(args, "--reason-code") || cli_has(args, "--group")))
        return cli_usage(args->verb, "groups takes only --kind and --queue");
    bool add = strcmp(action, "add") == 0;
    if (add && (!named || !cli_has(args, "--reason-code")))
        return cli_usage(args->verb, "add requires ID... and --reason-code");
    if (add && (cli_has(args, "--kind") || cli_has(args, "--queue") || cli_has(args, "--group")))
        return cli_usage(args->verb, "add takes ID... but no filter");
    if (!add && (cli_has(args, "--stage") || cli_has(args, "--message")))
        return cli_usage(args->verb, "--stage and --message are for add");
    if (many && named && (filtered || cli_has(args, "--all")))
        return cli_usage(args->verb, "give IDs or a filter, not both");
    if (many && !named && !filtered && !cli_has(args, "--all"))
        return cli_usage(
            args->verb,
            "missing dead letters: give ID..., --group, --kind, --queue, --reason-code or --all");
    if (!many && (cli_has(args, "--all") || cli_has(args, "--dry-run") || cli_has(args, "--rate")))
        return cli_usage(args->verb, "--all, --dry-run and --rate are for redrive and drop");
    if (strcmp(action, "drop") != 0 && cli_has(args, "--yes"))
        return cli_usage(args->verb, "--yes is for drop");
    if (strcmp(action, "redrive") != 0 && (cli_has(args, "--fresh") || cli_has(args, "--reason")))
        return cli_usage(args->verb, "--fresh and --reason are for redrive");
    return CLI_DONE;
}

static enum cli_exit run(const struct args *args)
{
    const char *action = cli_word(args, 0);
    struct pawl *pawl;
    enum cli_exit code = check(args);
    if (code == CLI_DONE)
        code = cli_open(args, false, &pawl);
    if (code != CLI_DONE)
        return code;
    if (strcmp(action, "ls") == 0)
        code = run_ls(args, pawl);
    else if (strcmp(action, "show") == 0)
        code = run_show(args, pawl);
    else if (strcmp(action, "groups") == 0)
        code = run_groups(args, pawl);
    else if (strcmp(action, "add") == 0)
        code = each_run(args, pawl, 1, pawl_dead_letter, put_letter);
    else
        code = run_many(args, pawl);
    pawl_close(pawl);
    return code;
}

static const struct option options[] = {
    {.name = "--kind", .value = "K", .field = "kind", .text = "only jobs of this kind"},
    {.name = "--queue", .value = "Q", .field = "queue", .text = "only jobs of this queue"},
    {.name = "--reason-code",
     .value = "R",
     .field = "reason_code",
     .text = "only this reason; add: the reason"},
    {.name = "--group",
     .value = "G",
     .field = "group",
     .text = "ls, redrive, drop: only this group, as shown by groups"},
    {.name = "--stage",
     .value = "fetch|input|exec|output|commit",
     .field = "stage",
     .text = "add: the stage that failed"},
    {.name = "--message", .value = "TEXT", .field = "message", .text = "add: the error message"},
    {.name = "--all", .text = "redrive, drop: every dead letter"},
    {.name = "--fresh", .text = "redrive: discard recorded effects"},
    {.name = "--reason", .value = "TEXT", .text = "redrive: reason, recorded in the history"},
    {.name = "--yes", .text = "drop: do not ask for confirmation"},
    BULK_OPTIONS,
    {.name = "--limit", .value = "N", .text = "ls: maximum number of results (default: 50)"},
    {.name = "--cursor", .value = "TEXT", .field = "cursor", .text = "ls: continue at this cursor"},
    {0},
};

const struct verb verb_dlq = {
    .name = "dlq",
    .summary = "dead letters: list, group, show, add, redrive, drop",
    .arguments = "ls|groups|show|add|redrive|drop [ID...]",
    .about =
        "Manages dead letters: jobs that were given up after a failure. groups counts them by\n"
        "kind, reason and error; --group takes a group shown there. add dead-letters a job that\n"
        "no worker holds; redrive queues dead letters again; drop deletes them with their\n"
        "history. drop must be confirmed: on a terminal by typing yes, elsewhere with --yes.\n",
    .options = options,
    .examples = "  pawl dlq ls --reason-code exhausted_retries\n"
                "  pawl dlq groups --kind email\n"
                "  pawl dlq redrive --group 4f68b3ec62299c56 --dry-run\n"
                "  pawl dlq drop 0190163d-8694-739b-aea5-966c26f8ad91 --yes\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
