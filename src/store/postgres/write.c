/* write: one statement a table, whatever the size of the batch; all of them are queued and go out
 * with COMMIT. So what they come to is known when commit returns. */
#include <assert.h>

#include "base/json.h"
#include "core/event_type.h"
#include "store/postgres/postgres.h"

/* ---- events ---- */

static bool is_telemetry(const struct event *event)
{
    return event_type_class(event->type) == EVENT_CLASS_TELEMETRY;
}

/* An event without its payload: see the migration for the form. */
static void add_about(struct json_writer *writer, const struct event *event)
{
    json_begin_array(writer);
    json_put_int(writer, event->version);
    json_put_string(writer, event_name(event));
    json_put_int(writer, event->at);
    json_put_string(writer, event->actor);
    json_put_string(writer, event->cause_text);
    json_put_string(writer, event->correlation_id);
    if (event->redacted)
        json_put_hex(writer, event->digest, sizeof event->digest);
    json_end_array(writer);
}

static void add_event(struct buf *buf, const struct event *event)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    add_about(&writer, event);
    buf_add_char(buf, ',');
    buf_add(buf, str_is_set(event->payload) ? event->payload : STR("null"));
}

/* What a job gains. The first event of a new job is apart, in its row. */
static enum error_code pack(struct postgres_txn *txn, const struct store_job_write *job,
                            struct packing *ret, struct err *err)
{
    struct buf record;
    struct buf hashes;
    struct packing packing = {0};
    buf_init(&record, &txn->scratch, 256);
    buf_init(&hashes, &txn->scratch, 4 * HASH_LEN);
    for (uint32_t i = 0; i < job->event_count; i++) {
        const struct event *event = &job->events[i];
        if (is_telemetry(event))
            continue;
        if (packing.count++ == 0)
            packing.first = event;
        if (job->created && packing.first == event)
            continue;
        buf_add_char(&record, ',');
        add_event(&record, event);
        buf_add(&hashes, (struct str){(const char *)event->hash, sizeof event->hash});
    }
    packing.record = buf_str(&record);
    packing.hashes = buf_str(&hashes);
    if (record.failed || hashes.failed)
        return out_of_memory(err);
    *ret = packing;
    return ERR_OK;
}

#define TELEMETRY_FIELDS(F, X)                                                                     \
    F(1, job_id, uuid, uuid, event->job_id)                                                        \
    X(2, at, int8, int8, event->at)                                                                \
    X(3, type, text, str, event_name(event))                                                       \
    X(4, payload, json, str, event->payload)                                                       \
    X(5, actor, text, str, event->actor)                                                           \
    X(6, cause, text, str, event->cause_text)                                                      \
    X(7, correlation_id, text, str, event->correlation_id)                                         \
    X(8, version, int8, int8, event->version)

static const char insert_telemetry[] = INSERT_FIELDS("job_telemetry", TELEMETRY_FIELDS);

static enum error_code write_telemetry(struct postgres_txn *txn, const struct store_write *write,
                                       struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, TELEMETRY_FIELDS);
    for (uint32_t i = 0; i < write->job_count; i++)
        for (uint32_t k = 0; k < write->jobs[i].event_count; k++) {
            const struct event *event = &write->jobs[i].events[k];
            if (is_telemetry(event))
                COLUMNS_ADD(&columns, TELEMETRY_FIELDS);
        }
    return send_columns(txn, insert_telemetry, &columns, err);
}

/* ---- rows of jobs ---- */

