/* Filters and pages, on every store: what a reader does not ask for is left out, and what is asked
 * for in pieces is all there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "engine/desk.h"

static const char *submit(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    return said(d, "id");
}

/* ---- lists ---- */

static void lists_by_labels_and_time(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"a\",\"labels\":{\"customer\":\"c17\",\"team\":\"blue\"}}");
    d->clock += 2 * 24 * 60 * 60 * 1000;
    well(d, VERB_submit,
         "{\"kind\":\"b\",\"labels\":{\"customer\":\"c17\",\"team\":\"red\",\"q\":\"a\\\"b\"}}");
    well(d, VERB_submit, "{\"kind\":\"c\",\"labels\":{\"customer\":\"c18\",\"team\":\"red\"}}");
    well(d, VERB_list, "{\"label\":\"customer:c17\",\"labels\":[\"team:red\"]}");
    says(d, "jobs.0.kind", "b");
    says(d, "jobs.1", "");
    well(d, VERB_list, "{\"labels\":[\"team:red\",\"q:a\\\"b\",\"customer:c17\"]}");
    says(d, "jobs.0.kind", "b");
    says(d, "jobs.1", "");
    says(d, "next_cursor", "");
    well(d, VERB_list, "{\"labels\":[\"team:red\",\"team:blue\"]}");
    says(d, "jobs", "[]");
    well(d, VERB_list, "{\"labels\":[\"team:re\"]}");
    says(d, "jobs", "[]");
    well(d, VERB_list, "{\"search\":\"customer:c17\"}");
    says(d, "jobs.0.kind", "b");
    says(d, "jobs.1.kind", "a");
    says(d, "jobs.2", "");
    well(d, VERB_list, "{\"search\":\"TEAM:BL\"}");
    says(d, "jobs.0.kind", "a");
    says(d, "jobs.1", "");
    well(d, VERB_list, "{\"created_before\":\"2026-01-03T00:00:00.000Z\"}");
    says(d, "jobs.0.kind", "a");
    says(d, "jobs.1", "");
    well(d, VERB_list,
         "{\"created_before\":\"2026-01-03T00:00:00.001Z\",\"created_after\":"
         "\"2026-01-01T00:00:00.000Z\"}");
    says(d, "jobs.1.queue", "default");
    says(d, "jobs.2", "");
    well(d, VERB_list, "{\"created_before\":\"2026-01-01T00:00:00.000Z\"}");
    says(d, "jobs", "[]");
}

static void jobs_are_listed_by_several_labels_and_up_to_a_time(void **state)
{
    (void)state;
    at_every_desk(lists_by_labels_and_time);
}

