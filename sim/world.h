/* What the parts of the simulator share; no one else includes this.
 *
 *   world.c         time, who is next, the two phases
 *   server.c        servers: an engine each, run by hand over one store; crashes
 *   faulty_store.c  what a server has of the store: it may be away, slow, or not say what it did
 *   sqlite_world.c  what a world on SQLite has more: a disk
 *   network.c       calls of clients: sent, also as batches, lost, doubled, late, and their log
 *   actors.c        who submits, answers, signals, operates and looks
 *   worker.c        who works on jobs and steps, and who judges steps
 *   ledger.c        the events as they are committed
 *   checker.c       the log of calls against the ledger; check_answers.c what was answered;
 *                   check_store.c the store itself
 *   trace.c         what happened, line by line */
#ifndef PAWL_SIM_WORLD_H
#define PAWL_SIM_WORLD_H

#include "core/event.h"
#include "core/trusted_time.h"
#include "sim.h"
#include "store/clock.h"
#include "virtual_random.h"

enum {
    SERVERS_MAX = 4,
    SERVER_NAME_BYTES = 16,
    MARK_BYTES = 24,
    KEYS_HELD = 4, /* effects that a worker has begun and not committed */
    TOKENS_OLD = 4,
    CLAIMS_MAX = 3, /* that one claim asks for */
    PARCEL_MAX = 3, /* calls in one batch */
    LEASES_MAX = 8, /* that a worker has not come to yet */
};

/* How long jobs of the kind "brief" are kept when they have ended. */
#define BRIEF_KEPT_MS 2000

/* Steps that a resource can hold at once. */
#define RESOURCE_SLOTS 2

#define NEVER INT64_MAX

/* 2026-01-01T00:00:00.000Z, when every world begins. */
#define WORLD_BEGINS INT64_C(1767225600000)

struct world;
struct actor;

enum role {
#define SIM_ROLE(symbol, name, count, act, heals, pause) ROLE_##symbol,
#include "role.def"
#undef SIM_ROLE
    ROLE_COUNT,
};

/* ---- calls ---- */

enum call_outcome {
    CALL_OPEN,
    CALL_SKIPPED, /* never sent: see struct scenario */
    CALL_OK,
    CALL_REFUSED, /* with a code that says that nothing was done */
    CALL_UNKNOWN, /* no answer came, or unavailable: it was carried out or not */
};

/* One call of a client, as it is in its log. `mark` is in the request wherever it can be, and
 * so in the events that come of it. */
struct sim_call {
    uint32_t number; /* from 1 on */
    struct actor *actor;
    enum verb_name verb;
    struct str request;
    struct str key; /* absent: none */
    char mark[MARK_BYTES];
    int64_t started_at;
    int64_t ended_at;
    int64_t ran_at; /* the store's time when a copy of it was last carried out; 0: none was */
    uint32_t copies;
    uint32_t tries;
    bool hangs_up; /* a claim whose caller does not wait for what it asked for */
    bool forged;   /* its token was never given out: it must be refused */
    int64_t expected_version;
    struct str job;   /* id, where it has one */
    struct str token; /* absent: none */
    struct str effect;
    struct str next_effect; /* that follows a commit */
    bool ends;              /* a commit that a wait or the end of the work follows */
    enum call_outcome outcome;
    enum error_code code;
    struct str answer;
    struct str granted[CLAIMS_MAX]; /* the tokens that a claim was answered with */
    uint32_t granted_count;
    struct sim_call *parcel;            /* the batch that it goes with; NULL: it goes alone */
    struct sim_call *parts[PARCEL_MAX]; /* a batch's */
    uint32_t part_count;
    struct sim_call *next;
};

/* A request or a reply on its way. */
struct message {
    int64_t at;
    struct sim_call *call;
    struct server *server; /* a request's; NULL: it is a reply */
    enum error_code code;
    struct str answer;
    struct message *next;
};

/* ---- actors ---- */

/* What a worker holds, as far as it knows. */
struct held_lease {
    struct str token; /* absent: nothing */
    struct str job;
    struct str step;
    bool started;
    bool judging;
    bool cancel_requested;
    bool refused;    /* its end, as things stand */
    uint32_t mended; /* effects that were looked after since */
    struct str open[KEYS_HELD];
    uint32_t open_count;
};