#define JOB_FIELDS(F, X)                                                                           \
    F(1, id, uuid, uuid, row->id)                                                                  \
    X(2, created_at, timestamptz, time, row->created_at)                                           \
    X(3, priority, int4, int4, row->priority)                                                      \
    X(4, status, int4, int4, row->status)                                                          \
    X(5, redacted, bool, bool, row->redacted)                                                      \
    X(6, salt, bytea, bytes, row->salt, sizeof row->salt)                                          \
    X(7, hash, bytea, bytes, first->hash, sizeof first->hash)                                      \
    X(8, kind, text, str, row->kind)                                                               \
    X(9, queue, text, str, row->queue)                                                             \
    X(10, agent_id, text, str, row->agent_id)                                                      \
    X(11, correlation_id, text, str, row->correlation_id)                                          \
    X(12, idempotency_key, text, str, row->idempotency_key)                                        \
    X(13, labels, json, str, row->labels)                                                          \
    X(14, state, text, str, row->state)                                                            \
    X(15, first, text, str, buf_str(&about))                                                       \
    X(16, created, text, str, first->payload)

static const char insert_jobs[] = INSERT_FIELDS("job_rows", JOB_FIELDS);

static enum error_code write_jobs(struct postgres_txn *txn, const struct spots *spots,
                                  struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, JOB_FIELDS);
    for (uint32_t i = 0; i < spots->count; i++) {
        const struct job_row *row = &spots->at[i].row;
        const struct event *first = spots->at[i].packing.first;
        struct json_writer writer;
        struct buf about;
        if (spots->at[i].part != NULL || !spots->at[i].write->created)
            continue;
        assert(first != NULL);
        buf_init(&about, &txn->scratch, 96);
        json_writer_init(&writer, &about);
        add_about(&writer, first);
        if (about.failed)
            return out_of_memory(err);
        COLUMNS_ADD(&columns, JOB_FIELDS);
    }
    return send_columns(txn, insert_jobs, &columns, err);
}

/* ---- what becomes of jobs ---- */

#define STATE_FIELDS(F, X)                                                                         \
    F(1, job_id, uuid, uuid, row->id)                                                              \
    X(2, created_at, timestamptz, time, row->created_at)                                           \
    X(3, updated_at, timestamptz, time, row->updated_at)                                           \
    X(4, version, int8, int8, row->version)                                                        \
    X(5, purge_at, int8, int8, row->purge_at)                                                      \
    X(6, status, int4, int4, row->status)                                                          \
    X(7, retry_count, int4, int4, row->retry_count)                                                \
    X(8, reason_code, int4, int4, row->reason_code)                                                \
    X(9, asking, bool, bool, row->asking)                                                          \
    X(10, queue, text, str, row->queue)                                                            \
    X(11, hashes, bytea, str, spot->packing.hashes)                                                \
    X(12, cursor, text, free_text, row->cursor)                                                    \
    X(13, state, text, str, row->state)                                                            \
    X(14, record, text, str, spot->packing.record)
#define STATE_ROWS FIELD_ROWS(STATE_FIELDS)
#define INSERT_STATES "INSERT INTO pawl.state_rows AS s (" FIELD_NAMES(STATE_FIELDS) ") "
/* The version is NULL, which there is not, if what was loaded was not the newest. */
#define NEXT_VERSION(was, now, hashes)                                                             \
    "CASE WHEN " was " <= " now " - octet_length(" hashes ") / 32 THEN " now " END"
/* The events of a lease go with it. */
#define HELD_ROWS PLACED_ROWS(STATE_FIELDS, "claim_rows", "p.job_id = u.job_id AND p.step = -1")
#define HELD_NEXT NEXT_VERSION("was", "version", "hashes")
#define LEASED_STATES                                                                              \
    "WITH gone AS (DELETE FROM pawl.claim_rows c USING " HELD_ROWS " WHERE c.ctid = u.place"       \
    " RETURNING u.*, c.version AS was, c.hashes AS held_hashes, c.record AS held_record"           \
    ") " INSERT_STATES "SELECT job_id, created_at, updated_at, " HELD_NEXT                         \
    ", purge_at, status, retry_count, reason_code, asking, queue, held_hashes || hashes, cursor,"  \
    " state, held_record || record FROM gone"
