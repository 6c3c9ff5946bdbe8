/* Headers of jobs in the owner's memory, decoded: what the database has, for the one who writes.
 *
 * One process owns the file and one transaction writes at a time, so what is here is what is
 * committed, or what the transaction that has the writer lock is about to commit; if that is rolled
 * back, what it has put here is forgotten. There are two generations: when the younger one is full,
 * it takes the place of the older one, which goes. Jobs that have ended are not kept. All functions
 * are for the transaction with the writer lock. */
#ifndef PAWL_STORE_SQLITE_HEADER_CACHE_H
#define PAWL_STORE_SQLITE_HEADER_CACHE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/uuid.h"
#include "core/job.h"

/* A job and where its rows are. */
struct header {
    struct uuid id;
    int64_t no;
    struct job job;
    bool stated;         /* there is a row in state_rows, */
    bool claimed;        /* and one in claim_rows; */
    int64_t state_bytes; /* of the record in the one, */
    int64_t claim_bytes; /* and in the other, */
    struct str hashes;   /* of which this is the rest, */
    struct str record;   /* or absent: to be read */
    struct str effects;  /* all of them (inline_effects.h), or absent: they are in job_effects */
    bool gone;           /* of the cache: it knows nothing of this job */
};

struct header_generation {
    struct arena arena;
    struct map map; /* id -> index */
    struct header **at;
    uint32_t count;
    uint32_t cap;
    uint32_t puts;
    size_t bytes; /* of the arena, looked at now and then */
};

struct header_cache {
    struct header_generation generations[2];
    uint32_t young; /* index */
    uint64_t seed;
};

void header_cache_init(struct header_cache *cache, uint64_t seed);
void header_cache_release(struct header_cache *cache);

/* What is known of a job, or NULL; valid until the next header_cache_put. */
const struct header *header_cache_find(const struct header_cache *cache, const struct uuid *id);

/* Takes the place of what was known; texts are copied. Without memory the job is forgotten. */
void header_cache_put(struct header_cache *cache, const struct header *header);

/* Forgets a job. */
void header_cache_drop(struct header_cache *cache, const struct uuid *id);

#endif
