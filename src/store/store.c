/* Opening by URL, and the verbs with what the contract asks of their callers. */
#include "store/store_driver.h"

#include <assert.h>

#include "store/memory/memory_store.h"
#include "store/postgres/postgres_store.h"
#include "store/sqlite/sqlite_store.h"

static bool strip_prefix(struct str *text, struct str prefix)
{
    if (text->len < prefix.len || memcmp(text->at, prefix.at, prefix.len) != 0)
        return false;
    text->at += prefix.len;
    text->len -= prefix.len;
    return true;
}

/* Where `part` begins in the text, from `from` on; its length when it is not there. */
static size_t find_part(struct str text, size_t from, struct str part)
{
    for (size_t i = from; i + part.len <= text.len; i++)
        if (memcmp(text.at + i, part.at, part.len) == 0)
            return i;
    return text.len;
}

/* Refuses what was given as a URL and repeats it, but not what could be a password: that stands
 * between a ':' and the last '@', or behind "password=". */
static enum error_code refuse_url(struct str url, struct err *err)
{
    struct str head = {str_start(url), find_part(url, 0, STR("password="))};
    struct str tail = {NULL, 0};
    const char *end = head.len < url.len ? "password=***" : "";
    size_t host = head.len;
    while (host > 0 && head.at[host - 1] != '@')
        host--;
    /* The first ':' may be that of "postgres:/". */
    size_t from = find_part(head, 0, STR(":")) + 1;
    size_t name = from;
    while (name < head.len && head.at[name] == '/')
        name++;
    size_t second = find_part(head, name, STR(":")) + 1;
    if (second < host || name > from)
        from = second;
    if (from < host) {
        tail = (struct str){head.at + host - 1, head.len - host + 1};
        head.len = from;
    }
    return err_set(err, ERR_BAD_REQUEST,
                   "\"%.*s%s%.*s%s\" is not the URL of a store: use memory:, sqlite:PATH or "
                   "postgres://HOST/DATABASE",
                   STR_ARG(head), str_is_set(tail) ? "***" : "", STR_ARG(tail), end);
}

/* Whether it is a list of keywords, "host=db dbname=pawl", which PostgreSQL reads as it does a
 * URL. */
static bool is_keywords(struct str text)
{
    size_t at = 0;
    while (at < text.len && ((text.at[at] >= 'a' && text.at[at] <= 'z') || text.at[at] == '_'))
        at++;
    size_t name = at;
    while (at < text.len && text.at[at] == ' ')
        at++;
    return name > 0 && at < text.len && text.at[at] == '=';
}

enum error_code store_open(struct str url, const struct store_options *options, struct store **ret,
                           struct err *err)
{
    struct str rest = url;
    struct str whole = url;
    if (memchr(str_start(url), '\0', url.len) != NULL)
        return err_set(err, ERR_BAD_REQUEST, "the URL of a store has a NUL byte in it");
    if (strip_prefix(&rest, STR("memory:")) && rest.len == 0)
        return memory_store_open(options, ret, err);
    rest = url;
    if (strip_prefix(&rest, STR("sqlite:")) && rest.len > 0)
        return sqlite_store_open(rest, options, ret, err);
    if (strip_prefix(&whole, STR("postgres://")) || strip_prefix(&whole, STR("postgresql://")) ||
        is_keywords(url))
        return postgres_store_open(url, options, ret, err);
    return refuse_url(url, err);
}

void store_close(struct store *store)
{
    if (store != NULL)
        store->driver->close(store);
}

enum error_code store_begin(struct store *store, enum store_mode mode, struct store_txn **ret,
                            struct err *err)
{
    return store->driver->begin(store, mode, ret, err);
}

/* Whether every element comes after the one before it. */
static bool load_is_sorted(const struct store_load *load)
{
    bool sorted = true;
    for (uint32_t i = 1; i < load->job_count; i++)
        sorted = sorted && memcmp(load->jobs[i - 1].id.bytes, load->jobs[i].id.bytes, 16) < 0;
    for (uint32_t i = 1; i < load->key_count; i++) {
        int order = str_cmp(load->keys[i - 1].queue, load->keys[i].queue);
        sorted = sorted && order <= 0 &&
                 (order < 0 || str_cmp(load->keys[i - 1].key, load->keys[i].key) < 0);
    }
    for (uint32_t i = 1; i < load->request_count; i++) {
        int order = str_cmp(load->requests[i - 1].scope, load->requests[i].scope);
        sorted = sorted && order <= 0 &&
                 (order < 0 || str_cmp(load->requests[i - 1].key, load->requests[i].key) < 0);
    }
    for (uint32_t i = 1; i < load->resource_count; i++)
        sorted = sorted && str_cmp(load->resources[i - 1].id, load->resources[i].id) < 0;
    for (uint32_t i = 1; i < load->registration_count; i++)
        sorted = sorted && str_cmp(load->registrations[i - 1].id, load->registrations[i].id) < 0;
    return sorted;
}

