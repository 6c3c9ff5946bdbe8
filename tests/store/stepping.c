#include "stepping.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "players.h"
#include "run_ops.h"
#include "store/store_driver.h"

const char *const gate_names[GATE_COUNT] = {"load", "candidates", "write", "commit"};

/* How long a verb takes that is not blocked, more or less: the server is not asked before. */
enum { PATIENCE_US = 1000, STORE_PATIENCE_MS = 2 * SETTLE_DEADLINE_MS };

struct stepping_store {
    struct store base;
    struct store *inner;
    struct session *session;
};

struct stepping_txn {
    struct store_txn base;
    struct store_txn *inner;
};

/* ---- the store that stops ---- */

static struct store *inner_store(struct store *store)
{
    return ((struct stepping_store *)store)->inner;
}

static struct store_txn *inner_txn(struct store_txn *txn)
{
    return ((struct stepping_txn *)txn)->inner;
}

static void move_to(struct session *session, enum session_state state)
{
    session->state = state;
    session->moves++;
    (void)pthread_cond_broadcast(&session->stepping->moved);
}

static void stop_at(struct store_txn *txn, enum gate gate)
{
    struct session *session = ((struct stepping_store *)txn->store)->session;
    struct stepping *stepping = session->stepping;
    if ((stepping->gates >> gate & 1) == 0)
        return;
    (void)pthread_mutex_lock(&stepping->lock);
    session->gate = gate;
    session->may_go = false;
    move_to(session, SESSION_AT_GATE);
    while (!session->may_go)
        (void)pthread_cond_wait(&stepping->moved, &stepping->lock);
    (void)pthread_mutex_unlock(&stepping->lock);
}

static void step_close(struct store *store)
{
    store_close(inner_store(store));
    free(store);
}

static enum error_code step_begin(struct store *store, enum store_mode mode, struct store_txn **ret,
                                  struct err *err)
{
    struct stepping_txn *txn = calloc(1, sizeof *txn);
    assert(txn != NULL);
    txn->base = (struct store_txn){.store = store, .mode = mode};
    enum error_code code = store_begin(inner_store(store), mode, &txn->inner, err);
    if (code == ERR_OK)
        *ret = &txn->base;
    else
        free(txn);
    return code;
}

static enum error_code step_load(struct store_txn *txn, struct store_load *load,
                                 struct arena *arena, struct err *err)
{
    stop_at(txn, GATE_LOAD);
    return store_load(inner_txn(txn), load, arena, err);
}

static enum error_code step_load_parts(struct store_txn *txn, struct store_parts *parts,
                                       uint32_t count, struct arena *arena, struct err *err)
{
    return store_load_parts(inner_txn(txn), parts, count, arena, err);
}

static enum error_code step_lanes(struct store_txn *txn, uint32_t after, struct arena *arena,
                                  struct store_lane **ret, uint32_t *ret_count, struct err *err)
{
    return store_lanes(inner_txn(txn), after, arena, ret, ret_count, err);
}

static enum error_code step_candidates(struct store_txn *txn, struct store_search *searches,
                                       uint32_t count, struct arena *arena, struct err *err)
{
    stop_at(txn, GATE_CANDIDATES);
    return store_candidates(inner_txn(txn), searches, count, arena, err);
}

static enum error_code step_write(struct store_txn *txn, const struct store_write *write,
                                  struct err *err)
{
    stop_at(txn, GATE_WRITE);
    return store_write(inner_txn(txn), write, err);
}

static enum error_code step_commit(struct store_txn *txn, enum store_outcome *outcome,
                                   struct err *err)
{
    stop_at(txn, GATE_COMMIT);
    enum error_code code = store_commit(inner_txn(txn), outcome, err);
    free(txn);
    return code;
}

static void step_rollback(struct store_txn *txn)
{
    store_rollback(inner_txn(txn));
    free(txn);
}

/* Just what a batch uses: the rest is not led. */
static const struct store_driver stepping_driver = {
    .name = "stepping",
    .close = step_close,
    .begin = step_begin,
    .load = step_load,
    .load_parts = step_load_parts,
    .lanes = step_lanes,
    .candidates = step_candidates,
    .write = step_write,
    .commit = step_commit,
    .rollback = step_rollback,
};

/* ---- sessions ---- */