#define FREE_STATES INSERT_STATES "SELECT * FROM " STATE_ROWS
/* Where there is a row already, or may be. */
#define OVER_STATES                                                                                \
    " ON CONFLICT (job_id) DO UPDATE SET updated_at = excluded.updated_at, version "               \
    "= " NEXT_VERSION(                                                                             \
        "s.version", "excluded.version",                                                           \
        "excluded.hashes") ", purge_at = excluded.purge_at, status = excluded.status,"             \
                           " retry_count = excluded.retry_count, reason_code = "                   \
                           "excluded.reason_code,"                                                 \
                           " asking = excluded.asking, hashes = s.hashes || excluded.hashes,"      \
                           " cursor = excluded.cursor, state = excluded.state, record = s.record " \
                           "|| excluded.record"

static const char *const put_states[2][2] = {
    {FREE_STATES, FREE_STATES OVER_STATES},
    {LEASED_STATES, LEASED_STATES OVER_STATES},
};

/* Whether what becomes of the job is in state_rows. As long as it is in the lane in which it was
 * made its own row says all. */
static bool writes_state(const struct spot *spot)
{
    const struct store_job_write *job = spot->write;
    const struct job_row *row = &spot->row;
    if (spot->part != NULL || spot->now->leased)
        return false;
    if (!job->created)
        return spot->was->leased || !store_row_same(job->changed);
    return row->version != 1 || !str_is_set(spot->now->lane) || row->purge_at != 0 || row->asking ||
           row->retry_count != 0 || row->reason_code != 0 || str_is_set(row->cursor) ||
           row->updated_at != row->created_at;
}

static enum error_code write_states(struct postgres_txn *txn, const struct spots *spots,
                                    bool leased, bool over, struct err *err)
{
    struct columns columns;
    COLUMNS_INIT(&columns, &txn->scratch, STATE_FIELDS);
    for (uint32_t i = 0; i < spots->count; i++) {
        const struct spot *spot = &spots->at[i];
        const struct job_row *row = &spot->row;
        if (!writes_state(spot) || spot->was->leased != leased || spot->may_have_state != over)
            continue;
        COLUMNS_ADD(&columns, STATE_FIELDS);
        if (row->purge_at == 0)
            continue;
        struct mark_place place = {0, row->purge_at, spot->job, -1};
        enum error_code code = txn_note(txn, &txn->puts, LINE_PURGE, place, err);
        if (code != ERR_OK)
            return code;
    }
    return send_columns(txn, put_states[leased][over], &columns, err);
}

/* ---- records that are full ---- */

#define MOVE_RECORD(table, rows)                                                                   \
    {                                                                                              \
        "INSERT INTO pawl.history (job_id, first, hashes, record)"                                 \
        " SELECT job_id, substring(record FROM '[0-9]+')::int8, hashes, record FROM pawl." table   \
        " WHERE " rows,                                                                            \
            "UPDATE pawl." table " SET hashes = '', record = '' WHERE " rows                       \
    }

static const char *const move_records[2][2] = {
    MOVE_RECORD("state_rows", "job_id = ANY ($1) AND record <> ''"),
    MOVE_RECORD("claim_rows", "job_id = ANY ($1) AND step = -1"),
};

/* What has no room for what comes now is put away first; before the events of a lease those that
 * are older, so that the versions of a record always follow each other. */
static enum error_code write_history(struct postgres_txn *txn, const struct spots *spots,
                                     bool leased, struct err *err)
{
    struct columns columns;
    static const enum param_type types[] = {PARAM_UUID};
    columns_init(&columns, &txn->scratch, types, 1);
    for (uint32_t i = 0; i < spots->count; i++) {
        const struct spot *spot = &spots->at[i];
        const struct job_note *note = spot->part == NULL ? txn_job(txn, spot->job) : NULL;
        if (note == NULL || spot->packing.hashes.len == 0 || spot->now->leased != leased)
            continue;
        if (leased ? note->is_claim_full && spot->was->leased : note->is_state_full)
            array_add_uuid(&columns.at[0], spot->job);
    }
    enum error_code code = ERR_OK;
    for (int i = 0; i < (leased ? 4 : 2) && code == ERR_OK; i++)
        code = send_columns(txn, move_records[i / 2][i % 2], &columns, err);
    return code;
}

