/* A bounded backlog of records between those who must not wait and one thread that may: many put,
 * one takes. What has no room is dropped and counted. A record is bytes. */
#ifndef PAWL_SERVER_BACKLOG_H
#define PAWL_SERVER_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct backlog;

/* What was put since the last time, in that order. */
struct backlog_batch {
    const char *at; /* the taker's until it takes again */
    size_t len;
    uint32_t count;
    uint64_t dropped; /* how many records were, since the last time */
    bool closed;      /* there will be no more */
};

/* With room for `bytes`, twice: for what waits and for what the taker has. The taker need not wait
 * for more than `wake_count` records. NULL: no memory. */
struct backlog *backlog_new(size_t bytes, uint32_t wake_count);

/* After the taker has ended. NULL does nothing. */
void backlog_free(struct backlog *backlog);

/* Adds a record, which is its parts one after the other. False: there was no room, or it is closed.
 * Takes a moment and never blocks on anything but others who put. From any thread. */
bool backlog_put(struct backlog *backlog, const struct str *parts, size_t count);

/* Takes everything: waits for a first record, however long, and then at most `gather_ms` for enough
 * of them. */
void backlog_take(struct backlog *backlog, int64_t gather_ms, struct backlog_batch *ret);

/* Waits so long, or until it is closed. For the taker. */
void backlog_rest(struct backlog *backlog, int64_t ms);

/* Walks a batch; false: there are no more. Records begin where any struct may. */
bool backlog_next(struct backlog_batch *batch, struct str *ret);

/* Takes nothing more, and wakes the taker. */
void backlog_close(struct backlog *backlog);

/* How many records were dropped in all. */
uint64_t backlog_dropped(struct backlog *backlog);

#endif
