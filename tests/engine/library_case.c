#include "engine/library_case.h"

#include <libpq-fe.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/server.h"

/* 2026-01-01T00:00:00.000Z */
#define START_OF_CLOCK 1767225600000LL

struct kept {
    struct kept *next;
    char text[];
};

/* ---- talking ------------------------------------------------------------------------------ */

void talk_init(struct talk *talk, struct pawl *pawl)
{
    *talk = (struct talk){.pawl = pawl, .answer = ""};
}

void talk_release(struct talk *talk)
{
    while (talk->kept != NULL) {
        struct kept *next = talk->kept->next;
        free(talk->kept);
        talk->kept = next;
    }
}

/* Threads use this too, where cmocka's assertions must not be. */
static char *keep_room(struct talk *talk, size_t size)
{
    struct kept *kept = malloc(sizeof *kept + size);
    if (kept == NULL)
        abort();
    kept->next = talk->kept;
    talk->kept = kept;
    return kept->text;
}

static const char *keep(struct talk *talk, const char *from)
{
    size_t size = strlen(from) + 1;
    return memcpy(keep_room(talk, size), from, size);
}

__attribute__((format(printf, 2, 0))) static const char *
formatted(struct talk *talk, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (len < 0)
        abort();
    char *room = keep_room(talk, (size_t)len + 1);
    (void)vsnprintf(room, (size_t)len + 1, format, arguments);
    return room;
}

const char *phrase(struct talk *talk, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *made = formatted(talk, format, arguments);
    va_end(arguments);
    return made;
}

static enum pawl_code ask(struct talk *talk, pawl_verb verb, const char *request)
{
    char *answer = NULL;
    talk->error = (struct pawl_error){0};
    talk->answer = "";
    talk->code = verb(talk->pawl, request, &answer, &talk->error);
    if (talk->code == PAWL_OK)
        talk->answer = keep(talk, answer);
    pawl_free(answer);
    return talk->code;
}

enum pawl_code attempt(struct talk *talk, pawl_verb verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *request = formatted(talk, format, arguments);
    va_end(arguments);
    return ask(talk, verb, request);
}

const char *does(struct talk *talk, pawl_verb verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *request = formatted(talk, format, arguments);
    va_end(arguments);
    if (ask(talk, verb, request) != PAWL_OK)
        fail_msg("%.300s: %s", request, talk->error.message);
    return talk->answer;
}

void refuses(struct talk *talk, pawl_verb verb, enum pawl_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *request = formatted(talk, format, arguments);
    va_end(arguments);
    if (ask(talk, verb, request) != code)
        fail_msg("%.300s: \"%s\" was to be refused with \"%s\"", request,
                 talk->code == PAWL_OK ? talk->answer : talk->error.message, pawl_code_text(code));
    assert_int_equal(talk->error.code, code);
    assert_string_not_equal(talk->error.message, "");
}

static struct pawl_json value_at(const struct talk *talk, const char *path)
{
    return pawl_json_get(pawl_json_read(talk->answer), path);
}

const char *text_at(struct talk *talk, const char *path)
{
    char *found = pawl_json_text(value_at(talk, path));
    const char *kept = keep(talk, found == NULL ? "" : found);
    pawl_free(found);
    return kept;
}

long long int_at(struct talk *talk, const char *path)
{
    return pawl_json_int(value_at(talk, path), -1);
}

void says_text(struct talk *talk, const char *path, const char *expected)
{
    const char *found = text_at(talk, path);
    if (strcmp(found, expected) != 0)
        fail_msg("%s is \"%.200s\" and not \"%s\" in: %.2000s", path, found, expected,
                 talk->answer);
}

/* ---- jobs --------------------------------------------------------------------------------- */

const char *submit_job(struct talk *talk, const char *members)
{
    static const char *const retry = ",\"retry\":{\"initial_ms\":0,\"jitter\":\"none\"}";
    does(talk, pawl_submit, "{\"kind\":\"work\"%s%s}",
         strstr(members, "\"retry\":") == NULL ? retry : "", members);
    return text_at(talk, "id");
}

