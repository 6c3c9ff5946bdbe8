/* A desk at which verbs are asked and answered, with an engine that is run by hand and a clock that
 * stands still: for tests of verbs, on every store. */
#ifndef PAWL_TESTS_DESK_H
#define PAWL_TESTS_DESK_H

#include "engine/undelivered_claims.h"
#include "engine/verb.h"
#include "store/test_stores.h"

struct desk {
    struct test_stores stores;
    struct engine *engine;
    int64_t clock;
    int64_t steady;
    struct arena arena;
    const char *key;       /* request key of the next call; NULL: none */
    const char *token;     /* name of a token with the scope work that asks; NULL: none */
    const char *no_claims; /* why no work is given out; NULL: it is */
    void *notes;           /* the test's own */

    /* What came of the last call. */
    enum error_code code;
    struct err err;
    int status;
    const char *answer; /* "" when it failed */
    struct undelivered_claims claims;
};

/* 2026-01-01T00:00:00.000Z */
#define DESK_CLOCK INT64_C(1767225600000)

/* Runs the test at a desk of its own on every store. */
void at_every_desk(void (*test)(struct desk *desk));

/* The same with somebody who watches the engine, and is told with the desk as `arg`. */
void at_every_watched_desk(void (*test)(struct desk *desk), const struct observer *observer);

/* Asks, and takes whatever comes back. */
void ask(struct desk *desk, enum verb_name verb, const char *request);

/* Asks what must go well; the request is as for printf. Returns the answer. */
const char *well(struct desk *desk, enum verb_name verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Asks what must fail with `code`, for a reason in whose words `words` is found. */
void ill(struct desk *desk, enum verb_name verb, enum error_code code, const char *words,
         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* What the last answer says at a path: a string decoded, anything else as it is written; "" when
 * there is nothing or null. Lives as long as the desk. */
const char *said(struct desk *desk, const char *path);

/* Fails unless it says that. */
void says(struct desk *desk, const char *path, const char *text);

/* A job with a plan of two steps, of which b depends on a. */
#define DESK_PLAN                                                                                  \
    "{\"kind\":\"agent\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"k\"},{\"id\":\"b\","        \
    "\"deps\":[\"a\"]}]}}"

/* Claims the job that stands first, or the step, on a resource r1 that is registered for it;
 * returns the token, which must be there. */
const char *claimed(struct desk *desk);
const char *step_claimed(struct desk *desk);

/* Runs the engine until it has nothing to do: times that have come are seen to. */
void let_time_pass(struct desk *desk, int64_t ms);

/* A string of `len` letters, as JSON. */
const char *long_text(struct desk *desk, size_t len);

#endif
