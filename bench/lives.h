/* Whole lives of jobs, decided beforehand: what a benchmark of stores writes.
 *
 * A batch of lives is three commits: all are submitted, all are claimed and started, all are
 * completed; four events a job, with a payload of 200 bytes. The same numbers give the same bytes:
 * whoever writes a batch, the engine included, must leave the same rows. */
#ifndef PAWL_BENCH_LIVES_H
#define PAWL_BENCH_LIVES_H

#include "core/decide.h"
#include "store/row.h"
#include "store/store.h"

enum life_stage { LIFE_SUBMIT, LIFE_CLAIM, LIFE_COMPLETE, LIFE_STAGES };

enum { LIFE_EVENTS = 4 };

struct lives {
    struct arena arena;
    uint32_t count;
    struct uuid *ids;                            /* rising */
    struct str *tokens;                          /* of the leases */
    struct store_job_write *writes[LIFE_STAGES]; /* by id */
    struct job_row *rows[LIFE_STAGES];           /* the same as rows */
    struct claim_row *claims;                    /* the leases of LIFE_CLAIM */
    int64_t now[LIFE_STAGES];                    /* each commit has its own time */
    struct spec spec;
};

void lives_init(struct lives *lives);
void lives_release(struct lives *lives);

/* Decides batch number `number`; what was decided before is forgotten. */
void lives_plan(struct lives *lives, uint64_t number, uint32_t count);

/* Decides and seals, keeping nothing but the jobs: what any store costs besides itself. */
void lives_decide(struct lives *lives, uint64_t number, uint32_t count);

/* The commands, as callers give them. */
struct command life_submit(const struct lives *lives);
struct command life_claim(void);
struct command life_complete(struct str token);

/* Random bytes that are always the same. */
void life_random(void *arg, void *ret, size_t len);

/* The lane that all of them stand in. */
struct str lives_lane(const struct lives *lives);

/* Ends the program when something is not as it must be, saying what. */
#define bench_check(ok, ...) ((ok) ? (void)0 : bench_fail(__VA_ARGS__))
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
