/* What the tests of the SQLite store share: a directory of its own for each test, files looked at
 * as bytes, and the smallest things that can be written and read. */
#ifndef PAWL_TESTS_STORE_SQLITE_PLACE_H
#define PAWL_TESTS_STORE_SQLITE_PLACE_H

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../base/fixture.h"
#include "store/sqlite/sqlite_store.h"

struct place {
    char directory[64];
    char path[96]; /* of a database that is not there yet */
    struct arena arena;
};

/* "PATH" and what is added to it; valid until the next call. */
static inline const char *beside(const struct place *place, const char *suffix)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "%s%s", place->path, suffix);
    return path;
}

static inline int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL)
        return -1;
    (void)snprintf(place->directory, sizeof place->directory, "/tmp/pawl-sqlite-XXXXXX");
    if (mkdtemp(place->directory) == NULL)
        return -1;
    (void)snprintf(place->path, sizeof place->path, "%s/jobs.db", place->directory);
    arena_init(&place->arena);
    *state = place;
    return 0;
}

/* The names in the directory, sorted by the shell's rules for one word after the other. */
static inline int name_order(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static inline const char *files_in(const struct place *place)
{
    static char names[512];
    struct dirent **entries;
    size_t len = 0;
    int count = scandir(place->directory, &entries, NULL, name_order);
    assert_true(count >= 0);
    names[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.')
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? " " : "",
                                    entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return names;
}

static inline int place_teardown(void **state)
{
    struct place *place = *state;
    struct dirent **entries;
    char path[512];
    int count = scandir(place->directory, &entries, NULL, NULL);
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", place->directory, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            (void)(unlink(path) == 0 || rmdir(path) == 0);
        free(entries[i]);
    }
    free(entries);
    (void)rmdir(place->directory);
    arena_release(&place->arena);
    free(place);
    return 0;
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, place_setup, place_teardown)

/* ---- files ---- */

static inline void write_file(const char *path, struct str bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.at, 1, bytes.len, file), bytes.len);
    assert_int_equal(fclose(file), 0);
}

/* Not of a database that is open in this process: that would end its locks. */
static inline struct str read_file(struct place *place, const char *path)
{
    struct stat status;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &status), 0);
    char *bytes = arena_alloc(&place->arena, (size_t)status.st_size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)status.st_size, file), status.st_size);
    assert_int_equal(fclose(file), 0);
    return (struct str){bytes, (size_t)status.st_size};
}

static inline bool is_there(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* ---- stores ---- */

static inline struct store *open_ok(const struct place *place, bool create)
{
    struct store_options options = {.create = create, .timeout_ms = 2000};
    struct store *store = NULL;
    struct err err;
    enum error_code code = sqlite_store_open(str_from(place->path), &options, &store, &err);
    if (code != ERR_OK)
        fail_msg("%s", err.detail);
    return store;
}

/* Opening must fail; the detail is valid until the next call. */
static inline const char *open_refused(const char *path, bool create, enum error_code expected)
{
    static struct err err;
    struct store_options options = {.create = create};
    struct store *store = NULL;
    enum error_code code = sqlite_store_open(str_from(path), &options, &store, &err);
    if (code != expected)
        fail_msg("got %d and not %d: %s", code, expected, code == ERR_OK ? "" : err.detail);
    assert_null(store);
    return err.detail;
}

static inline void assert_says(const char *detail, const char *words)
{
    if (strstr(detail, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", detail, words);
}

/* Pauses a queue: about the smallest thing that can be written. `ret` is what commit said. */
static inline enum error_code pause_queue(struct store *store, const char *queue, struct err *err)
{
    struct store_queue paused = {.queue = str_from(queue), .paused = true};
    struct store_write write = {.queues = &paused, .queue_count = 1};
    enum store_outcome outcome;
    struct store_txn *txn;
    enum error_code code = store_begin(store, STORE_WRITE, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_write(txn, &write, err);
    if (code != ERR_OK) {
        store_rollback(txn);
        return code;
    }
    return store_commit(txn, &outcome, err);
}

static inline void pause_ok(struct store *store, const char *queue)
{
    struct err err;
    if (pause_queue(store, queue, &err) != ERR_OK)
        fail_msg("%s", err.detail);
}

static inline bool is_paused(struct place *place, struct store *store, const char *queue)
{
    struct store_load load = {0};
    struct store_txn *txn;
    struct err err;
    bool found = false;
    assert_int_equal(store_begin(store, STORE_READ, &txn, &err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &place->arena, &err), ERR_OK);
    for (uint32_t i = 0; i < load.paused.count; i++)
        found = found || str_eq(load.paused.at[i], str_from(queue));
    store_rollback(txn);
    return found;
}

/* How a child ended: its exit code, or minus the signal. */
static inline int child_end(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
