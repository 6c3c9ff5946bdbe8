/* Jobs as a batch leaves them.
 *
 * A job's row in job_rows is written once. Its first claim writes a row in claim_rows, which has
 * all that changes until the lease ends; then that becomes a row in state_rows:
 *
 *   submit    + job_rows, + ready
 *   claim     - ready, + claim_rows
 *   complete  - claim_rows, + state_rows
 *
 * New events are added to the record of the row that is written. When it has become long, what it
 * had goes to `history`. */
#include "core/job_state.h"
#include "store/sqlite/inline_effects.h"
#include "store/sqlite/packed.h"
#include "store/sqlite/sqlite.h"

/* From here on a record is moved to history before more is added. */
enum { RECORD_BYTES_MAX = 1536, EVENT_BYTES = 384 };

/* Where a job was and is, and what it gains. */
struct job_change {
    const struct store_job_write *write;
    struct header header; /* before; the rows as they are, and after */
    struct job_row row;   /* as it will be */
    uint32_t event_count; /* without telemetry */
    int64_t first;        /* the version of the first of them */
    struct str created;   /* the first event of a new job, packed */
    uint8_t created_hash[HASH_LEN];
    struct buf hashes; /* of the others, */
    struct buf record; /* which are here */
};

/* ---- events ---- */

static enum error_code put_telemetry(struct sqlite_txn *txn, const struct event *event,
                                     struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_TELEMETRY_INSERT, NULL, err);
    lite_put_uuid(&query, &event->job_id);
    lite_put_int(&query, event->at);
    lite_put_text(&query, event_name(event));
    lite_put_text(&query, event->actor);
    lite_put_text(&query, event->cause_text);
    lite_put_text(&query, event->correlation_id);
    lite_put_text(&query, event->payload);
    lite_put_int(&query, event->version);
    return lite_run(&query);
}

static void add_event(struct job_change *change, const struct event *event)
{
    buf_add_char(&change->record, ',');
    packed_write(event, &change->record);
    buf_add(&change->hashes, (struct str){(const char *)event->hash, HASH_LEN});
}

static enum error_code pack_events(struct sqlite_txn *txn, struct job_change *change,
                                   struct err *err)
{
    const struct store_job_write *write = change->write;
    enum error_code code = ERR_OK;
    buf_init(&change->hashes, &txn->scratch, (size_t)HASH_LEN * (write->event_count + 1));
    buf_init(&change->record, &txn->scratch, (size_t)EVENT_BYTES * (write->event_count + 1));
    for (uint32_t i = 0; i < write->event_count && code == ERR_OK; i++) {
        const struct event *event = &write->events[i];
        if (event_type_class(event->type) == EVENT_CLASS_TELEMETRY) {
            code = put_telemetry(txn, event, err);
            continue;
        }
        if (change->event_count++ == 0)
            change->first = event->version;
        if (write->created && change->event_count == 1) {
            struct buf created;
            buf_init(&created, &txn->scratch, EVENT_BYTES + event->payload.len);
            packed_write(event, &created);
            change->created = buf_str(&created);
            memcpy(change->created_hash, event->hash, HASH_LEN);
            change->record.failed = change->record.failed || created.failed;
        } else {
            add_event(change, event);
        }
    }
    if (code == ERR_OK && (change->record.failed || change->hashes.failed))
        code = sqlite_no_memory(err);
    return code;
}

/* ---- rows ---- */

static enum error_code run_on_no(struct sqlite_txn *txn, enum statement statement, int64_t no,
                                 struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    lite_put_int(&query, no);
    return lite_run(&query);
}