static void lists_by_key(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"a\",\"idempotency_key\":\"k\",\"payload\":7}");
    const char *id = said(d, "id");
    well(d, VERB_submit, "{\"kind\":\"a\",\"idempotency_key\":\"k\",\"queue\":\"side\"}");
    const char *side = said(d, "id");
    well(d, VERB_list, "{\"idempotency_key\":\"k\",\"include\":\"payload\"}");
    says(d, "jobs.0.id", id);
    says(d, "jobs.0.payload", "7");
    says(d, "jobs.1", "");
    says(d, "next_cursor", "");
    well(d, VERB_list, "{\"idempotency_key\":\"k\",\"queue\":\"side\"}");
    says(d, "jobs.0.id", side);
    well(d, VERB_list, "{\"idempotency_key\":\"k\",\"queue\":\"nowhere\"}");
    says(d, "jobs", "[]");
    /* The other filters hold, too. */
    well(d, VERB_list, "{\"idempotency_key\":\"k\",\"status\":\"queued\",\"kind\":\"a\"}");
    says(d, "jobs.0.id", id);
    static const char *const others[] = {"\"status\":\"failed\"", "\"kind\":\"b\"",
                                         "\"label\":\"a:b\"", "\"search\":\"nothing\"",
                                         "\"created_before\":\"2001-01-01T00:00:00Z\""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        well(d, VERB_list, "{\"idempotency_key\":\"k\",%s}", others[i]);
        says(d, "jobs", "[]");
    }
    ill(d, VERB_list, ERR_BAD_REQUEST, "idempotency_key", "{\"idempotency_key\":\"\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "invalid label \"team\"", "{\"labels\":[\"team\"]}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "invalid label 7", "{\"labels\":[7]}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "labels", "{\"labels\":\"team:red\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "at most 16",
        "{\"labels\":[\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\","
        "\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\",\"a:1\"]}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "created_before", "{\"created_before\":\"soon\"}");
    ill(d, VERB_list, ERR_UNKNOWN_FIELD, "parent_id", "{\"parent_id\":\"%s\"}", id);
}

static void a_job_is_listed_by_its_key_within_its_queue(void **state)
{
    (void)state;
    at_every_desk(lists_by_key);
}

static void steers_by_filter(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"a\",\"labels\":{\"customer\":\"c17\",\"team\":\"red\"}}");
    const char *old = said(d, "id");
    d->clock += 1000;
    well(d, VERB_submit, "{\"kind\":\"b\",\"labels\":{\"customer\":\"c17\",\"team\":\"blue\"}}");
    const char *blue = said(d, "id");
    for (int i = 0; i < 120; i++) /* more than one page */
        well(d, VERB_submit, "{\"kind\":\"c\",\"labels\":{\"customer\":\"c18\"}}");
    d->clock += 1000;
    well(d, VERB_submit, "{\"kind\":\"d\",\"labels\":{\"customer\":\"c17\",\"team\":\"red\"}}");
    const char *young = said(d, "id");
    well(d, VERB_bulk,
         "{\"action\":\"cancel\",\"dry_run\":true,\"filter\":{\"label\":\"customer:c17\","
         "\"labels\":[\"team:red\"]}}");
    says(d, "matched", "2");
    says(d, "done", "0");
    well(d, VERB_bulk,
         "{\"action\":\"cancel\",\"filter\":{\"labels\":[\"customer:c17\",\"team:red\"],"
         "\"created_before\":\"2026-01-01T00:00:01.000Z\"}}");
    says(d, "matched", "1");
    says(d, "done", "1");
    well(d, VERB_list, "{\"status\":\"cancelled\"}");
    says(d, "jobs.0.id", old);
    says(d, "jobs.1", "");
    /* The cursor goes on behind the last job that was looked at. */
    well(d, VERB_bulk,
         "{\"action\":\"cancel\",\"limit\":1,\"filter\":{\"labels\":[\"customer:c17\"]}}");
    says(d, "matched", "1");
    says(d, "next_cursor", young);
    well(d, VERB_bulk,
         "{\"action\":\"cancel\",\"cursor\":\"%s\",\"filter\":{\"labels\":"
         "[\"customer:c17\"],\"status\":\"queued\"}}",
         young);
    says(d, "matched", "1");
    says(d, "next_cursor", "");
    well(d, VERB_get, "{\"id\":\"%s\"}", blue);
    says(d, "status", "cancelled");
    well(d, VERB_list, "{\"status\":\"queued\",\"limit\":500,\"labels\":[\"customer:c17\"]}");
    says(d, "jobs", "[]");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "key:value",
        "{\"action\":\"cancel\",\"filter\":{\"labels\":[\"red\"]}}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "labels",
        "{\"action\":\"cancel\",\"filter\":{\"labels\":\"team:red\"}}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "created_before",
        "{\"action\":\"cancel\",\"filter\":{\"created_before\":\"soon\"}}");
    well(d, VERB_list, "{\"status\":\"queued\",\"limit\":500}");
    says(d, "jobs.119.kind", "c");
    says(d, "jobs.120", "");
}

static void many_jobs_are_steered_by_the_filter_that_lists_them(void **state)
{
    (void)state;
    at_every_desk(steers_by_filter);
}

/* ---- pages ---- */

