/* Where to start looking: how far each line of waiting things has been cleared already.
 *
 * While some transaction elsewhere stays open PostgreSQL cannot vacuum, and every scan from the
 * head of a line (a lane, the timers, ...) would walk over the dead rows of all that was taken from
 * it before. So each line has a mark, the place of the last one taken, and scans start behind it.
 *
 * Within a process no work is missed: anyone who puts something before a mark lowers it after the
 * commit, and a scan that began before that cannot raise it again. What other processes put before
 * a mark, and what transactions that were rolled back leave there, is found by a full scan: one is
 * made when a scan from the mark found fewer than asked for, and whenever a second has passed; but
 * one that took t ms is not repeated within 20 t ms, unless it took less than 5 ms. */
#ifndef PAWL_STORE_POSTGRES_MARKS_H
#define PAWL_STORE_POSTGRES_MARKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"

/* Lines are numbered: these first, then the lanes by their numbers. */
enum {
    LINE_WORK,        /* timers of work: (0, at, job, step) */
    LINE_DUE,         /* due times: likewise */
    LINE_CLAIMS,      /* due times of live leases: (0, due_at, job, step) */
    LINE_PURGE,       /* (0, purge_at, job, -1) */
    LINE_RESOURCES,   /* (0, expires_at, zeros, -1) */
    LINE_SUBMISSIONS, /* (0, seq, zeros, -1) */
    LINE_LANES,       /* lane n is line LINE_LANES + n */
};

enum {
    MARKS_FULL_EVERY_MS = 1000,
    MARKS_CHEAP_MS = 5,     /* a full scan below this may always be repeated */
    MARKS_REST = 20,        /* else it rests for so many times as long as it took */
    MARKED_MAX = 20 * 1000, /* lines with a mark, at a time */
};

/* A place in a line, ordered by the members. step is -1 for a job itself; a place need not be
 * anybody's. */
struct mark_place {
    int64_t rank;
    int64_t at;
    struct uuid job;
    int64_t step;
};

/* Before and behind every place that there can be. */
extern const struct mark_place MARK_FIRST;
extern const struct mark_place MARK_LAST;

int mark_place_cmp(const struct mark_place *a, const struct mark_place *b);

/* The place just before `place`. */
struct mark_place mark_place_before(struct mark_place place);

/* A scan of one line, from marks_start to marks_end. */
struct mark_scan {
    uint32_t line;
    struct mark_place from; /* look behind this */
    bool full;
    bool is_slow; /* and the last full scan was not cheap */
    uint64_t era;
    uint64_t life; /* of all marks: see marks_clear */
};

/* What came of a scan. */
struct mark_found {
    bool is_full;   /* it has looked at all of the line */
    bool was_short; /* it found fewer than it was asked for */
    int64_t now;    /* monotonic ms */
    int64_t took;   /* ms */
    bool has_taken;
    struct mark_place taken; /* all up to here */
};

/* A scan must not raise the mark over what was put in while it ran. What was put in is remembered
 * by eras: one ends when no scan of the one before it is left, so each scan lives in two at most.
 */
struct mark_era {
    uint32_t scans;           /* under way that began in it */
    struct mark_place lowest; /* that something was put at during it */
};

struct mark {
    struct mark_place at;
    bool was_short;
    bool was_full;     /* there has been a full scan */
    int64_t full_at;   /* when the last full scan ended */
    int64_t full_took; /* ms */
    uint64_t era;      /* its number: eras[era % 2] */
    struct mark_era eras[2];
};

struct mark_line {
    uint32_t line;
    bool used;
    struct mark mark;
};

/* Locked inside: any thread may use it. */
struct marks {
    pthread_mutex_t mutex;
    struct mark_line *lines; /* a hash table of `cap` places, a power of two */
    uint32_t cap;
    uint32_t count;
    uint64_t life;
};

void marks_init(struct marks *marks);
void marks_release(struct marks *marks);

/* Forgets all of them; scans that are under way move none. */
void marks_clear(struct marks *marks);

/* Starts a scan at monotonic time `now`, in full if it is time for that. */
struct mark_scan marks_start(struct marks *marks, uint32_t line, int64_t now);

/* A scan from the mark found too little: whether to look before the mark too. */
bool marks_may_look_back(struct marks *marks, const struct mark_scan *scan, int64_t now);

/* Ends it, once. The mark goes to the last place taken, but not over anything that was put in
 * meanwhile; a full scan can take it back too. `found` is NULL when the scan failed. */
void marks_end(struct marks *marks, const struct mark_scan *scan, const struct mark_found *found);

/* Something was put at `put`: scans that start from now on must find it. */
void marks_lower(struct marks *marks, uint32_t line, struct mark_place put);

#endif
