#include "engine/claim_records.h"

#include "base/map.h"
#include "core/event.h"
#include "engine/answer.h"

/* Results may have a mebibyte each, so that few are read at once; RECORD_BYTES is about what a
 * record has besides its texts. */
enum { AT_ONCE = 16, RECORD_BYTES = 256 };

/* A wait that ended, as it is written. The last one with a key counts. */
struct ended_wait {
    struct str key;
    struct str json;
};

/* Both rows of records, read page by page, and what was written of them so far. */
struct merge {
    struct claim_records *records;
    struct uuid job;
    struct str step;
    struct effect *effects;
    uint32_t effect_count;
    uint32_t effect_at;
    bool effects_over;
    struct event *waits; /* opened */
    uint32_t wait_count;
    uint32_t wait_at;
    bool waits_over;
    struct arena *arena; /* of the answer */
    struct json_writer writer;
    struct buf written; /* the effects */
    struct ended_wait *ended;
    uint32_t ended_count;
    uint32_t ended_cap;
    struct map ended_index;
    int64_t after; /* up to which all is written */
};

void claim_records_init(struct claim_records *records, struct store_txn *txn, uint64_t seed)
{
    *records = (struct claim_records){.txn = txn, .seed = seed, .bytes_left = RECORDS_BYTES_MAX};
    arena_init(&records->effects);
    arena_init(&records->waits);
}

