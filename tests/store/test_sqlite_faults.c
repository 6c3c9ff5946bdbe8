/* The SQLite store on a disk that fails: full, or unable to say that it has written. The disk is
 * SQLite's own with a layer over it, which fails when it is told to and counts what is written. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <time.h>

#include "store/sqlite_place.h"
#include "store/store_driver.h"

/* ---- the layer ---- */

enum file_sort { SORT_DATABASE, SORT_LOG, SORT_OTHER, SORT_COUNT };

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *under;
    atomic_bool fail_write[SORT_COUNT]; /* as a full disk does */
    atomic_bool fail_sync[SORT_COUNT];
    atomic_bool refused; /* something has failed */
    atomic_int writes[SORT_COUNT];
    atomic_int syncs[SORT_COUNT];
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool hold;     /* syncs of the log do not come back */
    uint32_t held; /* so many wait */
} layer = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

struct layer_file {
    sqlite3_file base;
    enum file_sort sort;
    sqlite3_file *under; /* behind this struct */
};

#define UNDER(file) (((struct layer_file *)(file))->under)
#define SORT(file) (((struct layer_file *)(file))->sort)
#define CALL(file, method, ...) UNDER(file)->pMethods->method(UNDER(file), __VA_ARGS__)

static int layer_close(sqlite3_file *file)
{
    return UNDER(file)->pMethods->xClose(UNDER(file));
}

static int layer_read(sqlite3_file *file, void *bytes, int len, sqlite3_int64 at)
{
    return CALL(file, xRead, bytes, len, at);
}

static int layer_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 at)
{
    if (layer.fail_write[SORT(file)]) {
        layer.refused = true;
        return SQLITE_FULL;
    }
    layer.writes[SORT(file)]++;
    return CALL(file, xWrite, bytes, len, at);
}

static int layer_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    return CALL(file, xTruncate, size);
}

static void hold_here(void)
{
    pthread_mutex_lock(&layer.lock);
    layer.held++;
    pthread_cond_broadcast(&layer.moved);
    while (layer.hold)
        pthread_cond_wait(&layer.moved, &layer.lock);
    layer.held--;
    pthread_mutex_unlock(&layer.lock);
}

static int layer_sync(sqlite3_file *file, int flags)
{
    if (SORT(file) == SORT_LOG)
        hold_here();
    if (layer.fail_sync[SORT(file)])
        return SQLITE_IOERR_FSYNC;
    layer.syncs[SORT(file)]++;
    return CALL(file, xSync, flags);
}

static int layer_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    return CALL(file, xFileSize, ret);
}

static int layer_lock(sqlite3_file *file, int level)
{
    return CALL(file, xLock, level);
}

static int layer_unlock(sqlite3_file *file, int level)
{
    return CALL(file, xUnlock, level);
}

static int layer_check_lock(sqlite3_file *file, int *ret)
{
    return CALL(file, xCheckReservedLock, ret);
}

static int layer_control(sqlite3_file *file, int op, void *arg)
{
    return CALL(file, xFileControl, op, arg);
}

static int layer_sector(sqlite3_file *file)
{
    return UNDER(file)->pMethods->xSectorSize(UNDER(file));
}

static int layer_traits(sqlite3_file *file)
{
    return UNDER(file)->pMethods->xDeviceCharacteristics(UNDER(file));
}

static int layer_map(sqlite3_file *file, int page, int size, int extend, void volatile **ret)
{
    return CALL(file, xShmMap, page, size, extend, ret);
}

static int layer_shm_lock(sqlite3_file *file, int at, int count, int flags)
{
    return CALL(file, xShmLock, at, count, flags);
}

static void layer_barrier(sqlite3_file *file)
{
    UNDER(file)->pMethods->xShmBarrier(UNDER(file));
}

static int layer_unmap(sqlite3_file *file, int gone)
{
    return CALL(file, xShmUnmap, gone);
}