static enum error_code insert_job(struct sqlite_txn *txn, const struct job_change *change,
                                  struct err *err)
{
    const struct job_row *row = &change->row;
    struct query query = lite_query(txn->connection, STATEMENT_JOB_INSERT, NULL, err);
    lite_put_int(&query, change->header.no);
    lite_put_uuid(&query, &row->id);
    lite_put_int(&query, row->created_at);
    lite_put_int(&query, row->priority);
    lite_put_int(&query, row->status);
    lite_put_int(&query, row->redacted);
    lite_put_text(&query, row->queue);
    lite_put_text(&query, row->kind);
    lite_put_text(&query, row->agent_id);
    lite_put_text(&query, row->correlation_id);
    lite_put_text(&query, row->idempotency_key);
    lite_put_blob(&query, row->salt, sizeof row->salt);
    lite_put_blob(&query, change->created_hash, HASH_LEN);
    lite_put_blob(&query, row->state.at, row->state.len);
    lite_put_text(&query, change->created);
    enum error_code code = lite_run(&query);
    if (code != ERR_VERSION_MISMATCH || !str_is_set(row->idempotency_key))
        return code;
    /* Of the two that must be unique, the id was looked for. */
    return err_set(err, ERR_UNAVAILABLE,
                   "the idempotency key \"%.*s\" is already used by another job: retry later",
                   STR_ARG(row->idempotency_key));
}

static enum error_code move_to_history(struct sqlite_txn *txn, int64_t no, bool claim,
                                       int64_t *bytes, struct err *err)
{
    if (*bytes == 0)
        return ERR_OK;
    *bytes = 0;
    enum error_code code =
        run_on_no(txn, claim ? STATEMENT_CLAIM_HISTORY : STATEMENT_STATE_HISTORY, no, err);
    if (code != ERR_OK)
        return code;
    return run_on_no(txn, claim ? STATEMENT_CLAIM_CLEAR : STATEMENT_STATE_CLEAR, no, err);
}

/* Makes room in a record to which so many bytes are added. The events of a record follow each
 * other: what is in state_rows goes before that in claim_rows does. */
static enum error_code make_room(struct sqlite_txn *txn, struct header *header, bool claim,
                                 int64_t more, struct err *err)
{
    int64_t bytes = claim ? header->claim_bytes : header->state_bytes;
    if (more == 0 || bytes == 0 || bytes + more <= RECORD_BYTES_MAX)
        return ERR_OK;
    enum error_code code = ERR_OK;
    if (header->stated)
        code = move_to_history(txn, header->no, false, &header->state_bytes, err);
    if (code == ERR_OK && claim)
        code = move_to_history(txn, header->no, true, &header->claim_bytes, err);
    return code;
}

/* The time at which the engine looks after a lease. */
static enum error_code move_due(struct sqlite_txn *txn, const struct job_change *change,
                                struct err *err)
{
    const struct store_job_write *write = change->write;
    if (write->was.leased && write->was.due_at == write->now.due_at)
        return ERR_OK;
    struct query query = lite_query(txn->connection, STATEMENT_CLAIM_DUE, NULL, err);
    lite_put_int(&query, change->header.no);
    lite_put_int(&query, write->now.due_at);
    enum error_code code = lite_run(&query);
    return code == ERR_OK ? sqlite_note_lease(txn, change->header.no, &change->header.id,
                                              write->now.due_at, err)
                          : code;
}

static void put_inline_effects(struct query *query, const struct header *header)
{
    if (str_is_set(header->effects))
        lite_put_blob(query, header->effects.at, header->effects.len);
    else
        lite_put_null(query);
}