/* ---- the feed ---- */

static enum error_code make_entry(struct postgres_txn *txn, const struct spots *spots,
                                  struct err *err)
{
    struct feed_entry *entry = &txn->entry;
    const struct packing *first = NULL;
    bool is_uniform = true;
    array_init(&entry->jobs, &txn->scratch, PARAM_UUID, spots->count);
    array_init(&entry->versions, &txn->scratch, PARAM_INT8, spots->count);
    array_init(&entry->counts, &txn->scratch, PARAM_INT4, spots->count);
    for (uint32_t i = 0; i < spots->count; i++) {
        const struct packing *packing = &spots->at[i].packing;
        if (spots->at[i].part != NULL || packing->count == 0)
            continue;
        first = first == NULL ? packing : first;
        is_uniform = is_uniform && packing->count == first->count &&
                     packing->first->version == first->first->version;
        array_add_uuid(&entry->jobs, spots->at[i].job);
        array_add_int8(&entry->versions, packing->first->version);
        array_add_int4(&entry->counts, packing->count);
    }
    if (first != NULL && is_uniform) {
        array_init(&entry->versions, &txn->scratch, PARAM_INT8, 1);
        array_init(&entry->counts, &txn->scratch, PARAM_INT4, 1);
        array_add_int8(&entry->versions, first->first->version);
        array_add_int4(&entry->counts, first->count);
    }
    txn->has_entry = first != NULL;
    return entry->jobs.buf.failed ? out_of_memory(err) : ERR_OK;
}

/* ---- redaction ---- */

/* Digests are made with the salt, which goes last. */
#define ERASE_RECORD(table)                                                                        \
    "UPDATE pawl." table " p SET record = pawl.erased(p.record, j.salt) FROM pawl.job_rows j"      \
    " WHERE j.id = ANY ($1) AND p.job_id = j.id"

static const char *const redactions[] = {
    ERASE_RECORD("history"),
    ERASE_RECORD("state_rows"),
    ERASE_RECORD("claim_rows") " AND p.step = -1",
    "DELETE FROM pawl.job_telemetry WHERE job_id = ANY ($1)",
    ("UPDATE pawl.job_rows SET redacted = true, created = NULL, labels = NULL,"
     " salt = decode(repeat('00', 16), 'hex'), first = left(substr(pawl.erased(',' || first || ','"
     " || coalesce(created, 'null'), salt), 2), -5), state = coalesce((SELECT s.state"
     " FROM pawl.state_rows s WHERE s.job_id = id), state) WHERE id = ANY ($1)"),
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
    "INSERT INTO pawl.purged (job_id, version, head, at)"
    " SELECT j.id, coalesce(c.version, s.version, 1), " JOB_HEAD
    ", $2 FROM pawl.job_rows j" JOB_JOINS "WHERE j.id = ANY ($1) ON CONFLICT (job_id) DO UPDATE SET"
    " version = excluded.version, head = excluded.head, at = excluded.at";

#define STEPS_PURGED "pawl.job_steps s WHERE s.job_id = ANY ($1) AND "
static const char *const purges[] = {
    DELETE_PLACED("timers",
                  "p.kind = 0 AND p.at = s.run_at AND p.job_id = s.job_id AND p.step = s.ordinal",
                  STEPS_PURGED "s.lane IS NOT NULL"),
    DELETE_PLACED("timers",
                  "p.kind = 1 AND p.at = s.due_at AND p.job_id = s.job_id AND p.step = s.ordinal",
                  STEPS_PURGED "s.due_at > 0"),
    DELETE_PLACED("ready",
                  "p.lane = s.lane AND p.rank = s.rank AND p.run_at = s.run_at"
                  " AND p.job_id = s.job_id AND p.step = s.ordinal",
                  STEPS_PURGED "s.lane IS NOT NULL"),
    "DELETE FROM pawl.claim_rows WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_steps WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_effects WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_signals WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_telemetry WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.history WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.state_rows WHERE job_id = ANY ($1)",
    "DELETE FROM pawl.job_rows WHERE id = ANY ($1)",
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
static const struct schedule_entry nowhere = {.due_at = 0};

static uint32_t collect_spots(const struct store_write *write, struct spot *ret)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        ret[count++] = (struct spot){
            .job = job->after->job.id,
            .step = -1,
            .header = &job->after->job,
            .write = job,
            .was = &job->was,
            .now = &job->now,
        };
        for (uint32_t k = 0; k < job->step_count; k++)
            ret[count++] = (struct spot){
                .job = job->after->job.id,
                .step = job->steps[k].step->ordinal,
                .header = &job->after->job,
                .part = job->steps[k].step,
                .write = job,
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
                           "more than %d different combinations of queue, kind, capabilities, "
                           "selector and avoid list",
                           STORE_LANES_MAX);
        *(now ? &spot->now_lane : &spot->was_lane) = numbers[at++];
    }
    return ERR_OK;
}

