/* The simulated disk itself: what is synced stays, what is not may go, and what fails fails as it
 * does on a real one. And what it has found: see docs/internals/testing.md. */
#define _GNU_SOURCE /* NOLINT: memmem */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "disk_script.h"
#include "engine/verb.h"
#include "pawl.h"
#include "store/sqlite_place.h"

/* In tests a place is a directory. */
#define place placed_work
#include "store/sqlite/sqlite.h"
#undef place

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

/* A disk as another process finds it when the power of this one has been cut. */
static struct disk *cut_copy(const struct disk *disk, uint32_t style)
{
    struct rng rng = rng_new(1, style);
    struct disk *after = disk_copy(disk);
    disk_cut(after, &rng, style);
    disk_use(after);
    return after;
}

static void cut(void **state, uint32_t style)
{
    struct disk *after = cut_copy(*state, style);
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

/* ---- what is erased ---- */

/* Whether a text is in any file of the store. */
static bool is_on_disk(const char *text)
{
    static const char *const ends[] = {"", "-wal", "-ahead0", "-ahead1"};
    static char bytes[2 << 20];
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "%s%s", SCRIPT_PATH, ends[i]);
        int file = open(path, O_RDONLY);
        if (file < 0)
            continue;
        ssize_t len = pread(file, bytes, sizeof bytes, 0);
        assert_in_range(len, 0, sizeof bytes - 1);
        assert_int_equal(close(file), 0);
        if (memmem(bytes, (size_t)len, text, strlen(text)) != NULL)
            return true;
    }
    return false;
}

/* Asks for something that is not in the script. */
static struct str ask(struct life *life, enum verb_name verb, const char *request,
                      struct arena *arena)
{
    struct verb_call call = {
        .engine = life->engine,
        .arena = arena,
        .name = verb,
        .request = str_from(request),
        .actor = STR("ann"),
    };
    struct buf answer;
    struct err err = {0};
    buf_init(&answer, arena, 512);
    if (verb_respond(&call, &answer, &err) != ERR_OK)
        fail_msg("%s: %s", request, err.detail);
    return buf_str(&answer);
}

static const char secret[] = "nobody else is to know";

/* A job whose result is the secret, on a disk that has it. The request that redacts it. */
static const char *completed_job(struct life *life, struct arena *arena)
{
    static char request[256];
    (void)ask(life, VERB_submit, "{\"kind\":\"k\"}", arena);
    struct str claim = ask(life, VERB_claim, "{\"worker_id\":\"w\"}", arena);
    struct pawl_json claimed = {claim.at, claim.len};
    struct pawl_json id = pawl_json_get(claimed, "claims.0.job.id");
    struct pawl_json token = pawl_json_get(claimed, "claims.0.lease.token");
    (void)snprintf(request, sizeof request, "{\"token\":%.*s,\"result\":\"%s\"}", (int)token.len,
                   token.at, secret);
    (void)ask(life, VERB_complete, request, arena);
    assert_true(is_on_disk(secret));
    (void)snprintf(request, sizeof request, "{\"id\":%.*s}", (int)id.len, id.at);
    return request;
}

/* In each way in which the power can be cut now. */
static void expect_erased_after_any_cut(const struct disk *disk)
{
    for (uint32_t style = 0; style < DISK_STYLES; style++) {
        struct disk *after = cut_copy(disk, style);
        assert_false(is_on_disk(secret));
        disk_free(after);
    }
}

static void what_was_redacted_stays_so_after_a_power_cut(void **state)
{
    struct disk *disk = *state;
    struct life life = {0};
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    assert_int_equal(life_open(&life, &err), ERR_OK);
    const char *request = completed_job(&life, &arena);
    (void)ask(&life, VERB_redact, request, &arena);
    expect_erased_after_any_cut(disk);
    disk_use(disk);
    assert_false(is_on_disk(secret));
    life_close(&life);
    arena_release(&arena);
}

/* The disk at each sync. */
struct moments {
    struct disk *disk;
    struct disk *at[64];
    uint32_t count;
};

static int keep_moment(void *arg, const struct disk_call *call)
{
    struct moments *moments = arg;
    if (call->verb == DISK_SYNC) {
        assert_true(moments->count < sizeof moments->at / sizeof moments->at[0]);
        moments->at[moments->count++] = disk_copy(moments->disk);
    }
    return DISK_GO;
}

/* On the disk as it was at a sync, and as a power cut then left it. */
static void redact_again(const struct disk *disk, uint32_t style, const char *request)
{
    struct disk *after = cut_copy(disk, style);
    struct life life = {0};
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    assert_int_equal(life_open(&life, &err), ERR_OK);
    (void)ask(&life, VERB_redact, request, &arena);
    expect_erased_after_any_cut(after);
    disk_use(after);
    life_close(&life);
    arena_release(&arena);
    disk_free(after);
}

static void a_redaction_that_a_power_cut_has_interrupted_can_be_asked_for_again(void **state)
{
    struct moments moments = {.disk = *state};
    struct life life = {0};
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    assert_int_equal(life_open(&life, &err), ERR_OK);
    const char *request = completed_job(&life, &arena);
    disk_watch(*state, keep_moment, &moments);
    (void)ask(&life, VERB_redact, request, &arena);
    disk_watch(*state, NULL, NULL);
    life_close(&life);
    assert_true(moments.count >= 3);
    for (uint32_t i = 0; i < moments.count; i++) {
        for (uint32_t style = 0; style < DISK_STYLES; style++)
            redact_again(moments.at[i], style, request);
        disk_free(moments.at[i]);
    }
    disk_use(*state);
    arena_release(&arena);
}