static enum error_code put_claim(struct sqlite_txn *txn, struct job_change *change, struct err *err)
{
    const struct job_row *row = &change->row;
    struct header *header = &change->header;
    struct claim_row claim = row_of_lease(&change->write->after->job, NULL, 0);
    bool there = header->claimed;
    int64_t more = (int64_t)change->record.len;
    enum error_code code = ERR_OK;
    if (there)
        code = make_room(txn, header, true, more, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(
        txn->connection, there ? STATEMENT_CLAIM_UPDATE : STATEMENT_CLAIM_INSERT, NULL, err);
    lite_put_int(&query, header->no);
    lite_put_uuid(&query, &row->id);
    lite_put_int(&query, row->status);
    lite_put_int(&query, row->version);
    lite_put_int(&query, row->retry_count);
    lite_put_int(&query, row->updated_at);
    lite_put_int(&query, row->reason_code);
    lite_put_int(&query, claim.attempt);
    lite_put_int(&query, claim.expires_at);
    lite_put_int(&query, claim.beat_at);
    lite_put_text(&query, claim.worker_id);
    lite_put_text(&query, claim.progress);
    lite_put_text(&query, claim.cursor);
    lite_put_blob(&query, row->state.at, row->state.len);
    lite_put_blob(&query, buf_str(&change->hashes).at, change->hashes.len);
    lite_put_text(&query, buf_str(&change->record));
    put_inline_effects(&query, header);
    if (!there)
        lite_put_int(&query, change->write->now.due_at);
    code = lite_run(&query);
    if (code == ERR_OK && there)
        code = move_due(txn, change, err);
    else if (code == ERR_OK)
        code = sqlite_note_lease(txn, header->no, &header->id, change->write->now.due_at, err);
    header->claim_bytes = (there ? header->claim_bytes : 0) + more;
    header->claimed = true;
    /* A job that is claimed and completed needs not be read in between. */
    header->hashes = there ? (struct str){NULL, 0} : buf_str(&change->hashes);
    header->record = there ? (struct str){NULL, 0} : buf_str(&change->record);
    return code;
}

/* The events of the claim that ends come before the new ones. */
static enum error_code take_claim_events(struct sqlite_txn *txn, struct job_change *change,
                                         struct err *err)
{
    struct header *header = &change->header;
    struct str hashes = header->hashes;
    struct str record = header->record;
    struct query query = {.statement = NULL};
    bool known = str_is_set(hashes) && str_is_set(record);
    if (!known) {
        query = lite_query(txn->connection, STATEMENT_CLAIM_EVENTS, NULL, err);
        lite_put_int(&query, header->no);
        if (lite_next(&query)) {
            hashes = lite_read_text_view(&query);
            record = lite_read_text_view(&query);
        }
    }
    struct buf all_hashes;
    struct buf all;
    buf_init(&all_hashes, &txn->scratch, hashes.len + change->hashes.len);
    buf_init(&all, &txn->scratch, record.len + change->record.len);
    buf_add(&all_hashes, hashes);
    buf_add(&all_hashes, buf_str(&change->hashes));
    buf_add(&all, record);
    buf_add(&all, buf_str(&change->record));
    enum error_code code = known ? ERR_OK : lite_end(&query);
    if (code == ERR_OK && (all_hashes.failed || all.failed))
        code = sqlite_no_memory(err);
    change->hashes = all_hashes;
    change->record = all;
    if (code == ERR_OK)
        code = sqlite_forget_beat(txn, &header->id, STEP_NONE, err);
    if (code == ERR_OK)
        code = sqlite_note_lease(txn, header->no, &header->id, 0, err);
    return code == ERR_OK ? run_on_no(txn, STATEMENT_CLAIM_DELETE, header->no, err) : code;
}

/* The id of a job that an index of state_rows is about: see states_by_status. */
static void put_indexed_id(struct query *query, const struct job_row *row)
{
    bool bulk = row->status == JOB_COMPLETED || row->status == JOB_CANCELLED;
    if (bulk && !row->asking)
        lite_put_null(query);
    else
        lite_put_uuid(query, &row->id);
}

static enum error_code put_state(struct sqlite_txn *txn, struct job_change *change, struct err *err)
{
    const struct job_row *row = &change->row;
    struct header *header = &change->header;
    enum error_code code = ERR_OK;
    if (header->claimed)
        code = take_claim_events(txn, change, err);
    int64_t more = (int64_t)change->record.len;
    if (code == ERR_OK && header->stated)
        code = make_room(txn, header, false, more, err);
    if (code != ERR_OK)
        return code;
    struct query query =
        lite_query(txn->connection,
                   header->stated ? STATEMENT_STATE_UPDATE : STATEMENT_STATE_INSERT, NULL, err);
    lite_put_int(&query, header->no);
    put_indexed_id(&query, row);
    lite_put_int(&query, row->status);
    lite_put_int(&query, row->version);
    lite_put_int(&query, row->retry_count);
    lite_put_int(&query, row->updated_at);
    lite_put_int(&query, row->purge_at);
    lite_put_int(&query, row->reason_code);
    lite_put_int(&query, row->asking);
    lite_put_text(&query, row->cursor);
    lite_put_blob(&query, row->state.at, row->state.len);
    lite_put_blob(&query, buf_str(&change->hashes).at, change->hashes.len);
    lite_put_text(&query, buf_str(&change->record));
    put_inline_effects(&query, header);
    header->state_bytes = (header->stated ? header->state_bytes : 0) + more;
    header->claim_bytes = 0;
    header->stated = true;
    header->claimed = false;
    header->hashes = header->record = (struct str){NULL, 0};
    return lite_run(&query);
}

/* Whether job_rows says all there is: the job was made, is in a lane, and nothing else. */
static bool is_as_made(const struct job_change *change)
{
    const struct job_row *row = &change->row;
    return change->write->created && row->version == 1 && row->updated_at == row->created_at &&
           row->retry_count == 0 && row->purge_at == 0 && row->reason_code == 0 && !row->asking &&
           !str_is_set(row->cursor) && str_is_set(change->write->now.lane) &&
           str_is_set(change->header.effects) && change->header.effects.len == 0;
}

static enum error_code put_rows(struct sqlite_txn *txn, struct job_change *change, struct err *err)
{
    enum error_code code = ERR_OK;
    if (row_of_job(change->write, STATE_PACKED, &txn->scratch, &change->row) != ERR_OK)
        return sqlite_no_memory(err);
    if (change->write->created)
        code = insert_job(txn, change, err);
    if (code != ERR_OK || is_as_made(change))
        return code;
    return change->write->now.leased ? put_claim(txn, change, err) : put_state(txn, change, err);
}

/* A heartbeat, or a time at which the engine looks again. */
static enum error_code put_beat(struct sqlite_txn *txn, const struct job_change *change,
                                struct err *err)
{
    const struct store_job_write *write = change->write;
    struct claim_row claim = row_of_lease(&write->after->job, NULL, write->now.due_at);
    struct query query = lite_query(txn->connection, STATEMENT_CLAIM_BEAT, NULL, err);
    lite_put_int(&query, change->header.no);
    lite_put_int(&query, claim.expires_at);
    lite_put_int(&query, claim.beat_at);
    lite_put_text(&query, claim.progress);
    lite_put_text(&query, claim.cursor);
    enum error_code code = lite_run(&query);
    return code == ERR_OK ? move_due(txn, change, err) : code;
}

static bool is_open(enum job_status status)
{
    return status != JOB_NONE && !job_status_terminal(status);
}

/* ---- the feed ---- */

/* Jobs that follow each other and have gained as many events from the same version on are one
 * entry. */
static enum error_code note_fed(struct sqlite_txn *txn, const struct job_change *change,
                                struct err *err)
{
    struct fed_jobs *last = txn->fed_count > 0 ? &txn->fed[txn->fed_count - 1] : NULL;
    if (change->event_count == 0)
        return ERR_OK;
    if (last != NULL && last->no + last->jobs == change->header.no &&
        last->version == change->first && last->events == change->event_count) {
        last->jobs++;
        return ERR_OK;
    }
    if (!sqlite_more(&txn->notes, (void **)&txn->fed, txn->fed_count, &txn->fed_cap,
                     sizeof *txn->fed))
        return sqlite_no_memory(err);
    txn->fed[txn->fed_count++] = (struct fed_jobs){.no = change->header.no,
                                                   .jobs = 1,
                                                   .version = change->first,
                                                   .events = change->event_count};
    return ERR_OK;
}

static enum error_code write_feed(struct sqlite_txn *txn, struct err *err)
{
    struct buf jobs;
    struct buf counts;
    struct json_writer writer;
    if (txn->fed_count == 0)
        return ERR_OK;
    buf_init(&jobs, &txn->scratch, (size_t)16 * txn->fed_count + 16);
    json_writer_init(&writer, &jobs);
    json_begin_array(&writer);
    for (uint32_t i = 0; i < txn->fed_count; i++) {
        json_put_int(&writer, txn->fed[i].no);
        json_put_int(&writer, txn->fed[i].jobs);
        json_put_int(&writer, txn->fed[i].version);
        json_put_int(&writer, txn->fed[i].events);
    }
    json_end_array(&writer);
    buf_init(&counts, &txn->scratch, 64);
    json_writer_init(&writer, &counts);
    if (txn->counts_touched)
        sqlite_counts_write(txn, &writer);
    if (jobs.failed || counts.failed)
        return sqlite_no_memory(err);
    struct query query = lite_query(txn->connection, STATEMENT_FEED_INSERT, NULL, err);
    lite_put_int(&query, ++txn->feed_end);
    lite_put_text(&query, buf_str(&jobs));
    lite_put_text(&query, txn->counts_touched ? buf_str(&counts) : (struct str){NULL, 0});
    return lite_run(&query);
}

/* ---- redaction ---- */

/* One part of the stream without its payloads. */
static enum error_code redact_part(struct sqlite_txn *txn, const struct stream_part *part,
                                   const uint8_t salt[SALT_LEN], struct buf *ret, struct err *err)
{
    struct packed packed;
    struct event event;
    enum error_code code = packed_begin(&packed, part->events, part->hashes, part->first, err);
    while (code == ERR_OK && packed_next(&packed, &txn->scratch, &event)) {
        if (!event.redacted)
            event_digest(&event, salt, event.digest);
        event.redacted = true;
        if (part->source != PART_CREATED)
            buf_add_char(ret, ',');
        packed_write(&event, ret);
    }
    return code == ERR_OK && ret->failed ? sqlite_no_memory(err) : code;
}

static enum error_code rewrite_part(struct sqlite_txn *txn, const struct job_change *change,
                                    const struct stream_part *part, struct str text,
                                    struct err *err)
{
    static const uint8_t no_salt[SALT_LEN];
    static const enum statement statements[] = {
        [PART_CREATED] = STATEMENT_JOB_REDACT,
        [PART_HISTORY] = STATEMENT_HISTORY_REDACT,
        [PART_STATE] = STATEMENT_STATE_REDACT,
        [PART_CLAIM] = STATEMENT_CLAIM_REDACT,
    };
    struct query query = lite_query(txn->connection, statements[part->source], NULL, err);
    lite_put_int(&query, change->header.no);
    if (part->source == PART_CREATED) {
        lite_put_blob(&query, no_salt, sizeof no_salt);
        lite_put_blob(&query, change->row.state.at, change->row.state.len);
    } else if (part->source == PART_HISTORY) {
        lite_put_int(&query, part->first);
    }
    lite_put_text(&query, text);
    return lite_run(&query);
}

/* What is free text in the row and in the stream. The parts are listed by the caller. */
static enum error_code redact_job(struct sqlite_txn *txn, const struct job_change *change,
                                  struct err *err)
{
    struct stream_part *parts = NULL;
    uint32_t count = 0;
    uint8_t salt[SALT_LEN];
    enum error_code code = sqlite_read_salt(txn, change->header.no, salt, err);
    if (code == ERR_OK)
        code = sqlite_read_parts(txn, change->header.no, 0, UINT32_MAX, &txn->scratch, &parts,
                                 &count, err);
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct buf text;
        buf_init(&text, &txn->scratch, parts[i].events.len);
        code = redact_part(txn, &parts[i], salt, &text, err);
        if (code == ERR_OK)
            code = rewrite_part(txn, change, &parts[i], buf_str(&text), err);
    }
    if (code == ERR_OK)
        code = run_on_no(txn, STATEMENT_STATE_REDACT_OLDER, change->header.no, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_TELEMETRY_DELETE, NULL, err);
    lite_put_uuid(&query, &change->row.id);
    return lite_run(&query);
}

