#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>

#include "store/migrations.h"
#include "store/sqlite_place.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The version that new stores have, and the one after it. */
enum { NEWEST = 7, NEXT, USABLE_FROM = 7 };

/* A number from a file that no store has open. */
static int64_t ask(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return value;
}

static void run(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- making and finding ---- */

static void a_store_is_made_in_a_file_and_found_again(void **state)
{
    struct place *place = *state;
    struct store *store = open_ok(place, true);
    assert_false(is_paused(place, store, "mail"));
    pause_ok(store, "mail");
    store_close(store);
    assert_string_equal(files_in(place), "jobs.db jobs.db.lock");

    store = open_ok(place, false);
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
}

static void the_header_says_whose_file_it_is(void **state)
{
    struct place *place = *state;
    store_close(open_ok(place, true));
    assert_int_equal(ask(place->path, "PRAGMA application_id"), 0x5061776c);
    assert_int_equal(ask(place->path, "PRAGMA user_version"), NEWEST);
    assert_int_equal(ask(place->path, "SELECT max(version) FROM pawl_schema"), NEWEST);
    assert_int_equal(ask(place->path, "SELECT max(usable_from) FROM pawl_schema"), USABLE_FROM);
    assert_int_equal(ask(place->path, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
}

static void what_is_not_there_is_not_made_unless_asked_for(void **state)
{
    struct place *place = *state;
    assert_says(open_refused(place->path, false, ERR_NOT_FOUND), "no store");
    assert_string_equal(files_in(place), "");
}

static void an_empty_file_is_no_store_but_can_become_one(void **state)
{
    struct place *place = *state;
    write_file(place->path, STR(""));
    assert_says(open_refused(place->path, false, ERR_NOT_FOUND), "no store");
    assert_string_equal(files_in(place), "jobs.db");
    store_close(open_ok(place, true));
    store_close(open_ok(place, false));
}

/* A process is killed with the set-up in a journal and half of it in the file. */
static void cut_off_set_up(struct place *place)
{
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *db;
        if (sqlite3_open(place->path, &db) != SQLITE_OK ||
            sqlite3_exec(db,
                         "PRAGMA cache_size = 1; BEGIN; CREATE TABLE half (a);"
                         "INSERT INTO half SELECT zeroblob(4000) FROM json_each('[1,2,3,4,5,6]')",
                         NULL, NULL, NULL) != SQLITE_OK)
            _exit(1);
        (void)sqlite3_db_cacheflush(db);
        (void)raise(SIGKILL);
    }
    assert_int_equal(child_end(child), -SIGKILL);
    assert_true(is_there(beside(place, "-journal")));
    struct stat status;
    assert_int_equal(stat(place->path, &status), 0);
    assert_true(status.st_size > 0);
}

/* The first page as a power cut may leave it: some bytes of a header, and `fill` after them. */
static void tear_header(const char *path, const char *begins, int fill)
{
    char page[4096];
    memset(page, fill, sizeof page);
    memcpy(page, begins, strlen(begins)); /* NOLINT: bytes, and no text */
    int file = open(path, O_WRONLY);
    assert_int_equal(pwrite(file, page, sizeof page, 0), (ssize_t)sizeof page);
    (void)close(file);
}

static void a_set_up_that_was_cut_off_is_taken_back_and_done_again(void **state)
{
    struct place *place = *state;
    cut_off_set_up(place);
    /* On a real crash the first page may not have come to the disk. */
    tear_header(place->path, "", 0);
    struct store *store = open_ok(place, true);
    pause_ok(store, "mail");
    store_close(store);
    assert_int_equal(ask(place->path, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"), 0);
}

static void a_set_up_that_left_a_torn_header_is_rolled_back_and_done_again(void **state)
{
    static const struct {
        const char *begins;
        int fill;
    } damages[] = {{"SQLite format 3", 0}, {"SQLite", 0}, {"", 0xa5}};
    struct place *place = *state;
    for (size_t i = 0; i < COUNT(damages); i++) {
        (void)unlink(place->path);
        cut_off_set_up(place);
        tear_header(place->path, damages[i].begins, damages[i].fill);
        write_file(beside(place, ".lock"), STR(""));
        store_close(open_ok(place, true));
        assert_int_equal(ask(place->path, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"),
                         0);
        assert_int_equal(ask(place->path, "PRAGMA application_id"), 0x5061776c);
    }
}

static void a_torn_header_is_refused_where_pawl_was_never_or_the_journal_has_pages(void **state)
{
    struct place *place = *state;
    cut_off_set_up(place);
    tear_header(place->path, "SQLite format 3", 0);
    struct str before = read_file(place, place->path);
    assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "not a Pawl store");
    assert_str_equal(read_file(place, place->path), before);
    assert_string_equal(files_in(place), "jobs.db jobs.db-journal");

    /* The journal of a database in which something had been committed. */
    (void)unlink(place->path);
    (void)unlink(beside(place, "-journal"));
    run(place->path, "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)");
    cut_off_set_up(place);
    write_file(beside(place, ".lock"), STR(""));
    before = read_file(place, place->path);
    assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "not a Pawl store");
    assert_str_equal(read_file(place, place->path), before);
    assert_true(is_there(beside(place, "-journal")));
}

/* ---- what cannot be a store ---- */

static void a_directory_is_refused(void **state)
{
    struct place *place = *state;
    assert_says(open_refused(place->directory, true, ERR_UNAVAILABLE), "is a directory");
    assert_says(open_refused(place->directory, false, ERR_UNAVAILABLE), "is a directory");
    assert_says(open_refused(beside(place, "/"), true, ERR_UNAVAILABLE), "is a directory");
    assert_string_equal(files_in(place), "");
}

static void a_directory_that_is_not_there_is_refused(void **state)
{
    struct place *place = *state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/none/jobs.db", place->directory);
    assert_says(open_refused(path, true, ERR_UNAVAILABLE), "directory");
    assert_says(open_refused(path, false, ERR_NOT_FOUND), "no store");
}

static void devices_and_pipes_are_refused(void **state)
{
    struct place *place = *state;
    assert_says(open_refused("/dev/null", true, ERR_UNAVAILABLE), "not a file");
    assert_int_equal(mkfifo(place->path, 0600), 0);
    assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "not a file");
    assert_false(is_there("/dev/null.lock"));
}

static void a_link_to_nothing_is_refused(void **state)
{
    struct place *place = *state;
    assert_int_equal(symlink("nowhere", place->path), 0);
    assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "link");
    assert_string_equal(files_in(place), "jobs.db");
}

static void paths_that_cannot_be_are_refused(void **state)
{
    struct store_options options = {.create = true};
    struct store *store = NULL;
    struct err err;
    char path[PATH_MAX + 2];
    (void)state;
    assert_int_equal(sqlite_store_open(STR(""), &options, &store, &err), ERR_BAD_REQUEST);
    assert_int_equal(sqlite_store_open(STR("/tmp/a\0b"), &options, &store, &err), ERR_BAD_REQUEST);
    memset(path, 'a', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    assert_says(open_refused(path, true, ERR_UNAVAILABLE), "too long");
    path[300] = '\0';
    assert_says(open_refused(path, true, ERR_UNAVAILABLE), "too long");
}

static void a_file_that_is_no_database_is_refused_and_not_touched(void **state)
{
    static const struct str texts[] = {
        STR_INIT("x"),
        STR_INIT("SQLite format 3"),
        STR_INIT(
            "Dear diary, today I learned that ninety-nine bytes are not enough for a header "
            "and that a hundred are: so here are some more than that, to be on the safe side."),
    };
    struct place *place = *state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        write_file(place->path, texts[i]);
        assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "not a Pawl store");
        assert_str_equal(read_file(place, place->path), texts[i]);
        assert_string_equal(files_in(place), "jobs.db");
    }
}

