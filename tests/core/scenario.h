/* Sentences for scenario tests: what a world is told to do, and what must then hold.
 *
 * A scenario runs on a fresh world whose fake clock stands at WORLD_START_MS. do_ok expects a
 * command to be carried out; refused expects one code and one message and proves that nothing
 * changed. JSON is written with ' for ", so that it can be read. */
#ifndef PAWL_TESTS_SCENARIO_H
#define PAWL_TESTS_SCENARIO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "world.h"

static const struct str absent = {NULL, 0};

#define STR_ARG_AT(s) ((s).at == NULL ? "" : (s).at)

static inline int scenario_setup(void **state)
{
    struct world *w = malloc(sizeof *w);
    if (w == NULL)
        return -1;
    world_init(w, 1);
    *state = w;
    return 0;
}

static inline int scenario_teardown(void **state)
{
    world_release(*state);
    free(*state);
    return 0;
}

#define SCENARIO(test) cmocka_unit_test_setup_teardown(test, scenario_setup, scenario_teardown)

/* JSON with ' in the place of ". */
static inline struct str js(struct world *w, const char *text)
{
    struct str copy = arena_copy(&w->arena, str_from(text));
    for (size_t i = 0; i < copy.len; i++)
        if (copy.at[i] == '\'')
            ((char *)(uintptr_t)copy.at)[i] = '"';
    return copy;
}

/* ---- commands ---- */

static inline struct command by_worker(struct world *w, enum command_type type)
{
    return (struct command){.type = type, .actor = STR("w1"), .token = w->token};
}

static inline struct command by_user(enum command_type type)
{
    return (struct command){.type = type, .actor = STR("alice")};
}

static inline struct command by_engine(enum command_type type)
{
    return (struct command){.type = type, .actor = STR("pawl")};
}

static inline struct command on_step(struct command command, const char *step)
{
    command.step = str_from(step);
    return command;
}

static inline struct command with_token(struct command command, struct str token)
{
    command.token = token;
    return command;
}

static inline struct command submit_of(const struct spec *spec)
{
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = spec;
    return command;
}

static inline struct command claim_by(const char *worker, bool start)
{
    struct command command = by_user(COMMAND_CLAIM);
    command.actor = str_from(worker);
    command.claim.worker_id = str_from(worker);
    command.claim.start = start;
    return command;
}

static inline struct command expire_of(int64_t attempt)
{
    struct command command = by_engine(COMMAND_EXPIRE);
    command.expire.attempt = attempt;
    return command;
}

static inline struct command signal_of(struct world *w, const char *key, const char *payload)
{
    struct command command = by_user(COMMAND_SIGNAL);
    command.signal.correlation_key = str_from(key);
    command.signal.payload = payload == NULL ? absent : js(w, payload);
    return command;
}

static inline struct command wait_for(struct world *w, const char *key, int64_t timeout_ms)
{
    struct command command = by_worker(w, COMMAND_WAIT);
    command.wait.type = WAIT_SIGNAL;
    command.wait.correlation_key = str_from(key);
    command.wait.timeout_ms = timeout_ms;
    return command;
}

static inline struct command begin_of(struct world *w, const char *key, const char *input)
{
    struct command command = by_worker(w, COMMAND_EFFECT_BEGIN);
    command.effect_begin.key = str_from(key);
    command.effect_begin.input = input == NULL ? absent : js(w, input);
    return command;
}

static inline struct command commit_of(struct world *w, const char *key, const char *result)
{
    struct command command = by_worker(w, COMMAND_EFFECT_COMMIT);
    command.effect_commit.key = str_from(key);
    command.effect_commit.result = result == NULL ? absent : js(w, result);
    return command;
}

static inline struct command abort_of(struct world *w, const char *key, const char *error)
{
    struct command command = by_worker(w, COMMAND_EFFECT_ABORT);
    command.effect_abort.key = str_from(key);
    command.effect_abort.error = error == NULL ? absent : js(w, error);
    return command;
}

static inline struct command cancel_by(enum cancel_mode mode, const char *reason)
{
    struct command command = by_user(COMMAND_CANCEL);
    command.cancel.mode = mode;
    command.cancel.reason = str_from(reason);
    return command;
}