const char *claim_job(struct talk *talk, const char *worker)
{
    does(talk, pawl_claim, "{\"worker_id\":\"%s\",\"lease_ttl_ms\":%d,\"wait_ms\":%d}", worker,
         LEASE_MS, PATIENCE_MS);
    const char *token = text_at(talk, "claims.0.lease.token");
    if (*token == '\0')
        fail_msg("%s got no work: %s", worker, talk->answer);
    return token;
}

const char *status_of(struct talk *talk, const char *id)
{
    does(talk, pawl_get, "{\"id\":\"%s\"}", id);
    return text_at(talk, "status");
}

/* Puts what the events of the last answer are called behind `trace`; tells the last version. */
static const char *add_types(struct talk *talk, const char *trace, long long *version)
{
    struct pawl_json events = value_at(talk, "events");
    struct pawl_json event = {0};
    while (pawl_json_next(events, &event, NULL)) {
        char *type = pawl_json_text(pawl_json_get(event, "type"));
        trace = phrase(talk, "%s%s%s", trace, *trace == '\0' ? "" : " ", type == NULL ? "" : type);
        *version = pawl_json_int(pawl_json_get(event, "version"), *version + 1);
        pawl_free(type);
    }
    return trace;
}

static const char *read_trace(struct talk *talk, const char *id, long long *ret_version)
{
    const char *trace = "";
    long long before = -1;
    *ret_version = 0;
    while (before < *ret_version) {
        before = *ret_version;
        does(talk, pawl_events, "{\"id\":\"%s\",\"after\":%lld,\"limit\":1000}", id, before);
        trace = add_types(talk, trace, ret_version);
    }
    return trace;
}

const char *trace_of(struct talk *talk, const char *id)
{
    long long version;
    return read_trace(talk, id, &version);
}

void trace_is(struct talk *talk, const char *id, const char *expected)
{
    assert_string_equal(trace_of(talk, id), expected);
}

void trace_becomes(struct talk *talk, const char *id, const char *expected)
{
    long long version;
    const char *trace = read_trace(talk, id, &version);
    while (strcmp(trace, expected) != 0) {
        does(talk, pawl_events, "{\"id\":\"%s\",\"after\":%lld,\"wait_ms\":%d}", id, version,
             PATIENCE_MS);
        long long before = version;
        trace = add_types(talk, trace, &version);
        if (version == before)
            fail_msg("\"%s\" has not become \"%s\"", trace, expected);
    }
}

long long wait_for_event(struct talk *talk, const char *id, long long version, const char *type)
{
    for (;;) {
        does(talk, pawl_events, "{\"id\":\"%s\",\"after\":%lld,\"wait_ms\":%d}", id, version,
             PATIENCE_MS);
        struct pawl_json events = value_at(talk, "events");
        struct pawl_json event = {0};
        long long before = version;
        while (pawl_json_next(events, &event, NULL)) {
            version = pawl_json_int(pawl_json_get(event, "version"), -1);
            if (pawl_json_is(pawl_json_get(event, "type"), type))
                return version;
        }
        if (version == before)
            fail_msg("there was no %s: %s", type, trace_of(talk, id));
    }
}

/* ---- whether a history holds -------------------------------------------------------------- */

/* How far a job has come. */
struct position {
    long long epoch;
    long long attempt; /* a job that can be claimed counts for its next one */
    int rank;
    long long claims;
};

/* What an event makes of a job, by the tables in the docs: its name, and its rank. */
static const struct {
    const char *event;
    int rank; /* 0: it can be claimed again */
} ranks[] = {
    {"job_created", 0},   {"job_queued", 0},  {"job_requeued", 0},      {"wait_completed", 0},
    {"job_leased", 1},    {"job_running", 2}, {"job_waiting", 3},       {"job_completed", 4},
    {"job_cancelled", 4}, {"job_failed", 4},  {"job_dead_lettered", 4},
};

static bool goes_back(const struct position *from, const struct position *to)
{
    if (to->epoch != from->epoch)
        return to->epoch < from->epoch;
    if (to->attempt != from->attempt)
        return to->attempt < from->attempt;
    return to->rank < from->rank;
}