static const sqlite3_io_methods layer_methods = {
    .iVersion = 2,
    .xClose = layer_close,
    .xRead = layer_read,
    .xWrite = layer_write,
    .xTruncate = layer_truncate,
    .xSync = layer_sync,
    .xFileSize = layer_size,
    .xLock = layer_lock,
    .xUnlock = layer_unlock,
    .xCheckReservedLock = layer_check_lock,
    .xFileControl = layer_control,
    .xSectorSize = layer_sector,
    .xDeviceCharacteristics = layer_traits,
    .xShmMap = layer_map,
    .xShmLock = layer_shm_lock,
    .xShmBarrier = layer_barrier,
    .xShmUnmap = layer_unmap,
};

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    struct layer_file *opened = (struct layer_file *)file;
    (void)vfs;
    opened->under = (sqlite3_file *)(opened + 1);
    opened->sort = (flags & SQLITE_OPEN_MAIN_DB) != 0 ? SORT_DATABASE
                   : (flags & SQLITE_OPEN_WAL) != 0   ? SORT_LOG
                                                      : SORT_OTHER;
    int result = layer.under->xOpen(layer.under, name, opened->under, flags, ret_flags);
    opened->base.pMethods = opened->under->pMethods != NULL ? &layer_methods : NULL;
    return result;
}

static void layer_heal(void)
{
    for (int i = 0; i < SORT_COUNT; i++) {
        layer.fail_write[i] = false;
        layer.fail_sync[i] = false;
    }
    layer.refused = false;
}

static int layer_setup(void **state)
{
    (void)state;
    layer.under = sqlite3_vfs_find(NULL);
    layer.vfs = *layer.under;
    layer.vfs.zName = "layer";
    layer.vfs.szOsFile = (int)sizeof(struct layer_file) + layer.under->szOsFile;
    layer.vfs.xOpen = layer_open;
    return sqlite3_vfs_register(&layer.vfs, 1);
}

static int layer_teardown(void **state)
{
    (void)state;
    return sqlite3_vfs_unregister(&layer.vfs);
}

/* ---- a full disk ---- */

static void a_full_disk_refuses_the_commit_and_the_store_goes_on(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct err err;
    uint64_t seen = 0;
    pause_ok(store, "before");
    assert_int_equal(store_watch(store, UINT64_MAX, 0, &seen, &err), ERR_OK);

    layer.fail_write[SORT_LOG] = true;
    assert_int_equal(pause_queue(store, "during", &err), ERR_UNAVAILABLE);
    assert_says(err.detail, "disk is full");
    uint64_t still = 0;
    assert_int_equal(store_watch(store, seen, 0, &still, &err), ERR_OK);
    assert_int_equal(still, seen);
    assert_true(is_paused(place, store, "before"));
    assert_false(is_paused(place, store, "during"));

    layer_heal();
    pause_ok(store, "after");
    assert_false(is_paused(place, store, "during"));
    assert_true(is_paused(place, store, "after"));
    store_close(store);
    store = open_ok(place, false);
    assert_true(is_paused(place, store, "before"));
    assert_false(is_paused(place, store, "during"));
    assert_true(is_paused(place, store, "after"));
    store_close(store);
}

static void a_commit_that_failed_says_that_it_certainly_did(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct store_queue paused = {.queue = STR("mail"), .paused = true};
    struct store_write write = {.queues = &paused, .queue_count = 1};
    enum store_outcome outcome = STORE_UNKNOWN;
    struct store_txn *txn;
    struct err err;
    assert_int_equal(store_begin(store, STORE_WRITE, &txn, &err), ERR_OK);
    assert_int_equal(store_write(txn, &write, &err), ERR_OK);
    layer.fail_write[SORT_LOG] = true;
    assert_int_equal(store_commit(txn, &outcome, &err), ERR_UNAVAILABLE);
    assert_int_equal(outcome, STORE_NOT_COMMITTED);
    layer_heal();
    store_close(store);
}

static void no_room_for_a_new_store_leaves_nothing_behind(void **state)
{
    struct place *place = *state;
    for (int i = 0; i < SORT_COUNT; i++) {
        layer.fail_write[i] = true;
        if (i == SORT_LOG) /* which is first written to by the first commit */
            store_close(open_ok(place, true));
        else
            assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "disk is full");
        layer_heal();
        if (i == SORT_LOG)
            assert_int_equal(unlink(place->path) | unlink(beside(place, ".lock")), 0);
        assert_string_equal(files_in(place), "");
    }
}

