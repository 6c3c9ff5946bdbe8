/* What a batch changes. */
#include "core/job_state.h"
#include "store/memory/memory.h"

/* ---- events ---- */

static enum error_code put_telemetry(struct memory_txn *txn, const struct event *event)
{
    struct memory_store *store = txn->store;
    int64_t number = ++store->telemetry_last;
    struct buf key = memory_job_key(txn, event->job_id);
    struct buf value = memory_buf(txn);
    key_int(&key, event->at);
    key_int(&key, number);
    event_pack(event, 0, &value);
    enum error_code code = memory_put(txn, TABLE_TELEMETRY, &key, &value);
    if (code != ERR_OK)
        return code;
    struct buf age = memory_buf(txn);
    struct buf job = memory_buf(txn);
    key_int(&age, event->at);
    key_int(&age, number);
    value_bytes(&job, event->job_id.bytes, sizeof event->job_id.bytes);
    return memory_put(txn, TABLE_TELEMETRY_AGES, &age, &job);
}

static enum error_code put_event(struct memory_txn *txn, const struct event *event, struct err *err)
{
    if (event_type_class(event->type) == EVENT_CLASS_TELEMETRY)
        return put_telemetry(txn, event);
    struct buf key = memory_job_key(txn, event->job_id);
    key_int(&key, event->version);
    const struct entry *there;
    enum error_code code = memory_get(txn, TABLE_EVENTS, &key, &there);
    if (code != ERR_OK)
        return code;
    if (there != NULL) {
        char id[UUID_TEXT_LEN];
        uuid_format(event->job_id, id);
        return err_set(err, ERR_VERSION_MISMATCH, "job %.*s already has an event with version %lld",
                       UUID_TEXT_LEN, id, (long long)event->version);
    }
    int64_t position = ++txn->store->feed_last;
    struct buf value = memory_buf(txn);
    event_pack(event, position, &value);
    code = memory_put(txn, TABLE_EVENTS, &key, &value);
    if (code != ERR_OK)
        return code;
    struct buf feed = memory_buf(txn);
    key_int(&feed, position);
    return memory_put(txn, TABLE_FEED, &feed, &key);
}

static enum error_code drop_telemetry(struct memory_txn *txn, struct uuid job)
{
    struct buf prefix = memory_job_key(txn, job);
    if (prefix.failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_TELEMETRY, buf_str(&prefix));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
        /* The age's key is the rest of this one. */
        struct str key = entry_key(entry);
        struct str age = {key.at + prefix.len, key.len - prefix.len};
        code = memory_take(txn, TABLE_TELEMETRY_AGES, age, NULL);
        if (code == ERR_OK)
            code = memory_take(txn, TABLE_TELEMETRY, key, NULL);
    }
    return code;
}

static enum error_code redact_events(struct memory_txn *txn, struct uuid job, struct err *err)
{
    struct buf prefix = memory_job_key(txn, job);
    if (prefix.failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_EVENTS, buf_str(&prefix));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
        struct event event;
        int64_t position;
        code = event_unpack(entry_value(entry), &event, &position, err);
        if (code != ERR_OK)
            return code;
        event.payload = (struct str){NULL, 0};
        event.redacted = true;
        struct buf key = memory_job_key(txn, job);
        struct buf value = memory_buf(txn);
        key_int(&key, event.version);
        event_pack(&event, position, &value);
        code = memory_put(txn, TABLE_EVENTS, &key, &value);
    }
    return code != ERR_OK ? code : drop_telemetry(txn, job);
}

/* ---- the row of the job ---- */

static enum error_code move_purge(struct memory_txn *txn, struct uuid job, int64_t was, int64_t now)
{
    if (was == now)
        return ERR_OK;
    enum error_code code = ERR_OK;
    if (was != 0) {
        struct buf key = memory_buf(txn);
        key_int(&key, was);
        key_uuid(&key, job);
        code = memory_take_buf(txn, TABLE_JOB_PURGES, &key, NULL);
    }
    if (code == ERR_OK && now != 0) {
        struct buf key = memory_buf(txn);
        key_int(&key, now);
        key_uuid(&key, job);
        code = memory_put(txn, TABLE_JOB_PURGES, &key, NULL);
    }
    return code;
}

