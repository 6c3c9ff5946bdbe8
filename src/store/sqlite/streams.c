/* Streams of events, the feed, and who holds a resource. */
#include "store/sqlite/packed.h"
#include "store/sqlite/sqlite.h"

/* Parts of history that are read at once, and rows of the feed that a sweep looks at. */
enum { PARTS_AT_ONCE = 64, FEED_SWEPT_AT_ONCE = 64 };

/* ---- a job's stream ---- */

enum error_code sqlite_read_parts(struct sqlite_txn *txn, int64_t no, int64_t after, uint32_t max,
                                  struct arena *arena, struct stream_part **ret,
                                  uint32_t *ret_count, struct err *err)
{
    uint32_t cap = 0;
    struct query query = lite_query(txn->connection, STATEMENT_EVENTS_OF_JOB, arena, err);
    lite_put_int(&query, no);
    lite_put_int(&query, after);
    lite_put_int(&query, max);
    *ret = NULL;
    *ret_count = 0;
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)ret, *ret_count, &cap, sizeof **ret)) {
            query.out_of_memory = true;
            break;
        }
        struct stream_part *part = &(*ret)[(*ret_count)++];
        part->source = (enum part_source)lite_read_int(&query);
        part->first = lite_read_int(&query);
        part->hashes = lite_read_text(&query);
        part->events = lite_read_text(&query);
    }
    return lite_end(&query);
}

/* What a reader of a stream wants of it. */
struct wanted_events {
    struct uuid job;
    uint8_t salt[SALT_LEN];
    int64_t after; /* a version */
    int64_t until; /* the last version */
    struct str type;
    uint32_t limit;
};

struct event_list {
    struct event *at;
    uint32_t count;
    uint32_t cap;
};

static enum error_code add_part(const struct stream_part *part, const struct wanted_events *wanted,
                                struct arena *arena, struct event_list *list, struct err *err)
{
    struct packed packed;
    struct event event;
    enum error_code code = packed_begin(&packed, part->events, part->hashes, part->first, err);
    while (code == ERR_OK && list->count < wanted->limit && packed_next(&packed, arena, &event)) {
        if (event.version <= wanted->after || event.version > wanted->until ||
            (str_is_set(wanted->type) && !str_eq(wanted->type, event_name(&event))))
            continue;
        event.job_id = wanted->job;
        if (!event.redacted)
            event_digest(&event, wanted->salt, event.digest);
        if (!sqlite_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at))
            return sqlite_no_memory(err);
        list->at[list->count++] = event;
    }
    return code;
}

/* How many of the parts can be taken: if there may be more of history, those up to the last of it,
 * since what comes behind may have others before it. */
static uint32_t usable_parts(const struct stream_part *parts, uint32_t count, uint32_t max,
                             bool *ret_more)
{
    uint32_t of_history = 0;
    uint32_t usable = 0;
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].source == PART_HISTORY) {
            of_history++;
            usable = i + 1;
        }
    *ret_more = of_history == max;
    return *ret_more ? usable : count;
}

/* How many parts of history may be needed at most: each has an event, but not of every type. */
static uint32_t parts_wanted(const struct wanted_events *wanted, uint32_t found, int64_t after)
{
    int64_t events = wanted->until - after;
    if (events > wanted->limit - found)
        events = wanted->limit - found;
    return str_is_set(wanted->type) || events > PARTS_AT_ONCE ? PARTS_AT_ONCE : (uint32_t)events;
}

/* Parts are read until there are enough events: of a type there may be few in each. */
static enum error_code read_events(struct sqlite_txn *txn, int64_t no,
                                   const struct wanted_events *wanted, struct arena *arena,
                                   struct event_list *list, struct err *err)
{
    int64_t after = wanted->after;
    enum error_code code = ERR_OK;
    bool more = true;
    while (code == ERR_OK && more && list->count < wanted->limit && after < wanted->until) {
        struct stream_part *parts;
        uint32_t count;
        uint32_t max = parts_wanted(wanted, list->count, after);
        code = sqlite_read_parts(txn, no, after, max, arena, &parts, &count, err);
        if (code != ERR_OK)
            break;
        count = usable_parts(parts, count, max, &more);
        for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
            code = add_part(&parts[i], wanted, arena, list, err);
            after = parts[i].first + (int64_t)(parts[i].hashes.len / HASH_LEN) - 1;
        }
    }
    return code;
}

/* The job's number, 0 if there is no such job, and its salt. */
static enum error_code find_job(struct sqlite_txn *txn, struct wanted_events *wanted,
                                int64_t *ret_no, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_EVENTS_JOB, NULL, err);
    lite_put_uuid(&query, &wanted->job);
    *ret_no = 0;
    if (lite_next(&query)) {
        *ret_no = lite_read_int(&query);
        lite_read_blob(&query, wanted->salt, sizeof wanted->salt);
    }
    return lite_end(&query);
}

