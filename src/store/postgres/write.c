/* write: one statement a table, whatever the size of the batch; all of them are queued and go out
 * with COMMIT. So what they come to is known when commit returns. */
#include <assert.h>

#include "core/event_type.h"
#include "store/postgres/postgres.h"

/* ---- events ---- */

/* `xact` is the column's default, worked out once for all rows. */
static const char insert_events[] =
    "INSERT INTO pawl.job_events (job_id, version, created_at, xact, redacted, type, payload,"
    " actor, cause, correlation_id, digest, hash, id)"
    " SELECT job_id, version, created_at, (SELECT greatest("
    "(pg_current_xact_id()::text::int8 + 1)::text::xid8,"
    " pg_snapshot_xmax(pg_current_snapshot()))), redacted IS NOT NULL, type, payload, actor, cause,"
    " correlation_id, digest, hash, id"
    " FROM unnest($1::uuid[], $2::int8[], $3::timestamptz[], $4::text[], $5::json[], $6::text[],"
    " $7::text[], $8::text[], $9::bytea[], $10::bytea[], $11::uuid[], $12::bool[]) WITH ORDINALITY"
    " AS e (job_id, version, created_at, type, payload, actor, cause, correlation_id, digest, hash,"
    " id, redacted, n) ORDER BY n";

static const char insert_telemetry[] =
    "INSERT INTO pawl.job_telemetry (job_id, at, type, payload, actor, cause, correlation_id,"
    " version) SELECT job_id, at, type, payload, actor, cause, correlation_id, version"
    " FROM unnest($1::uuid[], $2::int8[], $3::text[], $4::json[], $5::text[], $6::text[],"
    " $7::text[], $8::int8[]) WITH ORDINALITY"
    " AS e (job_id, at, type, payload, actor, cause, correlation_id, version, n) ORDER BY n";

struct event_arrays {
    struct array jobs;
    struct array numbers; /* versions, or times */
    struct array times;
    struct array types;
    struct array payloads;
    struct array actors;
    struct array causes;
    struct array correlations;
    struct array digests;
    struct array hashes;
    struct array ids;
    struct array redacted; /* true, or NULL */
    struct array versions; /* of telemetry */
};

static void event_arrays_init(struct event_arrays *arrays, struct arena *arena, uint32_t count)
{
    array_init(&arrays->jobs, arena, PARAM_UUID, count);
    array_init(&arrays->numbers, arena, PARAM_INT8, count);
    array_init(&arrays->times, arena, PARAM_TIME, count);
    array_init(&arrays->types, arena, PARAM_TEXT, count);
    array_init(&arrays->payloads, arena, PARAM_JSON, count);
    array_init(&arrays->actors, arena, PARAM_TEXT, count);
    array_init(&arrays->causes, arena, PARAM_TEXT, count);
    array_init(&arrays->correlations, arena, PARAM_TEXT, count);
    array_init(&arrays->digests, arena, PARAM_BYTEA, count);
    array_init(&arrays->hashes, arena, PARAM_BYTEA, count);
    array_init(&arrays->ids, arena, PARAM_UUID, count);
    array_init(&arrays->redacted, arena, PARAM_BOOL, count);
    array_init(&arrays->versions, arena, PARAM_INT8, count);
}

static void event_arrays_add(struct event_arrays *arrays, const struct event *event, bool telemetry)
{
    array_add_uuid(&arrays->jobs, event->job_id);
    array_add_int8(&arrays->numbers, telemetry ? event->at : event->version);
    array_add_str(&arrays->types, event_name(event));
    array_add_str(&arrays->payloads, event->payload);
    array_add_str(&arrays->actors, event->actor);
    array_add_str(&arrays->causes, event->cause_text);
    array_add_str(&arrays->correlations, event->correlation_id);
    if (telemetry) {
        array_add_int8(&arrays->versions, event->version);
        return;
    }
    array_add_time(&arrays->times, event->at);
    array_add_bytes(&arrays->digests, event->digest, sizeof event->digest);
    array_add_bytes(&arrays->hashes, event->hash, sizeof event->hash);
    array_add_uuid(&arrays->ids, event_id(event));
    if (event->redacted)
        array_add_bool(&arrays->redacted, true);
    else
        array_add_null(&arrays->redacted);
}