/* A list, where its entries are, and what tells them apart. */
static const struct {
    enum verb_name verb;
    bool of_job; /* the one with a plan */
    const char *entries;
    const char *name;
} paged[] = {
    {VERB_queues, false, "queues", "queue"},
    {VERB_resources, false, "resources", "id"},
    {VERB_workers, false, "workers", "worker_id"},
    {VERB_token_list, false, "tokens", "id"},
    {VERB_steps, true, "steps", "id"},
    {VERB_dead_letter_groups, false, "groups", "kind"},
    {VERB_dead_letters, false, "jobs", "id"},
    {VERB_inbox, false, "questions", "id"},
    {VERB_list, false, "jobs", "id"},
};

/* The names that the last answer has, with commas between. */
static void add_names(struct desk *d, size_t list, struct buf *names)
{
    for (int i = 0; i < 100; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "%s.%d.%s", paged[list].entries, i, paged[list].name);
        const char *name = said(d, path);
        if (*name == '\0')
            break;
        buf_addf(names, "%s,", name);
    }
}

static void fill_every_list(struct desk *d)
{
    for (int i = 0; i < 5; i++) {
        well(d, VERB_resource_put, "{\"id\":\"r%d\"}", i);
        well(d, VERB_token_create, "{\"name\":\"t%d\",\"scopes\":[\"read\"]}", i);
        well(d, VERB_submit, "{\"kind\":\"k%d\",\"queue\":\"q%d\"}", i, i);
        well(d, VERB_dead_letter, "{\"id\":\"%s\",\"reason_code\":\"timeout\"}", said(d, "id"));
        well(d, VERB_submit, "{\"kind\":\"work\",\"queue\":\"q%d\"}", i);
        well(d, VERB_claim, "{\"worker_id\":\"w%d\",\"queues\":[\"q%d\"]}", i, i);
        well(d, VERB_submit, "{\"kind\":\"ask\",\"queue\":\"q%d\"}", i);
        well(d, VERB_claim, "{\"worker_id\":\"w%d\",\"queues\":[\"q%d\"]}", i, i);
        well(d, VERB_wait, "{\"token\":\"%s\",\"type\":\"human\",\"correlation_key\":\"go\"}",
             said(d, "claims.0.lease.token"));
    }
}

static void pages_every_list(struct desk *d)
{
    fill_every_list(d);
    well(d, VERB_submit,
         "{\"kind\":\"agent\",\"plan\":{\"steps\":[{\"id\":\"e\",\"kind\":\"k\"},{\"id\":\"d\","
         "\"kind\":\"k\"},{\"id\":\"c\",\"kind\":\"k\"},{\"id\":\"b\",\"kind\":\"k\"},"
         "{\"id\":\"a\",\"kind\":\"k\"}]}}");
    const char *id = said(d, "id");
    for (size_t i = 0; i < sizeof paged / sizeof paged[0]; i++) {
        struct buf whole;
        struct buf parts;
        char request[128];
        const char *cursor = "";
        int pages = 0;
        buf_init(&whole, &d->arena, 1024);
        buf_init(&parts, &d->arena, 1024);
        (void)snprintf(request, sizeof request, paged[i].of_job ? "\"id\":\"%s\"" : "%.0s", id);
        well(d, paged[i].verb, "{%s}", request);
        says(d, "next_cursor", "");
        add_names(d, i, &whole);
        for (; pages < 20 && (pages == 0 || *cursor != '\0'); pages++) {
            const char *comma = *request != '\0' ? "," : "";
            if (pages == 0)
                well(d, paged[i].verb, "{%s%s\"limit\":2}", request, comma);
            else
                well(d, paged[i].verb, "{%s%s\"limit\":2,\"cursor\":\"%s\"}", request, comma,
                     cursor);
            char third[64];
            (void)snprintf(third, sizeof third, "%s.2", paged[i].entries);
            says(d, third, "");
            add_names(d, i, &parts);
            cursor = said(d, "next_cursor");
        }
        assert_true(pages >= 3);
        assert_true(whole.len > 5);
        if (!str_eq(buf_str(&whole), buf_str(&parts)))
            fail_msg("%.*s is not %.*s", (int)parts.len, parts.at, (int)whole.len, whole.at);
        ill(d, paged[i].verb, ERR_BAD_REQUEST, "limit", "{%s%s\"limit\":0}", request,
            *request != '\0' ? "," : "");
        ill(d, paged[i].verb, ERR_BAD_REQUEST, "cursor", "{%s%s\"cursor\":7}", request,
            *request != '\0' ? "," : "");
    }
    ill(d, VERB_steps, ERR_BAD_REQUEST, "invalid cursor \"x\"", "{\"id\":\"%s\",\"cursor\":\"x\"}",
        id);
    ill(d, VERB_queues, ERR_BAD_REQUEST, "limit", "{\"limit\":1001}");
}

