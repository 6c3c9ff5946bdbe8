/* Registrations of workers. */
#include "store/memory/memory.h"

static enum error_code read_registration(const struct entry *entry, struct arena *arena,
                                         struct worker *ret, struct err *err)
{
    struct str value = arena_copy(arena, entry_value(entry));
    struct str id = arena_copy(arena, entry_key(entry));
    if (!str_is_set(value) || !str_is_set(id))
        return ERR_NO_MEMORY;
    struct reader reader = reader_of(value);
    int64_t expires_at = read_int(&reader);
    *ret = (struct worker){0};
    enum error_code code = worker_state_read(read_text(&reader), arena, ret, err);
    ret->id = id;
    ret->expires_at = expires_at;
    return code;
}

enum error_code memory_load_registration(struct memory_txn *txn, struct store_registration *wanted,
                                         struct arena *arena, struct err *err)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, wanted->id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_WORKERS, &key, &entry);
    if (code != ERR_OK)
        return code;
    wanted->found = entry != NULL;
    return entry == NULL ? ERR_OK : read_registration(entry, arena, &wanted->worker, err);
}

enum error_code memory_drop_registration(struct memory_txn *txn, struct str id)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_WORKERS, &key, &entry);
    if (code != ERR_OK || entry == NULL)
        return code;
    struct reader reader = reader_of(entry_value(entry));
    struct buf end = memory_buf(txn);
    key_int(&end, read_int(&reader));
    buf_add(&end, id);
    code = memory_take_buf(txn, TABLE_WORKERS_ENDS, &end, NULL);
    return code != ERR_OK ? code : memory_take_buf(txn, TABLE_WORKERS, &key, NULL);
}

static enum error_code put_state(struct memory_txn *txn, struct str id, int64_t expires_at,
                                 struct str state)
{
    enum error_code code = memory_drop_registration(txn, id);
    struct buf key = memory_buf(txn);
    struct buf value = memory_buf(txn);
    struct buf end = memory_buf(txn);
    buf_add(&key, id);
    value_int(&value, expires_at);
    value_text(&value, state);
    key_int(&end, expires_at);
    buf_add(&end, id);
    if (code == ERR_OK)
        code = memory_put(txn, TABLE_WORKERS, &key, &value);
    return code != ERR_OK ? code : memory_put(txn, TABLE_WORKERS_ENDS, &end, &key);
}

enum error_code memory_put_registration(struct memory_txn *txn, const struct worker *worker)
{
    struct buf state = memory_buf(txn);
    worker_state_write(worker, &state);
    return state.failed ? ERR_NO_MEMORY
                        : put_state(txn, worker->id, worker->expires_at, buf_str(&state));
}

enum error_code memory_renew_registration(struct memory_txn *txn, struct str id, int64_t expires_at)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, id);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_WORKERS, &key, &entry);
    if (code != ERR_OK || entry == NULL)
        return code;
    struct reader reader = reader_of(entry_value(entry)); /* its bytes stay until the end */
    if (read_int(&reader) >= expires_at)
        return ERR_OK;
    return put_state(txn, id, expires_at, read_text(&reader));
}

static enum error_code read_all(struct memory_txn *txn, struct arena *arena, struct worker **ret,
                                uint32_t *ret_count, struct err *err)
{
    struct scan scan = memory_scan(txn, TABLE_WORKERS, STR(""));
    uint32_t cap = 0;
    const struct entry *entry;
    while (*ret_count < WORKERS_MAX && (entry = scan_next(&scan)) != NULL) {
        struct worker *worker = memory_more(arena, (void **)ret, *ret_count, &cap, sizeof **ret);
        if (worker == NULL)
            return ERR_NO_MEMORY;
        enum error_code code = read_registration(entry, arena, worker, err);
        if (code != ERR_OK)
            return code;
        ++*ret_count;
    }
    return ERR_OK;
}

enum error_code memory_registrations(struct store_txn *handle, struct arena *arena,
                                     struct worker **ret, uint32_t *ret_count, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct worker *workers = NULL;
    uint32_t count = 0;
    enum error_code code = memory_verb_begin(txn, err);
    if (code == ERR_OK)
        code = memory_verb_end(txn, read_all(txn, arena, &workers, &count, err), err);
    if (code != ERR_OK)
        return code;
    *ret = workers;
    *ret_count = count;
    return ERR_OK;
}

enum error_code memory_registration_count(struct store_txn *handle, int64_t *ret, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct scan scan = memory_scan(txn, TABLE_WORKERS, STR(""));
    *ret = 0;
    while (scan_next(&scan) != NULL)
        ++*ret;
    return memory_verb_end(txn, ERR_OK, err);
}
