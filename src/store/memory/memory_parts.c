/* Steps, effects and signals of one job: those that are asked for, each once. */
#include <stdlib.h>

#include "store/memory/memory.h"

/* ---- steps ---- */

struct ordinals {
    uint32_t *at;
    uint32_t count;
    uint32_t cap;
};

static enum error_code ordinals_add(struct memory_txn *txn, struct ordinals *set, uint32_t ordinal)
{
    uint32_t *slot =
        memory_more(&txn->scratch, (void **)&set->at, set->count, &set->cap, sizeof *set->at);
    if (slot == NULL)
        return ERR_NO_MEMORY;
    *slot = ordinal;
    set->count++;
    return ERR_OK;
}

static int ordinal_cmp(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Sorts, and leaves one of each. */
static void ordinals_settle(struct ordinals *set)
{
    if (set->count == 0)
        return;
    qsort(set->at, set->count, sizeof *set->at, ordinal_cmp);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < set->count; i++)
        if (set->at[i] != set->at[kept - 1])
            set->at[kept++] = set->at[i];
    set->count = kept;
}

static enum error_code read_step(struct memory_txn *txn, struct uuid job, uint32_t ordinal,
                                 struct arena *arena, struct step *ret, bool *ret_found,
                                 struct err *err)
{
    struct buf key = memory_step_key(txn, job, ordinal);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_STEPS, &key, &entry);
    if (code != ERR_OK)
        return code;
    *ret_found = entry != NULL;
    if (entry == NULL)
        return ERR_OK;
    struct str value = arena_copy(arena, entry_value(entry));
    if (!str_is_set(value))
        return ERR_NO_MEMORY;
    struct step_row row;
    struct step_place place;
    code = step_row_unpack(value, ordinal, &row, &place, err);
    if (code == ERR_OK)
        code = memory_read_claim(txn, job, ordinal, &row.claim, err);
    if (code != ERR_OK)
        return code;
    struct str progress = arena_copy(arena, row.claim.progress);
    struct str cursor = arena_copy(arena, row.claim.cursor);
    if (str_is_set(progress) != str_is_set(row.claim.progress) ||
        str_is_set(cursor) != str_is_set(row.claim.cursor))
        return ERR_NO_MEMORY;
    row.claim.progress = progress;
    row.claim.cursor = cursor;
    return row_to_step(&row, arena, ret, err);
}

/* The ordinals that are named, by number, id or key. */
static enum error_code named_steps(struct memory_txn *txn, const struct store_parts *parts,
                                   struct ordinals *set)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < parts->ordinal_count && code == ERR_OK; i++)
        code = ordinals_add(txn, set, parts->ordinals[i]);
    for (uint32_t i = 0; i < parts->step_id_count && code == ERR_OK; i++) {
        struct buf key = memory_job_key(txn, parts->job);
        key_text(&key, parts->step_ids[i]);
        const struct entry *entry;
        code = memory_get(txn, TABLE_STEP_IDS, &key, &entry);
        if (code == ERR_OK && entry != NULL) {
            struct reader reader = reader_of(entry_value(entry));
            code = ordinals_add(txn, set, (uint32_t)read_int(&reader));
        }
    }
    for (uint32_t i = 0; i < parts->asking_key_count && code == ERR_OK; i++) {
        struct buf prefix = memory_job_key(txn, parts->job);
        key_text(&prefix, parts->asking_keys[i]);
        if (prefix.failed)
            return ERR_NO_MEMORY;
        struct scan scan = memory_scan(txn, TABLE_STEPS_ASKING, buf_str(&prefix));
        const struct entry *entry;
        while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
            struct reader reader = reader_of(entry_key(entry));
            reader.at += prefix.len;
            code = ordinals_add(txn, set, read_key_step(&reader));
        }
    }
    return code;
}

