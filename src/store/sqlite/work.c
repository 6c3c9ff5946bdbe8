/* Lanes, and finding work in them. */
#include <assert.h>
#include <stdlib.h>

#include "store/lane_merge.h"
#include "store/sqlite/sqlite.h"

/* ---- lanes ---- */

enum error_code sqlite_lanes_read(struct sqlite_store *store, struct err *err)
{
    int64_t last = 0;
    lane_book_clear(&store->lanes);
    store->lanes_free_count = store->lanes_free_next = 0;
    struct query query = lite_query(&store->writer, STATEMENT_LANES, NULL, err);
    lite_put_int(&query, 0);
    while (lite_next(&query)) {
        int64_t number = lite_read_int(&query);
        struct str key = lite_read_text_view(&query);
        if (number > UINT32_MAX || number < 1 || !str_is_set(key))
            query.code = err_set(err, ERR_CORRUPT, "unknown lane %lld", (long long)number);
        else
            query.code = lane_book_add(&store->lanes, (uint32_t)number, key, err);
        while (++last < number && store->lanes_free_count < LANES_FREE_MAX)
            store->lanes_free[store->lanes_free_count++] = (uint32_t)last;
        last = number;
    }
    enum error_code code = lite_end(&query);
    store->lanes_stale = code != ERR_OK;
    return code;
}

enum error_code sqlite_lane(struct sqlite_txn *txn, struct str key, int64_t *ret, struct err *err)
{
    struct sqlite_store *store = txn->store;
    struct lane_book *book = &store->lanes;
    uint32_t number = book->highest + 1;
    /* Much is kept by number: a low one is worth that everybody reads all lanes anew. */
    if (store->lanes_free_next < store->lanes_free_count) {
        number = store->lanes_free[store->lanes_free_next++];
        store->lanes_era++;
    }
    txn->lanes_added = true;
    enum error_code code = lane_book_add(book, number, key, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_LANE_INSERT, NULL, err);
    lite_put_int(&query, number);
    lite_put_text(&query, key);
    code = lite_run(&query);
    if (code == ERR_OK)
        *ret = number;
    return code;
}

enum error_code sqlite_lanes_sweep(struct sqlite_txn *txn, bool *ret_done, struct err *err)
{
    struct sqlite_store *store = txn->store;
    int changes = 0;
    *ret_done = false;
    if (lane_book_count(&store->lanes) <= store->lanes_many)
        return ERR_OK;
    struct query query = lite_query(txn->connection, STATEMENT_LANES_SWEEP, NULL, err);
    enum error_code code = lite_run_counted(&query, &changes);
    if (code != ERR_OK)
        return code;
    /* Whether or not this is committed, nobody trusts a number from before. */
    store->lanes_many = store_lanes_many(lane_book_count(&store->lanes) - (uint32_t)changes);
    store->lanes_stale = true;
    store->lanes_era++;
    *ret_done = changes > 0;
    return ERR_OK;
}

enum error_code sqlite_read_lanes(struct sqlite_txn *txn, uint32_t after, struct arena *arena,
                                  struct store_lane **ret, uint32_t *ret_count, struct err *err)
{
    struct store_lane *lanes = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    struct query query = lite_query(txn->connection, STATEMENT_LANES, arena, err);
    lite_put_int(&query, after);
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&lanes, count, &cap, sizeof *lanes)) {
            query.out_of_memory = true;
            break;
        }
        struct store_lane *lane = &lanes[count++];
        lane->number = (uint32_t)lite_read_int(&query);
        lane->key = lite_read_text(&query);
    }
    enum error_code code = lite_end(&query);
    if (code != ERR_OK)
        return code;
    *ret = lanes;
    *ret_count = count;
    return ERR_OK;
}

enum error_code sqlite_lanes(struct store_txn *base, uint32_t after, struct arena *arena,
                             struct store_lane **ret, uint32_t *ret_count, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code == ERR_OK)
        code = sqlite_read_lanes(txn, after, arena, ret, ret_count, err);
    return sqlite_verb_end(txn, code);
}

/* ---- walking lanes ---- */

/* How far a search has come in one of its lanes. The first place is looked up, since most searches
 * need no more of most lanes; then the lane gets a cursor, as long as there are some. */
struct walked_lane {
    struct lane_place last;
    bool begun;
    bool has_cursor;
    uint32_t cursor;
};

struct lane_walk {
    struct sqlite_txn *txn;
    const struct store_search *search;
    struct walked_lane *lanes; /* by index */
    struct query cursors[CURSORS_MAX];
    uint32_t cursor_count;
};

static void put_last(struct query *query, uint32_t number, const struct walked_lane *lane)
{
    lite_put_int(query, number);
    lite_put_int(query, lane->begun ? lane->last.rank : INT64_MIN);
    lite_put_int(query, lane->last.run_at);
    lite_put_uuid(query, &lane->last.job);
    lite_put_step(query, lane->last.step);
}

static bool read_place(struct query *query, struct lane_place *ret)
{
    if (!lite_next(query))
        return false;
    ret->rank = lite_read_int(query);
    ret->run_at = lite_read_int(query);
    ret->job = lite_read_uuid(query);
    ret->step = lite_read_step(query);
    return query->code == ERR_OK;
}

