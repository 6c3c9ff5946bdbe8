/* The handle: opening, the pool of connections, closing. */
#include "store/postgres/postgres_store.h"

#include <assert.h>
#include <stdlib.h>

#include "store/migrations.h"
#include "store/postgres/postgres.h"

enum { GOODBYE_MS = 1000, VERSION_MIN = 130000 };

/* ---- the pool ---- */

/* Waits for a place in the pool. */
static bool take_slot(struct postgres *store, int64_t deadline, struct connection **ret)
{
    struct timespec until = condition_deadline(deadline - clock_monotonic_ms());
    (void)pthread_mutex_lock(&store->mutex);
    int waited = 0;
    while (store->idle_count == 0 && waited == 0)
        waited = pthread_cond_timedwait(&store->freed, &store->mutex, &until);
    bool taken = store->idle_count > 0;
    if (taken)
        *ret = &store->connections[store->idle[--store->idle_count]];
    (void)pthread_mutex_unlock(&store->mutex);
    return taken;
}

enum error_code pool_take(struct postgres *store, struct connection **ret, struct err *err)
{
    int64_t deadline = clock_monotonic_ms() + store->timeout_ms;
    struct connection *connection = NULL;
    if (!take_slot(store, deadline, &connection))
        return err_set(err, ERR_UNAVAILABLE,
                       "all %u connections to PostgreSQL were busy for %lld ms",
                       store->connection_count, (long long)store->timeout_ms);
    assert(connection != NULL);
    if (!connection_alive(connection) || connection->generation != store->base.generation) {
        enum error_code code = origin_open(store, connection, deadline, err);
        if (code != ERR_OK) {
            pool_give(store, connection);
            return code;
        }
    }
    *ret = connection;
    return ERR_OK;
}

void pool_give(struct postgres *store, struct connection *connection)
{
    connection->is_naming = false;
    if (connection->is_forgetful)
        store->is_nameless = true;
    if (connection->broken || connection->is_stale ||
        connection->generation != store->base.generation)
        connection_close(connection);
    (void)pthread_mutex_lock(&store->mutex);
    assert(store->idle_count < store->connection_count);
    store->idle[store->idle_count++] = (uint32_t)(connection - store->connections);
    (void)pthread_cond_signal(&store->freed);
    (void)pthread_mutex_unlock(&store->mutex);
}

/* ---- closing ---- */

/* Nobody will ask any more what became of this connection's batches. */
static void forget_session(const struct postgres *store, struct connection *connection)
{
    struct arena arena;
    struct params params;
    struct err ignored;
    if (connection->batch == 0 || !connection_alive(connection) ||
        connection->generation != store->base.generation)
        return;
    arena_init(&arena);
    connection->timeout_ms = GOODBYE_MS;
    params_init(&params, &arena);
    params_add_uuid(&params, connection->session);
    if (connection_send_quiet(connection,
                              "DELETE FROM pawl.batch_rows WHERE session = $1 AND seq IS NULL",
                              &params, &ignored) == ERR_OK)
        (void)connection_sync(connection, &ignored);
    arena_release(&arena);
}

static void postgres_free(struct postgres *store)
{
    for (uint32_t i = 0; i < store->connection_count; i++)
        connection_close(&store->connections[i]);
    lane_book_release(&store->lanes);
    marks_release(&store->marks);
    hosts_release(&store->hosts);
    (void)pthread_cond_destroy(&store->freed);
    (void)pthread_cond_destroy(&store->closed);
    (void)pthread_mutex_destroy(&store->mutex);
    free(store->connections);
    free(store->idle);
    free(store->url);
    free(store);
}

static void postgres_close(struct store *handle)
{
    struct postgres *store = (struct postgres *)handle;
    assert(store->idle_count == store->connection_count);
    patrol_stop(store);
    watch_release(&store->watch);
    for (uint32_t i = 0; i < store->connection_count; i++)
        forget_session(store, &store->connections[i]);
    postgres_free(store);
}

