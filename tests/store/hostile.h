/* A store full of work that a claim cannot take, all of it standing in front of what it can. */
#ifndef PAWL_TESTS_HOSTILE_H
#define PAWL_TESTS_HOSTILE_H

#include <stdint.h>

#include "engine/batch.h"
#include "store/store.h"

enum {
    HOSTILE_QUEUES = 2,
    HOSTILE_KINDS = 2,
    HOSTILE_LANES = HOSTILE_QUEUES * HOSTILE_KINDS * 2, /* with and without a capability */
    HOSTILE_STEPS = 1000,                               /* of the plan */
    HOSTILE_CHILDREN = 3,                               /* of its steps */
};

/* The time of a store while it is filled. */
#define HOSTILE_NOW INT64_C(1767225600000)

/* Names of queues and kinds that work can be claimed from, and the capability. */
extern const struct str hostile_queues[HOSTILE_QUEUES];
extern const struct str hostile_kinds[HOSTILE_KINDS];
extern const struct str hostile_capability;

struct hostile {
    uint32_t front;   /* jobs in front, about */
    uint32_t lane;    /* jobs that can be claimed, in each lane */
    uint32_t later;   /* jobs that can be claimed a minute later */
    uint32_t leased;  /* jobs whose leases end in a minute */
    uint32_t round;   /* of filling the same store: makes other ids */
    struct uuid *ids; /* out, room for HOSTILE_LANES * lane: of those that can be claimed */
    struct uuid plan; /* out: a job with a plan, a tree of HOSTILE_STEPS steps */
};

/* Fills a store whose clock says HOSTILE_NOW. A sixth each of what is in front is of another kind,
 * needs another capability, may run a day later, backs off, is in a paused queue, or waits; it has
 * a higher priority and an earlier time. Aborts, saying why, when the store fails. */
void hostile_fill(struct store *store, struct hostile *hostile);

/* Submits `count` jobs of one spec, in batches. Their ids are made with the generator whose state
 * is `random`, and go to `ret_ids`, unless that is NULL. */
void hostile_submit(struct batcher *batcher, const struct spec *spec, uint32_t count,
                    uint64_t *random, struct uuid *ret_ids);

/* Runs operations that must all be carried out. */
void hostile_run(struct batcher *batcher, struct op *ops, uint32_t count, struct arena *arena);

#endif
