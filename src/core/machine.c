#include "core/machine.h"

#include <assert.h>
#include <stddef.h>

/* ---- jobs ---- */

struct job_state {
    struct str name;
    int rank;
    bool terminal;
};

static const struct job_state job_states[] = {
#define JOB_STATE(symbol, number, name, rank, terminal)                                            \
    [number] = {{name, sizeof(name) - 1}, rank, terminal},
#include "core/job_machine.def"
    [JOB_NONE] = {{"none", 4}, 0, false},
};

enum {
    JOB_STATES_LISTED = 0
#define JOB_STATE(symbol, number, name, rank, terminal) +1
#include "core/job_machine.def"
};

/* A number given twice is a compiler's error above; with this, there is no gap either. */
_Static_assert(JOB_STATES_LISTED == (int)JOB_STATUS_COUNT,
               "job statuses are numbered without gaps");

/* The state after each legal move, plus one, so that 0 is what the list leaves out: illegal. The
 * event comes first because the compiler then finds the size of the table, and two moves for one
 * cell are a compiler's error. */
static const uint8_t job_moves[][JOB_STATUS_COUNT + 1][2] = {
#define JOB_MOVE(from, event, to, variant)                                                         \
    [EVENT_##event][JOB_##from][MOVE_##variant] = JOB_##to + 1,
#include "core/job_machine.def"
};

enum { JOB_MOVE_EVENTS = sizeof job_moves / sizeof job_moves[0] };

bool job_move(enum job_status from, enum event_type event, enum move_variant variant,
              enum job_status *ret_to)
{
    assert(from <= JOB_NONE);
    assert(variant == MOVE_PLAIN || variant == MOVE_LATER);

    if ((size_t)event >= JOB_MOVE_EVENTS)
        return false;
    const uint8_t *cell = job_moves[event][from];
    uint8_t to = cell[variant] != 0 ? cell[variant] : cell[MOVE_PLAIN];
    if (to == 0)
        return false;

    *ret_to = (enum job_status)(to - 1);
    return true;
}

struct str job_status_name(enum job_status status)
{
    assert(status <= JOB_NONE);
    return job_states[status].name;
}

/* What others call a status that has another name here. */
static const struct job_alias {
    const char *name;
    enum job_status status;
} job_aliases[] = {
    {"pending", JOB_QUEUED},
    {"assigned", JOB_LEASED},
    {"succeeded", JOB_COMPLETED},
};

bool job_status_parse(struct str name, enum job_status *ret)
{
    for (size_t i = 0; i < JOB_STATUS_COUNT; i++) {
        if (str_eq(name, job_states[i].name)) {
            *ret = (enum job_status)i;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof job_aliases / sizeof job_aliases[0]; i++) {
        if (str_eq(name, str_from(job_aliases[i].name))) {
            *ret = job_aliases[i].status;
            return true;
        }
    }
    return false;
}

bool job_status_terminal(enum job_status status)
{
    assert(status <= JOB_NONE);
    return job_states[status].terminal;
}

int job_status_rank(enum job_status status)
{
    assert(status <= JOB_NONE);
    return job_states[status].rank;
}

/* ---- steps ---- */

struct step_entry {
    struct str name;
    enum event_type event;
    bool terminal;
};

static const struct step_entry step_states[] = {
#define STEP_STATE(symbol, number, name, terminal)                                                 \
    [number] = {{name, sizeof(name) - 1}, EVENT_STEP_##symbol, terminal},
#include "core/step_machine.def"
};

enum {
    STEP_STATES_LISTED = 0
#define STEP_STATE(symbol, number, name, terminal) +1
#include "core/step_machine.def"
};

_Static_assert(STEP_STATES_LISTED == (int)STEP_STATE_COUNT,
               "step states are numbered without gaps");

static const bool step_moves[STEP_STATE_COUNT][STEP_STATE_COUNT] = {
#define STEP_MOVE(from, to) [STEP_##from][STEP_##to] = true,
#include "core/step_machine.def"
};

/* The state that an event enters, plus one; 0 for an event that is not a step state's. */
static const uint8_t step_states_entered[] = {
#define STEP_STATE(symbol, number, name, terminal) [EVENT_STEP_##symbol] = (number) + 1,
#include "core/step_machine.def"
};

bool step_move(enum step_state from, enum step_state to)
{
    assert(from < STEP_STATE_COUNT);
    assert(to < STEP_STATE_COUNT);
    return step_moves[from][to];
}

struct str step_state_name(enum step_state state)
{
    assert(state < STEP_STATE_COUNT);
    return step_states[state].name;
}

bool step_state_terminal(enum step_state state)
{
    assert(state < STEP_STATE_COUNT);
    return step_states[state].terminal;
}

enum event_type step_state_event(enum step_state state)
{
    assert(state < STEP_STATE_COUNT);
    return step_states[state].event;
}

bool step_event_state(enum event_type event, enum step_state *ret)
{
    if (event >= sizeof step_states_entered || step_states_entered[event] == 0)
        return false;

    *ret = (enum step_state)(step_states_entered[event] - 1);
    return true;
}

/* ---- verdicts ---- */

static const struct str verdict_texts[] = {
    [VERDICT_NONE] = {"", 0},
#define STEP_VERDICT(symbol, number, name) [number] = {name, sizeof(name) - 1},
#include "core/step_machine.def"
};

const struct record_names verdict_names = {verdict_texts,
                                           sizeof verdict_texts / sizeof verdict_texts[0]};
