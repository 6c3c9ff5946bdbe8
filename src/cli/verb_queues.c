#include <stdio.h>

#include "cli/listing.h"

static const struct column columns[] = {
    {.title = "QUEUE", .gives_way = true},     {.title = "STATE", .status = true},
    {.title = "DEPTH", .right = true},         {.title = "OLDEST"},
    {.title = "BY STATUS", .gives_way = true},
};

/* How many have which status, as "queued 2, failed 1"; those that nobody has are left out. */
static void add_counts(struct table *table, struct pawl_json counts)
{
    char text[512];
    size_t end = 0;
    struct pawl_json count = {NULL, 0};
    struct pawl_json key;
    text[0] = '\0';
    while (pawl_json_next(counts, &count, &key) != 0) {
        char *status = pawl_json_text(key);
        long long number = pawl_json_int(count, 0);
        if (number != 0 && end < sizeof text) {
            int wrote = snprintf(text + end, sizeof text - end, "%s%s %lld", end > 0 ? ", " : "",
                                 status != NULL ? status : "?", number);
            end += wrote > 0 ? (size_t)wrote : 0;
        }
        pawl_free(status);
    }
    table_text(table, text);
}

static void add_row(struct table *table, struct pawl_json queue)
{
    table_value(table, pawl_json_get(queue, "queue"));
    table_text(table, pawl_json_true(pawl_json_get(queue, "paused")) != 0 ? "paused" : "open");
    table_value(table, pawl_json_get(queue, "depth"));
    table_time(table, pawl_json_get(queue, "oldest_at"));
    add_counts(table, pawl_json_get(queue, "by_status"));
}

static enum cli_exit run(const struct args *args)
{
    static const struct listing listing = {
        .call = pawl_queues,
        .path = "queues",
        .columns = columns,
        .column_count = sizeof columns / sizeof columns[0],
        .add_row = add_row,
        .otherwise = "No queues yet.",
    };
    return listing_run(args, &listing);
}

const struct verb verb_queues = {
    .name = "queues",
    .summary = "list queues with their depth and state",
    .about = "Lists the queues with the number of ready jobs and the age of the oldest.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
