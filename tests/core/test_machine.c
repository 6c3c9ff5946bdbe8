/* The machines cell by cell, against tables that were typed here by hand: from the design, and from
 * the designs that it started from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/machine.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static enum job_status status_of(const char *name)
{
    enum job_status status;
    if (strcmp(name, "none") == 0)
        return JOB_NONE;
    if (!job_status_parse(str_from(name), &status))
        fail_msg("there is no status %s", name);
    return status;
}

static enum step_state step_of(const char *name)
{
    for (int i = 0; i < STEP_STATE_COUNT; i++)
        if (str_eq(step_state_name((enum step_state)i), str_from(name)))
            return (enum step_state)i;
    fail_msg("there is no step state %s", name);
    return STEP_PENDING;
}

static enum event_type event_of(const char *name)
{
    enum event_type event = event_type_parse(str_from(name));
    if (event == EVENT_UNKNOWN)
        fail_msg("there is no event %s", name);
    return event;
}

static void assert_name(struct str actual, const char *expected)
{
    if (!str_eq(actual, str_from(expected)))
        fail_msg("%.*s is not %s", STR_ARG(actual), expected);
}

/* ---- the job machine, cell by cell ---- */

enum { JOB_EVENTS = 11, JOB_ROWS = 11 };

/* clang-format off */
static const char *const job_events[JOB_EVENTS] = {
    "job_created",
    "job_queued",
    "job_requeued",
    "job_leased",
    "job_running",
    "job_waiting",
    "wait_completed",
    "job_completed",
    "job_failed",
    "job_cancelled",
    "job_dead_lettered",
};
/* clang-format on */

/* NULL is illegal; two names are the usual outcome and the one that the payload can ask for. */
struct job_row {
    const char *from;
    struct {
        const char *plain;
        const char *later;
    } to[JOB_EVENTS];
};

/* clang-format off */
#define NO  {NULL, NULL}
#define QUE {"queued", "queued"}
#define REQ {"queued", "retrying"}
#define LEA {"leased", "leased"}
#define RUN {"running", "running"}
#define WAI {"waiting", "parked"}
#define COM {"completed", "completed"}
#define FAI {"failed", "failed"}
#define CAN {"cancelled", "cancelled"}
#define DEA {"dead_lettered", "dead_lettered"}

static const struct job_row job_rows[JOB_ROWS] = {
    /* in the order of job_events */
    {"none",          {QUE, QUE, QUE, NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO}},
    {"queued",        {NO,  NO,  REQ, LEA, RUN, NO,  QUE, NO,  NO,  CAN, DEA}},
    {"leased",        {NO,  NO,  REQ, NO,  RUN, NO,  NO,  NO,  NO,  CAN, DEA}},
    {"running",       {NO,  NO,  REQ, NO,  NO,  WAI, QUE, COM, FAI, CAN, DEA}},
    {"waiting",       {NO,  NO,  NO,  NO,  NO,  NO,  QUE, NO,  NO,  CAN, NO}},
    {"parked",        {NO,  NO,  NO,  NO,  NO,  NO,  QUE, NO,  NO,  CAN, NO}},
    {"retrying",      {NO,  NO,  REQ, LEA, RUN, NO,  QUE, NO,  NO,  CAN, DEA}},
    {"completed",     {NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO}},
    {"failed",        {NO,  NO,  REQ, NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO}},
    {"cancelled",     {NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO}},
    {"dead_lettered", {NO,  NO,  REQ, NO,  NO,  NO,  NO,  NO,  NO,  NO,  NO}},
};
/* clang-format on */

static void check_job_cell(const char *from, const char *event, enum move_variant variant,
                           const char *expected)
{
    const enum job_status untouched = (enum job_status)77;
    enum job_status to = untouched;
    bool legal = job_move(status_of(from), event_of(event), variant, &to);
    if (legal != (expected != NULL))
        fail_msg("%s from %s is %s", event, from, legal ? "legal" : "illegal");
    if (!legal)
        assert_int_equal(to, untouched);
    else if (to != status_of(expected))
        fail_msg("%s leads from %s to %.*s, not to %s", event, from, STR_ARG(job_status_name(to)),
                 expected);
}

