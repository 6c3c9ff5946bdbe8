/* The simulated disk itself: what is synced stays, what is not may go, and what fails fails as it
 * does on a real one. And what it has found: see docs/testing.md. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "disk_script.h"

#define FILE_PATH DISK_ROOT "/file"
#define OTHER_PATH DISK_ROOT "/other"

static int disk_setup(void **state)
{
    struct disk *disk = disk_new();
    disk_use(disk);
    *state = disk;
    return 0;
}

static int disk_teardown(void **state)
{
    disk_use(NULL);
    disk_free(*state);
    return 0;
}

static int made(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= DISK_DESCRIPTORS);
    return file;
}

static void put(int file, const char *text, size_t at)
{
    assert_int_equal(pwrite(file, text, strlen(text), (off_t)at), strlen(text));
}

static void sync_directory(void)
{
    int directory = open(DISK_ROOT, O_RDONLY | O_DIRECTORY);
    assert_int_equal(fsync(directory), 0);
    assert_int_equal(close(directory), 0);
}

/* What is in a file; "none": it is not there. */
static const char *content(const char *path)
{
    static char text[64];
    int file = open(path, O_RDONLY);
    if (file < 0)
        return "none";
    ssize_t len = pread(file, text, sizeof text - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    assert_int_equal(close(file), 0);
    return text;
}

/* The power is cut, and another process begins. */
static void cut(void **state, uint32_t style)
{
    struct rng rng = rng_new(1, style);
    struct disk *after = disk_copy(*state);
    disk_cut(after, &rng, style);
    disk_use(after);
    disk_free(*state);
    *state = after;
}

static void what_is_synced_survives_any_cut(void **state)
{
    int file = made(FILE_PATH);
    put(file, "safe", 0);
    assert_int_equal(fdatasync(file), 0);
    sync_directory();
    for (uint32_t style = 0; style < DISK_STYLES; style++) {
        cut(state, style);
        assert_string_equal(content(FILE_PATH), "safe");
    }
}

static void what_is_not_synced_is_seen_and_may_be_lost(void **state)
{
    int file = made(FILE_PATH);
    put(file, "safe", 0);
    assert_int_equal(fdatasync(file), 0);
    sync_directory();
    put(file, "lost", 0);
    assert_string_equal(content(FILE_PATH), "lost");
    cut(state, 0);
    assert_string_equal(content(FILE_PATH), "safe");
}

static void all_of_it_may_be_there_too(void **state)
{
    int file = made(FILE_PATH);
    put(file, "kept", 0);
    cut(state, 1);
    assert_string_equal(content(FILE_PATH), "kept");
}

static void a_name_needs_a_sync_of_its_directory(void **state)
{
    int file = made(FILE_PATH);
    put(file, "safe", 0);
    assert_int_equal(fdatasync(file), 0);
    cut(state, 0);
    assert_string_equal(content(FILE_PATH), "none");
}

static void a_file_that_was_deleted_may_come_back(void **state)
{
    int file = made(FILE_PATH);
    put(file, "old", 0);
    assert_int_equal(fdatasync(file), 0);
    sync_directory();
    assert_int_equal(unlink(FILE_PATH), 0);
    assert_string_equal(content(FILE_PATH), "none");
    cut(state, 0);
    assert_string_equal(content(FILE_PATH), "old");
}

static void a_rename_is_done_or_not(void **state)
{
    int file = made(FILE_PATH);
    put(file, "one", 0);
    assert_int_equal(fdatasync(file), 0);
    sync_directory();
    assert_int_equal(rename(FILE_PATH, OTHER_PATH), 0);
    assert_string_equal(content(OTHER_PATH), "one");
    cut(state, 0);
    assert_string_equal(content(FILE_PATH), "one");
    assert_string_equal(content(OTHER_PATH), "none");
}

static void writes_are_lost_by_sectors_and_torn(void **state)
{
    enum { LEN = 8 * 512 };
    static char old[LEN];
    static char new[LEN];
    static char found[LEN];
    bool mixed = false;
    bool torn = false;
    memset(old, 'o', LEN);
    memset(new, 'n', LEN);
    for (uint32_t style = 2; style < DISK_STYLES; style++) {
        int file = made(FILE_PATH);
        assert_int_equal(pwrite(file, old, LEN, 0), LEN);
        assert_int_equal(fsync(file), 0);
        sync_directory();
        assert_int_equal(pwrite(file, new, LEN, 0), LEN);
        cut(state, style);
        file = made(FILE_PATH);
        assert_int_equal(pread(file, found, LEN, 0), LEN);
        mixed = mixed || (memchr(found, 'o', LEN) != NULL && memchr(found, 'n', LEN) != NULL);
        for (size_t i = 0; i + 1 < LEN; i++) {
            assert_true(found[i] == 'o' || found[i] == 'n');
            torn = torn || (found[i] != found[i + 1] && (i + 1) % 512 != 0);
        }
        assert_int_equal(close(file), 0);
    }
    assert_true(mixed && torn);
}

/* ---- faults ---- */

/* Fails the next call of a sort. */
struct once {
    enum disk_verb verb;
    const char *end; /* of the path; "": any */
    int number;
    bool done;
};

static int fail_once(void *arg, const struct disk_call *call)
{
    struct once *once = arg;
    size_t len = strlen(call->path);
    size_t end = strlen(once->end);
    if (once->done || call->verb != once->verb || len < end ||
        strcmp(call->path + len - end, once->end) != 0)
        return DISK_GO;
    once->done = true;
    return once->number;
}

static void a_failed_sync_throws_away_what_it_was_to_write(void **state)
{
    struct once once = {DISK_SYNC, "", EIO, false};
    int file = made(FILE_PATH);
    sync_directory();
    put(file, "lost", 0);
    disk_watch(*state, fail_once, &once);
    assert_int_equal(fdatasync(file), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(fdatasync(file), 0);
    assert_string_equal(content(FILE_PATH), "lost");
    cut(state, 1);
    assert_string_equal(content(FILE_PATH), "");
}

static void a_write_can_be_short(void **state)
{
    struct once once = {DISK_WRITE, "", DISK_SHORT, false};
    int file = made(FILE_PATH);
    disk_watch(*state, fail_once, &once);
    assert_int_equal(pwrite(file, "12345678", 8, 0), 4);
    assert_string_equal(content(FILE_PATH), "1234");
}

static void a_lock_has_one_holder(void **state)
{
    (void)state;
    int one = made(FILE_PATH);
    int other = made(FILE_PATH);
    assert_int_equal(flock(one, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    assert_int_equal(close(one), 0);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
}

/* ---- what was found ---- */

static void a_file_that_cannot_be_looked_at_for_once_is_not_taken_for_lost(void **state)
{
    struct script *script = script_learn();
    struct life life = {.script = script};
    struct once once = {DISK_LOOK, "-shm", EIO, false};
    struct err err = {0};
    assert_int_equal(life_open(&life, &err), ERR_OK);
    while (life.done < 3)
        assert_int_equal(life_step(&life, &err), ERR_OK);
    disk_watch(*state, fail_once, &once);
    while (!once.done)
        (void)life_step(&life, &err);
    if (!life_finish(&life) || !life_check(&life, false))
        fail_msg("%s", life.complaint);
    life_close(&life);
    script_free(script);
}

int main(void)
{
#define ON_DISK(test) cmocka_unit_test_setup_teardown(test, disk_setup, disk_teardown)
    const struct CMUnitTest tests[] = {
        ON_DISK(what_is_synced_survives_any_cut),
        ON_DISK(what_is_not_synced_is_seen_and_may_be_lost),
        ON_DISK(all_of_it_may_be_there_too),
        ON_DISK(a_name_needs_a_sync_of_its_directory),
        ON_DISK(a_file_that_was_deleted_may_come_back),
        ON_DISK(a_rename_is_done_or_not),
        ON_DISK(writes_are_lost_by_sectors_and_torn),
        ON_DISK(a_failed_sync_throws_away_what_it_was_to_write),
        ON_DISK(a_write_can_be_short),
        ON_DISK(a_lock_has_one_holder),
        ON_DISK(a_file_that_cannot_be_looked_at_for_once_is_not_taken_for_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
