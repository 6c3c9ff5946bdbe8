/* Rows as bytes, and jobs read from them. What is packed and what is unpacked stand side by side,
 * in the same order. */
#include "store/memory/memory.h"

static enum error_code unpacked(const struct reader *reader, const char *what, struct err *err)
{
    if (reader->bad || reader->at != reader->end)
        return err_set(err, ERR_CORRUPT, "%s in memory is damaged", what);
    return ERR_OK;
}

void job_row_pack(const struct job_row *row, struct buf *value)
{
    value_int(value, row->status);
    value_int(value, row->version);
    value_int(value, row->retry_count);
    value_int(value, row->created_at);
    value_int(value, row->updated_at);
    value_text(value, row->cursor);
    value_text(value, row->state);
    value_bytes(value, row->head, sizeof row->head);
    value_bytes(value, row->salt, sizeof row->salt);
    value_int(value, row->redacted);
    value_text(value, row->kind);
    value_text(value, row->queue);
    value_int(value, row->priority);
    value_text(value, row->agent_id);
    value_text(value, row->goal);
    value_text(value, row->correlation_id);
    value_text(value, row->idempotency_key);
    value_text(value, row->labels);
    value_int(value, row->reason_code);
    value_int(value, row->purge_at);
    value_int(value, row->asking);
}

enum error_code job_row_unpack(struct str value, struct uuid id, struct job_row *ret,
                               struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct job_row){.id = id};
    ret->status = read_int(&reader);
    ret->version = read_int(&reader);
    ret->retry_count = read_int(&reader);
    ret->created_at = read_int(&reader);
    ret->updated_at = read_int(&reader);
    ret->cursor = read_text(&reader);
    ret->state = read_text(&reader);
    read_bytes(&reader, ret->head, sizeof ret->head);
    read_bytes(&reader, ret->salt, sizeof ret->salt);
    ret->redacted = read_int(&reader) != 0;
    ret->kind = read_text(&reader);
    ret->queue = read_text(&reader);
    ret->priority = read_int(&reader);
    ret->agent_id = read_text(&reader);
    ret->goal = read_text(&reader);
    ret->correlation_id = read_text(&reader);
    ret->idempotency_key = read_text(&reader);
    ret->labels = read_text(&reader);
    ret->reason_code = read_int(&reader);
    ret->purge_at = read_int(&reader);
    ret->asking = read_int(&reader) != 0;
    return unpacked(&reader, "a job", err);
}

void claim_row_pack(const struct claim_row *row, struct buf *value)
{
    value_text(value, row->worker_id);
    value_text(value, row->resource_id);
    value_int(value, row->attempt);
    value_int(value, row->beat_at);
    value_int(value, row->expires_at);
    value_int(value, row->due_at);
    value_text(value, row->progress);
    value_text(value, row->cursor);
}

enum error_code claim_row_unpack(struct str value, struct claim_row *ret, struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct claim_row){.present = true};
    ret->worker_id = read_text(&reader);
    ret->resource_id = read_text(&reader);
    ret->attempt = read_int(&reader);
    ret->beat_at = read_int(&reader);
    ret->expires_at = read_int(&reader);
    ret->due_at = read_int(&reader);
    ret->progress = read_text(&reader);
    ret->cursor = read_text(&reader);
    return unpacked(&reader, "a lease", err);
}

void step_row_pack(const struct step_row *row, const struct step_place *place, struct buf *value)
{
    value_int(value, place->lane);
    value_int(value, place->rank);
    value_int(value, place->run_at);
    value_int(value, place->due_at);
    value_int(value, place->leased);
    value_text(value, row->id);
    value_int(value, row->state_number);
    value_text(value, row->asking_key);
    value_text(value, row->plan);
    value_text(value, row->state);
}

enum error_code step_row_unpack(struct str value, uint32_t ordinal, struct step_row *ret,
                                struct step_place *ret_place, struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct step_row){.ordinal = ordinal};
    *ret_place = (struct step_place){0};
    ret_place->lane = read_int(&reader);
    ret_place->rank = read_int(&reader);
    ret_place->run_at = read_int(&reader);
    ret_place->due_at = read_int(&reader);
    ret_place->leased = read_int(&reader) != 0;
    ret->id = read_text(&reader);
    ret->state_number = read_int(&reader);
    ret->asking_key = read_text(&reader);
    ret->plan = read_text(&reader);
    ret->state = read_text(&reader);
    return unpacked(&reader, "a step", err);
}

void effect_row_pack(const struct effect_row *row, struct buf *value)
{
    value_text(value, row->name);
    value_text(value, row->step);
    value_text(value, row->key);
    value_int(value, row->version);
    value_int(value, row->open);
    value_text(value, row->state);
}

enum error_code effect_row_unpack(struct str value, struct effect_row *ret, struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct effect_row){0};
    ret->name = read_text(&reader);
    ret->step = read_text(&reader);
    ret->key = read_text(&reader);
    ret->version = read_int(&reader);
    ret->open = read_int(&reader) != 0;
    ret->state = read_text(&reader);
    return unpacked(&reader, "an effect", err);
}

void signal_pack(const struct signal *signal, struct buf *value)
{
    value_text(value, signal->correlation_key);
    value_text(value, signal->signal_id);
    value_text(value, signal->payload);
    value_int(value, signal->version);
    value_int(value, signal->delivered);
}

