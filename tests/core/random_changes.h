/* Beside the random lives: the fold notes everything that it changes.
 *
 * After each command the job and every part of it are compared with what they were, member by
 * member, by the tables that stores write them with. This shares nothing with the fold. */
#ifndef PAWL_TESTS_RANDOM_CHANGES_H
#define PAWL_TESTS_RANDOM_CHANGES_H

#include "core/job.h"

/* As a store loads it: nothing has changed. */
void changes_forget(struct job_slice *slice);

/* Whether each difference between `given`, of which nothing had changed, and `after` is noted in
 * `after`, and parts without one are not. NULL when all is well, else what is wrong. */
const char *changes_are_noted(const struct job_slice *given, const struct job_slice *after);

#endif