enum error_code store_load(struct store_txn *txn, struct store_load *load, struct arena *arena,
                           struct err *err)
{
    assert(load_is_sorted(load));
    return txn->store->driver->load(txn, load, arena, err);
}

enum error_code store_load_parts(struct store_txn *txn, struct store_parts *parts, uint32_t count,
                                 struct arena *arena, struct err *err)
{
    return count == 0 ? ERR_OK : txn->store->driver->load_parts(txn, parts, count, arena, err);
}

uint32_t store_lanes_many(uint32_t left)
{
    uint32_t most = STORE_LANES_MAX / 10 * 9;
    return left < STORE_LANES_FEW / 2 ? STORE_LANES_FEW : left < most / 2 ? 2 * left : most;
}

enum error_code store_lanes(struct store_txn *txn, uint32_t after, struct arena *arena,
                            struct store_lane **ret, uint32_t *ret_count, struct err *err)
{
    return txn->store->driver->lanes(txn, after, arena, ret, ret_count, err);
}

enum error_code store_candidates(struct store_txn *txn, struct store_search *searches,
                                 uint32_t count, struct arena *arena, struct err *err)
{
    assert(txn->mode == STORE_WRITE);
    return count == 0 ? ERR_OK : txn->store->driver->candidates(txn, searches, count, arena, err);
}

enum error_code store_promote(struct store_txn *txn, uint32_t limit, uint32_t *ret_count,
                              struct err *err)
{
    assert(txn->mode == STORE_WRITE);
    return txn->store->driver->promote(txn, limit, ret_count, err);
}

enum error_code store_outbox_drain(struct store_txn *txn, const struct store_outbox_request *wanted,
                                   struct arena *arena, struct store_submission **ret,
                                   uint32_t *ret_count, struct err *err)
{
    assert(txn->mode == STORE_WRITE && wanted->limit > 0);
    *ret_count = 0;
    return txn->store->driver->outbox_drain == NULL
               ? ERR_OK
               : txn->store->driver->outbox_drain(txn, wanted, arena, ret, ret_count, err);
}

/* Whether what is said to have changed is what a row must be written for. */
static bool tells_changes(const struct store_job_write *job)
{
    for (uint32_t i = 0; i < job->event_count; i++)
        if (event_type_class(job->events[i].type) != EVENT_CLASS_TELEMETRY &&
            (job->changed & CHANGED_STREAM) == 0)
            return false;
    return (!job->created && !job->redact) || job->changed == CHANGED_ALL;
}

enum error_code store_write(struct store_txn *txn, const struct store_write *write, struct err *err)
{
    assert(txn->mode == STORE_WRITE);
    for (uint32_t i = 1; i < write->job_count; i++)
        assert(memcmp(write->jobs[i - 1].after->job.id.bytes, write->jobs[i].after->job.id.bytes,
                      16) < 0);
    for (uint32_t i = 0; i < write->job_count; i++)
        assert(tells_changes(&write->jobs[i]));
    return txn->store->driver->write(txn, write, err);
}

enum error_code store_commit(struct store_txn *txn, enum store_outcome *outcome, struct err *err)
{
    return txn->store->driver->commit(txn, outcome, err);
}

void store_rollback(struct store_txn *txn)
{
    txn->store->driver->rollback(txn);
}

enum error_code store_due(struct store *store, uint32_t limit, struct arena *arena,
                          struct store_due **ret, uint32_t *ret_count, int64_t *ret_now,
                          int64_t *ret_next, struct err *err)
{
    return store->driver->due(store, limit, arena, ret, ret_count, ret_now, ret_next, err);
}

enum error_code store_list(struct store_txn *txn, const struct store_filter *filter,
                           struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                           struct err *err)
{
    assert(filter->limit > 0 && filter->limit <= STORE_LIST_MAX);
    if (filter->reach != NULL)
        *filter->reach = (struct store_reach){.stopped = false};
    return txn->store->driver->list(txn, filter, arena, ret, ret_count, err);
}

enum error_code store_events(struct store_txn *txn, const struct store_stream *stream,
                             struct arena *arena, struct event **ret, uint32_t *ret_count,
                             struct err *err)
{
    assert(stream->limit > 0 && stream->limit <= STORE_EVENTS_MAX);
    return txn->store->driver->events(txn, stream, arena, ret, ret_count, err);
}

enum error_code store_feed(struct store_txn *txn, struct store_position after, uint32_t limit,
                           struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                           struct err *err)
{
    assert(limit > 0 && limit <= STORE_EVENTS_MAX);
    return txn->store->driver->feed(txn, after, limit, arena, ret, ret_count, err);
}

enum error_code store_feed_state(struct store_txn *txn, struct store_position after,
                                 struct store_feed_state *ret, struct err *err)
{
    return txn->store->driver->feed_state(txn, after, ret, err);
}

enum error_code store_watch(struct store *store, uint64_t seen, int64_t wait_ms, uint64_t *ret_seen,
                            struct err *err)
{
    return store->driver->watch(store, seen, wait_ms, ret_seen, err);
}