static void every_list_comes_in_pages_that_miss_and_repeat_nothing(void **state)
{
    (void)state;
    at_every_desk(pages_every_list);
}

/* ---- events, feed ---- */

/* Waits until the feed tells job ID's start. On PostgreSQL an event is told as soon as no older
 * transaction runs, of other tests too; until then it is still to come for who asks from now. */
static void wait_for_told(struct desk *d, const char *id)
{
    for (int i = 0; i < 1000; i++) {
        well(d, VERB_feed, "{\"job_id\":\"%s\",\"type\":\"job_created\"}", id);
        if (*said(d, "events.0.type") != '\0')
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("the feed never told of job %s", id);
}

/* The types of the events that the last answer has, with commas between. */
static const char *types_told(struct desk *d)
{
    struct buf types;
    buf_init(&types, &d->arena, 256);
    for (int i = 0; i < 100; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "events.%d.type", i);
        const char *type = said(d, path);
        if (*type == '\0')
            break;
        buf_addf(&types, "%s%s", i > 0 ? "," : "", type);
    }
    buf_add_char(&types, '\0');
    return types.at;
}

static void filters_events(struct desk *d)
{
    const char *id = submit(d);
    wait_for_told(d, id);
    well(d, VERB_feed, "{\"after\":\"now\"}");
    const char *start = said(d, "next");
    const char *token = claimed(d);
    well(d, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"e\"}", token);
    well(d, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"e\",\"result\":1}", token);
    well(d, VERB_append, "{\"id\":\"%s\",\"token\":\"%s\",\"events\":[{\"type\":\"my.own\"}]}", id,
         token);
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
    well(d, VERB_submit, "{\"kind\":\"other\",\"queue\":\"side\"}");

    well(d, VERB_events, "{\"id\":\"%s\",\"type\":\"job_claimed,job_started,job_succeeded\"}", id);
    assert_string_equal(types_told(d), "job_leased,job_running,job_completed");
    says(d, "next", "7");
    says(d, "next_cursor", "");
    well(d, VERB_events,
         "{\"id\":\"%s\",\"type\":\"tool_invocation_started,tool_invocation_finished,my.own\"}",
         id);
    assert_string_equal(types_told(d), "tool_called,tool_returned,my.own");
    well(d, VERB_events, "{\"id\":\"%s\",\"type\":\"job_running,my.own\",\"limit\":1}", id);
    assert_string_equal(types_told(d), "job_running");
    says(d, "next_cursor", "3");
    well(d, VERB_events, "{\"id\":\"%s\",\"type\":\"job_running,my.own\",\"cursor\":\"3\"}", id);
    assert_string_equal(types_told(d), "my.own");
    well(d, VERB_events, "{\"id\":\"%s\",\"type\":\"job_failed\"}", id);
    says(d, "events", "[]");
    says(d, "next", "7");

    /* As in wait_for_told(): the last of them may still be to come. */
    for (int i = 0; i < 1000; i++) {
        well(d, VERB_feed, "{\"after\":\"%s\",\"type\":\"job_succeeded,job_created\"}", start);
        if (strcmp(types_told(d), "job_completed,job_created") == 0)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    assert_string_equal(types_told(d), "job_completed,job_created");
    says(d, "events.0.kind", "mail");
    says(d, "events.0.queue", "default");
    says(d, "events.1.kind", "other");
    says(d, "events.1.queue", "side");
    well(d, VERB_feed, "{\"after\":\"%s\",\"queue\":\"side\"}", start);
    assert_string_equal(types_told(d), "job_created");
    well(d, VERB_feed, "{\"after\":\"%s\",\"kind\":\"mail\",\"type\":\"my.own,x.y\"}", start);
    assert_string_equal(types_told(d), "my.own");
    well(d, VERB_feed, "{\"after\":\"%s\",\"job_id\":\"%s\",\"type\":\"job_created\"}", start, id);
    says(d, "events", "[]");
    well(d, VERB_feed, "{\"job_id\":\"%s\",\"type\":\"job_created\"}", id);
    says(d, "events.0.job_id", id);
    says(d, "events.1", "");
}

static void events_and_feed_are_limited_to_types_kinds_queues_and_a_job(void **state)
{
    (void)state;
    at_every_desk(filters_events);
}

static void filters_events_wrongly(struct desk *d)
{
    const char *id = submit(d);
    static const enum verb_name verbs[] = {VERB_events, VERB_feed};
    for (int i = 0; i < 2; i++) {
        const char *of = i == 0 ? "id" : "job_id";
        ill(d, verbs[i], ERR_BAD_REQUEST, "unknown event type \"job_done\"",
            "{\"%s\":\"%s\",\"type\":\"job_created,job_done\"}", of, id);
        ill(d, verbs[i], ERR_BAD_REQUEST, "type", "{\"%s\":\"%s\",\"type\":\"\"}", of, id);
        ill(d, verbs[i], ERR_BAD_REQUEST, "type", "{\"%s\":\"%s\",\"type\":7}", of, id);
    }
    ill(d, VERB_events, ERR_BAD_REQUEST, "invalid cursor \"x\"", "{\"id\":\"%s\",\"cursor\":\"x\"}",
        id);
    ill(d, VERB_events, ERR_BAD_REQUEST, "after and cursor",
        "{\"id\":\"%s\",\"cursor\":\"1\",\"after\":1}", id);
    ill(d, VERB_feed, ERR_BAD_REQUEST, "job_id: \"7\"", "{\"job_id\":\"7\"}");
    ill(d, VERB_feed, ERR_BAD_REQUEST, "queue", "{\"queue\":\"\"}");
    ill(d, VERB_feed, ERR_UNKNOWN_FIELD, "status", "{\"status\":\"queued\"}");
}

static void a_filter_of_events_that_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    at_every_desk(filters_events_wrongly);
}