static void *run_session(void *arg)
{
    struct session *session = arg;
    struct stepping *stepping = session->stepping;
    (void)pthread_mutex_lock(&stepping->lock);
    for (;;) {
        while (session->state == SESSION_IDLE && !session->closing)
            (void)pthread_cond_wait(&stepping->moved, &stepping->lock);
        if (session->closing)
            break;
        (void)pthread_mutex_unlock(&stepping->lock);
        enum store_outcome outcome;
        session->err = (struct err){0};
        session->code = run_ops(&session->batcher, session->ops, session->op_count, &session->arena,
                                &outcome, &session->err);
        (void)pthread_mutex_lock(&stepping->lock);
        move_to(session, SESSION_IDLE);
    }
    (void)pthread_mutex_unlock(&stepping->lock);
    return NULL;
}

static void open_session(struct stepping *stepping, uint32_t number, const char *url)
{
    struct session *session = &stepping->sessions[number];
    struct store_options options = {
        .clock = player_clock,
        .clock_arg = &session->clock,
        .seed = 1,
        .connections = 1,
        .timeout_ms = STORE_PATIENCE_MS,
    };
    char named[1200];
    struct err err = {0};
    session->stepping = stepping;
    session->store = calloc(1, sizeof *session->store);
    assert(session->store != NULL);
    (void)snprintf(session->name, sizeof session->name, "session%u", number);
    (void)snprintf(named, sizeof named, "%s%capplication_name=%s", url,
                   strchr(url, '?') == NULL ? '?' : '&', session->name);
    if (store_open(str_from(named), &options, &session->store->inner, &err) != ERR_OK) {
        fprintf(stderr, "%s: %s\n", named, err.detail);
        abort();
    }
    session->store->base =
        (struct store){.driver = &stepping_driver, .options = session->store->inner->options};
    session->store->session = session;
    batcher_init(&session->batcher, &session->store->base, NULL, NULL);
    arena_init(&session->arena);
    if (pthread_create(&session->thread, NULL, run_session, session) != 0)
        abort();
}

void stepping_open(struct stepping *stepping, const char *url, uint32_t count, uint32_t gates)
{
    assert(count <= SESSIONS_MAX);
    pthread_condattr_t monotonic;
    *stepping = (struct stepping){.count = count, .gates = gates};
    (void)pthread_mutex_init(&stepping->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&stepping->moved, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    stepping->observer = PQconnectdb(url);
    if (PQstatus(stepping->observer) != CONNECTION_OK) {
        fprintf(stderr, "%s: %s\n", url, PQerrorMessage(stepping->observer));
        abort();
    }
    for (uint32_t i = 0; i < count; i++)
        open_session(stepping, i, url);
}

void stepping_close(struct stepping *stepping)
{
    (void)pthread_mutex_lock(&stepping->lock);
    for (uint32_t i = 0; i < stepping->count; i++) {
        assert(stepping->sessions[i].state == SESSION_IDLE);
        stepping->sessions[i].closing = true;
    }
    (void)pthread_cond_broadcast(&stepping->moved);
    (void)pthread_mutex_unlock(&stepping->lock);
    for (uint32_t i = 0; i < stepping->count; i++) {
        struct session *session = &stepping->sessions[i];
        (void)pthread_join(session->thread, NULL);
        batcher_release(&session->batcher);
        store_close(&session->store->base);
        arena_release(&session->arena);
    }
    PQfinish(stepping->observer);
    (void)pthread_cond_destroy(&stepping->moved);
    (void)pthread_mutex_destroy(&stepping->lock);
}

void stepping_begin(struct stepping *stepping, uint32_t number, const struct op *ops,
                    uint32_t count, int64_t now)
{
    struct session *session = &stepping->sessions[number];
    (void)pthread_mutex_lock(&stepping->lock);
    assert(session->state == SESSION_IDLE && count <= SESSION_OPS_MAX);
    arena_clear(&session->arena);
    memcpy(session->ops, ops, count * sizeof *ops);
    session->op_count = count;
    session->clock = now;
    move_to(session, SESSION_RUNNING);
    (void)pthread_mutex_unlock(&stepping->lock);
}

void stepping_go(struct stepping *stepping, uint32_t number)
{
    struct session *session = &stepping->sessions[number];
    (void)pthread_mutex_lock(&stepping->lock);
    assert(session->state == SESSION_AT_GATE);
    session->may_go = true;
    move_to(session, SESSION_RUNNING);
    (void)pthread_mutex_unlock(&stepping->lock);
}

/* ---- settling ---- */

/* The sessions that wait for a lock of another one, as bits. pg_locks is right at any moment: who
 * releases a lock hands it on. (What pg_stat_activity says lasts until the waiter has woken up.)
 * Waits for a table or the end of its file are due to vacuum, and short. */
static uint32_t ask_who_waits(struct stepping *stepping)
{
    uint32_t waiting = 0;
    PGresult *result = PQexec(stepping->observer,
                              "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a "
                              "USING (pid) WHERE NOT l.granted AND l.locktype NOT IN "
                              "('extend', 'relation') AND a.datname = current_database()");
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fprintf(stderr, "pg_locks: %s\n", PQerrorMessage(stepping->observer));
        abort();
    }
    for (int row = 0; row < PQntuples(result); row++)
        for (uint32_t i = 0; i < stepping->count; i++)
            if (strcmp(PQgetvalue(result, row, 0), stepping->sessions[i].name) == 0)
                waiting |= 1U << i;
    PQclear(result);
    return waiting;
}