void claim_records_release(struct claim_records *records)
{
    arena_release(&records->effects);
    arena_release(&records->waits);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* The next effect; NULL: there is none, or it could not be read, which `ret_ok` says. */
static const struct effect *next_effect(struct merge *merge, bool *ret_ok)
{
    struct claim_records *records = merge->records;
    if (merge->effect_at == merge->effect_count && !merge->effects_over) {
        int64_t after = merge->effect_count > 0 ? merge->effects[merge->effect_count - 1].version
                                                : merge->after;
        struct store_parts parts = {
            .job = merge->job,
            .effects_of = {.wanted = true, .step = merge->step, .after = after, .max = AT_ONCE},
        };
        arena_clear(&records->effects);
        *ret_ok = store_load_parts(records->txn, &parts, 1, &records->effects, NULL) == ERR_OK;
        merge->effects = parts.effects;
        merge->effect_at = 0;
        merge->effect_count = *ret_ok ? parts.effect_count : 0;
        merge->effects_over = merge->effect_count < AT_ONCE;
    }
    return merge->effect_at < merge->effect_count ? &merge->effects[merge->effect_at] : NULL;
}

/* The next event that may have ended a wait: of a job that it waited, of a step that its question
 * was answered. Signals of the job and of other steps are among the latter. */
static const struct event *next_wait(struct merge *merge, bool *ret_ok)
{
    struct claim_records *records = merge->records;
    if (merge->wait_at == merge->wait_count && !merge->waits_over) {
        struct store_stream stream = {
            .job = merge->job,
            .after =
                merge->wait_count > 0 ? merge->waits[merge->wait_count - 1].version : merge->after,
            .limit = AT_ONCE,
            .type = event_type_name(str_is_set(merge->step) ? EVENT_SIGNAL_RECEIVED
                                                            : EVENT_WAIT_COMPLETED),
        };
        arena_clear(&records->waits);
        merge->wait_at = 0;
        merge->wait_count = 0;
        *ret_ok = store_events(records->txn, &stream, &records->waits, &merge->waits,
                               &merge->wait_count, NULL) == ERR_OK;
        for (uint32_t i = 0; i < merge->wait_count && *ret_ok; i++)
            *ret_ok = event_open(&merge->waits[i], records->seed, &records->waits, NULL) == ERR_OK;
        if (!*ret_ok)
            merge->wait_count = 0;
        merge->waits_over = merge->wait_count < AT_ONCE;
    }
    return merge->wait_at < merge->wait_count ? &merge->waits[merge->wait_at] : NULL;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Takes so many bytes of what may still be written; false: there are not as many. */
static bool take_bytes(struct claim_records *records, size_t bytes)
{
    if (bytes > records->bytes_left)
        return false;
    records->bytes_left -= bytes;
    return true;
}

static void put_input_hash(struct json_writer *writer, const struct effect *effect)
{
    json_key(writer, STR("input_hash"));
    if (str_is_set(effect->fingerprint))
        json_put_string(writer, effect->fingerprint);
    else
        json_put_hex(writer, effect->input_hash, sizeof effect->input_hash);
}

static bool put_effect(struct merge *merge, const struct effect *effect)
{
    struct json_writer *writer = &merge->writer;
    if (!take_bytes(merge->records,
                    effect->key.len + effect->result.len + effect->error.len + RECORD_BYTES))
        return false;
    answer_key(writer, effect->key);
    json_begin_object(writer);
    answer_text(writer, STR("status"),
                effect->returned  ? STR("recorded")
                : effect->aborted ? STR("aborted")
                                  : STR("open"));
    put_input_hash(writer, effect);
    if (str_is_set(effect->error))
        answer_raw(writer, STR("error"), effect->error);
    else if (effect->returned)
        answer_raw(writer, STR("result"), effect->result);
    answer_time(writer, STR("at"), effect->ended_at > 0 ? effect->ended_at : effect->called_at);
    json_end_object(writer);
    return true;
}

/* Keeps a wait in the place of an older one with its key; false: no memory. */
static bool keep_wait(struct merge *merge, struct str key, struct str json)
{
    uint32_t found = map_get(&merge->ended_index, key);
    if (found != MAP_NONE) {
        merge->ended[found].json = json;
        return true;
    }
    if (merge->ended_count == merge->ended_cap) {
        uint32_t cap = merge->ended_cap < 8 ? 8 : merge->ended_cap * 2;
        struct ended_wait *ended = arena_grow(
            merge->arena, merge->ended, merge->ended_cap * sizeof *ended, cap * sizeof *ended);
        if (ended == NULL)
            return false;
        merge->ended = ended;
        merge->ended_cap = cap;
    }
    struct str kept = arena_copy(merge->arena, key);
    if (!str_is_set(kept) ||
        map_put(&merge->ended_index, kept, merge->ended_count, &found) != ERR_OK)
        return false;
    merge->ended[merge->ended_count++] = (struct ended_wait){kept, json};
    return true;
}

/* Waits without a key, which are timers, cannot be told apart, and a word on an effect in doubt is
 * in the effect. */
static bool put_wait(struct merge *merge, const struct event *event)
{
    const struct event_data *data = &event->data;
    if (str_is_set(merge->step) && !str_eq(data->step, merge->step))
        return true;
    if (!str_is_set(data->correlation_key) || data->resolution != RESOLVE_NONE)
        return true;
    size_t said = data->payload.len + data->by.len + data->comment.len;
    if (!take_bytes(merge->records, data->correlation_key.len + said + RECORD_BYTES))
        return false;
    struct buf json;
    struct json_writer writer;
    buf_init(&json, merge->arena, said + 96);
    json_writer_init(&writer, &json);
    json_begin_object(&writer);
    answer_word(&writer, STR("outcome"), &outcome_names, (int)data->outcome);
    answer_raw(&writer, STR("payload"), data->payload);
    if (str_is_set(data->by) || str_is_set(data->comment)) {
        answer_text(&writer, STR("by"), data->by);
        answer_text(&writer, STR("comment"), data->comment);
    }
    answer_time(&writer, STR("at"), event->at);
    json_end_object(&writer);
    if (json.failed || !keep_wait(merge, data->correlation_key, buf_str(&json)))
        merge->records->failed = true;
    return true;
}

/* Writes records in the order of their versions; false: some are left. */
static bool merge_all(struct merge *merge)
{
    bool ok = merge->records->txn != NULL;
    while (ok && !merge->records->failed) {
        const struct effect *effect = next_effect(merge, &ok);
        const struct event *wait = ok ? next_wait(merge, &ok) : NULL;
        if (!ok || (effect == NULL && wait == NULL))
            return ok;
        bool first = wait == NULL || (effect != NULL && effect->version < wait->version);
        if (!(first ? put_effect(merge, effect) : put_wait(merge, wait)))
            return false;
        merge->after = first ? effect->version : wait->version;
        merge->effect_at += first;
        merge->wait_at += !first;
    }
    return false;
}

void claim_records_put(struct claim_records *records, struct json_writer *writer, struct uuid job,
                       struct str step, int64_t after)
{
    struct merge merge = {
        .records = records,
        .job = job,
        .step = step,
        .arena = writer->buf->arena,
        .after = after,
    };
    buf_init(&merge.written, merge.arena, 256);
    json_writer_init(&merge.writer, &merge.written);
    map_init(&merge.ended_index, merge.arena, 8, records->seed);
    json_begin_object(&merge.writer);
    bool all = merge_all(&merge);
    json_end_object(&merge.writer);
    records->failed = records->failed || merge.written.failed;

    answer_raw(writer, STR("effects"), buf_str(&merge.written));
    json_key(writer, STR("waits"));
    json_begin_object(writer);
    for (uint32_t i = 0; i < merge.ended_count; i++) {
        answer_key(writer, merge.ended[i].key);
        json_put_raw(writer, merge.ended[i].json);
    }
    json_end_object(writer);
    if (!all)
        answer_int(writer, STR("effects_next"), merge.after);
}

void claim_records_put_none(struct json_writer *writer)
{
    answer_raw(writer, STR("effects"), STR("{}"));
    answer_raw(writer, STR("waits"), STR("{}"));
}
