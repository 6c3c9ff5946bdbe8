/* What is in a table ahead, as rows that SQLite can read: virtual tables on the connection that
 * writes, so that one statement writes all rows of a sort. A statement for each row would begin
 * and end for each. */
#ifndef PAWL_STORE_SQLITE_ROWS_H
#define PAWL_STORE_SQLITE_ROWS_H

#include "store/sqlite/connection.h"

struct ahead_table;
struct ahead_job;

enum rows_sort {
    ROWS_EVENTS,  /* ahead_events: all */
    ROWS_JOBS,    /* ahead_jobs: those that have no row yet */
    ROWS_CHANGED, /* ahead_changed: those that have one */
    ROWS_READY,   /* ahead_ready: new jobs whose place is nothing but ready */
    ROWS_LEFT,    /* ahead_left: places in `ready` that jobs have left */
    ROWS_SORT_COUNT,
};

/* What the virtual tables show; its address must not change while the connection is open. */
struct rows {
    const struct ahead_table *table;
    struct rows_offer {
        struct rows *rows;
        enum rows_sort sort;
    } offers[ROWS_SORT_COUNT];
};

/* Makes the virtual tables known. */
enum error_code rows_offer(struct rows *rows, struct connection *connection, struct err *err);

/* Whether all there is to write of where the job stands is its row in `ahead_ready`. */
bool rows_is_ready(const struct ahead_job *job);

/* Whether the job has left a place that is, most likely, in `ready`. */
bool rows_has_left(const struct ahead_job *job);

#endif
