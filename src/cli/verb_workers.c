#include "cli/listing.h"

static const struct column columns[] = {
    {.title = "WORKER", .gives_way = true},
    {.title = "LEASES", .right = true},
    {.title = "LAST BEAT"},
    {.title = "RESOURCE", .gives_way = true},
};

static void add_row(struct table *table, struct pawl_json worker)
{
    table_value(table, pawl_json_get(worker, "worker_id"));
    table_value(table, pawl_json_get(worker, "leases"));
    table_time(table, pawl_json_get(worker, "last_beat_at"));
    table_value(table, pawl_json_get(worker, "resource_id"));
}

static enum cli_exit run(const struct args *args)
{
    static const struct listing listing = {
        .call = pawl_workers,
        .path = "workers",
        .columns = columns,
        .column_count = sizeof columns / sizeof columns[0],
        .add_row = add_row,
        .otherwise = "No worker holds a lease.",
    };
    return listing_run(args, &listing);
}

const struct verb verb_workers = {
    .name = "workers",
    .summary = "who holds leases",
    .about = "Lists the workers that hold a lease, and when they last gave a sign of life.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