static bool is_telemetry(const struct event *event)
{
    return event_type_class(event->type) == EVENT_CLASS_TELEMETRY;
}

static enum error_code write_events(struct postgres_txn *txn, const struct store_write *write,
                                    bool telemetry, struct err *err)
{
    struct event_arrays arrays;
    struct params params;
    uint32_t count = 0;
    for (uint32_t i = 0; i < write->job_count; i++)
        for (uint32_t k = 0; k < write->jobs[i].event_count; k++)
            count += is_telemetry(&write->jobs[i].events[k]) == telemetry;
    if (count == 0)
        return ERR_OK;
    event_arrays_init(&arrays, &txn->scratch, count);
    for (uint32_t i = 0; i < write->job_count; i++)
        for (uint32_t k = 0; k < write->jobs[i].event_count; k++)
            if (is_telemetry(&write->jobs[i].events[k]) == telemetry)
                event_arrays_add(&arrays, &write->jobs[i].events[k], telemetry);
    params_init(&params, &txn->scratch);
    params_add_array(&params, &arrays.jobs);
    params_add_array(&params, &arrays.numbers);
    if (!telemetry)
        params_add_array(&params, &arrays.times);
    params_add_array(&params, &arrays.types);
    params_add_array(&params, &arrays.payloads);
    params_add_array(&params, &arrays.actors);
    params_add_array(&params, &arrays.causes);
    params_add_array(&params, &arrays.correlations);
    if (telemetry) {
        params_add_array(&params, &arrays.versions);
    } else {
        params_add_array(&params, &arrays.digests);
        params_add_array(&params, &arrays.hashes);
        params_add_array(&params, &arrays.ids);
        params_add_array(&params, &arrays.redacted);
    }
    return connection_send_quiet(txn->connection, telemetry ? insert_telemetry : insert_events,
                                 &params, err);
}

/* ---- rows of jobs ---- */

static const char insert_jobs[] =
    "INSERT INTO pawl.jobs (id, created_at, updated_at, version, purge_at, status, retry_count,"
    " reason_code, redacted, head, cursor, state, asking, shelf, salt, priority, kind, queue,"
    " agent_id, goal, correlation_id, idempotency_key, labels)"
    " SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::int8[],"
    " $5::int8[], $6::int4[], $7::int8[], $8::int4[], $9::bool[], $10::bytea[], $11::text[],"
    " $12::json[], $13::bool[], $14::int4[], $15::bytea[], $16::int4[], $17::text[], $18::text[],"
    " $19::text[], $20::text[], $21::text[], $22::text[], $23::json[])";

/* What the first event says never changes; redaction is a statement of its own. */
#define UPDATE_JOBS                                                                                \
    "UPDATE pawl.jobs j SET updated_at = u.updated_at, version = u.version,"                       \
    " purge_at = u.purge_at, status = u.status, retry_count = u.retry_count,"                      \
    " reason_code = u.reason_code, head = u.head, cursor = u.cursor, state = u.state,"             \
    " asking = u.asking, shelf = u.shelf"                                                          \
    " FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::int8[], $5::int8[],"       \
    " $6::int4[], $7::int8[], $8::int4[], $9::bool[], $10::bytea[], $11::text[], $12::json[],"     \
    " $13::bool[], $14::int4[], $15::tid[])"                                                       \
    " AS u (id, created_at, updated_at, version, purge_at, status, retry_count, reason_code,"      \
    " redacted, head, cursor, state, asking, shelf, place) WHERE "

/* By their places, when all are known, or by a look into the index. */
static const char update_jobs[] = UPDATE_JOBS "j.id = u.id";
static const char update_jobs_there[] = UPDATE_JOBS "j.ctid = u.place AND j.id = u.id";

struct job_arrays {
    struct array ids;
    struct array created;
    struct array updated;
    struct array versions;
    struct array purges;
    struct array statuses;
    struct array retries;
    struct array reasons;
    struct array redacted;
    struct array heads;
    struct array cursors;
    struct array states;
    struct array asking;
    struct array shelves;
    struct array places; /* of old jobs only */
    struct array salts;  /* from here on: of new jobs only */
    struct array priorities;
    struct array kinds;
    struct array queues;
    struct array agents;
    struct array goals;
    struct array correlations;
    struct array keys;
    struct array labels;
};

