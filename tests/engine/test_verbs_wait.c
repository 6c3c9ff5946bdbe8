/* Reads that wait for something to happen, on every store with an engine that runs by itself. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/desk.h"

/* An engine with threads of its own, and one who waits at it. */
struct waiting {
    struct test_stores stores;
    struct engine *engine;
    struct arena arena;
    struct arena waiter_arena;
    pthread_t thread;
    enum verb_name verb;
    char request[256];
    enum error_code code;
    const char *answer;
};

static const char *ask_live(struct waiting *w, struct arena *arena, enum verb_name verb,
                            const char *request, enum error_code *ret_code)
{
    struct buf answer;
    struct err err = {0};
    struct verb_call call = {
        .engine = w->engine,
        .arena = arena,
        .name = verb,
        .request = str_from(request),
        .actor = STR("ann"),
    };
    buf_init(&answer, arena, 1024);
    *ret_code = verb_respond(&call, &answer, &err);
    if (*ret_code != ERR_OK)
        print_error("%s: %s\n", request, err.detail);
    buf_add_char(&answer, '\0');
    return answer.at;
}

static void *wait_at(void *arg)
{
    struct waiting *w = arg;
    w->answer = ask_live(w, &w->waiter_arena, w->verb, w->request, &w->code);
    return NULL;
}

static void waiting_open(struct waiting *w, enum test_store sort)
{
    struct engine_options options = {.store = {.create = true}};
    struct err err = {0};
    *w = (struct waiting){0};
    test_stores_init(&w->stores);
    arena_init(&w->arena);
    arena_init(&w->waiter_arena);
    const char *url = test_stores_fresh(&w->stores, sort);
    if (engine_open(str_from(url), &options, &w->engine, &err) != ERR_OK)
        fail_msg("%s", err.detail);
}

static void waiting_close(struct waiting *w)
{
    engine_close(w->engine);
    arena_release(&w->arena);
    arena_release(&w->waiter_arena);
    test_stores_release(&w->stores);
}

static void begin_waiting(struct waiting *w, enum verb_name verb)
{
    w->verb = verb;
    assert_int_equal(pthread_create(&w->thread, NULL, wait_at, w), 0);
}

static void end_waiting(struct waiting *w, const char *found)
{
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    assert_int_equal(w->code, ERR_OK);
    if (strstr(w->answer, found) == NULL)
        fail_msg("\"%s\" is not in %s", found, w->answer);
}

/* A job, and its id. */
static void submit_live(struct waiting *w, char id[UUID_TEXT_LEN + 1])
{
    enum error_code code;
    const char *answer = ask_live(w, &w->arena, VERB_submit, "{\"kind\":\"mail\"}", &code);
    assert_int_equal(code, ERR_OK);
    memcpy(id, answer + sizeof "{\"id\":\"" - 1, UUID_TEXT_LEN);
    id[UUID_TEXT_LEN] = '\0';
}

static void cancel_live(struct waiting *w, const char *id)
{
    char request[128];
    enum error_code code;
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
    (void)ask_live(w, &w->arena, VERB_cancel, request, &code);
    assert_int_equal(code, ERR_OK);
}

static void who_waits_is_told_as_soon_as_it_happens(void **state)
{
    (void)state;
    for (int sort = TEST_MEMORY; sort < TEST_STORE_COUNT; sort++) {
        struct waiting w;
        char id[UUID_TEXT_LEN + 1];
        waiting_open(&w, (enum test_store)sort);
        submit_live(&w, id);
        (void)snprintf(w.request, sizeof w.request, "{\"id\":\"%s\",\"wait_ms\":50000}", id);
        begin_waiting(&w, VERB_get);
        cancel_live(&w, id);
        end_waiting(&w, "\"status\":\"cancelled\"");

        submit_live(&w, id);
        (void)snprintf(w.request, sizeof w.request, "{\"id\":\"%s\",\"after\":1,\"wait_ms\":50000}",
                       id);
        begin_waiting(&w, VERB_events);
        cancel_live(&w, id);
        end_waiting(&w, "\"type\":\"job_cancelled\"");
        waiting_close(&w);
    }
}

static void the_feed_is_waited_for(void **state)
{
    (void)state;
    for (int sort = TEST_MEMORY; sort < TEST_STORE_COUNT; sort++) {
        struct waiting w;
        char id[UUID_TEXT_LEN + 1];
        waiting_open(&w, (enum test_store)sort);
        (void)snprintf(w.request, sizeof w.request, "{\"wait_ms\":50000}");
        begin_waiting(&w, VERB_feed);
        submit_live(&w, id);
        end_waiting(&w, "\"type\":\"job_created\"");
        waiting_close(&w);
    }
}

static void waiting_ends_when_the_time_is_over_or_the_engine_is_interrupted(void **state)
{
    (void)state;
    for (int sort = TEST_MEMORY; sort < TEST_STORE_COUNT; sort++) {
        struct waiting w;
        char id[UUID_TEXT_LEN + 1];
        waiting_open(&w, (enum test_store)sort);
        submit_live(&w, id);
        (void)snprintf(w.request, sizeof w.request, "{\"id\":\"%s\",\"wait_ms\":30}", id);
        begin_waiting(&w, VERB_get);
        end_waiting(&w, "\"status\":\"queued\"");
        (void)snprintf(w.request, sizeof w.request, "{\"id\":\"%s\",\"wait_ms\":50000}", id);
        begin_waiting(&w, VERB_get);
        engine_interrupt(w.engine);
        end_waiting(&w, "\"status\":\"queued\"");
        waiting_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_is_told_as_soon_as_it_happens),
        cmocka_unit_test(the_feed_is_waited_for),
        cmocka_unit_test(waiting_ends_when_the_time_is_over_or_the_engine_is_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
