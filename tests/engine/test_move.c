/* Jobs move from any store to any other with all of their history: byte for byte, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/desk.h"
#include "pawl.h"
#include "store/store_driver.h"

#define NOBODY "01234567-89ab-7def-8123-456789abcdef"

/* The store from which jobs are taken while the test is at the desk to which they go. */
struct journey {
    void (*pack)(struct desk *d);
    char *exports[16];
    char *jobs[16]; /* as get answers */
    uint32_t count;
};

static struct journey journey;

/* For what does not depend on where a job comes from: one origin will do. */
static bool is_in_memory(const struct desk *d)
{
    return strcmp(engine_store(d->engine)->driver->name, "memory") == 0;
}

static void forget(void)
{
    for (uint32_t i = 0; i < journey.count; i++) {
        free(journey.exports[i]);
        free(journey.jobs[i]);
    }
    journey.count = 0;
}

/* Exports every job of the desk. */
static void pack_all(struct desk *d)
{
    forget();
    well(d, VERB_list, "{}");
    const char *list = d->answer;
    for (uint32_t i = 0;; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "jobs.%u.id", i);
        d->answer = list;
        const char *id = said(d, path);
        if (id[0] == '\0')
            break;
        assert_true(i < 16);
        journey.exports[i] = strdup(well(d, VERB_export, "{\"id\":\"%s\"}", id));
        journey.jobs[i] = strdup(well(d, VERB_get, "{\"id\":\"%s\"}", id));
        assert_non_null(journey.exports[i]);
        assert_non_null(journey.jobs[i]);
        journey.count++;
    }
}

static const char *claim(struct desk *d)
{
    well(d, VERB_claim, "{\"worker_id\":\"w1\"}");
    return said(d, "claims.0.lease.token");
}

#define PLAN                                                                                       \
    "{\"kind\":\"agent\",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"k\"},{\"id\":\"b\","        \
    "\"deps\":[\"a\"]},{\"id\":\"c\",\"deps\":[\"a\"],\"wait\":{\"type\":\"human\",\"prompt\":"    \
    "\"ok?\"}}]}}"

/* One of everything that a job can be. */
static void live(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"payload\":{\"n\": 1.10, \"t\":\"\\u00e9\\n\"}}");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":[ 1 ]}", claim(d));
    well(d, VERB_submit, "{\"kind\":\"mail\",\"labels\":{\"a\":\"b\"},\"idempotency_key\":\"k\"}");
    const char *token = claim(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"charge\",\"input\":{\"eur\":3}}",
         token);
    well(d, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"charge\",\"result\":\"done\"}", token);
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":50,\"cursor\":\"c\"}", token);
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"go\"}", token);
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    well(d, VERB_fail,
         "{\"token\":\"%s\",\"error\":{\"message\":\"no\"},\"retry_after_ms\":600000}", claim(d));
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    well(d, VERB_dead_letter, "{\"id\":\"%s\",\"reason_code\":\"timeout\"}", said(d, "id"));
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"early\",\"payload\":1}", id);
    well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"payload\":[ 1,2 ]}]}", id);
    well(d, VERB_cancel, "{\"id\":\"%s\",\"reason\":\"no\"}", id);
    well(d, VERB_submit, PLAN);
    well(d, VERB_resource_put, "{\"id\":\"r1\"}");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\"}");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":7}", said(d, "claims.0.lease.token"));
    well(d, VERB_submit, "{\"kind\":\"last\"}");
    pack_all(d);
}

/* Takes in what was packed, and finds the same again. */
static void unpack(struct desk *d)
{
    struct buf request;
    buf_init(&request, &d->arena, 64 * 1024);
    buf_add(&request, STR("{\"jobs\":["));
    for (uint32_t i = 0; i < journey.count; i++) {
        buf_add(&request, i == 0 ? STR("") : STR(","));
        buf_add(&request, str_from(journey.exports[i]));
    }
    buf_add(&request, STR("]}"));
    buf_add_char(&request, '\0');
    char expected[64];
    (void)snprintf(expected, sizeof expected, "{\"imported\":%u,\"present\":0}", journey.count);
    well(d, VERB_import, "%s", request.at);
    assert_string_equal(d->answer, expected);
    for (uint32_t i = 0; i < journey.count; i++) {
        d->answer = journey.jobs[i];
        const char *id = said(d, "id");
        well(d, VERB_get, "{\"id\":\"%s\"}", id);
        assert_string_equal(d->answer, journey.jobs[i]);
        well(d, VERB_export, "{\"id\":\"%s\"}", id);
        assert_string_equal(d->answer, journey.exports[i]);
        well(d, VERB_verify, "{\"id\":\"%s\"}", id);
        says(d, "ok", "true");
    }
    (void)snprintf(expected, sizeof expected, "{\"imported\":0,\"present\":%u}", journey.count);
    well(d, VERB_import, "%s", request.at);
    assert_string_equal(d->answer, expected);
}

