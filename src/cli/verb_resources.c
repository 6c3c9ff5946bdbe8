#include "cli/listing.h"

static const struct column columns[] = {
    {.title = "RESOURCE", .gives_way = true},
    {.title = "USED", .right = true},
    {.title = "SLOTS", .right = true},
    {.title = "CAPABILITIES", .gives_way = true},
    {.title = "LABELS", .gives_way = true},
    {.title = "QUEUES", .gives_way = true},
    {.title = "DRAINING"},
    {.title = "COOLDOWN UNTIL"},
    {.title = "EXPIRES"},
};

/* The queues that it belongs to. */
static void add_owner(struct table *table, struct pawl_json resource)
{
    struct pawl_json queues = pawl_json_get(resource, "queues");
    if (pawl_json_true(pawl_json_get(resource, "shared")) != 0)
        table_text(table, "shared");
    else if (pawl_json_type(pawl_json_get(queues, "0")) == 0)
        table_text(table, "all");
    else
        table_json(table, queues);
}

static void add_row(struct table *table, struct pawl_json resource)
{
    table_value(table, pawl_json_get(resource, "id"));
    table_value(table, pawl_json_get(resource, "used"));
    table_value(table, pawl_json_get(resource, "slots"));
    table_json(table, pawl_json_get(resource, "capabilities"));
    table_json(table, pawl_json_get(resource, "labels"));
    add_owner(table, resource);
    table_text(table, pawl_json_true(pawl_json_get(resource, "draining")) != 0 ? "yes" : "no");
    table_time(table, pawl_json_get(resource, "rested_until"));
    table_time(table, pawl_json_get(resource, "expires_at"));
}

static enum cli_exit run(const struct args *args)
{
    static const struct listing listing = {
        .call = pawl_resources,
        .path = "resources",
        .columns = columns,
        .column_count = sizeof columns / sizeof columns[0],
        .add_row = add_row,
        .otherwise = "No resources registered.",
    };
    return listing_run(args, &listing);
}

const struct verb verb_resources = {
    .name = "resources",
    .summary = "list the resources that run steps",
    .about =
        "Lists the registered resources with their capabilities, labels, slots and queues. Steps\n"
        "of other queues do not run on a resource, unless it is shared. After too many failures a\n"
        "resource gets no steps until its cooldown ends.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
