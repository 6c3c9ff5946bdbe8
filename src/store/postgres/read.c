/* Reading: lists, streams, the feed, and who holds a resource. */
#include "base/planted.h"
#include "store/postgres/postgres.h"

/* ---- lists ---- */

/* $1: id, $2: statuses, $3: kind, $4: queue, $5: agent_id, $6: correlation_id, $7 $8: a label,
 * $9: created after, $10: reason code, $11: before, $12: how many, $13: whether somebody is to be
 * asked, $14: queues, $15: a job without correlation id. The planner knows the values, and what is
 * not set is gone before it looks for an index.
 */
#define LIST_FILTERS                                                                               \
    " ($1::uuid IS NULL OR j.id = $1) AND ($3::text IS NULL OR j.kind = $3)"                       \
    " AND ($4::text IS NULL OR j.queue = $4) AND ($5::text IS NULL OR j.agent_id = $5)"            \
    " AND ($6::text IS NULL OR j.correlation_id = $6"                                              \
    " OR (j.id = $15::uuid AND j.correlation_id IS NULL))"                                         \
    " AND ($7::text IS NULL OR j.labels ->> $7 = $8)"                                              \
    " AND ($9::timestamptz IS NULL OR j.created_at > $9)"                                          \
    " AND ($10::int8 = 0 OR j.reason_code = $10) AND ($11::uuid IS NULL OR j.id < $11)"            \
    " AND ($13::int8 = 0 OR j.asking) AND ($14::text[] IS NULL OR j.queue = ANY ($14))"

#define LIST_PAGE                                                                                  \
    " SELECT " WHOLE_JOB_COLUMNS " FROM page j" JOB_JOINS "ORDER BY j.id DESC LIMIT $12"

static const char list_any[] =
    "WITH page AS MATERIALIZED (SELECT j.* FROM pawl.jobs j WHERE" LIST_FILTERS
    " AND ($2::int4[] IS NULL OR j.status = ANY ($2)) ORDER BY j.id DESC LIMIT $12)" LIST_PAGE;

/* Each status is a list of its own in the index, but that those that somebody holds stand among the
 * queued: they are found by their leases, and the few that are passed over there are held. */
static const char list_statuses[] =
    "WITH page AS MATERIALIZED (SELECT j.* FROM unnest($2::int4[]) AS wanted (status)"
    " CROSS JOIN LATERAL ((SELECT j.* FROM pawl.jobs j WHERE" LIST_FILTERS
    " AND j.shelf = wanted.status AND j.status = wanted.status ORDER BY j.id DESC LIMIT $12)"
    " UNION ALL (SELECT j.* FROM pawl.job_claims c JOIN pawl.jobs j ON j.id = c.job_id"
    " WHERE" LIST_FILTERS " AND c.step = -1 AND wanted.status <> 0 AND j.shelf = 0"
    " AND j.status = wanted.status ORDER BY j.id DESC LIMIT $12)) AS j"
    " ORDER BY j.id DESC LIMIT $12)" LIST_PAGE;

static void params_add_id(struct params *params, struct uuid id)
{
    static const struct uuid none = {{0}};
    if (uuid_eq(id, none))
        params_add_null(params, PARAM_UUID);
    else
        params_add_uuid(params, id);
}

static void list_params(struct params *params, const struct store_filter *filter,
                        struct arena *arena)
{
    struct array statuses;
    array_init(&statuses, arena, PARAM_INT4, 0);
    for (int i = 0; i < JOB_STATUS_COUNT; i++)
        if ((filter->statuses >> i & 1) != 0)
            array_add_int4(&statuses, i);
    params_init(params, arena);
    params_add_id(params, filter->id);
    params_add_array(params, &statuses);
    if (filter->statuses == 0)
        params->values[1] = NULL;
    params_add_str(params, PARAM_TEXT, filter->kind);
    params_add_str(params, PARAM_TEXT, filter->queue);
    params_add_str(params, PARAM_TEXT, filter->agent_id);
    params_add_str(params, PARAM_TEXT, filter->correlation_id);
    params_add_str(params, PARAM_TEXT, filter->label_key);
    params_add_str(params, PARAM_TEXT, filter->label_value);
    if (filter->created_after > 0)
        params_add_time(params, filter->created_after);
    else
        params_add_null(params, PARAM_TIME);
    params_add_int8(params, filter->reason_code);
    params_add_id(params, filter->before);
    params_add_int8(params, filter->limit);
    params_add_int8(params, filter->asking);
    struct array queues;
    array_init(&queues, arena, PARAM_TEXT, 0);
    for (uint32_t i = 0; filter->queues != NULL && i < filter->queues->count; i++)
        array_add_str(&queues, filter->queues->at[i]);
    params_add_array(params, &queues);
    if (filter->queues == NULL)
        params->values[params->count - 1] = NULL;
    params_add_id(params, filter->correlation_job);
}