static enum error_code put_idempotency_key(struct memory_txn *txn, const struct job_row *row,
                                           struct err *err)
{
    if (!str_is_set(row->idempotency_key))
        return ERR_OK;
    struct buf key = memory_buf(txn);
    struct buf id = memory_buf(txn);
    key_text(&key, row->queue);
    key_text(&key, row->idempotency_key);
    value_bytes(&id, row->id.bytes, sizeof row->id.bytes);
    const struct entry *there;
    enum error_code code = memory_get(txn, TABLE_JOB_KEYS, &key, &there);
    if (code != ERR_OK)
        return code;
    if (there != NULL)
        return err_set(err, ERR_UNAVAILABLE,
                       "the idempotency key \"%.*s\" is already used by another job: retry later",
                       STR_ARG(row->idempotency_key));
    return memory_put(txn, TABLE_JOB_KEYS, &key, &id);
}

static enum error_code put_job(struct memory_txn *txn, const struct store_job_write *write,
                               struct err *err)
{
    struct job_row row = {0};
    struct job_row was = {0};
    struct buf key = memory_job_key(txn, write->after->job.id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_JOBS, &key, &entry);
    if (code == ERR_OK)
        code = row_of_job(write, STATE_PACKED, &txn->scratch, &row);
    if (code == ERR_OK && entry != NULL)
        code = job_row_unpack(entry_value(entry), row.id, &was, err);
    if (code != ERR_OK)
        return code;
    if (write->created != (entry == NULL)) {
        char id[UUID_TEXT_LEN];
        uuid_format(row.id, id);
        return err_set(err, ERR_VERSION_MISMATCH, "job %.*s is %s", UUID_TEXT_LEN, id,
                       write->created ? "already stored" : "no longer stored");
    }
    /* What was erased once stays so. */
    row.redacted = row.redacted || was.redacted;
    if (row.redacted)
        memset(row.salt, 0, sizeof row.salt);
    struct buf value = memory_buf(txn);
    job_row_pack(&row, &value);
    code = memory_put(txn, TABLE_JOBS, &key, &value);
    if (code == ERR_OK && write->created)
        code = put_idempotency_key(txn, &row, err);
    return code != ERR_OK ? code : move_purge(txn, row.id, was.purge_at, row.purge_at);
}

/* ---- parts ---- */

static struct buf open_effect_key(struct memory_txn *txn, struct uuid job,
                                  const struct effect_row *row)
{
    struct buf key = memory_job_key(txn, job);
    key_text(&key, row->step);
    key_text(&key, row->name);
    return key;
}

static enum error_code put_effect(struct memory_txn *txn, struct uuid job,
                                  const struct effect *effect)
{
    struct effect_row row;
    enum error_code code = row_of_effect(effect, STATE_PACKED, &txn->scratch, &row);
    if (code != ERR_OK)
        return code;
    struct buf key = memory_job_key(txn, job);
    struct buf value = memory_buf(txn);
    key_text(&key, row.name);
    effect_row_pack(&row, &value);
    code = memory_put(txn, TABLE_EFFECTS, &key, &value);
    if (code != ERR_OK)
        return code;
    struct buf open = open_effect_key(txn, job, &row);
    struct buf name = memory_buf(txn);
    buf_add(&name, row.name);
    return row.open ? memory_put(txn, TABLE_EFFECTS_OPEN, &open, &name)
                    : memory_take_buf(txn, TABLE_EFFECTS_OPEN, &open, NULL);
}

/* The key of an index of signals: a text, and the version behind it. */
static struct buf signal_key(struct memory_txn *txn, struct uuid job, struct str text,
                             int64_t version)
{
    struct buf key = memory_job_key(txn, job);
    key_text(&key, text);
    key_int(&key, version);
    return key;
}

static enum error_code put_signal(struct memory_txn *txn, struct uuid job,
                                  const struct signal *signal)
{
    struct buf key = memory_job_key(txn, job);
    struct buf value = memory_buf(txn);
    key_int(&key, signal->version);
    signal_pack(signal, &value);
    enum error_code code = memory_put(txn, TABLE_SIGNALS, &key, &value);
    struct buf by_key = signal_key(txn, job, signal->correlation_key, signal->version);
    if (code == ERR_OK)
        code = memory_put(txn, TABLE_SIGNAL_KEYS, &by_key, NULL);
    if (code == ERR_OK)
        code = signal->delivered ? memory_take_buf(txn, TABLE_SIGNALS_STORED, &by_key, NULL)
                                 : memory_put(txn, TABLE_SIGNALS_STORED, &by_key, NULL);
    if (code == ERR_OK && str_is_set(signal->signal_id)) {
        struct buf by_id = signal_key(txn, job, signal->signal_id, signal->version);
        code = memory_put(txn, TABLE_SIGNAL_IDS, &by_id, NULL);
    }
    return code;
}

