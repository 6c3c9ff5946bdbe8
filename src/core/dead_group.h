/* Groups of dead letters: those of one kind and reason whose errors are the same.
 *
 * A group has an id, so that a caller can say which of the groups that were counted is meant. It is
 * computed from the dead letter alone and stored nowhere, so that counting, redriving and dropping
 * agree on it. */
#ifndef PAWL_CORE_DEAD_GROUP_H
#define PAWL_CORE_DEAD_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/failure.h"
#include "core/job.h"

enum { DEAD_GROUP_LEN = 8 }; /* bytes; callers see twice as many hex digits */

struct dead_group {
    uint8_t id[DEAD_GROUP_LEN];
    struct str kind;
    enum dead_letter_reason reason_code;
    struct failure_group error;
};

/* The group of a dead letter. Texts are views of the job or in `arena`. False: no memory. */
bool dead_group_of(const struct job *job, struct arena *arena, struct dead_group *ret);

/* Reads an id as callers write it, in either case. bad_request names the value. */
enum error_code dead_group_read(struct str text, uint8_t ret[DEAD_GROUP_LEN], struct err *err);

#endif