static void every_event_in_every_state_leads_where_the_table_says(void **state)
{
    (void)state;
    bool seen[JOB_NONE + 1] = {false};
    for (size_t r = 0; r < JOB_ROWS; r++) {
        const struct job_row *row = &job_rows[r];
        assert_false(seen[status_of(row->from)]);
        seen[status_of(row->from)] = true;
        for (size_t e = 0; e < JOB_EVENTS; e++) {
            check_job_cell(row->from, job_events[e], MOVE_PLAIN, row->to[e].plain);
            check_job_cell(row->from, job_events[e], MOVE_LATER, row->to[e].later);
        }
    }
    for (size_t i = 0; i <= JOB_NONE; i++)
        assert_true(seen[i]);
}

static bool is_job_event(int number)
{
    for (size_t e = 0; e < JOB_EVENTS; e++)
        if ((int)event_of(job_events[e]) == number)
            return true;
    return false;
}

static void no_other_event_moves_a_job(void **state)
{
    (void)state;
    for (int number = 0; number < 256; number++) {
        if (is_job_event(number))
            continue;
        for (int from = 0; from <= JOB_NONE; from++) {
            enum job_status to;
            assert_false(job_move((enum job_status)from, (enum event_type)number, MOVE_PLAIN, &to));
            assert_false(job_move((enum job_status)from, (enum event_type)number, MOVE_LATER, &to));
        }
    }
}

static void the_events_that_move_a_job_are_those_of_class_state(void **state)
{
    (void)state;
    static const enum event_type events[] = {
#define EVENT(symbol, number, name, class_, fields) EVENT_##symbol,
#include "core/event.def"
    };
    for (size_t i = 0; i < COUNT(events); i++)
        assert_int_equal(event_type_class(events[i]) == EVENT_CLASS_STATE,
                         is_job_event((int)events[i]));
}

/* ---- the step machine, pair by pair ---- */

enum { STEP_NEXT_MAX = 5 };

/* Every state, and those that may follow it. */
static const struct {
    const char *from;
    const char *next[STEP_NEXT_MAX];
} step_rows[] = {
    {"pending", {"waiting_deps", "leased"}},
    {"waiting_deps", {"leased"}},
    {"leased", {"running", "lease_timeout"}},
    {"running", {"succeeded", "failed_retryable", "failed_resource", "failed_fatal", "needs_user"}},
    {"failed_retryable", {"retrying"}},
    {"retrying", {"running"}},
    {"failed_resource", {"switching_resource"}},
    {"switching_resource", {"leased"}},
    {"lease_timeout", {"pending"}},
    {"needs_user", {"running"}},
    {"succeeded", {NULL}},
    {"failed_fatal", {"failed"}},
    {"failed", {NULL}},
};

static void every_pair_of_step_states_is_legal_only_as_the_table_says(void **state)
{
    (void)state;
    assert_int_equal(COUNT(step_rows), STEP_STATE_COUNT);
    bool expected[STEP_STATE_COUNT][STEP_STATE_COUNT] = {{false}};
    bool seen[STEP_STATE_COUNT] = {false};
    for (size_t r = 0; r < COUNT(step_rows); r++) {
        enum step_state from = step_of(step_rows[r].from);
        assert_false(seen[from]);
        seen[from] = true;
        for (size_t i = 0; i < STEP_NEXT_MAX && step_rows[r].next[i] != NULL; i++)
            expected[from][step_of(step_rows[r].next[i])] = true;
    }

    for (int from = 0; from < STEP_STATE_COUNT; from++) {
        for (int to = 0; to < STEP_STATE_COUNT; to++) {
            bool legal = step_move((enum step_state)from, (enum step_state)to);
            if (legal != expected[from][to])
                fail_msg("%.*s to %.*s is %s", STR_ARG(step_state_name((enum step_state)from)),
                         STR_ARG(step_state_name((enum step_state)to)),
                         legal ? "legal" : "illegal");
        }
    }
}