struct actor {
    uint32_t number;
    enum role role;
    struct str name;
    bool absent; /* takes part in healing only */
    struct rng rng;
    struct rng luck; /* what happens to its messages */
    int64_t wake_at;
    int64_t drift; /* thousandths by which its clock is slow */
    uint32_t nth;
    struct sim_call *call; /* open */
    bool gathering;        /* what it says now goes as one batch: */
    struct sim_call *gathered[PARCEL_MAX];
    uint32_t gathered_count;
    struct held_lease held;
    struct held_lease later[LEASES_MAX]; /* which it was given with that, the next one last */
    uint32_t later_count;
    struct str old[TOKENS_OLD]; /* tokens of leases that have ended */
    uint32_t old_count;
    struct str asked;    /* the job that an operator asked to end, or a signaller signalled */
    bool registered;     /* its resource is */
    uint32_t resource;   /* which one it has, */
    uint32_t generation; /* and the how manieth of that name */
    uint32_t idle;       /* claims in a row that found nothing */
};

/* ---- servers ---- */

/* A copy of a request at a server. */
struct delivery {
    struct sim_call *call;
    struct arena arena;
    struct verb_call verb;
    bool gone; /* its caller was, before the last turn of the server */
    bool done;
    struct delivery *next;
};

struct server {
    struct world *world;
    char name[SERVER_NAME_BYTES];
    struct store *store;   /* what it sees of the store */
    struct engine *engine; /* NULL: it is down */
    struct rng rng;
    int64_t turn_at; /* or when it comes back */
    int64_t drift;   /* thousandths by which its steady clock is fast */
    int64_t paused_until;
    int64_t away_until; /* out of reach of the store */
    bool doomed;        /* it has crashed in the middle of a turn */
    struct delivery *deliveries;
};

/* ---- the ledger ---- */

struct recorded_job {
    struct uuid id;
    struct str text; /* of the id */
    int64_t version;
    int64_t created_at;
    int64_t updated_at;
    enum job_status status;
    const struct spec *spec; /* NULL: it was redacted */
    bool planned;            /* its steps are given away, and not itself */
    bool requeued;           /* some time */
    bool asked;              /* by one of its steps, some time */
    bool gone;               /* found to be, at the last check */
};

struct recorded_event {
    struct event event;
    uint32_t job;
};

struct ledger {
    struct store_position position;
    struct recorded_job *jobs;
    uint32_t job_count;
    uint32_t job_cap;
    struct recorded_event *events; /* in the order of their commits */
    uint32_t event_count;
    uint32_t event_cap;
};

struct trace {
    char *at;
    size_t len;
    size_t cap;
    FILE *live;
};

struct world {
    const struct scenario *scenario;
    struct sim_counts *counts;
    struct sim_result *result;
    struct arena arena; /* lives as long as the world */
    struct trace trace;
    uint32_t faults; /* those of this world */
    bool calm;       /* no fault lasts so long that it is a break: leases end to the millisecond */
    bool healing;
    int64_t healed_at;
    bool veiled; /* payloads were erased in the batch that brought them: marks may be missing */
    uint32_t commands_left;

    int64_t now;            /* milliseconds since the world began, that nobody sets */
    int64_t offset;         /* how far the wall clock is from it */
    bool liveness_recorded; /* it is noted which time was trusted */
    int64_t jump_at;        /* when the clock was last set far ahead since then; 0: it was not */
    int64_t jump_clock;     /* and the store's time just before */
    struct store_clock clock;
    struct store *store;    /* itself; on SQLite NULL while its server is down */
    struct disk *disk;      /* SQLite: what it is on, */
    struct disk *next_disk; /* and what the process after the crash that is under way will find */
    struct rng luck;        /* of the disk */
    int64_t read_at;        /* when the ledger was read, */
    int64_t read_offset;    /* and how the clock stood */
    struct rng weather;
    int64_t weather_at;