enum error_code signal_unpack(struct str value, struct signal *ret, struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct signal){0};
    ret->correlation_key = read_text(&reader);
    ret->signal_id = read_text(&reader);
    ret->payload = read_text(&reader);
    ret->version = read_int(&reader);
    ret->delivered = read_int(&reader) != 0;
    return unpacked(&reader, "a signal", err);
}

void request_pack(const struct request_record *record, struct buf *value)
{
    value_text(value, record->scope);
    value_text(value, record->key);
    value_bytes(value, record->body_hash, sizeof record->body_hash);
    value_int(value, record->at);
    value_text(value, record->answer);
}

enum error_code request_unpack(struct str value, struct request_record *ret, struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct request_record){0};
    ret->scope = read_text(&reader);
    ret->key = read_text(&reader);
    read_bytes(&reader, ret->body_hash, sizeof ret->body_hash);
    ret->at = read_int(&reader);
    ret->answer = read_text(&reader);
    return unpacked(&reader, "a request", err);
}

void event_pack(const struct event *event, int64_t position, struct buf *value)
{
    value_bytes(value, event->job_id.bytes, sizeof event->job_id.bytes);
    value_int(value, event->version);
    value_int(value, position);
    value_int(value, event->at);
    value_text(value, event_name(event));
    value_text(value, event->actor);
    value_text(value, event->correlation_id);
    value_text(value, event->cause_text);
    value_text(value, event->payload);
    value_int(value, event->redacted);
    value_bytes(value, event->digest, sizeof event->digest);
    value_bytes(value, event->hash, sizeof event->hash);
}

enum error_code event_unpack(struct str value, struct event *ret, int64_t *ret_position,
                             struct err *err)
{
    struct reader reader = reader_of(value);
    *ret = (struct event){0};
    read_bytes(&reader, ret->job_id.bytes, sizeof ret->job_id.bytes);
    ret->version = read_int(&reader);
    *ret_position = read_int(&reader);
    ret->at = read_int(&reader);
    ret->type_name = read_text(&reader);
    ret->actor = read_text(&reader);
    ret->correlation_id = read_text(&reader);
    ret->cause_text = read_text(&reader);
    ret->payload = read_text(&reader);
    ret->redacted = read_int(&reader) != 0;
    read_bytes(&reader, ret->digest, sizeof ret->digest);
    read_bytes(&reader, ret->hash, sizeof ret->hash);
    ret->type = event_type_parse(ret->type_name);
    if (str_eq(ret->type_name, event_type_name(ret->type)))
        ret->type_name = (struct str){NULL, 0};
    return unpacked(&reader, "an event", err);
}

enum error_code memory_read_claim(struct memory_txn *txn, struct uuid job, uint32_t step,
                                  struct claim_row *ret, struct err *err)
{
    struct buf key = memory_step_key(txn, job, step);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_CLAIMS, &key, &entry);
    if (code != ERR_OK)
        return code;
    if (entry != NULL)
        return claim_row_unpack(entry_value(entry), ret, err);
    *ret = (struct claim_row){0};
    return ERR_OK;
}

/* What the job was created with: the spec, which no row repeats. */
static enum error_code read_created(struct memory_txn *txn, struct uuid id, struct arena *arena,
                                    struct str *ret, struct err *err)
{
    struct buf key = memory_job_key(txn, id);
    key_int(&key, 1);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_EVENTS, &key, &entry);
    if (code != ERR_OK || entry == NULL)
        return code;
    struct event event;
    int64_t position;
    code = event_unpack(entry_value(entry), &event, &position, err);
    if (code != ERR_OK)
        return code;
    *ret = arena_copy(arena, event.payload);
    return str_is_set(*ret) == str_is_set(event.payload) ? ERR_OK : ERR_NO_MEMORY;
}

enum error_code memory_read_job(struct memory_txn *txn, struct uuid id, struct arena *arena,
                                struct job_slice *ret, bool *ret_redacted, struct err *err)
{
    uint64_t seed = txn->store->base.options.seed;
    struct buf key = memory_job_key(txn, id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_JOBS, &key, &entry);
    if (code != ERR_OK)
        return code;
    if (entry == NULL) {
        job_slice_init(ret, id, seed);
        *ret_redacted = false;
        return ERR_OK;
    }
    struct str value = arena_copy(arena, entry_value(entry));
    if (!str_is_set(value))
        return ERR_NO_MEMORY;
    struct job_row row;
    code = job_row_unpack(value, id, &row, err);
    if (code == ERR_OK)
        code = memory_read_claim(txn, id, STEP_NONE, &row.claim, err);
    if (code == ERR_OK)
        code = read_created(txn, id, arena, &row.created, err);
    if (code != ERR_OK)
        return code;
    struct str progress = arena_copy(arena, row.claim.progress);
    struct str cursor = arena_copy(arena, row.claim.cursor);
    if (str_is_set(progress) != str_is_set(row.claim.progress) ||
        str_is_set(cursor) != str_is_set(row.claim.cursor))
        return ERR_NO_MEMORY;
    row.claim.progress = progress;
    row.claim.cursor = cursor;
    *ret_redacted = row.redacted;
    return row_to_job(&row, seed, arena, ret, err);
}