static enum error_code all_steps(struct memory_txn *txn, struct uuid job, struct ordinals *set)
{
    struct buf prefix = memory_job_key(txn, job);
    if (prefix.failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_STEPS, buf_str(&prefix));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
        struct reader reader = reader_of(entry_key(entry));
        read_key_uuid(&reader);
        code = ordinals_add(txn, set, read_key_step(&reader));
    }
    return code;
}

static enum error_code add_children(struct memory_txn *txn, struct uuid job, struct ordinals *set,
                                    struct err *err)
{
    uint32_t named = set->count;
    for (uint32_t i = 0; i < named; i++) {
        struct step step = {0};
        bool found;
        enum error_code code = read_step(txn, job, set->at[i], &txn->scratch, &step, &found, err);
        for (uint32_t c = 0; code == ERR_OK && found && c < step.child_count; c++)
            code = ordinals_add(txn, set, step.children[c]);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

static enum error_code load_steps(struct memory_txn *txn, struct store_parts *parts,
                                  struct arena *arena, struct err *err)
{
    struct ordinals set = {0};
    enum error_code code =
        parts->all_steps ? all_steps(txn, parts->job, &set) : named_steps(txn, parts, &set);
    if (code == ERR_OK && !parts->all_steps && !parts->no_children)
        code = add_children(txn, parts->job, &set, err);
    if (code != ERR_OK)
        return code;
    ordinals_settle(&set);
    struct step *steps = arena_zalloc(arena, set.count + (size_t)1, sizeof *steps);
    if (steps == NULL)
        return ERR_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < set.count; i++) {
        bool found;
        code = read_step(txn, parts->job, set.at[i], arena, &steps[count], &found, err);
        if (code != ERR_OK)
            return code;
        count += found;
    }
    parts->steps = steps;
    parts->step_count = count;
    return ERR_OK;
}

/* ---- effects and signals: entries first, sorted by version, then read ---- */

struct found_part {
    int64_t version;
    const struct entry *entry;
};

struct found_parts {
    struct found_part *at;
    uint32_t count;
    uint32_t cap;
};

static enum error_code found_add(struct memory_txn *txn, struct found_parts *set, int64_t version,
                                 const struct entry *entry)
{
    struct found_part *slot =
        memory_more(&txn->scratch, (void **)&set->at, set->count, &set->cap, sizeof *set->at);
    if (slot == NULL)
        return ERR_NO_MEMORY;
    *slot = (struct found_part){version, entry};
    set->count++;
    return ERR_OK;
}

static int found_cmp(const void *a, const void *b)
{
    const struct found_part *left = a;
    const struct found_part *right = b;
    return (left->version > right->version) - (left->version < right->version);
}

/* Sorts, and leaves one of each entry. */
static void found_settle(struct found_parts *set)
{
    if (set->count == 0)
        return;
    qsort(set->at, set->count, sizeof *set->at, found_cmp);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < set->count; i++)
        if (set->at[i].entry != set->at[kept - 1].entry)
            set->at[kept++] = set->at[i];
    set->count = kept;
}

static enum error_code add_effect(struct memory_txn *txn, struct found_parts *set,
                                  const struct entry *entry, struct err *err)
{
    struct effect_row row;
    enum error_code code = effect_row_unpack(entry_value(entry), &row, err);
    return code != ERR_OK ? code : found_add(txn, set, row.version, entry);
}

static enum error_code add_effect_named(struct memory_txn *txn, struct found_parts *set,
                                        struct uuid job, struct str name, struct err *err)
{
    struct buf key = memory_job_key(txn, job);
    key_text(&key, name);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_EFFECTS, &key, &entry);
    return code != ERR_OK || entry == NULL ? code : add_effect(txn, set, entry, err);
}

/* Open effects under the prefix of their index, whose value is the name. */
static enum error_code add_open_effects(struct memory_txn *txn, struct found_parts *set,
                                        struct uuid job, const struct buf *prefix, struct err *err)
{
    if (prefix->failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_EFFECTS_OPEN, buf_str(prefix));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL)
        code = add_effect_named(txn, set, job, entry_value(entry), err);
    return code;
}

