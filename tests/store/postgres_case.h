/* A database of its own for a test of the PostgreSQL store, a handle on it, and a plain connection
 * beside it through which the test looks and meddles. */
#ifndef PAWL_TESTS_STORE_POSTGRES_CASE_H
#define PAWL_TESTS_STORE_POSTGRES_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <libpq-fe.h>
#include <cmocka.h>

#include "engine/batch.h"
#include "run_ops.h"
#include "store/postgres/postgres_store.h"
#include "store/test_stores.h"

struct postgres_case {
    struct test_stores stores;
    char url[1024]; /* of the database */
    PGconn *sql;
    struct store *store;
    struct batcher batcher;
    struct arena arena;
    struct err err;
    uint32_t made; /* jobs */
};

static inline struct store_options case_options(void)
{
    return (struct store_options){
        .create = true, .seed = 1, .connections = 2, .timeout_ms = 10 * 1000};
}

/* The database alone. */
static inline int case_setup_bare(void **state)
{
    struct postgres_case *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -1;
    test_stores_init(&c->stores);
    (void)snprintf(c->url, sizeof c->url, "%s", test_stores_fresh(&c->stores, TEST_POSTGRES));
    c->sql = PQconnectdb(c->url);
    arena_init(&c->arena);
    *state = c;
    return PQstatus(c->sql) == CONNECTION_OK ? 0 : -1;
}

static inline void case_open(struct postgres_case *c, const char *url)
{
    struct store_options options = case_options();
    if (store_open(str_from(url), &options, &c->store, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    batcher_init(&c->batcher, c->store, NULL, NULL);
}

static inline int case_setup(void **state)
{
    if (case_setup_bare(state) != 0)
        return -1;
    struct postgres_case *c = *state;
    case_open(c, c->url);
    return 0;
}

static inline int case_teardown(void **state)
{
    struct postgres_case *c = *state;
    if (c->store != NULL) {
        batcher_release(&c->batcher);
        store_close(c->store);
    }
    PQfinish(c->sql);
    arena_release(&c->arena);
    test_stores_release(&c->stores);
    free(c);
    return 0;
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, case_setup, case_teardown)
#define BARE_CASE(test) cmocka_unit_test_setup_teardown(test, case_setup_bare, case_teardown)

/* ---- the plain connection ---- */

/* Runs a statement and returns its first value, "" when there is none; fails the test if the server
 * refuses it. Valid until the next call. */
static inline const char *sql(struct postgres_case *c, const char *statement)
{
    static char value[4096];
    PGresult *result = PQexec(c->sql, statement);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail_msg("%s: %s", statement, PQerrorMessage(c->sql));
    bool any = PQntuples(result) > 0 && PQnfields(result) > 0;
    (void)snprintf(value, sizeof value, "%s", any ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return value;
}

static inline int64_t sql_int(struct postgres_case *c, const char *statement)
{
    return strtoll(sql(c, statement), NULL, 10);
}

/* The message with which the server refuses a statement. */
static inline const char *sql_refused(struct postgres_case *c, const char *statement)
{
    static char message[1024];
    PGresult *result = PQexec(c->sql, statement);
    ExecStatusType status = PQresultStatus(result);
    (void)snprintf(message, sizeof message, "%s", PQresultErrorMessage(result));
    PQclear(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        fail_msg("not refused: %s", statement);
    return message;
}

static inline bool has_text(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* ---- the store ---- */

static inline struct uuid next_id(struct postgres_case *c)
{
    struct uuid id = {{1, 2, 3, 4, 5, 6, 0x70, 8, 0x80}};
    c->made++;
    id.bytes[14] = (uint8_t)(c->made >> 8);
    id.bytes[15] = (uint8_t)c->made;
    return id;
}

/* One job with this id through the engine; what became of the batch. */
static inline enum error_code submit_with(struct postgres_case *c, struct uuid id, const char *key,
                                          enum store_outcome *outcome)
{
    struct spec spec = spec_defaults(NULL);
    spec.kind = STR("mail");
    spec.payload = STR("{\"to\": 1.10}");
    spec.idempotency_key = str_from(key);
    struct op op = {
        .type = OP_COMMAND,
        .job = id,
        .command = {.type = COMMAND_SUBMIT, .actor = STR("tester"), .submit = {.spec = &spec}},
    };
    enum error_code code = run_ops(&c->batcher, &op, 1, &c->arena, outcome, &c->err);
    if (code == ERR_OK && op.code != ERR_OK)
        fail_msg("%s", op.err.detail);
    return code;
}

static inline struct uuid submit_job(struct postgres_case *c)
{
    struct uuid id = next_id(c);
    enum store_outcome outcome;
    if (submit_with(c, id, NULL, &outcome) != ERR_OK)
        fail_msg("%s", c->err.detail);
    return id;
}

/* How many jobs a claim for `max` gets. */
static inline uint32_t claim_jobs(struct postgres_case *c, uint32_t max)
{
    struct op op = {
        .type = OP_CLAIM,
        .command = {.type = COMMAND_CLAIM, .actor = STR("w1")},
        .claim = {.claimer = {.work = LANE_JOBS}, .max = max},
    };
    enum store_outcome outcome;
    op.command.claim.worker_id = STR("w1");
    op.command.claim.start = true;
    if (run_ops(&c->batcher, &op, 1, &c->arena, &outcome, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    if (op.code != ERR_OK)
        fail_msg("%s", op.err.detail);
    return op.grant_count;
}

static inline int64_t monotonic_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