enum { JOB_ARRAYS = sizeof(struct job_arrays) / sizeof(struct array), JOB_ARRAYS_SHARED = 14 };

static void job_arrays_init(struct job_arrays *arrays, struct arena *arena, uint32_t count)
{
    static const enum param_type types[JOB_ARRAYS] = {
        PARAM_UUID, PARAM_TIME, PARAM_TIME, PARAM_INT8,  PARAM_INT8, PARAM_INT4,
        PARAM_INT8, PARAM_INT4, PARAM_BOOL, PARAM_BYTEA, PARAM_TEXT, PARAM_JSON,
        PARAM_BOOL, PARAM_INT4, PARAM_TID,  PARAM_BYTEA, PARAM_INT4, PARAM_TEXT,
        PARAM_TEXT, PARAM_TEXT, PARAM_TEXT, PARAM_TEXT,  PARAM_TEXT, PARAM_JSON};
    struct array *at = &arrays->ids;
    for (int i = 0; i < JOB_ARRAYS; i++)
        array_init(&at[i], arena, types[i], count);
}

/* Where a job is listed: a claim leaves it there, since moving costs an entry in every index. */
static int64_t shelf_of(const struct store_job_write *job)
{
    return job->now.leased ? JOB_QUEUED : job->after->job.status;
}

static void job_arrays_add(struct job_arrays *arrays, const struct store_job_write *job,
                           const struct job_row *row, const struct row_place *place)
{
    array_add_uuid(&arrays->ids, row->id);
    array_add_time(&arrays->created, row->created_at);
    array_add_time(&arrays->updated, row->updated_at);
    array_add_int8(&arrays->versions, row->version);
    if (row->purge_at != 0)
        array_add_int8(&arrays->purges, row->purge_at);
    else
        array_add_null(&arrays->purges);
    array_add_int4(&arrays->statuses, row->status);
    array_add_int8(&arrays->retries, row->retry_count);
    array_add_int4(&arrays->reasons, row->reason_code);
    array_add_bool(&arrays->redacted, row->redacted);
    array_add_bytes(&arrays->heads, row->head, sizeof row->head);
    array_add_free_text(&arrays->cursors, row->cursor);
    array_add_str(&arrays->states, row->state);
    array_add_bool(&arrays->asking, row->asking);
    array_add_int4(&arrays->shelves, shelf_of(job));
    if (!job->created) {
        if (place != NULL)
            array_add_tid(&arrays->places, place->job);
        else
            array_add_null(&arrays->places);
        return;
    }
    array_add_bytes(&arrays->salts, row->salt, sizeof row->salt);
    array_add_int4(&arrays->priorities, row->priority);
    array_add_str(&arrays->kinds, row->kind);
    array_add_str(&arrays->queues, row->queue);
    array_add_str(&arrays->agents, row->agent_id);
    array_add_free_text(&arrays->goals, row->goal);
    array_add_str(&arrays->correlations, row->correlation_id);
    array_add_str(&arrays->keys, row->idempotency_key);
    array_add_str(&arrays->labels, row->labels);
}

static bool writes_row(const struct store_job_write *job, bool created)
{
    return job->created == created && (created || !store_row_same(job->changed));
}

static enum error_code write_jobs(struct postgres_txn *txn, const struct store_write *write,
                                  bool created, struct err *err)
{
    struct job_arrays arrays;
    struct params params;
    uint32_t count = 0;
    for (uint32_t i = 0; i < write->job_count; i++)
        count += writes_row(&write->jobs[i], created);
    if (count == 0)
        return ERR_OK;
    job_arrays_init(&arrays, &txn->scratch, count);
    for (uint32_t i = 0; i < write->job_count; i++) {
        struct job_row row;
        if (!writes_row(&write->jobs[i], created))
            continue;
        if (row_of_job(&write->jobs[i], &txn->scratch, &row) != ERR_OK)
            return out_of_memory(err);
        job_arrays_add(&arrays, &write->jobs[i], &row, created ? NULL : txn_place_of(txn, row.id));
        enum error_code code = ERR_OK;
        if (row.purge_at != 0)
            code = txn_note(txn, &txn->puts, LINE_PURGE,
                            (struct mark_place){0, row.purge_at, row.id, -1}, err);
        if (code != ERR_OK)
            return code;
    }
    params_init(&params, &txn->scratch);
    struct array *at = &arrays.ids;
    for (int i = 0; i < JOB_ARRAYS_SHARED; i++)
        params_add_array(&params, &at[i]);
    if (!created)
        params_add_array(&params, &arrays.places);
    for (int i = JOB_ARRAYS_SHARED + 1; i < JOB_ARRAYS && created; i++)
        params_add_array(&params, &at[i]);
    const char *update = arrays.places.nulls == 0 ? update_jobs_there : update_jobs;
    return connection_send_quiet(txn->connection, created ? insert_jobs : update, &params, err);
}

