/* candidates: the heads of lanes, locked and never waited for.
 *
 * If load is told which searches will follow, their lanes are fetched in the flight of the load
 * (candidates_ahead), so that a claim needs no round trip of its own. The search then begins with
 * those rows. A lane that it does not look into after all keeps its rows; they stay locked until
 * the transaction ends, as rows do that are fetched and not picked.
 *
 * All lanes of all searches are fetched in one flight, a few rows of each, every row locked and
 * read together with its job. lane_merge picks from what was fetched; a lane that runs dry is
 * fetched again. What was picked is deleted, with whatever is sent next. What was fetched and not
 * picked stays where it is, locked until the transaction ends.
 *
 * A job that is in a lane itself is held by nobody, so that there is no lease to read. One
 * whose steps stand there may be: under the snapshot of the statement that locks it an old lease
 * could be seen, so that it is read again, behind the lock.
 *
 * Our own locks do not make us skip a row, so nothing is ever fetched twice: a refill goes on
 * behind the last row fetched, and picked rows are gone when the next search begins. */
#include <assert.h>
#include <stdlib.h>

#include "store/lane_merge.h"
#include "store/postgres/postgres.h"

/* A row of `ready` with its job, in a result of the finder's. */
struct feed_row {
    struct lane_place place;
    PGresult *result;
    int row;
};

/* One lane of this call, whichever searches look into it. */
struct lane_feed {
    uint32_t number;
    double demand; /* how many rows all searches together are likely to want of it */
    uint32_t most; /* and how many at most */
    struct mark_scan scan;
    struct feed_row *rows; /* in order; picks are taken from the front */
    uint32_t count;
    uint32_t cap;
    uint32_t picked;
    bool is_fetched;      /* its first rows are here */
    bool is_dry;          /* nothing is left behind the last row */
    bool has_gap;         /* nobody has looked before the mark */
    uint32_t more_behind; /* so many rows from the front on there may be more before the mark; 0: no
                             more */
};

struct finder {
    struct postgres_txn *txn;
    struct arena *arena; /* scratch */
    struct lane_feed *feeds;
    uint32_t feed_count;
    struct map index;   /* number of a lane, as 4 bytes -> feed */
    PGresult **results; /* of all fetches, cleared in the end */
    uint32_t result_count;
    struct fetch *ahead; /* sent with the load */
    uint32_t ahead_count;
    int64_t took; /* by full scans, in ms */
    struct err *err;
};

/* A search under way. */
struct looking {
    struct finder *finder;
    const struct store_search *search;
    struct lane_feed **feeds; /* by index in search->lanes */
    uint32_t *next;           /* row to give next, of each */
};

/* ---- which lanes, and how many rows of each ---- */

static uint32_t lane_total(const struct store_search *search)
{
    return search->group_count == 0 ? 0 : search->group_ends[search->group_count - 1];
}

static struct lane_feed *feed_of(struct finder *finder, const uint32_t *number)
{
    struct str key = {(const char *)number, sizeof *number};
    uint32_t found = map_get(&finder->index, key);
    if (found != MAP_NONE)
        return &finder->feeds[found];
    if (map_put(&finder->index, key, finder->feed_count, &found) != ERR_OK)
        return NULL;
    struct lane_feed *feed = &finder->feeds[finder->feed_count++];
    *feed = (struct lane_feed){
        .number = *number,
        .scan = marks_start(&finder->txn->store->marks, LINE_LANES + *number, clock_monotonic_ms()),
    };
    return feed;
}

/* Of many lanes each is asked for its share and as much again: what one lacks another has. */
static double share(const struct store_search *search)
{
    uint32_t lanes = lane_total(search);
    double wanted = 2.0 * search->max / (lanes == 0 ? 1 : lanes);
    return wanted < search->max ? wanted : search->max;
}