/* Moves the position as the event says; false when that is no way to move. */
static bool moves_on(struct position *position, struct pawl_json event)
{
    struct pawl_json type = pawl_json_get(event, "type");
    struct position to = *position;
    size_t i = 0;
    size_t count = sizeof ranks / sizeof ranks[0];
    while (i < count && !pawl_json_is(type, ranks[i].event))
        i++;
    if (i == count)
        return true; /* it changes no state */
    to.rank = ranks[i].rank;
    to.epoch = pawl_json_int(pawl_json_get(event, "payload.epoch"), to.epoch);
    if (pawl_json_is(type, "job_leased"))
        to.claims++;
    bool unclaimed = to.rank == 0 || (to.rank == 4 && position->rank == 0);
    to.attempt = to.claims + (unclaimed ? 1 : 0);
    /* The fencing number that its holder got is the count of claims. */
    if (pawl_json_is(type, "job_leased") &&
        pawl_json_int(pawl_json_get(event, "payload.attempt"), -1) != to.claims)
        return false;
    /* Once it has ended, only a new epoch moves it. */
    if (position->rank == 4 && to.epoch != position->epoch + 1)
        return false;
    bool back = goes_back(position, &to);
    *position = to;
    return !back;
}

/* Goes through a page of events; false when there is something wrong. */
static bool page_holds(struct talk *talk, struct position *position, long long *version,
                       char last_at[32])
{
    struct pawl_json events = value_at(talk, "events");
    struct pawl_json event = {0};
    bool holds = true;
    while (holds && pawl_json_next(events, &event, NULL)) {
        char *at = pawl_json_text(pawl_json_get(event, "at"));
        holds = at != NULL && pawl_json_int(pawl_json_get(event, "version"), -1) == *version + 1 &&
                strcmp(at, last_at) >= 0 && moves_on(position, event);
        if (holds)
            (void)snprintf(last_at, 32, "%s", at);
        *version += holds ? 1 : 0;
        pawl_free(at);
    }
    return holds;
}

const char *unsound(struct talk *talk, const char *id)
{
    struct position position = {.epoch = 1};
    char last_at[32] = "";
    long long version = 0;
    long long before = -1;
    bool holds = true;
    while (holds && before < version) {
        before = version;
        if (attempt(talk, pawl_events, "{\"id\":\"%s\",\"after\":%lld,\"limit\":1000}", id,
                    version) != PAWL_OK)
            return keep(talk, talk->error.message);
        holds = page_holds(talk, &position, &version, last_at);
    }
    if (!holds)
        return phrase(talk, "job %s: the event behind version %lld is wrong: %.2000s", id, version,
                      talk->answer);
    if (attempt(talk, pawl_verify, "{\"id\":\"%s\"}", id) != PAWL_OK)
        return keep(talk, talk->error.message);
    bool ok = pawl_json_true(value_at(talk, "ok")) && int_at(talk, "version") == version;
    return ok ? "" : phrase(talk, "job %s at %lld: %s", id, version, talk->answer);
}

void is_sound(struct talk *talk, const char *id)
{
    const char *why = unsound(talk, id);
    if (*why != '\0')
        fail_msg("%s", why);
}

/* ---- a store for a test ------------------------------------------------------------------- */

static long long tell_time(void *arg)
{
    return atomic_load((atomic_llong *)arg);
}

struct pawl_options case_options(struct library_case *c)
{
    return (struct pawl_options){.create = 1, .clock = tell_time, .clock_arg = &c->now};
}

static bool is_over_http(void)
{
    const char *setting = getenv("PAWL_TEST_HTTP");
    return setting != NULL && *setting != '\0';
}

const char *case_actor(void)
{
    return is_over_http() ? "http" : "library";
}

void not_over_http(void)
{
    if (is_over_http())
        skip();
}

static int64_t tell_server_time(void *arg)
{
    return tell_time(arg);
}

/* The URL of a server for the store of the case, which is started if need be. */
static const char *serve(struct library_case *c, bool own_clock)
{
    struct err err = {0};
    struct server_options options = {
        .listen = STR("127.0.0.1:0"),
        .engine.store = {.create = true,
                         .clock = own_clock ? tell_server_time : NULL,
                         .clock_arg = &c->now},
    };
    if (c->server == NULL && server_open(str_from(c->url), &options, &c->server, &err) != ERR_OK)
        fail_msg("%s: %s", c->url, err.detail);
    return phrase(&c->talk, "http://127.0.0.1:%u", server_port(c->server));
}

