/* The verbs that look at jobs, those of operators, and those on many jobs at once, on every
 * store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "engine/desk.h"

#define NOBODY "01234567-89ab-7def-8123-456789abcdef"

static const char *submit_of(struct desk *d, const char *kind, const char *queue)
{
    d->clock++; /* so that ids tell who came first */
    well(d, VERB_submit, "{\"kind\":\"%s\",\"queue\":\"%s\"}", kind, queue);
    return said(d, "id");
}

static const char *submit(struct desk *d)
{
    return submit_of(d, "mail", "default");
}

static void complete(struct desk *d)
{
    well(d, VERB_complete, "{\"token\":\"%s\",\"result\":{\"n\": 1.10}}", claimed(d));
}

static void bury(struct desk *d, const char *id, const char *reason_code)
{
    well(d, VERB_dead_letter, "{\"id\":\"%s\",\"reason_code\":\"%s\"}", id, reason_code);
}

/* ---- get ---- */

static void gets(struct desk *d)
{
    const char *id = submit(d);
    complete(d);
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "id", id);
    says(d, "status", "completed");
    says(d, "result", "{\"n\": 1.10}");
    well(d, VERB_get, "{\"id\":\"%s\",\"wait_ms\":55000}", id);
    says(d, "status", "completed");
    ill(d, VERB_get, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
    ill(d, VERB_get, ERR_BAD_REQUEST, "id", "{}");
    ill(d, VERB_get, ERR_BAD_REQUEST, "nonsense", "{\"id\":\"nonsense\"}");
    ill(d, VERB_get, ERR_BAD_REQUEST, "wait_ms", "{\"id\":\"%s\",\"wait_ms\":55001}", id);
    ill(d, VERB_get, ERR_UNKNOWN_FIELD, "colour", "{\"id\":\"%s\",\"colour\":1}", id);
}

static void a_job_is_got_by_its_id(void **state)
{
    (void)state;
    at_every_desk(gets);
}

/* ---- list ---- */

static void lists(struct desk *d)
{
    const char *a = submit_of(d, "mail", "default");
    const char *b = submit_of(d, "sms", "urgent");
    d->clock++;
    well(d, VERB_submit,
         "{\"kind\":\"mail\",\"labels\":{\"team\":\"a:b\"},\"agent_id\":\"ag\",\"correlation_id\":"
         "\"c\",\"payload\":[1]}");
    const char *c = said(d, "id");
    well(d, VERB_list, "{}");
    says(d, "jobs.0.id", c);
    says(d, "jobs.1.id", b);
    says(d, "jobs.2.id", a);
    says(d, "next_cursor", "");
    assert_null(strstr(d->answer, "\"payload\""));
    well(d, VERB_list, "{\"include\":\"payload,result\",\"label\":\"team:a:b\"}");
    says(d, "jobs.0.payload", "[1]");
    says(d, "jobs.1", "");
    static const char *const of_c[] = {"\"agent_id\":\"ag\"", "\"correlation_id\":\"c\"",
                                       "\"created_after\":\"2026-01-01T00:00:00.002Z\"",
                                       "\"label\":\"team:a:b\""};
    for (size_t i = 0; i < sizeof of_c / sizeof of_c[0]; i++) {
        well(d, VERB_list, "{%s}", of_c[i]);
        says(d, "jobs.0.id", c);
        says(d, "jobs.1", "");
    }
    well(d, VERB_list, "{\"kind\":\"sms\",\"queue\":\"urgent\",\"status\":\"running,queued\"}");
    says(d, "jobs.0.id", b);
    says(d, "jobs.1", "");
    well(d, VERB_list, "{\"status\":\"pending\",\"limit\":2}");
    says(d, "jobs.1.id", b);
    const char *cursor = said(d, "next_cursor");
    well(d, VERB_list, "{\"status\":\"queued\",\"limit\":2,\"cursor\":\"%s\"}", cursor);
    says(d, "jobs.0.id", a);
    says(d, "jobs.1", "");
    says(d, "next_cursor", "");
}

static void jobs_are_listed_newest_first_by_everything_there_is(void **state)
{
    (void)state;
    at_every_desk(lists);
}

