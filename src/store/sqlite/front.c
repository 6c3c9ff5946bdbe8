/* Commits ahead of the database: what a batch changes goes to the log, which is synced, and to the
 * tables ahead of the database; its rows are written later, by whoever writes behind. */
#include <assert.h>

#include "base/planted.h"
#include "core/job_state.h"
#include "store/codec.h"
#include "store/sqlite/sqlite.h"

/* A job with more effects than this in one table goes straight to the database: each change of them
 * copies the list. */
enum { EFFECTS_MAX = 64 };

/* ---- staging ---- */

void sqlite_stage_begin(struct sqlite_txn *txn)
{
    struct staged *staged = &txn->staged;
    struct arena arena = staged->arena;
    *staged = (struct staged){.arena = arena};
    map_init(&staged->versions, &staged->arena, 64, txn->store->base.options.seed);
    map_init(&staged->taken_index, &staged->arena, 64, txn->store->base.options.seed);
}

/* Work that was taken out of a lane and not given away stands there again. */
static void put_taken_back(struct sqlite_txn *txn)
{
    struct sqlite_store *store = txn->store;
    const struct staged *staged = &txn->staged;
    for (uint32_t i = 0; i < staged->taken_count; i++) {
        struct ahead_job *job = ahead_find(store->active, &staged->taken[i].job);
        struct ahead_job *older = ahead_find(store->frozen, &staged->taken[i].job);
        if (job != NULL)
            job->taken = false;
        if (older != NULL)
            older->taken = false;
    }
    if (staged->taken_count > 0)
        store->passed_count = 0;
}

void sqlite_stage_end(struct sqlite_txn *txn)
{
    put_taken_back(txn);
    txn->staged.taken_count = 0;
    arena_clear(&txn->staged.arena);
}

void sqlite_stage_waste(struct sqlite_txn *txn)
{
    struct sqlite_store *store = txn->store;
    if (txn->staged.record.at == NULL || store->active == NULL)
        return;
    store->active->bytes += 2 * txn->staged.record.cap;
    if (ahead_is_empty(store->active)) {
        ahead_free(store->active);
        store->active = NULL;
    }
}

void sqlite_note_newest(struct sqlite_store *store, const struct uuid *id)
{
    if (memcmp(id->bytes, store->newest.bytes, sizeof id->bytes) > 0)
        store->newest = *id;
}

enum error_code sqlite_note_version(struct sqlite_txn *txn, const struct uuid *id, int64_t version,
                                    struct err *err)
{
    struct staged *staged = &txn->staged;
    if (txn->through || txn->reader != NULL || version >= MAP_NONE)
        return ERR_OK;
    struct str key = arena_copy(&staged->arena, (struct str){(const char *)id->bytes, 16});
    uint32_t found;
    if (!str_is_set(key) || map_put(&staged->versions, key, (uint32_t)version, &found) != ERR_OK)
        return sqlite_no_memory(err);
    return ERR_OK;
}

enum error_code sqlite_note_taken(struct sqlite_txn *txn, const struct taken_work *work,
                                  struct err *err)
{
    struct staged *staged = &txn->staged;
    if (!sqlite_more(&staged->arena, (void **)&staged->taken, staged->taken_count,
                     &staged->taken_cap, sizeof *staged->taken))
        return sqlite_no_memory(err);
    struct str key = arena_copy(&staged->arena, (struct str){(const char *)work->job.bytes, 16});
    uint32_t found;
    if (!str_is_set(key) ||
        map_put(&staged->taken_index, key, staged->taken_count, &found) != ERR_OK)
        return sqlite_no_memory(err);
    staged->taken[staged->taken_count++] = *work;
    return ERR_OK;
}

/* ---- what is ahead ---- */

static struct ahead_job *find(const struct sqlite_txn *txn, const struct uuid *id)
{
    const struct sqlite_store *store = txn->store;
    if (txn->through || txn->reader != NULL)
        return NULL;
    struct ahead_job *job = ahead_find(store->active, id);
    if (job == NULL)
        job = ahead_find(store->frozen, id);
    return job != NULL ? job : ahead_find(store->cached, id);
}