static enum error_code collect_lanes(struct finder *finder, const struct store_search *searches,
                                     uint32_t count)
{
    size_t size = sizeof *finder->feeds;
    size_t total = finder->feed_count;
    for (uint32_t i = 0; i < count; i++)
        total += lane_total(&searches[i]);
    struct lane_feed *feeds =
        arena_grow(finder->arena, finder->feeds, finder->feed_count * size, (total + 1) * size);
    if (feeds == NULL)
        return out_of_memory(finder->err);
    finder->feeds = feeds;
    for (uint32_t i = 0; i < finder->feed_count; i++)
        finder->feeds[i].demand = finder->feeds[i].most = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < lane_total(&searches[i]); k++) {
            struct lane_feed *feed = feed_of(finder, &searches[i].lanes[k]);
            if (feed == NULL)
                return out_of_memory(finder->err);
            feed->demand += share(&searches[i]);
            feed->most += searches[i].max;
        }
    return ERR_OK;
}

/* ---- fetching ---- */

#define LANE_FIELDS(F, X)                                                                          \
    F(1, lane, int4, int4, fetches[i].feed->number)                                                \
    X(2, wanted, int4, int4, fetches[i].wanted)                                                    \
    X(3, rank, int4, int4, fetches[i].from.rank)                                                   \
    X(4, run_at, int8, int8, fetches[i].from.at)                                                   \
    X(5, job_id, uuid, uuid, fetches[i].from.job)                                                  \
    X(6, step, int4, int4, fetches[i].from.step)                                                   \
    X(7, to_rank, int4, int4, fetches[i].to.rank)                                                  \
    X(8, to_run_at, int8, int8, fetches[i].to.at)                                                  \
    X(9, to_job_id, uuid, uuid, fetches[i].to.job)                                                 \
    X(10, to_step, int4, int4, fetches[i].to.step)                                                 \
    X(11, n, int4, int4, i)

/* The rows of a lane come in its order, since they are found one after the other: a sort would only
 * copy them. A job in a lane has no lease. What has become of it is as old as the row of `ready`,
 * or older: anyone who writes it puts the row there anew. */
static const char fetch_lanes[] =
    "SELECT u.n, j.rank, j.run_at, j.id, j.step, j.place, " JOB_COLUMNS ", " NOTE_COLUMNS
    " FROM " FIELD_ROWS(
        LANE_FIELDS) " CROSS JOIN LATERAL (SELECT r.rank, r.run_at, r.step, r.ctid AS place, j.*"
                     " FROM pawl.ready r JOIN pawl.job_rows j ON j.id = r.job_id"
                     " WHERE r.lane = u.lane"
                     " AND (r.rank, r.run_at, r.job_id, r.step) > (u.rank, u.run_at, u.job_id, "
                     "u.step)"
                     " AND (r.rank, r.run_at, r.job_id, r.step)"
                     " <= (u.to_rank, u.to_run_at, u.to_job_id, u.to_step)"
                     " ORDER BY r.rank, r.run_at, r.job_id, r.step LIMIT u.wanted"
                     " FOR UPDATE OF r, j SKIP LOCKED) AS j" STATE_OF(
                         "j.id") " LEFT JOIN pawl.claim_rows c ON false";

/* One lane's part of a fetch: rows behind `from` and up to `to`. */
struct fetch {
    struct lane_feed *feed;
    struct mark_place from;
    struct mark_place to;
    uint32_t wanted;
    uint32_t got;
};

static struct mark_place mark_of(const struct lane_place *place)
{
    return (struct mark_place){place->rank, place->run_at, place->job,
                               place->step == STEP_NONE ? -1 : (int64_t)place->step};
}

/* Room for one more row, at index `at`. */
static bool feed_insert(struct lane_feed *feed, struct arena *arena, uint32_t at,
                        struct feed_row inserted)
{
    if (feed->count == feed->cap) {
        uint32_t cap = feed->cap == 0 ? 8 : feed->cap * 2;
        struct feed_row *rows =
            arena_grow(arena, feed->rows, feed->cap * sizeof *rows, cap * sizeof *rows);
        if (rows == NULL)
            return false;
        feed->rows = rows;
        feed->cap = cap;
    }
    for (uint32_t i = feed->count; i > at; i--)
        feed->rows[i] = feed->rows[i - 1];
    feed->rows[at] = inserted;
    feed->count++;
    return true;
}

