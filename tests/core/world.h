/* One job, its stream and a clock, for tests of the core: the smallest engine there can be.
 *
 * world_do decides a command, seals its events, appends them to the stream and keeps the state
 * after. world_check proves the whole: the checker is clean, the derived status is the folded one,
 * and a replay gives the same row. */
#ifndef PAWL_TESTS_WORLD_H
#define PAWL_TESTS_WORLD_H

#include "core/decide.h"
#include "core/event.h"
#include "core/evolve.h"
#include "core/plan.h"
#include "core/verify.h"

struct world {
    struct arena arena;
    int64_t now;
    int64_t beats_since;
    int64_t up_since;
    uint64_t random; /* state of the generator */
    struct kind_settings kind;
    int64_t cancel_grace_ms; /* of the server */
    struct job_slice slice;
    struct event *log; /* the stream, with the telemetry where it happened */
    size_t log_count;
    size_t log_cap;
    struct context context; /* of the last command */
    struct decision last;   /* of the last command that was carried out */
    struct err err;         /* of the last command that was refused */
    struct str token;       /* handed out last */
};

/* The clock of every world starts here: 2026-01-01T00:00:00.000Z. */
#define WORLD_START_MS INT64_C(1767225600000)

void world_init(struct world *world, uint64_t seed);
void world_release(struct world *world);

/* Forgets everything but the memory, for the next run. */
void world_clear(struct world *world, uint64_t seed);

/* A random number, from the world's seed. */
uint64_t world_random(struct world *world);

/* Decides and, when allowed, carries out. */
enum error_code world_do(struct world *world, const struct command *command);

/* The stream without the telemetry, opened again from its bytes, into the world's arena. */
struct event *world_stream(struct world *world, size_t *ret_count);

/* Folds the log anew from its bytes; telemetry only when asked for. */
struct job_slice world_replay(struct world *world, bool telemetry);

/* The row as text. */
struct str world_row(struct world *world, const struct job_slice *slice);

/* NULL when all is well; else what is wrong, as text in the world's arena. */
const char *world_check(struct world *world);

/* The stream as a readable trace: "job_created job_leased job_running", step events with their
 * step. */
const char *world_trace(struct world *world);

/* The usual commands, with "w1" as the worker and the last token. */
struct spec world_spec(void);
enum error_code world_submit(struct world *world, const struct spec *spec);
enum error_code world_claim(struct world *world);
enum error_code world_complete(struct world *world, const char *result);
enum error_code world_fail(struct world *world, enum error_class error_class);
enum error_code world_token_command(struct world *world, enum command_type type);

#endif