static void a_database_of_somebody_else_is_refused_and_not_touched(void **state)
{
    static const char *const sorts[] = {
        "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)",
        "PRAGMA journal_mode = WAL; CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)",
        "PRAGMA application_id = 42; CREATE TABLE jobs (id)",
        "PRAGMA user_version = 1", /* empty, and yet somebody's */
    };
    struct place *place = *state;
    for (size_t i = 0; i < COUNT(sorts); i++) {
        (void)unlink(place->path);
        run(place->path, sorts[i]);
        struct str before = read_file(place, place->path);
        assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "not a Pawl store");
        assert_str_equal(read_file(place, place->path), before);
        assert_string_equal(files_in(place), "jobs.db");
    }
}

static void a_damaged_store_is_told_as_that(void **state)
{
    struct place *place = *state;
    store_close(open_ok(place, true));
    struct str bytes = read_file(place, place->path);
    char *damaged = arena_alloc(&place->arena, bytes.len);
    assert_non_null(damaged);
    memcpy(damaged, bytes.at, bytes.len);
    memset(damaged + 100, 0xa5, bytes.len - 100);
    write_file(place->path, (struct str){damaged, bytes.len});
    assert_says(open_refused(place->path, true, ERR_CORRUPT), "damaged");

    /* With the tables there, but not the one that says which they are. */
    write_file(place->path, bytes);
    run(place->path, "DROP TABLE pawl_schema");
    assert_says(open_refused(place->path, true, ERR_CORRUPT), "version");
}

