/* Spans from what the engine commits, on every store: a job's life is a tree that fits together. */
#include "server/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/desk.h"
#include "server/otlp.h"

enum { SPANS_MAX = 64 };

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"
#define GIVEN "\"traceparent\":\"00-" TRACE "-" PARENT "-01\""

/* Whatever must not be seen by those who look at traces has this in it. */
#define SECRET "sesame"

struct notes {
    struct span spans[SPANS_MAX];
    size_t count;
};

static void note_span(void *arg, const struct span *span)
{
    struct desk *desk = arg;
    struct notes *notes = desk->notes;
    struct span *copy;
    struct buf text;
    if (notes == NULL)
        return;
    assert_true(notes->count < SPANS_MAX);
    copy = &notes->spans[notes->count++];
    *copy = *span;
    for (int i = 0; i < SPAN_TEXT_COUNT; i++)
        copy->texts[i] = arena_copy(&desk->arena, span->texts[i]);
    assert_true(span->start_ms > 0 && span->start_ms <= span->end_ms);
    buf_init(&text, &desk->arena, 1024);
    otlp_write_span(span, &text);
    buf_add_char(&text, '\0');
    assert_null(strstr(text.at, SECRET));
    assert_int_equal(json_check(str_from(text.at), SIZE_MAX, "the span", &desk->arena, NULL),
                     ERR_OK);
}

static void committed(void *arg, const struct batch_report *report)
{
    const struct span_taker taker = {.take = note_span, .arg = arg};
    for (uint32_t i = 0; i < report->change_count; i++)
        trace_change(&report->changes[i], &taker);
}

static void failed(void *arg, enum error_code code)
{
    (void)arg, (void)code;
}

static void shed(void *arg)
{
    (void)arg;
}

static const struct observer watcher = {.committed = committed, .failed = failed, .shed = shed};

/* ---- what the spans must be ---- */

static bool is_text(struct str text, const char *expected)
{
    return expected == NULL ? !str_is_set(text) : str_eq(text, str_from(expected));
}

/* The span of that name and attempt (of that step, or NULL); there must be exactly one. */
static const struct span *the(struct desk *desk, const char *name, const char *step,
                              int64_t attempt)
{
    const struct notes *notes = desk->notes;
    const struct span *found = NULL;
    for (size_t i = 0; i < notes->count; i++) {
        const struct span *span = &notes->spans[i];
        if (!is_text(span->name, name) || !is_text(span->texts[SPAN_STEP], step) ||
            (attempt > 0 && span->attempt != attempt))
            continue;
        if (found != NULL)
            fail_msg("there are two spans %s of %s, attempt %lld", name, step, (long long)attempt);
        found = span;
    }
    if (found == NULL)
        fail_msg("there is no span %s of %s, attempt %lld", name, step, (long long)attempt);
    return found;
}

static void is_below(const struct span *span, const struct span *parent)
{
    assert_memory_equal(span->context.trace_id, parent->context.trace_id, TRACE_ID_LEN);
    assert_memory_equal(span->parent_id, parent->context.span_id, SPAN_ID_LEN);
}

/* Times are milliseconds since the desk was opened. */
static void took(const struct span *span, int64_t from, int64_t to)
{
    assert_int_equal(span->start_ms - DESK_CLOCK, from);
    assert_int_equal(span->end_ms - DESK_CLOCK, to);
}

static void has_text(const struct span *span, enum span_text text, const char *expected)
{
    if (!is_text(span->texts[text], expected))
        fail_msg("%.*s is %.*s and not %s", STR_ARG(span_text_name(text)),
                 STR_ARG(span->texts[text]), expected);
}

static void count_is(struct desk *desk, size_t count)
{
    const struct notes *notes = desk->notes;
    assert_int_equal(notes->count, count);
}