static void searches(struct desk *d)
{
    well(d, VERB_submit,
         "{\"kind\":\"invoice.send\",\"queue\":\"billing\",\"idempotency_key\":\"K-17\","
         "\"correlation_id\":\"order-9\",\"agent_id\":\"agnes\",\"goal\":\"Pay the Plumber\","
         "\"labels\":{\"team\":\"blue\"},\"payload\":\"hidden\"}");
    const char *one = said(d, "id");
    for (int i = 0; i < 100; i++)
        submit_of(d, "mail", "default");
    const char *mail = said(d, "id");
    static const char *const of_one[] = {"voice.S", "BILLING", "k-1",  "order-9",
                                         "AGNES",   "plumber", "blue", "\"send\",\"limit\":1"};
    for (size_t i = 0; i < sizeof of_one / sizeof of_one[0]; i++) {
        bool open = of_one[i][0] == '"';
        well(d, VERB_list, open ? "{\"search\":%s}" : "{\"search\":\"%s\"}", of_one[i]);
        says(d, "jobs.0.id", one);
        says(d, "jobs.1", "");
    }
    well(d, VERB_list, "{\"search\":\"%s\"}", one);
    says(d, "jobs.0.id", one);
    well(d, VERB_list, "{\"search\":\"hidden\"}");
    says(d, "jobs.0", "");
    says(d, "next_cursor", "");
    well(d, VERB_list, "{\"search\":\"mail\",\"limit\":99}");
    says(d, "jobs.0.id", mail);
    well(d, VERB_list, "{\"search\":\"MAIL\",\"cursor\":\"%s\"}", said(d, "next_cursor"));
    assert_int_equal(strlen(said(d, "jobs.0.id")), UUID_TEXT_LEN);
    says(d, "jobs.1", "");
    says(d, "next_cursor", "");
    well(d, VERB_list, "{\"search\":\"mail\",\"queue\":\"billing\"}");
    says(d, "jobs.0", "");
    well(d, VERB_dead_letter,
         "{\"id\":\"%s\",\"reason_code\":\"timeout\",\"message\":\"the boiler burst\"}", mail);
    well(d, VERB_list, "{\"search\":\"Boiler\"}");
    says(d, "jobs.0.id", mail);
    says(d, "jobs.1", "");
}

static void jobs_are_found_by_what_they_are_called(void **state)
{
    (void)state;
    at_every_desk(searches);
}

static void lists_by_prefix(struct desk *d)
{
    char prefix[UUID_TEXT_LEN + 1];
    submit_of(d, "mail", "default");
    const char *older = said(d, "id");
    const char *newer = submit_of(d, "mail", "default");
    size_t common = 0;
    while (older[common] == newer[common])
        common++;
    for (size_t len = common + 1; len <= UUID_TEXT_LEN; len++) {
        (void)snprintf(prefix, sizeof prefix, "%.*s", (int)len, older);
        well(d, VERB_list, "{\"id_prefix\":\"%s\",\"limit\":2}", prefix);
        says(d, "jobs.0.id", older);
        says(d, "jobs.1", "");
        says(d, "next_cursor", "");
    }
    (void)snprintf(prefix, sizeof prefix, "%.*s", (int)common, older);
    well(d, VERB_list, "{\"id_prefix\":\"%s\"}", prefix);
    says(d, "jobs.0.id", newer);
    says(d, "jobs.1.id", older);
    well(d, VERB_list, "{\"id_prefix\":\"%s\",\"cursor\":\"%s\"}", prefix, newer);
    says(d, "jobs.0.id", older);
    says(d, "jobs.1", "");
    well(d, VERB_list, "{\"id_prefix\":\"ffff\"}");
    says(d, "jobs.0", "");
}

static void jobs_are_found_by_the_first_digits_of_their_ids(void **state)
{
    (void)state;
    at_every_desk(lists_by_prefix);
}

