/* Histories written by hand, for tests of the checker: event by event, right or wrong.
 *
 * ADD(h, JOB_LEASED, "claim", .attempt = 1) appends an event at the history's clock. When a history
 * is verified it is sealed, opened again from its bytes, and folded into the row that it is held
 * against; a test that wants other damage does it between history_seal and history_report. */
#ifndef PAWL_TESTS_CORE_HISTORY_H
#define PAWL_TESTS_CORE_HISTORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/evolve.h"
#include "core/plan.h"
#include "core/verify.h"

#define START_MS INT64_C(1767225600000) /* 2026-01-01T00:00:00.000Z */

struct history {
    struct arena arena;
    struct uuid id;
    uint8_t salt[SALT_LEN];
    struct spec spec;
    int64_t now;
    struct event *events;
    size_t count;
    size_t cap;
    struct job_slice row;
    bool has_row;
    bool sealed;
    bool salt_erased;
    bool bare; /* histories are sealed without the hashes that every engine writes */
    struct verify_report report;
};

/* Which rules some test has seen broken. */
static bool rules_seen[VERIFY_RULE_COUNT];

static inline int history_setup(void **state)
{
    struct history *h = calloc(1, sizeof *h);
    if (h == NULL)
        return -1;
    arena_init(&h->arena);
    memset(h->id.bytes, 7, sizeof h->id.bytes);
    memset(h->salt, 9, sizeof h->salt);
    h->now = START_MS;
    h->spec = spec_defaults(NULL);
    h->spec.kind = STR("mail");
    h->spec.queue = STR("default");
    h->spec.correlation_id = STR("order-7");
    h->spec.retry.max_attempts = 3;
    h->spec.in_doubt = DOUBT_ASK;
    *state = h;
    return 0;
}

static inline int history_teardown(void **state)
{
    struct history *h = *state;
    arena_release(&h->arena);
    free(h);
    return 0;
}

#define HISTORY_TEST(test) cmocka_unit_test_setup_teardown(test, history_setup, history_teardown)

/* "complete:fetch#2" as a cause, read as stored ones are. */
static inline struct cause cause_of(struct history *h, const char *text)
{
    struct event probe = {.type = EVENT_NODE_STARTED, .cause_text = str_from(text)};
    struct err err;
    assert_int_equal(event_open(&probe, 0, &h->arena, &err), ERR_OK);
    return probe.cause;
}

/* Makes room; the array may move. */
static inline struct event *history_next(struct history *h)
{
    if (h->count == h->cap) {
        size_t cap = h->cap == 0 ? 64 : h->cap * 2;
        struct event *events = arena_alloc(&h->arena, cap * sizeof *events);
        assert_non_null(events);
        if (h->count > 0)
            memcpy(events, h->events, h->count * sizeof *events);
        h->events = events;
        h->cap = cap;
    }
    return &h->events[h->count++];
}

static inline struct event *history_add(struct history *h, enum event_type type, const char *cause,
                                        struct event_data data)
{
    struct event *event = history_next(h);
    *event = (struct event){
        .job_id = h->id,
        .version = (int64_t)h->count,
        .at = h->now,
        .type = type,
        .actor = STR("tester"),
        .correlation_id = h->spec.correlation_id,
        .cause = cause_of(h, cause),
        .data = data,
    };
    return event;
}