static enum error_code find_fed(struct sqlite_txn *txn, int64_t no, struct wanted_events *wanted,
                                bool *ret_found, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_FED_JOB, NULL, err);
    lite_put_int(&query, no);
    *ret_found = lite_next(&query);
    if (*ret_found) {
        wanted->job = lite_read_uuid(&query);
        lite_read_blob(&query, wanted->salt, sizeof wanted->salt);
    }
    return lite_end(&query);
}

enum error_code sqlite_read_salt(struct sqlite_txn *txn, int64_t no, uint8_t ret[SALT_LEN],
                                 struct err *err)
{
    struct wanted_events wanted = {0};
    bool found;
    enum error_code code = find_fed(txn, no, &wanted, &found, err);
    memcpy(ret, wanted.salt, sizeof wanted.salt);
    return code;
}

static enum error_code read_telemetry(struct sqlite_txn *txn, const struct store_stream *stream,
                                      struct arena *arena, struct event_list *list, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_TELEMETRY_OF_JOB, arena, err);
    lite_put_uuid(&query, &stream->job);
    lite_put_int(&query, stream->after);
    lite_put_int(&query, stream->limit);
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&list->at, list->count, &list->cap, sizeof *list->at)) {
            query.out_of_memory = true;
            break;
        }
        struct event *event = &list->at[list->count++];
        *event = (struct event){.job_id = lite_read_uuid(&query)};
        event->version = lite_read_int(&query);
        struct str name = lite_read_text(&query);
        event->type = event_type_parse(name);
        if (!str_eq(name, event_type_name(event->type)))
            event->type_name = name;
        event->at = lite_read_int(&query);
        event->actor = lite_read_text(&query);
        event->cause_text = lite_read_text(&query);
        event->correlation_id = lite_read_text(&query);
        event->payload = lite_read_text(&query);
    }
    return lite_end(&query);
}

enum error_code sqlite_events(struct store_txn *base, const struct store_stream *stream,
                              struct arena *arena, struct event **ret, uint32_t *ret_count,
                              struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct event_list list = {0};
    struct wanted_events wanted = {
        .job = stream->job,
        .after = stream->after,
        .until = INT64_MAX,
        .type = stream->type,
        .limit = stream->limit,
    };
    int64_t no = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    if (stream->telemetry)
        code = read_telemetry(txn, stream, arena, &list, err);
    else
        code = find_job(txn, &wanted, &no, err);
    if (code == ERR_OK && no != 0)
        code = read_events(txn, no, &wanted, arena, &list, err);
    code = sqlite_verb_end(txn, code);
    if (code != ERR_OK)
        return code;
    *ret = list.at;
    *ret_count = list.count;
    return ERR_OK;
}

/* ---- the feed ---- */

struct fed_list {
    struct sqlite_txn *txn;
    struct arena *arena;
    struct store_position after;
    uint32_t limit;
    struct store_fed *at;
    uint32_t count;
    uint32_t cap;
    uint64_t minor; /* of the next event of the batch */
};

/* The events that one job gained in a batch. Those of a job that was deleted are counted, so that
 * the others keep their places. */
static enum error_code add_fed(struct fed_list *list, int64_t position, int64_t no, int64_t version,
                               int64_t events, struct err *err)
{
    struct wanted_events wanted = {
        .after = version - 1, .until = version + events - 1, .limit = UINT32_MAX};
    struct event_list found = {0};
    uint64_t first = list->minor;
    bool there = false;
    list->minor += (uint64_t)events;
    if ((uint64_t)position == list->after.major && list->minor <= list->after.minor + 1)
        return ERR_OK;
    enum error_code code = find_fed(list->txn, no, &wanted, &there, err);
    if (code == ERR_OK && there)
        code = read_events(list->txn, no, &wanted, list->arena, &found, err);
    for (uint32_t i = 0; i < found.count && code == ERR_OK && list->count < list->limit; i++) {
        uint64_t minor = first + (uint64_t)(found.at[i].version - version);
        if ((uint64_t)position == list->after.major && minor <= list->after.minor)
            continue;
        if (!sqlite_more(list->arena, (void **)&list->at, list->count, &list->cap,
                         sizeof *list->at))
            return sqlite_no_memory(err);
        list->at[list->count++] = (struct store_fed){
            .event = found.at[i],
            .position = {.major = (uint64_t)position, .minor = minor},
        };
    }
    return code;
}

