/* Lanes and their numbers. Numbers are given out behind a lock that is held up to the commit, so
 * that they are committed in order: anyone who has read all up to some number misses none that is
 * smaller. It is the last lock that a batch waits for, so no two batches can wait for each other
 * over it; and new lanes are rare.
 *
 * The book of numbers belongs to one era of one origin (origin.h): a transaction of another one
 * asks the database.
 *
 * Lanes are deleted with the table locked against everybody. Each batch reads it when it loads
 * and so holds it to its end: while a batch knows numbers no lane goes, and the next batch of the
 * same process reads that another era has begun. */
#include "base/hash.h"
#include "store/postgres/postgres.h"

enum { ERA_BITS = 40 };

/* Those that load has brought. */
static void give_known(const struct postgres_txn *txn, uint32_t after, struct store_lane **ret,
                       uint32_t *ret_count)
{
    uint32_t skipped = 0;
    while (skipped < txn->lane_count && txn->lanes[skipped].number <= after)
        skipped++;
    *ret = txn->lanes + skipped;
    *ret_count = txn->lane_count - skipped;
}

/* The caller knows these and all before them: loads bring what comes after. */
static void note_known(struct postgres *store, uint32_t after, const struct store_lane *lanes,
                       uint32_t count)
{
    store->lanes_known = count > 0 ? lanes[count - 1].number : after;
}

static enum error_code read_lane(struct reader *reader, const struct rows *rows, void *ret,
                                 struct err *err)
{
    struct store_lane *lane = ret;
    (void)rows;
    lane->number = (uint32_t)reader_int(reader);
    lane->key = reader_str(reader);
    reader->damaged = reader->damaged || lane->number == 0;
    return reader_check(reader, "a lane", err);
}

enum error_code postgres_lanes(struct store_txn *handle, uint32_t after, struct arena *arena,
                               struct store_lane **ret, uint32_t *ret_count, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    if (txn->has_lanes && !txn->failed && after >= txn->lanes_after) {
        give_known(txn, after, ret, ret_count);
        note_known(txn->store, after, *ret, *ret_count);
        return ERR_OK;
    }
    struct rows rows = {.size = sizeof **ret, .read = read_lane};
    enum error_code code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_int8(&params, after);
    if (code == ERR_OK)
        code = txn_rows(txn, "SELECT number, key FROM pawl.lanes WHERE number > $1 ORDER BY number",
                        &params, &rows, arena, err);
    if (code == ERR_OK) {
        note_known(txn->store, after, rows.at, rows.count);
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return txn_end_verb(txn, code);
}

/* ---- numbers for a write ---- */

static const char find_lanes[] = "SELECT l.number, l.key FROM unnest($1::bytea[]) AS k (hash)"
                                 " JOIN pawl.lanes l ON l.hash = k.hash";

static const char lock_lanes[] = "SELECT pg_advisory_xact_lock($1)::text";

/* In the order in which they came. */
static const char add_lanes[] =
    "INSERT INTO pawl.lanes (number, hash, key)"
    " SELECT coalesce(greatest((SELECT highest FROM pawl.lanes_given_back),"
    " (SELECT max(number) FROM pawl.lanes)), 0) + row_number() OVER (ORDER BY k.n), k.hash, k.key"
    " FROM unnest($1::bytea[], $2::text[]) WITH ORDINALITY AS k (hash, key, n)"
    " WHERE NOT EXISTS (SELECT FROM pawl.lanes l WHERE l.hash = k.hash)"
    " AND (SELECT count(*) FROM pawl.lanes) + cardinality($1) <= $3";

/* Keys as a statement wants them. */
static void hash_keys(struct params *params, const struct str *keys, uint32_t count)
{
    struct array hashes;
    array_init(&hashes, params->arena, PARAM_BYTEA, count);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t hash[HASH_LEN];
        hash_sha256(&keys[i], 1, hash);
        array_add_bytes(&hashes, hash, sizeof hash);
    }
    params_add_array(params, &hashes);
}