/* ---- opening ---- */

static enum error_code postgres_watch_verb(struct store *handle, uint64_t seen, int64_t wait_ms,
                                           uint64_t *ret_seen, struct err *err)
{
    struct postgres *store = (struct postgres *)handle;
    (void)err;
    *ret_seen = watch_wait(&store->watch, false, seen, wait_ms);
    return ERR_OK;
}

static enum error_code postgres_watch_others(struct store *handle, uint64_t seen, int64_t wait_ms,
                                             uint64_t *ret_seen, struct err *err)
{
    struct postgres *store = (struct postgres *)handle;
    (void)err;
    *ret_seen = watch_wait(&store->watch, true, seen, wait_ms);
    return ERR_OK;
}

static void postgres_origin(struct store *handle, struct store_origin *ret)
{
    struct postgres *store = (struct postgres *)handle;
    (void)pthread_mutex_lock(&store->mutex);
    ret->timeline = store->origin.timeline;
    ret->refused = store->refused;
    memcpy(ret->refusal, store->refusal, sizeof ret->refusal);
    (void)pthread_mutex_unlock(&store->mutex);
}

static const struct store_driver postgres_driver = {
    .name = "postgres",
    .close = postgres_close,
    .begin = postgres_begin,
    .load = postgres_load,
    .load_parts = postgres_load_parts,
    .lanes = postgres_lanes,
    .candidates = postgres_candidates,
    .promote = postgres_promote,
    .outbox_drain = postgres_outbox_drain,
    .write = postgres_write,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .due = postgres_due,
    .list = postgres_list,
    .events = postgres_events,
    .feed = postgres_feed,
    .feed_state = postgres_feed_state,
    .watch = postgres_watch_verb,
    .watch_others = postgres_watch_others,
    .leases_on = postgres_leases_on,
    .queues = postgres_queues,
    .workers = postgres_workers,
    .step_counts = postgres_step_counts,
    .resources = postgres_resources,
    .registrations = postgres_registrations,
    .registration_count = postgres_registration_count,
    .tokens = postgres_tokens,
    .no_backup = "a PostgreSQL store has no file to back up: use `pg_dump -n pawl`, or `pawl "
                 "export` for single jobs",
    .sweep = postgres_sweep,
    .record_liveness = postgres_record_liveness,
    .origin = postgres_origin,
    .strays = postgres_strays,
    .mend = postgres_mend,
};

/* Whether a '/' comes before the '@' behind the user and the password. The password would be taken
 * for a port then, and be named in errors. */
static bool has_loose_slash(const char *url)
{
    const char *start = strstr(url, "://");
    if (start == NULL)
        return false;
    start += 3;
    const char *slash = start + strcspn(start, "/?@");
    return *slash == '/' && slash[strcspn(slash, "?@")] == '@';
}

/* What is wrong with a URL is not repeated: it may have a password in it. */
static enum error_code check_url(const char *url, struct err *err)
{
    PQconninfoOption *options = has_loose_slash(url) ? NULL : PQconninfoParse(url, NULL);
    if (options == NULL)
        return err_set(
            err, ERR_BAD_REQUEST,
            "malformed store URL: use postgres://USER@HOST:PORT/DATABASE?PARAMETER=VALUE, with "
            "special characters as %%XX, or host=HOST port=PORT user=USER dbname=DATABASE");
    PQconninfoFree(options);
    return ERR_OK;
}

static enum error_code check_server(const struct connection *connection, struct err *err)
{
    int version = PQserverVersion(connection->pg);
    const char *encoding = PQparameterStatus(connection->pg, "server_encoding");
    if (version < VERSION_MIN)
        return err_set(err, ERR_UNAVAILABLE,
                       "PostgreSQL 13 or newer is required, but %s:%s has version %d",
                       PQhost(connection->pg), PQport(connection->pg), version / 10000);
    if (encoding == NULL || strcmp(encoding, "UTF8") != 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "the database \"%s\" has the encoding %s: create one with ENCODING 'UTF8'",
                       PQdb(connection->pg), encoding == NULL ? "(unknown)" : encoding);
    return ERR_OK;
}