static struct query *open_cursor(struct lane_walk *walk, struct walked_lane *lane, uint32_t number,
                                 struct err *err)
{
    struct connection *connection = walk->txn->connection;
    lane->has_cursor = true;
    lane->cursor = walk->cursor_count++;
    struct query *query = &walk->cursors[lane->cursor];
    *query = lite_query_cursor(connection, &connection->cursors[lane->cursor], err);
    put_last(query, number, lane);
    return query;
}

static enum error_code walk_next(void *arg, uint32_t index, struct lane_place *ret, bool *ret_found,
                                 struct err *err)
{
    struct lane_walk *walk = arg;
    struct walked_lane *lane = &walk->lanes[index];
    uint32_t number = walk->search->lanes[index];
    enum error_code code;
    bool found;
    if (lane->has_cursor || (lane->begun && walk->cursor_count < CURSORS_MAX)) {
        struct query *cursor =
            lane->has_cursor ? &walk->cursors[lane->cursor] : open_cursor(walk, lane, number, err);
        found = read_place(cursor, &lane->last);
        code = cursor->code;
    } else {
        struct query query = lite_query(walk->txn->connection, STATEMENT_READY_NEXT, NULL, err);
        struct lane_place place = lane->last;
        put_last(&query, number, lane);
        found = read_place(&query, &place);
        code = lite_end(&query);
        lane->last = place;
    }
    lane->begun = true;
    *ret = lane->last;
    *ret_found = code == ERR_OK && found;
    return code;
}

/* ---- candidates ---- */

/* Takes out what was picked, and loads it. */
static enum error_code take_picks(struct sqlite_txn *txn, struct store_search *search,
                                  const struct lane_pick *picks, uint32_t count,
                                  struct arena *arena, struct err *err)
{
    struct store_candidate *found = arena_zalloc(arena, count + (size_t)1, sizeof *found);
    if (found == NULL)
        return sqlite_no_memory(err);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct lane_place *at = &picks[i].place;
        struct place place = {
            .lane = search->lanes[picks[i].index], .rank = at->rank, .run_at = at->run_at};
        bool there;
        struct store_candidate *candidate = &found[kept];
        enum error_code code = sqlite_ready_delete(txn, &at->job, at->step, &place, &there, err);
        if (code == ERR_OK)
            code = sqlite_read_job(txn, at->job, arena, &candidate->slice, err);
        if (code != ERR_OK)
            return code;
        candidate->step = at->step;
        candidate->lane = search->lanes[picks[i].index];
        /* A job that was deleted while it stood here is no work: it just goes. */
        kept += candidate->slice.job.status != JOB_NONE;
    }
    search->found = found;
    search->found_count = kept;
    return ERR_OK;
}

static enum error_code search_one(struct sqlite_txn *txn, struct store_search *search,
                                  struct arena *arena, struct err *err)
{
    size_t lanes = search->group_count > 0 ? search->group_ends[search->group_count - 1] : 0;
    struct lane_walk walk = {
        .txn = txn,
        .search = search,
        .lanes = arena_zalloc(&txn->scratch, lanes + 1, sizeof *walk.lanes),
    };
    struct lane_pick *picks = arena_zalloc(&txn->scratch, search->max + (size_t)1, sizeof *picks);
    if (walk.lanes == NULL || picks == NULL)
        return sqlite_no_memory(err);
    uint32_t count = 0;
    enum error_code code = lane_merge(search, walk_next, &walk, &txn->scratch, picks, &count, err);
    /* Nothing is deleted under a cursor. */
    for (uint32_t i = 0; i < walk.cursor_count; i++)
        (void)lite_end(&walk.cursors[i]);
    return code == ERR_OK ? take_picks(txn, search, picks, count, arena, err) : code;
}

enum error_code sqlite_candidates(struct store_txn *base, struct store_search *searches,
                                  uint32_t count, struct arena *arena, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        code = search_one(txn, &searches[i], arena, err);
        arena_clear(&txn->scratch);
    }
    return sqlite_verb_end(txn, code);
}

/* ---- promotion ---- */

struct ripe {
    struct uuid job;
    uint32_t step;
    struct place place;
};

static enum error_code find_ripe(struct sqlite_txn *txn, uint32_t limit, struct ripe **ret,
                                 uint32_t *ret_count, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_TIMERS_RIPE, NULL, err);
    uint32_t cap = 0;
    lite_put_int(&query, txn->now);
    lite_put_int(&query, limit);
    while (lite_next(&query)) {
        if (!sqlite_more(&txn->scratch, (void **)ret, *ret_count, &cap, sizeof **ret)) {
            query.out_of_memory = true;
            break;
        }
        struct ripe *ripe = &(*ret)[(*ret_count)++];
        *ripe = (struct ripe){.place.run_at = lite_read_int(&query)};
        ripe->job = lite_read_uuid(&query);
        ripe->step = lite_read_step(&query);
        ripe->place.lane = lite_read_int(&query);
        ripe->place.rank = lite_read_int(&query);
    }
    return lite_end(&query);
}

enum error_code sqlite_promote(struct store_txn *base, uint32_t limit, uint32_t *ret_count,
                               struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct ripe *ripe = NULL;
    uint32_t count = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    code = find_ripe(txn, limit, &ripe, &count, err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        bool found;
        code = sqlite_timer_delete(txn, STR("work"), ripe[i].place.run_at, &ripe[i].job,
                                   ripe[i].step, &found, err);
        if (code == ERR_OK)
            code = sqlite_ready_insert(txn, &ripe[i].job, ripe[i].step, &ripe[i].place, err);
    }
    code = sqlite_verb_end(txn, code);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}
