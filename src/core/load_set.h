/* Which parts of a job a command needs besides the header, so that a store loads those and no more.
 *
 * decide.h says what job_decide needs; this says it as data. Steps come first, since a step tells
 * which effects and signals are needed with it. The sets of several commands on one job may be
 * added up, all from the header as it was loaded: what commands of the same batch bring is in the
 * slice already. */
#ifndef PAWL_CORE_LOAD_SET_H
#define PAWL_CORE_LOAD_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/decide.h"
#include "core/job.h"

/* Steps: all of them, or one, with its children where it may succeed. */
struct step_load_set {
    bool all;
    bool one; /* by ordinal, id or key, whichever is set */
    bool children;
    bool by_ordinal;
    uint32_t ordinal;
    struct str id;
    struct str asking_key; /* the step whose open question has this key */
};

/* Effects and signals. */
struct part_load_set {
    bool open_effects;         /* those of `step` that are open */
    bool all_open_effects;     /* of the job and of every step */
    struct str step;           /* absent: the job itself */
    struct str effect_keys[2]; /* of `step`; absent: none */
    struct str signal_key;     /* the newest signal and the oldest stored one with this key */
    struct str signal_id;
    bool all_stored; /* every signal that is stored, STORED_SIGNALS_MAX at most */
};

/* `job` is the header as loaded. */
struct step_load_set command_step_load_set(const struct job *job, const struct command *command);

/* `step` is the one that was found for command_step_load_set; NULL: none. */
struct part_load_set command_part_load_set(const struct job *job, const struct step *step,
                                           const struct command *command);

/* Whether there is anything to load. */
bool step_load_set_any(const struct step_load_set *set);
bool part_load_set_any(const struct part_load_set *set);

#endif