/* ---- where the table goes beyond its first designs ---- */

/* A move of some table. `event` is NULL where a document knows states only. */
struct move {
    const char *from;
    const char *event;
    const char *to;
    const char *why; /* for a difference */
};

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool has_move(const struct move *moves, size_t count, const struct move *move)
{
    for (size_t i = 0; i < count; i++)
        if (same_text(moves[i].from, move->from) && same_text(moves[i].event, move->event) &&
            same_text(moves[i].to, move->to))
            return true;
    return false;
}

static const char *move_event(const struct move *move)
{
    return move->event == NULL ? "any event" : move->event;
}

/* Checks that `larger` minus `smaller` is exactly `differences`, each with its reason. */
static void check_differences(const struct move *larger, size_t larger_count,
                              const struct move *smaller, size_t smaller_count,
                              const struct move *differences, size_t difference_count)
{
    for (size_t i = 0; i < larger_count; i++) {
        const struct move *move = &larger[i];
        bool differs = !has_move(smaller, smaller_count, move);
        if (differs != has_move(differences, difference_count, move))
            fail_msg("%s, %s, %s: %s", move->from, move_event(move), move->to,
                     differs ? "a difference that is not listed" : "listed, but no difference");
    }
    for (size_t i = 0; i < difference_count; i++) {
        assert_non_null(differences[i].why);
        assert_false(has_move(differences, i, &differences[i]));
        if (!has_move(larger, larger_count, &differences[i]))
            fail_msg("%s, %s, %s: listed, but in no table", differences[i].from,
                     move_event(&differences[i]), differences[i].to);
    }
}

enum { MOVES_MAX = 64 };

static void add_move(struct move moves[MOVES_MAX], size_t *count, const struct move *move)
{
    if (has_move(moves, *count, move))
        return;
    assert_true(*count < MOVES_MAX);
    moves[(*count)++] = *move;
}

/* All legal moves, as the code answers for them; by event or, without events, by pair of states. */
static size_t settled_moves(bool with_events, struct move ret[MOVES_MAX])
{
    size_t count = 0;
    for (size_t r = 0; r < JOB_ROWS; r++) {
        for (size_t e = 0; e < JOB_EVENTS; e++) {
            for (int variant = MOVE_PLAIN; variant <= MOVE_LATER; variant++) {
                enum job_status to;
                if (!job_move(status_of(job_rows[r].from), event_of(job_events[e]),
                              (enum move_variant)variant, &to))
                    continue;
                struct move move = {.from = job_rows[r].from,
                                    .event = with_events ? job_events[e] : NULL,
                                    .to = job_status_name(to).at};
                add_move(ret, &count, &move);
            }
        }
    }
    return count;
}

enum { FIRST_EVENTS = 10 };

/* The table as it was first designed: no leased state, since a claim already runs, and no dead
 * letters. */
/* clang-format off */
#define NIL  NULL
#define Q    "queued"
#define R    "running"
#define W    "waiting"
#define C    "completed"
#define F    "failed"
#define X    "cancelled"

static const struct {
    const char *from;
    const char *to[FIRST_EVENTS]; /* in the order of job_events */
} first_design[] = {
    {"none",      {Q,   Q,   Q,   NIL, NIL, NIL, NIL, NIL, NIL, NIL}},
    {"queued",    {NIL, NIL, Q,   R,   R,   NIL, Q,   NIL, NIL, NIL}},
    {"running",   {NIL, NIL, Q,   NIL, NIL, W,   Q,   C,   F,   X}},
    {"waiting",   {NIL, NIL, NIL, NIL, NIL, NIL, Q,   NIL, NIL, X}},
    {"parked",    {NIL, NIL, NIL, NIL, NIL, NIL, Q,   NIL, NIL, X}},
    {"retrying",  {NIL, NIL, Q,   R,   R,   NIL, Q,   NIL, NIL, NIL}},
    {"completed", {NIL, NIL, NIL, NIL, NIL, NIL, NIL, NIL, NIL, NIL}},
    {"failed",    {NIL, NIL, Q,   NIL, NIL, NIL, NIL, NIL, NIL, NIL}},
    {"cancelled", {NIL, NIL, NIL, NIL, NIL, NIL, NIL, NIL, NIL, NIL}},
};
/* clang-format on */