enum error_code sqlite_ahead_job(struct sqlite_txn *txn, const struct uuid *id, struct arena *arena,
                                 struct job_slice *ret, bool *ret_found, struct err *err)
{
    const struct ahead_job *job = find(txn, id);
    *ret_found = job != NULL;
    if (job == NULL)
        return ERR_OK;
    job_slice_init(ret, *id, txn->store->base.options.seed);
    ret->job = job->job;
    return job_copy_texts(&ret->job, NULL, arena) ? ERR_OK : sqlite_no_memory(err);
}

void sqlite_ahead_jobs(const struct sqlite_txn *txn, const struct uuid *id,
                       const struct ahead_job **ret_frozen, const struct ahead_job **ret_active)
{
    bool ahead = !txn->through && txn->reader == NULL;
    *ret_frozen = ahead ? ahead_find(txn->store->frozen, id) : NULL;
    *ret_active = ahead ? ahead_find(txn->store->active, id) : NULL;
}

bool sqlite_is_ahead(const struct sqlite_txn *txn, const struct uuid *id, uint32_t step)
{
    const struct sqlite_store *store = txn->store;
    return !txn->through && txn->reader == NULL && step == STEP_NONE &&
           (ahead_find(store->active, id) != NULL || ahead_find(store->frozen, id) != NULL);
}

int64_t sqlite_ahead_due(const struct sqlite_txn *txn)
{
    const struct sqlite_store *store = txn->store;
    int64_t active = store->active != NULL ? store->active->due_at : INT64_MAX;
    int64_t frozen = store->frozen != NULL ? store->frozen->due_at : INT64_MAX;
    return active < frozen ? active : frozen;
}

enum error_code sqlite_ahead_key(struct sqlite_txn *txn, struct str queue, struct str key,
                                 const struct ahead_job **ret, struct err *err)
{
    struct sqlite_store *store = txn->store;
    *ret = NULL;
    if (txn->through || txn->reader != NULL)
        return ERR_OK;
    struct str name = ahead_name(queue, key, &txn->scratch);
    if (!str_is_set(name))
        return sqlite_no_memory(err);
    *ret = ahead_find_key(store->active, name);
    if (*ret == NULL && !PLANTED(SQLITE_KEY_NOT_KNOWN))
        *ret = ahead_find_key(store->frozen, name);
    return ERR_OK;
}

enum error_code sqlite_ahead_request(struct sqlite_txn *txn, struct str scope, struct str key,
                                     const struct request_record **ret, struct err *err)
{
    struct sqlite_store *store = txn->store;
    *ret = NULL;
    if (txn->through || txn->reader != NULL)
        return ERR_OK;
    struct str name = ahead_name(scope, key, &txn->scratch);
    if (!str_is_set(name))
        return sqlite_no_memory(err);
    *ret = ahead_find_request(store->active, name);
    if (*ret == NULL)
        *ret = ahead_find_request(store->frozen, name);
    return ERR_OK;
}

/* ---- what can be staged ---- */

static struct known_job know(const struct sqlite_store *store, const struct uuid *id)
{
    struct known_job known = {.newer = ahead_find(store->active, id)};
    if (known.newer == NULL)
        known.older = ahead_find(store->frozen, id);
    if (known.newer == NULL && known.older == NULL)
        known.older = ahead_find(store->cached, id);
    return known;
}

/* Whether a job's version is the one that the write goes on from: else the database shall say
 * what is wrong. */
static bool goes_on(const struct sqlite_txn *txn, const struct store_job_write *write,
                    const struct known_job *known)
{
    const struct job *after = &write->after->job;
    const struct ahead_job *newest = known->newer != NULL ? known->newer : known->older;
    int64_t before = write->events[0].version - 1;
    if (newest != NULL)
        return !write->created && newest->job.version == before;
    uint32_t version =
        map_get(&txn->staged.versions, (struct str){(const char *)after->id.bytes, 16});
    return version != MAP_NONE && version == before && write->created == (version == 0);
}

static bool is_plain(const struct store_job_write *write)
{
    return !store_row_same(write->changed) && !write->plan_replaced && !write->steps_closed &&
           !write->steps_ended && !write->redact && write->effect_count <= EFFECTS_MAX &&
           write->signal_count == 0 && write->step_count == 0;
}

