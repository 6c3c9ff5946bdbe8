/* Workers that have registered: which work each handles, and until when it counts as alive. A
 * registration is no part of any history: it serves those who ask who is there, and why a job is
 * not claimed. Claims need none. */
#ifndef PAWL_CORE_WORKER_H
#define PAWL_CORE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "core/resource.h"

enum {
    WORKERS_MAX = 10 * 1000, /* registered in one store, those that have just expired included */
    WORKERS_OF_TOKEN_MAX = WORKERS_MAX / 4, /* of them by one token: others must find room, too */
    WORKER_NAMES_MAX = 200,                 /* kinds or queues of one */
    WORKER_SLOTS_MAX = 100 * 1000,
    WORKER_TTL_MS_MIN = 1000,
    WORKER_TTL_MS_DEFAULT = 60 * 1000,
    WORKER_TTL_MS_MAX = 24 * 60 * 60 * 1000,
    WORKER_KEPT_MS = 60 * 1000, /* for so long after its end a claim still renews it */
};

struct worker {
    struct str id;
    struct names kinds;      /* none: all */
    struct names queues;     /* none: all */
    int64_t slots;           /* leases that it can hold at once */
    struct str code_version; /* absent: not told */
    struct label *labels;
    uint32_t label_count;
    int64_t ttl_ms;
    int64_t registered_at;
    struct str registered_by; /* the token, as histories name it; absent: nobody who is bounded */
    int64_t expires_at;
};

/* Whether it counts as there at `now`. */
bool worker_is_live(const struct worker *worker, int64_t now);

/* Whether it takes jobs of that kind, and of that queue. */
bool worker_handles_kind(const struct worker *worker, struct str kind);
bool worker_handles_queue(const struct worker *worker, struct str queue);

/* Whether it belongs to those who are limited to `queues` (NULL: to none): all that it handles is
 * in these. To others it does not exist. */
bool worker_is_visible(const struct worker *worker, const struct names *queues);

/* It has claimed at `now`, and waits for work for as long as `wait_ms`. True: its registration was
 * prolonged, and is to be written; so much time must have passed for that that a worker which
 * claims all the time is written no more than twice in its ttl. */
bool worker_renew(struct worker *worker, int64_t now, int64_t wait_ms);

/* The earliest time at which a claim may renew it; one that waits, as much earlier as it waits. */
int64_t worker_renewal_at(const struct worker *worker);

/* The live workers that could take a job, or almost. */
struct worker_coverage {
    struct str pin;   /* given: the job is for workers of this code version; absent: for any */
    uint32_t unfit;   /* handle its kind and queue, but run another version */
    uint32_t of_kind; /* handle its kind, whatever their queues */
    uint32_t fitting; /* and its queue */
    uint32_t free;    /* and hold fewer leases than they have slots */
    int64_t slots;    /* of those that fit */
    int64_t used;
};

/* Counts one worker, which holds so many leases, for a job of that kind and queue. */
void worker_cover(struct worker_coverage *coverage, const struct worker *worker, int64_t leases,
                  struct str kind, struct str queue, int64_t now);

/* A sentence for people: whether anybody is there who could take the job. */
void worker_coverage_tell(const struct worker_coverage *coverage, struct str kind, struct str queue,
                          struct buf *buf);

/* Everything but id and expires_at as text, and back: corrupt or no_memory. */
void worker_state_write(const struct worker *worker, struct buf *buf);
enum error_code worker_state_read(struct str json, struct arena *arena, struct worker *worker,
                                  struct err *err);

#endif