/* The export of a job with some names of events replaced by others of the same meaning. */
static const char *rename_events(struct desk *d, const char *export)
{
    static const char *const names[][2] = {
        {"\"job_leased\"", "\"job_claimed\""},
        {"\"job_running\"", "\"job_started\""},
        {"\"job_completed\"", "\"job_succeeded\""},
        {"\"tool_called\"", "\"tool_invocation_started\""},
        {"\"tool_returned\"", "\"tool_invocation_finished\""},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *at = strstr(export, names[i][0]);
        struct buf renamed;
        assert_non_null(at);
        buf_init(&renamed, &d->arena, strlen(export) + 64);
        buf_addf(&renamed, "%.*s%s%s", (int)(at - export), export, names[i][1],
                 at + strlen(names[i][0]));
        buf_add_char(&renamed, '\0');
        export = renamed.at;
    }
    return export;
}

/* The job is made here, and goes to another desk of every store. */
static char *seed_export;
static char *renamed_export;

static void arrive_by_seed_names(struct desk *d)
{
    well(d, VERB_import, "{\"jobs\":[%s]}", renamed_export);
    assert_string_equal(d->answer, "{\"imported\":1,\"present\":0}");
    well(d, VERB_list, "{}");
    const char *id = said(d, "jobs.0.id");
    assert_string_equal(well(d, VERB_export, "{\"id\":\"%s\"}", id), seed_export);
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
}

static void depart_by_seed_names(struct desk *d)
{
    if (!is_in_memory(d))
        return;
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    const char *token = claim(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"e\"}", token);
    well(d, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"e\",\"result\":1}", token);
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
    seed_export = strdup(well(d, VERB_export, "{\"id\":\"%s\"}", id));
    renamed_export = strdup(rename_events(d, seed_export));
    at_every_desk(arrive_by_seed_names);
    free(seed_export);
    free(renamed_export);
}

static void events_by_the_names_of_the_seeds_are_taken_in_as_the_canonical_ones(void **state)
{
    (void)state;
    at_every_desk(depart_by_seed_names);
}

/* What was taken in goes on where it was. */
static void go_on(struct desk *d)
{
    well(d, VERB_claim, "{\"worker_id\":\"w2\",\"kinds\":[\"last\"]}");
    well(d, VERB_complete, "{\"token\":\"%s\"}", said(d, "claims.0.lease.token"));
    well(d, VERB_list, "{\"status\":\"waiting\",\"kind\":\"mail\"}");
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"go\"}", said(d, "jobs.0.id"));
    const char *token = claim(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"charge\",\"input\":{\"eur\":3}}",
         token);
    says(d, "status", "recorded");
    says(d, "result", "done");
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\"}");
    says(d, "duplicate", "true");
    well(d, VERB_inbox, "{}");
    says(d, "questions.0.step", "c");
    well(d, VERB_answer, "{\"id\":\"%s\",\"step\":\"c\",\"answer\":true}",
         said(d, "questions.0.id"));
    well(d, VERB_resource_put, "{\"id\":\"r1\"}");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w2\",\"resource_id\":\"r1\"}");
    says(d, "claims.0.step.id", "b");
    well(d, VERB_complete, "{\"token\":\"%s\"}", said(d, "claims.0.lease.token"));
    says(d, "status", "completed");
    let_time_pass(d, 600 * 1000);
    well(d, VERB_claim, "{\"worker_id\":\"w2\",\"kinds\":[\"mail\"]}");
    says(d, "claims.0.job.failures", "1");
}

static void unpack_and_go_on(struct desk *d)
{
    unpack(d);
    go_on(d);
}

static void from_here(struct desk *d)
{
    live(d);
    at_every_desk(unpack_and_go_on);
    forget();
}