/* ---- what may not be written ---- */

/* In a child that is nobody, since root may write everywhere. The child's exit code is the number
 * of the first check that failed. */
static int as_nobody(const struct place *place, bool create, enum error_code expected,
                     const char *words)
{
    pid_t child = fork();
    if (child == 0) {
        struct store_options options = {.create = create};
        struct store *store = NULL;
        struct err err = {0};
        if (getuid() == 0 && setuid(65534) != 0)
            _exit(1);
        if (sqlite_store_open(str_from(place->path), &options, &store, &err) != expected)
            _exit(2);
        _exit(strstr(err.detail, words) == NULL ? 3 : 0);
    }
    return child_end(child);
}

static void a_directory_that_may_not_be_written_gives_a_clear_error(void **state)
{
    struct place *place = *state;
    assert_int_equal(chmod(place->directory, 0555), 0);
    assert_int_equal(as_nobody(place, true, ERR_UNAVAILABLE, "Permission denied"), 0);
    assert_int_equal(as_nobody(place, false, ERR_NOT_FOUND, "no store"), 0);
    assert_int_equal(chmod(place->directory, 0755), 0);
    assert_string_equal(files_in(place), "");
}

static void a_file_that_may_not_be_written_gives_a_clear_error_and_is_not_touched(void **state)
{
    struct place *place = *state;
    store_close(open_ok(place, true));
    assert_int_equal(unlink(beside(place, ".lock")), 0);
    struct str before = read_file(place, place->path);
    assert_int_equal(chmod(place->directory, 0777), 0);
    assert_int_equal(chmod(place->path, 0444), 0);
    assert_int_equal(as_nobody(place, true, ERR_UNAVAILABLE, "Permission denied"), 0);
    assert_int_equal(chmod(place->path, 0000), 0);
    assert_int_equal(as_nobody(place, true, ERR_UNAVAILABLE, "Permission denied"), 0);
    /* A store that could be written, in a place where neither lock nor log can be made. */
    assert_int_equal(chmod(place->path, 0666), 0);
    assert_int_equal(chmod(place->directory, 0555), 0);
    assert_int_equal(as_nobody(place, true, ERR_UNAVAILABLE, "Permission denied"), 0);
    assert_int_equal(chmod(place->directory, 0755), 0);
    assert_str_equal(read_file(place, place->path), before);
    assert_string_equal(files_in(place), "jobs.db");
}

static void a_file_system_that_takes_no_files_gives_a_clear_error(void **state)
{
    (void)state;
    assert_says(open_refused("/proc/jobs.db", true, ERR_UNAVAILABLE), "lock file");
}

/* ---- one owner ---- */

static void a_second_open_in_this_process_is_refused_and_names_it(void **state)
{
    struct place *place = *state;
    char words[64];
    struct store *store = open_ok(place, true);
    (void)snprintf(words, sizeof words, "open in this process (%ld)", (long)getpid());
    assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), words);
    /* The first one has lost nothing by that. */
    pause_ok(store, "mail");
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
    store_close(open_ok(place, false));
}