static enum error_code send_fetch(struct finder *finder, const struct fetch *fetches,
                                  uint32_t count)
{
    struct columns columns;
    COLUMNS_INIT(&columns, finder->arena, LANE_FIELDS);
    for (uint32_t i = 0; i < count; i++)
        COLUMNS_ADD(&columns, LANE_FIELDS);
    return ask_columns(finder->txn, fetch_lanes, &columns, finder->err);
}

static bool keep_result(struct finder *finder, PGresult *result)
{
    size_t size = sizeof(PGresult *);
    PGresult **results = arena_grow(finder->arena, finder->results, finder->result_count * size,
                                    (finder->result_count + 1) * size);
    if (results == NULL)
        return false;
    finder->results = results;
    finder->results[finder->result_count++] = result;
    return true;
}

/* Takes what was fetched: rows come in behind those that a lane has, or before them where they
 * belong there. */
static enum error_code take_fetch(struct finder *finder, struct fetch *fetches, uint32_t count)
{
    struct reader reader;
    PGresult *result;
    enum error_code code = connection_result(finder->txn->connection, &result, finder->err);
    if (code != ERR_OK)
        return code;
    if (!keep_result(finder, result)) {
        PQclear(result);
        return out_of_memory(finder->err);
    }
    reader_init(&reader, result, finder->arena);
    for (int row = 0; row < PQntuples(result) && code == ERR_OK; row++) {
        reader_row(&reader, row);
        int64_t number = reader_int(&reader);
        struct lane_place place = {.rank = reader_int(&reader)};
        place.run_at = reader_int(&reader);
        place.job = reader_uuid(&reader);
        place.step = reader_step(&reader);
        code = reader_check(&reader, "waiting work", finder->err);
        if (code == ERR_OK && (number < 0 || number >= count))
            code = err_set(finder->err, ERR_CORRUPT,
                           "unexpected PostgreSQL response for another lane");
        if (code != ERR_OK)
            break;
        struct fetch *from = &fetches[number];
        bool behind = mark_place_cmp(&from->to, &MARK_LAST) == 0;
        uint32_t at = behind ? from->feed->count : from->got;
        while (at > 0 && lane_place_cmp(&from->feed->rows[at - 1].place, &place) > 0)
            at--;
        if (!feed_insert(from->feed, finder->arena, at, (struct feed_row){place, result, row}))
            code = out_of_memory(finder->err);
        from->got++;
    }
    return code;
}

static enum error_code fetch(struct finder *finder, struct fetch *fetches, uint32_t count)
{
    assert(count > 0);
    enum error_code code = send_fetch(finder, fetches, count);
    if (code == ERR_OK)
        code = txn_flush(finder->txn, finder->err);
    return code == ERR_OK ? take_fetch(finder, fetches, count) : code;
}

static uint32_t first_ask(const struct lane_feed *feed)
{
    double wanted = feed->demand + 1;
    return wanted < feed->most ? (uint32_t)wanted : feed->most;
}

/* Notes what the scans of a fetch came to, as far as their time goes. */
static void note_short(struct fetch *fetches, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (fetches[i].got < fetches[i].wanted)
            fetches[i].feed->is_dry = true;
}

static struct fetch first_fetch(struct lane_feed *feed)
{
    feed->has_gap = !feed->scan.full;
    feed->is_fetched = true;
    return (struct fetch){
        .feed = feed, .from = feed->scan.from, .to = MARK_LAST, .wanted = first_ask(feed)};
}

