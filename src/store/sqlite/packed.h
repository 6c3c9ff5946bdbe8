/* Events as the database keeps them: packed, each as a JSON array, so that what a job gains in one
 * commit is added to one text.
 *
 *   [version,type,time,"actor","cause","correlation_id",payload]
 *   [version,type,time,"actor","cause","correlation_id",null,"digest"]     when it was redacted
 *
 * A type is its name, or its number where it moves a job: those types are for ever.
 *
 * A record is such texts with a comma before each. Hashes are beside it, 32 bytes each, in the same
 * order. A digest follows from the payload as long as there is one. */
#ifndef PAWL_STORE_SQLITE_PACKED_H
#define PAWL_STORE_SQLITE_PACKED_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "core/event.h"

/* Adds an event, without a comma. */
void packed_write(const struct event *event, struct buf *buf);

/* Walks a JSON array of events, beside which are their hashes. One that is damaged does not hide
 * the others: of it there is what can be read, and as its payload what cannot. */
struct packed {
    struct str rest;   /* from the next event on, or its comma */
    struct str hashes; /* of those that are left */
    int64_t version;   /* of the next */
};

/* Begins; `first` is the version of the first event. corrupt: it is no array. */
enum error_code packed_begin(struct packed *packed, struct str events, struct str hashes,
                             int64_t first, struct err *err);

/* The next event, with its hash but without its job's id and, unless it was redacted, its digest;
 * false at the end. Texts are views, or in `arena`. */
bool packed_next(struct packed *packed, struct arena *arena, struct event *ret);

/* The payload of one event; absent if missing. corrupt: it cannot be read. */
enum error_code packed_payload(struct str event, struct str *ret, struct err *err);

#endif