struct pawl *case_open(struct library_case *c, bool own_clock)
{
    struct pawl_options options = case_options(c);
    struct pawl_error error = {0};
    struct pawl *pawl;
    if (!own_clock)
        options.clock = NULL;
    const char *url = is_over_http() ? serve(c, own_clock) : c->url;
    if (pawl_open(url, &options, &pawl, &error) != PAWL_OK)
        fail_msg("%s: %s", url, error.message);
    return pawl;
}

void case_close(struct library_case *c)
{
    pawl_close(c->talk.pawl);
    c->talk.pawl = NULL;
    server_close(c->server);
    c->server = NULL;
}

void case_reopen(struct library_case *c)
{
    case_close(c);
    c->talk.pawl = case_open(c, true);
}

void pass(struct library_case *c, long long ms)
{
    (void)atomic_fetch_add(&c->now, ms);
}

/* The database that the cases share, and where it is; none has been made before the first. */
static struct test_stores shared;
static const char *shared_url;

static void make_empty(const char *url)
{
    PGconn *connection = PQconnectdb(url);
    PGresult *result =
        PQexec(connection, "DO $$ DECLARE name text; BEGIN FOR name IN SELECT tablename FROM"
                           " pg_tables WHERE schemaname = 'pawl' AND tablename <> 'schema'"
                           " LOOP EXECUTE format('DELETE FROM pawl.%I', name); END LOOP; END $$");
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", url, PQerrorMessage(connection));
    PQclear(result);
    PQfinish(connection);
}

static const char *shared_database(void)
{
    if (shared_url == NULL) {
        test_stores_init(&shared);
        shared_url = test_stores_fresh(&shared, TEST_POSTGRES);
    } else {
        make_empty(shared_url);
    }
    return shared_url;
}

int cases_over(void **state)
{
    (void)state;
    if (shared_url != NULL)
        test_stores_release(&shared);
    shared_url = NULL;
    return 0;
}

static struct library_case *new_case(enum test_store sort, bool own_database)
{
    struct library_case *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->sort = sort;
    atomic_init(&c->now, START_OF_CLOCK);
    test_stores_init(&c->stores);
    bool shares = sort == TEST_POSTGRES && !own_database;
    c->url = shares ? shared_database() : test_stores_fresh(&c->stores, sort);
    talk_init(&c->talk, NULL);
    return c;
}

int case_setup_bare(void **state)
{
    *state = new_case((enum test_store)(uintptr_t)*state, false);
    return *state == NULL ? -1 : 0;
}

int case_setup_own_database(void **state)
{
    struct library_case *c = new_case((enum test_store)(uintptr_t)*state, true);
    *state = c;
    if (c != NULL)
        c->talk.pawl = case_open(c, true);
    return c == NULL ? -1 : 0;
}

int case_setup(void **state)
{
    if (case_setup_bare(state) != 0)
        return -1;
    struct library_case *c = *state;
    c->talk.pawl = case_open(c, true);
    return 0;
}

int case_setup_ticking(void **state)
{
    if (case_setup_bare(state) != 0)
        return -1;
    struct library_case *c = *state;
    c->talk.pawl = case_open(c, false);
    return 0;
}

int case_teardown(void **state)
{
    struct library_case *c = *state;
    case_close(c);
    talk_release(&c->talk);
    test_stores_release(&c->stores);
    free(c);
    return 0;
}

/* ---- threads ------------------------------------------------------------------------------ */

void in_threads(size_t count, void *(*run)(void *argument), void *arguments, size_t size)
{
    pthread_t *threads = calloc(count, sizeof *threads);
    assert_non_null(threads);
    for (size_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, (char *)arguments + i * size) != 0)
            abort();
    for (size_t i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    free(threads);
}

uint32_t dice(uint64_t *seed, uint32_t below)
{
    /* Knuth's constants; the upper bits are the good ones. */
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % below;
}