bool store_overlaps(const struct store *store)
{
    return store->driver->await_turn != NULL;
}

void store_await_turn(struct store *store, int64_t wait_ms)
{
    if (store->driver->await_turn != NULL)
        store->driver->await_turn(store, wait_ms);
}

enum error_code store_watch_others(struct store *store, uint64_t seen, int64_t wait_ms,
                                   uint64_t *ret_seen, struct err *err)
{
    if (store->driver->watch_others == NULL)
        return store_watch(store, seen, wait_ms, ret_seen, err);
    return store->driver->watch_others(store, seen, wait_ms, ret_seen, err);
}

enum error_code store_leases_on(struct store_txn *txn, struct str resource_id, struct arena *arena,
                                struct store_lease **ret, uint32_t *ret_count, struct err *err)
{
    return txn->store->driver->leases_on(txn, resource_id, arena, ret, ret_count, err);
}

enum error_code store_queues(struct store_txn *txn, struct arena *arena,
                             struct store_queue_count **ret, uint32_t *ret_count, struct err *err)
{
    enum error_code code = txn->store->driver->queues(txn, arena, ret, ret_count, err);
    for (uint32_t i = 0; i < *ret_count && code == ERR_OK; i++)
        if (job_status_terminal((*ret)[i].status))
            (*ret)[i].oldest_at = 0;
    return code;
}

enum error_code store_workers(struct store_txn *txn, const struct names *queues,
                              struct arena *arena, struct store_worker **ret, uint32_t *ret_count,
                              struct err *err)
{
    return txn->store->driver->workers(txn, queues, arena, ret, ret_count, err);
}

enum error_code store_registrations(struct store_txn *txn, struct arena *arena, struct worker **ret,
                                    uint32_t *ret_count, struct err *err)
{
    return txn->store->driver->registrations(txn, arena, ret, ret_count, err);
}

enum error_code store_registration_count(struct store_txn *txn, int64_t *ret, struct err *err)
{
    return txn->store->driver->registration_count(txn, ret, err);
}

enum error_code store_step_counts(struct store_txn *txn, int64_t ret[STEP_STATE_COUNT],
                                  struct err *err)
{
    return txn->store->driver->step_counts(txn, ret, err);
}

enum error_code store_resources(struct store_txn *txn, struct arena *arena, struct resource **ret,
                                uint32_t *ret_count, struct err *err)
{
    return txn->store->driver->resources(txn, arena, ret, ret_count, err);
}

enum error_code store_tokens(struct store_txn *txn, struct store_tokens *tokens,
                             struct arena *arena, struct err *err)
{
    return txn->store->driver->tokens(txn, tokens, arena, err);
}

enum error_code store_backup(struct store *store, struct str path, int64_t *ret_bytes,
                             struct err *err)
{
    if (path.len == 0)
        return err_set(err, ERR_BAD_REQUEST, "the path of the copy is empty: name a new file");
    if (memchr(path.at, '\0', path.len) != NULL)
        return err_set(err, ERR_BAD_REQUEST, "the path of the copy has a NUL byte in it");
    return store->driver->backup == NULL
               ? err_set(err, ERR_BAD_REQUEST, "%s", store->driver->no_backup)
               : store->driver->backup(store, path, ret_bytes, err);
}

enum error_code store_sweep(struct store *store, int64_t now, uint32_t limit, uint32_t *ret_count,
                            struct err *err)
{
    return store->driver->sweep(store, now, limit, ret_count, err);
}

int store_due_cmp(const void *a, const void *b)
{
    const struct store_due *left = a;
    const struct store_due *right = b;
    if (left->at != right->at)
        return left->at < right->at ? -1 : 1;
    if (left->what != right->what)
        return left->what < right->what ? -1 : 1;
    int order = memcmp(left->job.bytes, right->job.bytes, sizeof left->job.bytes);
    if (order != 0)
        return order;
    if (left->step != right->step)
        return left->step + 1 < right->step + 1 ? -1 : 1; /* STEP_NONE comes first */
    return str_cmp(left->resource_id, right->resource_id);
}

enum error_code store_record_liveness(struct store *store, struct store_liveness *liveness,
                                      struct err *err)
{
    return store->driver->record_liveness(store, liveness, err);
}

enum error_code store_strays(struct store *store, struct arena *arena, struct store_stray **ret,
                             uint32_t *ret_count, struct err *err)
{
    *ret_count = 0;
    return store->driver->strays == NULL ? ERR_OK
                                         : store->driver->strays(store, arena, ret, ret_count, err);
}

enum error_code store_mend(struct store *store, uint32_t lane, struct str key, struct err *err)
{
    assert(store->driver->mend != NULL && lane > 0);
    return store->driver->mend(store, lane, key, err);
}

void store_origin(struct store *store, struct store_origin *ret)
{
    *ret = (struct store_origin){.generation = store->generation};
    if (store->driver->origin != NULL)
        store->driver->origin(store, ret);
}