static void no_room_to_set_up_an_empty_file_leaves_it_empty(void **state)
{
    struct place *place = *state;
    write_file(place->path, STR(""));
    layer.fail_write[SORT_DATABASE] = true;
    assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "disk is full");
    layer_heal();
    assert_str_equal(read_file(place, place->path), STR(""));
    assert_string_equal(files_in(place), "jobs.db");
}

static void a_full_disk_at_a_checkpoint_loses_nothing(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    pause_ok(store, "mail");
    layer.fail_write[SORT_DATABASE] = true;
    store_close(store); /* which cannot move the log, and leaves it */
    layer_heal();
    store = open_ok(place, false);
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
}

/* ---- a failed fsync ---- */

/* What a child that opens the store, and then has that file fail, ends with. */
static int end_of_child(struct place *place, enum file_sort sort, bool by_closing)
{
    pid_t child = fork();
    if (child == 0) {
        struct store *store = open_ok(place, true);
        struct err err;
        pause_ok(store, "before");
        (void)close(STDERR_FILENO); /* the message is expected */
        layer.fail_sync[sort] = true;
        if (by_closing)
            store_close(store);
        else
            (void)pause_queue(store, "during", &err);
        _exit(0);
    }
    return child_end(child);
}

static void a_failed_fsync_at_commit_ends_the_process(void **state)
{
    struct place *place = *state;
    assert_int_equal(end_of_child(place, SORT_LOG, false), -SIGABRT);
    struct store *store = open_ok(place, false);
    assert_true(is_paused(place, store, "before"));
    store_close(store);
}

static void a_failed_fsync_at_a_checkpoint_ends_the_process(void **state)
{
    struct place *place = *state;
    assert_int_equal(end_of_child(place, SORT_DATABASE, true), -SIGABRT);
    struct store *store = open_ok(place, false);
    assert_true(is_paused(place, store, "before"));
    store_close(store);
}

static void a_file_whose_fsync_nobody_needs_ends_nothing(void **state)
{
    struct place *place = *state;
    assert_int_equal(end_of_child(place, SORT_OTHER, false), 0);
}

static void every_commit_waits_for_the_disk(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    for (int i = 0; i < 10; i++) {
        char queue[16];
        int before = layer.syncs[SORT_LOG];
        (void)snprintf(queue, sizeof queue, "q%d", i);
        pause_ok(store, queue);
        assert_true(layer.syncs[SORT_LOG] > before);
    }
    store_close(store);
}

/* ---- a commit that waits for the disk, and what others do meanwhile ---- */

struct hand {
    pthread_t thread;
    struct place *place;
    struct store *store;
    const char *queue;
    uint64_t seen; /* by a watcher */
    atomic_bool done;
    bool found;
};

static void hold_syncs(bool hold)
{
    pthread_mutex_lock(&layer.lock);
    layer.hold = hold;
    pthread_cond_broadcast(&layer.moved);
    pthread_mutex_unlock(&layer.lock);
}

static void await_held(void)
{
    pthread_mutex_lock(&layer.lock);
    while (layer.held == 0)
        pthread_cond_wait(&layer.moved, &layer.lock);
    pthread_mutex_unlock(&layer.lock);
}

static void *pause_it(void *arg)
{
    struct hand *hand = arg;
    struct err err;
    hand->found = pause_queue(hand->store, hand->queue, &err) == ERR_OK;
    hand->done = true;
    return NULL;
}

static void *look_for_it(void *arg)
{
    struct hand *hand = arg;
    hand->found = is_paused(hand->place, hand->store, hand->queue);
    hand->done = true;
    return NULL;
}

static void *wait_for_news(void *arg)
{
    struct hand *hand = arg;
    uint64_t now = hand->seen;
    struct err err;
    while (now <= hand->seen)
        (void)store_watch(hand->store, hand->seen, 1000, &now, &err);
    hand->done = true;
    return NULL;
}

static void begin_work(struct hand *hand, void *(*work)(void *arg))
{
    assert_int_equal(pthread_create(&hand->thread, NULL, work, hand), 0);
}

