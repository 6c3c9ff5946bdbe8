#include "server/backlog.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"

/* A record is its length, then its bytes, then what makes the next one begin where any struct may.
 */
enum { UNIT = 16 };

struct backlog {
    pthread_mutex_t lock;
    pthread_cond_t enough;
    size_t cap;
    uint32_t wake_count;
    char *fills; /* what is being put */
    char *taken; /* the taker's */
    size_t len;
    uint32_t count;
    uint64_t dropped;
    uint64_t told; /* how many of those the taker knows of */
    bool closed;
};

struct backlog *backlog_new(size_t bytes, uint32_t wake_count)
{
    struct backlog *backlog = calloc(1, sizeof *backlog);
    if (backlog == NULL)
        return NULL;
    backlog->cap = bytes;
    backlog->wake_count = wake_count;
    backlog->fills = malloc(bytes);
    backlog->taken = malloc(bytes);
    if (backlog->fills == NULL || backlog->taken == NULL || !condition_init(&backlog->enough)) {
        free(backlog->fills);
        free(backlog->taken);
        free(backlog);
        return NULL;
    }
    (void)pthread_mutex_init(&backlog->lock, NULL);
    return backlog;
}

void backlog_free(struct backlog *backlog)
{
    if (backlog == NULL)
        return;
    (void)pthread_cond_destroy(&backlog->enough);
    (void)pthread_mutex_destroy(&backlog->lock);
    free(backlog->fills);
    free(backlog->taken);
    free(backlog);
}

static size_t room_for(size_t len)
{
    return UNIT + (len + UNIT - 1) / UNIT * UNIT;
}

bool backlog_put(struct backlog *backlog, const struct str *parts, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    pthread_mutex_lock(&backlog->lock);
    bool fits = !backlog->closed && room_for(len) <= backlog->cap - backlog->len;
    if (fits) {
        char *at = backlog->fills + backlog->len;
        memcpy(at, &len, sizeof len);
        at += UNIT;
        for (size_t i = 0; i < count; i++) {
            if (parts[i].len > 0)
                memcpy(at, parts[i].at, parts[i].len);
            at += parts[i].len;
        }
        backlog->len += room_for(len);
        backlog->count++;
        if (backlog->count == 1 || backlog->count == backlog->wake_count)
            pthread_cond_signal(&backlog->enough);
    } else {
        backlog->dropped++;
    }
    pthread_mutex_unlock(&backlog->lock);
    return fits;
}

void backlog_take(struct backlog *backlog, int64_t gather_ms, struct backlog_batch *ret)
{
    int result = 0;
    pthread_mutex_lock(&backlog->lock);
    while (backlog->count == 0 && !backlog->closed)
        (void)pthread_cond_wait(&backlog->enough, &backlog->lock);
    struct timespec until = condition_deadline(gather_ms);
    while (backlog->count < backlog->wake_count && !backlog->closed && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&backlog->enough, &backlog->lock, &until);
    char *fills = backlog->fills;
    *ret = (struct backlog_batch){
        .at = fills,
        .len = backlog->len,
        .count = backlog->count,
        .dropped = backlog->dropped - backlog->told,
        .closed = backlog->closed,
    };
    backlog->fills = backlog->taken;
    backlog->taken = fills;
    backlog->len = 0;
    backlog->count = 0;
    backlog->told = backlog->dropped;
    pthread_mutex_unlock(&backlog->lock);
}

void backlog_rest(struct backlog *backlog, int64_t ms)
{
    struct timespec until = condition_deadline(ms);
    int result = 0;
    pthread_mutex_lock(&backlog->lock);
    while (!backlog->closed && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&backlog->enough, &backlog->lock, &until);
    pthread_mutex_unlock(&backlog->lock);
}

bool backlog_next(struct backlog_batch *batch, struct str *ret)
{
    size_t len;
    if (batch->count == 0)
        return false;
    assert(batch->len >= UNIT);
    memcpy(&len, batch->at, sizeof len);
    assert(room_for(len) <= batch->len);
    *ret = (struct str){batch->at + UNIT, len};
    batch->at += room_for(len);
    batch->len -= room_for(len);
    batch->count--;
    return true;
}

void backlog_close(struct backlog *backlog)
{
    pthread_mutex_lock(&backlog->lock);
    backlog->closed = true;
    pthread_cond_signal(&backlog->enough);
    pthread_mutex_unlock(&backlog->lock);
}

uint64_t backlog_dropped(struct backlog *backlog)
{
    pthread_mutex_lock(&backlog->lock);
    uint64_t dropped = backlog->dropped;
    pthread_mutex_unlock(&backlog->lock);
    return dropped;
}
