/* Plans: directed acyclic graphs of steps, read and checked in linear time. */
#ifndef PAWL_CORE_PLAN_H
#define PAWL_CORE_PLAN_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/record.h"
#include "base/str.h"
#include "core/job.h"

enum {
    PLAN_STEPS_MAX = 10000,
    PLAN_DEPS_MAX = 1000 * 1000, /* of all steps together */
    PLAN_BYTES_MAX = 8 * 1024 * 1024,
    AVOID_MAX = 100,
    CHOICES_MAX = 50,
    PLAN_PROBLEMS_MAX = 1000, /* that are told at once */
};

#define PLAN_NO_STEP UINT32_MAX

struct plan {
    struct str source;  /* JSON array of the steps, every default written out */
    struct step *steps; /* pending, with children and the count of dependencies filled in */
    uint32_t count;
};

extern const struct record_type step_spec_record;

/* Reads the array of steps (checked JSON) into `ret`: ids, dependencies as edges, children,
 * policies with defaults. Fails with unprocessable_plan, naming the step and the reason: no steps,
 * over PLAN_STEPS_MAX or PLAN_DEPS_MAX, an id twice, a dependency that is unknown, itself, or named
 * twice, a cycle (shown), a bad selector or policy, a wrong or unknown field. A plan that was
 * stored has passed all that: of it only what the graph needs is checked, no limit and no default
 * of the day is applied, and fields that a newer version wrote are left alone. `seed` is for the
 * look-up table. */
enum error_code plan_read(struct str steps_json, enum record_source source, uint64_t seed,
                          struct arena *arena, struct plan *ret, struct err *err);

/* The steps of a plan as it is submitted, {"steps": [...]} and nothing else: unprocessable_plan,
 * unknown_field. */
enum error_code plan_steps(struct str plan, struct str *ret, struct err *err);

/* Something that is wrong with a plan. */
struct plan_problem {
    uint32_t ordinal;   /* of the step; PLAN_NO_STEP: it is about the plan */
    struct str step;    /* its id, where it has one */
    struct str message; /* names the step and the reason */
};

struct plan_problems {
    struct plan_problem *at;
    uint32_t count; /* 0: the plan can be carried out */
    uint32_t step_count;
    bool more; /* than PLAN_PROBLEMS_MAX */
};

/* Finds everything that plan_steps and plan_read would refuse a plan for, in place of the first of
 * it: `plan` is checked JSON. Of a member that is wrong, the first reason; of steps that depend on
 * each other in several ways, at least one cycle. Fails with no_memory only. */
enum error_code plan_check(struct str plan, uint64_t seed, struct arena *arena,
                           struct plan_problems *ret, struct err *err);

/* The state that a verdict leads to: a retry beyond `retries_max` is fatal. */
enum step_state decide_next_state(enum verdict verdict, int64_t retries, int64_t retries_max);

/* What a wait step waits for: its spec.wait. */
struct wait_spec {
    enum wait_type type;
    struct str correlation_key; /* human and timer: may be absent */
    int64_t delay_ms;           /* timer */
    int64_t until;              /* timer, instead of delay_ms */
    int64_t timeout_ms;         /* others; 0: for ever */
    struct str prompt;
    struct str choices; /* raw JSON array of 1 to CHOICES_MAX strings */
    struct str assignee;
    struct str default_answer; /* raw JSON; one of the choices where there are any */
};

extern const struct record_type wait_spec_record;

/* What a person may answer: an array of 1 to CHOICES_MAX different strings, with the default
 * answer, where there is one, among them. bad_request says what is wrong. */
enum error_code choices_check(struct str choices, struct str default_answer, struct arena *arena,
                              struct err *err);

/* Whether `answer`, raw JSON, is one of `choices`, however either is escaped. */
bool choices_have(struct str choices, struct str answer, struct arena *arena);

/* Reads and checks what a step waits for: unprocessable_plan names the reason. */
enum error_code wait_spec_read(struct str json, enum record_source source, struct arena *arena,
                               struct wait_spec *ret, struct err *err);

#endif