static void the_same_file_by_another_name_is_refused_too(void **state)
{
    struct place *place = *state;
    char path[128];
    struct store *store = open_ok(place, true);
    (void)snprintf(path, sizeof path, "%s/../%s/./jobs.db", place->directory,
                   strrchr(place->directory, '/') + 1);
    assert_says(open_refused(path, true, ERR_UNAVAILABLE), "open in this process");
    (void)snprintf(path, sizeof path, "%s/link", place->directory);
    assert_int_equal(symlink("jobs.db", path), 0);
    assert_says(open_refused(path, true, ERR_UNAVAILABLE), "open in this process");
    store_close(store);
}

/* Whether somebody else holds a lock of SQLite's on the file. */
static bool is_locked_by_another(const char *path)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int file = open(path, O_RDWR | O_CLOEXEC);
    return file >= 0 && fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* How many descriptors this process has. */
static int count_open(void)
{
    struct dirent **entries;
    int count = scandir("/proc/self/fd", &entries, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return count;
}

static void a_file_with_two_names_has_one_owner(void **state)
{
    struct place *place = *state;
    char path[128];
    store_close(open_ok(place, true));
    (void)snprintf(path, sizeof path, "%s/other.db", place->directory);
    assert_int_equal(link(place->path, path), 0);
    struct store *store = open_ok(place, false);
    int before = count_open();
    assert_says(open_refused(path, true, ERR_UNAVAILABLE), "open in this process");
    assert_int_equal(count_open(), before);
    pid_t child = fork();
    if (child == 0) {
        /* Another process: what it inherited it does not have open itself. */
        for (int i = 3; i < 1000; i++)
            (void)close(i);
        struct store_options options = {.create = true};
        struct store *second = NULL;
        struct err err = {0};
        bool refused =
            sqlite_store_open(str_from(path), &options, &second, &err) == ERR_UNAVAILABLE &&
            strstr(err.detail, "another name of the file") != NULL;
        _exit(refused && is_locked_by_another(path) ? 0 : 1);
    }
    assert_int_equal(child_end(child), 0);
    assert_string_equal(files_in(place), "jobs.db jobs.db-shm jobs.db-wal jobs.db.lock other.db");
    pause_ok(store, "mail");
    store_close(store);
    struct err err = {0};
    struct store_options options = {0};
    assert_int_equal(sqlite_store_open(str_from(path), &options, &store, &err), ERR_OK);
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
}

static void a_lock_file_of_somebody_else_is_refused_and_not_touched(void **state)
{
    struct place *place = *state;
    static const struct str others[] = {
        STR_INIT("held by the mail program\n"),
        STR_INIT("12 monkeys"),
        STR_INIT("\n"),
        STR_INIT("-7\n"),
        STR_INIT("7\n8\n"),
        STR_INIT("1111111111111111111111111111"),
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        write_file(beside(place, ".lock"), others[i]);
        assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "does not belong to Pawl");
        assert_true(str_eq(read_file(place, beside(place, ".lock")), others[i]));
        assert_string_equal(files_in(place), "jobs.db.lock");
    }
    /* The last two as a power cut may leave one. */
    static const struct str ours[] = {STR_INIT(""), STR_INIT("4711\n"), STR_INIT("4711"),
                                      STR_INIT("\0\0\0\0\0"),
                                      STR_INIT("\0\0"
                                               "11\n\n\0\n")};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        write_file(beside(place, ".lock"), ours[i]);
        store_close(open_ok(place, true));
    }
}

static void a_second_process_is_refused_and_told_who_has_it(void **state)
{
    struct place *place = *state;
    char words[64];
    struct store *store = open_ok(place, true);
    (void)snprintf(words, sizeof words, "in use by process %ld", (long)getpid());
    pid_t child = fork();
    if (child == 0) {
        struct store_options options = {.create = true};
        struct store *second = NULL;
        struct err err = {0};
        bool refused =
            sqlite_store_open(str_from(place->path), &options, &second, &err) == ERR_UNAVAILABLE;
        _exit(refused && strstr(err.detail, words) != NULL &&
                      strstr(err.detail, "end it first") != NULL
                  ? 0
                  : 1);
    }
    assert_int_equal(child_end(child), 0);
    pause_ok(store, "mail");
    store_close(store);
}