/* Looks before the mark of those lanes that had too little behind it. */
static enum error_code fetch_before_marks(struct finder *finder, struct fetch *fetches,
                                          int64_t start)
{
    struct marks *marks = &finder->txn->store->marks;
    uint32_t count = 0;
    for (uint32_t i = 0; i < finder->feed_count; i++) {
        struct lane_feed *feed = &finder->feeds[i];
        uint32_t wanted = first_ask(feed);
        if (!feed->is_dry || feed->count >= wanted ||
            !marks_may_look_back(marks, &feed->scan, start))
            continue;
        fetches[count++] = (struct fetch){.feed = feed,
                                          .from = MARK_FIRST,
                                          .to = feed->scan.from,
                                          .wanted = wanted - feed->count};
        feed->has_gap = false;
    }
    enum error_code code = count > 0 ? fetch(finder, fetches, count) : ERR_OK;
    for (uint32_t i = 0; i < count; i++)
        if (fetches[i].got == fetches[i].wanted)
            fetches[i].feed->more_behind = fetches[i].got;
    return code;
}

/* The first fetch of every lane from its mark, unless that came with the load; then, of those that
 * had too little, what may stand before the mark. */
static enum error_code fetch_first(struct finder *finder)
{
    int64_t start = clock_monotonic_ms();
    struct fetch *fetches =
        arena_zalloc(finder->arena, finder->feed_count + (size_t)1, sizeof *fetches);
    uint32_t count = 0;
    enum error_code code = ERR_OK;
    if (fetches == NULL)
        return out_of_memory(finder->err);
    for (uint32_t i = 0; i < finder->feed_count; i++)
        if (!finder->feeds[i].is_fetched)
            fetches[count++] = first_fetch(&finder->feeds[i]);
    if (count > 0) {
        code = fetch(finder, fetches, count);
        note_short(fetches, count);
    }
    if (code == ERR_OK)
        code = fetch_before_marks(finder, fetches, start);
    finder->took += clock_monotonic_ms() - start;
    return code;
}

/* More rows for every lane of the search that has run out. */
static enum error_code refill(struct looking *looking)
{
    struct finder *finder = looking->finder;
    uint32_t lanes = lane_total(looking->search);
    struct fetch *fetches = arena_zalloc(finder->arena, lanes + (size_t)1, sizeof *fetches);
    uint32_t count = 0;
    if (fetches == NULL)
        return out_of_memory(finder->err);
    for (uint32_t i = 0; i < lanes; i++) {
        struct lane_feed *feed = looking->feeds[i];
        if (feed->is_dry || looking->next[i] < feed->count || feed->count == 0)
            continue;
        uint32_t wanted = (uint32_t)share(looking->search) + 1;
        wanted = wanted < looking->search->max ? wanted : looking->search->max;
        fetches[count++] = (struct fetch){.feed = feed,
                                          .from = mark_of(&feed->rows[feed->count - 1].place),
                                          .to = MARK_LAST,
                                          .wanted = wanted};
    }
    enum error_code code = fetch(finder, fetches, count);
    if (code == ERR_OK)
        note_short(fetches, count);
    return code;
}

/* ---- picking ---- */

static enum error_code next_place(void *arg, uint32_t index, struct lane_place *ret,
                                  bool *ret_found, struct err *err)
{
    struct looking *looking = arg;
    struct lane_feed *feed = looking->feeds[index];
    uint32_t *next = &looking->next[index];
    (void)err;
    for (;;) {
        if (*next < feed->count) {
            *ret = feed->rows[(*next)++].place;
            *ret_found = true;
            return ERR_OK;
        }
        if (feed->is_dry) {
            *ret_found = false;
            return ERR_OK;
        }
        enum error_code code = refill(looking);
        if (code != ERR_OK)
            return code;
    }
}

struct picks {
    struct lane_pick *at; /* of all searches */
    uint32_t *numbers;    /* of their lanes */
    struct feed_row *rows;
    uint32_t count;
};