static const struct taken_work *taken_of(const struct sqlite_txn *txn, const struct uuid *id)
{
    const struct staged *staged = &txn->staged;
    uint32_t index = map_get(&staged->taken_index, (struct str){(const char *)id->bytes, 16});
    return index == MAP_NONE ? NULL : &staged->taken[index];
}

/* Nothing but put back where it was taken from. */
static bool is_put_back(const struct sqlite_txn *txn, const struct store_job_write *write)
{
    const struct taken_work *taken = taken_of(txn, &write->after->job.id);
    return write->event_count == 0 && taken != NULL && taken->step == STEP_NONE &&
           str_is_set(write->now.lane) &&
           lane_book_find(&txn->store->lanes, write->now.lane) == taken->place.lane &&
           -write->now.priority == taken->place.rank && write->now.run_at == taken->place.run_at;
}

static bool job_can_be_staged(const struct sqlite_txn *txn, const struct store_job_write *write,
                              const struct known_job *known)
{
    if (!is_plain(write))
        return is_put_back(txn, write);
    if (write->event_count == 0)
        return is_put_back(txn, write);
    for (uint32_t i = 0; i < write->event_count; i++)
        if (event_type_class(write->events[i].type) == EVENT_CLASS_TELEMETRY ||
            write->events[i].redacted)
            return false;
    const struct spec *spec = &write->after->job.spec;
    if (write->created && str_is_set(spec->idempotency_key) &&
        (!txn->staged.keys_loaded || !str_is_set(spec->queue)))
        return false;
    const struct ahead_job *newer = known->newer;
    if (newer != NULL && newer->effect_count + write->effect_count > EFFECTS_MAX)
        return false;
    if (str_is_set(write->now.lane) && lane_book_find(&txn->store->lanes, write->now.lane) == 0)
        return false;
    return goes_on(txn, write, known);
}

static bool can_be_staged(const struct sqlite_txn *txn, const struct store_write *write)
{
    if (write->resource_count > 0 || write->resource_gone_count > 0 || write->kind_count > 0 ||
        write->registration_count > 0 || write->registration_gone_count > 0 ||
        write->renewal_count > 0 || write->queue_count > 0 || write->token_count > 0 ||
        write->token_gone_count > 0 || write->purged_count > 0)
        return false;
    for (uint32_t i = 0; i < write->job_count; i++)
        if (!job_can_be_staged(txn, &write->jobs[i], &txn->staged.known[i]))
            return false;
    return true;
}

/* ---- the record ---- */

enum { EVENT_BYTES = 160, JOB_BYTES = 64 };

static size_t record_bytes(const struct store_write *write)
{
    size_t bytes = JOURNAL_HEAD_LEN + JOB_BYTES;
    for (uint32_t i = 0; i < write->job_count; i++) {
        const struct store_job_write *job = &write->jobs[i];
        bytes += JOB_BYTES;
        for (uint32_t k = 0; k < job->event_count; k++) {
            const struct event *event = &job->events[k];
            bytes += EVENT_BYTES + event_name(event).len + event->actor.len +
                     event->cause_text.len + event->correlation_id.len + event->payload.len;
        }
    }
    for (uint32_t i = 0; i < write->request_count; i++) {
        const struct request_record *request = &write->requests[i];
        bytes += EVENT_BYTES + request->scope.len + request->key.len + request->answer.len;
    }
    return bytes;
}

/* Adds a text, and says where it is: the buffer does not move, since it has room for all. */
static struct str keep_text(struct buf *record, struct str text)
{
    value_text(record, text);
    if (!str_is_set(text))
        return text;
    return (struct str){record->at + record->len - text.len, text.len};
}

static const uint8_t *keep_hash(struct buf *record, const uint8_t hash[HASH_LEN])
{
    value_bytes(record, hash, HASH_LEN);
    return (const uint8_t *)record->at + record->len - HASH_LEN;
}

