/* Reading: lists, streams, and who holds a resource. */
#include "store/postgres/postgres.h"

/* ---- lists ---- */

/* $1: id, $2: statuses, $3: kind, $4: queue, $5: agent_id, $6: correlation_id, $7 $8: a label,
 * $9: created after, $10: reason code, $11: before, $12: how many, $13: whether somebody is to be
 * asked, $14: queues, $15: a job without correlation id. The planner knows the values, and what is
 * not set is gone before it looks for an index. */
#define LIST_FILTERS                                                                               \
    " ($1::uuid IS NULL OR j.id = $1) AND ($3::text IS NULL OR j.kind = $3)"                       \
    " AND ($4::text IS NULL OR j.queue = $4) AND ($5::text IS NULL OR j.agent_id = $5)"            \
    " AND ($6::text IS NULL OR j.correlation_id = $6"                                              \
    " OR (j.id = $15::uuid AND j.correlation_id IS NULL))"                                         \
    " AND ($7::text IS NULL OR j.labels ->> $7 = $8)"                                              \
    " AND ($9::timestamptz IS NULL OR j.created_at > $9)"                                          \
    " AND ($10::int8 = 0 OR coalesce(c.reason_code, s.reason_code, 0) = $10)"                      \
    " AND ($11::uuid IS NULL OR j.id < $11)"                                                       \
    " AND ($13::int8 = 0 OR (s.asking AND c.job_id IS NULL))"                                      \
    " AND ($14::text[] IS NULL OR j.queue = ANY ($14))"                                            \
    " AND ($2::int4[] IS NULL OR coalesce(c.status, s.status, j.status) = ANY ($2))"
#define LIST_END " WHERE" LIST_FILTERS " ORDER BY j.id DESC LIMIT $12"

/* By an index of what is asked for; else from the newest job on. */
static const char list_any[] = "SELECT " JOB_COLUMNS " FROM pawl.job_rows j" JOB_JOINS LIST_END;

/* From the newest job on, until there are enough or so many ($16) were looked at. */
static const char list_newest[] =
    "SELECT " JOB_COLUMNS " FROM (SELECT * FROM pawl.job_rows WHERE ($11::uuid IS NULL OR id < $11)"
    " ORDER BY id DESC LIMIT $16) AS j" JOB_JOINS LIST_END;

/* Of statuses that few jobs have these are found first: they are held, or have gone on and will not
 * be deleted by themselves. They are looked at in order, until there are enough. */
#define LIST_OF(ids)                                                                               \
    "SELECT " JOB_COLUMNS " FROM (SELECT job_id FROM (" ids ") AS f GROUP BY job_id"               \
    " ORDER BY job_id DESC) AS f JOIN pawl.job_rows j ON j.id = f.job_id" JOB_JOINS LIST_END
#define WITH_STATUSES                                                                              \
    "SELECT job_id FROM pawl.claim_rows WHERE step = -1 AND status = ANY ($2)"                     \
    " UNION ALL SELECT s.job_id FROM unnest($2::int4[]) AS wanted (status)"                        \
    " JOIN pawl.state_rows s ON s.purge_at = 0 AND s.status = wanted.status"                       \
    " WHERE ($11::uuid IS NULL OR s.job_id < $11)"
/* Those that wait in lanes, which may be as they were made. */
#define IN_LANES                                                                                   \
    "SELECT job_id FROM pawl.ready WHERE step = -1"                                                \
    " UNION ALL SELECT job_id FROM pawl.timers WHERE kind = 0 AND step = -1"
static const char list_statuses[] = LIST_OF(WITH_STATUSES);
static const char list_waiting[] = LIST_OF(IN_LANES " UNION ALL " WITH_STATUSES);
static const char list_asking[] = LIST_OF("SELECT job_id FROM pawl.state_rows WHERE asking");
static const char count_waiting[] =
    "SELECT count(*) FROM (SELECT FROM (" IN_LANES ") AS w LIMIT $1) AS w";

/* Statuses that many jobs have: those that have ended and are to be deleted some time. */
static const uint32_t ended_statuses = 1u << JOB_COMPLETED | 1u << JOB_CANCELLED;