static void lists_wrongly(struct desk *d)
{
    ill(d, VERB_list, ERR_BAD_REQUEST, "id_prefix must be", "{\"id_prefix\":\"01a\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "not \"01a1-e2\"", "{\"id_prefix\":\"01a1-e2\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "not \"01axyz\"", "{\"id_prefix\":\"01axyz\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "search has 0 bytes", "{\"search\":\"\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "unknown status \"asleep\"; valid: queued, running",
        "{\"status\":\"queued,asleep\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "unknown status \"\"", "{\"status\":\"queued,\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "unknown status \"\"", "{\"status\":\"\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "key:value", "{\"label\":\"team\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "key:value", "{\"label\":\":x\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "cursor", "{\"cursor\":\"7\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "unknown include \"all\"", "{\"include\":\"payload,all\"}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "limit", "{\"limit\":0}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "limit", "{\"limit\":501}");
    ill(d, VERB_list, ERR_BAD_REQUEST, "created_after", "{\"created_after\":\"yesterday\"}");
    ill(d, VERB_list, ERR_UNKNOWN_FIELD, "statuses", "{\"statuses\":\"queued\"}");
}

static void a_list_that_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    at_every_desk(lists_wrongly);
}

/* ---- events, feed ---- */

static void tells_events(struct desk *d)
{
    const char *id = submit(d);
    complete(d);
    well(d, VERB_events, "{\"id\":\"%s\"}", id);
    says(d, "events.0.type", "job_created");
    says(d, "events.0.version", "1");
    says(d, "events.0.job_id", id);
    says(d, "events.3.type", "job_completed");
    says(d, "events.3.payload.result", "{\"n\": 1.10}");
    says(d, "events.4", "");
    well(d, VERB_events, "{\"id\":\"%s\",\"after\":1,\"limit\":2}", id);
    says(d, "events.0.type", "job_leased");
    says(d, "events.1.type", "job_running");
    says(d, "events.2", "");
    well(d, VERB_events, "{\"id\":\"%s\",\"after\":4}", id);
    assert_string_equal(d->answer, "{\"events\":[],\"next\":4,\"next_cursor\":null}");
    ill(d, VERB_events, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
    ill(d, VERB_events, ERR_BAD_REQUEST, "limit", "{\"id\":\"%s\",\"limit\":1001}", id);
    ill(d, VERB_events, ERR_BAD_REQUEST, "after", "{\"id\":\"%s\",\"after\":-1}", id);
}

static void a_history_is_told_page_by_page(void **state)
{
    (void)state;
    at_every_desk(tells_events);
}

static void tells_telemetry(struct desk *d)
{
    const char *id = submit(d);
    const char *token = claimed(d);
    d->clock += 1000;
    well(d, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":{\"percent\":40}}", token);
    well(d, VERB_events, "{\"id\":\"%s\",\"telemetry\":true}", id);
    says(d, "events.0.type", "job_heartbeat");
    says(d, "events.0.payload.progress.percent", "40");
    says(d, "events.1", "");
}

static void heartbeats_are_told_apart(void **state)
{
    (void)state;
    at_every_desk(tells_telemetry);
}

static void feeds(struct desk *d)
{
    const char *a = submit(d);
    const char *b = submit(d);
    /* PostgreSQL holds the feed back while any older transaction of the server is open. */
    for (int i = 0; i < 1000; i++) {
        well(d, VERB_feed, "{}");
        if (strcmp(said(d, "events.1.type"), "") != 0)
            break;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    says(d, "events.0.job_id", a);
    says(d, "events.1.job_id", b);
    const char *first = said(d, "events.0.position");
    const char *next = said(d, "next");
    says(d, "events.1.position", next);
    well(d, VERB_feed, "{\"after\":\"%s\",\"limit\":1}", first);
    says(d, "events.0.job_id", b);
    says(d, "next", next);
    well(d, VERB_feed, "{\"after\":\"%s\"}", next);
    says(d, "events.0", "");
    says(d, "next", next);
    static const char *const bad[] = {
        "", "1", "1-", "-1", "1-2-", "1-2-x", "1-2-3-4", "1-x", "99999999999999999999-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ill(d, VERB_feed, ERR_BAD_REQUEST, "use a position", "{\"after\":\"%s\"}", bad[i]);
    /* A store that ends before it was put back to an earlier state, or is another one. */
    ill(d, VERB_feed, ERR_FEED_RESET, "continue from 0-0", "{\"after\":\"999999999-0\"}");
}

static void the_feed_goes_on_from_where_it_ended(void **state)
{
    (void)state;
    at_every_desk(feeds);
}

/* ---- plans and people ---- */

static void explains(struct desk *d)
{
    const char *id = submit_of(d, "mail", "q1");
    well(d, VERB_explain, "{\"id\":\"%s\"}", id);
    says(d, "status", "queued");
    says(d, "summary", "Ready: waiting for a worker to claim it.");
    well(d, VERB_pause, "{\"queue\":\"q1\"}");
    well(d, VERB_explain, "{\"id\":\"%s\"}", id);
    says(d, "moves.0", "pawl resume q1");
    well(d, VERB_submit, DESK_PLAN);
    well(d, VERB_explain, "{\"id\":\"%s\"}", said(d, "id"));
    says(d, "summary", "Ready: waiting for a worker to claim one of its steps.");
    ill(d, VERB_explain, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
}

static void a_job_is_explained_with_what_an_operator_has_set(void **state)
{
    (void)state;
    at_every_desk(explains);
}

/* ---- verify ---- */

static void verifies(struct desk *d)
{
    const char *id = submit(d);
    complete(d);
    well(d, VERB_events, "{\"id\":\"%s\"}", id);
    const char *head = said(d, "events.3.hash");
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
    says(d, "version", "4");
    says(d, "status", "completed");
    says(d, "chain_head", head);
    says(d, "partial", "false");
    says(d, "violations", "[]");
    well(d, VERB_redact, "{\"id\":\"%s\"}", id);
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
    says(d, "partial", "true");
    says(d, "chain_head", head);
    well(d, VERB_submit, DESK_PLAN);
    const char *plan = said(d, "id");
    well(d, VERB_complete, "{\"token\":\"%s\"}", step_claimed(d));
    well(d, VERB_verify, "{\"id\":\"%s\"}", plan);
    says(d, "ok", "true");
    ill(d, VERB_verify, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
}

static void a_history_verifies_also_when_its_payloads_are_erased(void **state)
{
    (void)state;
    at_every_desk(verifies);
}

/* More events than one page has. */
static void verifies_long(struct desk *d)
{
    const char *id = submit(d);
    struct buf request;
    buf_init(&request, &d->arena, 64 * 1024);
    buf_addf(&request, "{\"id\":\"%s\",\"events\":[", id);
    for (int i = 0; i < 900; i++)
        buf_addf(&request, "%s{\"type\":\"a.b\",\"payload\":%d}", i == 0 ? "" : ",", i);
    buf_add(&request, STR("]}"));
    buf_add_char(&request, '\0');
    for (int i = 0; i < 3; i++)
        well(d, VERB_append, "%s", request.at);
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
    says(d, "version", "2701");
}

static void a_long_history_is_verified_whole(void **state)
{
    (void)state;
    at_every_desk(verifies_long);
}

/* ---- many jobs ---- */

static void cancels_many(struct desk *d)
{
    for (int i = 0; i < 5; i++)
        submit(d);
    submit_of(d, "sms", "default");
    complete(d); /* the oldest mail */
    well(d, VERB_bulk, "{\"action\":\"cancel\",\"filter\":{\"kind\":\"mail\"},\"dry_run\":true}");
    assert_string_equal(d->answer, "{\"matched\":5,\"done\":0,\"refused\":1,\"next_cursor\":null}");
    well(d, VERB_bulk, "{\"action\":\"cancel\",\"filter\":{\"kind\":\"mail\"},\"limit\":3}");
    says(d, "matched", "3");
    says(d, "done", "3");
    well(d, VERB_bulk,
         "{\"action\":\"cancel\",\"filter\":{\"kind\":\"mail\"},\"limit\":3,\"reason\":\"x\","
         "\"cursor\":\"%s\"}",
         said(d, "next_cursor"));
    assert_string_equal(d->answer, "{\"matched\":2,\"done\":1,\"refused\":1,\"next_cursor\":null}");
    well(d, VERB_list, "{\"status\":\"queued\"}");
    says(d, "jobs.0.kind", "sms");
    says(d, "jobs.1", "");
}

static void many_jobs_are_cancelled_page_by_page(void **state)
{
    (void)state;
    at_every_desk(cancels_many);
}

static void does_many_wrongly(struct desk *d)
{
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "action is required", "{\"filter\":{}}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "action", "{\"action\":\"eat\",\"filter\":{}}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "filter is required", "{\"action\":\"cancel\"}");
    ill(d, VERB_bulk, ERR_UNKNOWN_FIELD, "colour",
        "{\"action\":\"cancel\",\"filter\":{\"colour\":1}}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "fresh",
        "{\"action\":\"cancel\",\"filter\":{},\"fresh\":true}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "mode",
        "{\"action\":\"requeue\",\"filter\":{},\"mode\":\"hard\"}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "limit",
        "{\"action\":\"cancel\",\"filter\":{},\"limit\":501}");
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "rate_per_s",
        "{\"action\":\"cancel\",\"filter\":{},\"rate_per_s\":0}");
}

static void a_bulk_that_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    at_every_desk(does_many_wrongly);
}

static void redrives(struct desk *d)
{
    const char *a = submit(d);
    const char *b = submit_of(d, "sms", "q2");
    const char *c = submit(d);
    const char *alive = submit(d);
    bury(d, a, "timeout");
    bury(d, b, "parse_error");
    bury(d, c, "parse_error");
    well(d, VERB_dead_letters, "{\"reason_code\":\"parse_error\"}");
    says(d, "jobs.0.id", c);
    says(d, "jobs.1.id", b);
    says(d, "jobs.1.dead_letter.reason_code", "parse_error");
    says(d, "jobs.2", "");
    says(d, "next_cursor", "");
    well(d, VERB_redrive, "{\"reason_code\":\"parse_error\",\"dry_run\":true}");
    says(d, "matched", "2");
    says(d, "done", "0");
    well(d, VERB_redrive, "{\"queue\":\"q2\",\"kind\":\"sms\",\"reason\":\"again\"}");
    assert_string_equal(d->answer, "{\"matched\":1,\"done\":1,\"refused\":0,\"next_cursor\":null}");
    well(d, VERB_get, "{\"id\":\"%s\"}", b);
    says(d, "status", "queued");
    says(d, "epoch", "2");
    well(d, VERB_redrive, "{\"id\":\"%s\",\"limit\":1}", c);
    says(d, "done", "1");
    says(d, "next_cursor", "");
    ill(d, VERB_redrive, ERR_INVALID_TRANSITION, "queued", "{\"id\":\"%s\"}", alive);
    ill(d, VERB_redrive, ERR_NOT_FOUND, NOBODY, "{\"id\":\"" NOBODY "\"}");
    ill(d, VERB_redrive, ERR_BAD_REQUEST, "reason_code", "{\"reason_code\":\"bad luck\"}");
    well(d, VERB_drop, "{}");
    says(d, "done", "1");
    ill(d, VERB_get, ERR_NOT_FOUND, a, "{\"id\":\"%s\"}", a);
    well(d, VERB_drop, "{}");
    assert_string_equal(d->answer, "{\"matched\":0,\"done\":0,\"refused\":0,\"next_cursor\":null}");
    ill(d, VERB_drop, ERR_INVALID_TRANSITION, "queued", "{\"id\":\"%s\"}", alive);
}

static void dead_letters_are_redriven_or_dropped_by_what_they_are(void **state)
{
    (void)state;
    at_every_desk(redrives);
}

static void groups(struct desk *d)
{
    well(d, VERB_dead_letter_groups, "{}");
    assert_string_equal(d->answer,
                        "{\"groups\":[],\"next_cursor\":null,\"counted\":0,\"more\":false}");
    for (int i = 0; i < 70; i++)
        bury(d, submit_of(d, "mail", i % 2 == 0 ? "even" : "odd"), "timeout");
    d->clock += 1000;
    bury(d, submit_of(d, "mail", "even"), "parse_error");
    bury(d, submit_of(d, "sms", "odd"), "timeout");
    bury(d, submit_of(d, "mail", "odd"), "timeout");
    submit_of(d, "mail", "even");
    well(d, VERB_dead_letter_groups, "{}");
    says(d, "groups.0.kind", "mail");
    says(d, "groups.0.reason_code", "timeout");
    says(d, "groups.0.count", "71");
    says(d, "groups.0.oldest_at", "2026-01-01T00:00:00.001Z");
    says(d, "groups.0.newest_at", "2026-01-01T00:00:01.073Z");
    says(d, "groups.1.kind", "mail");
    says(d, "groups.1.reason_code", "parse_error");
    says(d, "groups.1.count", "1");
    says(d, "groups.2.kind", "sms");
    says(d, "groups.3", "");
    says(d, "counted", "73");
    says(d, "more", "false");
    well(d, VERB_dead_letter_groups, "{\"queue\":\"odd\",\"kind\":\"mail\"}");
    says(d, "groups.0.count", "36");
    says(d, "groups.1", "");
}

static void dead_letters_are_counted_by_kind_and_reason(void **state)
{
    (void)state;
    at_every_desk(groups);
}

/* More than a batch holds, at a rate; the cursor goes on although what is done leaves the list. */
static void redrives_many(struct desk *d)
{
    struct buf jobs;
    buf_init(&jobs, &d->arena, 64 * 1024);
    for (int i = 0; i < 250; i++)
        buf_addf(&jobs, "%s{\"kind\":\"mail\"}", i == 0 ? "" : ",");
    buf_add_char(&jobs, '\0');
    well(d, VERB_submit, "{\"jobs\":[%s]}", jobs.at);
    const char *all = d->answer;
    for (int i = 0; i < 250; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "jobs.%d.id", i);
        d->answer = all;
        bury(d, said(d, path), "timeout");
    }
    well(d, VERB_redrive, "{\"limit\":120,\"rate_per_s\":100000}");
    says(d, "done", "120");
    well(d, VERB_redrive, "{\"limit\":120,\"cursor\":\"%s\"}", said(d, "next_cursor"));
    says(d, "done", "120");
    well(d, VERB_redrive, "{\"limit\":120,\"rate_per_s\":200,\"cursor\":\"%s\"}",
         said(d, "next_cursor"));
    assert_string_equal(d->answer,
                        "{\"matched\":10,\"done\":10,\"refused\":0,\"next_cursor\":null}");
}

static void many_dead_letters_are_redriven_page_by_page(void **state)
{
    (void)state;
    at_every_desk(redrives_many);
}

/* ---- settings ---- */

static void counts_queues(struct desk *d)
{
    well(d, VERB_queues, "{}");
    assert_string_equal(d->answer, "{\"queues\":[],\"next_cursor\":null}");
    submit_of(d, "mail", "b");
    submit_of(d, "mail", "b");
    submit_of(d, "mail", "c");
    well(d, VERB_claim, "{\"worker_id\":\"w1\",\"queues\":[\"c\"]}");
    well(d, VERB_pause, "{\"queue\":\"a\"}");
    assert_string_equal(d->answer, "{\"queue\":\"a\",\"paused\":true}");
    well(d, VERB_pause, "{\"queue\":\"b\"}");
    well(d, VERB_pause, "{\"queue\":\"d\"}");
    well(d, VERB_queues, "{}");
    says(d, "queues.0.queue", "a");
    says(d, "queues.0.paused", "true");
    says(d, "queues.0.depth", "0");
    says(d, "queues.0.oldest_at", "");
    says(d, "queues.1.queue", "b");
    says(d, "queues.1.paused", "true");
    says(d, "queues.1.depth", "2");
    says(d, "queues.1.oldest_at", "2026-01-01T00:00:00.001Z");
    says(d, "queues.1.by_status.queued", "2");
    says(d, "queues.1.by_status.running", "0");
    says(d, "queues.2.queue", "c");
    says(d, "queues.2.paused", "false");
    says(d, "queues.2.by_status.running", "1");
    says(d, "queues.3.queue", "d");
    says(d, "queues.4", "");
    well(d, VERB_claim, "{\"worker_id\":\"w1\"}");
    says(d, "claims", "[]");
    well(d, VERB_resume, "{\"queue\":\"b\"}");
    assert_string_equal(d->answer, "{\"queue\":\"b\",\"paused\":false}");
    claimed(d);
    well(d, VERB_stats, "{}");
    says(d, "jobs.queued", "1");
    says(d, "jobs.running", "2");
    says(d, "leases", "2");
    says(d, "workers", "1");
    says(d, "queue_depth", "1");
    says(d, "queues_paused", "2");
    says(d, "oldest_queued_at", "2026-01-01T00:00:00.002Z");
    well(d, VERB_workers, "{}");
    says(d, "workers.0.worker_id", "w1");
    says(d, "workers.0.leases", "2");
    says(d, "workers.0.last_beat_at", "2026-01-01T00:00:00.003Z");
    says(d, "workers.1", "");
    ill(d, VERB_pause, ERR_BAD_REQUEST, "queue is required", "{}");
    ill(d, VERB_stats, ERR_UNKNOWN_FIELD, "queue", "{\"queue\":\"a\"}");
}

static void queues_are_counted_paused_and_resumed(void **state)
{
    (void)state;
    at_every_desk(counts_queues);
}

static void sets_kinds(struct desk *d)
{
    static const char format[] =
        "{\"kind\":\"mail\",\"lease_ttl_ms\":null,\"heartbeat_ms\":null,\"timeout_ms\":null,"
        "\"retry\":null,\"retention_ms\":null,\"cancel_grace_ms\":null,\"pin\":false,"
        "\"version\":%d}";
    char unset[256];
    (void)snprintf(unset, sizeof unset, format, 0);
    well(d, VERB_kind_get, "{\"kind\":\"mail\"}");
    assert_string_equal(d->answer, unset);
    well(d, VERB_kind_set,
         "{\"kind\":\"mail\",\"lease_ttl_ms\":5000,\"retry\":{\"max_attempts\":2},"
         "\"retention_ms\":1000}");
    const char *set = d->answer;
    says(d, "lease_ttl_ms", "5000");
    says(d, "retry.max_attempts", "2");
    says(d, "retry.initial_ms", "500");
    well(d, VERB_kind_get, "{\"kind\":\"mail\"}");
    assert_string_equal(d->answer, set);
    submit(d);
    says(d, "retry.max_attempts", "2");
    (void)snprintf(unset, sizeof unset, format, 2);
    well(d, VERB_kind_set, "{\"kind\":\"mail\"}");
    assert_string_equal(d->answer, unset);
    well(d, VERB_kind_get, "{\"kind\":\"mail\"}");
    assert_string_equal(d->answer, unset);
    ill(d, VERB_kind_set, ERR_BAD_REQUEST, "kind is required", "{}");
    ill(d, VERB_kind_set, ERR_BAD_REQUEST, "lease_ttl_ms",
        "{\"kind\":\"mail\",\"lease_ttl_ms\":1}");
    ill(d, VERB_kind_set, ERR_BAD_REQUEST, "max_attempts",
        "{\"kind\":\"mail\",\"retry\":{\"max_attempts\":0}}");
    ill(d, VERB_kind_set, ERR_UNKNOWN_FIELD, "colour", "{\"kind\":\"mail\",\"colour\":1}");
}

static void the_settings_of_a_kind_are_set_and_got(void **state)
{
    (void)state;
    at_every_desk(sets_kinds);
}

static void puts_resources(struct desk *d)
{
    well(d, VERB_resource_put,
         "{\"id\":\"r2\",\"capabilities\":[\"gpu\"],\"labels\":{\"zone\":\"eu\"},\"slots\":3,"
         "\"ttl_ms\":60000,\"draining\":true}");
    says(d, "id", "r2");
    says(d, "slots", "3");
    says(d, "used", "0");
    says(d, "draining", "true");
    says(d, "labels.zone", "eu");
    says(d, "capabilities", "[\"gpu\"]");
    says(d, "expires_at", "2026-01-01T00:01:00.000Z");
    const char *put = d->answer;
    well(d, VERB_resource_get, "{\"id\":\"r2\"}");
    assert_string_equal(d->answer, put);
    well(d, VERB_resource_put, "{\"id\":\"r1\"}");
    says(d, "slots", "1");
    says(d, "expires_at", "2026-01-01T00:00:30.000Z");
    well(d, VERB_resources, "{}");
    says(d, "resources.0.id", "r1");
    says(d, "resources.1.id", "r2");
    says(d, "resources.2", "");
    let_time_pass(d, 31 * 1000);
    ill(d, VERB_resource_get, ERR_NOT_FOUND, "r1", "{\"id\":\"r1\"}");
    well(d, VERB_resource_delete, "{\"id\":\"r2\"}");
    says(d, "id", "r2");
    ill(d, VERB_resource_delete, ERR_NOT_FOUND, "r2", "{\"id\":\"r2\"}");
    well(d, VERB_resources, "{}");
    assert_string_equal(d->answer, "{\"resources\":[],\"next_cursor\":null}");
    ill(d, VERB_resource_put, ERR_BAD_REQUEST, "id is required", "{}");
    ill(d, VERB_resource_put, ERR_BAD_REQUEST, "slots", "{\"id\":\"r\",\"slots\":0}");
    ill(d, VERB_resource_put, ERR_BAD_REQUEST, "ttl_ms", "{\"id\":\"r\",\"ttl_ms\":1}");
    ill(d, VERB_resource_put, ERR_BAD_REQUEST, "capabilities",
        "{\"id\":\"r\",\"capabilities\":[1]}");
    ill(d, VERB_resource_put, ERR_BAD_REQUEST, "labels", "{\"id\":\"r\",\"labels\":{\"a\":1}}");
}

static void resources_are_put_got_and_lost(void **state)
{
    (void)state;
    at_every_desk(puts_resources);
}

static void deletes_under_way(struct desk *d)
{
    well(d, VERB_submit, DESK_PLAN);
    const char *id = said(d, "id");
    const char *token = step_claimed(d);
    well(d, VERB_resource_get, "{\"id\":\"r1\"}");
    says(d, "used", "1");
    well(d, VERB_resource_put, "{\"id\":\"r1\",\"slots\":2}");
    says(d, "used", "1");
    d->key = "once";
    well(d, VERB_resource_delete, "{\"id\":\"r1\"}");
    const char *first = d->answer;
    ill(d, VERB_complete, ERR_STALE_LEASE, "", "{\"token\":\"%s\"}", token);
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "steps.0.state", "switching_resource");
    d->key = "once";
    well(d, VERB_resource_delete, "{\"id\":\"r1\"}");
    assert_string_equal(d->answer, first);
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
}

static void steps_on_a_resource_that_is_deleted_are_lost_with_it(void **state)
{
    (void)state;
    at_every_desk(deletes_under_way);
}

static void deletes_in_a_race(struct desk *d)
{
    struct verb_call call = {
        .engine = d->engine,
        .arena = &d->arena,
        .name = VERB_resource_delete,
        .request = STR("{\"id\":\"r1\"}"),
        .actor = STR("ann"),
    };
    well(d, VERB_submit, DESK_PLAN);
    const char *id = said(d, "id");
    assert_int_equal(verb_prepare(&call, &d->err), ERR_OK);
    const char *token = step_claimed(d); /* between the look at the leases and the batch */
    assert_int_equal(engine_run(d->engine, &call.call, &d->err), ERR_OK);
    assert_int_equal(verb_finish(&call, &d->err), ERR_OK);
    verb_call_release(&call);
    ill(d, VERB_complete, ERR_STALE_LEASE, "", "{\"token\":\"%s\"}", token);
    well(d, VERB_steps, "{\"id\":\"%s\"}", id);
    says(d, "steps.0.state", "switching_resource");
    ill(d, VERB_resource_get, ERR_NOT_FOUND, "r1", "{\"id\":\"r1\"}");
}

static void so_are_those_that_were_leased_while_it_was_deleted(void **state)
{
    (void)state;
    at_every_desk(deletes_in_a_race);
}

/* ---- the list ---- */

static bool takes(enum verb_name name, struct str member)
{
    const struct record_type *request = verb_at(name)->request;
    for (uint32_t i = 0; request != NULL && i < request->count; i++)
        if (str_eq(request->fields[i].name, member))
            return true;
    return false;
}

static void the_list_says_which_verbs_can_wait_and_which_speak_for_a_lease(void **state)
{
    (void)state;
    for (int i = 0; i < VERB_COUNT; i++) {
        enum verb_name name = (enum verb_name)i;
        bool waits = verb_is_claim(name) || verb_is_watch(name);
        if (takes(name, STR("wait_ms")) != waits)
            fail_msg("%.*s: wait_ms", STR_ARG(verb_text(name)));
        if (verb_is_of_lease(name) && !takes(name, STR("token")))
            fail_msg("%.*s: token", STR_ARG(verb_text(name)));
        if (verb_is_claim(name))
            assert_true(verb_is_write(name) && takes(name, STR("worker_id")));
        if (verb_at(name)->reads_first || verb_at(name)->reads != NULL)
            assert_true(verb_is_write(name));
    }
    assert_true(verb_is_of_lease(VERB_heartbeat));
    assert_false(verb_is_of_lease(VERB_claim));
}

/* ---- the store as a whole ---- */

static void examines(struct desk *d)
{
    submit(d);
    well(d, VERB_doctor, "{}");
    says(d, "ok", "true");
    says(d, "checks.0.name", "store");
    says(d, "checks.0.ok", "true");
    const char *all[] = {"clock", "lanes", "schema", "engine", "timers", "files", "versions"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "{\"name\":\"%s\",\"ok\":true,", all[i]);
        assert_non_null(strstr(d->answer, name));
    }
    claimed(d);
    d->clock += 3600 * 1000; /* and nobody turns the engine */
    well(d, VERB_doctor, "{}");
    says(d, "ok", "false");
    assert_non_null(strstr(d->answer, "{\"name\":\"timers\",\"ok\":false,"));
}

static void the_doctor_looks_at_everything(void **state)
{
    (void)state;
    at_every_desk(examines);
}

static void backs_up(struct desk *d)
{
    struct str url = engine_url(d->engine);
    ill(d, VERB_backup, ERR_BAD_REQUEST, "path is required", "{}");
    if (memcmp(url.at, "sqlite:", 7) != 0) {
        ill(d, VERB_backup, ERR_BAD_REQUEST, "", "{\"path\":\"/tmp/never\"}");
        return;
    }
    submit(d);
    char path[128];
    (void)snprintf(path, sizeof path, "%s/copy.db", d->stores.directory);
    well(d, VERB_backup, "{\"path\":\"%s\"}", path);
    says(d, "path", path);
    assert_string_not_equal(said(d, "bytes"), "0");
    ill(d, VERB_backup, ERR_BAD_REQUEST, "copy.db", "{\"path\":\"%s\"}", path);
    (void)remove(path);
}

static void a_store_in_a_file_is_copied_while_it_is_in_use(void **state)
{
    (void)state;
    at_every_desk(backs_up);
}

static void reads_before_a_change(struct desk *d)
{
    struct buf written;
    well(d, VERB_submit, "{\"kind\":\"k\",\"payload\":{\"a\":1}}");
    const char *id = said(d, "id");
    char request[64];
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
    static const enum verb_name verbs[] = {VERB_get, VERB_events, VERB_list, VERB_export};
    struct verb_call calls[sizeof verbs / sizeof verbs[0]];
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        calls[i] = (struct verb_call){
            .engine = d->engine,
            .arena = &d->arena,
            .name = verbs[i],
            .request = verbs[i] == VERB_list ? STR("{}") : str_from(request),
        };
        assert_int_equal(verb_do(&calls[i], &d->err), ERR_OK);
    }
    /* A store with one writer would wait for whoever still reads. */
    well(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    well(d, VERB_redact, "{\"id\":\"%s\"}", id);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        buf_init(&written, &d->arena, 256);
        verb_write(&calls[i], &written);
        buf_add_char(&written, '\0');
        assert_false(written.failed);
        assert_null(strstr(written.at, "cancelled"));
        assert_null(strstr(written.at, "\"redacted\":true"));
        assert_true(verbs[i] == VERB_list || strstr(written.at, "\"a\":1}") != NULL ||
                    strstr(written.at, "\\\"a\\\":1}") != NULL);
        verb_call_release(&calls[i]);
    }
}

static void a_result_is_what_was_read_whenever_it_is_written(void **state)
{
    (void)state;
    at_every_desk(reads_before_a_change);
}

static void lists_large_jobs(struct desk *d)
{
    enum { JOBS = 40, PAYLOAD = 200 * 1024 };
    struct arena arena;
    struct buf written;
    for (int i = 0; i < JOBS; i++)
        well(d, VERB_submit, "{\"kind\":\"k\",\"payload\":%s}", long_text(d, PAYLOAD));
    arena_init(&arena);
    struct verb_call call = {
        .engine = d->engine, .arena = &arena, .name = VERB_list, .request = STR("{}")};
    assert_int_equal(verb_do(&call, &d->err), ERR_OK);
    assert_true(arena_size(&arena) < JOBS * PAYLOAD / 4);
    buf_init(&written, &arena, 256);
    verb_write(&call, &written);
    assert_true(!written.failed && written.len < PAYLOAD);
    verb_call_release(&call);
    arena_release(&arena);
}

static void a_list_keeps_no_payloads_that_it_does_not_show(void **state)
{
    (void)state;
    at_every_desk(lists_large_jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_got_by_its_id),
        cmocka_unit_test(jobs_are_listed_newest_first_by_everything_there_is),
        cmocka_unit_test(jobs_are_found_by_what_they_are_called),
        cmocka_unit_test(jobs_are_found_by_the_first_digits_of_their_ids),
        cmocka_unit_test(a_list_that_cannot_be_is_refused_by_name),
        cmocka_unit_test(a_history_is_told_page_by_page),
        cmocka_unit_test(heartbeats_are_told_apart),
        cmocka_unit_test(the_feed_goes_on_from_where_it_ended),
        cmocka_unit_test(a_job_is_explained_with_what_an_operator_has_set),
        cmocka_unit_test(a_history_verifies_also_when_its_payloads_are_erased),
        cmocka_unit_test(a_long_history_is_verified_whole),
        cmocka_unit_test(many_jobs_are_cancelled_page_by_page),
        cmocka_unit_test(a_bulk_that_cannot_be_is_refused_by_name),
        cmocka_unit_test(dead_letters_are_redriven_or_dropped_by_what_they_are),
        cmocka_unit_test(dead_letters_are_counted_by_kind_and_reason),
        cmocka_unit_test(many_dead_letters_are_redriven_page_by_page),
        cmocka_unit_test(queues_are_counted_paused_and_resumed),
        cmocka_unit_test(the_settings_of_a_kind_are_set_and_got),
        cmocka_unit_test(resources_are_put_got_and_lost),
        cmocka_unit_test(steps_on_a_resource_that_is_deleted_are_lost_with_it),
        cmocka_unit_test(so_are_those_that_were_leased_while_it_was_deleted),
        cmocka_unit_test(the_list_says_which_verbs_can_wait_and_which_speak_for_a_lease),
        cmocka_unit_test(the_doctor_looks_at_everything),
        cmocka_unit_test(a_store_in_a_file_is_copied_while_it_is_in_use),
        cmocka_unit_test(a_result_is_what_was_read_whenever_it_is_written),
        cmocka_unit_test(a_list_keeps_no_payloads_that_it_does_not_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