static bool is_effect_of(const struct store_effects *of, const struct effect_row *row)
{
    return str_is_set(of->step) == str_is_set(row->step) && str_eq(of->step, row->step) &&
           row->version > of->after;
}

/* Every effect of the job, or those of one owner. */
static enum error_code scan_effects(struct memory_txn *txn, const struct store_parts *parts,
                                    struct found_parts *set, struct err *err)
{
    struct buf of_job = memory_job_key(txn, parts->job);
    if (of_job.failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_EFFECTS, buf_str(&of_job));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
        struct effect_row row;
        code = effect_row_unpack(entry_value(entry), &row, err);
        if (code == ERR_OK && (parts->all_effects || is_effect_of(&parts->effects_of, &row)))
            code = found_add(txn, set, row.version, entry);
    }
    return code;
}

static enum error_code find_effects(struct memory_txn *txn, const struct store_parts *parts,
                                    struct found_parts *set, struct err *err)
{
    enum error_code code = ERR_OK;
    if (parts->all_effects || parts->effects_of.wanted)
        return scan_effects(txn, parts, set, err);
    struct buf of_job = memory_job_key(txn, parts->job);
    if (parts->all_open_effects)
        code = add_open_effects(txn, set, parts->job, &of_job, err);
    for (uint32_t i = 0; i < parts->open_of_count && code == ERR_OK; i++) {
        struct buf prefix = memory_job_key(txn, parts->job);
        key_text(&prefix, parts->open_of[i]);
        code = add_open_effects(txn, set, parts->job, &prefix, err);
    }
    for (uint32_t i = 0; i < parts->effect_name_count && code == ERR_OK; i++)
        code = add_effect_named(txn, set, parts->job, parts->effect_names[i], err);
    return code;
}

static enum error_code load_effects(struct memory_txn *txn, struct store_parts *parts,
                                    struct arena *arena, struct err *err)
{
    struct found_parts set = {0};
    enum error_code code = find_effects(txn, parts, &set, err);
    if (code != ERR_OK)
        return code;
    found_settle(&set);
    if (parts->effects_of.wanted && set.count > parts->effects_of.max)
        set.count = parts->effects_of.max;
    struct effect *effects = arena_zalloc(arena, set.count + (size_t)1, sizeof *effects);
    if (effects == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < set.count; i++) {
        struct str value = arena_copy(arena, entry_value(set.at[i].entry));
        struct effect_row row;
        if (!str_is_set(value))
            return ERR_NO_MEMORY;
        code = effect_row_unpack(value, &row, err);
        if (code == ERR_OK)
            code = row_to_effect(&row, arena, &effects[i], err);
        if (code != ERR_OK)
            return code;
    }
    parts->effects = effects;
    parts->effect_count = set.count;
    return ERR_OK;
}

static enum error_code add_signal(struct memory_txn *txn, struct found_parts *set, struct uuid job,
                                  int64_t version)
{
    struct buf key = memory_job_key(txn, job);
    key_int(&key, version);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_SIGNALS, &key, &entry);
    return code != ERR_OK || entry == NULL ? code : found_add(txn, set, version, entry);
}

/* The version at the end of an index's key. */
static int64_t version_behind(const struct entry *entry, size_t prefix_len)
{
    struct reader reader = reader_of(entry_key(entry));
    reader.at += prefix_len;
    return read_key_int(&reader);
}

/* All that are not delivered. The index has them by key; what is found is sorted later. */
static enum error_code add_stored_signals(struct memory_txn *txn, struct found_parts *set,
                                          struct uuid job)
{
    struct buf prefix = memory_job_key(txn, job);
    if (prefix.failed)
        return ERR_NO_MEMORY;
    enum error_code code = ERR_OK;
    struct scan scan = memory_scan(txn, TABLE_SIGNALS_STORED, buf_str(&prefix));
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL)
        code = add_signal(txn, set, job, version_behind(entry, entry->key_len - sizeof(int64_t)));
    return code;
}