static void end_work(struct hand *hand)
{
    assert_int_equal(pthread_join(hand->thread, NULL), 0);
    assert_true(hand->done);
}

/* A while in which nothing may happen that is not to happen. */
static void give_time(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
}

static void nobody_is_told_of_a_commit_before_the_disk_has_it(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct hand commit = {.place = place, .store = store, .queue = "mail"};
    struct hand reader = {.place = place, .store = store, .queue = "mail"};
    struct hand watcher = {.place = place, .store = store};
    struct err err;
    pause_ok(store, "before");
    assert_int_equal(store_watch(store, UINT64_MAX, 0, &watcher.seen, &err), ERR_OK);
    begin_work(&watcher, wait_for_news);
    hold_syncs(true);
    begin_work(&commit, pause_it);
    await_held();
    begin_work(&reader, look_for_it);
    give_time();
    bool told = commit.done || reader.done || watcher.done;
    hold_syncs(false);
    end_work(&commit);
    end_work(&reader);
    end_work(&watcher);
    assert_false(told);
    assert_true(commit.found && reader.found);
    store_close(store);
}

static void the_next_batch_is_written_while_a_commit_waits_for_the_disk(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct hand first = {.place = place, .store = store, .queue = "first"};
    struct hand second = {.place = place, .store = store, .queue = "second"};
    pause_ok(store, "before"); /* the first one of a log has its header synced within the commit */
    hold_syncs(true);
    begin_work(&first, pause_it);
    await_held();
    int writes = layer.writes[SORT_LOG];
    begin_work(&second, pause_it);
    while (layer.writes[SORT_LOG] == writes)
        (void)sched_yield();
    store_await_turn(store, 10 * 1000); /* the second waits for the disk too */
    assert_false(first.done || second.done);
    int syncs = layer.syncs[SORT_LOG];
    hold_syncs(false);
    end_work(&first);
    end_work(&second);
    assert_int_equal(layer.syncs[SORT_LOG], syncs + 2);
    assert_true(is_paused(place, store, "first") && is_paused(place, store, "second"));
    store_close(store);
}

static void a_batch_that_fails_while_another_waits_for_the_disk_harms_neither(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct hand first = {.place = place, .store = store, .queue = "first"};
    pause_ok(store, "before"); /* the first one of a log has its header synced within the commit */
    hold_syncs(true);
    begin_work(&first, pause_it);
    await_held();
    struct hand second = {.place = place, .store = store, .queue = "second"};
    layer.fail_write[SORT_LOG] = true;
    begin_work(&second, pause_it);
    while (!layer.refused)
        (void)sched_yield();
    store_await_turn(store, 10 * 1000);
    layer.fail_write[SORT_LOG] = false;
    assert_false(first.done);
    hold_syncs(false);
    end_work(&first);
    end_work(&second);
    assert_false(second.found);
    assert_true(first.found && is_paused(place, store, "first"));
    assert_false(is_paused(place, store, "second"));
    pause_ok(store, "third");
    store_close(store);
    store = open_ok(place, false);
    assert_true(is_paused(place, store, "first") && is_paused(place, store, "third"));
    assert_false(is_paused(place, store, "second"));
    store_close(store);
}

/* ---- who checkpoints ---- */

static void readers_never_checkpoint_not_even_when_they_are_closed(void **state)
{
    enum { READERS = 20 }; /* more than are kept, so that some are closed at once */
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct store_txn *readers[READERS];
    struct err err;
    for (int i = 0; i < 10; i++) {
        char queue[16];
        (void)snprintf(queue, sizeof queue, "q%d", i);
        pause_ok(store, queue);
    }
    int before = layer.writes[SORT_DATABASE];
    int log_before = layer.writes[SORT_LOG];
    for (int i = 0; i < READERS; i++) {
        struct store_load load = {0};
        assert_int_equal(store_begin(store, STORE_READ, &readers[i], &err), ERR_OK);
        assert_int_equal(store_load(readers[i], &load, &place->arena, &err), ERR_OK);
        assert_int_equal(load.paused.count, 10);
    }
    for (int i = 0; i < READERS; i++)
        store_rollback(readers[i]);
    assert_int_equal(layer.writes[SORT_DATABASE], before);
    assert_int_equal(layer.writes[SORT_LOG], log_before);
    store_close(store); /* this is the writer's */
    assert_true(layer.writes[SORT_DATABASE] > before);
}

