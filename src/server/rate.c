#include "server/rate.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash.h"

enum {
    SETS = 512,
    WAYS = 8,
    CALLER_LEN_MAX = 40,
    ONE = 1000,            /* a request: so that `per_s` of it come in a millisecond */
    DEBT_MIN = 1000 * ONE, /* a batch of the largest size is owed in full, */
    DEBT_S = 60,           /* and a minute of results that are taken whatever comes */
};

struct bucket {
    uint8_t caller[CALLER_LEN_MAX];
    uint8_t caller_len; /* 0: not used */
    int64_t level;      /* in thousandths of a request; less than 0: owed */
    int64_t at;         /* when that was so */
};

struct rate {
    atomic_uint per_s;
    pthread_mutex_t lock;
    struct bucket buckets[SETS][WAYS];
};

struct rate *rate_new(void)
{
    struct rate *rate = calloc(1, sizeof *rate);
    if (rate != NULL)
        (void)pthread_mutex_init(&rate->lock, NULL);
    return rate;
}

void rate_free(struct rate *rate)
{
    if (rate == NULL)
        return;
    (void)pthread_mutex_destroy(&rate->lock);
    free(rate);
}

void rate_set(struct rate *rate, uint32_t per_s)
{
    assert(per_s <= RATE_PER_S_MAX);
    atomic_store(&rate->per_s, per_s);
}

/* The bucket of a caller; a new one is full, and takes the place of the one that was touched the
 * longest ago. */
static struct bucket *find(struct rate *rate, struct str caller, int64_t full, int64_t now)
{
    uint8_t hash[HASH_LEN];
    hash_sha256(&caller, 1, hash);
    struct bucket *set = rate->buckets[(hash[0] << 8 | hash[1]) % SETS];
    struct bucket *place = &set[0];
    for (int i = 0; i < WAYS; i++) {
        struct bucket *bucket = &set[i];
        if (bucket->caller_len == caller.len && memcmp(bucket->caller, caller.at, caller.len) == 0)
            return bucket;
        if (place->caller_len > 0 && (bucket->caller_len == 0 || bucket->at < place->at))
            place = bucket;
    }
    *place = (struct bucket){.caller_len = (uint8_t)caller.len, .level = full, .at = now};
    memcpy(place->caller, caller.at, caller.len);
    return place;
}

/* What has come in since it was last looked at. */
static void refill(struct bucket *bucket, int64_t per_s, int64_t full, int64_t now)
{
    int64_t passed = now - bucket->at;
    int64_t missing = full - bucket->level;
    bucket->at = now;
    if (missing <= 0 || passed > missing / per_s)
        bucket->level = full;
    else if (passed > 0)
        bucket->level += passed * per_s;
}

int64_t rate_take(struct rate *rate, struct str caller, uint32_t cost, bool always, int64_t now)
{
    int64_t per_s = atomic_load(&rate->per_s);
    int64_t wait_ms = 0;
    if (per_s == 0)
        return 0;
    assert(caller.len > 0 && caller.len <= CALLER_LEN_MAX);
    int64_t full = per_s * ONE;
    int64_t lowest = -(DEBT_S * full > DEBT_MIN ? DEBT_S * full : DEBT_MIN);
    pthread_mutex_lock(&rate->lock);
    struct bucket *bucket = find(rate, caller, full, now);
    refill(bucket, per_s, full, now);
    if (!always && bucket->level < ONE) {
        wait_ms = (ONE - bucket->level + per_s - 1) / per_s;
    } else {
        bucket->level -= (int64_t)cost * ONE;
        if (bucket->level < lowest)
            bucket->level = lowest;
    }
    pthread_mutex_unlock(&rate->lock);
    return wait_ms;
}
