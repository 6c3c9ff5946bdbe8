#include "cli/listing.h"

static const struct column columns[] = {
    {.title = "WORKER", .gives_way = true},   {.title = "LEASES", .right = true},
    {.title = "SLOTS", .right = true},        {.title = "KINDS", .gives_way = true},
    {.title = "QUEUES", .gives_way = true},   {.title = "LAST HEARTBEAT"},
    {.title = "RESOURCE", .gives_way = true},
};

/* What a worker that has registered handles; nothing of one that has not. */
static void add_names(struct table *table, struct pawl_json worker, const char *member)
{
    struct pawl_json names = pawl_json_get(worker, member);
    struct pawl_json first = {0};
    if (pawl_json_type(names) == 'a' && !pawl_json_next(names, &first, NULL))
        table_text(table, "all");
    else
        table_list(table, names);
}

static void add_row(struct table *table, struct pawl_json worker)
{
    table_value(table, pawl_json_get(worker, "worker_id"));
    table_value(table, pawl_json_get(worker, "leases"));
    table_value(table, pawl_json_get(worker, "slots"));
    add_names(table, worker, "kinds");
    add_names(table, worker, "queues");
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
        .otherwise = "No workers registered and no leases held.",
    };
    return listing_run(args, &listing);
}

const struct verb verb_workers = {
    .name = "workers",
    .summary = "list workers and their leases",
    .about =
        "Lists workers that hold leases, with their last heartbeat, and registered workers with\n"
        "the kinds they handle. 'pawl work' registers automatically.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