/* ---- redaction ---- */

static const char *const redactions[] = {
    "UPDATE pawl.job_events SET payload = NULL, redacted = true WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_telemetry WHERE job_id = ANY ($1)",
    ("UPDATE pawl.jobs SET redacted = true, salt = decode(repeat('00', 16), 'hex'), goal = NULL,"
     " labels = NULL WHERE id = ANY ($1)"),
};

static enum error_code write_redactions(struct postgres_txn *txn, const struct store_write *write,
                                        struct err *err)
{
    struct params params;
    struct array ids;
    enum error_code code = ERR_OK;
    array_init(&ids, &txn->scratch, PARAM_UUID, 1);
    for (uint32_t i = 0; i < write->job_count; i++)
        if (write->jobs[i].redact)
            array_add_uuid(&ids, write->jobs[i].after->job.id);
    if (ids.count == 0)
        return ERR_OK;
    params_init(&params, &txn->scratch);
    params_add_array(&params, &ids);
    for (size_t i = 0; i < sizeof redactions / sizeof redactions[0] && code == ERR_OK; i++)
        code = connection_send_quiet(txn->connection, redactions[i], &params, err);
    return code;
}

/* ---- purging ---- */

/* $2: the time. */
static const char leave_heads[] =
    "INSERT INTO pawl.purged (job_id, version, head, at) SELECT id, version, head, $2"
    " FROM pawl.jobs WHERE id = ANY ($1) ON CONFLICT (job_id) DO UPDATE SET"
    " version = excluded.version, head = excluded.head, at = excluded.at";

static const char *const purges[] = {
    "DELETE FROM pawl.timers t USING pawl.job_steps s WHERE s.job_id = ANY ($1)"
    " AND s.lane IS NOT NULL AND t.kind = 0 AND t.at = s.run_at AND t.job_id = s.job_id"
    " AND t.step = s.ordinal",
    "DELETE FROM pawl.timers t USING pawl.job_steps s WHERE s.job_id = ANY ($1)"
    " AND s.due_at > 0 AND t.kind = 1 AND t.at = s.due_at AND t.job_id = s.job_id"
    " AND t.step = s.ordinal",
    "DELETE FROM pawl.ready r USING pawl.job_steps s WHERE s.job_id = ANY ($1)"
    " AND r.lane = s.lane AND r.rank = s.rank AND r.run_at = s.run_at AND r.job_id = s.job_id"
    " AND r.step = s.ordinal",
    "DELETE FROM pawl.job_claims WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_steps WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_effects WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_signals WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_telemetry WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_events WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.jobs WHERE id = ANY ($1)",
};

static enum error_code write_purges(struct postgres_txn *txn, const struct store_write *write,
                                    struct err *err)
{
    struct params params;
    struct params timed;
    struct array ids;
    int64_t now;
    if (write->purged_count == 0)
        return ERR_OK;
    enum error_code code = txn_now(txn, &now, err);
    if (code != ERR_OK)
        return code;
    array_init(&ids, &txn->scratch, PARAM_UUID, write->purged_count);
    for (uint32_t i = 0; i < write->purged_count; i++)
        array_add_uuid(&ids, write->purged[i]);
    params_init(&params, &txn->scratch);
    params_add_array(&params, &ids);
    params_init(&timed, &txn->scratch);
    params_add_array(&timed, &ids);
    params_add_int8(&timed, now);
    code = connection_send_quiet(txn->connection, leave_heads, &timed, err);
    for (size_t i = 0; i < sizeof purges / sizeof purges[0] && code == ERR_OK; i++)
        code = connection_send_quiet(txn->connection, purges[i], &params, err);
    return code;
}

