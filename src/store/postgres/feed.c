/* The feed of all events: one entry a batch, numbered when it is first read.
 *
 * Sequences are not in the order of commits: a batch may have taken its `seq` and not be seen yet.
 * So the place of a batch in the feed is another number, which a reader gives to all that are
 * seen and have none, in the order of `seq`, before anything is read. A batch that is seen later
 * comes later, whatever its `seq` is. The events of a job stay in order: who writes a job after
 * another takes a `seq` after that one's commit, and where the later is seen so is the earlier.
 *
 * One reader gives numbers at a time; the others do not wait for it, and read what has a number.
 * Numbers are on the disk before they are read, so that none is ever given to another batch. */
#include "store/postgres/postgres.h"

/* ---- numbers ---- */

enum { NUMBERED_MAX = 5000 }; /* at a time */

#define UNNUMBERED " FROM pawl.batch_rows WHERE seq IS NOT NULL AND number IS NULL"

static const char has_unnumbered[] =
    "SELECT EXISTS (SELECT" UNNUMBERED ") AND NOT pg_is_in_recovery()";
static const char lock_numbers[] = "SELECT pg_try_advisory_xact_lock($1)";
#define GIVE_NUMBERS(place)                                                                        \
    "WITH first AS MATERIALIZED (SELECT session, batch, seq" UNNUMBERED                            \
    " ORDER BY seq LIMIT $1), given AS (UPDATE pawl.batch_rows b SET number = n.number"            \
    " FROM (SELECT session, batch, " place " AS number FROM first) AS n"                           \
    " WHERE b.session = n.session AND b.batch = n.batch RETURNING b.number)"                       \
    " INSERT INTO pawl.feed_end (one, number) SELECT true, max(number) FROM given"                 \
    " HAVING count(*) > 0 ON CONFLICT (one) DO UPDATE SET number = excluded.number"
#define NEXT_NUMBER                                                                                \
    "coalesce((SELECT number FROM pawl.feed_end), 0) + row_number() OVER (ORDER BY seq)"

static enum error_code ask_bool(struct connection *connection, const char *sql,
                                struct params *params, bool *ret, struct err *err)
{
    struct reader reader;
    PGresult *result;
    enum error_code code = connection_ask(connection, sql, params, &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, NULL);
    reader_row(&reader, 0);
    *ret = reader_bool(&reader);
    PQclear(result);
    return ERR_OK;
}