    struct server servers[SERVERS_MAX];
    uint32_t server_count;
    struct actor actors[ACTORS_MAX];
    uint32_t actor_count;
    struct message *messages; /* by time, then as they were sent */
    struct sim_call *calls;   /* as they were made */
    struct sim_call *last_call;
    uint32_t call_count;
    uint32_t given_cap;
    struct ledger ledger;
};

/* ---- world.c ---- */

/* Something is wrong. The first thing counts. */
void world_fail(struct world *world, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What no simulator can do without: ends the process when it is NULL. */
void *need(void *memory);

int64_t world_store_time(void *world);

/* Whether a fault of this world strikes now, in thousandths; it is counted. */
bool world_strikes(struct world *world, struct rng *rng, enum sim_fault fault, uint32_t per_mille);

/* ---- trace.c ---- */

/* A line, with the time in front. */
void trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trace_finish(struct world *world);

/* ---- server.c ---- */

void server_start(struct server *server);
void server_crash(struct server *server);
void server_close(struct server *server);

/* Its next turn, or its return. */
void server_turn(struct server *server);

/* A copy of a request arrives. */
void server_receive(struct server *server, struct sim_call *call);

/* Asks on the spot, without a network and its faults; the answer is thrown away. */
enum error_code server_ask(struct server *server, enum verb_name verb, const char *request,
                           struct err *err);

/* ---- faulty_store.c ---- */

/* What the server sees of the world's store. */
struct store *faulty_store_new(struct server *server);
void faulty_store_free(struct store *store);

/* ---- sqlite_world.c ---- */

void sqlite_world_begin(struct world *world);
void sqlite_world_end(struct world *world);

/* A process of the server begins, and ends: by a crash, or now and then as it should. */
void server_open_store(struct server *server);
void server_close_store(struct server *server);

/* The ledger is read now and then only, so that the log has something in it; but before anything
 * that is to be read can be deleted. */
void sqlite_world_before_turn(struct world *world);
void sqlite_world_after_turn(struct world *world);

/* ---- network.c ---- */

/* The mark of the next call. */
void next_mark(const struct world *world, char ret[MARK_BYTES]);

/* Makes a call, which is sent with call_send; the request is as for printf. */
struct sim_call *say(struct world *world, struct actor *actor, enum verb_name verb,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
void call_send(struct world *world, struct sim_call *call);

/* Sends what the actor has gathered. */
void parcel_send(struct world *world, struct actor *actor);

/* Whether it may be sent again: it has a key, or needs none. */
bool call_may_repeat(const struct sim_call *call);

/* A server has carried a copy of it out. */
void call_ran(struct world *world, struct sim_call *call);

/* Nobody has answered for too long: sent again, or given up. */
void call_times_out(struct world *world, struct sim_call *call);

void network_reply(struct world *world, struct sim_call *call, enum error_code code,
                   struct str answer);

/* The first message arrives. */
void network_arrive(struct world *world);

/* ---- actors.c, worker.c ---- */

void actors_make(struct world *world);
void actor_turn(struct world *world, struct actor *actor);

/* A call is over. */
void actor_told(struct world *world, struct actor *actor, const struct sim_call *call);

void worker_act(struct world *world, struct actor *actor);
void worker_told(struct world *world, struct actor *actor, const struct sim_call *call);

/* What the answer says at a path; absent: nothing. A string is decoded. */
struct str said(struct world *world, const struct sim_call *call, const char *path);

/* A plan as JSON. */
struct str random_plan(struct world *world, struct rng *rng);

/* ---- ledger.c ---- */

/* Takes in what was committed since the last time. */
void ledger_read(struct world *world);

/* NULL: there never was such a job. */
const struct recorded_job *ledger_find(const struct ledger *ledger, struct uuid id);

/* Whether it is deleted when its time is over: what has failed stays until somebody looks after
 * it. */
bool ledger_is_brief(const struct recorded_job *job);

/* The claim of a worker that can do everything waits although its server has nothing to do, or was
 * told that there is no work. */
void ledger_check_idle(struct world *world, const struct sim_call *claim);
bool ledger_all_ended(const struct world *world);

/* ---- checker.c ---- */

/* `ended`: everything must have. */
void check_world(struct world *world, bool ended);

#endif
