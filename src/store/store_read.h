/* What is read of a store, besides what a batch loads: what is due, lists, streams, the feed, and
 * what an operator looks at. */
#ifndef PAWL_STORE_STORE_READ_H
#define PAWL_STORE_STORE_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "base/uuid.h"
#include "core/access.h"
#include "core/event.h"
#include "store/store_load.h"

/* ---- timers ---- */

enum store_due_what {
    DUE_JOB,      /* due_at of a job or step has come */
    DUE_PURGE,    /* purge_at of a job has come */
    DUE_RESOURCE, /* expires_at of a resource has come */
};

struct store_due {
    enum store_due_what what;
    int64_t at;
    struct uuid job;
    uint32_t step; /* ordinal, or STEP_NONE */
    struct str resource_id;
};

/* A sign of life of the server that runs maintenance on the store. */
struct store_liveness {
    int64_t trusted; /* to remember with the moment (core/trusted_time.h); 0: nothing is noted */
    int64_t before;  /* out: the store's time when that was last noted; 0: never */
    int64_t trusted_before; /* out: and what was trusted then, cut to seconds; 0: not known */
    int64_t now;            /* out: the store's time, */
    int64_t wall;           /* out: and what its clock says, which is less after it was set back */
};

/* ---- reading ---- */

/* Where a list has stopped before it was full, since it had looked at many jobs that do not pass:
 * to go on, jobs with a smaller id than this are to be listed. */
struct store_reach {
    bool stopped;
    struct uuid at;
};

/* What to list; what is not set does not matter. */
struct store_filter {
    struct uuid id;    /* this one only; all zero: any */
    uint32_t statuses; /* bit per enum job_status; 0: any */
    struct str kind;
    struct str queue;
    const struct names *queues; /* one of these; NULL: any */
    struct str agent_id;
    struct str correlation_id;
    struct uuid correlation_job; /* or this job, if it has no correlation id; all zero: none */
    struct str label_key;        /* with this value */
    struct str label_value;
    int64_t created_after;               /* ms; later than this */
    enum dead_letter_reason reason_code; /* of a dead letter */
    bool asking;                         /* only those in which somebody is asked: job_asks */
    struct uuid before;        /* cursor: only jobs with a smaller id; all zero: from the newest */
    uint32_t limit;            /* 1..STORE_LIST_MAX */
    struct store_reach *reach; /* out: the list may stop early; NULL: it may not */
};

/* Part of a job's stream. */
struct store_stream {
    struct uuid job;
    int64_t after;  /* a version; for telemetry a time in ms */
    uint32_t limit; /* 1..STORE_EVENTS_MAX */
    bool telemetry;
    struct str type; /* only events of this name; absent: all */
};

/* The step leases on a resource, for when it is lost. */
struct store_lease {
    struct uuid job;
    uint32_t step;
};

/* How many jobs of a queue have a status; a status that no job has is not listed. */
struct store_queue_count {
    struct str queue;
    enum job_status status;
    int64_t count;     /* at least 1 */
    int64_t oldest_at; /* the created_at of the one that was made first; 0: the status is an end,
                          and nobody waits for them */
};

/* The live leases that a worker holds, apart for each resource that they are on. Live is what has
 * not been ended, also when its time is over and nobody has seen to it yet. */
struct store_worker {
    struct str worker_id;
    struct str resource_id; /* absent: on none */
    int64_t leases;         /* at least 1 */
    int64_t beat_at;        /* the latest of them */
    int64_t expires_at;     /* the earliest of them */
};

/* Access tokens: the one with a hash, or else with an id; without either all of them, also those
 * that open nothing any more, by id, at most STORE_TOKENS_MAX. And the store's time. */
struct store_tokens {
    const uint8_t *hash;     /* HASH_LEN bytes; NULL: any */
    const struct uuid *id;   /* NULL: any */
    struct access_token *at; /* out */
    uint32_t count;          /* out */
    int64_t now;             /* out */
};

/* A place in the feed of all events. Positions are opaque and grow; all zero is the beginning. */
struct store_position {
    uint64_t major;
    uint64_t minor;
    uint64_t era; /* which life of the store it is of; 0: the first, or not told */
};

/* Whether somebody who has read the feed up to a position can go on there. */
struct store_feed_state {
    uint64_t era;               /* of positions that are given out now */
    bool is_reset;              /* no: events before it may have been lost since, or never were */
    struct store_position from; /* then: nothing up to here was lost */
};

struct store_fed {
    struct event event; /* not opened */
    struct store_position position;
};

/* Work in a lane that does not exist. */
struct store_stray {
    uint32_t lane;
    uint64_t count;  /* pieces of work in it */
    struct uuid job; /* one of them */
    uint32_t step;   /* ordinal, or STEP_NONE */
};

/* Where a store is that can be replaced by another one at the same URL. */
struct store_origin {
    uint64_t generation; /* store.generation */
    int64_t timeline;    /* of PostgreSQL; 0: not known */
    uint64_t refused;    /* how often a connection was, since it led to another store */
    char refusal[480];   /* why the last one was; "": none was */
};

#endif