static void jobs_move_from_every_store_to_every_other_and_go_on(void **state)
{
    (void)state;
    at_every_desk(from_here);
}

static void leave_with_lease(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    (void)claim(d);
    pack_all(d);
}

static void arrive_with_lease(struct desk *d)
{
    leave_with_lease(d);
    char *packed = strdup(journey.exports[0]);
    assert_non_null(packed);
    well(d, VERB_cancel, "{\"id\":\"%s\",\"mode\":\"hard\"}",
         (d->answer = journey.jobs[0], said(d, "id")));
    ill(d, VERB_import, ERR_VERSION_MISMATCH, "a different history", "{\"jobs\":[%s]}", packed);
    free(packed);
}

static void a_job_that_has_gone_on_meanwhile_is_left_alone(void **state)
{
    (void)state;
    at_every_desk(arrive_with_lease);
    forget();
}

static void expire_elsewhere(struct desk *d)
{
    well(d, VERB_import, "{\"jobs\":[%s]}", journey.exports[0]);
    says(d, "imported", "1");
    d->answer = journey.jobs[0];
    const char *id = said(d, "id");
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "status", "running");
    let_time_pass(d, 120 * 1000);
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "failures", "1");
    says(d, "lease", "");
}

static void lend_from_here(struct desk *d)
{
    leave_with_lease(d);
    at_every_desk(expire_elsewhere);
    forget();
}

static void a_lease_comes_along_and_ends_by_itself(void **state)
{
    (void)state;
    at_every_desk(lend_from_here);
}

/* ---- what is not right is not taken ---- */

/* The export of a small job with other bytes from `from` up to `end`. */
static const char *spliced(struct desk *d, const char *from, const char *end, const char *bytes)
{
    struct buf buf;
    const char *whole = journey.exports[0];
    buf_init(&buf, &d->arena, 4096);
    buf_add(&buf, (struct str){whole, (size_t)(from - whole)});
    buf_add(&buf, str_from(bytes));
    buf_add(&buf, str_from(end));
    buf_add_char(&buf, '\0');
    assert_false(buf.failed);
    return buf.at;
}

static struct pawl_json found(const char *path)
{
    const char *whole = journey.exports[0];
    struct pawl_json value = pawl_json_get((struct pawl_json){whole, strlen(whole)}, path);
    assert_non_null(value.at);
    return value;
}

/* The value at a path is another. */
static const char *changed(struct desk *d, const char *path, const char *value)
{
    struct pawl_json old = found(path);
    return spliced(d, old.at, old.at + old.len, value);
}

/* The member at a path, which is not the first, is missing. */
static const char *removed(struct desk *d, const char *path, const char *name)
{
    struct pawl_json old = found(path);
    return spliced(d, old.at - strlen(name) - sizeof ",\"\":" + 1, old.at + old.len, "");
}

/* An object begins with another member. */
static const char *added(struct desk *d, const char *path, const char *member)
{
    const char *brace = path == NULL ? journey.exports[0] : found(path).at;
    return spliced(d, brace + 1, brace + 1, member);
}

/* The same with white space wherever it may be. */
static const char *laid_out(struct desk *d)
{
    struct buf buf;
    bool in_text = false;
    buf_init(&buf, &d->arena, 4096);
    for (const char *at = journey.exports[0]; *at != '\0'; at++) {
        buf_add_char(&buf, *at);
        if (*at == '"')
            in_text = !in_text;
        if (in_text && *at == '\\')
            buf_add_char(&buf, *++at);
        else if (!in_text)
            buf_add(&buf, STR("\n  "));
    }
    buf_add_char(&buf, '\0');
    return buf.at;
}