static const struct move beyond_first[] = {
    {"queued", "job_leased", "leased", "leased is a state of its own: claimed, not yet started"},
    {"retrying", "job_leased", "leased",
     "the same: a job whose backoff is over is claimed from there"},
    {"leased", "job_running", "running", "the start that follows a claim"},
    {"leased", "job_requeued", "queued", "the lease ended before the start"},
    {"leased", "job_requeued", "retrying", "the same, with a backoff"},
    {"leased", "job_cancelled", "cancelled", "whatever has not ended can be cancelled"},
    {"leased", "job_dead_lettered", "dead_lettered", "a failure for good before the start"},
    {"queued", "job_requeued", "retrying",
     "retrying is a state of its own: the first design leaves it open"},
    {"retrying", "job_requeued", "retrying", "the same: another backoff replaces the first"},
    {"running", "job_requeued", "retrying", "the same: the usual way into a backoff"},
    {"failed", "job_requeued", "retrying", "a redrive that is paced"},
    {"running", "job_waiting", "parked",
     "parked is a state of its own: the first design names it and never enters it"},
    {"queued", "job_cancelled", "cancelled", "whatever has not ended can be cancelled"},
    {"retrying", "job_cancelled", "cancelled", "whatever has not ended can be cancelled"},
    {"queued", "job_dead_lettered", "dead_lettered",
     "dead letters are new: an operator takes a bad job out"},
    {"retrying", "job_dead_lettered", "dead_lettered", "the same"},
    {"running", "job_dead_lettered", "dead_lettered",
     "the same: failures are spent, or the worker gives up"},
    {"dead_lettered", "job_requeued", "queued",
     "an operator sends a dead letter back, in a new epoch"},
    {"dead_lettered", "job_requeued", "retrying", "the same, paced"},
};

static const struct move only_in_first[] = {
    {"queued", "job_leased", "running", "the first design merges leased into running"},
    {"retrying", "job_leased", "running", "the first design merges leased into running"},
};

static void the_table_goes_beyond_the_first_design_only_where_it_is_listed(void **state)
{
    (void)state;
    struct move settled[MOVES_MAX];
    size_t settled_count = settled_moves(true, settled);
    struct move design[MOVES_MAX];
    size_t design_count = 0;
    for (size_t r = 0; r < COUNT(first_design); r++) {
        for (size_t e = 0; e < FIRST_EVENTS; e++) {
            struct move move = {
                .from = first_design[r].from, .event = job_events[e], .to = first_design[r].to[e]};
            if (move.to != NULL)
                add_move(design, &design_count, &move);
        }
    }
    assert_int_equal(design_count, 22);

    check_differences(settled, settled_count, design, design_count, beyond_first,
                      COUNT(beyond_first));
    check_differences(design, design_count, settled, settled_count, only_in_first,
                      COUNT(only_in_first));
}

/* The transitions of the second design, in its own words: those of its first part, then what its
 * second part adds. */
static const struct move second_design[] = {
    {.from = "none", .to = "queued"},           {.from = "queued", .to = "assigned"},
    {.from = "assigned", .to = "running"},      {.from = "running", .to = "succeeded"},
    {.from = "running", .to = "failed"},        {.from = "running", .to = "cancelled"},
    {.from = "queued", .to = "dead_lettered"},  {.from = "assigned", .to = "dead_lettered"},
    {.from = "running", .to = "dead_lettered"}, {.from = "queued", .to = "cancelled"},
    {.from = "assigned", .to = "cancelled"},
};

