/* Reading: lists of jobs, streams, the feed, and who holds a resource. */
#include "base/json.h"
#include "store/memory/memory.h"

/* ---- lists ---- */

static bool has_label(struct str labels, struct str key, struct str value, struct arena *scratch)
{
    struct json_iter iter;
    struct str raw_key;
    struct str raw_value;
    bool found = false;
    if (!json_object_begin(&iter, labels))
        return false;
    while (!found && json_object_next(&iter, &raw_key, &raw_value)) {
        struct str name;
        struct str text;
        found = json_string(raw_key, scratch, &name) && json_string(raw_value, scratch, &text) &&
                str_eq(name, key) && str_eq(text, value);
    }
    return found;
}

/* A filter's text that is not set does not matter. */
static bool text_passes(struct str wanted, struct str text)
{
    return !str_is_set(wanted) || str_eq(wanted, text);
}

static bool correlation_passes(const struct store_filter *filter, const struct job_row *row)
{
    return str_is_set(row->correlation_id)
               ? text_passes(filter->correlation_id, row->correlation_id)
               : !str_is_set(filter->correlation_id) || uuid_eq(filter->correlation_job, row->id);
}

static bool row_passes(const struct store_filter *filter, const struct job_row *row,
                       struct arena *scratch)
{
    bool passes =
        (filter->statuses == 0 || (filter->statuses >> row->status & 1) != 0) &&
        text_passes(filter->kind, row->kind) && text_passes(filter->queue, row->queue) &&
        (filter->queues == NULL || names_have(filter->queues, row->queue)) &&
        text_passes(filter->agent_id, row->agent_id) && correlation_passes(filter, row) &&
        row->created_at > filter->created_after && (!filter->asking || row->asking) &&
        (filter->reason_code == DEAD_NONE || row->reason_code == (int64_t)filter->reason_code);
    if (!passes || !str_is_set(filter->label_key))
        return passes;
    return has_label(row->labels, filter->label_key, filter->label_value, scratch);
}

static const struct entry *list_start(struct memory_txn *txn, const struct store_filter *filter)
{
    static const struct uuid none = {0};
    static const struct uuid last = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    const struct table *table = &txn->store->tables[TABLE_JOBS];
    if (!uuid_eq(filter->id, none)) {
        struct str id = {(const char *)filter->id.bytes, sizeof filter->id.bytes};
        bool behind = !uuid_eq(filter->before, none) &&
                      memcmp(filter->id.bytes, filter->before.bytes, sizeof none.bytes) >= 0;
        return behind ? NULL : table_get(table, id);
    }
    const struct uuid *before = uuid_eq(filter->before, none) ? &last : &filter->before;
    return table_before(table, (struct str){(const char *)before->bytes, sizeof before->bytes});
}

static enum error_code list_jobs(struct memory_txn *txn, const struct store_filter *filter,
                                 struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                                 struct err *err)
{
    static const struct uuid none = {0};
    const struct table *table = &txn->store->tables[TABLE_JOBS];
    uint32_t cap = 0;
    const struct entry *entry = list_start(txn, filter);
    while (entry != NULL && *ret_count < filter->limit) {
        struct reader reader = reader_of(entry_key(entry));
        struct uuid id = read_key_uuid(&reader);
        struct job_row row;
        enum error_code code = job_row_unpack(entry_value(entry), id, &row, err);
        if (code != ERR_OK)
            return code;
        if (row_passes(filter, &row, &txn->scratch)) {
            struct store_job *job =
                memory_more(arena, (void **)ret, *ret_count, &cap, sizeof **ret);
            if (job == NULL)
                return ERR_NO_MEMORY;
            *job = (struct store_job){.id = id};
            code = memory_read_job(txn, id, arena, &job->slice, &job->redacted, err);
            code = row_damaged(job, txn->store->base.options.seed, code, arena, err);
            if (code != ERR_OK)
                return code;
            ++*ret_count;
        }
        arena_clear(&txn->scratch);
        entry = uuid_eq(filter->id, none) ? table_before(table, entry_key(entry)) : NULL;
    }
    return ERR_OK;
}

enum error_code memory_list(struct store_txn *handle, const struct store_filter *filter,
                            struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                            struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct store_job *jobs = NULL;
    uint32_t count = 0;
    enum error_code code = memory_verb_begin(txn, err);
    if (code == ERR_OK)
        code = memory_verb_end(txn, list_jobs(txn, filter, arena, &jobs, &count, err), err);
    if (code != ERR_OK)
        return code;
    *ret = jobs;
    *ret_count = count;
    return ERR_OK;
}

/* ---- events ---- */

static enum error_code read_event(const struct entry *entry, struct arena *arena, struct event *ret,
                                  int64_t *ret_position, struct err *err)
{
    struct str value = arena_copy(arena, entry_value(entry));
    if (!str_is_set(value))
        return ERR_NO_MEMORY;
    return event_unpack(value, ret, ret_position, err);
}

struct event_list {
    struct event *at;
    uint32_t count;
    uint32_t cap;
};