static void hex_is(const uint8_t *bytes, size_t len, const char *expected)
{
    char text[2 * TRACE_ID_LEN + 1];
    for (size_t i = 0; i < len; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    assert_string_equal(text, expected);
}

/* The last answer was a claim: its traceparent is that of the span. */
static void was_given(struct desk *desk, const char *traceparent, const struct span *span)
{
    char text[TRACEPARENT_LEN + 1] = {0};
    (void)desk;
    trace_format(&span->context, text);
    assert_string_equal(traceparent, text);
}

static const char *claim(struct desk *desk)
{
    (void)well(desk, VERB_claim, "{\"worker_id\":\"w\"}");
    return said(desk, "claims.0.lease.token");
}

static const char *claim_step(struct desk *desk, const char *more)
{
    (void)well(desk, VERB_claim_steps, "{\"worker_id\":\"w\",\"resource_id\":\"r\"%s}", more);
    return said(desk, "claims.0.lease.token");
}

/* ---- tests ---- */

/* What the claims of a life have said. */
struct given {
    const char *id;
    const char *first;
    const char *second;
};

/* A failure, then an attempt with two effects. */
static struct given do_both(struct desk *desk)
{
    struct given given;
    (void)well(desk, VERB_submit,
               "{\"kind\":\"mail\",\"queue\":\"q\",\"correlation_id\":\"c1\",\"agent_id\":\"a1\","
               "\"payload\":\"" SECRET "\",\"goal\":\"" SECRET "\"," GIVEN "}");
    given.id = said(desk, "id");
    desk->clock += 10;
    const char *token = claim(desk);
    given.first = said(desk, "claims.0.traceparent");
    desk->clock += 20;
    (void)well(desk, VERB_fail,
               "{\"token\":\"%s\",\"error\":{\"class\":\"resource\",\"message\":\"" SECRET
               "\",\"details\":\"" SECRET "\"},\"retry_after_ms\":70}",
               token);
    count_is(desk, 1);
    let_time_pass(desk, 70);
    token = claim(desk);
    given.second = said(desk, "claims.0.traceparent");
    desk->clock += 5;
    (void)well(desk, VERB_effect_begin,
               "{\"token\":\"%s\",\"key\":\"charge\",\"input\":\"" SECRET "\"}", token);
    desk->clock += 6;
    (void)well(desk, VERB_effect_commit,
               "{\"token\":\"%s\",\"key\":\"charge\",\"result\":\"" SECRET
               "\",\"next\":{\"key\":\"post\"}}",
               token);
    desk->clock += 7;
    (void)well(desk, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"post\"}", token);
    (void)well(desk, VERB_complete, "{\"token\":\"%s\",\"result\":\"" SECRET "\"}", token);
    return given;
}

static void live(struct desk *desk)
{
    struct notes notes = {.count = 0};
    desk->notes = &notes;
    struct given given = do_both(desk);
    count_is(desk, 5);

    const struct span *job = the(desk, "job", NULL, 2);
    hex_is(job->context.trace_id, TRACE_ID_LEN, TRACE);
    hex_is(job->parent_id, SPAN_ID_LEN, PARENT);
    took(job, 0, 118);
    assert_int_equal(job->kind, SPAN_INTERNAL);
    has_text(job, SPAN_OUTCOME, "completed");
    has_text(job, SPAN_ERROR, NULL);
    has_text(job, SPAN_JOB_KIND, "mail");
    has_text(job, SPAN_QUEUE, "q");
    has_text(job, SPAN_CORRELATION_ID, "c1");
    has_text(job, SPAN_AGENT_ID, "a1");
    char text[UUID_TEXT_LEN + 1] = {0};
    uuid_format(job->job, text);
    assert_string_equal(text, given.id);

    const struct span *attempt = the(desk, "attempt", NULL, 1);
    is_below(attempt, job);
    was_given(desk, given.first, attempt);
    took(attempt, 10, 30);
    assert_int_equal(attempt->kind, SPAN_CONSUMER);
    has_text(attempt, SPAN_WORKER_ID, "w");
    has_text(attempt, SPAN_OUTCOME, "retrying");
    has_text(attempt, SPAN_CAUSE, "fail");
    has_text(attempt, SPAN_ERROR, "resource");

    attempt = the(desk, "attempt", NULL, 2);
    is_below(attempt, job);
    was_given(desk, given.second, attempt);
    took(attempt, 100, 118);
    has_text(attempt, SPAN_OUTCOME, "completed");
    has_text(attempt, SPAN_ERROR, NULL);

    const struct span *effect = &notes.spans[1];
    has_text(effect, SPAN_EFFECT_KEY, "charge");
    is_below(effect, attempt);
    took(effect, 105, 111);
    assert_int_equal(effect->kind, SPAN_CLIENT);
    effect = &notes.spans[2];
    has_text(effect, SPAN_EFFECT_KEY, "post");
    is_below(effect, attempt);
    took(effect, 111, 118);
}

static void a_job_is_a_span_with_its_attempts_and_their_effects_below(void **state)
{
    (void)state;
    at_every_watched_desk(live, &watcher);
}

static void lose_and_start_anew(struct desk *desk)
{
    struct notes notes = {.count = 0};
    desk->notes = &notes;
    (void)well(desk, VERB_submit,
               "{\"kind\":\"mail\",\"lease_ttl_ms\":1000,\"retry\":{\"max_attempts\":1}}");
    const char *id = said(desk, "id");
    (void)claim(desk);
    const char *given = said(desk, "claims.0.traceparent");
    let_time_pass(desk, 2000);
    count_is(desk, 2);
    const struct span *attempt = the(desk, "attempt", NULL, 1);
    was_given(desk, given, attempt);
    has_text(attempt, SPAN_OUTCOME, "dead_lettered");
    has_text(attempt, SPAN_CAUSE, "expire");
    has_text(attempt, SPAN_ERROR, "lease_expired");
    const struct span *job = the(desk, "job", NULL, 1);
    assert_memory_equal(job->context.trace_id, job->job.bytes, TRACE_ID_LEN);
    hex_is(job->parent_id, SPAN_ID_LEN, "0000000000000000");
    has_text(job, SPAN_ERROR, "lease_expired");
    struct span first = *job;

    int64_t anew = desk->clock - DESK_CLOCK;
    notes.count = 0;
    (void)well(desk, VERB_requeue, "{\"id\":\"%s\",\"reason\":\"" SECRET "\"}", id);
    desk->clock += 10;
    const char *token = claim(desk);
    desk->clock += 10;
    (void)well(desk, VERB_complete, "{\"token\":\"%s\"}", token);
    count_is(desk, 2);
    job = the(desk, "job", NULL, 2);
    attempt = the(desk, "attempt", NULL, 2);
    is_below(attempt, job);
    took(job, anew, anew + 20);
    took(attempt, anew + 10, anew + 20);
    assert_int_equal(job->epoch, 2);
    assert_memory_equal(job->context.trace_id, first.context.trace_id, TRACE_ID_LEN);
    assert_memory_not_equal(job->context.span_id, first.context.span_id, SPAN_ID_LEN);
}

static void a_job_that_starts_anew_is_a_span_of_its_own(void **state)
{
    (void)state;
    at_every_watched_desk(lose_and_start_anew, &watcher);
}

static void wait_for_something(struct desk *desk)
{
    struct notes notes = {.count = 0};
    desk->notes = &notes;
    (void)well(desk, VERB_submit, "{\"kind\":\"mail\"," GIVEN "}");
    const char *id = said(desk, "id");
    const char *token = claim(desk);
    desk->clock += 10;
    (void)well(desk, VERB_wait,
               "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"" SECRET
               "\",\"prompt\":\"" SECRET "\"}",
               token);
    desk->clock += 90;
    (void)well(desk, VERB_signal,
               "{\"id\":\"%s\",\"correlation_key\":\"" SECRET "\",\"payload\":\"" SECRET "\"}", id);
    count_is(desk, 2);
    const struct span *attempt = the(desk, "attempt", NULL, 1);
    took(attempt, 0, 10);
    has_text(attempt, SPAN_OUTCOME, "waiting");
    has_text(attempt, SPAN_ERROR, NULL);
    const struct span *wait = the(desk, "wait", NULL, 0);
    took(wait, 10, 100);
    has_text(wait, SPAN_WAIT_TYPE, "human");
    has_text(wait, SPAN_OUTCOME, "signal");
    (void)well(desk, VERB_cancel, "{\"id\":\"%s\",\"mode\":\"hard\",\"reason\":\"" SECRET "\"}",
               id);
    count_is(desk, 3);
    const struct span *job = the(desk, "job", NULL, 1);
    is_below(attempt, job);
    is_below(wait, job);
    has_text(job, SPAN_OUTCOME, "cancelled");
    has_text(job, SPAN_ERROR, NULL);
}

static void a_wait_is_a_span(void **state)
{
    (void)state;
    at_every_watched_desk(wait_for_something, &watcher);
}

static void follow_a_plan(struct desk *desk)
{
    struct notes notes = {.count = 0};
    desk->notes = &notes;
    (void)well(desk, VERB_resource_put, "{\"id\":\"r\",\"slots\":9,\"ttl_ms\":600000}");
    (void)well(desk, VERB_submit,
               "{\"kind\":\"mail\"," GIVEN ",\"correlation_id\":\"c1\",\"plan\":{\"steps\":["
               "{\"id\":\"a\",\"kind\":\"fetch\",\"payload\":\"" SECRET "\"},"
               "{\"id\":\"b\",\"kind\":\"ask\",\"deps\":[\"a\"],\"critic\":true}]}}");
    const char *id = said(desk, "id");
    desk->clock += 10;
    const char *token = claim_step(desk, "");
    const char *given = said(desk, "claims.0.traceparent");
    says(desk, "claims.0.correlation_id", "c1");
    (void)well(desk, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"charge\"}", token);
    desk->clock += 10;
    (void)well(desk, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"charge\"}", token);
    (void)well(desk, VERB_fail,
               "{\"token\":\"%s\",\"error\":{\"message\":\"" SECRET "\"},\"retry_after_ms\":10}",
               token);
    let_time_pass(desk, 10);
    token = claim_step(desk, "");
    desk->clock += 10;
    (void)well(desk, VERB_complete, "{\"token\":\"%s\",\"result\":\"" SECRET "\"}", token);
    count_is(desk, 3);
    const struct span *failed_one = the(desk, "step", "a", 1);
    was_given(desk, given, failed_one);
    took(failed_one, 10, 20);
    has_text(failed_one, SPAN_ERROR, "transient");
    has_text(failed_one, SPAN_STEP_KIND, "fetch");
    has_text(failed_one, SPAN_RESOURCE_ID, "r");
    has_text(failed_one, SPAN_WORKER_ID, "w");
    is_below(the(desk, "effect", "a", 1), failed_one);
    const struct span *step = the(desk, "step", "a", 2);
    took(step, 30, 40);
    has_text(step, SPAN_OUTCOME, "succeeded");
    has_text(step, SPAN_ERROR, NULL);

    notes.count = 0;
    token = claim_step(desk, "");
    desk->clock += 10;
    (void)well(desk, VERB_complete, "{\"token\":\"%s\"}", token);
    has_text(the(desk, "step", "b", 1), SPAN_OUTCOME, "step_finished");
    token = claim_step(desk, ",\"judge\":true");
    given = said(desk, "claims.0.traceparent");
    desk->clock += 10;
    (void)well(desk, VERB_verdict,
               "{\"id\":\"%s\",\"step\":\"b\",\"decision\":\"needs_user\",\"token\":\"%s\","
               "\"reason\":\"" SECRET "\",\"question\":{\"prompt\":\"" SECRET "\"}}",
               id, token);
    was_given(desk, given, the(desk, "step", "b", 2));
    desk->clock += 100;
    (void)well(desk, VERB_answer,
               "{\"id\":\"%s\",\"step\":\"b\",\"answer\":\"" SECRET "\",\"by\":\"ann\"}", id);
    const struct span *question = the(desk, "wait", "b", 0);
    took(question, 60, 160);
    (void)well(desk, VERB_cancel, "{\"id\":\"%s\",\"mode\":\"hard\"}", id);
    const struct span *job = the(desk, "job", NULL, 0);
    took(job, 0, 160);
    is_below(failed_one, job);
    is_below(question, job);
}

static void the_steps_of_a_plan_are_spans(void **state)
{
    (void)state;
    at_every_watched_desk(follow_a_plan, &watcher);
}

static void stay_out_of_sight(struct desk *desk)
{
    struct notes notes = {.count = 0};
    desk->notes = &notes;
    (void)well(desk, VERB_submit,
               "{\"kind\":\"mail\",\"traceparent\":\"00-" TRACE "-" PARENT "-00\"}");
    const char *token = claim(desk);
    const char *given = said(desk, "claims.0.traceparent");
    assert_string_equal(given + TRACEPARENT_LEN - 2, "00");
    (void)well(desk, VERB_complete, "{\"token\":\"%s\"}", token);
    count_is(desk, 0);
}

static void a_trace_that_is_not_sampled_has_no_spans(void **state)
{
    (void)state;
    at_every_watched_desk(stay_out_of_sight, &watcher);
}

static void ask_nobody(struct desk *desk)
{
    (void)well(desk, VERB_submit, "{\"kind\":\"mail\"}");
    (void)claim(desk);
    assert_int_equal(strlen(said(desk, "claims.0.traceparent")), TRACEPARENT_LEN);
    (void)well(desk, VERB_submit, "{\"kind\":\"mail\"," GIVEN "}");
    (void)claim(desk);
    assert_memory_equal(said(desk, "claims.0.traceparent"), "00-" TRACE "-", 36);
}

static void without_an_exporter_every_claim_has_a_traceparent_too(void **state)
{
    (void)state;
    at_every_desk(ask_nobody);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_a_span_with_its_attempts_and_their_effects_below),
        cmocka_unit_test(a_job_that_starts_anew_is_a_span_of_its_own),
        cmocka_unit_test(a_wait_is_a_span),
        cmocka_unit_test(the_steps_of_a_plan_are_spans),
        cmocka_unit_test(a_trace_that_is_not_sampled_has_no_spans),
        cmocka_unit_test(without_an_exporter_every_claim_has_a_traceparent_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