static void refuse_damage(struct desk *d)
{
    static const char zeros[] =
        "\"0000000000000000000000000000000000000000000000000000000000000000\"";
    const struct {
        enum error_code code;
        const char *words;
        const char *bundle;
    } cases[] = {
        {ERR_BAD_REQUEST, "digest", changed(d, "events.0.payload", "\"{\\\"kind\\\":\\\"a\\\"}\"")},
        {ERR_BAD_REQUEST, "damaged", changed(d, "events.0.payload", "\"[]\"")},
        {ERR_BAD_REQUEST, "hash", changed(d, "events.1.hash", zeros)},
        {ERR_BAD_REQUEST, "hash", changed(d, "events.1.actor", "\"eve\"")},
        {ERR_BAD_REQUEST, "event 4", changed(d, "events.3.type", "\"job_failed\"")},
        {ERR_BAD_REQUEST, "version", changed(d, "events.1.version", "7")},
        {ERR_BAD_REQUEST, "digest", changed(d, "salt", "\"00000000000000000000000000000000\"")},
        {ERR_BAD_REQUEST, "hash", changed(d, "id", "\"" NOBODY "\"")},
        {ERR_BAD_REQUEST, "digest", removed(d, "events.0.payload", "payload")},
        {ERR_BAD_REQUEST, "payload", changed(d, "events.0.payload", "\"{\"")},
        {ERR_BAD_REQUEST, "payload", changed(d, "events.0.payload", "{}")},
        {ERR_BAD_REQUEST, "no type", removed(d, "events.0.type", "type")},
        {ERR_BAD_REQUEST, "the export format is 2", changed(d, "format", "2")},
        {ERR_BAD_REQUEST, "at least one event", changed(d, "events", "[]")},
        {ERR_BAD_REQUEST, "at least one event", removed(d, "events", "events")},
        {ERR_BAD_REQUEST, "id", changed(d, "id", "\"x\"")},
        {ERR_BAD_REQUEST, "salt", changed(d, "salt", "\"00\"")},
        {ERR_UNKNOWN_FIELD, "colour", added(d, NULL, "\"colour\":1,")},
        {ERR_UNKNOWN_FIELD, "colour", added(d, "events.0", "\"colour\":1,")},
        {ERR_BAD_REQUEST, "not an object", "7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ill(d, VERB_import, cases[i].code, cases[i].words, "{\"jobs\":[%s]}", cases[i].bundle);
    well(d, VERB_list, "{}");
    says(d, "jobs.0", "");
    well(d, VERB_import, "{\"jobs\":[%s]}", laid_out(d));
    says(d, "imported", "1");
}

static void damage_from_here(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"payload\":{\"n\": 1.10, \"t\":\"\\u00e9\"}}");
    well(d, VERB_complete, "{\"token\":\"%s\"}", claim(d));
    pack_all(d);
    at_every_desk(refuse_damage);
    forget();
}

static void a_history_that_is_not_right_is_refused_with_the_reason(void **state)
{
    (void)state;
    at_every_desk(damage_from_here);
}

static void take_all_or_none(struct desk *d)
{
    const char *first = journey.exports[0];
    const char *second = journey.exports[1];
    ill(d, VERB_import, ERR_BAD_REQUEST, "the same job", "{\"jobs\":[%s,%s,%s]}", first, second,
        first);
    ill(d, VERB_import, ERR_BAD_REQUEST, "jobs[1]", "{\"jobs\":[%s,{}]}", first);
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\"}");
    ill(d, VERB_import, ERR_IDEMPOTENCY_MISMATCH, "\"k\"", "{\"jobs\":[%s,%s]}", first, second);
    well(d, VERB_list, "{}");
    says(d, "jobs.1", "");
    ill(d, VERB_import, ERR_BAD_REQUEST, "1 to 100", "{\"jobs\":[]}");
    ill(d, VERB_import, ERR_BAD_REQUEST, "1 to 100", "{}");
    ill(d, VERB_import, ERR_BAD_REQUEST, "jobs", "{\"jobs\":{}}");
}

static void clash_from_here(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\"}");
    d->clock++;
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    pack_all(d);
    at_every_desk(take_all_or_none);
    forget();
}

static void all_are_taken_or_none(void **state)
{
    (void)state;
    at_every_desk(clash_from_here);
}

/* ---- jobs whose payloads are erased ---- */

static void erase(struct desk *d, const char *id)
{
    well(d, VERB_redact, "{\"id\":\"%s\"}", id);
}