/* ---- steps ---- */

static struct buf asking_key(struct memory_txn *txn, struct uuid job, const struct step_row *row)
{
    struct buf key = memory_job_key(txn, job);
    key_text(&key, row->asking_key);
    key_step(&key, row->ordinal);
    return key;
}

static struct buf step_id_key(struct memory_txn *txn, struct uuid job, struct str id)
{
    struct buf key = memory_job_key(txn, job);
    key_text(&key, id);
    return key;
}

/* Takes a step's row and indexes out; its places are the caller's business. */
static enum error_code drop_step(struct memory_txn *txn, struct uuid job,
                                 const struct step_row *row)
{
    struct buf key = memory_step_key(txn, job, row->ordinal);
    enum error_code code = memory_take_buf(txn, TABLE_STEPS, &key, NULL);
    if (code == ERR_OK) {
        /* The id may stand for another step by now. */
        struct buf id = step_id_key(txn, job, row->id);
        const struct entry *entry;
        code = memory_get(txn, TABLE_STEP_IDS, &id, &entry);
        struct reader reader =
            reader_of(code == ERR_OK && entry != NULL ? entry_value(entry) : STR(""));
        if (code == ERR_OK && entry != NULL && read_int(&reader) == row->ordinal)
            code = memory_take_buf(txn, TABLE_STEP_IDS, &id, NULL);
    }
    if (code == ERR_OK && str_is_set(row->asking_key)) {
        struct buf asking = asking_key(txn, job, row);
        code = memory_take_buf(txn, TABLE_STEPS_ASKING, &asking, NULL);
    }
    return code;
}

static enum error_code put_step_row(struct memory_txn *txn, struct uuid job,
                                    const struct step_row *row, const struct step_place *place)
{
    struct buf key = memory_step_key(txn, job, row->ordinal);
    struct buf value = memory_buf(txn);
    struct buf id = step_id_key(txn, job, row->id);
    struct buf ordinal = memory_buf(txn);
    step_row_pack(row, place, &value);
    value_int(&ordinal, row->ordinal);
    enum error_code code = memory_put(txn, TABLE_STEPS, &key, &value);
    if (code == ERR_OK)
        code = memory_put(txn, TABLE_STEP_IDS, &id, &ordinal);
    if (code == ERR_OK && str_is_set(row->asking_key)) {
        struct buf asking = asking_key(txn, job, row);
        code = memory_put(txn, TABLE_STEPS_ASKING, &asking, NULL);
    }
    return code;
}

/* `was` is where the caller says it stood. */
static enum error_code put_step(struct memory_txn *txn, const struct store_job_write *all,
                                const struct store_step_write *write,
                                const struct schedule_entry *was, struct err *err)
{
    const struct job *job = &all->after->job;
    struct step_row row = {0};
    struct step_row old = {0};
    struct step_place place;
    if (row_step_beats_only(write, was))
        return memory_replace(txn, job, write->step, was, &write->now, &place, err);
    struct buf key = memory_step_key(txn, job->id, write->step->ordinal);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_STEPS, &key, &entry);
    if (code == ERR_OK && entry != NULL) {
        code = step_row_unpack(entry_value(entry), write->step->ordinal, &old, &place, err);
        if (code == ERR_OK)
            code = drop_step(txn, job->id, &old);
    }
    if (code == ERR_OK)
        code = row_of_step(write->step, &txn->scratch, &row);
    if (code == ERR_OK && entry != NULL && !all->plan_replaced && !all->redact)
        row.plan = old.plan;
    else if (code == ERR_OK)
        code = row_add_plan(write->step, &txn->scratch, &row);
    if (code == ERR_OK)
        code = memory_replace(txn, job, write->step, was, &write->now, &place, err);
    return code != ERR_OK ? code : put_step_row(txn, job->id, &row, &place);
}