/* The newest signal with a key, and the oldest that is stored. */
static enum error_code add_signals_of_key(struct memory_txn *txn, struct found_parts *set,
                                          struct uuid job, struct str text)
{
    struct buf prefix = memory_job_key(txn, job);
    key_text(&prefix, text);
    size_t len = prefix.len;
    struct buf end = memory_job_key(txn, job);
    key_text(&end, text);
    key_int(&end, INT64_MAX);
    if (prefix.failed || end.failed)
        return ERR_NO_MEMORY;
    const struct entry *newest =
        table_before(&txn->store->tables[TABLE_SIGNAL_KEYS], buf_str(&end));
    enum error_code code = ERR_OK;
    if (newest != NULL && newest->key_len > len && memcmp(newest->bytes, prefix.at, len) == 0)
        code = add_signal(txn, set, job, version_behind(newest, len));
    struct scan scan = memory_scan(txn, TABLE_SIGNALS_STORED, buf_str(&prefix));
    const struct entry *oldest = scan_next(&scan);
    if (code == ERR_OK && oldest != NULL)
        code = add_signal(txn, set, job, version_behind(oldest, len));
    return code;
}

static enum error_code find_signals(struct memory_txn *txn, const struct store_parts *parts,
                                    struct found_parts *set)
{
    enum error_code code = ERR_OK;
    if (parts->all_signals) {
        struct buf prefix = memory_job_key(txn, parts->job);
        if (prefix.failed)
            return ERR_NO_MEMORY;
        struct scan scan = memory_scan(txn, TABLE_SIGNALS, buf_str(&prefix));
        const struct entry *entry;
        while (code == ERR_OK && (entry = scan_next(&scan)) != NULL)
            code = found_add(txn, set, version_behind(entry, prefix.len), entry);
        return code;
    }
    if (parts->stored_signals)
        code = add_stored_signals(txn, set, parts->job);
    for (uint32_t i = 0; i < parts->signal_key_count && code == ERR_OK; i++)
        code = add_signals_of_key(txn, set, parts->job, parts->signal_keys[i]);
    for (uint32_t i = 0; i < parts->signal_id_count && code == ERR_OK; i++) {
        struct buf prefix = memory_job_key(txn, parts->job);
        key_text(&prefix, parts->signal_ids[i]);
        if (prefix.failed)
            return ERR_NO_MEMORY;
        struct scan scan = memory_scan(txn, TABLE_SIGNAL_IDS, buf_str(&prefix));
        const struct entry *entry;
        while (code == ERR_OK && (entry = scan_next(&scan)) != NULL)
            code = add_signal(txn, set, parts->job, version_behind(entry, prefix.len));
    }
    return code;
}

static enum error_code load_signals(struct memory_txn *txn, struct store_parts *parts,
                                    struct arena *arena, struct err *err)
{
    struct found_parts set = {0};
    enum error_code code = find_signals(txn, parts, &set);
    if (code != ERR_OK)
        return code;
    found_settle(&set);
    struct signal *signals = arena_zalloc(arena, set.count + (size_t)1, sizeof *signals);
    if (signals == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < set.count; i++) {
        struct str value = arena_copy(arena, entry_value(set.at[i].entry));
        if (!str_is_set(value))
            return ERR_NO_MEMORY;
        code = signal_unpack(value, &signals[i], err);
        if (code != ERR_OK)
            return code;
    }
    parts->signals = signals;
    parts->signal_count = set.count;
    return ERR_OK;
}

enum error_code memory_load_parts(struct store_txn *handle, struct store_parts *parts,
                                  uint32_t count, struct arena *arena, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        code = load_steps(txn, &parts[i], arena, err);
        if (code == ERR_OK)
            code = load_effects(txn, &parts[i], arena, err);
        if (code == ERR_OK)
            code = load_signals(txn, &parts[i], arena, err);
        /* Errors that come up here may still need what is in the scratch memory. */
        if (code == ERR_OK)
            arena_clear(&txn->scratch);
    }
    return memory_verb_end(txn, code, err);
}