static enum error_code add_batch(struct fed_list *list, int64_t position, struct str jobs,
                                 struct err *err)
{
    struct json_iter iter;
    struct fed_jobs fed;
    enum error_code code = ERR_OK;
    list->minor = 0;
    if (!json_array_begin(&iter, jobs))
        return err_set(err, ERR_CORRUPT, "the stored feed is damaged");
    while (code == ERR_OK && list->count < list->limit && sqlite_next_fed(&iter, &fed))
        for (int64_t i = 0; i < fed.jobs && code == ERR_OK && list->count < list->limit; i++)
            code = add_fed(list, position, fed.no + i, fed.version, fed.events, err);
    if (code == ERR_OK && list->count < list->limit && !json_iter_ok(&iter))
        code = err_set(err, ERR_CORRUPT, "the stored feed is damaged");
    return code;
}

bool sqlite_next_fed(struct json_iter *iter, struct fed_jobs *ret)
{
    int64_t numbers[4];
    for (int i = 0; i < 4; i++) {
        struct str raw;
        if (!json_array_next(iter, &raw) || !json_int64(raw, &numbers[i]))
            return false;
    }
    *ret = (struct fed_jobs){numbers[0], numbers[1], numbers[2], numbers[3]};
    return true;
}

enum error_code sqlite_feed(struct store_txn *base, struct store_position after, uint32_t limit,
                            struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                            struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct fed_list list = {.txn = txn, .arena = arena, .after = after, .limit = limit};
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_FEED, NULL, err);
    lite_put_int(&query, after.major > INT64_MAX ? INT64_MAX : (int64_t)after.major);
    while (list.count < limit && lite_next(&query)) {
        int64_t position = lite_read_int(&query);
        query.code = add_batch(&list, position, lite_read_text_view(&query), err);
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code != ERR_OK)
        return code;
    *ret = list.at;
    *ret_count = list.count;
    return ERR_OK;
}

/* Whether a job of the batch is still there. */
static enum error_code has_jobs(struct sqlite_txn *txn, struct str jobs, bool *ret, struct err *err)
{
    struct json_iter iter;
    struct fed_jobs fed;
    enum error_code code = ERR_OK;
    *ret = !json_array_begin(&iter, jobs); /* damage is left for those who look into it */
    while (code == ERR_OK && !*ret && sqlite_next_fed(&iter, &fed)) {
        struct query query = lite_query(txn->connection, STATEMENT_FEED_JOB_IS_THERE, NULL, err);
        lite_put_int(&query, fed.no);
        lite_put_int(&query, fed.jobs);
        *ret = lite_next(&query);
        code = lite_end(&query);
    }
    return code;
}

enum error_code sqlite_sweep_feed(struct sqlite_txn *txn, bool *ret_any, struct err *err)
{
    struct sqlite_store *store = txn->store;
    int64_t gone[FEED_SWEPT_AT_ONCE];
    uint32_t gone_count = 0;
    uint32_t seen = 0;
    struct query query = lite_query(txn->connection, STATEMENT_FEED_SWEEP_NEXT, NULL, err);
    lite_put_int(&query, store->feed_swept);
    lite_put_int(&query, FEED_SWEPT_AT_ONCE);
    lite_put_int(&query, store->counts.stored); /* counts are made of the rows after that */
    while (lite_next(&query)) {
        bool there = true;
        int64_t position = lite_read_int(&query);
        query.code = has_jobs(txn, lite_read_text_view(&query), &there, err);
        store->feed_swept = position;
        if (!there)
            gone[gone_count++] = position;
        seen++;
    }
    enum error_code code = lite_end(&query);
    /* At the end it goes on from the start, the next time. */
    if (seen < FEED_SWEPT_AT_ONCE)
        store->feed_swept = 0;
    for (uint32_t i = 0; i < gone_count && code == ERR_OK; i++) {
        query = lite_query(txn->connection, STATEMENT_FEED_DELETE, NULL, err);
        lite_put_int(&query, gone[i]);
        code = lite_run(&query);
    }
    *ret_any = gone_count > 0;
    return code;
}

/* A file that was put back to an earlier state ends before positions that were given out. How far
 * it was put back nobody knows: all of it is to be read again. */
enum error_code sqlite_feed_state(struct store_txn *base, struct store_position after,
                                  struct store_feed_state *ret, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    int64_t end = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_FEED_END, NULL, err);
    if (lite_next(&query))
        end = lite_read_int(&query);
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code == ERR_OK)
        *ret = (struct store_feed_state){.is_reset = after.major > (uint64_t)end};
    return code;
}

enum error_code sqlite_leases_on(struct store_txn *base, struct str resource_id,
                                 struct arena *arena, struct store_lease **ret, uint32_t *ret_count,
                                 struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct store_lease *leases = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    struct query query = lite_query(txn->connection, STATEMENT_CLAIMS_ON, arena, err);
    lite_put_text(&query, resource_id);
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&leases, count, &cap, sizeof *leases)) {
            query.out_of_memory = true;
            break;
        }
        leases[count].job = lite_read_uuid(&query);
        leases[count++].step = lite_read_step(&query);
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code != ERR_OK)
        return code;
    *ret = leases;
    *ret_count = count;
    return ERR_OK;
}