static enum error_code read_events(struct memory_txn *txn, const struct store_stream *stream,
                                   struct arena *arena, struct event_list *list, struct err *err)
{
    const struct table *table =
        &txn->store->tables[stream->telemetry ? TABLE_TELEMETRY : TABLE_EVENTS];
    struct buf from = memory_job_key(txn, stream->job);
    size_t prefix_len = from.len;
    key_int(&from, stream->after);
    if (stream->telemetry) /* which has many at a time, all of which are at it and not after */
        key_int(&from, INT64_MAX);
    if (from.failed)
        return ERR_NO_MEMORY;
    const struct entry *entry = table_after(table, buf_str(&from));
    while (entry != NULL && list->count < stream->limit &&
           memcmp(entry->bytes, stream->job.bytes, prefix_len) == 0) {
        struct event *event =
            memory_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at);
        if (event == NULL)
            return ERR_NO_MEMORY;
        int64_t position;
        enum error_code code = read_event(entry, arena, event, &position, err);
        if (code != ERR_OK)
            return code;
        list->count += !str_is_set(stream->type) || str_eq(event_name(event), stream->type);
        entry = table_after(table, entry_key(entry));
    }
    return ERR_OK;
}

enum error_code memory_events(struct store_txn *handle, const struct store_stream *stream,
                              struct arena *arena, struct event **ret, uint32_t *ret_count,
                              struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct event_list list = {0};
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    code = read_events(txn, stream, arena, &list, err);
    code = memory_verb_end(txn, code, err);
    if (code != ERR_OK)
        return code;
    *ret = list.at;
    *ret_count = list.count;
    return ERR_OK;
}

/* ---- the feed ---- */

static enum error_code read_feed(struct memory_txn *txn, struct store_position after,
                                 uint32_t limit, struct arena *arena, struct store_fed **ret,
                                 uint32_t *ret_count, struct err *err)
{
    const struct table *table = &txn->store->tables[TABLE_FEED];
    struct buf from = memory_buf(txn);
    key_int(&from, (int64_t)after.major);
    if (from.failed)
        return ERR_NO_MEMORY;
    uint32_t cap = 0;
    const struct entry *entry = table_after(table, buf_str(&from));
    for (; entry != NULL && *ret_count < limit; entry = table_after(table, entry_key(entry))) {
        const struct entry *event =
            table_get(&txn->store->tables[TABLE_EVENTS], entry_value(entry));
        if (event == NULL)
            return err_set(err, ERR_CORRUPT, "the feed in memory names an event that is not there");
        struct store_fed *fed = memory_more(arena, (void **)ret, *ret_count, &cap, sizeof **ret);
        if (fed == NULL)
            return ERR_NO_MEMORY;
        int64_t position = 0;
        enum error_code code = read_event(event, arena, &fed->event, &position, err);
        if (code != ERR_OK)
            return code;
        fed->position = (struct store_position){.major = (uint64_t)position};
        ++*ret_count;
    }
    return ERR_OK;
}

enum error_code memory_feed(struct store_txn *handle, struct store_position after, uint32_t limit,
                            struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                            struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct store_fed *fed = NULL;
    uint32_t count = 0;
    enum error_code code = memory_verb_begin(txn, err);
    if (code == ERR_OK)
        code = memory_verb_end(txn, read_feed(txn, after, limit, arena, &fed, &count, err), err);
    if (code != ERR_OK)
        return code;
    *ret = fed;
    *ret_count = count;
    return ERR_OK;
}

/* What was in another process's memory is gone with it. */
enum error_code memory_feed_state(struct store_txn *handle, struct store_position after,
                                  struct store_feed_state *ret, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    *ret = (struct store_feed_state){.is_reset = after.major > (uint64_t)txn->store->feed_last};
    return memory_verb_end(txn, ERR_OK, err);
}

/* ---- leases on a resource ---- */

static enum error_code read_leases_on(struct memory_txn *txn, struct str resource_id,
                                      struct arena *arena, struct store_lease **ret,
                                      uint32_t *ret_count)
{
    struct buf prefix = memory_buf(txn);
    key_text(&prefix, resource_id);
    if (prefix.failed)
        return ERR_NO_MEMORY;
    struct scan scan = memory_scan(txn, TABLE_CLAIMS_ON, buf_str(&prefix));
    uint32_t cap = 0;
    const struct entry *entry;
    while ((entry = scan_next(&scan)) != NULL) {
        struct store_lease *lease =
            memory_more(arena, (void **)ret, *ret_count, &cap, sizeof **ret);
        if (lease == NULL)
            return ERR_NO_MEMORY;
        struct reader reader = reader_of(entry_key(entry));
        reader.at += prefix.len;
        lease->job = read_key_uuid(&reader);
        lease->step = read_key_step(&reader);
        ++*ret_count;
    }
    return ERR_OK;
}

enum error_code memory_leases_on(struct store_txn *handle, struct str resource_id,
                                 struct arena *arena, struct store_lease **ret, uint32_t *ret_count,
                                 struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    struct store_lease *leases = NULL;
    uint32_t count = 0;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    code = read_leases_on(txn, resource_id, arena, &leases, &count);
    code = memory_verb_end(txn, code, err);
    if (code != ERR_OK)
        return code;
    *ret = leases;
    *ret_count = count;
    return ERR_OK;
}
