#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/table.h"

enum { PAGE = 500, LIMIT_MAX = 1000, WAIT_MS = 20000 };

static const struct column columns[] = {
    {.title = "VERSION", .width_min = 7, .right = true},
    {.title = "AT", .width_min = 24},
    {.title = "TYPE", .width_min = 18},
    {.title = "ACTOR", .optional = true, .width_min = 12, .gives_way = true},
    {.title = "PAYLOAD", .gives_way = true},
};

static void add_row(struct table *table, struct pawl_json event)
{
    table_value(table, pawl_json_get(event, "version"));
    table_value(table, pawl_json_get(event, "at"));
    table_value(table, pawl_json_get(event, "type"));
    table_value(table, pawl_json_get(event, "actor"));
    table_json(table, pawl_json_get(event, "payload"));
}

/* Where the reader stands. */
struct reader {
    const struct args *args;
    struct pawl *pawl;
    long long after; /* the last version that was printed */
    long long printed;
};

static enum cli_exit ask(const struct reader *reader, long long limit, long long wait_ms,
                         char **ret_answer)
{
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", cli_word(reader->args, 0));
    pawl_object_int(request, "after", reader->after);
    pawl_object_int(request, "limit", limit);
    if (cli_has(reader->args, "--telemetry"))
        pawl_object_flag(request, "telemetry", 1);
    if (wait_ms > 0)
        pawl_object_int(request, "wait_ms", wait_ms);
    enum cli_exit code = cli_put_joined(reader->args, "--type", request, "type");
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    return cli_ask(reader->args, reader->pawl, pawl_events, request, ret_answer);
}

/* Prints a page of events, each on a line, and moves on behind all that it looked at. *ret_more:
 * there is more by now. */
static enum cli_exit print_page(struct reader *reader, struct pawl_json page, bool *ret_more)
{
    const struct args *args = reader->args;
    struct pawl_json events = pawl_json_get(page, "events");
    struct pawl_json next = pawl_json_get(page, "next");
    bool json = cli_has(args, "--json");
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    struct pawl_json event = {NULL, 0};
    long long count = 0;
    while (pawl_json_next(events, &event, NULL) != 0) {
        count++;
        reader->after = pawl_json_int(pawl_json_get(event, "version"), reader->after);
        if (json)
            print_json(event);
        else
            add_row(table, event);
    }
    enum cli_exit code = CLI_DONE;
    if (!json && count > 0)
        code = table_print(args->verb, table, reader->printed == 0);
    table_free(table);
    reader->printed += count;
    /* A server of before has neither next nor next_cursor: then only an empty page is the last. */
    *ret_more = next.at != NULL ? pawl_json_get(page, "next_cursor").at != NULL : count > 0;
    reader->after = pawl_json_int(next, reader->after);
    fflush(stdout);
    return code;
}

/* Whether the job has ended and all of its events were printed. */
static enum cli_exit is_over(const struct reader *reader, bool *ret_over)
{
    char *text;
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", cli_word(reader->args, 0));
    enum cli_exit code = cli_ask(reader->args, reader->pawl, pawl_get, request, &text);
    if (code != CLI_DONE)
        return code;
    struct pawl_json job = pawl_json_read(text);
    char *status = pawl_json_text(pawl_json_get(job, "status"));
    *ret_over = status != NULL && cli_has_ended(status) &&
                pawl_json_int(pawl_json_get(job, "version"), 0) <= reader->after;
    pawl_free(status);
    pawl_free(text);
    return CLI_DONE;
}

/* All events there are; with --follow also those to come, until the job has ended. */
static enum cli_exit print_all(struct reader *reader)
{
    bool follow = cli_has(reader->args, "--follow");
    bool over = false;
    bool more = false;
    long long wait_ms = 0;
    while (!over) {
        char *text;
        enum cli_exit code = ask(reader, PAGE, wait_ms, &text);
        if (code != CLI_DONE)
            return code;
        code = print_page(reader, pawl_json_read(text), &more);
        pawl_free(text);
        if (code != CLI_DONE)
            return code;
        if (more)
            continue;
        over = true;
        wait_ms = WAIT_MS;
        if (follow)
            code = is_over(reader, &over);
        if (code != CLI_DONE)
            return code;
    }
    if (reader->printed == 0 && !cli_has(reader->args, "--json"))
        puts("No events.");
    return CLI_DONE;
}

/* One page, as the library answers it. */
static enum cli_exit print_once(const struct reader *reader, long long limit)
{
    char *answer;
    enum cli_exit code = ask(reader, limit, 0, &answer);
    if (code != CLI_DONE)
        return code;
    struct reader copy = *reader;
    bool more;
    if (cli_has(reader->args, "--json"))
        print_answer(answer);
    else
        code = print_page(&copy, pawl_json_read(answer), &more);
    if (copy.printed == 0 && code == CLI_DONE && !cli_has(reader->args, "--json"))
        puts(cli_has(reader->args, "--telemetry") ? "No heartbeats in the last day."
                                                  : "No events.");
    pawl_free(answer);
    return code;
}