/* ---- parts ---- */

static struct query effect_query(struct sqlite_txn *txn, enum statement statement,
                                 const struct uuid *job, const struct effect_row *row,
                                 struct err *err)
{
    struct query query = lite_query(txn->connection, statement, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_text(&query, row->name);
    lite_put_int(&query, row->version);
    lite_put_int(&query, row->open);
    lite_put_blob(&query, row->state.at, row->state.len);
    return query;
}

/* An effect of a job that has many of them. */
static enum error_code put_effect(struct sqlite_txn *txn, const struct uuid *job,
                                  const struct effect *effect, struct err *err)
{
    struct effect_row row;
    bool found = false;
    if (row_of_effect(effect, STATE_PACKED, &txn->scratch, &row) != ERR_OK)
        return sqlite_no_memory(err);
    struct query update = effect_query(txn, STATEMENT_EFFECT_UPDATE, job, &row, err);
    enum error_code code = lite_run_found(&update, &found);
    if (code != ERR_OK || found)
        return code;
    struct query insert = effect_query(txn, STATEMENT_EFFECT_INSERT, job, &row, err);
    lite_put_text(&insert, row.step);
    lite_put_text(&insert, row.key);
    return lite_run(&insert);
}

/* The effects that are in the row of the job, with those that it writes. */
static enum error_code merge_effects(struct sqlite_txn *txn, const struct job_change *change,
                                     struct effect **ret, uint32_t *ret_count, struct err *err)
{
    const struct store_job_write *write = change->write;
    struct effect *known = NULL;
    uint32_t count = 0;
    enum error_code code =
        inline_effects_read(change->header.effects, &txn->scratch, &known, &count, err);
    if (code != ERR_OK)
        return code;
    struct effect *all = arena_grow(&txn->scratch, known, count * sizeof *known,
                                    ((size_t)count + write->effect_count) * sizeof *known);
    if (all == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < write->effect_count; i++) {
        uint32_t at = 0;
        while (at < count && !str_eq(all[at].name, write->effects[i]->name))
            at++;
        all[at] = *write->effects[i];
        count += at == count;
    }
    *ret = all;
    *ret_count = count;
    return ERR_OK;
}

/* Before the row of the job is written, which has its effects as long as they are few. When they
 * become many, each gets a row, and that is so from then on. */
static enum error_code put_effects(struct sqlite_txn *txn, struct job_change *change,
                                   struct err *err)
{
    const struct store_job_write *write = change->write;
    struct header *header = &change->header;
    struct effect *all = NULL;
    uint32_t count = 0;
    enum error_code code = ERR_OK;
    if (write->effect_count == 0)
        return ERR_OK;
    if (!str_is_set(header->effects)) {
        for (uint32_t i = 0; i < write->effect_count && code == ERR_OK; i++)
            code = put_effect(txn, &header->id, write->effects[i], err);
        return code;
    }
    code = merge_effects(txn, change, &all, &count, err);
    if (code != ERR_OK)
        return code;
    header->effects = inline_effects_write(all, count, &txn->scratch);
    if (!str_is_set(header->effects))
        return sqlite_no_memory(err);
    if (header->effects.len <= INLINE_EFFECTS_BYTES_MAX)
        return ERR_OK;
    header->effects = (struct str){NULL, 0};
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = put_effect(txn, &header->id, &all[i], err);
    return code;
}

static enum error_code put_signal(struct sqlite_txn *txn, const struct uuid *job,
                                  const struct signal *signal, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_SIGNAL_PUT, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_int(&query, signal->version);
    lite_put_text(&query, signal->correlation_key);
    lite_put_text(&query, signal->signal_id);
    lite_put_int(&query, signal->delivered);
    lite_put_text(&query, signal->payload);
    return lite_run(&query);
}

static enum error_code put_parts(struct sqlite_txn *txn, struct job_change *change, struct err *err)
{
    const struct store_job_write *write = change->write;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->signal_count && code == ERR_OK; i++)
        code = put_signal(txn, &change->header.id, write->signals[i], err);
    return code == ERR_OK ? sqlite_write_steps(txn, write, err) : code;
}

