/* The job machine and the step machine as tables: states, names, and which moves are legal.
 *
 *  (none) ─► queued ──┐                    ┌─► completed, failed, cancelled, dead_lettered
 *               ▲     ├─► leased ─► running ┤
 *               │  retrying ▲         │     └─► waiting, parked
 *               │     ▲     └───┬─────┘                │
 *               ├─────┴─ job_requeued (now, later)     │
 *               └──────────────── wait_completed ──────┘
 *
 * Left out: from queued, retrying and leased a job may also be cancelled or dead-lettered, and
 * failed and dead_lettered ones may be requeued.
 *
 * docs/reference/states.md has all of it. The lists are in job_machine.def and step_machine.def;
 * nothing else says what is legal. Everything here is a constant or a pure look-up. */
#ifndef PAWL_CORE_MACHINE_H
#define PAWL_CORE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "core/enums.h"
#include "core/event_type.h"

enum job_status {
#define JOB_STATE(symbol, number, name, rank, terminal) JOB_##symbol = (number),
#include "core/job_machine.def"
    JOB_STATUS_COUNT,
    JOB_NONE = JOB_STATUS_COUNT, /* before the first event */
};

enum step_state {
#define STEP_STATE(symbol, number, name, terminal) STEP_##symbol = (number),
#include "core/step_machine.def"
    STEP_STATE_COUNT,
};

enum verdict {
    VERDICT_NONE,
#define STEP_VERDICT(symbol, number, name) VERDICT_##symbol = (number),
#include "core/step_machine.def"
};
extern const struct record_names verdict_names;

/* Which outcome of an event: LATER when its payload asks for it (a future not_before, parked). */
enum move_variant { MOVE_PLAIN, MOVE_LATER };

/* The state that `event` leads to from `from`; false when the move is illegal or the event is not a
 * state event. A variant that the cell does not have falls back to the plain one. */
bool job_move(enum job_status from, enum event_type event, enum move_variant variant,
              enum job_status *ret_to);

/* Whether a step may go from one state straight to the other. */
bool step_move(enum step_state from, enum step_state to);

/* "queued", …; "none" for JOB_NONE. */
struct str job_status_name(enum job_status status);
struct str step_state_name(enum step_state state);

/* Reads a status, by its name or by a seed's name for it (pending, assigned, succeeded). */
bool job_status_parse(struct str name, enum job_status *ret);

bool job_status_terminal(enum job_status status);
bool step_state_terminal(enum step_state state);

/* How far within an attempt: see invariant 4 in docs/reference/states.md. */
int job_status_rank(enum job_status status);

/* The event that enters a step state, and back; false when the event is not a step state's. */
enum event_type step_state_event(enum step_state state);
bool step_event_state(enum event_type event, enum step_state *ret);

/* Writes a machine as text, for people (table), programs (tsv) or diagrams (mermaid). */
enum machine_format { MACHINE_TABLE, MACHINE_TSV, MACHINE_MERMAID };
void job_machine_write(enum machine_format format, struct buf *buf);
void step_machine_write(enum machine_format format, struct buf *buf);

#endif
