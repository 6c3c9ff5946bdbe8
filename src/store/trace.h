/* A store that wraps another and tells every call: one readable line each.
 *
 *   #7 load job 019b7c6a-…-000000000001 key default/order 7: ok, 41 us
 *
 * `#7` is the transaction, then the verb, what it named (the first few, and how many more), what
 * came of it, and how long it took. */
#ifndef PAWL_STORE_TRACE_H
#define PAWL_STORE_TRACE_H

#include "store/store.h"

enum { STORE_TRACE_LINE_MAX = 1024 };

/* Gets a line without its end, cut at STORE_TRACE_LINE_MAX bytes; the text is gone when it returns.
 * It is called by whichever thread made the call, so perhaps by several at once, and must not call
 * the store. */
typedef void (*store_trace_sink)(void *arg, struct str line);

/* Wraps `inner`, which belongs to the wrapper from then on: closing it closes the inner one. Fails
 * with no_memory, and then `inner` is as it was. */
enum error_code store_trace(struct store *inner, store_trace_sink sink, void *arg,
                            struct store **ret, struct err *err);

#endif