static void when_an_owner_is_killed_the_next_takes_over_with_all_it_committed(void **state)
{
    struct place *place = *state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct store *store = open_ok(place, true);
        struct store_txn *txn;
        struct store_queue paused = {.queue = STR("lost"), .paused = true};
        struct store_write changes = {.queues = &paused, .queue_count = 1};
        struct err err;
        pause_ok(store, "mail");
        /* And one that it does not commit. */
        if (store_begin(store, STORE_WRITE, &txn, &err) != ERR_OK ||
            store_write(txn, &changes, &err) != ERR_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_says(open_refused(place->path, false, ERR_UNAVAILABLE), "in use by process");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(child_end(child), -SIGKILL);
    struct store *store = open_ok(place, false);
    assert_true(is_paused(place, store, "mail"));
    assert_false(is_paused(place, store, "lost"));
    store_close(store);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void of_many_that_open_at_once_exactly_one_gets_it(void **state)
{
    enum { CHILDREN = 8 };
    struct place *place = *state;
    int start[2];
    int done[2];
    pid_t children[CHILDREN];
    char byte;
    assert_int_equal(pipe(start), 0);
    assert_int_equal(pipe(done), 0);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct store_options options = {.create = true};
            struct store *store = NULL;
            struct err err;
            (void)close(start[1]);
            (void)close(done[1]);
            (void)(read(start[0], &byte, 1) == 0); /* all begin when the pipe is closed */
            enum error_code code = sqlite_store_open(str_from(place->path), &options, &store, &err);
            if (code == ERR_OK) /* and the owner stays until all others have tried */
                (void)(read(done[0], &byte, 1) == 0);
            _exit(code == ERR_OK ? 0 : code == ERR_UNAVAILABLE ? 1 : 2);
        }
    }
    (void)close(start[1]);
    int owners = 0;
    int refused = 0;
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        if (i == CHILDREN - 1)
            (void)close(done[1]);
        assert_true(waitpid(-1, &status, 0) > 0);
        assert_true(WIFEXITED(status));
        owners += WEXITSTATUS(status) == 0;
        refused += WEXITSTATUS(status) == 1;
    }
    assert_int_equal(owners, 1);
    assert_int_equal(refused, CHILDREN - 1);
    (void)close(start[0]);
    (void)close(done[0]);
}

/* ---- versions ---- */

static struct migration with_more[NEXT];

/* The migrations that there are, and one more. */
static struct migrations with_next(int64_t usable_from, struct str sql)
{
    assert_int_equal(sqlite_migrations.count, NEWEST);
    memcpy(with_more, sqlite_migrations.at, NEWEST * sizeof with_more[0]);
    with_more[NEWEST] = (struct migration){
        .version = NEXT, .usable_from = usable_from, .name = "0099_more.sql", .sql = sql};
    return (struct migrations){with_more, NEXT};
}

static enum error_code open_known(const struct place *place, const struct migrations *known,
                                  struct store **ret, struct err *err)
{
    struct store_options options = {.create = true};
    return sqlite_store_open_known(str_from(place->path), &options, known, ret, err);
}

#define NEXT_SQL STR("CREATE TABLE more (a); INSERT INTO more VALUES (7);\n-- that is all\n")