static enum error_code put_steps(struct memory_txn *txn, const struct store_job_write *write,
                                 struct err *err)
{
    /* A new plan gives the places of the old one's steps to others: nothing stands anywhere now. */
    static const struct schedule_entry nowhere = {0};
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->step_count && code == ERR_OK; i++) {
        const struct store_step_write *step = &write->steps[i];
        const struct schedule_entry *was = write->plan_replaced ? &nowhere : &step->was;
        code = put_step(txn, write, step, was, err);
    }
    return code;
}

/* Which steps a write lists, by ordinal. */
struct listed {
    bool *at;
    uint32_t count;
};

static enum error_code listed_steps(struct memory_txn *txn, const struct store_job_write *write,
                                    struct listed *ret)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < write->step_count; i++)
        if (write->steps[i].step->ordinal >= count)
            count = write->steps[i].step->ordinal + 1;
    bool *at = arena_zalloc(&txn->scratch, count + (size_t)1, sizeof *at);
    if (at == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < write->step_count; i++)
        at[write->steps[i].step->ordinal] = true;
    *ret = (struct listed){at, count};
    return ERR_OK;
}

/* Steps that the write does not list are not to be had any more; a new plan takes all that were
 * there away. */
static enum error_code close_steps(struct memory_txn *txn, const struct store_job_write *write,
                                   struct err *err)
{
    struct uuid job = write->after->job.id;
    struct buf prefix = memory_job_key(txn, job);
    struct listed listed;
    enum error_code code = listed_steps(txn, write, &listed);
    if (code != ERR_OK || prefix.failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_STEPS, buf_str(&prefix));
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
        struct reader reader = reader_of(entry_key(entry));
        read_key_uuid(&reader);
        uint32_t ordinal = read_key_step(&reader);
        if (!write->plan_replaced && ordinal < listed.count && listed.at[ordinal])
            continue;
        struct step_row row;
        struct step_place place;
        code = step_row_unpack(entry_value(entry), ordinal, &row, &place, err);
        bool all = write->plan_replaced || write->steps_ended;
        if (code == ERR_OK)
            code = memory_unplace_step(txn, job, ordinal, all, &place, err);
        if (code == ERR_OK)
            code = write->plan_replaced ? drop_step(txn, job, &row)
                                        : put_step_row(txn, job, &row, &place);
    }
    return code;
}

static enum error_code write_job(struct memory_txn *txn, const struct store_job_write *write,
                                 struct err *err)
{
    const struct job *job = &write->after->job;
    struct step_place place;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->event_count && code == ERR_OK; i++)
        code = put_event(txn, &write->events[i], err);
    if (code == ERR_OK && !store_row_same(write->changed))
        code = put_job(txn, write, err);
    if (code == ERR_OK)
        code = memory_replace(txn, job, NULL, &write->was, &write->now, &place, err);
    for (uint32_t i = 0; i < write->effect_count && code == ERR_OK; i++)
        code = put_effect(txn, job->id, write->effects[i]);
    for (uint32_t i = 0; i < write->signal_count && code == ERR_OK; i++)
        code = put_signal(txn, job->id, write->signals[i]);
    if (code == ERR_OK && (write->plan_replaced || write->steps_closed || write->steps_ended))
        code = close_steps(txn, write, err);
    if (code == ERR_OK)
        code = put_steps(txn, write, err);
    if (code == ERR_OK && write->redact)
        code = redact_events(txn, job->id, err);
    return code;
}

/* ---- all that is not a job ---- */

static enum error_code put_request(struct memory_txn *txn, const struct request_record *record,
                                   struct err *err)
{
    struct buf key = memory_buf(txn);
    key_text(&key, record->scope);
    key_text(&key, record->key);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_REQUESTS, &key, &entry);
    if (code == ERR_OK && entry != NULL) {
        struct request_record was;
        code = request_unpack(entry_value(entry), &was, err);
        struct buf age = memory_buf(txn);
        key_int(&age, was.at);
        buf_add(&age, buf_str(&key));
        if (code == ERR_OK)
            code = memory_take_buf(txn, TABLE_REQUEST_AGES, &age, NULL);
    }
    struct buf value = memory_buf(txn);
    struct buf age = memory_buf(txn);
    request_pack(record, &value);
    key_int(&age, record->at);
    buf_add(&age, buf_str(&key));
    if (code == ERR_OK)
        code = memory_put(txn, TABLE_REQUESTS, &key, &value);
    return code != ERR_OK ? code : memory_put(txn, TABLE_REQUEST_AGES, &age, &key);
}