/* One of every way to end, with everything that a job can have had. */
static void live_and_erase(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"priority\":-3,\"payload\":\"secret\",\"labels\":{\"a\":\"secret\"},"
         "\"goal\":\"secret\",\"agent_id\":\"bot\",\"correlation_id\":\"c1\","
         "\"idempotency_key\":\"k\"}");
    const char *id = said(d, "id");
    const char *token = claim(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"charge\",\"input\":\"secret\"}", token);
    well(d, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"charge\",\"result\":\"secret\"}",
         token);
    well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"go\"}", token);
    well(d, VERB_signal,
         "{\"id\":\"%s\",\"correlation_key\":\"go\",\"payload\":\"secret\",\"signal_id\":\"s\"}",
         id);
    token = claim(d);
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"cursor\":\"secret\"}", token);
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":\"secret\"}", token);
    erase(d, id);
    well(d, VERB_submit, "{\"kind\":\"mail\",\"retry\":{\"on_exhausted\":\"fail\"}}");
    id = said(d, "id");
    well(d, VERB_fail,
         "{\"token\":\"%s\",\"error\":{\"message\":\"secret\",\"class\":\"permanent\"}}", claim(d));
    erase(d, id);
    well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"payload\":[ 1 ]}]}", id);
    well(d, VERB_submit, "{\"kind\":\"mail\",\"queue\":\"slow\"}");
    id = said(d, "id");
    well(d, VERB_dead_letter, "{\"id\":\"%s\",\"reason_code\":\"timeout\",\"message\":\"secret\"}",
         id);
    erase(d, id);
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    id = said(d, "id");
    well(d, VERB_signal, "{\"id\":\"%s\",\"correlation_key\":\"early\",\"payload\":\"secret\"}",
         id);
    well(d, VERB_cancel, "{\"id\":\"%s\",\"reason\":\"secret\"}", id);
    erase(d, id);
    well(d, VERB_submit, PLAN);
    id = said(d, "id");
    well(d, VERB_resource_put, "{\"id\":\"r1\"}");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\"}");
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":\"secret\"}",
         said(d, "claims.0.lease.token"));
    well(d, VERB_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\"}");
    well(d, VERB_cancel, "{\"id\":\"%s\",\"mode\":\"hard\"}", id);
    erase(d, id);
    pack_all(d);
    assert_int_equal(journey.count, 5);
}

/* Whatever else there is to be read of a job is the same, and nothing of it lives on. */
static void look_around(struct desk *d)
{
    for (uint32_t i = 0; i < journey.count; i++) {
        assert_null(strstr(journey.exports[i], "secret"));
        d->answer = journey.jobs[i];
        const char *id = said(d, "id");
        well(d, VERB_verify, "{\"id\":\"%s\"}", id);
        says(d, "partial", "true");
        says(d, "violations.0", "");
        well(d, VERB_explain, "{\"id\":\"%s\"}", id);
        well(d, VERB_steps, "{\"id\":\"%s\"}", id);
        well(d, VERB_events, "{\"id\":\"%s\"}", id);
        says(d, "events.0.type", "job_created");
        ill(d, VERB_requeue, ERR_INVALID_TRANSITION, "", "{\"id\":\"%s\"}", id);
    }
    well(d, VERB_list, "{\"kind\":\"agent\"}");
    well(d, VERB_steps, "{\"id\":\"%s\"}", said(d, "jobs.0.id"));
    says(d, "steps.0.id", "a");
    says(d, "steps.0.state", "succeeded");
    says(d, "steps.2.state", "needs_user");
    well(d, VERB_list, "{\"agent_id\":\"bot\",\"correlation_id\":\"c1\",\"queue\":\"default\"}");
    says(d, "jobs.0.redacted", "true");
    says(d, "jobs.0.priority", "-3");
    well(d, VERB_dead_letters, "{\"queue\":\"slow\",\"reason_code\":\"timeout\"}");
    says(d, "jobs.0.redacted", "true");
    well(d, VERB_submit, "{\"kind\":\"mail\",\"idempotency_key\":\"k\"}");
    says(d, "duplicate", "true");
    well(d, VERB_resource_put, "{\"id\":\"r1\"}");
    well(d, VERB_claim, "{\"worker_id\":\"w1\"}");
    says(d, "claims.0", "");
    well(d, VERB_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\"}");
    says(d, "claims.0", "");
    well(d, VERB_workers, "{}");
    says(d, "workers.0", "");
}

static void unpack_erased(struct desk *d)
{
    unpack(d);
    look_around(d);
}