/* ---- syncs that overlap with the next batch ---- */

struct overlap {
    struct store *store;
    struct disk *disk;
    pthread_t second;
    bool begun;
    struct moments moments; /* at the syncs of the two commits */
};

static uint64_t written(const struct overlap *overlap)
{
    struct sqlite_store *store = (struct sqlite_store *)overlap->store;
    sqlite_lock(store);
    uint64_t count = store->written;
    sqlite_unlock(store);
    return count;
}

static void *pause_second(void *arg)
{
    struct overlap *overlap = arg;
    pause_ok(overlap->store, "second");
    return NULL;
}

/* The second batch is written while the first waits for the disk, and nothing else happens. */
static int begin_second(void *arg, const struct disk_call *call)
{
    struct overlap *overlap = arg;
    if (call->verb != DISK_SYNC)
        return DISK_GO;
    if (!overlap->begun) {
        uint64_t before = written(overlap);
        overlap->begun = true;
        assert_int_equal(pthread_create(&overlap->second, NULL, pause_second, overlap), 0);
        while (written(overlap) == before)
            (void)sched_yield();
    }
    return keep_moment(&overlap->moments, call);
}

static void expect_after_cut(const struct disk *moment, uint32_t style, bool acknowledged)
{
    struct disk *after = cut_copy(moment, style);
    struct place place = {.path = SCRIPT_PATH};
    arena_init(&place.arena);
    struct store *store = open_ok(&place, false);
    bool first = is_paused(&place, store, "first");
    assert_true(is_paused(&place, store, "before"));
    assert_true(first || !acknowledged);
    assert_true(first || !is_paused(&place, store, "second"));
    store_close(store);
    arena_release(&place.arena);
    disk_free(after);
}

static void
a_power_cut_while_two_batches_wait_for_the_disk_loses_none_that_was_acknowledged(void **state)
{
    struct place place = {.path = SCRIPT_PATH};
    struct overlap overlap = {.store = open_ok(&place, true), .disk = *state};
    overlap.moments.disk = *state;
    pause_ok(overlap.store, "before");
    disk_watch(*state, begin_second, &overlap);
    pause_ok(overlap.store, "first");
    assert_int_equal(pthread_join(overlap.second, NULL), 0);
    disk_watch(*state, NULL, NULL);
    store_close(overlap.store);
    assert_int_equal(overlap.moments.count, 2);
    for (uint32_t i = 0; i < overlap.moments.count; i++) {
        for (uint32_t style = 0; style < DISK_STYLES; style++)
            expect_after_cut(overlap.moments.at[i], style, i > 0);
        disk_free(overlap.moments.at[i]);
    }
    disk_use(*state);
}

/* ---- heartbeats, which are not on the disk ---- */

enum { LEASE_MS = 1000, BEAT_AFTER_MS = 900, STEPS_DOWN = 8 };

/* A token whose lease was renewed, and the worker told of it, before the power was cut. */
static void complete_in_time(const struct disk *disk, uint32_t style, int64_t told_end,
                             const char *request)
{
    struct disk *after = cut_copy(disk, style);
    struct life life = {.done = STEPS_DOWN};
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    assert_int_equal(life_open(&life, &err), ERR_OK);
    assert_true(life.clock < told_end - 1);
    life.clock = told_end - 1;
    assert_int_equal(life_open_engine(&life, &err), ERR_OK);
    (void)ask(&life, VERB_complete, request, &arena);
    life_close(&life);
    arena_release(&arena);
    disk_free(after);
}

static void
a_lease_that_a_heartbeat_has_renewed_lasts_as_it_was_told_after_a_power_cut(void **state)
{
    struct life life = {0};
    struct arena arena;
    struct err err = {0};
    char request[256];
    arena_init(&arena);
    assert_int_equal(life_open(&life, &err), ERR_OK);
    (void)ask(&life, VERB_submit, "{\"kind\":\"k\",\"lease_ttl_ms\":1000}", &arena);
    struct str claim = ask(&life, VERB_claim, "{\"worker_id\":\"w\"}", &arena);
    struct pawl_json token =
        pawl_json_get((struct pawl_json){claim.at, claim.len}, "claims.0.lease.token");
    (void)snprintf(request, sizeof request, "{\"token\":%.*s}", (int)token.len, token.at);
    life.clock += BEAT_AFTER_MS;
    (void)ask(&life, VERB_heartbeat, request, &arena);
    int64_t told_end = life.clock + LEASE_MS;
    struct disk *moment = disk_copy(*state);
    life_close(&life);
    for (uint32_t style = 0; style < DISK_STYLES; style++)
        complete_in_time(moment, style, told_end, request);
    disk_free(moment);
    disk_use(*state);
    arena_release(&arena);
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
        ON_DISK(what_was_redacted_stays_so_after_a_power_cut),
        ON_DISK(a_redaction_that_a_power_cut_has_interrupted_can_be_asked_for_again),
        ON_DISK(a_power_cut_while_two_batches_wait_for_the_disk_loses_none_that_was_acknowledged),
        ON_DISK(a_lease_that_a_heartbeat_has_renewed_lasts_as_it_was_told_after_a_power_cut),
        ON_DISK(a_file_that_cannot_be_looked_at_for_once_is_not_taken_for_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