static enum error_code drop_resource(struct memory_txn *txn, struct str id)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_RESOURCES, &key, &entry);
    if (code != ERR_OK || entry == NULL)
        return code;
    struct reader reader = reader_of(entry_value(entry));
    struct buf due = memory_buf(txn);
    key_int(&due, read_int(&reader));
    buf_add(&due, id);
    code = memory_take_buf(txn, TABLE_RESOURCES_DUE, &due, NULL);
    return code != ERR_OK ? code : memory_take_buf(txn, TABLE_RESOURCES, &key, NULL);
}

static enum error_code put_resource(struct memory_txn *txn, const struct resource *resource)
{
    enum error_code code = drop_resource(txn, resource->id);
    struct buf key = memory_buf(txn);
    struct buf value = memory_buf(txn);
    struct buf state = memory_buf(txn);
    struct buf due = memory_buf(txn);
    buf_add(&key, resource->id);
    resource_state_write(resource, &state);
    value_int(&value, resource->expires_at);
    value_text(&value, buf_str(&state));
    key_int(&due, resource->expires_at);
    buf_add(&due, resource->id);
    if (state.failed)
        return ERR_NO_MEMORY;
    if (code == ERR_OK)
        code = memory_put(txn, TABLE_RESOURCES, &key, &value);
    return code != ERR_OK ? code : memory_put(txn, TABLE_RESOURCES_DUE, &due, &key);
}

static enum error_code put_kind(struct memory_txn *txn, const struct store_kind *kind)
{
    struct buf key = memory_buf(txn);
    struct buf value = memory_buf(txn);
    struct buf nothing = memory_buf(txn);
    buf_add(&key, kind->kind);
    kind_settings_write(&kind->settings, &value);
    kind_settings_write(&(struct kind_settings){0}, &nothing);
    if (value.failed || nothing.failed)
        return ERR_NO_MEMORY;
    if (str_eq(buf_str(&value), buf_str(&nothing)))
        return memory_take_buf(txn, TABLE_KINDS, &key, NULL);
    return memory_put(txn, TABLE_KINDS, &key, &value);
}

static enum error_code put_queue(struct memory_txn *txn, const struct store_queue *queue)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, queue->queue);
    return queue->paused ? memory_put(txn, TABLE_QUEUES, &key, NULL)
                         : memory_take_buf(txn, TABLE_QUEUES, &key, NULL);
}

/* ---- purging ---- */

/* Takes out everything whose key begins with the job. */
static enum error_code drop_all_of(struct memory_txn *txn, enum memory_table table,
                                   const struct buf *prefix)
{
    struct scan scan = memory_scan(txn, table, buf_str(prefix));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL)
        code = memory_take(txn, table, entry_key(entry), NULL);
    return code;
}

static enum error_code drop_events(struct memory_txn *txn, const struct buf *prefix,
                                   struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_EVENTS, buf_str(prefix));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
        struct event event;
        int64_t position;
        code = event_unpack(entry_value(entry), &event, &position, err);
        struct buf feed = memory_buf(txn);
        key_int(&feed, position);
        if (code == ERR_OK)
            code = memory_take_buf(txn, TABLE_FEED, &feed, NULL);
        if (code == ERR_OK)
            code = memory_take(txn, TABLE_EVENTS, entry_key(entry), NULL);
    }
    return code;
}

/* What stays of a deleted job, by its id and by its age. One that was imported again after it was
 * deleted, and is deleted again, counts from now on. */
static enum error_code leave_head(struct memory_txn *txn, const struct job_row *row,
                                  const struct buf *key)
{
    const struct entry *before;
    struct buf left = memory_buf(txn);
    struct buf age = memory_buf(txn);
    enum error_code code = memory_get(txn, TABLE_PURGED, key, &before);
    if (code == ERR_OK && before != NULL) {
        struct buf old = memory_buf(txn);
        struct reader reader = reader_of(entry_value(before));
        key_int(&old, read_int(&reader));
        key_uuid(&old, row->id);
        code = memory_take_buf(txn, TABLE_PURGED_AGES, &old, NULL);
    }
    value_int(&left, txn->now);
    value_int(&left, row->version);
    value_bytes(&left, row->head, sizeof row->head);
    key_int(&age, txn->now);
    key_uuid(&age, row->id);
    if (code == ERR_OK)
        code = memory_put(txn, TABLE_PURGED, key, &left);
    return code != ERR_OK ? code : memory_put(txn, TABLE_PURGED_AGES, &age, key);
}