/* In a transaction of its own, on the connection of one that has not begun yet. */
static enum error_code give(struct postgres_txn *txn, struct err *err)
{
    struct connection *connection = txn->connection;
    struct params lock;
    struct params most;
    bool is_locked = false;
    params_init(&lock, &txn->scratch);
    params_add_int8(&lock, LOCK_FEED);
    params_init(&most, &txn->scratch);
    params_add_int8(&most, NUMBERED_MAX);
    enum error_code code = connection_send_quiet(
        connection, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", NULL, err);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, txn->store->settings[STORE_WRITE], NULL, err);
    if (code == ERR_OK)
        code = ask_bool(connection, lock_numbers, &lock, &is_locked, err);
    if (code == ERR_OK && is_locked)
        code = connection_send_quiet(connection, GIVE_NUMBERS(NEXT_NUMBER), &most, err);
    if (code == ERR_OK)
        code = connection_send_quiet(connection, "COMMIT", NULL, err);
    return code == ERR_OK ? connection_sync(connection, err) : code;
}

enum error_code feed_number(struct postgres_txn *txn, struct err *err)
{
    bool some = false;
    if (txn->begun || txn->failed)
        return ERR_OK;
    enum error_code code = ask_bool(txn->connection, has_unnumbered, NULL, &some, err);
    if (code == ERR_OK)
        code = connection_sync(txn->connection, err);
    if (code == ERR_OK && some)
        code = give(txn, err);
    if (code != ERR_OK)
        connection_rollback(txn->connection);
    return code;
}

/* ---- reading ---- */

/* $1 $2: behind this position, $1 or later; $3: how many. A batch may have a thousand jobs, so
 * events are looked up only for the first entries, until there are enough of them. With each event
 * comes how far was looked: jobs may be gone, and a caller that finds less than wanted goes on from
 * there. Batches that an older Pawl wrote may have the same number. */
static const char read_feed[] =
    "WITH page AS MATERIALIZED (SELECT number, jobs, versions, counts, seqs FROM pawl.batch_rows"
    " WHERE number >= $1 AND number IS NOT NULL"
    " ORDER BY number FETCH FIRST least($3, 64) ROWS WITH TIES"
    "), entries AS (SELECT b.number, u.job_id, u.seq, u.n, r.version, r.count,"
    " coalesce(u.seq, u.n * 4294967296 + r.version + r.count - 1) AS ends"
    " FROM page b CROSS JOIN LATERAL unnest(b.jobs, b.versions, b.counts, b.seqs) WITH ORDINALITY"
    " AS u (job_id, version, count, seq, n)"
    " CROSS JOIN LATERAL (SELECT coalesce(u.version, b.versions[1]) AS version,"
    " coalesce(u.count, b.counts[1]) AS count) AS r"
    "), first AS MATERIALIZED (SELECT * FROM (SELECT *,"
    " sum(count) OVER (ORDER BY number, ends) - count AS before FROM entries"
    " WHERE (number, ends) > ($1, $2)) AS s WHERE before < $3"
    "), fed AS (SELECT f.number, coalesce(f.seq, f.n * 4294967296 + e.version) AS minor, e.*"
    " FROM first f"
    " CROSS JOIN LATERAL pawl.events_of(f.job_id, f.version - 1, f.version + f.count - 1) AS e)"
    " SELECT l.number, l.ends, e.number, e.minor, " EVENT_COLUMNS " FROM (SELECT"
    " (SELECT max(number) FROM page) AS number, 9223372036854775807 AS ends"
    " WHERE NOT EXISTS (SELECT FROM first)"
    " UNION ALL (SELECT number, ends FROM first ORDER BY number DESC, ends DESC LIMIT 1)) AS l"
    " LEFT JOIN (SELECT * FROM fed WHERE (number, minor) > ($1, $2)"
    " ORDER BY number, minor LIMIT $3) AS e ON true ORDER BY e.number, e.minor";

struct feeding {
    int64_t number; /* behind this position */
    int64_t minor;
    bool is_over;
    struct store_fed *fed;
    uint32_t count;
    uint32_t limit;
};

static int64_t place_int(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static enum error_code feed_some(struct postgres_txn *txn, struct feeding *feeding,
                                 struct arena *arena, struct err *err)
{
    struct params params;
    struct reader reader;
    PGresult *result;
    params_init(&params, &txn->scratch);
    bool is_next = feeding->minor == INT64_MAX && feeding->number < INT64_MAX;
    params_add_int8(&params, feeding->number + is_next);
    params_add_int8(&params, is_next ? 0 : feeding->minor);
    params_add_int8(&params, feeding->limit - feeding->count);
    enum error_code code = txn_ask(txn, read_feed, &params, &result, err);
    if (code != ERR_OK)
        return code;
    reader_init(&reader, result, arena);
    for (int row = 0; row < PQntuples(result) && code == ERR_OK; row++) {
        struct store_fed *fed = &feeding->fed[feeding->count];
        reader_row(&reader, row);
        feeding->number = reader_int(&reader);
        feeding->minor = reader_int(&reader);
        feeding->is_over = feeding->number == 0;
        fed->position.major = (uint64_t)reader_int(&reader);
        fed->position.minor = (uint64_t)reader_int(&reader);
        if (fed->position.major == 0)
            break;
        reader_event(&reader, &fed->event);
        code = reader_check(&reader, "an event", err);
        feeding->count++;
    }
    PQclear(result);
    return code;
}

enum error_code postgres_feed(struct store_txn *handle, struct store_position after, uint32_t limit,
                              struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                              struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct feeding feeding = {
        .number = place_int(after.major),
        .minor = place_int(after.minor),
        .limit = limit,
    };
    enum error_code code = feed_number(txn, err);
    if (code == ERR_OK)
        code = txn_start(txn, err);
    feeding.fed = arena_zalloc(arena, limit, sizeof *feeding.fed);
    if (code == ERR_OK && feeding.fed == NULL)
        code = out_of_memory(err);
    while (code == ERR_OK && !feeding.is_over && feeding.count < limit)
        code = feed_some(txn, &feeding, arena, err);
    if (code == ERR_OK) {
        *ret = feeding.fed;
        *ret_count = feeding.count;
    }
    return txn_end_verb(txn, code);
}

/* $1: the life that the position is of; 0: of an older Pawl's, hence the first. With it the newest
 * life, whether $1 is one that the store has had, above which place events may have been lost
 * since, the same for all lives, and where nothing can be yet. */
static const char read_feed_state[] =
    "SELECT coalesce(max(i.number), 0), coalesce(bool_or(i.number = $1), false)::int4,"
    " coalesce(min(i.feed_floor) FILTER (WHERE i.number > $1), 9223372036854775807),"
    " coalesce(min(i.feed_floor), 0), coalesce((SELECT number FROM pawl.feed_end), 0)"
    " FROM pawl.incarnations i";

enum error_code postgres_feed_state(struct store_txn *handle, struct store_position after,
                                    struct store_feed_state *ret, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = feed_number(txn, err);
    if (code == ERR_OK)
        code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_int8(&params, after.era > INT64_MAX ? INT64_MAX : (int64_t)after.era);
    if (code == ERR_OK)
        code = txn_ask(txn, read_feed_state, &params, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    reader_init(&reader, result, &txn->scratch);
    reader_row(&reader, 0);
    uint64_t newest = (uint64_t)reader_int(&reader);
    bool is_known = reader_int(&reader) != 0 || after.era == 0;
    uint64_t floor = (uint64_t)reader_int(&reader);
    uint64_t lowest = (uint64_t)reader_int(&reader);
    uint64_t end = (uint64_t)reader_int(&reader);
    code = reader_check(&reader, "the lives of the store", err);
    PQclear(result);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    /* Of a life that the store never had, or of a time that has not come. */
    bool is_foreign = after.major > end || (!is_known && floor == INT64_MAX);
    if (is_foreign)
        floor = lowest == INT64_MAX ? 0 : lowest;
    *ret = (struct store_feed_state){
        .era = newest,
        .is_reset = after.major > floor,
        .from = {.major = floor, .minor = floor == 0 ? 0 : INT64_MAX, .era = newest},
    };
    return ERR_OK;
}