static enum error_code search_once(struct finder *finder, struct store_search *search,
                                   struct picks *picks)
{
    uint32_t lanes = lane_total(search);
    struct looking looking = {
        .finder = finder,
        .search = search,
        .feeds = arena_zalloc(finder->arena, lanes + (size_t)1, sizeof(void *)),
        .next = arena_zalloc(finder->arena, lanes + (size_t)1, sizeof *looking.next),
    };
    if (looking.feeds == NULL || looking.next == NULL)
        return out_of_memory(finder->err);
    for (uint32_t i = 0; i < lanes; i++) {
        looking.feeds[i] = feed_of(finder, &search->lanes[i]);
        looking.next[i] = looking.feeds[i]->picked;
    }
    struct lane_pick *found = &picks->at[picks->count];
    enum error_code code = lane_merge(search, next_place, &looking, finder->arena, found,
                                      &search->found_count, finder->err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < search->found_count; i++) {
        struct lane_feed *feed = looking.feeds[found[i].index];
        picks->rows[picks->count] = feed->rows[feed->picked++];
        assert(lane_place_cmp(&picks->rows[picks->count].place, &found[i].place) == 0);
        picks->numbers[picks->count++] = search->lanes[found[i].index];
    }
    return ERR_OK;
}

/* ---- taking ---- */

/* Columns of fetch_lanes before the job's. */
enum { PLACE_COLUMN = 5, JOB_COLUMN = 6 };

/* They are locked, and so stay where they are. */
static const char delete_ready[] = "DELETE FROM pawl.ready WHERE ctid = ANY ($1)";

static const char read_headers[] =
    "SELECT " JOB_COLUMNS ", " NOTE_COLUMNS " FROM unnest($1::uuid[]) WITH ORDINALITY AS k (id, n)"
    " JOIN pawl.job_rows j ON j.id = k.id" JOB_JOINS "ORDER BY k.n";

static enum error_code send_delete(struct finder *finder, const struct picks *picks)
{
    struct postgres_txn *txn = finder->txn;
    struct params params;
    struct array places;
    array_init(&places, finder->arena, PARAM_TID, picks->count);
    for (uint32_t i = 0; i < picks->count; i++) {
        struct reader reader;
        uint8_t place[TID_LEN] = {0};
        reader_init(&reader, picks->rows[i].result, finder->arena);
        reader_row(&reader, picks->rows[i].row);
        reader_skip(&reader, PLACE_COLUMN);
        reader_bytes(&reader, place, sizeof place);
        array_add_tid(&places, place);
        enum error_code code = reader_check(&reader, "waiting work", finder->err);
        if (code == ERR_OK)
            code = txn_note(txn, &txn->takes, LINE_LANES + picks->numbers[i],
                            mark_of(&picks->at[i].place), finder->err);
        if (code != ERR_OK)
            return code;
    }
    params_init(&params, finder->arena);
    params_add_array(&params, &places);
    txn->wrote = true;
    return connection_send_quiet(txn->connection, delete_ready, &params, finder->err);
}

/* Reads the jobs of which steps were picked, behind their locks. */
static enum error_code read_steps_jobs(struct finder *finder, const struct picks *picks,
                                       PGresult **ret)
{
    struct params params;
    struct array jobs;
    PGresult *result;
    array_init(&jobs, finder->arena, PARAM_UUID, picks->count);
    for (uint32_t i = 0; i < picks->count; i++)
        if (picks->at[i].place.step != STEP_NONE)
            array_add_uuid(&jobs, picks->at[i].place.job);
    if (jobs.count == 0)
        return ERR_OK;
    params_init(&params, finder->arena);
    params_add_array(&params, &jobs);
    enum error_code code = txn_ask(finder->txn, read_headers, &params, &result, finder->err);
    if (code != ERR_OK)
        return code;
    if ((uint32_t)PQntuples(result) != jobs.count) {
        PQclear(result);
        return err_set(finder->err, ERR_CORRUPT, "a queued entry has no job");
    }
    *ret = result;
    return ERR_OK;
}