static enum error_code purge_row(struct memory_txn *txn, const struct job_row *row)
{
    struct buf key = memory_job_key(txn, row->id);
    enum error_code code = leave_head(txn, row, &key);
    if (code == ERR_OK && str_is_set(row->idempotency_key)) {
        struct buf unique = memory_buf(txn);
        key_text(&unique, row->queue);
        key_text(&unique, row->idempotency_key);
        code = memory_take_buf(txn, TABLE_JOB_KEYS, &unique, NULL);
    }
    if (code == ERR_OK)
        code = move_purge(txn, row->id, row->purge_at, 0);
    return code != ERR_OK ? code : memory_take_buf(txn, TABLE_JOBS, &key, NULL);
}

static enum error_code purge_job(struct memory_txn *txn, struct uuid id, struct err *err)
{
    static const enum memory_table parts[] = {
        TABLE_EFFECTS,     TABLE_EFFECTS_OPEN,   TABLE_SIGNALS,
        TABLE_SIGNAL_KEYS, TABLE_SIGNALS_STORED, TABLE_SIGNAL_IDS,
    };
    struct buf key = memory_job_key(txn, id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_JOBS, &key, &entry);
    if (code != ERR_OK || entry == NULL)
        return code;
    struct job_row row = {0};
    code = job_row_unpack(entry_value(entry), id, &row, err);
    if (code == ERR_OK)
        code = purge_row(txn, &row);
    struct job_slice slice;
    job_slice_init(&slice, id, 0);
    struct store_job_write no_steps = {.after = &slice, .plan_replaced = true};
    if (code == ERR_OK)
        code = close_steps(txn, &no_steps, err);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && code == ERR_OK; i++)
        code = drop_all_of(txn, parts[i], &key);
    if (code == ERR_OK)
        code = drop_telemetry(txn, id);
    return code != ERR_OK ? code : drop_events(txn, &key, err);
}

enum error_code memory_write(struct store_txn *handle, const struct store_write *write,
                             struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < write->job_count && code == ERR_OK; i++) {
        code = write_job(txn, &write->jobs[i], err);
        arena_clear(&txn->scratch);
    }
    for (uint32_t i = 0; i < write->request_count && code == ERR_OK; i++)
        code = put_request(txn, &write->requests[i], err);
    for (uint32_t i = 0; i < write->resource_count && code == ERR_OK; i++)
        code = put_resource(txn, &write->resources[i]);
    for (uint32_t i = 0; i < write->resource_gone_count && code == ERR_OK; i++)
        code = drop_resource(txn, write->resources_gone[i]);
    for (uint32_t i = 0; i < write->registration_count && code == ERR_OK; i++)
        code = memory_put_registration(txn, &write->registrations[i]);
    for (uint32_t i = 0; i < write->renewal_count && code == ERR_OK; i++)
        code = memory_renew_registration(txn, write->renewals[i].id, write->renewals[i].expires_at);
    for (uint32_t i = 0; i < write->registration_gone_count && code == ERR_OK; i++)
        code = memory_drop_registration(txn, write->registrations_gone[i]);
    for (uint32_t i = 0; i < write->kind_count && code == ERR_OK; i++)
        code = put_kind(txn, &write->kinds[i]);
    for (uint32_t i = 0; i < write->queue_count && code == ERR_OK; i++)
        code = put_queue(txn, &write->queues[i]);
    for (uint32_t i = 0; i < write->token_count && code == ERR_OK; i++)
        code = memory_put_token(txn, &write->tokens[i], err);
    for (uint32_t i = 0; i < write->token_gone_count && code == ERR_OK; i++)
        code = memory_drop_token(txn, write->tokens_gone[i], err);
    for (uint32_t i = 0; i < write->purged_count && code == ERR_OK; i++) {
        code = purge_job(txn, write->purged[i], err);
        arena_clear(&txn->scratch);
    }
    return memory_verb_end(txn, code, err);
}
