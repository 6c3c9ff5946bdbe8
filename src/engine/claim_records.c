#include "engine/claim_records.h"

#include "base/map.h"
#include "core/event.h"
#include "engine/answer.h"

/* Results may have a mebibyte each, so that few are read at once; RECORD_BYTES is about what a
 * record has besides its texts. */
enum { AT_ONCE = 16, RECORD_BYTES = 256 };

/* Both rows of records, read page by page, and what was taken of them so far. */
struct merge {
    struct claim_records *records;
    struct uuid job;
    struct str step;
    struct arena *arena;
    struct effect *effects;
    uint32_t effect_count;
    uint32_t effect_at;
    bool effects_over;
    struct event *waits; /* opened */
    uint32_t wait_count;
    uint32_t wait_at;
    bool waits_over;
    struct map wait_index; /* from the key of a wait to its place in found->waits */
    struct claim_found *found;
    bool failed; /* memory ran out */
};

/* ---- reading ------------------------------------------------------------------------------ */

/* The next effect; NULL: the end, or it could not be read, which `ret_ok` says. */
static const struct effect *next_effect(struct merge *merge, bool *ret_ok)
{
    if (merge->effect_at == merge->effect_count && !merge->effects_over) {
        int64_t after = merge->effect_count > 0 ? merge->effects[merge->effect_count - 1].version
                                                : merge->found->next;
        struct store_parts parts = {
            .job = merge->job,
            .effects_of = {.wanted = true, .step = merge->step, .after = after, .max = AT_ONCE},
        };
        *ret_ok = store_load_parts(merge->records->txn, &parts, 1, merge->arena, NULL) == ERR_OK;
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
    const struct claim_records *records = merge->records;
    if (merge->wait_at == merge->wait_count && !merge->waits_over) {
        struct store_stream stream = {
            .job = merge->job,
            .after = merge->wait_count > 0 ? merge->waits[merge->wait_count - 1].version
                                           : merge->found->next,
            .limit = AT_ONCE,
            .type = event_type_name(str_is_set(merge->step) ? EVENT_SIGNAL_RECEIVED
                                                            : EVENT_WAIT_COMPLETED),
        };
        merge->wait_at = 0;
        merge->wait_count = 0;
        *ret_ok = store_events(records->txn, &stream, merge->arena, &merge->waits,
                               &merge->wait_count, NULL) == ERR_OK;
        for (uint32_t i = 0; i < merge->wait_count && *ret_ok; i++)
            *ret_ok = event_open(&merge->waits[i], records->seed, merge->arena, NULL) == ERR_OK;
        if (!*ret_ok)
            merge->wait_count = 0;
        merge->waits_over = merge->wait_count < AT_ONCE;
    }
    return merge->wait_at < merge->wait_count ? &merge->waits[merge->wait_at] : NULL;
}

/* Takes so many bytes of what may still be read; false: there are not as many. */
static bool take_bytes(struct claim_records *records, size_t bytes)
{
    if (bytes > records->bytes_left)
        return false;
    records->bytes_left -= bytes;
    return true;
}

static bool take_effect(struct merge *merge, const struct effect *effect)
{
    if (!take_bytes(merge->records,
                    effect->key.len + effect->result.len + effect->error.len + RECORD_BYTES))
        return false;
    merge->failed = !refs_add(&merge->found->effects, merge->arena, effect);
    return true;
}

/* Waits without a key, which are timers, cannot be told apart, and a word on an effect in doubt is
 * in the effect. */
static bool take_wait(struct merge *merge, const struct event *event)
{
    const struct event_data *data = &event->data;
    struct refs *waits = &merge->found->waits;
    uint32_t older;
    if (str_is_set(merge->step) && !str_eq(data->step, merge->step))
        return true;
    if (!str_is_set(data->correlation_key) || data->resolution != RESOLVE_NONE)
        return true;
    if (!take_bytes(merge->records, data->correlation_key.len + data->payload.len + data->by.len +
                                        data->comment.len + RECORD_BYTES))
        return false;
    if (map_put(&merge->wait_index, data->correlation_key, waits->count, &older) != ERR_OK)
        merge->failed = true;
    else if (older != MAP_NONE)
        waits->at[older] = event;
    else
        merge->failed = !refs_add(waits, merge->arena, event);
    return true;
}

/* Takes records in the order of their versions; false: some are left. */
static bool merge_all(struct merge *merge)
{
    bool ok = merge->records->txn != NULL;
    while (ok && !merge->failed) {
        const struct effect *effect = next_effect(merge, &ok);
        const struct event *wait = ok ? next_wait(merge, &ok) : NULL;
        if (!ok || (effect == NULL && wait == NULL))
            return ok;
        bool first = wait == NULL || (effect != NULL && effect->version < wait->version);
        if (!(first ? take_effect(merge, effect) : take_wait(merge, wait)))
            return false;
        merge->found->next = first ? effect->version : wait->version;
        merge->effect_at += first;
        merge->wait_at += !first;
    }
    return false;
}

bool claim_records_read(struct claim_records *records, struct uuid job, struct str step,
                        int64_t after, struct arena *arena, struct claim_found *ret)
{
    struct merge merge = {
        .records = records, .job = job, .step = step, .arena = arena, .found = ret};
    *ret = (struct claim_found){.next = after};
    map_init(&merge.wait_index, arena, 8, records->seed);
    ret->more = !merge_all(&merge);
    return !merge.failed;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_input_hash(struct json_writer *writer, const struct effect *effect)
{
    json_key(writer, STR("input_hash"));
    if (str_is_set(effect->fingerprint))
        json_put_string(writer, effect->fingerprint);
    else
        json_put_hex(writer, effect->input_hash, sizeof effect->input_hash);
}

static void put_effect(struct json_writer *writer, const struct effect *effect)
{
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
}

static void put_wait(struct json_writer *writer, const struct event *event)
{
    const struct event_data *data = &event->data;
    answer_key(writer, data->correlation_key);
    json_begin_object(writer);
    answer_word(writer, STR("outcome"), &outcome_names, (int)data->outcome);
    answer_raw(writer, STR("payload"), data->payload);
    if (str_is_set(data->by) || str_is_set(data->comment)) {
        answer_text(writer, STR("by"), data->by);
        answer_text(writer, STR("comment"), data->comment);
    }
    answer_time(writer, STR("at"), event->at);
    json_end_object(writer);
}

void claim_found_write(const struct claim_found *found, struct json_writer *writer)
{
    json_key(writer, STR("effects"));
    json_begin_object(writer);
    for (uint32_t i = 0; i < found->effects.count; i++)
        put_effect(writer, found->effects.at[i]);
    json_end_object(writer);
    json_key(writer, STR("waits"));
    json_begin_object(writer);
    for (uint32_t i = 0; i < found->waits.count; i++)
        put_wait(writer, found->waits.at[i]);
    json_end_object(writer);
    if (found->more)
        answer_int(writer, STR("effects_next"), found->next);
}
