/* Servers on one PostgreSQL database, led step by step.
 *
 * A session is a server: a store handle of its own with a clock of its own, and a thread that runs
 * one batch at a time with the engine's own code. The handle is wrapped in a store that stops
 * at a gate before each verb of a transaction, so that whoever leads decides which session goes on.
 *
 * A verb may have to wait for a lock that another session holds. PostgreSQL is asked whether that
 * is so; such a session counts as blocked, and goes on by itself to its next gate when it is given
 * the lock. */
#ifndef PAWL_TESTS_STEPPING_H
#define PAWL_TESTS_STEPPING_H

#include <libpq-fe.h>
#include <pthread.h>

#include "base/buf.h"
#include "engine/batch.h"
#include "store/store.h"

enum {
    SESSIONS_MAX = 3,
    SESSION_OPS_MAX = 2,
    SETTLE_DEADLINE_MS = 10 * 1000, /* whoever has not come back by then never will */
};

enum gate { GATE_LOAD, GATE_CANDIDATES, GATE_WRITE, GATE_COMMIT, GATE_COUNT };

extern const char *const gate_names[GATE_COUNT];

enum session_state {
    SESSION_IDLE,
    SESSION_RUNNING, /* somewhere between two gates, or blocked */
    SESSION_AT_GATE,
};

struct stepping;
struct stepping_store;

struct session {
    struct stepping *stepping;
    struct stepping_store *store;
    struct batcher batcher;
    int64_t clock; /* ms */
    pthread_t thread;
    char name[16]; /* of its connections */

    /* Of the batch that runs, or ran last. */
    struct arena arena;
    struct op ops[SESSION_OPS_MAX];
    uint32_t op_count;
    enum error_code code;
    struct err err;

    /* Under the lock. */
    enum session_state state;
    enum gate gate; /* where it stands */
    bool blocked;   /* as of the last time that all had settled */
    bool may_go;
    bool closing;
    uint64_t moves; /* grows with every change of state */
};

struct stepping {
    struct session sessions[SESSIONS_MAX];
    uint32_t count;
    uint32_t gates; /* bit for each enum gate at which to stop */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    PGconn *observer;
};

/* Opens `count` sessions on a store that is there. Aborts, saying why, when that fails. */
void stepping_open(struct stepping *stepping, const char *url, uint32_t count, uint32_t gates);

/* Closes; all sessions must be idle. */
void stepping_close(struct stepping *stepping);

/* Lets an idle session run a batch at time `now`: it goes up to its first gate. */
void stepping_begin(struct stepping *stepping, uint32_t session, const struct op *ops,
                    uint32_t count, int64_t now);

/* Lets a session through the gate that it stands at. */
void stepping_go(struct stepping *stepping, uint32_t session);

/* Waits until every session is idle, at a gate, or blocked. False: somebody never came back. */
bool stepping_settle(struct stepping *stepping);

/* The same when all that are left are blocked, each by another: after a second the server sees that
 * too, and fails one of them. False: it does not. */
bool stepping_stir(struct stepping *stepping);

/* The sessions that stand at a gate, as bits. All must have settled. */
uint32_t stepping_ready(struct stepping *stepping);

/* Whether a batch is under way. */
bool stepping_busy(struct stepping *stepping);

#endif