static uint32_t running(const struct stepping *stepping, uint64_t *ret_moves)
{
    uint32_t bits = 0;
    *ret_moves = 0;
    for (uint32_t i = 0; i < stepping->count && i < SESSIONS_MAX; i++) {
        bits |= (uint32_t)(stepping->sessions[i].state == SESSION_RUNNING) << i;
        *ret_moves += stepping->sessions[i].moves;
    }
    return bits;
}

static struct timespec after_us(int64_t us)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += us % 1000000 * 1000;
    at.tv_sec += us / 1000000 + at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static bool is_past(struct timespec deadline)
{
    struct timespec now = after_us(0);
    return now.tv_sec > deadline.tv_sec ||
           (now.tv_sec == deadline.tv_sec && now.tv_nsec >= deadline.tv_nsec);
}

/* Waits for somebody to move, up to `until`. Returns false when it has passed. */
static bool wait_for_move(struct stepping *stepping, struct timespec until)
{
    return pthread_cond_timedwait(&stepping->moved, &stepping->lock, &until) == 0;
}

bool stepping_settle(struct stepping *stepping)
{
    struct timespec deadline = after_us(SETTLE_DEADLINE_MS * INT64_C(1000));
    bool settled = false;
    uint32_t waiting = 0;
    (void)pthread_mutex_lock(&stepping->lock);
    while (!settled && !is_past(deadline)) {
        uint64_t moves;
        uint64_t moves_after;
        struct timespec soon = after_us(PATIENCE_US);
        while (running(stepping, &moves) != 0 && wait_for_move(stepping, soon))
            ;
        uint32_t bits = running(stepping, &moves);
        if (bits != 0) {
            (void)pthread_mutex_unlock(&stepping->lock);
            waiting = ask_who_waits(stepping);
            (void)pthread_mutex_lock(&stepping->lock);
        }
        /* Nobody moved while the question was asked, so nobody can have released a lock. */
        uint32_t bits_after = running(stepping, &moves_after);
        settled =
            bits == 0 || (bits == bits_after && moves == moves_after && (bits & ~waiting) == 0);
        for (uint32_t i = 0; i < stepping->count; i++)
            stepping->sessions[i].blocked = settled && (bits >> i & 1);
    }
    (void)pthread_mutex_unlock(&stepping->lock);
    return settled;
}

bool stepping_stir(struct stepping *stepping)
{
    struct timespec deadline = after_us(SETTLE_DEADLINE_MS * INT64_C(1000));
    uint64_t before;
    uint64_t after;
    (void)pthread_mutex_lock(&stepping->lock);
    (void)running(stepping, &before);
    do
        (void)running(stepping, &after);
    while (after == before && wait_for_move(stepping, deadline));
    (void)pthread_mutex_unlock(&stepping->lock);
    return after != before && stepping_settle(stepping);
}

uint32_t stepping_ready(struct stepping *stepping)
{
    uint32_t bits = 0;
    (void)pthread_mutex_lock(&stepping->lock);
    for (uint32_t i = 0; i < stepping->count; i++)
        bits |= (uint32_t)(stepping->sessions[i].state == SESSION_AT_GATE) << i;
    (void)pthread_mutex_unlock(&stepping->lock);
    return bits;
}

bool stepping_busy(struct stepping *stepping)
{
    bool busy = false;
    (void)pthread_mutex_lock(&stepping->lock);
    for (uint32_t i = 0; i < stepping->count; i++)
        busy = busy || stepping->sessions[i].state != SESSION_IDLE;
    (void)pthread_mutex_unlock(&stepping->lock);
    return busy;
}