uint64_t lanes_begin_era(struct postgres_txn *txn, uint64_t era)
{
    struct postgres *store = txn->store;
    uint64_t generation = txn->connection->generation;
    txn->lanes_era = generation << ERA_BITS | era;
    (void)pthread_mutex_lock(&store->mutex);
    if (txn->lanes_era > store->lanes_era) {
        lane_book_clear(&store->lanes);
        store->lanes_era = txn->lanes_era;
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return txn->lanes_era;
}

void lanes_learn(struct postgres *store, uint64_t era, const struct store_lane *lanes,
                 uint32_t count)
{
    struct err ignored;
    (void)pthread_mutex_lock(&store->mutex);
    for (uint32_t i = 0; i < count && era == store->lanes_era; i++)
        if (lane_book_find(&store->lanes, lanes[i].key) == 0)
            /* What cannot be remembered is asked for again. */
            (void)lane_book_add(&store->lanes, lanes[i].number, lanes[i].key, &ignored);
    (void)pthread_mutex_unlock(&store->mutex);
}

struct numbering {
    struct postgres_txn *txn;
    const struct str *keys;
    uint32_t count;
    uint32_t *numbers;   /* by key; 0: not known */
    struct str *missing; /* each once */
    uint32_t missing_count;
};

/* Collects the keys that have no number yet. */
static enum error_code collect_missing(struct numbering *n, struct err *err)
{
    struct map seen;
    enum error_code code = ERR_OK;
    n->missing_count = 0;
    map_init(&seen, &n->txn->scratch, 16, n->txn->store->base.options.seed);
    for (uint32_t i = 0; i < n->count && code == ERR_OK; i++) {
        uint32_t found = MAP_NONE;
        if (n->numbers[i] == 0)
            code = map_put(&seen, n->keys[i], n->missing_count, &found);
        if (n->numbers[i] == 0 && code == ERR_OK && found == MAP_NONE)
            n->missing[n->missing_count++] = n->keys[i];
    }
    return code == ERR_OK ? code : out_of_memory(err);
}

/* Looks up all keys in the book, unless its numbers are of another era or another origin. */
static enum error_code look_up(struct numbering *n, struct err *err)
{
    struct postgres *store = n->txn->store;
    (void)pthread_mutex_lock(&store->mutex);
    bool is_ours = n->txn->lanes_era == store->lanes_era;
    for (uint32_t i = 0; i < n->count; i++)
        n->numbers[i] = is_ours ? lane_book_find(&store->lanes, n->keys[i]) : 0;
    (void)pthread_mutex_unlock(&store->mutex);
    return collect_missing(n, err);
}

/* Numbers those that are among `lanes`. */
static enum error_code number_from(struct numbering *n, const struct store_lane *lanes,
                                   uint32_t count, struct err *err)
{
    struct map index;
    uint32_t found;
    map_init(&index, &n->txn->scratch, count, n->txn->store->base.options.seed);
    for (uint32_t i = 0; i < count; i++)
        if (map_put(&index, lanes[i].key, i, &found) != ERR_OK)
            return out_of_memory(err);
    for (uint32_t i = 0; i < n->count; i++) {
        found = n->numbers[i] == 0 ? map_get(&index, n->keys[i]) : MAP_NONE;
        if (found != MAP_NONE)
            n->numbers[i] = lanes[found].number;
    }
    return ERR_OK;
}

/* Lanes that others have numbered and this process has not heard of. */
static enum error_code ask_missing(struct numbering *n, struct err *err)
{
    struct postgres_txn *txn = n->txn;
    struct params params;
    struct rows rows = {.size = sizeof(struct store_lane), .read = read_lane};
    params_init(&params, &txn->scratch);
    hash_keys(&params, n->missing, n->missing_count);
    enum error_code code = txn_rows(txn, find_lanes, &params, &rows, &txn->scratch, err);
    if (code != ERR_OK)
        return code;
    lanes_learn(txn->store, txn->lanes_era, rows.at, rows.count);
    code = number_from(n, rows.at, rows.count, err);
    return code == ERR_OK ? collect_missing(n, err) : code;
}

/* Gives out numbers. The book hears of them when they are committed. */
static enum error_code add_missing(struct numbering *n, struct err *err)
{
    struct postgres_txn *txn = n->txn;
    struct params lock;
    struct params add;
    struct params find;
    struct array texts;
    struct rows rows = {.size = sizeof(struct store_lane), .read = read_lane};
    params_init(&lock, &txn->scratch);
    params_add_int8(&lock, LOCK_LANES);
    params_init(&find, &txn->scratch);
    hash_keys(&find, n->missing, n->missing_count);
    params_init(&add, &txn->scratch);
    hash_keys(&add, n->missing, n->missing_count);
    array_init(&texts, &txn->scratch, PARAM_TEXT, n->missing_count);
    for (uint32_t i = 0; i < n->missing_count; i++)
        array_add_str(&texts, n->missing[i]);
    params_add_array(&add, &texts);
    params_add_int8(&add, STORE_LANES_MAX);
    enum error_code code = connection_send_quiet(txn->connection, lock_lanes, &lock, err);
    if (code == ERR_OK)
        code = connection_send_quiet(txn->connection, add_lanes, &add, err);
    if (code == ERR_OK)
        code = txn_rows(txn, find_lanes, &find, &rows, &txn->notes, err);
    if (code == ERR_OK) {
        txn->new_lanes = rows.at;
        txn->new_lane_count = rows.count;
    }
    return code;
}

enum error_code lanes_number(struct postgres_txn *txn, const struct str *keys, uint32_t count,
                             bool create, uint32_t *ret, struct err *err)
{
    struct numbering n = {.txn = txn, .keys = keys, .count = count};
    n.numbers = arena_alloc(&txn->scratch, (count + (size_t)1) * sizeof *n.numbers);
    n.missing = arena_alloc(&txn->scratch, (count + (size_t)1) * sizeof *n.missing);
    enum error_code code =
        n.numbers == NULL || n.missing == NULL ? out_of_memory(err) : look_up(&n, err);
    if (code == ERR_OK && n.missing_count > 0)
        code = ask_missing(&n, err);
    if (code == ERR_OK && n.missing_count > 0 && create) {
        code = add_missing(&n, err);
        if (code == ERR_OK)
            code = number_from(&n, txn->new_lanes, txn->new_lane_count, err);
    }
    if (code == ERR_OK)
        memcpy(ret, n.numbers, count * sizeof *ret);
    return code;
}

/* ---- sweeping empty lanes ---- */

/* All transactions queue behind one that waits for the table, and behind the one that has it. What
 * transactions set for short statements would have all timers read once for each lane. */
static const char be_brief[] = "SELECT set_config('lock_timeout', '500ms', true),"
                               " set_config('statement_timeout', '2s', true),"
                               " set_config('enable_hashjoin', 'on', true)";

/* Deletes empty lanes, begins an era, and says how many are left. What moves from timers to ready
 * without the lock is seen in one of them. */
static const char sweep_lanes[] =
    "WITH used AS MATERIALIZED (SELECT DISTINCT lane FROM pawl.timers WHERE lane IS NOT NULL"
    "), gone AS (DELETE FROM pawl.lanes l"
    " WHERE NOT EXISTS (SELECT FROM pawl.ready r WHERE r.lane = l.number)"
    " AND NOT EXISTS (SELECT FROM used u WHERE u.lane = l.number) RETURNING 1"
    "), era AS (INSERT INTO pawl.lanes_given_back AS g (one, era, highest)"
    " SELECT true, 1, coalesce(max(number), 0) FROM pawl.lanes"
    " ON CONFLICT (one) DO UPDATE SET era = g.era + 1,"
    " highest = greatest(g.highest, excluded.highest))"
    " SELECT (SELECT count(*) FROM pawl.lanes) - (SELECT count(*) FROM gone)";

/* With more than `many` lanes; `ret_left` is untouched when there are fewer. */
static enum error_code sweep_in(struct postgres_txn *txn, uint32_t many, int64_t *ret_left,
                                struct err *err)
{
    int64_t count = 0;
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_ask_int(txn, "SELECT count(*) FROM pawl.lanes", NULL, &count, err);
    if (code != ERR_OK || count <= many)
        return code;
    struct params none;
    params_init(&none, &txn->scratch);
    code = connection_send_quiet(txn->connection, be_brief, &none, err);
    if (code == ERR_OK)
        code = connection_send_quiet(txn->connection,
                                     "LOCK TABLE pawl.lanes IN ACCESS EXCLUSIVE MODE", &none, err);
    return code == ERR_OK ? txn_ask_int(txn, sweep_lanes, NULL, ret_left, err) : code;
}

enum error_code lanes_sweep(struct postgres *store, struct err *err)
{
    struct store_txn *base;
    enum store_outcome outcome;
    int64_t left = -1;
    enum error_code code = postgres_begin(&store->base, STORE_WRITE, &base, err);
    if (code != ERR_OK)
        return code;
    code = sweep_in((struct postgres_txn *)base, store->lanes_many, &left, err);
    if (code != ERR_OK || left < 0) {
        postgres_rollback(base);
        if (code != ERR_UNAVAILABLE)
            return code;
        /* Somebody has the table, it takes too long, or PostgreSQL is away, which others will say:
         * when there are some more of them. */
        store->lanes_many = store_lanes_many(store->lanes_many / 40 * 21);
        return ERR_OK;
    }
    code = postgres_commit(base, &outcome, err);
    if (code == ERR_OK)
        store->lanes_many = store_lanes_many((uint32_t)left);
    return code;
}

/* ---- work in lanes that do not exist ---- */

/* Lanes of `ready` are found one after the other in its index, whatever is in them. */
static const char find_strays[] =
    "WITH RECURSIVE used (lane) AS (SELECT min(lane) FROM pawl.ready UNION ALL"
    " SELECT (SELECT min(r.lane) FROM pawl.ready r WHERE r.lane > u.lane) FROM used u"
    " WHERE u.lane IS NOT NULL), gone AS (SELECT lane FROM used WHERE lane IS NOT NULL"
    " UNION SELECT lane FROM pawl.timers WHERE lane IS NOT NULL"
    " EXCEPT SELECT number FROM pawl.lanes)"
    " SELECT DISTINCT ON (w.lane) w.lane, count(*) OVER (PARTITION BY w.lane), w.job_id, w.step"
    " FROM (SELECT lane, job_id, step FROM pawl.ready WHERE lane IN (SELECT lane FROM gone)"
    " UNION ALL SELECT lane, job_id, step FROM pawl.timers WHERE lane IN (SELECT lane FROM gone))"
    " AS w ORDER BY w.lane";

static enum error_code read_stray(struct reader *reader, const struct rows *rows, void *ret,
                                  struct err *err)
{
    struct store_stray *stray = ret;
    (void)rows;
    stray->lane = (uint32_t)reader_int(reader);
    stray->count = (uint64_t)reader_int(reader);
    stray->job = reader_uuid(reader);
    stray->step = reader_step(reader);
    return reader_check(reader, "work in a lane that does not exist", err);
}

enum error_code postgres_strays(struct store *handle, struct arena *arena, struct store_stray **ret,
                                uint32_t *ret_count, struct err *err)
{
    struct rows rows = {.size = sizeof **ret, .read = read_stray};
    struct store_txn *base;
    enum error_code code = postgres_begin(handle, STORE_READ, &base, err);
    if (code != ERR_OK)
        return code;
    struct postgres_txn *txn = (struct postgres_txn *)base;
    code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_rows(txn, find_strays, NULL, &rows, arena, err);
    postgres_rollback(base);
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return code;
}

/* One of the two statements: $1 is the lane that does not exist, $2 the one that does. */
#define MOVE_WORK(table)                                                                           \
    "UPDATE pawl." table " SET lane = $2 WHERE lane = $1"                                          \
    " AND NOT EXISTS (SELECT FROM pawl.lanes WHERE number = $1)"

/* The jobs first, in their order: those who write a job find its rows by their places, which an
 * update changes. */
static const char lock_strays[] =
    "WITH locked AS MATERIALIZED (SELECT id FROM pawl.job_rows WHERE id = ANY (ARRAY("
    "SELECT job_id FROM pawl.ready WHERE lane = $1 UNION ALL SELECT job_id FROM pawl.timers"
    " WHERE lane = $1)) ORDER BY id FOR UPDATE) SELECT count(*) FROM locked";

enum error_code postgres_mend(struct store *handle, uint32_t lane, struct str key, struct err *err)
{
    struct params params;
    struct store_txn *base;
    enum store_outcome outcome;
    uint32_t number = 0;
    enum error_code code = postgres_begin(handle, STORE_WRITE, &base, err);
    if (code != ERR_OK)
        return code;
    struct postgres_txn *txn = (struct postgres_txn *)base;
    code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_int8(&params, lane);
    if (code == ERR_OK)
        code = connection_send_quiet(txn->connection, lock_strays, &params, err);
    if (code == ERR_OK)
        code = lanes_number(txn, &key, 1, true, &number, err);
    if (code == ERR_OK && number == 0)
        code = err_set(err, ERR_UNAVAILABLE, "too many lanes to repair");
    params_init(&params, &txn->scratch);
    params_add_int8(&params, lane);
    params_add_int8(&params, number);
    if (code == ERR_OK)
        code = connection_send_quiet(txn->connection, MOVE_WORK("ready"), &params, err);
    if (code == ERR_OK)
        code = connection_send_quiet(txn->connection, MOVE_WORK("timers"), &params, err);
    txn->wrote = true;
    if (code == ERR_OK)
        return postgres_commit(base, &outcome, err);
    postgres_rollback(base);
    return code;
}
