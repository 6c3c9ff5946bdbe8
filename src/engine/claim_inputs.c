#include "engine/claim_inputs.h"

#include <string.h>

#include "base/json.h"
#include "base/record.h"

/* Results may have a mebibyte each: many are read at once only when those before were short. */
enum { AT_ONCE_MIN = 16, AT_ONCE_MAX = 256, SHORT_BYTES = 1024 * 1024 };

enum { KEY_BYTES_MAX = 16 + NAME_BYTES_MAX };

struct claim_input {
    struct uuid job;
    struct str step;
    struct str result; /* raw JSON */
    bool found;
};

void claim_inputs_init(struct claim_inputs *inputs, struct arena *arena, uint64_t seed)
{
    *inputs = (struct claim_inputs){.arena = arena};
    map_init(&inputs->index, arena, 16, seed);
}

/* The name of a step among those of all jobs, in `bytes`; absent: there is no such name. */
static struct str key_of(struct uuid job, struct str step, char bytes[KEY_BYTES_MAX])
{
    if (step.len > NAME_BYTES_MAX)
        return (struct str){NULL, 0};
    memcpy(bytes, job.bytes, sizeof job.bytes);
    memcpy(bytes + sizeof job.bytes, step.at, step.len);
    return (struct str){bytes, sizeof job.bytes + step.len};
}

/* Notes a step once. False: no memory. */
static bool want(struct claim_inputs *inputs, struct uuid job, struct str step)
{
    char bytes[KEY_BYTES_MAX];
    struct str key = key_of(job, step, bytes);
    uint32_t found;
    if (!str_is_set(key) || map_get(&inputs->index, key) != MAP_NONE)
        return true;
    if (inputs->count == inputs->cap) {
        uint32_t cap = inputs->cap < AT_ONCE_MIN ? AT_ONCE_MIN : inputs->cap * 2;
        struct claim_input *at =
            arena_grow(inputs->arena, inputs->at, inputs->cap * sizeof *at, cap * sizeof *at);
        if (at == NULL)
            return false;
        inputs->at = at;
        inputs->cap = cap;
    }
    key = arena_copy(inputs->arena, key);
    if (!str_is_set(key) || map_put(&inputs->index, key, inputs->count, &found) != ERR_OK)
        return false;
    struct str name = {key.at + sizeof job.bytes, key.len - sizeof job.bytes};
    inputs->at[inputs->count++] = (struct claim_input){.job = job, .step = name};
    return true;
}

bool claim_inputs_want(struct claim_inputs *inputs, struct uuid job, struct str steps)
{
    struct json_iter iter;
    struct str raw;
    struct str id;
    bool room = true;
    if (!json_array_begin(&iter, steps))
        return true;
    while (room && json_array_next(&iter, &raw))
        if (json_string(raw, inputs->arena, &id))
            room = want(inputs, job, id);
    return room;
}

/* Those of one job, among some that are to be read. */
static uint32_t parts_of(const struct claim_input *from, uint32_t count, struct str *ids,
                         struct store_parts *ret)
{
    uint32_t parts = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < parts && !known; k++)
            known = uuid_eq(ret[k].job, from[i].job);
        if (known)
            continue;
        struct store_parts *part = &ret[parts++];
        *part = (struct store_parts){.job = from[i].job, .no_children = true};
        part->step_ids = &ids[used];
        for (uint32_t k = i; k < count; k++)
            if (uuid_eq(from[k].job, part->job))
                ids[used + part->step_id_count++] = from[k].step;
        used += part->step_id_count;
    }
    return parts;
}

static bool keep(struct claim_inputs *inputs, const struct store_parts *part)
{
    for (uint32_t i = 0; i < part->step_count; i++) {
        const struct step *step = &part->steps[i];
        char bytes[KEY_BYTES_MAX];
        struct str key = key_of(part->job, step->spec.id, bytes);
        uint32_t place = str_is_set(key) ? map_get(&inputs->index, key) : MAP_NONE;
        if (place == MAP_NONE)
            continue;
        struct claim_input *input = &inputs->at[place];
        input->found = true;
        if (!str_is_set(step->result))
            continue;
        input->result = arena_copy(inputs->arena, step->result);
        inputs->bytes += step->result.len;
        if (!str_is_set(input->result))
            return false;
    }
    return true;
}

/* Reads some more, and throws away all but the results. */
static bool read_some(struct claim_inputs *inputs, struct store_txn *txn, uint32_t count,
                      struct arena *page)
{
    const struct claim_input *from = &inputs->at[inputs->read];
    struct str *ids = arena_alloc(page, count * sizeof *ids);
    struct store_parts *parts = arena_alloc(page, count * sizeof *parts);
    if (ids == NULL || parts == NULL)
        return false;
    uint32_t part_count = parts_of(from, count, ids, parts);
    bool room = true;
    if (store_load_parts(txn, parts, part_count, page, NULL) == ERR_OK)
        for (uint32_t i = 0; i < part_count && room; i++)
            room = keep(inputs, &parts[i]);
    inputs->read += count;
    arena_clear(page);
    return room;
}

bool claim_inputs_read(struct claim_inputs *inputs, struct store_txn *txn, size_t bytes_max)
{
    struct arena page;
    uint32_t at_once = AT_ONCE_MIN;
    bool room = true;
    arena_init(&page);
    while (room && inputs->read < inputs->count && inputs->bytes <= bytes_max) {
        uint32_t left = inputs->count - inputs->read;
        size_t before = inputs->bytes;
        room = read_some(inputs, txn, left < at_once ? left : at_once, &page);
        bool brief = inputs->bytes - before < SHORT_BYTES;
        at_once = !brief ? AT_ONCE_MIN : at_once < AT_ONCE_MAX ? at_once * 2 : AT_ONCE_MAX;
    }
    arena_release(&page);
    return room;
}

bool claim_inputs_find(const struct claim_inputs *inputs, struct uuid job, struct str step,
                       struct str *ret)
{
    char bytes[KEY_BYTES_MAX];
    struct str key = key_of(job, step, bytes);
    uint32_t place = str_is_set(key) ? map_get(&inputs->index, key) : MAP_NONE;
    if (place == MAP_NONE || !inputs->at[place].found)
        return false;
    *ret = inputs->at[place].result;
    return true;
}