static void log_event(struct buf *record, const struct event *event, int64_t position,
                      struct ahead_event *ret)
{
    value_int(record, event->version);
    value_int(record, event->at);
    *ret = (struct ahead_event){
        .position = position,
        .job = event->job_id,
        .version = event->version,
        .at = event->at,
    };
    ret->type = keep_text(record, event_name(event));
    ret->actor = keep_text(record, event->actor);
    ret->cause = keep_text(record, event->cause_text);
    ret->correlation_id = keep_text(record, event->correlation_id);
    ret->payload = keep_text(record, event->payload);
    ret->digest = keep_hash(record, event->digest);
    ret->hash = keep_hash(record, event->hash);
}

static void log_job(struct sqlite_txn *txn, const struct store_job_write *write)
{
    struct staged *staged = &txn->staged;
    struct buf *record = &staged->record;
    const struct job *job = &write->after->job;
    value_bytes(record, job->id.bytes, sizeof job->id.bytes);
    value_int(record, write->created);
    if (write->created)
        value_bytes(record, job->salt, sizeof job->salt);
    value_int(record, write->event_count);
    for (uint32_t i = 0; i < write->event_count; i++) {
        struct ahead_event *event = &staged->events->at[staged->events->count++];
        log_event(record, &write->events[i], ++txn->feed_end, event);
    }
}

static void log_requests(struct buf *record, const struct store_write *write)
{
    value_int(record, write->request_count);
    for (uint32_t i = 0; i < write->request_count; i++) {
        const struct request_record *request = &write->requests[i];
        value_text(record, request->scope);
        value_text(record, request->key);
        value_int(record, request->at);
        value_bytes(record, request->body_hash, sizeof request->body_hash);
        value_text(record, request->answer);
    }
}

/* ---- staging a write ---- */

/* The effects of a job in the active table, with those that the write changes. */
static enum error_code stage_effects(struct ahead_table *table, const struct ahead_job *newer,
                                     const struct store_job_write *write, struct ahead_job *job,
                                     struct err *err)
{
    uint32_t had = newer != NULL ? newer->effect_count : 0;
    job->effects = had > 0 ? newer->effects : NULL;
    job->effect_count = had;
    if (write->effect_count == 0)
        return ERR_OK;
    struct effect *effects =
        arena_alloc(&table->arena, (had + write->effect_count) * sizeof *effects);
    if (effects == NULL)
        return sqlite_no_memory(err);
    if (had > 0)
        memcpy(effects, newer->effects, had * sizeof *effects);
    for (uint32_t i = 0; i < write->effect_count; i++) {
        struct effect effect = *write->effects[i];
        uint32_t at = 0;
        while (at < job->effect_count && !str_eq(effects[at].name, effect.name))
            at++;
        if (!effect_copy_texts(&effect, &table->arena))
            return sqlite_no_memory(err);
        effects[at] = effect;
        job->effect_count += at == job->effect_count;
    }
    job->effects = effects;
    return ERR_OK;
}

static enum error_code stage_job(struct sqlite_txn *txn, const struct store_job_write *write,
                                 const struct known_job *known, struct err *err)
{
    struct sqlite_store *store = txn->store;
    struct ahead_table *table = store->active;
    const struct uuid *id = &write->after->job.id;
    const struct ahead_job *newer = known->newer;
    const struct ahead_job *older = known->older;
    struct ahead_change *change = &txn->staged.changes[txn->staged.change_count++];
    *change = (struct ahead_change){
        .job =
            {
                .job = write->after->job,
                .created = write->created,
                .purge_at = write->purge_at,
                .at = txn->now,
            },
        .here = known->newer,
    };
    struct ahead_job *job = &change->job;
    enum error_code code = sqlite_place(txn, &write->now, false, &job->now, err);
    if (code != ERR_OK)
        return code;
    if (newer != NULL) {
        job->was = newer->was;
        job->created = newer->created;
    } else if (older != NULL) {
        job->was = older->now;
    } else if (!write->created) {
        const struct taken_work *taken = taken_of(txn, id);
        code = sqlite_place(txn, &write->was, false, &job->was, err);
        if (taken != NULL) {
            job->was.lane = taken->place.lane;
            job->was.rank = taken->place.rank;
            job->was.run_at = taken->place.run_at;
        }
    }
    if (code == ERR_OK)
        code = stage_effects(table, newer, write, job, err);
    bool ready = job->now.lane != 0 && job->now.run_at <= txn->now;
    if (code == ERR_OK &&
        (!job_copy_texts(&job->job, newer != NULL ? &newer->job.spec : NULL, &table->arena) ||
         !ahead_stage_job(table, change, ready)))
        code = sqlite_no_memory(err);
    return code;
}