enum error_code postgres_list(struct store_txn *handle, const struct store_filter *filter,
                              struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                              struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    bool by_status = filter->statuses != 0 && !filter->asking;
    struct params params;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    list_params(&params, filter, &txn->scratch);
    if (code == ERR_OK)
        code = txn_ask(txn, by_status ? list_statuses : list_any, &params, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct store_job *jobs = arena_zalloc(arena, count, sizeof *jobs);
    if (jobs == NULL)
        code = out_of_memory(err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_init(&reader, result, arena);
        reader_row(&reader, (int)i);
        jobs[i].id = reader_uuid(&reader);
        reader_row(&reader, (int)i);
        code = reader_slice(&reader, txn->store->base.options.seed, &jobs[i].slice, err);
        jobs[i].redacted = jobs[i].slice.job.redacted;
        code = row_damaged(&jobs[i], txn->store->base.options.seed, code, arena, err);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = jobs;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}

/* ---- events ---- */

static const char read_stream[] = "SELECT " EVENT_COLUMNS " FROM pawl.job_events e"
                                  " WHERE e.job_id = $1 AND e.version > $2"
                                  " ORDER BY e.version LIMIT $3";

static const char read_stream_of_type[] = "SELECT " EVENT_COLUMNS " FROM pawl.job_events e"
                                          " WHERE e.job_id = $1 AND e.version > $2 AND e.type = $4"
                                          " ORDER BY e.version LIMIT $3";

static const char read_telemetry[] =
    "SELECT job_id, at, type, payload, actor, cause, correlation_id, version"
    " FROM pawl.job_telemetry"
    " WHERE job_id = $1 AND at > $2 ORDER BY at, n LIMIT $3";

static void reader_telemetry(struct reader *reader, struct event *ret)
{
    *ret = (struct event){.job_id = reader_uuid(reader)};
    ret->at = reader_int(reader);
    ret->type_name = reader_str(reader);
    ret->type = event_type_parse(ret->type_name);
    ret->payload = reader_str(reader);
    ret->actor = reader_str(reader);
    ret->cause_text = reader_str(reader);
    ret->correlation_id = reader_str(reader);
    ret->version = reader_int(reader);
}

enum error_code postgres_events(struct store_txn *handle, const struct store_stream *stream,
                                struct arena *arena, struct event **ret, uint32_t *ret_count,
                                struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_uuid(&params, stream->job);
    params_add_int8(&params, stream->after);
    params_add_int8(&params, stream->limit);
    const char *sql = stream->telemetry ? read_telemetry : read_stream;
    if (str_is_set(stream->type)) {
        params_add_str(&params, PARAM_TEXT, stream->type);
        sql = read_stream_of_type;
    }
    if (code == ERR_OK)
        code = txn_ask(txn, sql, &params, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct event *events = arena_zalloc(arena, count, sizeof *events);
    if (events == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        if (stream->telemetry)
            reader_telemetry(&reader, &events[i]);
        else
            reader_event(&reader, &events[i]);
        code = reader_check(&reader, "an event", err);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = events;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}

/* ---- the feed ---- */

/* Below the oldest transaction that still runs nothing can come any more. */
#define FEED_BEGIN                                                                                 \
    "SELECT e.xact::text::int8, e.seq, " EVENT_COLUMNS " FROM pawl.job_events e"                   \
    " WHERE (e.xact, e.seq) > ($1::int8::text::xid8, $2::int8)"
#define FEED_END " ORDER BY e.xact, e.seq LIMIT $3"
static const char read_feed[] =
    FEED_BEGIN " AND e.xact <= pg_snapshot_xmin(pg_current_snapshot())" FEED_END;

enum error_code postgres_feed(struct store_txn *handle, struct store_position after, uint32_t limit,
                              struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                              struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_int8(&params, after.major > INT64_MAX ? INT64_MAX : (int64_t)after.major);
    params_add_int8(&params, after.minor > INT64_MAX ? INT64_MAX : (int64_t)after.minor);
    params_add_int8(&params, limit);
    if (code == ERR_OK)
        code = txn_ask(txn, PLANTED(POSTGRES_FEED_GAP) ? FEED_BEGIN FEED_END : read_feed, &params,
                       &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct store_fed *fed = arena_zalloc(arena, count, sizeof *fed);
    if (fed == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        fed[i].position.major = (uint64_t)reader_int(&reader);
        fed[i].position.minor = (uint64_t)reader_int(&reader);
        reader_event(&reader, &fed[i].event);
        code = reader_check(&reader, "an event", err);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = fed;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}

/* $1: the life that the position is of; 0: of an older Pawl's, hence the first. With it the newest
 * life, whether $1 is one that the store has had, above which place events may have been lost
 * since, the same for all lives, and where nothing can be yet. */
static const char read_feed_state[] =
    "SELECT coalesce(max(i.number), 0), coalesce(bool_or(i.number = $1), false)::int4,"
    " coalesce(min(i.feed_floor) FILTER (WHERE i.number > $1), 9223372036854775807),"
    " coalesce(min(i.feed_floor), 0), pg_snapshot_xmin(pg_current_snapshot())::text::int8"
    " FROM pawl.incarnations i";

enum error_code postgres_feed_state(struct store_txn *handle, struct store_position after,
                                    struct store_feed_state *ret, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
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

/* ---- resources ---- */

enum error_code postgres_leases_on(struct store_txn *handle, struct str resource_id,
                                   struct arena *arena, struct store_lease **ret,
                                   uint32_t *ret_count, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    struct reader reader;
    PGresult *result = NULL;
    enum error_code code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_str(&params, PARAM_TEXT, resource_id);
    if (code == ERR_OK)
        code = txn_ask(txn,
                       "SELECT job_id, step FROM pawl.job_claims WHERE resource_id = $1"
                       " ORDER BY job_id, step",
                       &params, &result, err);
    if (code != ERR_OK)
        return txn_end_verb(txn, code);
    uint32_t count = (uint32_t)PQntuples(result);
    struct store_lease *leases = arena_zalloc(arena, count, sizeof *leases);
    if (leases == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        reader_row(&reader, (int)i);
        leases[i].job = reader_uuid(&reader);
        leases[i].step = reader_step(&reader);
        code = reader_check(&reader, "a lease", err);
    }
    PQclear(result);
    if (code == ERR_OK) {
        *ret = leases;
        *ret_count = count;
    }
    return txn_end_verb(txn, code);
}
