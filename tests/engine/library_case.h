/* A store opened through pawl.h and nothing else, for tests of what users are promised: each runs
 * on every store, with a clock that stands still until the test moves it. With PAWL_TEST_HTTP=1 in
 * the environment a server stands between the test and the store. */
#ifndef PAWL_TESTS_LIBRARY_CASE_H
#define PAWL_TESTS_LIBRARY_CASE_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pawl.h"
#include "store/test_stores.h"

/* ---- talking to the library --------------------------------------------------------------- */

/* One thread's conversation. */
struct talk {
    struct pawl *pawl;
    struct kept *kept; /* every text that was returned, until talk_release */

    /* What came of the last call. */
    enum pawl_code code;
    struct pawl_error error;
    const char *answer; /* "" when it failed */
};

typedef enum pawl_code (*pawl_verb)(struct pawl *pawl, const char *request, char **ret_answer,
                                    struct pawl_error *error);

void talk_init(struct talk *talk, struct pawl *pawl);
void talk_release(struct talk *talk);

/* A text as of printf. Lives as long as the talk, as everything that these return. */
const char *phrase(struct talk *talk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Calls a verb and takes whatever comes back; any thread may, each in a talk of its own. The
 * request is as for printf. */
enum pawl_code attempt(struct talk *talk, pawl_verb verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Calls what must go well. Returns the answer. */
const char *does(struct talk *talk, pawl_verb verb, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Calls what must be refused with `code`. */
void refuses(struct talk *talk, pawl_verb verb, enum pawl_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What the last answer says at a path: a string decoded, anything else as it is written, "" when
 * there is nothing or null; a number, -1 when there is none. */
const char *text_at(struct talk *talk, const char *path);
long long int_at(struct talk *talk, const char *path);

/* Fails unless the last answer says that. */
void says_text(struct talk *talk, const char *path, const char *expected);

/* ---- jobs --------------------------------------------------------------------------------- */

/* Submits a job of kind "work" that is retried at once, with more members (", \"priority\": 1") or
 * "". Returns its id. */
const char *submit_job(struct talk *talk, const char *members);

/* Claims a job with a lease of LEASE_MS, waiting for it if need be. Returns the token. The answer
 * stays to be looked at. */
const char *claim_job(struct talk *talk, const char *worker);

enum {
    LEASE_MS = 100,         /* the shortest that there is */
    BEAT_MS = 50,           /* its heartbeat */
    PATIENCE_MS = 20 * 1000 /* how long a test waits for what must happen */
};

const char *status_of(struct talk *talk, const char *id);

/* The types of all events of a job, in their order, with blanks between. */
const char *trace_of(struct talk *talk, const char *id);
void trace_is(struct talk *talk, const char *id, const char *expected);

/* Waits until the job's trace is that; fails when it is not soon. */
void trace_becomes(struct talk *talk, const char *id, const char *expected);

/* Waits until the job has an event of the type behind `version`. Returns the event's version. */
long long wait_for_event(struct talk *talk, const char *id, long long version, const char *type);

/* Whether the history of a job holds: pawl_verify finds nothing, versions have no gap, times do not
 * go back, and neither does (epoch, attempt, rank) by a count of our own. "" or what is wrong. */
const char *unsound(struct talk *talk, const char *id);
void is_sound(struct talk *talk, const char *id);

/* ---- a store for a test ------------------------------------------------------------------- */

struct server;

struct library_case {
    struct test_stores stores;
    struct server *server; /* NULL: the store is opened here */
    enum test_store sort;
    const char *url;
    struct talk talk; /* on a handle of its own */
    atomic_llong now; /* the clock's time */
};

/* Options with the clock of the case. */
struct pawl_options case_options(struct library_case *c);

/* Another handle on the same store, with the clock of the case or the system's. */
struct pawl *case_open(struct library_case *c, bool own_clock);

/* Who acts, as histories say. */
const char *case_actor(void);

/* Skips a case that is about something else than what is behind a server. */
void not_over_http(void);

/* Closes the handle of the case, and its server; opens it again. */
void case_close(struct library_case *c);
void case_reopen(struct library_case *c);

/* Lets time go by at once. Up to 5 s that is nothing special to the engine; more is a break. It
 * sees to what is due within LEASE_MS or so when there is a lease of LEASE_MS, else within a
 * second. */
void pass(struct library_case *c, long long ms);

/* Setup and teardown for cmocka; the initial state says which store. With a clock that stands
 * still, with that of the system, or with nothing but a URL. The cases of a program share one
 * database, which each finds empty, since to make one takes long; unless they want to do something
 * to it that the next had better not see. */
int case_setup(void **state);
int case_setup_ticking(void **state);
int case_setup_bare(void **state);
int case_setup_own_database(void **state);
int case_teardown(void **state);

/* To be done when all cases of a program are over. */
int cases_over(void **state);

#define CASE_ON(store, sort, test, setup)                                                          \
    {                                                                                              \
#test " on " store, test, setup, case_teardown, (void *)(uintptr_t)(sort)                  \
    }
#define CASES_WITH(test, setup)                                                                    \
    CASE_ON("memory", TEST_MEMORY, test, setup), CASE_ON("sqlite", TEST_SQLITE, test, setup),      \
        CASE_ON("postgres", TEST_POSTGRES, test, setup)
#define ON_EVERY_STORE(test) CASES_WITH(test, case_setup)
#define ON_EVERY_STORE_TICKING(test) CASES_WITH(test, case_setup_ticking)

/* ---- threads ------------------------------------------------------------------------------ */

/* Runs `run` on `count` threads at once, each with its part of `arguments`, and waits for all. */
void in_threads(size_t count, void *(*run)(void *argument), void *arguments, size_t size);

/* The next of a row of numbers that looks random and depends on the seed alone; below `below`. */
uint32_t dice(uint64_t *seed, uint32_t below);

#endif