static struct postgres *postgres_new(struct str url, const struct store_options *options)
{
    uint32_t count = options->connections;
    struct postgres *store = calloc(1, sizeof *store);
    if (store == NULL)
        return NULL;
    if (count == 0)
        count = CONNECTIONS_DEFAULT;
    if (count > CONNECTIONS_MAX)
        count = CONNECTIONS_MAX;
    store->base = (struct store){.driver = &postgres_driver, .options = *options, .shared = true};
    store->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS_DEFAULT;
    for (int mode = STORE_READ; mode <= STORE_WRITE; mode++)
        txn_settings(store->settings[mode], sizeof store->settings[mode], (enum store_mode)mode,
                     true, store->timeout_ms);
    txn_settings(store->session_settings, sizeof store->session_settings, STORE_WRITE, false,
                 store->timeout_ms);
    store->lanes_known = INT32_MAX;
    store->lanes_many = store_lanes_many(0);
    (void)pthread_mutex_init(&store->mutex, NULL);
    lane_book_init(&store->lanes, options->seed);
    marks_init(&store->marks);
    store->url = calloc(1, url.len + 1);
    store->connections = calloc(count, sizeof *store->connections);
    store->idle = calloc(count, sizeof *store->idle);
    store->preferred = HOSTS_MAX;
    bool has_condition = condition_init(&store->freed) && condition_init(&store->closed);
    if (store->url == NULL || store->connections == NULL || store->idle == NULL || !has_condition) {
        postgres_free(store);
        return NULL;
    }
    memcpy(store->url, url.at, url.len);
    store->connection_count = count;
    for (uint32_t i = 0; i < count; i++) {
        store->connections[i].timeout_ms = store->timeout_ms;
        store->idle[store->idle_count++] = count - 1 - i;
    }
    return store;
}

static enum error_code open_watch(void *arg, struct connection *connection, int64_t deadline,
                                  struct err *err)
{
    return origin_open(arg, connection, deadline, err);
}

/* Looks at the server and at the schema, with the first connection of the pool. */
static enum error_code prepare(struct postgres *store, const struct migrations *migrations,
                               struct err *err)
{
    struct connection *connection;
    enum origin_verdict verdict;
    enum error_code code = check_url(store->url, err);
    if (code == ERR_OK)
        code = hosts_read(&store->hosts, store->url, err);
    if (code == ERR_OK)
        code = pool_take(store, &connection, err);
    if (code != ERR_OK)
        return code;
    code = check_server(connection, err);
    if (code == ERR_OK)
        code = postgres_migrate(store, connection, migrations, err);
    if (code == ERR_OK)
        code = origin_settle(store, connection, &verdict, err);
    if (code == ERR_OK)
        clock_resume(store, connection);
    pool_give(store, connection);
    if (code == ERR_OK)
        code = watch_init(&store->watch, open_watch, store, &store->base.generation, err);
    if (code == ERR_OK)
        patrol_start(store);
    return code;
}

enum error_code postgres_store_open_with(struct str url, const struct store_options *options,
                                         const struct migrations *migrations, struct store **ret,
                                         struct err *err)
{
    assert(str_is_set(url));
    struct postgres *store = postgres_new(url, options);
    if (store == NULL)
        return out_of_memory(err);
    enum error_code code = prepare(store, migrations, err);
    if (code != ERR_OK) {
        postgres_free(store);
        return code;
    }
    *ret = &store->base;
    return ERR_OK;
}

enum error_code postgres_store_open(struct str url, const struct store_options *options,
                                    struct store **ret, struct err *err)
{
    return postgres_store_open_with(url, options, &postgres_migrations, ret, err);
}
