#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/table.h"

/* The name of a member for people: without quotes, with spaces. */
static void name_text(struct pawl_json key, char *ret, size_t size)
{
    char *text = pawl_json_text(key);
    snprintf(ret, size, "%s", text != NULL ? text : "?");
    for (char *c = ret; *c != '\0'; c++)
        if (*c == '_')
            *c = ' ';
    pawl_free(text);
}

static void print_members(struct pawl_json object, const char *indent)
{
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    while (pawl_json_next(object, &item, &key) != 0) {
        char name[64];
        char field[80];
        name_text(key, name, sizeof name);
        snprintf(field, sizeof field, "%s%s", indent, name);
        size_t len = strlen(name);
        if (pawl_json_type(item) == 'a')
            continue;
        if (pawl_json_type(item) == 'o' && *indent == '\0') {
            print_text(name);
            puts(":");
            print_members(item, "  ");
        } else if (len > 3 && strcmp(name + len - 3, " at") == 0) {
            print_field_time(field, pawl_json_get(item, ""));
        } else {
            print_field(field, item);
        }
    }
}

static const struct column columns[] = {
    {.title = "KIND", .gives_way = true},    {.title = "JOBS", .right = true},
    {.title = "LATENCY P50", .right = true}, {.title = "P95", .right = true},
    {.title = "RUN P50", .right = true},     {.title = "P95", .right = true},
    {.title = "TOTAL P50", .right = true},   {.title = "P95", .right = true},
};

/* How long jobs of each kind took; nothing when none is done. */
static enum cli_exit print_kinds(const struct args *args, struct pawl_json kinds)
{
    static const char *const paths[] = {"wait_ms.p50", "wait_ms.p95",  "run_ms.p50",
                                        "run_ms.p95",  "total_ms.p50", "total_ms.p95"};
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    struct pawl_json kind = {NULL, 0};
    while (pawl_json_next(kinds, &kind, NULL) != 0) {
        table_value(table, pawl_json_get(kind, "kind"));
        table_value(table, pawl_json_get(kind, "count"));
        for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
            table_duration(table, pawl_json_get(kind, paths[i]));
    }
    enum cli_exit code = CLI_DONE;
    if (table == NULL || table_rows(table) > 0) {
        puts("\nMost recent completed jobs:");
        code = table_print(args->verb, table, true);
    }
    table_free(table);
    return code;
}

static enum cli_exit run(const struct args *args)
{
    char *answer;
    enum cli_exit code = cli_ask_once(args, pawl_stats, pawl_object_new(), &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        print_members(pawl_json_read(answer), "");
        code = print_kinds(args, pawl_json_get(pawl_json_read(answer), "kinds"));
    }
    pawl_free(answer);
    return code;
}

const struct verb verb_stats = {
    .name = "stats",
    .summary = "show counts by status and latencies by kind",
    .about =
        "Prints job counts of the whole store and, for the 1,000 most recently completed jobs,\n"
        "the queue latency, run time and total time of each kind, as p50 and p95.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
