#include "engine/desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/json.h"
#include "pawl.h"

enum { TURNS_MAX = 1000, STEP_MS = 1000 };

static int64_t tell_time(void *arg)
{
    return *(int64_t *)arg;
}

static void desk_open(struct desk *desk, enum test_store sort, const struct observer *observer)
{
    struct engine_options options = {
        .store = {.clock = tell_time, .clock_arg = &desk->clock, .create = true},
        .by_hand = true,
        .steady = tell_time,
        .steady_arg = &desk->steady,
    };
    struct err err = {0};
    if (observer != NULL) {
        options.observer = *observer;
        options.observer.arg = desk;
    }
    *desk = (struct desk){.clock = DESK_CLOCK, .steady = 1000};
    test_stores_init(&desk->stores);
    arena_init(&desk->arena);
    const char *url = test_stores_fresh(&desk->stores, sort);
    if (engine_open(str_from(url), &options, &desk->engine, &err) != ERR_OK)
        fail_msg("%s", err.detail);
}

static void desk_close(struct desk *desk)
{
    engine_close(desk->engine);
    arena_release(&desk->arena);
    test_stores_release(&desk->stores);
}

void at_every_desk(void (*test)(struct desk *desk))
{
    at_every_watched_desk(test, NULL);
}

void at_every_watched_desk(void (*test)(struct desk *desk), const struct observer *observer)
{
    for (int sort = TEST_MEMORY; sort < TEST_STORE_COUNT; sort++) {
        struct desk desk;
        desk_open(&desk, (enum test_store)sort, observer);
        test(&desk);
        desk_close(&desk);
    }
}

static void note_done(struct call *call, void *arg)
{
    (void)call;
    *(bool *)arg = true;
}

static enum error_code carry_out(struct desk *desk, struct verb_call *call)
{
    bool done = false;
    int64_t wait_ms;
    enum error_code code = verb_prepare(call, &desk->err);
    if (code != ERR_OK)
        return code;
    call->call.done = note_done;
    call->call.arg = &done;
    if (call->call.count > 0)
        code = engine_submit(desk->engine, &call->call, &desk->err);
    for (int i = 0; code == ERR_OK && call->call.count > 0 && !done; i++) {
        assert_true(i < TURNS_MAX);
        engine_turn(desk->engine, &wait_ms);
    }
    if (code == ERR_OK)
        code = verb_finish(call, &desk->err);
    return code;
}

void ask(struct desk *desk, enum verb_name verb, const char *request)
{
    struct buf answer;
    struct verb_call call = {
        .engine = desk->engine,
        .arena = &desk->arena,
        .name = verb,
        .request = json_trim(str_from(request)),
        .actor = str_from(desk->token == NULL ? "ann" : desk->token),
        .scopes = desk->token == NULL ? 0 : ACCESS_WORK,
        .no_claims = desk->no_claims,
    };
    desk->err = (struct err){0};
    if (desk->key != NULL) {
        call.scope = STR("ann");
        call.key = str_from(desk->key);
    }
    buf_init(&answer, &desk->arena, 1024);
    desk->code = json_check(call.request, verb_bytes_max(verb), "test", &desk->arena, &desk->err);
    assert_int_equal(desk->code, ERR_OK);
    desk->code = verb_is_write(verb)  ? carry_out(desk, &call)
                 : verb_is_long(verb) ? verb_run_own(&call, &desk->err)
                                      : verb_run(&call, &desk->err);
    desk->claims = (struct undelivered_claims){0};
    if (desk->code == ERR_OK) {
        verb_write(&call, &answer);
        desk->claims = undelivered_claims_of(&call, &desk->arena);
    }
    verb_call_release(&call);
    desk->status = call.result.status;
    desk->key = NULL;
    buf_add_char(&answer, '\0');
    assert_false(answer.failed);
    desk->answer = desk->code == ERR_OK ? answer.at : "";
    if (desk->code == ERR_OK)
        assert_int_equal(json_check(str_from(desk->answer), SIZE_MAX, "answer", &desk->arena, NULL),
                         ERR_OK);
    else
        assert_int_equal(desk->err.code, desk->code);
}

__attribute__((format(printf, 2, 0))) static const char *
formatted(struct desk *desk, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    assert_true(len >= 0);
    char *text = arena_alloc(&desk->arena, (size_t)len + 1);
    assert_non_null(text);
    (void)vsnprintf(text, (size_t)len + 1, format, arguments);
    return text;
}

const char *well(struct desk *desk, enum verb_name verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *request = formatted(desk, format, arguments);
    va_end(arguments);
    ask(desk, verb, request);
    if (desk->code != ERR_OK)
        fail_msg("%.*s %.300s: %s", STR_ARG(verb_text(verb)), request, desk->err.detail);
    return desk->answer;
}

void ill(struct desk *desk, enum verb_name verb, enum error_code code, const char *words,
         const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *request = formatted(desk, format, arguments);
    va_end(arguments);
    ask(desk, verb, request);
    if (desk->code != code)
        fail_msg("%.*s %.300s: %s: %s", STR_ARG(verb_text(verb)), request,
                 error_info(desk->code)->name,
                 desk->code == ERR_OK ? desk->answer : desk->err.detail);
    if (strstr(desk->err.detail, words) == NULL)
        fail_msg("%.*s %.300s: \"%s\" is not in: %s", STR_ARG(verb_text(verb)), request, words,
                 desk->err.detail);
}

const char *said(struct desk *desk, const char *path)
{
    struct pawl_json root = {desk->answer, strlen(desk->answer)};
    char *text = pawl_json_text(pawl_json_get(root, path));
    assert_non_null(text);
    struct str kept = arena_copy(&desk->arena, (struct str){text, strlen(text) + 1});
    pawl_free(text);
    return kept.at;
}

void says(struct desk *desk, const char *path, const char *text)
{
    const char *found = said(desk, path);
    if (strcmp(found, text) != 0)
        fail_msg("%s is \"%.200s\" and not \"%s\" in: %.2000s", path, found, text, desk->answer);
}

static const char *token_said(struct desk *desk)
{
    const char *token = said(desk, "claims.0.lease.token");
    assert_string_not_equal(token, "");
    return token;
}

const char *claimed(struct desk *desk)
{
    well(desk, VERB_claim, "{\"worker_id\":\"w1\"}");
    return token_said(desk);
}

const char *step_claimed(struct desk *desk)
{
    well(desk, VERB_resource_put, "{\"id\":\"r1\",\"slots\":2}");
    well(desk, VERB_claim_steps, "{\"worker_id\":\"w1\",\"resource_id\":\"r1\"}");
    return token_said(desk);
}

void let_time_pass(struct desk *desk, int64_t ms)
{
    /* In steps: a longer silence would look like a break, in which leases are not lost. */
    while (ms > 0) {
        int64_t step = ms < STEP_MS ? ms : STEP_MS;
        int64_t wait_ms = 0;
        ms -= step;
        desk->clock += step;
        desk->steady += step;
        for (int i = 0; i == 0 || wait_ms == 0; i++) {
            assert_true(i < TURNS_MAX);
            engine_turn(desk->engine, &wait_ms);
        }
    }
}

const char *long_text(struct desk *desk, size_t len)
{
    char *text = arena_alloc(&desk->arena, len + 3);
    assert_non_null(text);
    memset(text, 'x', len + 2);
    text[0] = text[len + 1] = '"';
    text[len + 2] = '\0';
    return text;
}
