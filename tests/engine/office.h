/* A store that is served to callers whose tokens are limited: for tests of who may do what. */
#ifndef PAWL_TESTS_OFFICE_H
#define PAWL_TESTS_OFFICE_H

#include <stdarg.h>
#include <stdio.h>

#include "base/fixture.h"
#include "core/access.h"
#include "engine/verb.h"
#include "pawl.h"
#include "store/test_stores.h"

/* A store that is served, and how the next call is limited. */
struct office {
    struct test_stores stores;
    struct engine *engine;
    struct arena arena;
    uint32_t scopes;
    const struct names *queues;
    const char *key;
    enum error_code code;
    struct err err;
    const char *answer;
};

__attribute__((format(printf, 3, 4))) static inline const char *
ask(struct office *office, enum verb_name verb, const char *format, ...)
{
    va_list arguments;
    char request[4096];
    struct buf answer;
    va_start(arguments, format);
    int len = vsnprintf(request, sizeof request, format, arguments);
    va_end(arguments);
    assert_true(len >= 0 && (size_t)len < sizeof request);
    for (int i = 0; i < len; i++)
        if (request[i] == '\'')
            request[i] = '"';
    struct str copy = arena_copy(&office->arena, (struct str){request, (size_t)len});
    struct verb_call call = {
        .engine = office->engine,
        .arena = &office->arena,
        .name = verb,
        .request = copy,
        .actor = STR("ann"),
        .scopes = office->scopes,
        .queues = office->queues,
    };
    if (office->key != NULL) {
        call.scope = STR("ann");
        call.key = str_from(office->key);
    }
    office->err = (struct err){0};
    buf_init(&answer, &office->arena, 1024);
    office->code = verb_respond(&call, &answer, &office->err);
    buf_add_char(&answer, '\0');
    assert_false(answer.failed);
    office->answer = office->code == ERR_OK ? answer.at : "";
    return office->answer;
}

static inline const char *said(struct office *office, const char *path)
{
    struct pawl_json root = {office->answer, strlen(office->answer)};
    char *text = pawl_json_text(pawl_json_get(root, path));
    assert_non_null(text);
    struct str kept = arena_copy(&office->arena, (struct str){text, strlen(text) + 1});
    pawl_free(text);
    return kept.at;
}

static inline void went_well(const struct office *office)
{
    if (office->code != ERR_OK)
        fail_msg("%s", office->err.detail);
}

#define well(office, verb, ...) (ask(office, verb, __VA_ARGS__), went_well(office))

static inline void limit(struct office *office, uint32_t scopes, const struct names *queues)
{
    office->scopes = scopes;
    office->queues = queues;
}

static inline void at_every_office(void (*test)(struct office *office))
{
    for (int sort = 0; sort < TEST_STORE_COUNT; sort++) {
        struct office office = {0};
        struct engine_options options = {.store.create = true};
        struct err err = {0};
        test_stores_init(&office.stores);
        arena_init(&office.arena);
        const char *url = test_stores_fresh(&office.stores, (enum test_store)sort);
        if (engine_open(str_from(url), &options, &office.engine, &err) != ERR_OK)
            fail_msg("%s", err.detail);
        test(&office);
        engine_close(office.engine);
        arena_release(&office.arena);
        test_stores_release(&office.stores);
    }
}

#endif
