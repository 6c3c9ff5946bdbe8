/* How long jobs took, by kind, and how many ended of late: what half of them and what 95 of 100 did
 * not exceed, and a rate.
 *
 * Taken from the newest jobs that have ended, as the store has them, so that it is the same for
 * everybody who asks, on whatever server, and says how it is now. */
#ifndef PAWL_ENGINE_TIMINGS_H
#define PAWL_ENGINE_TIMINGS_H

#include "base/arena.h"
#include "base/json.h"
#include "core/job.h"
#include "engine/verb.h"

enum {
    TIMINGS_JOBS_MAX = 1000, /* that have completed */
    TIMINGS_FAILED_MAX = 500,
    RECENT_MS = 60 * 1000,
};

/* What is measured of a job. */
enum timing {
    TIMING_WAIT,  /* from when it could be taken until it was, the last time */
    TIMING_RUN,   /* from then until it was done */
    TIMING_TOTAL, /* from when it was submitted until it was done */
    TIMING_COUNT,
};

struct job_timing {
    struct str kind;
    int64_t ms[TIMING_COUNT]; /* -1: not known */
    int64_t ended_at;
};

struct timings {
    struct job_timing *jobs; /* that have completed, by kind */
    uint32_t count;
    int64_t *scratch;   /* as many: for those who sort figures */
    int64_t *failed_at; /* when others have failed, or became dead letters */
    uint32_t failed_count;
};

/* The timing of a job that has completed. One with a plan has been held by nobody: only the total
 * is known. `kind` is a view. */
struct job_timing timing_of(const struct job *job);

/* Of `count` numbers, which are sorted, the smallest that at least `percent` of 100 do not exceed;
 * -1 when there are none. */
int64_t timing_percentile(const int64_t *sorted, uint32_t count, uint32_t percent);

/* How many ended in the minute before `now`, of `count` that are all there are or the newest `max`.
 * When so many were not all, and all of them ended in that minute, the time since the first of them
 * tells how many a minute it would be. */
int64_t timing_per_minute(const int64_t *ended_at, uint32_t count, uint32_t max, int64_t now);

/* Writes "recent": rates, and how long those took that completed in the minute before `now`. */
void timings_write_recent(const struct timings *timings, int64_t now, struct json_writer *writer);

/* Writes "kinds": an array with one entry for each kind, in the order of their names. */
void timings_write(const struct timings *timings, struct json_writer *writer);

/* Brings them in the order of their kinds, and takes the memory for writing them; false: there is
 * none. */
bool timings_sort(struct timings *timings, struct arena *arena);

/* Reads those that the call may see, in `txn`, and sorts them. */
enum error_code timings_read(const struct verb_call *call, struct store_txn *txn,
                             struct timings *ret, struct err *err);

#endif
