/* Who writes lives of jobs in a comparison: the engine, a store alone, nobody, and the bare
 * databases. Each has a database of its own, made by the store so that the schema is the same. */
#ifndef PAWL_BENCH_CONTENDERS_H
#define PAWL_BENCH_CONTENDERS_H

#include "lives.h"

struct contender {
    /* Gets ready for a batch; not timed. */
    void (*prepare)(struct contender *contender, const struct lives *lives);
    /* Its three commits. */
    void (*run)(struct contender *contender, const struct lives *lives);
    /* Does now what its server would do at times of its own; not timed. */
    void (*settle)(struct contender *contender);
    /* Closes and frees it. */
    void (*close)(struct contender *contender);
};

/* Decides, seals, and writes through batch_run. Claims ask for `claim_max` jobs each. */
struct contender *contend_engine(const char *url, uint32_t claim_max);

/* Begins, loads, searches, writes and commits what was decided beforehand. */
struct contender *contend_store(const char *url, uint32_t claim_max);

/* Decides and seals, and keeps nothing. */
struct contender *contend_nobody(void);

/* The same changes of rows by hand: prepared statements, one transaction a commit. */
struct contender *contend_bare_sqlite(const char *url);

/* The same by hand: an array a column, or (`by_row`) a statement a row; prepared and pipelined. */
struct contender *contend_bare_postgres(const char *url, bool by_row);

/* Makes the schema by opening the store and closing it again. */
void contender_make_schema(const char *url);

/* Vacuums and checkpoints, so that this does not fall on one or the other by chance. */
void postgres_settle(const char *url);

/* Ends the program, saying why, unless all databases have the same rows in every table. Returns
 * how many events each has. */
uint64_t sqlite_check_same(const char *const *urls, uint32_t count);
uint64_t postgres_check_same(const char *const *urls, uint32_t count);

#endif