/* What is to be written of each job. */
static enum error_code fill_spots(struct postgres_txn *txn, struct spots *spots, struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < spots->count && code == ERR_OK; i++) {
        struct spot *spot = &spots->at[i];
        const struct job_note *note = txn_job(txn, spot->job);
        if (spot->part != NULL)
            continue;
        spot->may_have_state = !spot->write->created && (note == NULL || note->has_state);
        code = pack(txn, spot->write, &spot->packing, err);
        if (code == ERR_OK && !store_row_same(spot->write->changed) &&
            row_of_job(spot->write, STATE_JSON, &txn->scratch, &spot->row) != ERR_OK)
            code = out_of_memory(err);
    }
    return code;
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
        code = fill_spots(txn, &spots, err);
    if (code == ERR_OK)
        *ret = spots;
    return code;
}

/* Whether there is nothing but leases that go on: should the server crash they are what they were.
 */
static bool has_only_beats(const struct store_write *write)
{
    bool only = write->job_count > 0 && write->request_count == 0 && write->resource_count == 0 &&
                write->resource_gone_count == 0 && write->registration_count == 0 &&
                write->registration_gone_count == 0 && write->kind_count == 0 &&
                write->queue_count == 0 && write->token_count == 0 &&
                write->token_gone_count == 0 && write->purged_count == 0;
    for (uint32_t i = 0; i < write->job_count && only; i++) {
        const struct store_job_write *job = &write->jobs[i];
        only = job->changed == CHANGED_BEAT && job->now.leased;
        for (uint32_t k = 0; k < job->event_count && only; k++)
            only = is_telemetry(&job->events[k]);
        for (uint32_t k = 0; k < job->step_count && only; k++)
            only = job->steps[k].changed == CHANGED_BEAT && job->steps[k].now.leased;
    }
    return only;
}

static enum error_code write_rows(struct postgres_txn *txn, const struct store_write *write,
                                  const struct spots *spots, struct err *err)
{
    enum error_code code = write_telemetry(txn, write, err);
    if (code == ERR_OK)
        code = write_jobs(txn, spots, err);
    for (int leased = 0; leased < 2 && code == ERR_OK; leased++)
        code = write_history(txn, spots, leased != 0, err);
    for (int which = 0; which < 4 && code == ERR_OK; which++)
        code = write_states(txn, spots, (which & 2) != 0, (which & 1) != 0, err);
    return code == ERR_OK ? make_entry(txn, spots, err) : code;
}

enum error_code postgres_write(struct store_txn *handle, const struct store_write *write,
                               struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    struct spots spots;
    int64_t now;
    enum error_code code = txn_start(txn, err);
    txn_sort_jobs(txn);
    if (code == ERR_OK)
        code = txn_now(txn, &now, err);
    if (code == ERR_OK)
        code = make_spots(txn, write, &spots, err);
    txn->only_beats = !txn->wrote && has_only_beats(write);
    txn->wrote = true;
    if (code == ERR_OK)
        code = write_rows(txn, write, &spots, err);
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