static void erased_from_here(struct desk *d)
{
    live_and_erase(d);
    look_around(d);
    at_every_desk(unpack_erased);
    forget();
    ill(d, VERB_export, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
}

static void a_job_whose_payloads_are_erased_moves_as_it_is(void **state)
{
    (void)state;
    at_every_desk(erased_from_here);
}

static void refuse_damaged_rows(struct desk *d)
{
    static const char zeros[] =
        "\"0000000000000000000000000000000000000000000000000000000000000000\"";
    const struct {
        enum error_code code;
        const char *words;
        const char *bundle;
    } cases[] = {
        {ERR_BAD_REQUEST, "hash", changed(d, "events.1.hash", zeros)},
        {ERR_BAD_REQUEST, "hash", changed(d, "events.1.digest", zeros)},
        {ERR_BAD_REQUEST, "hash", changed(d, "events.2.actor", "\"eve\"")},
        {ERR_BAD_REQUEST, "version", changed(d, "events.1.version", "7")},
        {ERR_BAD_REQUEST, "attempt", changed(d, "row.state.attempt", "9")},
        {ERR_BAD_REQUEST, "redaction", removed(d, "row", "row")},
        {ERR_BAD_REQUEST, "state of a job", changed(d, "row.state.attempt", "true")},
        {ERR_BAD_REQUEST, "only for jobs with erased payloads",
         removed(d, "events.0.redacted", "redacted")},
        {ERR_BAD_REQUEST, "has a payload", added(d, "events.0", "\"payload\":\"{}\",")},
        {ERR_BAD_REQUEST, "salt", added(d, NULL, "\"salt\":\"00000000000000000000000000000001\",")},
        {ERR_BAD_REQUEST, "no kind", changed(d, "row", "{}")},
        {ERR_BAD_REQUEST, "row", changed(d, "row", "[]")},
        {ERR_BAD_REQUEST, "queue", changed(d, "row.queue", "\"\\u0007\"")},
        {ERR_BAD_REQUEST, "priority", changed(d, "row.priority", "10000000")},
        {ERR_BAD_REQUEST, "state", changed(d, "row.state", "\"\"")},
        {ERR_BAD_REQUEST, "an effect", changed(d, "row.effects", "[7]")},
        {ERR_BAD_REQUEST, "without key", changed(d, "row.effects", "[{}]")},
        {ERR_BAD_REQUEST, "correlation_key", changed(d, "row.signals", "[{}]")},
        {ERR_BAD_REQUEST, "a step", changed(d, "row.steps", "[null]")},
        {ERR_BAD_REQUEST, "without plan", changed(d, "row.steps", "[{}]")},
        {ERR_BAD_REQUEST, "child",
         changed(d, "row.steps",
                 "[{\"plan\":{\"children\":[1],\"spec\":{\"id\":\"a\"}},\"state\":{}}]")},
        {ERR_BAD_REQUEST, "no way that there is",
         changed(d, "row.state.lease", "{\"ended_by\":12345}")},
        {ERR_UNKNOWN_FIELD, "colour", added(d, "row", "\"colour\":1,")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ill(d, VERB_import, cases[i].code, cases[i].words, "{\"jobs\":[%s]}", cases[i].bundle);
    well(d, VERB_list, "{}");
    says(d, "jobs.0", "");

    /* What redaction erases does not come back by way of a row. */
    well(d, VERB_import, "{\"jobs\":[%s]}",
         added(d, "row.state", "\"result\":\"secret\",\"progress\":\"secret\","));
    says(d, "imported", "1");
    well(d, VERB_export, "{\"id\":\"%s\"}", (d->answer = journey.jobs[0], said(d, "id")));
    assert_string_equal(d->answer, journey.exports[0]);
}

static void damaged_rows_from_here(struct desk *d)
{
    if (!is_in_memory(d))
        return;
    well(d, VERB_submit, "{\"kind\":\"mail\",\"priority\":2,\"payload\":1}");
    const char *id = said(d, "id");
    well(d, VERB_complete, "{\"token\":\"%s\"}", claim(d));
    erase(d, id);
    pack_all(d);
    at_every_desk(refuse_damaged_rows);
    forget();
}

static void a_row_that_is_not_right_is_refused_with_the_reason(void **state)
{
    (void)state;
    at_every_desk(damaged_rows_from_here);
}

/* Somebody has half of a story: the job goes on, and nothing of it was erased. */
static void refuse_a_row_of_a_live_job(struct desk *d)
{
    struct buf bundle;
    buf_init(&bundle, &d->arena, 4096);
    buf_add(&bundle, str_from("{\"format\":1,\"id\":"));
    struct pawl_json id = found("id");
    buf_add(&bundle, (struct str){id.at, id.len});
    buf_add(&bundle, str_from(",\"events\":[{\"redacted\":true"));
    struct pawl_json event = found("events.0");
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    while (pawl_json_next(event, &item, &key) != 0)
        if (!pawl_json_is(key, "payload"))
            buf_addf(&bundle, ",%.*s:%.*s", (int)key.len, key.at, (int)item.len, item.at);
    buf_add(&bundle,
            str_from("}],\"row\":{\"kind\":\"mail\",\"queue\":\"default\",\"state\":{}}}"));
    buf_add_char(&bundle, '\0');
    ill(d, VERB_import, ERR_BAD_REQUEST, "it is queued", "{\"jobs\":[%s]}", bundle.at);
}

static void live_job_from_here(struct desk *d)
{
    if (!is_in_memory(d))
        return;
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    pack_all(d);
    at_every_desk(refuse_a_row_of_a_live_job);
    forget();
}

static void nothing_is_taken_as_erased_that_could_not_be(void **state)
{
    (void)state;
    at_every_desk(live_job_from_here);
}

static void find_it_present(struct desk *d)
{
    for (int i = 0; i < 2; i++) {
        well(d, VERB_import, "{\"jobs\":[%s]}", journey.exports[i]);
        assert_string_equal(d->answer, i == 0 ? "{\"imported\":1,\"present\":0}"
                                              : "{\"imported\":0,\"present\":1}");
    }
    well(d, VERB_export, "{\"id\":\"%s\"}", (d->answer = journey.jobs[0], said(d, "id")));
    assert_string_equal(d->answer, journey.exports[0]);
}

static void swap(char **a, char **b)
{
    char *kept = *a;
    *a = *b;
    *b = kept;
}

static void before_and_after(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\",\"payload\":1}");
    const char *id = said(d, "id");
    well(d, VERB_complete, "{\"token\":\"%s\"}", claim(d));
    pack_all(d);
    erase(d, id);
    journey.exports[1] = strdup(well(d, VERB_export, "{\"id\":\"%s\"}", id));
    journey.jobs[1] = strdup(journey.jobs[0]);
    journey.count = 2;
    at_every_desk(find_it_present);
    swap(&journey.exports[0], &journey.exports[1]);
    at_every_desk(find_it_present);
    forget();
}

static void the_same_job_with_and_without_its_payloads_is_one(void **state)
{
    (void)state;
    at_every_desk(before_and_after);
}

/* ---- long histories ---- */

enum { LONG_EVENTS = 12, LONG_BYTES = 1000 * 1000 };

static void take_in_a_long_one(struct desk *d)
{
    assert_true(strlen(journey.exports[0]) > REQUEST_BYTES_MAX);
    well(d, VERB_import, "{\"jobs\":[%s]}", journey.exports[0]);
    says(d, "imported", "1");
    well(d, VERB_export, "{\"id\":\"%s\"}", (d->answer = journey.jobs[0], said(d, "id")));
    assert_string_equal(d->answer, journey.exports[0]);
}

static void long_from_here(struct desk *d)
{
    const char *text = long_text(d, LONG_BYTES);
    if (!is_in_memory(d))
        return;
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    for (int i = 0; i < LONG_EVENTS; i++)
        well(d, VERB_append, "{\"id\":\"%s\",\"events\":[{\"type\":\"a.b\",\"payload\":%s}]}", id,
             text);
    pack_all(d);
    at_every_desk(take_in_a_long_one);
    forget();
}

static void a_history_longer_than_any_other_request_is_taken(void **state)
{
    (void)state;
    at_every_desk(long_from_here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_move_from_every_store_to_every_other_and_go_on),
        cmocka_unit_test(events_by_the_names_of_the_seeds_are_taken_in_as_the_canonical_ones),
        cmocka_unit_test(a_job_that_has_gone_on_meanwhile_is_left_alone),
        cmocka_unit_test(a_lease_comes_along_and_ends_by_itself),
        cmocka_unit_test(a_history_that_is_not_right_is_refused_with_the_reason),
        cmocka_unit_test(all_are_taken_or_none),
        cmocka_unit_test(a_job_whose_payloads_are_erased_moves_as_it_is),
        cmocka_unit_test(a_row_that_is_not_right_is_refused_with_the_reason),
        cmocka_unit_test(nothing_is_taken_as_erased_that_could_not_be),
        cmocka_unit_test(the_same_job_with_and_without_its_payloads_is_one),
        cmocka_unit_test(a_history_longer_than_any_other_request_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
