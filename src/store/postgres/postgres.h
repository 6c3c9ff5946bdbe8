/* What the files of the PostgreSQL store share: the handle with its pool, the transaction, and the
 * verbs. Private to this directory. */
#ifndef PAWL_STORE_POSTGRES_POSTGRES_H
#define PAWL_STORE_POSTGRES_POSTGRES_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/lane_book.h"
#include "store/postgres/connection.h"
#include "store/postgres/hosts.h"
#include "store/postgres/marks.h"
#include "store/postgres/origin.h"
#include "store/postgres/params.h"
#include "store/postgres/reader.h"
#include "store/postgres/watch.h"
#include "store/schema.h"
#include "store/store_driver.h"

enum {
    CONNECTIONS_DEFAULT = 4,
    CONNECTIONS_MAX = 1000,
    TIMEOUT_MS_DEFAULT = 30 * 1000,
    CAREFUL_MS = 60 * 1000,
};

/* Numbers of advisory locks that are not made from keys: "pawl" and a digit. */
#define LOCK_MIGRATION INT64_C(0x7061776c00000001)
#define LOCK_LANES INT64_C(0x7061776c00000002)
#define LOCK_NAMES INT64_C(0x7061776c00000003)
#define LOCK_FEED INT64_C(0x7061776c00000004)
#define LOCK_INCARNATION INT64_C(0x7061776c00000010)

/* The store's time as SQL, in milliseconds: what the clock says, or more while it has been set back
 * (clock.c). */
#define SQL_SLOW(wall) "c.anchor + least((" wall " - c.wall) / 2, 5000)"
#define SQL_NOW                                                                                    \
    "(SELECT greatest(w.wall, " SQL_SLOW(                                                          \
        "w.wall") ")"                                                                              \
                  " FROM (SELECT pawl.wall_ms() AS wall) AS w LEFT JOIN pawl.clock c ON c.one)"

struct postgres {
    struct store base;
    char *url; /* with its password: never shown */
    int64_t timeout_ms;
    char settings[2][864];      /* the statement that transactions begin with, by their mode; */
    char session_settings[864]; /* or the one that a session for writing begins with */

    pthread_mutex_t mutex; /* over the pool, the lane book and the origin */
    pthread_cond_t freed;
    struct connection *connections; /* the pool */
    uint32_t *idle;                 /* a stack of indexes, the last used on top */
    uint32_t idle_count;
    uint32_t connection_count;
    struct lane_book lanes;
    uint64_t lanes_era;          /* of the book; under the mutex */
    _Atomic uint32_t lanes_many; /* with more lanes than this empty ones are deleted */

    _Atomic int64_t clock_seen;  /* the latest time that was told */
    atomic_bool clock_is_behind; /* an earlier one was told after it */

    /* Where the handle reads and writes: see origin.h. base.generation counts the origins. */
    struct origin origin;       /* under the mutex */
    struct hosts hosts;         /* none: the URL names one */
    _Atomic uint32_t preferred; /* the host that is tried first; HOSTS_MAX: as libpq does */
    uint64_t refused;           /* connections, since they lead elsewhere; under the mutex */
    char refusal[sizeof((struct store_origin *)0)->refusal]; /* why the last one was; under the
                                                                mutex */
    bool patrols; /* the thread runs that looks at all hosts */
    bool closing; /* it is to end; under the mutex */
    pthread_cond_t closed;
    pthread_t patrol;

    struct marks marks;
    struct watch watch;
    atomic_bool is_nameless;       /* names of statements were forgotten: none are used any more */
    _Atomic int64_t entries_swept; /* entries of the feed up to this number were looked at */
    _Atomic uint32_t lanes_known;  /* up to this number; all as long as nobody searches */
    _Atomic int64_t careful_until; /* something was found where nothing should be: see places.c */
};

/* A change of the marks that is due when the transaction ends. */
struct mark_change {
    uint32_t line;
    struct mark_place place;
};

struct mark_changes {
    struct mark_change *at;
    uint32_t count;
    uint32_t cap;
};

/* What is known of the jobs that the transaction has locked. */
struct job_notes {
    struct job_note *at;
    uint32_t count;
    uint32_t cap;
};