/* ---- --derive ---- */

/* A text that grows. */
struct growing {
    char *at; /* NULL: no memory */
    size_t len;
    size_t cap;
};

static void grow(struct growing *text, const char *more, size_t len)
{
    while (text->at != NULL && text->len + len + 1 > text->cap) {
        char *at = realloc(text->at, text->cap * 2);
        if (at == NULL)
            free(text->at);
        text->at = at;
        text->cap *= 2;
    }
    if (text->at == NULL)
        return;
    memcpy(text->at + text->len, more, len);
    text->len += len;
    text->at[text->len] = '\0';
}

/* All events of the job, as one array. */
static enum cli_exit read_all(struct reader *reader, struct growing *all)
{
    long long count = 1;
    grow(all, "[", 1);
    while (count > 0) {
        char *text;
        struct pawl_json event = {NULL, 0};
        enum cli_exit code = ask(reader, PAGE, 0, &text);
        if (code != CLI_DONE)
            return code;
        struct pawl_json events = pawl_json_get(pawl_json_read(text), "events");
        for (count = 0; pawl_json_next(events, &event, NULL) != 0; count++) {
            grow(all, ",", all->len > 1);
            grow(all, event.at, event.len);
            reader->after = pawl_json_int(pawl_json_get(event, "version"), reader->after);
        }
        pawl_free(text);
    }
    grow(all, "]", 1);
    return all->at != NULL ? CLI_DONE : cli_no_memory(reader->args->verb);
}

/* What the events say, in place of the events. */
static enum cli_exit print_derived(struct reader *reader)
{
    struct growing all = {.at = malloc(4096), .cap = 4096};
    struct pawl_error error = {0};
    char *status = NULL;
    int blocked = 0;
    enum cli_exit code = read_all(reader, &all);
    if (code == CLI_DONE && (pawl_derive_status(all.at, &status, &error) != PAWL_OK ||
                             pawl_is_blocked(all.at, &blocked, &error) != PAWL_OK))
        code = cli_failed(reader->args->verb, &error);
    free(all.at);
    if (code == CLI_DONE && cli_has(reader->args, "--json"))
        printf("{\"status\":\"%s\",\"blocked\":%s,\"version\":%lld}\n", status,
               blocked ? "true" : "false", reader->after);
    else if (code == CLI_DONE)
        printf("%s%s\n", status, blocked ? " (blocked)" : "");
    pawl_free(status);
    return code;
}

static enum cli_exit run(const struct args *args)
{
    struct reader reader = {.args = args};
    long long limit = 100;
    bool follow = cli_has(args, "--follow");
    enum cli_exit code = cli_number(args, "--after", 0, 1LL << 53, &reader.after);
    if (code == CLI_DONE)
        code = cli_number(args, "--limit", 1, LIMIT_MAX, &limit);
    if (code == CLI_DONE && follow && (cli_has(args, "--limit") || cli_has(args, "--telemetry")))
        code = cli_usage(args->verb, "--follow cannot be combined with --limit or --telemetry");
    if (code == CLI_DONE && cli_has(args, "--derive") &&
        (follow || cli_has(args, "--limit") || cli_has(args, "--telemetry") ||
         cli_has(args, "--after") || cli_has(args, "--type")))
        code =
            cli_usage(args->verb, "--derive reads all events and can only be combined with --json");
    if (code == CLI_DONE)
        code = cli_open(args, false, &reader.pawl);
    if (code != CLI_DONE)
        return code;

    bool once = cli_has(args, "--limit") || cli_has(args, "--telemetry") ||
                (cli_has(args, "--json") && !follow);
    if (cli_has(args, "--derive"))
        code = print_derived(&reader);
    else
        code = once ? print_once(&reader, limit) : print_all(&reader);
    pawl_close(reader.pawl);
    return code;
}

static const struct option options[] = {
    {.name = "--follow", .text = "follow new events until the job ends", .letter = 'f'},
    {.name = "--after", .value = "VERSION", .text = "only events after this version"},
    {.name = "--limit",
     .value = "N",
     .text = "maximum number of events (default: all; 100 with --json)"},
    {.name = "--type",
     .value = "T",
     .field = "type",
     .text = "only events of these types",
     .times = OPTION_MANY},
    {.name = "--telemetry", .text = "show the heartbeats of the last day instead"},
    {.name = "--derive",
     .text = "the status derived from the events, and whether the job is blocked"},
    {0},
};

const struct verb verb_events = {
    .name = "events",
    .summary = "show or follow the history of a job",
    .arguments = "ID",
    .about =
        "Prints the events of a job, oldest first. With --follow and --json each event is one\n"
        "line.\n",
    .options = options,
    .examples = "  pawl events 0190163d-8694-739b-aea5-966c26f8ad91 -f\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
