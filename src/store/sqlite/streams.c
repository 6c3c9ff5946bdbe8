/* Streams of events, the feed, and who holds a resource. */
#include "store/sqlite/sqlite.h"

/* The columns of EVENT_COLUMNS, in their order. */
static void event_read(struct query *query, struct event *event, int64_t *ret_position)
{
    *event = (struct event){0};
    *ret_position = lite_read_int(query);
    event->job_id = lite_read_uuid(query);
    event->version = lite_read_int(query);
    struct str name = lite_read_text_view(query);
    event->type = event_type_parse(name);
    if (!str_eq(name, event_type_name(event->type))) {
        event->type_name = arena_copy(query->arena, name);
        query->out_of_memory = query->out_of_memory || !str_is_set(event->type_name);
    }
    event->at = lite_read_int(query);
    event->redacted = lite_read_int(query) != 0;
    event->actor = lite_read_text(query);
    event->cause_text = lite_read_text(query);
    event->correlation_id = lite_read_text(query);
    if (lite_next_is_null(query)) { /* telemetry has neither */
        lite_skip(query, 2);
    } else {
        lite_read_blob(query, event->digest, sizeof event->digest);
        lite_read_blob(query, event->hash, sizeof event->hash);
    }
    event->payload = lite_read_text(query);
}

enum error_code sqlite_events(struct store_txn *base, const struct store_stream *stream,
                              struct arena *arena, struct event **ret, uint32_t *ret_count,
                              struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct event *events = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    bool typed = str_is_set(stream->type);
    struct query query = lite_query(txn->connection,
                                    stream->telemetry ? STATEMENT_TELEMETRY_OF_JOB
                                    : typed           ? STATEMENT_EVENTS_OF_JOB_AND_TYPE
                                                      : STATEMENT_EVENTS_OF_JOB,
                                    arena, err);
    lite_put_uuid(&query, &stream->job);
    lite_put_int(&query, stream->after);
    lite_put_int(&query, stream->limit);
    if (typed)
        lite_put_text(&query, stream->type);
    while (lite_next(&query)) {
        int64_t position;
        if (!sqlite_more(arena, (void **)&events, count, &cap, sizeof *events)) {
            query.out_of_memory = true;
            break;
        }
        event_read(&query, &events[count++], &position);
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code != ERR_OK)
        return code;
    *ret = events;
    *ret_count = count;
    return ERR_OK;
}

enum error_code sqlite_feed(struct store_txn *base, struct store_position after, uint32_t limit,
                            struct arena *arena, struct store_fed **ret, uint32_t *ret_count,
                            struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct store_fed *fed = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    struct query query = lite_query(txn->connection, STATEMENT_EVENTS_FED, arena, err);
    lite_put_int(&query, after.major > INT64_MAX ? INT64_MAX : (int64_t)after.major);
    lite_put_int(&query, limit);
    while (lite_next(&query)) {
        int64_t position;
        if (!sqlite_more(arena, (void **)&fed, count, &cap, sizeof *fed)) {
            query.out_of_memory = true;
            break;
        }
        event_read(&query, &fed[count].event, &position);
        fed[count++].position = (struct store_position){.major = (uint64_t)position};
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code != ERR_OK)
        return code;
    *ret = fed;
    *ret_count = count;
    return ERR_OK;
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