static const struct move beyond_second[] = {
    {"queued", NULL, "queued",
     "a requeue or the end of a wait that changes no state is still recorded"},
    {"queued", NULL, "retrying", "a requeue of a queued job with a delay"},
    {"queued", NULL, "running", "a claim that starts at once, as the first design has it"},
    {"leased", NULL, "queued",
     "the second forbids going back, and yet returns lost leases to queued: the next attempt"},
    {"leased", NULL, "retrying", "the same, with a backoff"},
    {"running", NULL, "queued",
     "the second forbids going back, and yet returns lost leases to queued: the next attempt"},
    {"running", NULL, "retrying", "the same, with a backoff"},
    {"running", NULL, "waiting", "waits come from the first design"},
    {"running", NULL, "parked", "long waits come from the first design"},
    {"waiting", NULL, "queued", "the wait is over"},
    {"waiting", NULL, "cancelled", "whatever has not ended can be cancelled"},
    {"parked", NULL, "queued", "the wait is over"},
    {"parked", NULL, "cancelled", "whatever has not ended can be cancelled"},
    {"retrying", NULL, "queued", "backoffs that show as a state come from the first design"},
    {"retrying", NULL, "retrying", "another backoff replaces the first"},
    {"retrying", NULL, "leased", "a job whose backoff is over is claimed straight from there"},
    {"retrying", NULL, "running", "the same, started at once"},
    {"retrying", NULL, "cancelled", "whatever has not ended can be cancelled"},
    {"retrying", NULL, "dead_lettered", "an operator takes a bad job out"},
    {"failed", NULL, "queued",
     "the first design requeues failed jobs: by an operator only, in a new epoch"},
    {"failed", NULL, "retrying", "the same, paced"},
    {"dead_lettered", NULL, "queued", "a dead letter is sent back likewise"},
    {"dead_lettered", NULL, "retrying", "the same, paced"},
};

static void the_table_goes_beyond_the_second_design_only_where_it_is_listed(void **state)
{
    (void)state;
    struct move settled[MOVES_MAX];
    size_t settled_count = settled_moves(false, settled);
    struct move design[MOVES_MAX];
    size_t design_count = 0;
    for (size_t i = 0; i < COUNT(second_design); i++) {
        /* Its assigned and succeeded become what they are called here. */
        struct move move = {.from = job_status_name(status_of(second_design[i].from)).at,
                            .to = job_status_name(status_of(second_design[i].to)).at};
        add_move(design, &design_count, &move);
    }
    assert_int_equal(design_count, 11);

    check_differences(settled, settled_count, design, design_count, beyond_second,
                      COUNT(beyond_second));
    check_differences(design, design_count, settled, settled_count, NULL, 0);
}

/* ---- names, numbers, ranks ---- */

static const struct {
    const char *name;
    int number;
    int rank;
    bool terminal;
} job_states[] = {
    {"queued", 0, 0, false},       {"running", 1, 2, false},  {"completed", 2, 4, true},
    {"failed", 3, 4, true},        {"cancelled", 4, 4, true}, {"waiting", 5, 3, false},
    {"parked", 6, 3, false},       {"retrying", 7, 0, false}, {"leased", 8, 1, false},
    {"dead_lettered", 9, 4, true},
};

static void statuses_keep_their_names_numbers_ranks_and_ends(void **state)
{
    (void)state;
    assert_int_equal(COUNT(job_states), JOB_STATUS_COUNT);
    for (size_t i = 0; i < COUNT(job_states); i++) {
        enum job_status status = (enum job_status)job_states[i].number;
        enum job_status parsed;
        assert_name(job_status_name(status), job_states[i].name);
        assert_true(job_status_parse(str_from(job_states[i].name), &parsed));
        assert_int_equal(parsed, status);
        assert_int_equal(job_status_rank(status), job_states[i].rank);
        assert_int_equal(job_status_terminal(status), job_states[i].terminal);
    }
}