enum {
    WAITING_FEW = 10 * 1000, /* with more of them, one is met soon from the newest job on */
    LOOKED_AT_FIRST = 500,   /* of jobs that wait, before all of them are found */
    LOOKED_AT_MAX = 5000     /* by a list that walks over all jobs, if its caller can go on */
};

static const struct uuid no_job = {{0}};

/* How to find what a list asks for. */
static const char *list_statement(const struct store_filter *filter)
{
    if (filter->asking)
        return list_asking;
    if (!uuid_eq(filter->id, no_job) || str_is_set(filter->agent_id) ||
        str_is_set(filter->correlation_id))
        return list_any;
    if (filter->statuses == 0 || (filter->statuses & ended_statuses) != 0)
        return list_newest;
    return (filter->statuses >> JOB_QUEUED & 1) != 0 ? list_waiting : list_statuses;
}

/* The last of the jobs that such a list looks at, if there are as many. */
static const char find_reach[] = "SELECT id FROM pawl.job_rows WHERE ($1::uuid IS NULL OR id < $1)"
                                 " ORDER BY id DESC LIMIT 1 OFFSET $2 - 1";

static void params_add_id(struct params *params, struct uuid id)
{
    if (uuid_eq(id, no_job))
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

static enum error_code read_job(struct reader *reader, const struct rows *rows, void *ret,
                                struct err *err)
{
    const uint64_t *seed = rows->arg;
    struct store_job *job = ret;
    int row = reader->row;
    job->id = reader_uuid(reader);
    reader_init(reader, reader->result, reader->arena);
    reader_row(reader, row);
    enum error_code code = reader_slice(reader, *seed, &job->slice, err);
    job->redacted = job->slice.job.redacted;
    return row_damaged(job, *seed, code, reader->arena, err);
}

static enum error_code read_id(struct reader *reader, const struct rows *rows, void *ret,
                               struct err *err)
{
    (void)rows;
    *(struct uuid *)ret = reader_uuid(reader);
    return reader_check(reader, "a job", err);
}

static enum error_code bound_list(struct postgres_txn *txn, const struct store_filter *filter,
                                  struct store_reach *ret, struct err *err)
{
    struct params params;
    struct rows rows = {.size = sizeof ret->at, .read = read_id};
    params_init(&params, &txn->scratch);
    params_add_id(&params, filter->before);
    params_add_int8(&params, LOOKED_AT_MAX);
    enum error_code code = txn_rows(txn, find_reach, &params, &rows, &txn->scratch, err);
    ret->stopped = code == ERR_OK && rows.count > 0;
    if (ret->stopped)
        ret->at = *(struct uuid *)rows.at;
    return code;
}

/* Lists by one statement; one that walks looks at `most` jobs, 0: at all. */
static enum error_code list_by(struct postgres_txn *txn, const char *sql, uint32_t most,
                               const struct store_filter *filter, struct rows *rows,
                               struct arena *arena, struct err *err)
{
    struct params params;
    list_params(&params, filter, &txn->scratch);
    if (sql == list_newest && most > 0)
        params_add_int8(&params, most);
    else if (sql == list_newest)
        params_add_null(&params, PARAM_INT8);
    return txn_rows(txn, sql, &params, rows, arena, err);
}

/* Jobs that wait: mostly the newest jobs are among them. If not, all that wait are found, unless
 * they are so many that a walk must meet them. */
static enum error_code list_queued(struct postgres_txn *txn, const struct store_filter *filter,
                                   const char **sql, struct rows *rows, struct arena *arena,
                                   struct err *err)
{
    struct params params;
    int64_t waiting = 0;
    enum error_code code = list_by(txn, list_newest, LOOKED_AT_FIRST, filter, rows, arena, err);
    if (code != ERR_OK || rows->count == filter->limit)
        return code;
    params_init(&params, &txn->scratch);
    params_add_int8(&params, WAITING_FEW);
    code = txn_ask_int(txn, count_waiting, &params, &waiting, err);
    if (waiting >= WAITING_FEW)
        *sql = list_newest;
    uint32_t most = filter->reach == NULL ? 0 : LOOKED_AT_MAX;
    return code == ERR_OK ? list_by(txn, *sql, most, filter, rows, arena, err) : code;
}

enum error_code postgres_list(struct store_txn *handle, const struct store_filter *filter,
                              struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                              struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct rows rows = {
        .size = sizeof **ret, .read = read_job, .arg = &txn->store->base.options.seed};
    struct store_reach reach = {.stopped = false};
    const char *sql = list_statement(filter);
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK && sql == list_waiting)
        code = list_queued(txn, filter, &sql, &rows, arena, err);
    else if (code == ERR_OK)
        code =
            list_by(txn, sql, filter->reach == NULL ? 0 : LOOKED_AT_MAX, filter, &rows, arena, err);
    if (code == ERR_OK && sql == list_newest && filter->reach != NULL && rows.count < filter->limit)
        code = bound_list(txn, filter, &reach, err);
    if (code == ERR_OK && filter->reach != NULL)
        *filter->reach = reach;
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return txn_end_verb(txn, code);
}

