/* How many rows a call of a store has examined, counted by the database itself.
 *
 * PostgreSQL counts, for each table, the rows that sequential scans read and the index entries that
 * index scans walk over, dead ones included. It does so in the server process of the connection,
 * whose counts can be read on that connection before and after: nothing is sampled, and nothing is
 * taken from a plan.
 *
 * SQLite does not count rows in the libraries that distributions ship, but it counts the rows that
 * each statement returns, how often it was run, and every operation of its virtual machine. A
 * statement that returns as many rows with as many operations in a full store as in one that has
 * nothing else in it has looked at nothing else. */
#ifndef PAWL_TESTS_METER_H
#define PAWL_TESTS_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "store/store.h"
#include "test_stores.h"

enum { METER_LINES_MAX = 128, METER_NAME_MAX = 900 };

struct meter_line {
    char name[METER_NAME_MAX]; /* PostgreSQL: the table; SQLite: the statement */
    uint64_t rows;             /* examined; SQLite: returned */
    uint64_t runs;             /* SQLite only, as all that follows */
    uint64_t operations;
    uint64_t scanned; /* steps of scans over whole tables */
    uint64_t sorted;  /* sorts, and indexes made on the fly */
};

struct meter_reading {
    struct meter_line lines[METER_LINES_MAX];
    uint32_t count;
};

struct meter {
    enum test_store sort;
    struct store *store; /* on PostgreSQL with one connection */
    struct meter_reading before;
    struct meter_reading rows; /* SQLite: rows returned since the start */
};

void meter_init(struct meter *meter, enum test_store sort, struct store *store);

/* Waits until no transaction keeps rows that are dead by now; meter_start does so by itself outside
 * a transaction. */
void meter_settle(struct meter *meter);

/* Around a verb. `txn` is its transaction; NULL: it has none. What stop returns is what has
 * changed. Aborts, saying why, when the database does not tell. */
void meter_start(struct meter *meter, struct store_txn *txn);
void meter_stop(struct meter *meter, struct store_txn *txn, struct meter_reading *ret);

/* The rows of all lines whose names have `part` in them. */
uint64_t meter_rows(const struct meter_reading *reading, const char *part);

#endif