/* ---- heartbeats ---- */

static bool stays(const struct schedule_entry *was, const struct schedule_entry *now)
{
    return was->leased == now->leased && was->due_at == now->due_at && was->run_at == now->run_at &&
           was->priority == now->priority && str_eq(was->lane, now->lane);
}

/* Whether nothing has changed but the ends of leases, on the job or on steps. */
static bool is_beat(const struct store_job_write *write)
{
    uint8_t changed = write->changed;
    bool moved = !stays(&write->was, &write->now) || write->created || write->redact;
    for (uint32_t i = 0; i < write->step_count; i++) {
        changed |= write->steps[i].changed;
        moved = moved || !stays(&write->steps[i].was, &write->steps[i].now);
    }
    return changed == CHANGED_BEAT && !moved;
}

static enum error_code note_beat(struct sqlite_txn *txn, const struct job *job,
                                 const struct step *step, bool *ret_noted, struct err *err)
{
    struct claim_row claim = row_of_lease(job, step, 0);
    struct beat beat = beat_of(&job->id, step != NULL ? step->ordinal : STEP_NONE, &claim);
    return sqlite_note_beat(txn, &beat, ret_noted, err);
}

/* Moves leases in memory; not when there is no room there. */
static enum error_code keep_beat(struct sqlite_txn *txn, const struct store_job_write *write,
                                 bool *ret_kept, struct err *err)
{
    const struct job *job = &write->after->job;
    enum error_code code = ERR_OK;
    bool kept = is_beat(write);
    if (kept && (write->changed & CHANGED_BEAT) != 0)
        code = note_beat(txn, job, NULL, &kept, err);
    for (uint32_t i = 0; i < write->step_count && kept && code == ERR_OK; i++)
        code = note_beat(txn, job, write->steps[i].step, &kept, err);
    *ret_kept = kept;
    const struct header *known =
        kept && code == ERR_OK ? header_cache_find(&txn->store->headers, &job->id) : NULL;
    if (known == NULL)
        return code;
    struct header moved = *known;
    moved.job = *job;
    return sqlite_remember(txn, &moved, false, err);
}