/* More events than one look reads are passed over: the next page goes on behind them. */
static void passes_over_events(struct desk *d)
{
    const char *id = submit(d);
    const char *token = claimed(d);
    struct buf ops;
    buf_init(&ops, &d->arena, 64 * 1024);
    for (int i = 0; i < 600; i++)
        buf_addf(&ops, "%s{\"type\":\"a.b\"}", i > 0 ? "," : "");
    buf_add_char(&ops, '\0');
    for (int i = 0; i < 4; i++)
        well(d, VERB_append, "{\"id\":\"%s\",\"token\":\"%s\",\"events\":[%s]}", id, token, ops.at);
    well(d, VERB_complete, "{\"token\":\"%s\"}", token);
    well(d, VERB_events, "{\"id\":\"%s\",\"after\":3,\"type\":\"job_completed\"}", id);
    assert_string_equal(types_told(d), "job_completed");
    says(d, "next", "2404");
}

static void a_filter_passes_over_many_events(void **state)
{
    (void)state;
    at_every_desk(passes_over_events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_listed_by_several_labels_and_up_to_a_time),
        cmocka_unit_test(a_job_is_listed_by_its_key_within_its_queue),
        cmocka_unit_test(many_jobs_are_steered_by_the_filter_that_lists_them),
        cmocka_unit_test(every_list_comes_in_pages_that_miss_and_repeat_nothing),
        cmocka_unit_test(events_and_feed_are_limited_to_types_kinds_queues_and_a_job),
        cmocka_unit_test(a_filter_of_events_that_cannot_be_is_refused_by_name),
        cmocka_unit_test(a_filter_passes_over_many_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