/* ---- events ---- */

/* Versions follow each other, so that the last is known. */
static const char read_stream[] =
    "SELECT " EVENT_COLUMNS " FROM pawl.events_of($1, $2::int8, $2::int8 + $3::int8) AS e"
    " ORDER BY e.version LIMIT $3";

static const char read_stream_of_type[] =
    "SELECT " EVENT_COLUMNS " FROM pawl.events_of($1, $2, 9223372036854775807) AS e"
    " WHERE e.type = $4 ORDER BY e.version LIMIT $3";

static const char read_telemetry[] =
    "SELECT job_id, at, type, payload, actor, cause, correlation_id, version"
    " FROM pawl.job_telemetry"
    " WHERE job_id = $1 AND at > $2 ORDER BY at, n LIMIT $3";

static enum error_code read_event(struct reader *reader, const struct rows *rows, void *ret,
                                  struct err *err)
{
    const struct store_stream *stream = rows->arg;
    struct event *event = ret;
    if (!stream->telemetry) {
        reader_event(reader, event);
        return reader_check(reader, "an event", err);
    }
    *event = (struct event){.job_id = reader_uuid(reader)};
    event->at = reader_int(reader);
    event->type_name = reader_str(reader);
    event->type = event_type_parse(event->type_name);
    event->payload = reader_str(reader);
    event->actor = reader_str(reader);
    event->cause_text = reader_str(reader);
    event->correlation_id = reader_str(reader);
    event->version = reader_int(reader);
    return reader_check(reader, "an event", err);
}

enum error_code postgres_events(struct store_txn *handle, const struct store_stream *stream,
                                struct arena *arena, struct event **ret, uint32_t *ret_count,
                                struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    struct rows rows = {.size = sizeof **ret, .read = read_event, .arg = stream};
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
        code = txn_rows(txn, sql, &params, &rows, arena, err);
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return txn_end_verb(txn, code);
}

/* ---- resources ---- */

static enum error_code read_lease(struct reader *reader, const struct rows *rows, void *ret,
                                  struct err *err)
{
    struct store_lease *lease = ret;
    (void)rows;
    lease->job = reader_uuid(reader);
    lease->step = reader_step(reader);
    return reader_check(reader, "a lease", err);
}

enum error_code postgres_leases_on(struct store_txn *handle, struct str resource_id,
                                   struct arena *arena, struct store_lease **ret,
                                   uint32_t *ret_count, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct params params;
    struct rows rows = {.size = sizeof **ret, .read = read_lease};
    enum error_code code = txn_start(txn, err);
    params_init(&params, &txn->scratch);
    params_add_str(&params, PARAM_TEXT, resource_id);
    if (code == ERR_OK)
        code = txn_rows(txn,
                        "SELECT job_id, step FROM pawl.claim_rows WHERE resource_id = $1"
                        " ORDER BY job_id, step",
                        &params, &rows, arena, err);
    if (code == ERR_OK) {
        *ret = rows.at;
        *ret_count = rows.count;
    }
    return txn_end_verb(txn, code);
}
