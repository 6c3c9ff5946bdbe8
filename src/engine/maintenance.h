/* What time makes happen, as a table of named tasks (maintenance.def). The first runner runs them
 * in rounds that take turns with callers. A round reads once what is due and runs every task that
 * is to run, each within its budget, in transactions of its own: the trouble of one task is not
 * that of the others. What a budget leaves over comes in the next round, which follows at once.
 *
 * A new task is a line of maintenance.def and its function. */
#ifndef PAWL_ENGINE_MAINTENANCE_H
#define PAWL_ENGINE_MAINTENANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/uuid.h"
#include "engine/batch.h"

struct engine;
struct runner;

enum maintenance_task {
#define MAINTENANCE_TASK(symbol, name, budget, every_ms) MAINTENANCE_##symbol,
#include "engine/maintenance.def"
#undef MAINTENANCE_TASK
    MAINTENANCE_TASK_COUNT,
};

struct str maintenance_task_name(enum maintenance_task task);

/* What came of one run of a task, for observers. */
struct maintenance_report {
    enum maintenance_task task;
    uint32_t done; /* items */
    int64_t took_us;
    enum error_code code;
};

enum {
    QUARANTINE_MAX = 256,
    QUARANTINE_MS = 60 * 1000,
};

/* A timer that cannot be carried out, for a reason of its own. */
struct quarantined {
    struct uuid job;
    uint32_t step;
};

/* What an engine remembers from round to round; the first runner's. */
struct maintenance {
    int64_t run_at[MAINTENANCE_TASK_COUNT];         /* not before, on the steady clock */
    struct quarantined quarantined[QUARANTINE_MAX]; /* left out, so that they do not stand in the */
    uint32_t quarantined_count;                     /* way of others, */
    int64_t quarantined_until;                      /* until then, on the steady clock */
    int64_t next_due; /* when the first thing that the last round left out is due, by the store */
    uint64_t fired;   /* items of all rounds, without those of tasks that run at intervals */
};

/* One round, and says when the next is to be. */
void engine_maintain(struct engine *engine);

/* A run of one task within a round. */
struct maintenance_run {
    struct engine *engine;
    struct runner *runner;
    struct arena *arena;
    const struct store_due *due; /* what is due, the oldest first; without what is quarantined */
    uint32_t due_count;
    uint32_t budget;
    uint32_t op_count; /* operations of it that were added */
    uint32_t done;     /* out: items */
    bool more;         /* out: the next round is to follow at once */
};

/* Adds an operation; NULL: the budget is spent, or there is no memory. */
struct op *maintenance_op(struct maintenance_run *run, enum op_type type);

/* Runs the operations that were added, counts those that were done, and wakes claims that wait for
 * what came of them. */
enum error_code maintenance_run_ops(struct maintenance_run *run, struct err *err);

#define MAINTENANCE_TASK(symbol, name, budget, every_ms)                                           \
    enum error_code maintain_##name(struct maintenance_run *run, struct err *err);
#include "engine/maintenance.def"
#undef MAINTENANCE_TASK

#endif