/* ---- a job ---- */

/* The job as it is, or its number if it is new. */
static enum error_code begin_change(struct sqlite_txn *txn, struct job_change *change,
                                    struct err *err)
{
    const struct store_job_write *write = change->write;
    const struct job *job = &write->after->job;
    enum error_code code = sqlite_find_header(txn, &job->id, &txn->scratch, &change->header, err);
    if (code == ERR_OK)
        code = pack_events(txn, change, err);
    if (code != ERR_OK)
        return code;
    bool there = change->header.no != 0;
    if (write->created == there ||
        (change->event_count > 0 && there && change->first != change->header.job.version + 1))
        return err_set(err, ERR_VERSION_MISMATCH, "the job was changed since it was loaded");
    if (!there)
        change->header = (struct header){
            .id = job->id, .no = ++txn->last_no, .job.status = JOB_NONE, .effects = STR("")};
    return ERR_OK;
}

enum error_code sqlite_write_job(struct sqlite_txn *txn, const struct store_job_write *write,
                                 struct err *err)
{
    struct job_change change = {.write = write};
    const struct job *job = &write->after->job;
    struct place place;
    bool kept;
    enum error_code code = keep_beat(txn, write, &kept, err);
    if (code == ERR_OK && kept)
        return ERR_OK;
    if (code == ERR_OK)
        code = begin_change(txn, &change, err);
    enum job_status was = change.header.job.status;
    if (code == ERR_OK)
        code = put_effects(txn, &change, err);
    if (code == ERR_OK && (!store_row_same(write->changed) || write->effect_count > 0))
        code = put_rows(txn, &change, err);
    else if (code == ERR_OK && write->now.leased)
        code = put_beat(txn, &change, err);
    if (code == ERR_OK)
        code = sqlite_replace(txn, job, NULL, &write->was, &write->now, false, &place, err);
    if (code == ERR_OK)
        code = put_parts(txn, &change, err);
    if (code == ERR_OK)
        code = sqlite_note_status(txn, job->spec.queue, was, job->status, err);
    if (code == ERR_OK)
        code = note_fed(txn, &change, err);
    if (code == ERR_OK && write->redact)
        code = redact_job(txn, &change, err);
    if (code != ERR_OK)
        return code;
    change.header.job = *job;
    return sqlite_remember(txn, &change.header, write->redact || !is_open(job->status), err);
}