/* What a batch is in the feed: the jobs whose events it has, the version of the first of each, and
 * how many. */
struct feed_entry {
    struct array jobs;
    struct array versions;
    struct array counts;
};

struct postgres_txn {
    struct store_txn base;
    struct postgres *store;
    struct connection *connection;
    struct arena scratch; /* for building statements: cleared with each verb */
    struct arena notes;   /* for what must be known at the end */
    bool begun;           /* BEGIN is queued, or more */
    bool failed;
    bool is_generic;   /* the session's settings hold: statements are planned once */
    bool wrote;        /* there is something to commit */
    bool has_requests; /* load has found records of requests, or has not looked */
    bool has_now;
    int64_t now;
    struct mark_changes puts;  /* for when it is committed */
    struct mark_changes takes; /* for when it is not */
    struct job_notes jobs;
    struct feed_entry entry; /* set by write; empty: no event */
    bool has_entry;
    bool only_beats;          /* nothing was written but heartbeats */
    struct store_lane *lanes; /* as load has found them: all above `lanes_after` */
    uint32_t lane_count;
    uint32_t lanes_after;
    bool has_lanes;
    uint64_t lanes_era;
    struct store_lane *new_lanes;
    uint32_t new_lane_count;
    struct finder *finder; /* of a search under way, or one whose rows came with the load */
};

/* ---- the pool ---- */

/* A connection that works, or unavailable if none is ready within the store's timeout. */
enum error_code pool_take(struct postgres *store, struct connection **ret, struct err *err);
void pool_give(struct postgres *store, struct connection *connection);

/* ---- where connections lead ---- */

/* Opens a connection that leads where the handle is, or moves the handle on to where it leads.
 * unavailable if none is ready in time, or at once when it is refused. */
enum error_code origin_open(struct postgres *store, struct connection *connection, int64_t deadline,
                            struct err *err);

/* Asks an open connection where it leads, and moves the handle there if that is allowed. */
enum error_code origin_settle(struct postgres *store, struct connection *connection,
                              enum origin_verdict *ret, struct err *err);

/* Only asks. */
enum error_code origin_look(struct connection *connection, struct origin *ret, struct err *err);

/* Leaves a note in the store behind the connection that its primary has been superseded. */
enum error_code origin_note(struct connection *connection, int64_t timeline, struct err *err);

/* What a transaction has read about where it is. unavailable: not where its connection was. */
enum error_code origin_check(struct postgres_txn *txn, struct str mark, int64_t timeline,
                             int64_t flushed, struct err *err);

/* Starts and stops the thread that looks at all hosts now and then, where there are several. */
void patrol_start(struct postgres *store);
void patrol_stop(struct postgres *store);

/* ---- transactions ---- */

/* Writes the statement that sets up a transaction, or all of a session that no pooler gives to
 * others. We know better than statistics, which may be as old as the last quiet hour,
 * that everything is to be found by an index. What writers send is planned once, whatever the size
 * of the batch; what readers send is planned for what they ask. A lock is waited for almost as long
 * as the client's timeout, and a client that fell silent loses its locks. */
void txn_settings(char *ret, size_t size, enum store_mode mode, bool is_local, int64_t timeout_ms);

/* Acknowledged means durable, whatever the database does otherwise. */
#define TXN_SYNCHRONOUS                                                                            \
    "SELECT set_config('synchronous_commit',"                                                      \
    " coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)"

/* Queues BEGIN, unless that was done. Every verb starts with this. What a transaction that only
 * reads sends is planned as it comes, since it asks for this and that. */
enum error_code txn_start(struct postgres_txn *txn, struct err *err);

/* The same for verbs whose statements are planned once whoever sends them. */
enum error_code txn_start_planned(struct postgres_txn *txn, struct err *err);

/* Sends what was queued so that results can be read. */
enum error_code txn_flush(struct postgres_txn *txn, struct err *err);

/* Notes a failure: from now on only rollback is left. Returns `code`. */
enum error_code txn_end_verb(struct postgres_txn *txn, enum error_code code);

/* One statement, one result. */
enum error_code txn_ask(struct postgres_txn *txn, const char *sql, struct params *params,
                        PGresult **ret, struct err *err);