static void before_the_first_event_a_job_has_no_status(void **state)
{
    (void)state;
    enum job_status status = JOB_FAILED;
    assert_name(job_status_name(JOB_NONE), "none");
    assert_false(job_status_terminal(JOB_NONE));
    assert_int_equal(job_status_rank(JOB_NONE), 0);
    assert_false(job_status_parse(STR("none"), &status));
    assert_int_equal(status, JOB_FAILED);
}

static void other_names_of_statuses_are_read_and_never_written(void **state)
{
    (void)state;
    static const struct {
        const char *alias;
        enum job_status status;
    } aliases[] = {{"pending", JOB_QUEUED}, {"assigned", JOB_LEASED}, {"succeeded", JOB_COMPLETED}};
    for (size_t i = 0; i < COUNT(aliases); i++) {
        enum job_status status;
        assert_true(job_status_parse(str_from(aliases[i].alias), &status));
        assert_int_equal(status, aliases[i].status);
        assert_false(str_eq(job_status_name(status), str_from(aliases[i].alias)));
    }
}

static void what_is_no_status_is_not_read_as_one(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",        "Queued",       "queued ",  "queue",
                                        "queuedx", "leased\n",     "canceled", "done",
                                        "0",       "dead-lettered"};
    enum job_status status = JOB_PARKED;
    for (size_t i = 0; i < COUNT(wrong); i++)
        assert_false(job_status_parse(str_from(wrong[i]), &status));
    assert_false(job_status_parse((struct str){NULL, 0}, &status));
    assert_int_equal(status, JOB_PARKED);
}

static bool waits_for_the_next_attempt(enum job_status status)
{
    return status == JOB_QUEUED || status == JOB_RETRYING;
}

static void a_move_goes_forward_unless_it_leads_to_the_next_attempt(void **state)
{
    (void)state;
    struct move moves[MOVES_MAX];
    size_t count = settled_moves(true, moves);
    for (size_t i = 0; i < count; i++) {
        enum job_status from = status_of(moves[i].from);
        enum job_status to = status_of(moves[i].to);
        if (!waits_for_the_next_attempt(to))
            assert_true(job_status_rank(to) > job_status_rank(from));
    }
}

static void a_job_that_has_ended_moves_only_by_requeue_after_a_failure(void **state)
{
    (void)state;
    struct move moves[MOVES_MAX];
    size_t count = settled_moves(true, moves);
    for (size_t i = 0; i < count; i++) {
        if (!job_status_terminal(status_of(moves[i].from)))
            continue;
        assert_string_equal(moves[i].event, "job_requeued");
        assert_true(strcmp(moves[i].from, "failed") == 0 ||
                    strcmp(moves[i].from, "dead_lettered") == 0);
    }
}

static void only_a_wait_completed_or_a_cancellation_moves_a_blocked_job(void **state)
{
    (void)state;
    struct move moves[MOVES_MAX];
    size_t count = settled_moves(true, moves);
    for (size_t i = 0; i < count; i++) {
        enum job_status from = status_of(moves[i].from);
        if (from == JOB_WAITING || from == JOB_PARKED)
            assert_true(strcmp(moves[i].event, "wait_completed") == 0 ||
                        strcmp(moves[i].event, "job_cancelled") == 0);
    }
}

/* ---- steps: names, numbers, events ---- */

static const struct {
    const char *name;
    const char *event;
    bool terminal;
} step_states[] = {
    /* in the order of their numbers, from 0 */
    {"pending", "step_pending", false},
    {"waiting_deps", "step_waiting_deps", false},
    {"leased", "step_leased", false},
    {"running", "step_running", false},
    {"succeeded", "step_succeeded", true},
    {"failed_retryable", "step_failed_retryable", false},
    {"retrying", "step_retrying", false},
    {"failed_resource", "step_failed_resource", false},
    {"switching_resource", "step_switching_resource", false},
    {"failed_fatal", "step_failed_fatal", false},
    {"failed", "step_failed", true},
    {"needs_user", "step_needs_user", false},
    {"lease_timeout", "step_lease_timeout", false},
};