/* ---- purging ---- */

static enum error_code delete_rows(struct sqlite_txn *txn, const struct header *header,
                                   struct err *err)
{
    static const enum statement by_job[] = {
        STATEMENT_STEP_CLAIMS_DELETE,
        STATEMENT_EFFECTS_DELETE,
        STATEMENT_SIGNALS_DELETE,
        STATEMENT_TELEMETRY_DELETE,
    };
    static const enum statement by_no[] = {
        STATEMENT_CLAIM_DELETE,
        STATEMENT_STATE_DELETE,
        STATEMENT_HISTORY_DELETE,
        STATEMENT_JOB_DELETE,
    };
    enum error_code code = sqlite_delete_steps(txn, &header->id, err);
    for (size_t i = 0; i < sizeof by_job / sizeof by_job[0] && code == ERR_OK; i++) {
        struct query query = lite_query(txn->connection, by_job[i], NULL, err);
        lite_put_uuid(&query, &header->id);
        code = lite_run(&query);
    }
    for (size_t i = 0; i < sizeof by_no / sizeof by_no[0] && code == ERR_OK; i++)
        code = run_on_no(txn, by_no[i], header->no, err);
    return code == ERR_OK ? sqlite_note_lease(txn, header->no, &header->id, 0, err) : code;
}