/* Deletes what was picked and makes jobs of what was read. */
static enum error_code take_picks(struct finder *finder, struct store_search *searches,
                                  uint32_t count, const struct picks *picks, struct arena *arena)
{
    uint64_t seed = finder->txn->store->base.options.seed;
    PGresult *of_steps = NULL;
    struct store_candidate *found = arena_zalloc(arena, picks->count, sizeof *found);
    if (found == NULL)
        return out_of_memory(finder->err);
    for (uint32_t i = 0, at = 0; i < count; i++) {
        searches[i].found = found + at;
        at += searches[i].found_count;
    }
    if (picks->count == 0)
        return ERR_OK;
    enum error_code code = send_delete(finder, picks);
    if (code == ERR_OK)
        code = read_steps_jobs(finder, picks, &of_steps);
    int next = 0;
    for (uint32_t i = 0; i < picks->count && code == ERR_OK; i++) {
        struct reader reader;
        bool is_step = picks->at[i].place.step != STEP_NONE;
        reader_init(&reader, is_step ? of_steps : picks->rows[i].result, arena);
        reader_row(&reader, is_step ? next++ : picks->rows[i].row);
        reader_skip(&reader, is_step ? 0 : JOB_COLUMN);
        found[i].step = picks->at[i].place.step;
        found[i].lane = picks->numbers[i];
        code = reader_slice(&reader, seed, &found[i].slice, finder->err);
        if (code == ERR_OK)
            code = txn_note_job(finder->txn, reader_note(&reader, picks->at[i].place.job),
                                finder->err);
    }
    PQclear(of_steps);
    return code;
}

/* ---- what others hold ---- */

/* Heads that SKIP LOCKED passed over cannot be told from none. A search that found nothing, which
 * is not busy then, looks at what is still in its lanes: others have locked it. */
static const char count_locked[] =
    "SELECT count(*) FROM (SELECT 1 FROM pawl.ready r WHERE r.lane = ANY ($1::int4[])"
    " LIMIT $2::int8) AS r";

static enum error_code count_skipped(struct finder *finder, struct store_search *search)
{
    struct params params;
    struct array lanes;
    int64_t count = 0;
    array_init(&lanes, finder->arena, PARAM_INT4, lane_total(search));
    for (uint32_t i = 0; i < lane_total(search); i++)
        array_add_int4(&lanes, search->lanes[i]);
    params_init(&params, finder->arena);
    params_add_array(&params, &lanes);
    params_add_int8(&params, SKIPPED_COUNT_MAX);
    enum error_code code = txn_ask_int(finder->txn, count_locked, &params, &count, finder->err);
    search->skipped_locked = (uint32_t)count;
    return code;
}

/* One search that found nothing stands for all that were as unlucky. */
static enum error_code count_first_empty(struct finder *finder, struct store_search *searches,
                                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (searches[i].found_count == 0)
            return count_skipped(finder, &searches[i]);
    return ERR_OK;
}

static enum error_code find(struct finder *finder, struct store_search *searches, uint32_t count,
                            struct arena *arena)
{
    struct picks picks = {0};
    size_t wanted = 1;
    for (uint32_t i = 0; i < count; i++)
        wanted += searches[i].max;
    picks.at = arena_alloc(finder->arena, wanted * sizeof *picks.at);
    picks.numbers = arena_alloc(finder->arena, wanted * sizeof *picks.numbers);
    picks.rows = arena_alloc(finder->arena, wanted * sizeof *picks.rows);
    if (picks.at == NULL || picks.numbers == NULL || picks.rows == NULL)
        return out_of_memory(finder->err);
    enum error_code code = finder->feed_count == 0 ? ERR_OK : fetch_first(finder);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = search_once(finder, &searches[i], &picks);
    for (uint32_t i = 0; i < finder->feed_count && count > 0; i++)
        searches[0].locked_unclaimed =
            searches[0].locked_unclaimed || finder->feeds[i].count > finder->feeds[i].picked;
    if (code == ERR_OK)
        code = take_picks(finder, searches, count, &picks, arena);
    return code == ERR_OK ? count_first_empty(finder, searches, count) : code;
}