static enum error_code stage_all(struct sqlite_txn *txn, const struct store_write *write,
                                 struct err *err)
{
    struct staged *staged = &txn->staged;
    struct ahead_table *table = txn->store->active;
    uint32_t events = 0;
    for (uint32_t i = 0; i < write->job_count; i++)
        events += write->jobs[i].event_count;
    staged->changes = arena_alloc(&staged->arena, write->job_count * sizeof *staged->changes);
    staged->requests = arena_alloc(&staged->arena, write->request_count * sizeof *staged->requests);
    staged->events = ahead_stage_events(table, events);
    if (staged->changes == NULL || staged->requests == NULL || staged->events == NULL ||
        !ahead_reserve(table, write->job_count, write->request_count, txn->store->lanes.highest))
        return sqlite_no_memory(err);
    buf_init(&staged->record, &table->log, record_bytes(write));
    journal_begin(&staged->record);
    value_bytes(&staged->record, txn->store->log_id, sizeof txn->store->log_id);
    value_int(&staged->record, txn->now);
    value_int(&staged->record, txn->feed_end);
    value_int(&staged->record, write->job_count);
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < write->job_count && code == ERR_OK; i++) {
        log_job(txn, &write->jobs[i]);
        if (write->jobs[i].event_count > 0)
            code = stage_job(txn, &write->jobs[i], &staged->known[i], err);
        else
            staged->put_back = true;
    }
    log_requests(&staged->record, write);
    for (uint32_t i = 0; i < write->request_count && code == ERR_OK; i++)
        if (!ahead_stage_request(table, &write->requests[i],
                                 &staged->requests[staged->request_count++]))
            code = sqlite_no_memory(err);
    return code == ERR_OK && staged->record.failed ? sqlite_no_memory(err) : code;
}

enum error_code sqlite_stage_write(struct sqlite_txn *txn, const struct store_write *write,
                                   bool *ret_staged, struct err *err)
{
    struct staged *staged = &txn->staged;
    staged->known = arena_alloc(&staged->arena, write->job_count * sizeof *staged->known);
    if (staged->known == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < write->job_count; i++)
        staged->known[i] = know(txn->store, &write->jobs[i].after->job.id);
    *ret_staged = can_be_staged(txn, write);
    return *ret_staged ? stage_all(txn, write, err) : ERR_OK;
}

/* ---- committing ---- */

static void apply(struct sqlite_txn *txn)
{
    struct sqlite_store *store = txn->store;
    struct ahead_table *table = store->active;
    struct staged *staged = &txn->staged;
    bool was_empty = ahead_is_empty(table);
    for (uint32_t i = 0; i < staged->change_count; i++) {
        const struct ahead_change *change = &staged->changes[i];
        ahead_apply_job(table, change);
        sqlite_note_newest(store, &change->job.job.id);
    }
    for (uint32_t i = 0; i < staged->request_count; i++)
        ahead_apply_request(table, &staged->requests[i]);
    ahead_apply_events(table, staged->events);
    table->bytes += staged->record.len + staged->change_count * sizeof(struct ahead_job);
    table->number = store->number;
    if (was_empty)
        sqlite_behind_note(store);
}

enum error_code sqlite_commit_ahead(struct sqlite_txn *txn, struct err *err)
{
    struct sqlite_store *store = txn->store;
    struct staged *staged = &txn->staged;
    if (staged->change_count == 0 && staged->request_count == 0)
        return ERR_OK;
    enum error_code code =
        journal_append(&store->journal, store->number + 1, store->number, &staged->record, err);
    if (code != ERR_OK)
        return code;
    store->number++;
    apply(txn);
    /* What was taken in the database stays passed over. */
    if (!staged->put_back)
        staged->taken_count = 0;
    return ERR_OK;
}