#define ADD(h, type_, cause_, ...)                                                                 \
    history_add(h, EVENT_##type_, cause_, (struct event_data){__VA_ARGS__})
#define NOTE(h, type_, cause_) ADD(h, type_, cause_, .attempt = 0)

/* Errors that are not retried, and that are. */
#define PERMANENT STR("{\"class\":\"permanent\"}")
#define TRANSIENT STR("{\"class\":\"transient\"}")

/* What an operator may append without a lease. */
static inline struct event *remark(struct history *h, const char *cause)
{
    struct event *event = NOTE(h, CUSTOM, cause);
    event->type_name = STR("audit.remark");
    event->payload = STR("{}");
    return event;
}

static inline void tick(struct history *h, int64_t ms)
{
    h->now += ms;
}

/* ---- the usual events ---- */

static inline struct event *created(struct history *h)
{
    return ADD(h, JOB_CREATED, "submit", .spec = &h->spec);
}

static inline struct event *leased(struct history *h, int64_t attempt)
{
    return ADD(h, JOB_LEASED, "claim", .worker_id = STR("w1"), .attempt = attempt,
               .lease_ttl_ms = 30000, .heartbeat_ms = 15000, .expires_at = h->now + 30000);
}

/* Leased and started in one commit. */
static inline void claimed(struct history *h, int64_t attempt)
{
    leased(h, attempt);
    ADD(h, JOB_RUNNING, "claim", .attempt = attempt);
}

/* One failure, one lost lease, one release that costs nothing, then success. */
static inline void retries(struct history *h)
{
    created(h);
    claimed(h, 1);
    tick(h, 10);
    ADD(h, JOB_REQUEUED, "fail#1", .error = STR("{\"class\":\"transient\"}"), .failures = 1,
        .not_before = h->now + 500);
    tick(h, 500);
    claimed(h, 2);
    tick(h, 30000);
    ADD(h, JOB_REQUEUED, "expire", .reason = STR("lease_expired"), .failures = 2,
        .not_before = h->now + 1000, .last_lease_expires_at = h->now);
    tick(h, 1000);
    claimed(h, 3);
    ADD(h, JOB_REQUEUED, "release#3", .reason = STR("released"), .failures = 2);
    claimed(h, 4);
}

/* Out of retries at the first failure. */
static inline void dead_letter(struct history *h)
{
    h->spec.retry.max_attempts = 1;
    created(h);
    claimed(h, 1);
    ADD(h, JOB_DEAD_LETTERED, "fail#1", .failures = 1, .reason_code = DEAD_EXHAUSTED_RETRIES,
        .attempts = 1, .last_owner = STR("w1"), .last_lease_expires_at = h->now + 30000);
}

/* Forgets the events from number `count` + 1 on. */
static inline void back_to(struct history *h, size_t count)
{
    h->count = count;
    h->sealed = false;
}

/* Starts the history anew. */
static inline void restart(struct history *h)
{
    back_to(h, 0);
    h->now = START_MS;
}

/* ---- seal, fold, verify ---- */

/* The hashes of tokens and inputs, where a test has not given any. */
static inline void history_hashes(struct event_data *data, enum event_type type)
{
    static const uint8_t none[HASH_LEN];
    uint8_t hash[HASH_LEN];
    if (data->worker_id.len > 0 && memcmp(data->token_hash, none, TOKEN_HASH_LEN) == 0)
        memset(data->token_hash, 5, TOKEN_HASH_LEN);
    if (type != EVENT_TOOL_CALLED || memcmp(data->input_hash, none, INPUT_HASH_LEN) != 0)
        return;
    hash_sha256(&data->input, str_is_set(data->input) ? 1 : 0, hash);
    memcpy(data->input_hash, hash, INPUT_HASH_LEN);
}

static inline void history_seal(struct history *h)
{
    static const uint8_t none[HASH_LEN];
    const uint8_t *previous = none;
    struct err err;
    for (size_t i = 0; i < h->count; i++) {
        struct event *event = &h->events[i];
        if (event->type == EVENT_JOB_CREATED)
            event->data.spec = &h->spec;
        if (!h->bare)
            history_hashes(&event->data, event->type);
        enum error_code code = event_seal(event, previous, h->salt, &h->arena, &err);
        if (code == ERR_OK)
            code = event_open(event, 0, &h->arena, &err);
        if (code != ERR_OK)
            fail_msg("event %zu: %s", i + 1, err.detail);
        previous = event->hash;
    }
    h->sealed = true;
}

/* The row that a right engine would have; none when the stream cannot be folded. */
static inline void history_fold(struct history *h)
{
    struct err err;
    job_slice_init(&h->row, h->id, 1);
    memcpy(h->row.job.salt, h->salt, SALT_LEN);
    h->has_row = true;
    for (size_t i = 0; i < h->count && h->has_row; i++)
        h->has_row = job_evolve(&h->row, &h->events[i], &h->arena, &err) == ERR_OK;
}

static inline void history_report(struct history *h)
{
    struct err err;
    struct verify_input input = {.id = h->id,
                                 .events = h->events,
                                 .count = h->count,
                                 .salt = h->salt_erased ? NULL : h->salt,
                                 .row = h->has_row ? &h->row : NULL,
                                 .seed = 5};
    enum error_code code = job_verify(&input, &h->arena, &h->report, &err);
    assert_int_equal(code, ERR_OK);
    assert_int_equal(h->report.version, h->count);
    for (uint32_t i = 0; i < h->report.violation_count; i++)
        rules_seen[h->report.violations[i].rule] = true;
}

static inline void history_verify(struct history *h)
{
    if (!h->sealed) {
        history_seal(h);
        history_fold(h);
    }
    history_report(h);
}

/* ---- assertions ---- */

static inline void report_print(const struct history *h)
{
    for (uint32_t i = 0; i < h->report.violation_count; i++) {
        const struct violation *at = &h->report.violations[i];
        print_error("  version %lld: %.*s: %.*s\n", (long long)at->version,
                    STR_ARG(verify_rule_name(at->rule)), STR_ARG(at->detail));
    }
}

static inline void assert_clean(struct history *h)
{
    history_verify(h);
    report_print(h);
    assert_int_equal(h->report.violation_count, 0);
    if (h->count > 0)
        assert_memory_equal(h->report.head, h->events[h->count - 1].hash, HASH_LEN);
}

static inline bool is_reported(const struct history *h, int64_t version, enum verify_rule rule)
{
    for (uint32_t i = 0; i < h->report.violation_count; i++)
        if (h->report.violations[i].rule == rule && h->report.violations[i].version == version)
            return true;
    return false;
}

/* The rule is reported at the version, perhaps among others. */
static inline void assert_reported(struct history *h, int64_t version, enum verify_rule rule)
{
    history_verify(h);
    if (is_reported(h, version, rule))
        return;
    report_print(h);
    fail_msg("%.*s is not reported at version %lld", STR_ARG(verify_rule_name(rule)),
             (long long)version);
}

/* The rule is reported at the version, and nothing else is. */
static inline void assert_only(struct history *h, int64_t version, enum verify_rule rule)
{
    assert_reported(h, version, rule);
    if (h->report.violation_count == 1)
        return;
    report_print(h);
    fail_msg("%u violations, expected one", h->report.violation_count);
}

/* The last event is the one at fault. */
static inline void assert_last(struct history *h, enum verify_rule rule)
{
    assert_only(h, (int64_t)h->count, rule);
}

static inline void assert_rules_seen(enum verify_rule first, enum verify_rule last)
{
    for (int rule = (int)first; rule <= (int)last; rule++)
        if (!rules_seen[rule])
            fail_msg("no test breaks the rule %.*s",
                     STR_ARG(verify_rule_name((enum verify_rule)rule)));
}

#endif
