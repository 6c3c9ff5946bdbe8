/* Jobs and requests that are committed, and whose rows are not written yet.
 *
 * A table takes in what batches change; a job that changes ten times is in it once, with where its
 * rows have it, where it stands now, and all of its new events. Whoever has the turn to write looks
 * here before the database, newest table first. A table that is being written to the database
 * changes no more, but that work in it is taken (which the newer table then says).
 *
 * Only jobs and their effects are here: whatever else a batch does goes straight to the database,
 * after everything that was here. */
#ifndef PAWL_STORE_SQLITE_AHEAD_H
#define PAWL_STORE_SQLITE_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "core/job.h"
#include "core/request.h"
#include "store/lane_merge.h"
#include "store/sqlite/place.h"
#include "store/store.h"

/* An event as a row. Texts are in the table. */
struct ahead_event {
    int64_t position;
    struct uuid job;
    int64_t version;
    int64_t at;
    bool redacted;
    struct str type;
    struct str actor;
    struct str cause;
    struct str correlation_id;
    struct str payload;
    const uint8_t *digest; /* HASH_LEN bytes, as the next */
    const uint8_t *hash;
};

/* The events of a batch. */
struct ahead_events {
    struct ahead_events *next;
    uint32_t count;
    struct ahead_event at[];
};

struct ahead_job {
    struct job job;
    struct place was; /* in the tables; all zero where it has no row, or stands nowhere */
    struct place now;
    bool created;           /* it has no row */
    struct effect *effects; /* those that are new or have changed, in this table */
    uint32_t effect_count;
    int64_t purge_at;
    int64_t at;     /* the store's time when it came to stand there: is it ready, or a timer? */
    bool taken;     /* by the transaction that has the turn */
    uint32_t index; /* in the table */
};

/* Work that stands in a lane: a skip list. */
struct ahead_node {
    struct lane_place place;
    uint32_t job; /* in the table */
    uint32_t height;
    struct ahead_node *next[];
};

enum { AHEAD_HEIGHT_MAX = 12 };

struct ahead_lane {
    struct ahead_node *first[AHEAD_HEIGHT_MAX];
    struct ahead_node *last[AHEAD_HEIGHT_MAX]; /* of each height: most work comes at the end */
};

struct ahead_table {
    struct arena arena;
    struct arena log; /* records, and their events: gone when the table has been written */
    uint64_t random;  /* for heights */
    struct map index;
    struct ahead_job **jobs;
    uint32_t job_count;
    uint32_t job_cap;
    struct map keys; /* queue and idempotency key -> job */
    struct map request_index;
    struct request_record **requests;
    uint32_t request_count;
    uint32_t request_cap;
    struct ahead_events *events; /* in the order of their positions */
    struct ahead_events *last_events;
    struct ahead_lane **lanes; /* by number - 1 */
    uint32_t lane_cap;
    size_t bytes;   /* about what it holds */
    int64_t number; /* of its last batch */
    int64_t due_at; /* nothing in it comes due, or may be claimed later, before that */
};

struct ahead_table *ahead_new(uint64_t seed, struct arena_pool *pool);
void ahead_free(struct ahead_table *table);

/* Forgets the events, which the database has. */
void ahead_forget_events(struct ahead_table *table);

bool ahead_is_empty(const struct ahead_table *table);

/* NULL: it is not here. `table` may be NULL, here and below. */
struct ahead_job *ahead_find(const struct ahead_table *table, const struct uuid *id);

/* The same by a pair of names, which ahead_name has made one of; absent: no memory. */
struct str ahead_name(struct str first, struct str second, struct arena *arena);
struct ahead_job *ahead_find_key(const struct ahead_table *table, struct str name);
const struct request_record *ahead_find_request(const struct ahead_table *table, struct str name);

/* A change that is going to be made: everything that could fail is done when it is staged, and
 * applying it cannot. Staged changes that are not applied are forgotten with the table. */
struct ahead_change {
    struct ahead_job job;    /* its texts are in the table's arena */
    struct ahead_job *here;  /* where it is in the table already; NULL: it is not */
    struct ahead_job *fresh; /* room for it, when it is not */
    struct ahead_node *node; /* NULL: it cannot be claimed where it stands then */
    struct str key;          /* of a new job that has one */
};

struct ahead_request {
    struct request_record *record;
    struct str name;
};

/* Room for so many more, and for lanes up to that number. False, here and below: no memory. */
bool ahead_reserve(struct ahead_table *table, uint32_t jobs, uint32_t requests, uint32_t lanes);

/* Room for the events of a batch, which has none yet; NULL: no memory. */
struct ahead_events *ahead_stage_events(struct ahead_table *table, uint32_t count);

/* change->job and change->here are set. `ready`: it can be claimed where it stands then. A job is
 * staged once before it is applied. */
bool ahead_stage_job(struct ahead_table *table, struct ahead_change *change, bool ready);
bool ahead_stage_request(struct ahead_table *table, const struct request_record *record,
                         struct ahead_request *ret);

void ahead_apply_events(struct ahead_table *table, struct ahead_events *events);
void ahead_apply_job(struct ahead_table *table, const struct ahead_change *change);
void ahead_apply_request(struct ahead_table *table, const struct ahead_request *request);

/* Goes through work that stands in a lane and is still there. `table` is the newest, or one whose
 * jobs `newer` may know better. NULL: there is no more. */
struct ahead_node *ahead_next(struct ahead_table *table, const struct ahead_table *newer,
                              uint32_t lane, const struct ahead_node *after);

#endif