/* One statement, one number. */
enum error_code txn_ask_int(struct postgres_txn *txn, const char *sql, struct params *params,
                            int64_t *ret, struct err *err);

/* What a statement finds, made into an array of things of `size` bytes. */
struct rows {
    size_t size;
    enum error_code (*read)(struct reader *reader, const struct rows *rows, void *ret,
                            struct err *err);
    const void *arg; /* for `read` */
    void *at;        /* the array, and its length: set by txn_rows */
    uint32_t count;
};

/* Texts and the array are in `arena`. */
enum error_code txn_rows(struct postgres_txn *txn, const char *sql, struct params *params,
                         struct rows *rows, struct arena *arena, struct err *err);

/* The time of the transaction: asks for it when load has not brought it. */
enum error_code txn_now(struct postgres_txn *txn, int64_t *ret, struct err *err);

/* For later: something was put at or taken from a place. */
enum error_code txn_note(struct postgres_txn *txn, struct mark_changes *changes, uint32_t line,
                         struct mark_place place, struct err *err);

/* Whether a row was lately found where nobody had put one: statements must be ready for more. */
bool txn_is_careful(const struct postgres_txn *txn);

/* Notes what is known of a job that is locked. */
enum error_code txn_note_job(struct postgres_txn *txn, struct job_note note, struct err *err);

/* What is known of it; NULL: nothing. Only after txn_sort_jobs. */
const struct job_note *txn_job(const struct postgres_txn *txn, struct uuid job);
void txn_sort_jobs(struct postgres_txn *txn);

/* The injected clock, or NULL for the database's: the parameter of many statements. */
void params_add_clock(struct params *params, const struct postgres *store);

static inline enum error_code out_of_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- the clock ---- */

/* Remembers a time that the database told, and returns it, or the latest one if that was later. */
int64_t clock_tell(struct postgres *store, int64_t now);

/* When an earlier time was told than one before, has all servers go on from the later one. Not
 * within a transaction. Should it fail it is done another time. */
void clock_settle(struct postgres *store, struct connection *connection);

/* Goes on from the time that was noted by those who had the store open before. That it cannot, for
 * one on a standby, is no error. */
void clock_resume(struct postgres *store, struct connection *connection);

/* ---- lanes ---- */

/* The numbers of lanes by their keys; those that are new get one, if `create`, else 0. */
enum error_code lanes_number(struct postgres_txn *txn, const struct str *keys, uint32_t count,
                             bool create, uint32_t *ret, struct err *err);

/* Says in which era the transaction is, by the store's count; when that is a new one the book
 * begins anew. Gives the era by the handle's count: an origin has eras of its own. */
uint64_t lanes_begin_era(struct postgres_txn *txn, uint64_t era);

/* Remembers the numbers of lanes that are committed, unless their era is over. */
void lanes_learn(struct postgres *store, uint64_t era, const struct store_lane *lanes,
                 uint32_t count);

/* Deletes the empty lanes, if there are many and nobody is in the way. */
enum error_code lanes_sweep(struct postgres *store, struct err *err);

/* ---- searches that come with a load ---- */

/* Queues the fetch of the lanes that these searches will look into. */
enum error_code candidates_ahead(struct postgres_txn *txn, const struct store_search *searches,
                                 uint32_t count, struct err *err);

/* Takes its rows, for postgres_candidates. `start`: when the flight was sent, monotonic. */
enum error_code candidates_take_ahead(struct postgres_txn *txn, int64_t start, struct err *err);

/* The transaction ends: no search will come. */
void candidates_forget(struct postgres_txn *txn);

/* ---- write, in several files ---- */

/* The events that a job gains, packed. */
struct packing {
    struct str record; /* without the first event of a new job */
    struct str hashes;
    const struct event *first; /* NULL: none */
    uint32_t count;
};

/* Where a job or step of a write stood and stands now; and, of a job, what is written of it. */
struct spot {
    struct uuid job;
    int64_t step; /* -1: the job itself */
    const struct job *header;
    const struct step *part; /* NULL: the job itself */
    const struct store_job_write *write;
    struct packing packing;
    struct job_row row;  /* unless it stays as it is */
    bool may_have_state; /* there is a row in state_rows, or nobody knows */
    const struct schedule_entry *was;
    const struct schedule_entry *now;
    uint32_t was_lane; /* 0: none */
    uint32_t now_lane;
};

