/* Verbs that ask for one list and print it as a table. */
#ifndef PAWL_CLI_LISTING_H
#define PAWL_CLI_LISTING_H

#include "cli/cli.h"
#include "cli/table.h"

struct listing {
    cli_call call;    /* is asked with {} */
    const char *path; /* where the list is in the answer */
    const struct column *columns;
    size_t column_count;
    void (*add_row)(struct table *table, struct pawl_json item);
    const char *otherwise; /* a sentence for an empty list */
};

enum cli_exit listing_run(const struct args *args, const struct listing *listing);

#endif