static inline struct command requeue_by(const char *reason, bool fresh)
{
    struct command command = by_user(COMMAND_REQUEUE);
    command.requeue.reason = str_from(reason);
    command.requeue.fresh = fresh;
    return command;
}

static inline struct command fail_as(struct world *w, enum error_class error_class)
{
    struct command command = by_worker(w, COMMAND_FAIL);
    command.fail.error_class = error_class;
    command.fail.message = STR("it broke");
    return command;
}

static inline struct command complete_with(struct world *w, const char *result)
{
    struct command command = by_worker(w, COMMAND_COMPLETE);
    command.complete.result = result == NULL ? absent : js(w, result);
    return command;
}

/* ---- commands on plans and steps ---- */

/* A resource with everything free, for as long as any test lasts. */
static inline struct resource *resource_named(struct world *w, const char *id)
{
    struct resource *resource = arena_zalloc(&w->arena, 1, sizeof *resource);
    resource->id = str_from(id);
    resource->slots = 1000;
    resource->expires_at = INT64_MAX;
    return resource;
}

static inline struct command step_claim_of(struct world *w, const char *step, const char *resource,
                                           bool start)
{
    struct command command = on_step(by_user(COMMAND_STEP_CLAIM), step);
    command.actor = STR("w1");
    command.claim.worker_id = STR("w1");
    command.claim.resource = resource == NULL ? NULL : resource_named(w, resource);
    command.claim.start = start;
    return command;
}

static inline struct command judge_of(const char *step)
{
    struct command command = on_step(by_user(COMMAND_STEP_CLAIM), step);
    command.actor = STR("critic");
    command.claim.worker_id = STR("critic");
    command.claim.judge = true;
    return command;
}

/* A verdict of an operator; with_token makes it a worker's. */
static inline struct command verdict_on(const char *step, enum verdict decision)
{
    struct command command = on_step(by_user(COMMAND_VERDICT), step);
    command.verdict.decision = decision;
    command.verdict.reason = STR("because");
    if (decision == VERDICT_NEEDS_USER)
        command.verdict.question.prompt = STR("Really?");
    return command;
}

static inline struct command answer_of(struct world *w, const char *step, const char *answer)
{
    struct command command = on_step(by_user(COMMAND_ANSWER), step);
    command.answer.answer = answer == NULL ? absent : js(w, answer);
    command.answer.by = STR("bob");
    return command;
}

static inline struct command plan_of(struct world *w, const char *steps)
{
    struct command command = by_user(COMMAND_PLAN);
    command.plan.steps = steps == NULL ? absent : js(w, steps);
    command.plan.reason = STR("better");
    return command;
}

/* ---- what must hold ---- */

#define do_ok(w, ...) do_ok_(w, __VA_ARGS__, __FILE__, __LINE__)
static inline void do_ok_(struct world *w, struct command command, const char *file, int line)
{
    enum error_code code = world_do(w, &command);
    if (code == ERR_OK)
        return;
    print_error("%s: %s\n", error_info(code)->name, w->err.detail);
    _fail(file, line);
}

/* Carried out before, so that nothing happens now. */
#define do_again(w, ...) do_again_(w, __VA_ARGS__, __FILE__, __LINE__)
static inline void do_again_(struct world *w, struct command command, const char *file, int line)
{
    size_t events = w->log_count;
    struct str row = world_row(w, &w->slice);
    do_ok_(w, command, file, line);
    if (w->last.result.repeated && w->log_count == events && str_eq(row, world_row(w, &w->slice)))
        return;
    print_error("repeated is %d, %zu events were %zu\n", w->last.result.repeated, w->log_count,
                events);
    _fail(file, line);
}

/* `text` with {job} for the job's id. */
static inline struct str message_text(struct world *w, const char *text)
{
    struct buf buf;
    char id[UUID_TEXT_LEN];
    buf_init(&buf, &w->arena, 256);
    uuid_format(w->slice.job.id, id);
    for (const char *at = text; *at != '\0';) {
        bool job = strncmp(at, "{job}", 5) == 0;
        buf_add(&buf, job ? (struct str){id, UUID_TEXT_LEN} : (struct str){at, 1});
        at += job ? 5 : 1;
    }
    return buf_str(&buf);
}

