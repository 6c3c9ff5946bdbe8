/* Moving SQLite's log to the database.
 *
 * A thread moves pages while others write, from log_pages_max pages on. It cannot catch up with a
 * log that keeps growing, so once the log is LOG_FULL times as long, the writer moves the remaining
 * pages and the next commit overwrites the log from its start. An overwritten log syncs faster than
 * one that grows. */
#include <assert.h>
#include <signal.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

/* If readers did not end in time, the wait is repeated only when the log has grown by so many
 * pages, or after a while: a reader that stays shall not make every commit wait. */
enum {
    READERS_TIMEOUT_MS = 1000,
    READERS_REST_MS = 10 * 1000,
};

/* ---- the thread ---- */

static void *move_pages(void *arg)
{
    struct sqlite_store *store = arg;
    struct checkpointer *checkpointer = &store->checkpointer;
    sqlite_lock(store);
    while (!checkpointer->stopping) {
        if (!checkpointer->asked) {
            (void)pthread_cond_wait(&checkpointer->changed, &store->lock);
            continue;
        }
        checkpointer->asked = false;
        sqlite_unlock(store);
        (void)lite_checkpoint(&checkpointer->connection, SQLITE_CHECKPOINT_PASSIVE);
        sqlite_lock(store);
        checkpointer->moved_pages = checkpointer->connection.moved_pages;
    }
    sqlite_unlock(store);
    return NULL;
}

/* Starts the thread, with signals left to others; false if it cannot start. */
static bool start(struct sqlite_store *store)
{
    struct checkpointer *checkpointer = &store->checkpointer;
    sigset_t all;
    sigset_t before;
    if (checkpointer->started)
        return true;
    if (checkpointer->inline_only || atomic_load(&store->lost) ||
        lite_open(&checkpointer->connection, store->owner.path, CONNECTION_CHECKPOINTER,
                  store->timeout_ms, NULL) != ERR_OK)
        return false;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    checkpointer->started = condition_init(&checkpointer->changed) &&
                            pthread_create(&checkpointer->thread, NULL, move_pages, store) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!checkpointer->started)
        lite_close(&checkpointer->connection);
    return checkpointer->started;
}

void sqlite_checkpoints_stop(struct sqlite_store *store)
{
    struct checkpointer *checkpointer = &store->checkpointer;
    if (!checkpointer->started)
        return;
    sqlite_lock(store);
    checkpointer->stopping = true;
    (void)pthread_cond_signal(&checkpointer->changed);
    sqlite_unlock(store);
    (void)pthread_join(checkpointer->thread, NULL);
    (void)pthread_cond_destroy(&checkpointer->changed);
    lite_close(&checkpointer->connection);
}

/* Has the thread move what there is, if that is enough. A count above that of the log's pages is of
 * an earlier log. */
static void ask_thread(struct sqlite_store *store, int pages)
{
    struct checkpointer *checkpointer = &store->checkpointer;
    sqlite_lock(store);
    int moved = checkpointer->moved_pages > pages ? 0 : checkpointer->moved_pages;
    if (pages - moved >= store->log_pages_max) {
        checkpointer->asked = true;
        (void)pthread_cond_signal(&checkpointer->changed);
    }
    sqlite_unlock(store);
}

/* ---- with the writer lock ---- */

/* Empties the log, for which no reader may be in it any more. That it is empty is on the disk when
 * the commit is, which waits for that next. */
static void empty_log(struct sqlite_store *store)
{
    struct connection *writer = &store->writer;
    int64_t timeout_ms = store->timeout_ms > INT_MAX ? INT_MAX : store->timeout_ms;
    bool waits = !store->log_held ||
                 writer->wal_pages - store->log_held_pages >= store->log_pages_max ||
                 clock_monotonic_ms() - store->log_held_at >= READERS_REST_MS;
    (void)sqlite3_busy_timeout(writer->db, waits ? READERS_TIMEOUT_MS : 0);
    bool emptied = lite_checkpoint(writer, SQLITE_CHECKPOINT_TRUNCATE);
    (void)sqlite3_busy_timeout(writer->db, (int)timeout_ms);
    if (emptied) {
        store->log_erased = false;
        store->log_held = false;
    } else if (waits) {
        store->log_held = true;
        store->log_held_pages = writer->wal_pages;
        store->log_held_at = clock_monotonic_ms();
    }
}

void sqlite_checkpoint_if_needed(struct sqlite_store *store, bool erased)
{
    struct connection *writer = &store->writer;
    int pages = writer->wal_pages;
    int more = pages - writer->moved_pages;
    store->log_erased = store->log_erased || erased;
    if (store->log_erased || pages >= LOG_URGENT * store->log_pages_max)
        empty_log(store);
    else if (more >= LOG_FULL * store->log_pages_max ||
             (more >= store->log_pages_max && !start(store)))
        (void)lite_checkpoint(writer, SQLITE_CHECKPOINT_PASSIVE);
    else if (more >= store->log_pages_max)
        ask_thread(store, pages);
}