/* Moves the marks, or leaves them where they are when the search failed. */
static void end_scans(struct finder *finder, bool is_good)
{
    int64_t now = clock_monotonic_ms();
    for (uint32_t i = 0; i < finder->feed_count; i++) {
        const struct lane_feed *feed = &finder->feeds[i];
        struct mark_found found = {
            .is_full = !feed->has_gap,
            .was_short = feed->is_dry,
            .now = now,
            .took = finder->took,
            .has_taken = feed->picked > 0,
        };
        uint32_t cleared = feed->picked;
        if (feed->more_behind > 0 && feed->more_behind < cleared)
            cleared = feed->more_behind;
        if (cleared > 0)
            found.taken = mark_of(&feed->rows[cleared - 1].place);
        marks_end(&finder->txn->store->marks, &feed->scan,
                  is_good && feed->is_fetched ? &found : NULL);
    }
    for (uint32_t i = 0; i < finder->result_count; i++)
        PQclear(finder->results[i]);
    finder->txn->finder = NULL;
}

/* The finder of the transaction: what it has lives until the search is over, or the transaction. */
static struct finder *finder_of(struct postgres_txn *txn, struct err *err)
{
    struct finder *finder = txn->finder;
    if (finder == NULL)
        finder = arena_zalloc(&txn->notes, 1, sizeof *finder);
    if (finder == NULL)
        return NULL;
    if (txn->finder == NULL) {
        finder->txn = txn;
        finder->arena = &txn->notes;
        map_init(&finder->index, finder->arena, 8, txn->store->base.options.seed);
        txn->finder = finder;
    }
    finder->err = err;
    return finder;
}

void candidates_forget(struct postgres_txn *txn)
{
    if (txn->finder != NULL)
        end_scans(txn->finder, false);
}

enum error_code candidates_ahead(struct postgres_txn *txn, const struct store_search *searches,
                                 uint32_t count, struct err *err)
{
    struct finder *finder = count > 0 ? finder_of(txn, err) : NULL;
    if (finder == NULL)
        return count > 0 ? out_of_memory(err) : ERR_OK;
    enum error_code code = collect_lanes(finder, searches, count);
    finder->ahead = arena_zalloc(finder->arena, finder->feed_count + 1, sizeof *finder->ahead);
    if (code == ERR_OK && finder->ahead == NULL)
        code = out_of_memory(err);
    for (uint32_t i = 0; i < finder->feed_count && code == ERR_OK; i++)
        if (!finder->feeds[i].scan.is_slow)
            finder->ahead[finder->ahead_count++] = first_fetch(&finder->feeds[i]);
    return code == ERR_OK && finder->ahead_count > 0
               ? send_fetch(finder, finder->ahead, finder->ahead_count)
               : code;
}

enum error_code candidates_take_ahead(struct postgres_txn *txn, int64_t start, struct err *err)
{
    enum { TOOK_MS_MAX = MARKS_FULL_EVERY_MS / MARKS_REST };
    struct finder *finder = txn->finder;
    if (finder == NULL || finder->ahead_count == 0)
        return ERR_OK;
    finder->err = err;
    enum error_code code = take_fetch(finder, finder->ahead, finder->ahead_count);
    if (code != ERR_OK)
        return code;
    note_short(finder->ahead, finder->ahead_count);
    /* The flight may have waited for locks. A longer scan is timed by itself the next time. */
    finder->took = clock_monotonic_ms() - start;
    finder->took = finder->took < TOOK_MS_MAX ? finder->took : TOOK_MS_MAX;
    return ERR_OK;
}

enum error_code postgres_candidates(struct store_txn *handle, struct store_search *searches,
                                    uint32_t count, struct arena *arena, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    enum error_code code = txn_start(txn, err);
    struct finder *finder = code == ERR_OK ? finder_of(txn, err) : NULL;
    if (finder == NULL)
        return txn_end_verb(txn, code == ERR_OK ? out_of_memory(err) : code);
    code = collect_lanes(finder, searches, count);
    if (code == ERR_OK)
        code = find(finder, searches, count, arena);
    end_scans(finder, code == ERR_OK);
    return txn_end_verb(txn, code);
}
