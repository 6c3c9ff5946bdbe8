#include "core/plan_diff.h"

#include <assert.h>

#include "base/json.h"
#include "base/map.h"

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Walks JSON byte by byte, past white space between values. */
struct walk {
    struct str rest;
    bool in_string;
    bool escaped;
};

/* The next byte that means something; -1 at the end. */
static int walk_next(struct walk *walk)
{
    while (!walk->in_string && walk->rest.len > 0 && is_space(walk->rest.at[0])) {
        walk->rest.at++;
        walk->rest.len--;
    }
    if (walk->rest.len == 0)
        return -1;
    char byte = walk->rest.at[0];
    if (byte == '"' && !walk->escaped)
        walk->in_string = !walk->in_string;
    walk->escaped = walk->in_string && byte == '\\' && !walk->escaped;
    walk->rest.at++;
    walk->rest.len--;
    return (unsigned char)byte;
}

static bool json_same(struct str a, struct str b)
{
    struct walk left = {.rest = a};
    struct walk right = {.rest = b};
    int byte;
    do {
        byte = walk_next(&left);
        if (byte != walk_next(&right))
            return false;
    } while (byte >= 0);
    return true;
}

static bool is_raw(enum record_kind kind)
{
    return kind == RECORD_JSON || kind == RECORD_OBJECT || kind == RECORD_ARRAY;
}

static struct str view(const struct step_spec *spec, const struct record_field *field)
{
    struct str value;
    assert(field->size == sizeof value);
    memcpy(&value, (const char *)spec + field->offset, sizeof value);
    return value;
}

static uint64_t fields_that_differ(const struct step_spec *from, const struct step_spec *to)
{
    uint64_t fields = 0;
    for (size_t i = 0; i < step_spec_record.count; i++) {
        uint64_t bit = UINT64_C(1) << i;
        const struct record_field *field = record_differs(&step_spec_record, from, to, bit);
        if (field == NULL)
            continue;
        struct str a = is_raw(field->kind) ? view(from, field) : (struct str){NULL, 0};
        struct str b = is_raw(field->kind) ? view(to, field) : (struct str){NULL, 0};
        if (!str_is_set(a) || !str_is_set(b) || !json_same(a, b))
            fields |= bit;
    }
    return fields;
}

static enum error_code index_steps(const struct plan *plan, struct map *map, struct err *err)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        uint32_t found;
        if (map_put(map, plan->steps[i].spec.id, i, &found) != ERR_OK)
            return err_set(err, ERR_NO_MEMORY, "out of memory for %u steps", plan->count);
    }
    return ERR_OK;
}

static void add(struct plan_diff *diff, enum plan_change_type type, const struct step_spec *from,
                const struct step_spec *to, uint64_t fields)
{
    diff->changes[diff->count++] = (struct plan_change){type, from, to, fields};
}

enum error_code plan_diff(const struct plan *from, const struct plan *to, uint64_t seed,
                          struct arena *arena, struct plan_diff *ret, struct err *err)
{
    struct map before;
    struct map after;
    struct plan_diff diff = {0};
    size_t most = (size_t)from->count + to->count;
    map_init(&before, arena, from->count, seed);
    map_init(&after, arena, to->count, seed);
    diff.changes = arena_zalloc(arena, most + 1, sizeof *diff.changes);
    if (diff.changes == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu steps", most);
    enum error_code code = index_steps(from, &before, err);
    if (code == ERR_OK)
        code = index_steps(to, &after, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < to->count; i++) {
        const struct step_spec *spec = &to->steps[i].spec;
        uint32_t found = map_get(&before, spec->id);
        if (found == MAP_NONE) {
            add(&diff, STEP_ADDED, NULL, spec, 0);
            continue;
        }
        const struct step_spec *old = &from->steps[found].spec;
        uint64_t fields = fields_that_differ(old, spec);
        if (fields != 0)
            add(&diff, STEP_CHANGED, old, spec, fields);
        else
            diff.same++;
    }
    for (uint32_t i = 0; i < from->count; i++)
        if (map_get(&after, from->steps[i].spec.id) == MAP_NONE)
            add(&diff, STEP_REMOVED, &from->steps[i].spec, NULL, 0);
    *ret = diff;
    return ERR_OK;
}
