/* An engine that tests run by hand, with a clock of its own, and the calls of its callers. */
#ifndef PAWL_TESTS_SCENE_H
#define PAWL_TESTS_SCENE_H

#include "engine/engine.h"
#include "store/test_stores.h"

enum { CALLS_MAX = 128 };

/* One caller's call, and whether it was told. */
struct caller {
    struct call call;
    struct op op;
    struct op *ops[1];
    struct spec spec;
    bool done;
};

struct scene {
    struct test_stores stores;
    struct engine *engine;
    int64_t clock;
    int64_t steady;
    uint8_t ids;
    struct caller callers[CALLS_MAX];
    uint32_t count;
};

/* On a fresh store. `queue_bytes_max` 0: as much as by default. */
void scene_open(struct scene *s, enum test_store sort, size_t queue_bytes_max);
void scene_close(struct scene *s);

/* Ends the engine, and starts another on the same store when `away_ms` have passed. */
void scene_reopen(struct scene *s, int64_t away_ms);

/* A call that is yet to be filled in and handed over. */
struct caller *scene_caller(struct scene *s, enum call_class class);
void scene_hand_over(struct scene *s, struct caller *caller);

/* Notes that a call is done; `arg` is its caller. */
void scene_told(struct call *call, void *arg);

/* A job of its kind: to be changed and handed over, or handed over as it is. */
struct caller *scene_prepare_submit(struct scene *s, const char *kind);
struct caller *scene_submit(struct scene *s, const char *kind);

/* A claim of one job. `kind` NULL: of any kind. To be changed and handed over, or as it is. */
struct caller *scene_prepare_claim(struct scene *s, const struct str *kind, int64_t wait_ms);
struct caller *scene_claim(struct scene *s, const struct str *kind, int64_t wait_ms);

/* A command of the worker whose claim got a job. */
struct caller *scene_say(struct scene *s, enum command_type type, const struct caller *claimer);

struct caller *scene_say_of(struct scene *s, enum command_type type, const struct grant *grant);

/* Turns until there is nothing to do. */
void scene_settle(struct scene *s);

/* Lets time go by as it does: the engine looks at the store now and then. */
void scene_pass(struct scene *s, int64_t ms);

enum job_status scene_status_of(struct scene *s, struct uuid id);

/* Runs a check on each store, each in a scene of its own. */
void scene_on_every_store(void (*check)(struct scene *s));

#define ON_EVERY_STORE(name, check)                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        scene_on_every_store(check);                                                               \
    }

#endif