static void a_reader_cannot_write(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct store_queue paused = {.queue = STR("mail"), .paused = true};
    struct store_write write = {.queues = &paused, .queue_count = 1};
    struct store_txn *txn;
    struct err err;
    assert_int_equal(store_begin(store, STORE_READ, &txn, &err), ERR_OK);
    assert_int_equal(store->driver->write(txn, &write, &err), ERR_UNAVAILABLE);
    store_rollback(txn);
    assert_false(is_paused(place, store, "mail"));
    store_close(store);
}

static void the_log_is_shortened_while_the_store_is_open(void **state)
{
    enum { BYTES = 100 * 1000, RECORDS = 400 };
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    char *text = arena_zalloc(&place->arena, 1, BYTES);
    struct stat status;
    struct err err;
    memset(text, 'x', BYTES);
    for (int i = 0; i < RECORDS; i++) {
        struct request_record record = {
            .scope = STR("a"), .key = STR("b"), .at = i, .answer = {text, BYTES}};
        struct store_write write = {.requests = &record, .request_count = 1};
        enum store_outcome outcome;
        struct store_txn *txn;
        assert_int_equal(store_begin(store, STORE_WRITE, &txn, &err), ERR_OK);
        assert_int_equal(store_write(txn, &write, &err), ERR_OK);
        assert_int_equal(store_commit(txn, &outcome, &err), ERR_OK);
    }
    assert_int_equal(stat(beside(place, "-wal"), &status), 0);
    assert_true(status.st_size < (off_t)BYTES * RECORDS * 3 / 4);
    store_close(store);
}

/* ---- turns ---- */

static void whoever_waits_too_long_for_the_writer_is_told_so(void **state)
{
    struct place *place = *state;
    struct store_options options = {.create = true, .timeout_ms = 20};
    struct store *store;
    struct store_txn *txn;
    struct store_txn *second;
    struct err err;
    assert_int_equal(sqlite_store_open(str_from(place->path), &options, &store, &err), ERR_OK);
    assert_int_equal(store_begin(store, STORE_WRITE, &txn, &err), ERR_OK);
    assert_int_equal(store_begin(store, STORE_WRITE, &second, &err), ERR_UNAVAILABLE);
    assert_says(err.detail, "20 ms");
    assert_int_equal(store_begin(store, STORE_READ, &second, &err), ERR_OK);
    store_rollback(second);
    store_rollback(txn);
    pause_ok(store, "mail");
    store_close(store);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_PLACE(a_full_disk_refuses_the_commit_and_the_store_goes_on),
        IN_PLACE(a_commit_that_failed_says_that_it_certainly_did),
        IN_PLACE(no_room_for_a_new_store_leaves_nothing_behind),
        IN_PLACE(no_room_to_set_up_an_empty_file_leaves_it_empty),
        IN_PLACE(a_full_disk_at_a_checkpoint_loses_nothing),
        IN_PLACE(a_failed_fsync_at_commit_ends_the_process),
        IN_PLACE(a_failed_fsync_at_a_checkpoint_ends_the_process),
        IN_PLACE(a_file_whose_fsync_nobody_needs_ends_nothing),
        IN_PLACE(every_commit_waits_for_the_disk),
        IN_PLACE(nobody_is_told_of_a_commit_before_the_disk_has_it),
        IN_PLACE(the_next_batch_is_written_while_a_commit_waits_for_the_disk),
        IN_PLACE(a_batch_that_fails_while_another_waits_for_the_disk_harms_neither),
        IN_PLACE(readers_never_checkpoint_not_even_when_they_are_closed),
        IN_PLACE(a_reader_cannot_write),
        IN_PLACE(the_log_is_shortened_while_the_store_is_open),
        IN_PLACE(whoever_waits_too_long_for_the_writer_is_told_so),
    };
    return cmocka_run_group_tests(tests, layer_setup, layer_teardown);
}