enum error_code sqlite_go_through(struct sqlite_txn *txn, struct err *err)
{
    struct sqlite_store *store = txn->store;
    assert(txn->reader == NULL && !txn->through);
    lite_rollback(&store->front);
    enum error_code code = sqlite_behind_write_all(store, err);
    if (code == ERR_OK)
        code = lite_begin(&store->writer, STORE_WRITE, err);
    if (code != ERR_OK)
        return code;
    txn->through = true;
    txn->connection = &store->writer;
    txn->changes = sqlite3_total_changes(store->writer.db);
    store->passed_count = 0;
    if (store->lanes_stale)
        code = sqlite_lanes_read(store, err);
    for (uint32_t i = 0; i < txn->staged.taken_count && code == ERR_OK; i++) {
        const struct taken_work *taken = &txn->staged.taken[i];
        bool found;
        code = sqlite_ready_delete(txn, &taken->job, taken->step, &taken->place, &found, err);
    }
    txn->staged.taken_count = 0;
    /* What is written now it does not know. */
    ahead_free(store->cached);
    store->cached = NULL;
    return code;
}

/* ---- reading records ---- */

static enum error_code damaged(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "a record of the log cannot be read");
}

static void read_event(struct reader *reader, struct uuid job, struct event *ret)
{
    *ret = (struct event){.job_id = job};
    ret->version = read_int(reader);
    ret->at = read_int(reader);
    ret->type_name = read_text(reader);
    ret->actor = read_text(reader);
    ret->cause_text = read_text(reader);
    ret->correlation_id = read_text(reader);
    ret->payload = read_text(reader);
    read_bytes(reader, ret->digest, HASH_LEN);
    read_bytes(reader, ret->hash, HASH_LEN);
    ret->type = event_type_parse(ret->type_name);
    if (str_eq(ret->type_name, event_type_name(ret->type)))
        ret->type_name = (struct str){NULL, 0};
}

static enum error_code read_job(struct reader *reader, struct arena *arena, struct logged_job *ret,
                                struct err *err)
{
    read_bytes(reader, ret->id.bytes, sizeof ret->id.bytes);
    ret->created = read_int(reader) != 0;
    if (ret->created)
        read_bytes(reader, ret->salt, sizeof ret->salt);
    int64_t count = read_int(reader);
    if (reader->bad || count < 0 || count > reader->end - reader->at)
        return damaged(err);
    ret->event_count = (uint32_t)count;
    ret->events = arena_zalloc(arena, (size_t)count + 1, sizeof *ret->events);
    if (ret->events == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < ret->event_count; i++)
        read_event(reader, ret->id, &ret->events[i]);
    return reader->bad ? damaged(err) : ERR_OK;
}

enum error_code sqlite_read_record(struct str body, struct arena *arena, struct logged_batch *ret,
                                   struct err *err)
{
    struct reader reader = reader_of(body);
    *ret = (struct logged_batch){.now = read_int(&reader), .feed_end = read_int(&reader)};
    int64_t count = read_int(&reader);
    if (reader.bad || count < 0 || count > reader.end - reader.at)
        return damaged(err);
    ret->jobs = arena_zalloc(arena, (size_t)count + 1, sizeof *ret->jobs);
    if (ret->jobs == NULL)
        return sqlite_no_memory(err);
    for (; ret->job_count < count; ret->job_count++) {
        enum error_code code = read_job(&reader, arena, &ret->jobs[ret->job_count], err);
        if (code != ERR_OK)
            return code;
    }
    count = read_int(&reader);
    if (reader.bad || count < 0 || count > reader.end - reader.at)
        return damaged(err);
    ret->requests = arena_zalloc(arena, (size_t)count + 1, sizeof *ret->requests);
    if (ret->requests == NULL)
        return sqlite_no_memory(err);
    for (; ret->request_count < count; ret->request_count++) {
        struct request_record *request = &ret->requests[ret->request_count];
        request->scope = read_text(&reader);
        request->key = read_text(&reader);
        request->at = read_int(&reader);
        read_bytes(&reader, request->body_hash, sizeof request->body_hash);
        request->answer = read_text(&reader);
    }
    return reader.bad ? damaged(err) : ERR_OK;
}
