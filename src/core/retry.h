/* Retry policies: how often a job or step may fail, and how long it rests in between.
 *
 * Pure arithmetic: the random number for the jitter is an argument. */
#ifndef PAWL_CORE_RETRY_H
#define PAWL_CORE_RETRY_H

#include <stdint.h>

#include "base/error.h"
#include "base/record.h"
#include "core/enums.h"

struct retry_policy {
    int64_t max_attempts; /* failures allowed, the first included: 1 means no retry */
    enum retry_strategy strategy;
    int64_t initial_ms;   /* first delay */
    int64_t factor_milli; /* growth of exponential, in thousandths: 2000 doubles */
    int64_t max_ms;       /* longest delay, before jitter, which only shortens */
    enum jitter jitter;
    enum exhausted_policy on_exhausted; /* jobs only */
    enum exhausted_policy on_permanent; /* jobs only: the end after a failure that is not retried;
                                           EXHAUSTED_NONE: failed */
};

extern const struct record_type retry_policy_record;

/* 20 attempts, 500 ms doubling up to 1 h, equal jitter, dead letter when spent. */
struct retry_policy retry_policy_for_jobs(void);

/* 4 attempts (3 retries), 1 s doubling up to 30 s, no jitter. */
struct retry_policy retry_policy_for_steps(void);

/* Refuses nonsense with bad_request and the values: nothing below zero or above 10 years, a first
 * delay above the longest, a factor below 1 or above 100, no attempt at all or over a million, no
 * strategy, no jitter. `what` names whose policy it is, as "retry". */
enum error_code retry_policy_check(const struct retry_policy *policy, const char *what,
                                   struct err *err);

/* A policy without any value that there is, for a request to be read over; which of its members the
 * request gave then, as a mask of retry_policy_record; and `policy` with `under` in the place of
 * all that was not given. */
struct retry_policy retry_policy_unset(void);
uint64_t retry_policy_given(const struct retry_policy *read);
struct retry_policy retry_policy_over(const struct retry_policy *policy, uint64_t given,
                                      const struct retry_policy *under);

/* The delay after `failures` failures (1 for the first), jitter drawn from `random`. By strategy:
 *
 *   exponential  initial × factor^(failures-1)
 *   linear       initial × failures
 *   fixed        initial
 *
 * at most max_ms, and of that by jitter:
 *
 *   none   all of it
 *   equal  half of it and a random part of the other half
 *   full   a random part of it */
int64_t retry_delay_ms(const struct retry_policy *policy, int64_t failures, uint64_t random);

#endif
