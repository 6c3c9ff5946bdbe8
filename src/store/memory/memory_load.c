/* What a batch names, read at its start. The one transaction at a time is all the locking there is.
 */
#include "core/job_state.h"
#include "store/memory/memory.h"

static enum error_code load_key(struct memory_txn *txn, struct store_key *wanted,
                                struct arena *arena, struct err *err)
{
    struct buf key = memory_buf(txn);
    key_text(&key, wanted->queue);
    key_text(&key, wanted->key);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_JOB_KEYS, &key, &entry);
    if (code != ERR_OK)
        return code;
    struct uuid id = {0};
    bool redacted;
    if (entry == NULL) {
        job_slice_init(&wanted->slice, id, txn->store->base.options.seed);
        return ERR_OK;
    }
    struct reader reader = reader_of(entry_value(entry));
    read_bytes(&reader, id.bytes, sizeof id.bytes);
    return memory_read_job(txn, id, arena, &wanted->slice, &redacted, err);
}

static enum error_code load_request(struct memory_txn *txn, struct store_request *wanted,
                                    struct arena *arena, struct err *err)
{
    struct buf key = memory_buf(txn);
    key_text(&key, wanted->scope);
    key_text(&key, wanted->key);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_REQUESTS, &key, &entry);
    if (code != ERR_OK)
        return code;
    wanted->found = entry != NULL;
    if (entry == NULL)
        return ERR_OK;
    struct str value = arena_copy(arena, entry_value(entry));
    if (!str_is_set(value))
        return ERR_NO_MEMORY;
    return request_unpack(value, &wanted->record, err);
}

static enum error_code count_leases_on(struct memory_txn *txn, struct str id, int64_t *ret)
{
    struct buf prefix = memory_buf(txn);
    key_text(&prefix, id);
    if (prefix.failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_CLAIMS_ON, buf_str(&prefix));
    int64_t count = 0;
    while (scan_next(&scan) != NULL)
        count++;
    *ret = count;
    return ERR_OK;
}

enum error_code memory_read_resource(struct memory_txn *txn, const struct entry *entry,
                                     struct arena *arena, struct resource *ret, struct err *err)
{
    struct str value = arena_copy(arena, entry_value(entry));
    struct str id = arena_copy(arena, entry_key(entry));
    if (!str_is_set(value) || !str_is_set(id))
        return ERR_NO_MEMORY;
    struct reader reader = reader_of(value);
    int64_t expires_at = read_int(&reader);
    *ret = (struct resource){0};
    enum error_code code = resource_state_read(read_text(&reader), arena, ret, err);
    ret->id = id;
    ret->expires_at = expires_at;
    return code != ERR_OK ? code : count_leases_on(txn, id, &ret->used);
}

static enum error_code load_resource(struct memory_txn *txn, struct store_resource *wanted,
                                     struct arena *arena, struct err *err)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, wanted->id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_RESOURCES, &key, &entry);
    if (code != ERR_OK)
        return code;
    wanted->found = entry != NULL;
    return entry == NULL ? ERR_OK : memory_read_resource(txn, entry, arena, &wanted->resource, err);
}

/* What an operator has set: all of it, since there is little. */
static enum error_code load_kinds(struct memory_txn *txn, struct store_load *load,
                                  struct arena *arena, struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_KINDS, STR(""));
    struct store_kind *kinds = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    const struct entry *entry;
    while ((entry = scan_next(&scan)) != NULL) {
        struct store_kind *kind = memory_more(arena, (void **)&kinds, count, &cap, sizeof *kinds);
        if (kind == NULL)
            return ERR_NO_MEMORY;
        *kind = (struct store_kind){.kind = arena_copy(arena, entry_key(entry))};
        struct str settings = arena_copy(arena, entry_value(entry));
        if (!str_is_set(kind->kind) || !str_is_set(settings))
            return ERR_NO_MEMORY;
        enum error_code code = kind_settings_read(settings, arena, &kind->settings, err);
        if (code != ERR_OK)
            return code;
        count++;
    }
    load->kinds = kinds;
    load->kind_count = count;
    return ERR_OK;
}

static enum error_code load_paused(struct memory_txn *txn, struct store_load *load,
                                   struct arena *arena)
{
    struct scan scan = memory_scan(txn, TABLE_QUEUES, STR(""));
    struct str *queues = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    const struct entry *entry;
    while ((entry = scan_next(&scan)) != NULL) {
        struct str *queue = memory_more(arena, (void **)&queues, count, &cap, sizeof *queues);
        if (queue == NULL)
            return ERR_NO_MEMORY;
        *queue = arena_copy(arena, entry_key(entry));
        if (!str_is_set(*queue))
            return ERR_NO_MEMORY;
        count++;
    }
    load->paused = (struct names){queues, count};
    return ERR_OK;
}

enum error_code memory_load(struct store_txn *handle, struct store_load *load, struct arena *arena,
                            struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < load->job_count && code == ERR_OK; i++) {
        struct store_job *job = &load->jobs[i];
        code = memory_read_job(txn, job->id, arena, &job->slice, &job->redacted, err);
    }
    for (uint32_t i = 0; i < load->key_count && code == ERR_OK; i++)
        code = load_key(txn, &load->keys[i], arena, err);
    for (uint32_t i = 0; i < load->request_count && code == ERR_OK; i++)
        code = load_request(txn, &load->requests[i], arena, err);
    for (uint32_t i = 0; i < load->resource_count && code == ERR_OK; i++)
        code = load_resource(txn, &load->resources[i], arena, err);
    for (uint32_t i = 0; i < load->registration_count && code == ERR_OK; i++)
        code = memory_load_registration(txn, &load->registrations[i], arena, err);
    if (code == ERR_OK)
        code = load_kinds(txn, load, arena, err);
    if (code == ERR_OK)
        code = load_paused(txn, load, arena);
    load->now = txn->now;
    load->lanes_era = txn->store->lanes_era;
    return memory_verb_end(txn, code, err);
}