static void step_states_keep_their_names_numbers_events_and_ends(void **state)
{
    (void)state;
    assert_int_equal(COUNT(step_states), STEP_STATE_COUNT);
    for (size_t i = 0; i < COUNT(step_states); i++) {
        enum step_state step = (enum step_state)i;
        enum step_state back;
        assert_name(step_state_name(step), step_states[i].name);
        assert_int_equal(step_state_terminal(step), step_states[i].terminal);
        assert_name(event_type_name(step_state_event(step)), step_states[i].event);
        assert_int_equal(event_type_class(step_state_event(step)), EVENT_CLASS_STEP);
        assert_true(step_event_state(step_state_event(step), &back));
        assert_int_equal(back, step);
    }
}

static void no_other_event_enters_a_step_state(void **state)
{
    (void)state;
    size_t entering = 0;
    for (int number = 0; number < 256; number++) {
        enum step_state step = STEP_NEEDS_USER;
        if (step_event_state((enum event_type)number, &step)) {
            entering++;
            assert_int_equal(step_state_event(step), number);
        } else {
            assert_int_equal(step, STEP_NEEDS_USER);
        }
    }
    assert_int_equal(entering, STEP_STATE_COUNT);
}

static void a_step_that_has_ended_does_not_move(void **state)
{
    (void)state;
    for (int from = 0; from < STEP_STATE_COUNT; from++) {
        bool moves = false;
        for (int to = 0; to < STEP_STATE_COUNT; to++)
            moves = moves || step_move((enum step_state)from, (enum step_state)to);
        assert_int_equal(moves, !step_state_terminal((enum step_state)from));
    }
}

static void verdicts_keep_their_names_and_numbers(void **state)
{
    (void)state;
    static const char *const names[] = {"",       "accept",    "retry", "switch_resource",
                                        "replan", "needs_user"};
    assert_int_equal(verdict_names.count, COUNT(names));
    for (size_t i = 0; i < COUNT(names); i++)
        assert_name(verdict_names.at[i], names[i]);
    assert_int_equal(VERDICT_NONE, 0);
    assert_int_equal(VERDICT_ACCEPT, 1);
    assert_int_equal(VERDICT_NEEDS_USER, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state_leads_where_the_table_says),
        cmocka_unit_test(no_other_event_moves_a_job),
        cmocka_unit_test(the_events_that_move_a_job_are_those_of_class_state),
        cmocka_unit_test(every_pair_of_step_states_is_legal_only_as_the_table_says),
        cmocka_unit_test(the_table_goes_beyond_the_first_design_only_where_it_is_listed),
        cmocka_unit_test(the_table_goes_beyond_the_second_design_only_where_it_is_listed),
        cmocka_unit_test(statuses_keep_their_names_numbers_ranks_and_ends),
        cmocka_unit_test(before_the_first_event_a_job_has_no_status),
        cmocka_unit_test(other_names_of_statuses_are_read_and_never_written),
        cmocka_unit_test(what_is_no_status_is_not_read_as_one),
        cmocka_unit_test(a_move_goes_forward_unless_it_leads_to_the_next_attempt),
        cmocka_unit_test(a_job_that_has_ended_moves_only_by_requeue_after_a_failure),
        cmocka_unit_test(only_a_wait_completed_or_a_cancellation_moves_a_blocked_job),
        cmocka_unit_test(step_states_keep_their_names_numbers_events_and_ends),
        cmocka_unit_test(no_other_event_enters_a_step_state),
        cmocka_unit_test(a_step_that_has_ended_does_not_move),
        cmocka_unit_test(verdicts_keep_their_names_and_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
