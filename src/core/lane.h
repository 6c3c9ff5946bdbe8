/* Lanes: work that the same claims may take is in one lane.
 *
 * A lane is everything that decides whether a claim may have a piece of work: what it is (a job, a
 * step, or a finished step to be judged), its queue and kind, the capabilities it needs, and for
 * steps the selector and the resources to avoid; for jobs that are pinned the code version. A claim
 * looks only into lanes that it may take, so it never walks over what it cannot have. Stores number
 * lanes, and may give a number back when nothing is in its lane. */
#ifndef PAWL_CORE_LANE_H
#define PAWL_CORE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/job.h"
#include "core/resource.h"
#include "core/selector.h"

enum lane_work { LANE_JOBS, LANE_STEPS, LANE_JUDGING };

struct lane {
    enum lane_work work;
    struct str queue;
    struct str kind;
    struct names capabilities; /* sorted */
    struct str selector;       /* absent: any resource */
    struct names avoid;        /* sorted */
    struct str limits;         /* raw JSON: [["limit","key"], ...], sorted; absent: none */
    struct str fair_key;       /* absent: none */
    struct str pin;            /* LANE_JOBS: the code version that it is for; absent: any */
    struct selector parsed;    /* the selector, read */
};

/* The key of a lane: a JSON array that is the same for the same lane, in every store. Its members
 * are those of struct lane up to pin, in that order; what says nothing is left out at the end.
 * So keys with limits and a fair key, which no job has yet, can be beside those that are stored,
 * and nothing is to be migrated for them. A server that does not know them leaves their work to
 * others: lane_takes. Fails with no_memory. */
enum error_code lane_key(const struct lane *lane, struct arena *arena, struct str *ret,
                         struct err *err);

/* The key of the lane that a job, or a step of it, is in when it can be claimed. A step that is
 * held for its critic is in a lane of its own. Fails with no_memory, and with corrupt when the
 * job's own lists are damaged. */
enum error_code lane_key_of_job(const struct job *job, struct arena *arena, struct str *ret,
                                struct err *err);
enum error_code lane_key_of_step(const struct job *job, const struct step *step,
                                 struct arena *arena, struct str *ret, struct err *err);

/* Reads a key; corrupt when it is not one, or no_memory. Views of `key` are kept. */
enum error_code lane_read(struct str key, struct arena *arena, struct lane *ret, struct err *err);

/* Who claims, as far as lanes care. Empty queues and kinds mean all. */
struct claimer {
    enum lane_work work;
    struct names queues;
    struct names kinds;
    struct names capabilities;       /* LANE_JOBS: the worker's */
    const struct resource *resource; /* LANE_STEPS */
    struct str code_version;         /* LANE_JOBS: the worker's; absent: not told */
};

/* Whether the claimer may take work of the lane. Not where limits or turns are to be kept. */
bool lane_takes(const struct lane *lane, const struct claimer *claimer);

#endif