/* Refused with this code and exactly this message, and all is as it was. */
#define refused(w, command, code, text) refused_(w, command, code, text, __FILE__, __LINE__)
static inline void refused_(struct world *w, struct command command, enum error_code expected,
                            const char *text, const char *file, int line)
{
    size_t events = w->log_count;
    struct str token = w->token;
    struct str row = world_row(w, &w->slice);
    enum error_code code = world_do(w, &command);
    if (code != expected || !str_eq(str_from(w->err.detail), message_text(w, text))) {
        print_error("%s: %s\n", error_info(code)->name, w->err.detail);
        _fail(file, line);
    }
    if (w->log_count != events || !str_eq(token, w->token) || w->err.code != expected ||
        !str_eq(row, world_row(w, &w->slice))) {
        print_error("the refusal changed the job\n");
        _fail(file, line);
    }
}

/* The whole stream, and the proof of it. */
#define story(w, text) story_(w, text, __FILE__, __LINE__)
static inline void story_(struct world *w, const char *text, const char *file, int line)
{
    _assert_string_equal(world_trace(w), text, file, line);
    const char *flaw = world_check(w);
    if (flaw == NULL)
        return;
    print_error("%s\n", flaw);
    _fail(file, line);
}

/* The events since version `from`, and the proof of the whole. */
#define story_since(w, from, text) story_since_(w, from, text, __FILE__, __LINE__)
static inline void story_since_(struct world *w, int64_t from, const char *text, const char *file,
                                int line)
{
    const char *at = world_trace(w);
    for (int64_t version = 0; version < from && *at != '\0'; version++) {
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    _assert_string_equal(at, text, file, line);
    const char *flaw = world_check(w);
    if (flaw == NULL)
        return;
    print_error("%s\n", flaw);
    _fail(file, line);
}

#define assert_str(actual, expected) assert_str_(actual, expected, __FILE__, __LINE__)
static inline void assert_str_(struct str actual, struct str expected, const char *file, int line)
{
    if (str_eq(actual, expected))
        return;
    print_error("\"%.*s\"%s is not \"%.*s\"%s\n", (int)actual.len, STR_ARG_AT(actual),
                actual.at == NULL ? " (absent)" : "", (int)expected.len, STR_ARG_AT(expected),
                expected.at == NULL ? " (absent)" : "");
    _fail(file, line);
}

/* NULL: absent. */
#define assert_text(actual, expected) assert_str(actual, str_from(expected))

/* The stored bytes of an event's payload. */
#define assert_payload(w, event, expected) assert_str((event)->payload, js(w, expected))

#define assert_status(w, expected) assert_text(job_status_name((w)->slice.job.status), expected)

#define assert_step(w, step, expected)                                                             \
    assert_text(step_state_name(step_named(w, step)->state), expected)

static inline const struct step *step_named(struct world *w, const char *id)
{
    const struct step *step = job_step(&w->slice, str_from(id));
    assert_non_null(step);
    return step;
}

/* The event last written to the stream or beside it. */
static inline const struct event *last_event(const struct world *w)
{
    assert_true(w->log_count > 0);
    return &w->log[w->log_count - 1];
}

/* ---- usual beginnings ---- */

static inline void submitted(struct world *w)
{
    struct spec spec = world_spec();
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    do_ok(w, command);
}

/* A job of one worker, started. */
static inline void running(struct world *w)
{
    submitted(w);
    do_ok(w, claim_by("w1", true));
}

/* A job with a plan: the array of its steps. */
static inline void planned(struct world *w, const char *steps)
{
    struct spec spec = world_spec();
    struct buf buf;
    buf_init(&buf, &w->arena, strlen(steps) + 16);
    buf_add(&buf, STR("{\"steps\":"));
    buf_add(&buf, js(w, steps));
    buf_add_char(&buf, '}');
    spec.plan = buf_str(&buf);
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    do_ok(w, command);
}

/* A plan whose step "a" is claimed on r1 and started. */
static inline void step_running(struct world *w, const char *steps)
{
    planned(w, steps);
    do_ok(w, step_claim_of(w, "a", "r1", true));
}

/* A name that outlives the command that brings it. */
static inline const char *numbered(struct world *w, const char *prefix, int number)
{
    struct buf buf;
    buf_init(&buf, &w->arena, 16);
    buf_addf(&buf, "%s%d", prefix, number);
    buf_add_char(&buf, '\0');
    return buf.at;
}

#endif