static void an_older_store_is_copied_and_then_migrated(void **state)
{
    struct place *place = *state;
    struct migrations known = with_next(1, NEXT_SQL);
    struct store *store = open_ok(place, true);
    struct err err;
    pause_ok(store, "mail");
    store_close(store);
    write_file(beside(place, ".v7.bak.new"), STR("left by somebody who was killed"));

    assert_int_equal(open_known(place, &known, &store, &err), ERR_OK);
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
    assert_string_equal(files_in(place), "jobs.db jobs.db.lock jobs.db.v7.bak");
    assert_int_equal(ask(place->path, "PRAGMA user_version"), NEXT);
    assert_int_equal(ask(place->path, "SELECT max(version) FROM pawl_schema"), NEXT);
    assert_int_equal(ask(place->path, "SELECT a FROM more"), 7);

    /* The copy is a store of the version before. */
    assert_int_equal(rename(beside(place, ".v7.bak"), place->path), 0);
    assert_int_equal(ask(place->path, "PRAGMA user_version"), NEWEST);
    assert_int_equal(ask(place->path, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"),
                     1);
    store = open_ok(place, false);
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
}

/* Payloads are nobody else's business, whatever the shell says about new files. */
static void a_store_that_is_made_is_for_its_owner_alone(void **state)
{
    struct place *place = *state;
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    mode_t before = umask(022);
    struct store *store = open_ok(place, true);
    (void)umask(before);
    for (size_t i = 0; i < COUNT(suffixes); i++) {
        struct stat status;
        assert_int_equal(stat(beside(place, suffixes[i]), &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
    }
    store_close(store);
}

static void the_copy_can_be_read_by_those_who_may_read_the_store(void **state)
{
    struct place *place = *state;
    static const mode_t modes[] = {0600, 0640, 0644};
    for (size_t i = 0; i < COUNT(modes); i++) {
        struct migrations known = with_next(1, NEXT_SQL);
        struct store *store;
        struct stat status;
        struct err err;
        store_close(open_ok(place, true));
        assert_int_equal(chmod(place->path, modes[i]), 0);
        assert_int_equal(open_known(place, &known, &store, &err), ERR_OK);
        store_close(store);
        assert_int_equal(stat(beside(place, ".v7.bak"), &status), 0);
        assert_int_equal(status.st_mode & 0777, modes[i]);
        assert_int_equal(unlink(place->path), 0);
    }
}

static void what_a_killed_owner_left_in_the_log_is_migrated_and_copied_too(void **state)
{
    struct place *place = *state;
    struct migrations known = with_next(1, NEXT_SQL);
    struct store *store;
    struct err err;
    pid_t child = fork();
    if (child == 0) {
        pause_ok(open_ok(place, true), "mail");
        (void)raise(SIGKILL);
    }
    assert_int_equal(child_end(child), -SIGKILL);
    assert_true(is_there(beside(place, "-wal")));
    assert_int_equal(open_known(place, &known, &store, &err), ERR_OK);
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
    assert_int_equal(ask(beside(place, ".v7.bak"), "SELECT count(*) FROM queues"), 1);
}

static void a_migration_that_fails_changes_nothing(void **state)
{
    struct place *place = *state;
    struct migrations known = with_next(
        1, STR("CREATE TABLE more (a); INSERT INTO queues VALUES ('x', 1); SELECT nonsense;"));
    struct store *store = open_ok(place, true);
    struct err err;
    pause_ok(store, "mail");
    store_close(store);
    store = NULL;
    assert_int_equal(open_known(place, &known, &store, &err), ERR_UNAVAILABLE);
    assert_null(store);
    assert_says(err.detail, "0099_more.sql");
    assert_int_equal(ask(place->path, "PRAGMA user_version"), NEWEST);
    store = open_ok(place, false);
    assert_true(is_paused(place, store, "mail"));
    assert_false(is_paused(place, store, "x"));
    store_close(store);
}

static void a_newer_store_that_we_may_not_use_is_refused_and_not_touched(void **state)
{
    struct place *place = *state;
    struct migrations known = with_next(NEXT, NEXT_SQL);
    struct store *store;
    struct err err;
    assert_int_equal(open_known(place, &known, &store, &err), ERR_OK);
    store_close(store);
    struct str before = read_file(place, place->path);
    const char *detail = open_refused(place->path, true, ERR_UNAVAILABLE);
    assert_says(detail, "version 8");
    assert_says(detail, "knows 7");
    assert_str_equal(read_file(place, place->path), before);
    assert_string_equal(files_in(place), "jobs.db jobs.db.lock");
}

static void nor_is_the_log_of_one_whose_owner_was_killed(void **state)
{
    struct place *place = *state;
    struct migrations known = with_next(NEXT, NEXT_SQL);
    pid_t child = fork();
    if (child == 0) {
        struct store *store;
        struct err err;
        if (open_known(place, &known, &store, &err) != ERR_OK)
            _exit(1);
        pause_ok(store, "mail");
        (void)raise(SIGKILL);
    }
    assert_int_equal(child_end(child), -SIGKILL);
    struct str before = read_file(place, place->path);
    struct str log = read_file(place, beside(place, "-wal"));
    assert_says(open_refused(place->path, true, ERR_UNAVAILABLE), "version 8");
    assert_str_equal(read_file(place, place->path), before);
    assert_str_equal(read_file(place, beside(place, "-wal")), log);
}

static void a_newer_store_that_we_may_still_use_is_opened_as_it_is(void **state)
{
    struct place *place = *state;
    struct migrations known = with_next(1, NEXT_SQL);
    struct store *store;
    struct err err;
    assert_int_equal(open_known(place, &known, &store, &err), ERR_OK);
    store_close(store);
    store = open_ok(place, false);
    pause_ok(store, "mail");
    assert_true(is_paused(place, store, "mail"));
    store_close(store);
    assert_string_equal(files_in(place), "jobs.db jobs.db.lock");
    assert_int_equal(ask(place->path, "PRAGMA user_version"), NEXT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_PLACE(a_store_is_made_in_a_file_and_found_again),
        IN_PLACE(the_header_says_whose_file_it_is),
        IN_PLACE(what_is_not_there_is_not_made_unless_asked_for),
        IN_PLACE(a_store_that_is_made_is_for_its_owner_alone),
        IN_PLACE(an_empty_file_is_no_store_but_can_become_one),
        IN_PLACE(a_set_up_that_was_cut_off_is_taken_back_and_done_again),
        IN_PLACE(a_set_up_that_left_a_torn_header_is_rolled_back_and_done_again),
        IN_PLACE(a_torn_header_is_refused_where_pawl_was_never_or_the_journal_has_pages),
        IN_PLACE(a_directory_is_refused),
        IN_PLACE(a_directory_that_is_not_there_is_refused),
        IN_PLACE(devices_and_pipes_are_refused),
        IN_PLACE(a_link_to_nothing_is_refused),
        IN_PLACE(paths_that_cannot_be_are_refused),
        IN_PLACE(a_file_that_is_no_database_is_refused_and_not_touched),
        IN_PLACE(a_database_of_somebody_else_is_refused_and_not_touched),
        IN_PLACE(a_damaged_store_is_told_as_that),
        IN_PLACE(a_directory_that_may_not_be_written_gives_a_clear_error),
        IN_PLACE(a_file_that_may_not_be_written_gives_a_clear_error_and_is_not_touched),
        IN_PLACE(a_file_system_that_takes_no_files_gives_a_clear_error),
        IN_PLACE(a_second_open_in_this_process_is_refused_and_names_it),
        IN_PLACE(the_same_file_by_another_name_is_refused_too),
        IN_PLACE(a_file_with_two_names_has_one_owner),
        IN_PLACE(a_lock_file_of_somebody_else_is_refused_and_not_touched),
        IN_PLACE(a_second_process_is_refused_and_told_who_has_it),
        IN_PLACE(when_an_owner_is_killed_the_next_takes_over_with_all_it_committed),
        IN_PLACE(of_many_that_open_at_once_exactly_one_gets_it),
        IN_PLACE(an_older_store_is_copied_and_then_migrated),
        IN_PLACE(the_copy_can_be_read_by_those_who_may_read_the_store),
        IN_PLACE(what_a_killed_owner_left_in_the_log_is_migrated_and_copied_too),
        IN_PLACE(a_migration_that_fails_changes_nothing),
        IN_PLACE(a_newer_store_that_we_may_not_use_is_refused_and_not_touched),
        IN_PLACE(nor_is_the_log_of_one_whose_owner_was_killed),
        IN_PLACE(a_newer_store_that_we_may_still_use_is_opened_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
