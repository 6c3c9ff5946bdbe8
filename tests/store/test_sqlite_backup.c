/* Copies of a store while it is in use. */
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "store/sqlite_place.h"

enum { ANSWER_BYTES = 256 * 1024, ANSWERS = 40 };

/* A path in the directory of the test; valid until the next call. */
static const char *in_place(const struct place *place, const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", place->directory, name);
    return path;
}

static enum error_code copy_to(struct place *place, struct store *store, const char *name,
                               int64_t *ret_bytes, struct err *err)
{
    return store_backup(store, str_from(in_place(place, name)), ret_bytes, err);
}

static const char *refused_copy(struct place *place, struct store *store, const char *name,
                                enum error_code expected)
{
    static struct err err;
    int64_t bytes = -1;
    enum error_code code = copy_to(place, store, name, &bytes, &err);
    if (code != expected)
        fail_msg("got %d and not %d", code, expected);
    assert_int_equal(bytes, -1);
    return err.detail;
}

static struct store *open_copy(struct place *place, const char *name)
{
    struct store_options options = {.create = false, .timeout_ms = 2000};
    struct store *store = NULL;
    struct err err;
    if (sqlite_store_open(str_from(in_place(place, name)), &options, &store, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return store;
}

static int64_t ask(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t answer = sqlite3_column_int64(statement, 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return answer;
}

/* Some megabytes, so that a copy takes many steps. */
static void fill(struct place *place, struct store *store)
{
    char *answer = arena_alloc(&place->arena, ANSWER_BYTES);
    assert_non_null(answer);
    memset(answer, 'x', ANSWER_BYTES);
    for (int i = 0; i < ANSWERS; i++) {
        char key[16];
        struct store_txn *txn;
        enum store_outcome outcome;
        struct err err;
        (void)snprintf(key, sizeof key, "k%d", i);
        struct request_record record = {
            .scope = STR("s"), .key = str_from(key), .at = 1, .answer = {answer, ANSWER_BYTES}};
        struct store_write write = {.requests = &record, .request_count = 1};
        assert_int_equal(store_begin(store, STORE_WRITE, &txn, &err), ERR_OK);
        assert_int_equal(store_write(txn, &write, &err), ERR_OK);
        assert_int_equal(store_commit(txn, &outcome, &err), ERR_OK);
    }
}

/* ---- copies ---- */

static void a_copy_is_a_store_of_its_own(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    int64_t bytes = 0;
    struct err err;
    pause_ok(store, "mail");
    assert_int_equal(copy_to(place, store, "copy.db", &bytes, &err), ERR_OK);
    pause_ok(store, "later");
    store_close(store);
    assert_string_equal(files_in(place), "copy.db jobs.db jobs.db.lock");
    struct stat status;
    assert_int_equal(stat(in_place(place, "copy.db"), &status), 0);
    assert_int_equal(status.st_size, bytes);
    assert_int_equal(ask(in_place(place, "copy.db"),
                         "SELECT integrity_check = 'ok' FROM pragma_integrity_check"),
                     1);

    store = open_copy(place, "copy.db");
    assert_int_equal(store->schema_found, store->schema_version);
    assert_true(is_paused(place, store, "mail"));
    assert_false(is_paused(place, store, "later"));
    pause_ok(store, "of the copy");
    store_close(store);
    assert_int_equal(
        ask(in_place(place, "copy.db"), "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
}

static void a_copy_has_what_is_still_in_the_log(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    int64_t bytes;
    struct err err;
    fill(place, store);
    pause_ok(store, "mail");
    assert_true(is_there(beside(place, "-wal")));
    assert_int_equal(copy_to(place, store, "copy.db", &bytes, &err), ERR_OK);
    assert_in_range(bytes, (int64_t)ANSWERS * ANSWER_BYTES, INT64_MAX);
    assert_int_equal(ask(in_place(place, "copy.db"), "SELECT count(*) FROM requests"), ANSWERS);
    assert_int_equal(ask(in_place(place, "copy.db"), "SELECT count(*) FROM queues"), 1);
    store_close(store);
}

static void a_copy_may_be_read_by_whoever_may_read_the_store(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    struct stat status;
    int64_t bytes;
    struct err err;
    assert_int_equal(chmod(place->path, 0640), 0);
    assert_int_equal(copy_to(place, store, "copy.db", &bytes, &err), ERR_OK);
    assert_int_equal(stat(in_place(place, "copy.db"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    store_close(store);
}

/* ---- one moment ---- */

/* Somebody who goes on writing: each time a queue and a kind, together. */
struct busy {
    struct store *store;
    pthread_t thread;
    atomic_bool stop;
    atomic_int written;
    enum error_code code;
};

static enum error_code write_pair(struct store *store, int number)
{
    char name[16];
    struct store_txn *txn;
    enum store_outcome outcome;
    struct err err;
    (void)snprintf(name, sizeof name, "n%06d", number);
    struct store_queue queue = {.queue = str_from(name), .paused = true};
    struct store_kind kind = {.kind = str_from(name), .settings = {.timeout_ms = 1000}};
    struct store_write write = {
        .queues = &queue, .queue_count = 1, .kinds = &kind, .kind_count = 1};
    enum error_code code = store_begin(store, STORE_WRITE, &txn, &err);
    if (code != ERR_OK)
        return code;
    code = store_write(txn, &write, &err);
    if (code == ERR_OK)
        return store_commit(txn, &outcome, &err);
    store_rollback(txn);
    return code;
}

static void *busy_main(void *arg)
{
    struct busy *busy = arg;
    for (int i = 0; !busy->stop && busy->code == ERR_OK; i++) {
        busy->code = write_pair(busy->store, i);
        busy->written = i + 1;
    }
    return NULL;
}

static void a_copy_is_of_one_moment_while_others_write(void **state)
{
    struct place *place = *state;
    struct busy busy = {.store = open_ok(place, true)};
    struct err err;
    fill(place, busy.store);
    assert_int_equal(pthread_create(&busy.thread, NULL, busy_main, &busy), 0);
    for (int i = 0; i < 3; i++) {
        char name[32];
        int64_t bytes;
        while (busy.written < 10 * (i + 1) && busy.code == ERR_OK)
            (void)usleep(1000);
        int before = busy.written;
        (void)snprintf(name, sizeof name, "copy%d.db", i);
        assert_int_equal(copy_to(place, busy.store, name, &bytes, &err), ERR_OK);
        const char *path = in_place(place, name);
        int64_t count = ask(path, "SELECT count(*) FROM queues");
        assert_in_range(count, before, busy.written + 1);
        assert_int_equal(ask(path, "SELECT count(*) FROM kinds JOIN queues ON queue = kind"),
                         count);
        assert_int_equal(ask(path, "SELECT max(substr(queue, 2)) + 1 FROM queues"), count);
        assert_int_equal(ask(path, "SELECT count(*) FROM requests"), ANSWERS);
        assert_int_equal(ask(path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    }
    busy.stop = true;
    assert_int_equal(pthread_join(busy.thread, NULL), 0);
    assert_int_equal(busy.code, ERR_OK);
    store_close(busy.store);
}

/* ---- what is there stays ---- */

static void a_copy_takes_the_place_of_nothing(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    pause_ok(store, "mail");
    write_file(in_place(place, "mine"), STR("mine"));
    assert_int_equal(mkdir(in_place(place, "directory"), 0755), 0);
    assert_int_equal(symlink("nowhere", in_place(place, "link")), 0);
    assert_says(refused_copy(place, store, "mine", ERR_BAD_REQUEST), "already exists");
    assert_says(refused_copy(place, store, "directory", ERR_BAD_REQUEST), "already exists");
    assert_says(refused_copy(place, store, "link", ERR_BAD_REQUEST), "already exists");
    assert_says(refused_copy(place, store, "jobs.db", ERR_BAD_REQUEST), "already exists");
    assert_str_equal(read_file(place, in_place(place, "mine")), STR("mine"));
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
    assert_string_equal(files_in(place), "directory jobs.db jobs.db.lock link mine");
}

static void a_log_that_somebody_left_would_be_taken_for_that_of_the_copy(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    write_file(in_place(place, "copy.db-wal"), STR("old"));
    assert_says(refused_copy(place, store, "copy.db", ERR_BAD_REQUEST),
                "copy.db-wal already exists");
    store_close(store);
    assert_string_equal(files_in(place), "copy.db-wal jobs.db jobs.db.lock");
}

struct copier {
    struct store *store;
    struct str path;
    pthread_t thread;
    enum error_code code;
    struct err err;
};

static void *copier_main(void *arg)
{
    struct copier *copier = arg;
    int64_t bytes;
    copier->code = store_backup(copier->store, copier->path, &bytes, &copier->err);
    return NULL;
}

static void of_many_copies_to_one_path_exactly_one_is_made(void **state)
{
    struct place *place = *state;
    enum { COPIERS = 6 };
    struct copier copiers[COPIERS];
    struct store *store = open_ok(place, true);
    int made = 0;
    fill(place, store);
    for (int i = 0; i < COPIERS; i++) {
        copiers[i] = (struct copier){.store = store};
        copiers[i].path = arena_copy(&place->arena, str_from(in_place(place, "copy.db")));
        assert_int_equal(pthread_create(&copiers[i].thread, NULL, copier_main, &copiers[i]), 0);
    }
    for (int i = 0; i < COPIERS; i++) {
        assert_int_equal(pthread_join(copiers[i].thread, NULL), 0);
        made += copiers[i].code == ERR_OK;
        if (copiers[i].code != ERR_OK) {
            assert_int_equal(copiers[i].code, ERR_BAD_REQUEST);
            assert_says(copiers[i].err.detail, "already exists");
        }
    }
    assert_int_equal(made, 1);
    store_close(store);
    assert_string_equal(files_in(place), "copy.db jobs.db jobs.db.lock");
    store_close(open_copy(place, "copy.db"));
}

/* ---- what cannot be ---- */

static void paths_that_cannot_be_are_refused(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    char *longest = arena_alloc(&place->arena, 8192);
    struct err err;
    int64_t bytes;
    assert_says(refused_copy(place, store, "nowhere/copy.db", ERR_BAD_REQUEST), "nowhere");
    assert_says(refused_copy(place, store, "jobs.db/copy.db", ERR_BAD_REQUEST), "another path");
    assert_non_null(longest);
    memset(longest, 'a', 8192);
    assert_int_equal(store_backup(store, (struct str){longest, 8192}, &bytes, &err),
                     ERR_BAD_REQUEST);
    assert_int_equal(store_backup(store, (struct str){longest, 1000}, &bytes, &err),
                     ERR_BAD_REQUEST);
    store_close(store);
    assert_string_equal(files_in(place), "jobs.db jobs.db.lock");
}

/* What a disk without room for the copy comes to: 0 when nothing is left and the store goes on. */
static int copy_without_room(struct place *place)
{
    struct rlimit limit = {.rlim_cur = 1024 * 1024, .rlim_max = 1024 * 1024};
    struct store *store = open_ok(place, false);
    struct err err;
    int64_t bytes;
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    if (copy_to(place, store, "copy.db", &bytes, &err) != ERR_UNAVAILABLE)
        return 2;
    if (strcmp(files_in(place), "jobs.db jobs.db-shm jobs.db-wal jobs.db.lock") != 0)
        return 3;
    return pause_queue(store, "after", &err) == ERR_OK ? 0 : 4;
}

static void a_copy_for_which_there_is_no_room_leaves_nothing(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    fill(place, store);
    store_close(store);
    pid_t child = fork();
    if (child == 0)
        _exit(copy_without_room(place));
    assert_int_equal(child_end(child), 0);
    store = open_ok(place, false);
    assert_true(is_paused(place, store, "after"));
    store_close(store);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_PLACE(a_copy_is_a_store_of_its_own),
        IN_PLACE(a_copy_has_what_is_still_in_the_log),
        IN_PLACE(a_copy_may_be_read_by_whoever_may_read_the_store),
        IN_PLACE(a_copy_is_of_one_moment_while_others_write),
        IN_PLACE(a_copy_takes_the_place_of_nothing),
        IN_PLACE(a_log_that_somebody_left_would_be_taken_for_that_of_the_copy),
        IN_PLACE(of_many_copies_to_one_path_exactly_one_is_made),
        IN_PLACE(paths_that_cannot_be_are_refused),
        IN_PLACE(a_copy_for_which_there_is_no_room_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