/* ---- where everything stood and stands ---- */

/* A new plan gives the places of the old one's steps to others: nothing stands anywhere. */
static const struct placement nowhere = {.due_at = 0};

static uint32_t collect_spots(const struct store_write *write, struct spot *ret)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        ret[count++] = (struct spot){
            .job = job->after->job.id,
            .step = -1,
            .header = &job->after->job,
            .was = &job->was,
            .now = &job->now,
        };
        for (uint32_t k = 0; k < job->step_count; k++)
            ret[count++] = (struct spot){
                .job = job->after->job.id,
                .step = job->steps[k].step->ordinal,
                .header = &job->after->job,
                .part = job->steps[k].step,
                .was = job->plan_replaced ? &nowhere : &job->steps[k].was,
                .now = &job->steps[k].now,
            };
    }
    return count;
}

/* The numbers of all lanes that are named, in the order in which they come. */
static enum error_code number_spots(struct postgres_txn *txn, struct spots *spots, bool now,
                                    struct err *err)
{
    struct str *keys = arena_alloc(&txn->scratch, (spots->count + (size_t)1) * sizeof *keys);
    uint32_t *numbers = arena_alloc(&txn->scratch, (spots->count + (size_t)1) * sizeof *numbers);
    uint32_t count = 0;
    if (keys == NULL || numbers == NULL)
        return out_of_memory(err);
    for (uint32_t i = 0; i < spots->count; i++) {
        struct str lane = now ? spots->at[i].now->lane : spots->at[i].was->lane;
        if (str_is_set(lane))
            keys[count++] = lane;
    }
    if (count == 0)
        return ERR_OK;
    enum error_code code = lanes_number(txn, keys, count, now, numbers, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0, at = 0; i < spots->count; i++) {
        struct spot *spot = &spots->at[i];
        if (!str_is_set(now ? spot->now->lane : spot->was->lane))
            continue;
        if (now && numbers[at] == 0)
            return err_set(err, ERR_RATE_LIMITED,
                           "there are over %d different combinations of queue, kind, capabilities, "
                           "selector and avoid list",
                           STORE_LANES_MAX);
        *(now ? &spot->now_lane : &spot->was_lane) = numbers[at++];
    }
    return ERR_OK;
}

static enum error_code make_spots(struct postgres_txn *txn, const struct store_write *write,
                                  struct spots *ret, struct err *err)
{
    size_t count = write->job_count;
    for (uint32_t i = 0; i < write->job_count; i++)
        count += write->jobs[i].step_count;
    struct spots spots = {.at = arena_alloc(&txn->scratch, (count + 1) * sizeof *spots.at)};
    if (spots.at == NULL)
        return out_of_memory(err);
    spots.count = collect_spots(write, spots.at);
    enum error_code code = number_spots(txn, &spots, false, err);
    if (code == ERR_OK)
        code = number_spots(txn, &spots, true, err);
    if (code == ERR_OK)
        *ret = spots;
    return code;
}

enum error_code postgres_write(struct store_txn *handle, const struct store_write *write,
                               struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct spots spots;
    int64_t now;
    enum error_code code = txn_start(txn, err);
    if (code == ERR_OK)
        code = txn_now(txn, &now, err);
    if (code == ERR_OK)
        code = make_spots(txn, write, &spots, err);
    txn->wrote = true;
    txn_sort_places(txn);
    if (code == ERR_OK)
        code = write_events(txn, write, false, err);
    if (code == ERR_OK)
        code = write_events(txn, write, true, err);
    if (code == ERR_OK)
        code = write_jobs(txn, write, true, err);
    if (code == ERR_OK)
        code = write_jobs(txn, write, false, err);
    if (code == ERR_OK)
        code = write_closings(txn, write, err);
    if (code == ERR_OK)
        code = write_places(txn, &spots, err);
    if (code == ERR_OK)
        code = write_parts(txn, write, &spots, err);
    if (code == ERR_OK)
        code = write_redactions(txn, write, err);
    if (code == ERR_OK)
        code = write_settings(txn, write, err);
    if (code == ERR_OK)
        code = write_purges(txn, write, err);
    return txn_end_verb(txn, code);
}