struct spots {
    struct spot *at;
    uint32_t count;
};

/* ---- statements that take an array for each column ----
 *
 * Columns, types and values of one are one list: FIELDS(F, X) is F(number of the parameter, column,
 * SQL type, kind of element, value) for the first and X(...) for the others. The arrays are taken
 * apart in the list of a SELECT: as a table, unnest would copy every column once more. */
#define FIRST_NAME(n, name, ...) #name
#define FIELD_NAME(n, name, ...) ", " #name
#define FIRST_ROW(n, name, type, ...) "unnest($" #n "::" #type "[]) AS " #name
#define FIELD_ROW(n, name, type, ...) ", unnest($" #n "::" #type "[]) AS " #name
#define FIELD_TYPE(n, name, type, ...) PARAM_OF_##type,
#define FIELD_ADD(n, name, type, kind, ...) array_add_##kind(&fields_at[n - 1], __VA_ARGS__);
#define FIELD_NAMES(fields) fields(FIRST_NAME, FIELD_NAME)
#define FIELD_ROWS(fields) "(SELECT " fields(FIRST_ROW, FIELD_ROW) ") AS u"
/* The same with the place of what each of them names, looked up one by one: a join with a table
 * that had few rows when it was planned would scan that table for ever after. `p` is the table. */
#define PLACED_ROWS(fields, table, key)                                                            \
    "(SELECT u.*, p.place FROM " FIELD_ROWS(                                                       \
        fields) " CROSS JOIN LATERAL (SELECT p.ctid AS place FROM pawl." table " AS p WHERE " key  \
                " LIMIT 1) AS p) AS u"
/* Deletes what each of some rows names, in the same way. */
#define DELETE_PLACED(table, key, rows)                                                            \
    "DELETE FROM pawl." table " WHERE ctid = ANY (ARRAY(SELECT (SELECT p.ctid FROM pawl." table    \
    " AS p WHERE " key ") FROM " rows "))"
#define INSERT_FIELDS(table, fields)                                                               \
    "INSERT INTO pawl." table " (" FIELD_NAMES(fields) ") SELECT * FROM " FIELD_ROWS(fields)

struct columns {
    struct array at[20];
    uint32_t count;
};

#define COLUMNS_INIT(columns, arena, fields)                                                       \
    do {                                                                                           \
        static const enum param_type types[] = {fields(FIELD_TYPE, FIELD_TYPE)};                   \
        columns_init(columns, arena, types, sizeof types / sizeof types[0]);                       \
    } while (0)
void columns_init(struct columns *columns, struct arena *arena, const enum param_type *types,
                  size_t count);

/* Adds a row, of what the list names as values. */
#define COLUMNS_ADD(columns, fields)                                                               \
    do {                                                                                           \
        struct array *fields_at = (columns)->at;                                                   \
        fields(FIELD_ADD, FIELD_ADD)                                                               \
    } while (0)

void params_add_columns(struct params *params, struct columns *columns, struct arena *arena);

/* Send nothing when there is nothing in the columns. The result of the second is to be taken. */
enum error_code send_columns(struct postgres_txn *txn, const char *sql, struct columns *columns,
                             struct err *err);
enum error_code ask_columns(struct postgres_txn *txn, const char *sql, struct columns *columns,
                            struct err *err);

enum error_code write_places(struct postgres_txn *txn, const struct spots *spots, struct err *err);
enum error_code write_closings(struct postgres_txn *txn, const struct store_write *write,
                               struct err *err);
enum error_code write_parts(struct postgres_txn *txn, const struct store_write *write,
                            const struct spots *spots, struct err *err);
enum error_code write_settings(struct postgres_txn *txn, const struct store_write *write,
                               struct err *err);

enum error_code write_tokens(struct postgres_txn *txn, const struct store_write *write,
                             struct err *err);

/* The 32 bytes that stand for a request's scope and key. */
void request_id(struct str scope, struct str key, uint8_t ret[HASH_LEN]);