static enum error_code purge_job(struct sqlite_txn *txn, const struct uuid *job, struct err *err)
{
    struct header header;
    enum error_code code = sqlite_find_header(txn, job, &txn->scratch, &header, err);
    if (code != ERR_OK || header.no == 0)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_JOB_PURGED, NULL, err);
    lite_put_uuid(&query, job);
    lite_put_int(&query, header.job.version);
    lite_put_blob(&query, header.job.head, HASH_LEN);
    lite_put_int(&query, txn->now);
    code = lite_run(&query);
    if (code == ERR_OK)
        code = delete_rows(txn, &header, err);
    if (code == ERR_OK)
        code = sqlite_note_status(txn, header.job.spec.queue, header.job.status, JOB_NONE, err);
    header_cache_drop(&txn->store->headers, job);
    return code;
}

static enum error_code purge(struct sqlite_txn *txn, const struct store_write *write,
                             struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->purged_count && code == ERR_OK; i++) {
        code = purge_job(txn, &write->purged[i], err);
        arena_clear(&txn->scratch);
    }
    return code;
}

/* ---- all of them ---- */

enum error_code sqlite_write_jobs(struct sqlite_txn *txn, const struct store_write *write,
                                  struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->job_count && code == ERR_OK; i++) {
        code = sqlite_write_job(txn, &write->jobs[i], err);
        txn->redacting = txn->redacting || write->jobs[i].redact;
        arena_clear(&txn->scratch);
    }
    if (code == ERR_OK)
        code = purge(txn, write, err);
    if (code == ERR_OK)
        code = write_feed(txn, err);
    if (code == ERR_OK)
        code = sqlite_counts_store(txn, txn->fed_count > 0, err);
    if (code != ERR_OK || write->purged_count == 0)
        return code;
    /* The newest may be among what went: their numbers are not given out again. */
    struct query query = lite_query(txn->connection, STATEMENT_FEED_END_KEEP, NULL, err);
    lite_put_int(&query, txn->feed_end);
    lite_put_int(&query, txn->last_no);
    return lite_run(&query);
}
