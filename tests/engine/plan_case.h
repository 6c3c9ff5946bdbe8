/* What tests of plans say to the library, beside library_case.h. */
#ifndef PAWL_TESTS_PLAN_CASE_H
#define PAWL_TESTS_PLAN_CASE_H

#include "engine/library_case.h"

enum { STEP_TTL_MS = 100 };

/* The trace of a plan of one step, until it is there, leased and running. */
#define BEGUN "job_created plan_generated"
#define FIRST_LEASE BEGUN " job_running step_leased"
#define FIRST_RUN FIRST_LEASE " step_running"

/* A text as of printf, with " for every '. The same goes for steps and `more` members below. */
const char *json(struct talk *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Submits a plan, and returns the job's id. */
const char *submit_steps(struct talk *t, const char *steps);

/* Registers a resource for a minute. */
void have_resource(struct talk *t, const char *id, const char *more);

/* Claims a step on a resource, with a lease of STEP_TTL_MS; returns its token. Without waiting, ""
 * when there is none to be had; or waiting for it, and failing. */
const char *try_claim(struct talk *t, const char *resource, const char *more);
const char *claim_step(struct talk *t, const char *resource, const char *more);

/* What the holder of a token says. */
void tell(struct talk *t, pawl_verb verb, const char *token, const char *more);
void complete_step(struct talk *t, const char *token);

/* The member "error" of that class. */
const char *failure(struct talk *t, const char *class);

#endif