/* ---- the schema ---- */

enum error_code postgres_migrate(struct postgres *store, struct connection *connection,
                                 const struct migrations *migrations, struct err *err);

/* ---- the feed ---- */

/* Gives numbers to the batches that have none, if nobody else is at it, before the transaction has
 * seen anything. */
enum error_code feed_number(struct postgres_txn *txn, struct err *err);

/* ---- verbs ---- */

enum error_code postgres_begin(struct store *handle, enum store_mode mode, struct store_txn **ret,
                               struct err *err);
enum error_code postgres_load(struct store_txn *handle, struct store_load *load,
                              struct arena *arena, struct err *err);
enum error_code postgres_load_parts(struct store_txn *handle, struct store_parts *parts,
                                    uint32_t count, struct arena *arena, struct err *err);
enum error_code postgres_lanes(struct store_txn *handle, uint32_t after, struct arena *arena,
                               struct store_lane **ret, uint32_t *ret_count, struct err *err);
enum error_code postgres_candidates(struct store_txn *handle, struct store_search *searches,
                                    uint32_t count, struct arena *arena, struct err *err);
enum error_code postgres_promote(struct store_txn *handle, uint32_t limit, uint32_t *ret_count,
                                 struct err *err);
enum error_code postgres_outbox_drain(struct store_txn *handle,
                                      const struct store_outbox_request *wanted,
                                      struct arena *arena, struct store_submission **ret,
                                      uint32_t *ret_count, struct err *err);
enum error_code postgres_write(struct store_txn *handle, const struct store_write *write,
                               struct err *err);
enum error_code postgres_commit(struct store_txn *handle, enum store_outcome *outcome,
                                struct err *err);
void postgres_rollback(struct store_txn *handle);
enum error_code postgres_due(struct store *handle, uint32_t limit, struct arena *arena,
                             struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                             int64_t *ret_next, struct err *err);
enum error_code postgres_list(struct store_txn *handle, const struct store_filter *filter,
                              struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                              struct err *err);
enum error_code postgres_events(struct store_txn *handle, const struct store_stream *stream,
                                struct arena *arena, struct event **ret, uint32_t *ret_count,
                                struct err *err);
enum error_code postgres_feed(struct store_txn *handle, struct store_position after, uint32_t limit,
                              struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                              struct err *err);
enum error_code postgres_feed_state(struct store_txn *handle, struct store_position after,
                                    struct store_feed_state *ret, struct err *err);
enum error_code postgres_leases_on(struct store_txn *handle, struct str resource_id,
                                   struct arena *arena, struct store_lease **ret,
                                   uint32_t *ret_count, struct err *err);
enum error_code postgres_queues(struct store_txn *handle, struct arena *arena,
                                struct store_queue_count **ret, uint32_t *ret_count,
                                struct err *err);
enum error_code postgres_workers(struct store_txn *handle, const struct names *queues,
                                 struct arena *arena, struct store_worker **ret,
                                 uint32_t *ret_count, struct err *err);
enum error_code postgres_registrations(struct store_txn *handle, struct arena *arena,
                                       struct worker **ret, uint32_t *ret_count, struct err *err);
enum error_code postgres_registration_count(struct store_txn *handle, int64_t *ret,
                                            struct err *err);
enum error_code postgres_step_counts(struct store_txn *handle, int64_t ret[STEP_STATE_COUNT],
                                     struct err *err);
enum error_code postgres_resources(struct store_txn *handle, struct arena *arena,
                                   struct resource **ret, uint32_t *ret_count, struct err *err);
enum error_code postgres_tokens(struct store_txn *handle, struct store_tokens *tokens,
                                struct arena *arena, struct err *err);
enum error_code postgres_record_liveness(struct store *handle, struct store_liveness *liveness,
                                         struct err *err);
enum error_code postgres_strays(struct store *handle, struct arena *arena, struct store_stray **ret,
                                uint32_t *ret_count, struct err *err);
enum error_code postgres_mend(struct store *handle, uint32_t lane, struct str key, struct err *err);
enum error_code postgres_sweep(struct store *handle, int64_t now, uint32_t limit,
                               uint32_t *ret_count, struct err *err);

#endif
