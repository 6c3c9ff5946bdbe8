#include "store/sqlite/journal.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/planted.h"

/* The head of a record: magic, number, previous, length of the body (8 bytes each, the low ones
 * first), and a sum of these and the body. */
#define MAGIC UINT64_C(0x32676f4c6c776150)
#define FORMER_MAGIC UINT64_C(0x31676f4c6c776150) /* of records with another sum */

enum {
    FIELDS_LEN = 32,
    SUM_LEN = JOURNAL_HEAD_LEN - FIELDS_LEN,
    LANES = SUM_LEN / 8,
    GROW_BYTES = 1024 * 1024,
    BODY_BYTES_MAX = 1024 * 1024 * 1024,
};

static const char *const suffixes[JOURNAL_FILES] = {"-ahead0", "-ahead1"};

/* ---- opening ---- */

static enum error_code open_one(struct journal_file *file, const char *path, struct err *err)
{
    struct stat status;
    file->descriptor = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file->descriptor < 0 && errno == ENOENT) {
        file->descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        file->made = file->descriptor >= 0;
    }
    if (file->descriptor < 0 || fstat(file->descriptor, &status) != 0)
        return err_set(err, ERR_UNAVAILABLE, "%.300s cannot be opened: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return err_set(err, ERR_UNAVAILABLE, "%.300s is not a file", path);
    file->size = (size_t)status.st_size;
    return ERR_OK;
}

enum error_code journal_open(struct journal *journal, const struct owner *owner, struct err *err)
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    enum error_code code = ERR_OK;
    *journal = (struct journal){.files = {{.descriptor = -1}, {.descriptor = -1}}};
    for (uint32_t i = 0; i < JOURNAL_FILES && code == ERR_OK; i++) {
        owner_path(owner, suffixes[i], path);
        code = open_one(&journal->files[i], path, err);
    }
    if (code == ERR_OK && (journal->files[0].made || journal->files[1].made) &&
        !owner_sync_directory(path))
        code = err_set(err, ERR_UNAVAILABLE, "the directory of %.300s cannot be synced: %s", path,
                       strerror(errno));
    if (code != ERR_OK)
        journal_close(journal, owner, false);
    return code;
}

void journal_close(struct journal *journal, const struct owner *owner, bool empty)
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    for (uint32_t i = 0; i < JOURNAL_FILES; i++) {
        if (journal->files[i].descriptor < 0)
            continue;
        (void)close(journal->files[i].descriptor);
        journal->files[i].descriptor = -1;
        if (owner == NULL || (!empty && !(journal->files[i].made && journal->files[i].end == 0)))
            continue;
        owner_path(owner, suffixes[i], path);
        (void)unlink(path);
    }
}

/* ---- records ---- */

static void put_number(uint8_t *at, uint64_t number)
{
    number = htole64(number);
    memcpy(at, &number, sizeof number);
}

static uint64_t get_number(const uint8_t *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return le64toh(number);
}

/* Takes a word into a lane, so that another word would leave it otherwise. */
static uint64_t mix(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return lane ^ lane >> 29;
}

/* Tells a record from one that was cut or damaged, at the speed of memory: four lanes of words that
 * do not wait for each other. It is no hash against people, who could as well write a record. */
static void sum_record(const uint8_t *fields, struct str body, uint8_t ret[SUM_LEN])
{
    uint64_t lanes[LANES];
    uint8_t last[SUM_LEN] = {0};
    const uint8_t *at = (const uint8_t *)body.at;
    size_t rest = body.len;
    for (size_t i = 0; i < LANES; i++)
        lanes[i] = mix(i + 1, get_number(fields + 8 * i));
    for (; rest >= SUM_LEN; rest -= SUM_LEN, at += SUM_LEN)
        for (size_t i = 0; i < LANES; i++)
            lanes[i] = mix(lanes[i], get_number(at + 8 * i));
    if (rest > 0)
        memcpy(last, at, rest);
    for (size_t i = 0; i < LANES; i++)
        lanes[i] = mix(lanes[i], get_number(last + 8 * i));
    for (size_t i = 0; i < LANES; i++)
        put_number(ret + 8 * i, mix(lanes[i], lanes[(i + 1) % LANES]));
}

void journal_begin(struct buf *body)
{
    static const char head[JOURNAL_HEAD_LEN];
    assert(body->len == 0);
    buf_add(body, (struct str){head, sizeof head});
}

/* All of it, or errno. */
static bool write_all(int descriptor, const char *at, size_t len, size_t offset)
{
    while (len > 0) {
        ssize_t done = pwrite(descriptor, at, len, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        len -= (size_t)done;
        offset += (size_t)done;
    }
    return true;
}

/* Blocks for what comes next, so that records need no new ones. Without them it works too. */
static void grow(struct journal_file *file, size_t end)
{
    static const char zeros[64 * 1024];
    size_t wanted = (end / GROW_BYTES + 1) * GROW_BYTES;
    while (file->size < wanted) {
        size_t len = wanted - file->size < sizeof zeros ? wanted - file->size : sizeof zeros;
        if (!write_all(file->descriptor, zeros, len, file->size))
            return;
        file->size += len;
    }
}

static _Noreturn void end_process(void)
{
    (void)fprintf(stderr,
                  "pawl: the disk failed (%s) while a commit was synced; what is on it is "
                  "not known, so this process ends\n",
                  strerror(errno));
    abort();
}

enum error_code journal_append(struct journal *journal, int64_t number, int64_t previous,
                               struct buf *body, struct err *err)
{
    struct journal_file *file = &journal->files[journal->current];
    if (body->failed)
        return err_set(err, ERR_NO_MEMORY, "there is not enough memory for the transaction");
    assert(body->len >= JOURNAL_HEAD_LEN && number > previous);
    uint8_t *head = (uint8_t *)body->at;
    struct str rest = {body->at + JOURNAL_HEAD_LEN, body->len - JOURNAL_HEAD_LEN};
    put_number(head, MAGIC);
    put_number(head + 8, (uint64_t)number);
    put_number(head + 16, (uint64_t)previous);
    put_number(head + 24, rest.len);
    sum_record(head, rest, head + FIELDS_LEN);

    if (rest.len > BODY_BYTES_MAX) /* recovery would take it for no record */
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "a commit of %zu MiB is too large",
                       rest.len / (1024 * 1024));
    size_t end = file->end + body->len;
    if (end > file->size)
        grow(file, end);
    if (!PLANTED(SQLITE_COMMIT_NOT_WRITTEN) &&
        !write_all(file->descriptor, body->at, body->len, file->end))
        return err_set(err, ERR_UNAVAILABLE, "the log cannot be written: %s", strerror(errno));
    if (fdatasync(file->descriptor) != 0 && !PLANTED(SQLITE_SYNC_FAILURE_IGNORED))
        end_process();
    file->end = end;
    if (file->size < end)
        file->size = end;
    return ERR_OK;
}

bool journal_is_long(const struct journal *journal, size_t bytes)
{
    return journal->files[journal->current].end >= bytes;
}

void journal_turn(struct journal *journal)
{
    journal->current = (journal->current + 1) % JOURNAL_FILES;
    journal->files[journal->current].end = 0;
}

void journal_erase(struct journal *journal)
{
    for (uint32_t i = 0; i < JOURNAL_FILES; i++) {
        struct journal_file *file = &journal->files[i];
        if (file->size > 0 && (ftruncate(file->descriptor, 0) != 0 ||
                               (!PLANTED(SQLITE_FRONT_STAYS) && fdatasync(file->descriptor) != 0)))
            end_process();
        file->end = file->size = 0;
    }
}

/* ---- recovery ---- */

static bool read_all(int descriptor, char *at, size_t len, size_t offset)
{
    while (len > 0) {
        ssize_t done = pread(descriptor, at, len, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        len -= (size_t)done;
        offset += (size_t)done;
    }
    return true;
}

static enum error_code unreadable(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "the log cannot be read: %s", strerror(errno));
}

/* The record at `at`; `ret_len` is 0 when there is none. */
static enum error_code read_one(const struct journal_file *file, size_t at, int64_t after,
                                struct arena *arena, struct journal_record *ret, size_t *ret_len,
                                struct err *err)
{
    uint8_t head[JOURNAL_HEAD_LEN];
    uint8_t sum[SUM_LEN];
    *ret_len = 0;
    if (file->size - at < sizeof head)
        return ERR_OK;
    if (!read_all(file->descriptor, (char *)head, sizeof head, at))
        return unreadable(err);
    if (get_number(head) == FORMER_MAGIC)
        return err_set(
            err, ERR_UNAVAILABLE,
            "the log beside it (-ahead0, -ahead1) is that of an earlier version of Pawl, "
            "which did not end by itself: put the copy from before the migration "
            "(.v3.bak) in its place, and start and end that version once");
    uint64_t len = get_number(head + 24);
    int64_t number = (int64_t)get_number(head + 8);
    if (get_number(head) != MAGIC || len > BODY_BYTES_MAX || len > file->size - at - sizeof head ||
        number <= after)
        return ERR_OK;
    char *body = arena_alloc(arena, (size_t)len);
    if (body == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is no memory to read the log");
    if (!read_all(file->descriptor, body, (size_t)len, at + sizeof head))
        return unreadable(err);
    *ret = (struct journal_record){
        .number = number,
        .previous = (int64_t)get_number(head + 16),
        .body = {body, (size_t)len},
    };
    sum_record(head, ret->body, sum);
    if (PLANTED(SQLITE_DAMAGE_NOT_SEEN) || memcmp(sum, head + FIELDS_LEN, SUM_LEN) == 0)
        *ret_len = sizeof head + (size_t)len;
    return ERR_OK;
}

/* Whether a record with a higher number comes behind the end: then what is between them is damaged,
 * since no record is written before the one in front of it is on the disk. */
static enum error_code look_behind(const struct journal_file *file, int64_t after,
                                   struct arena *arena, struct err *err)
{
    uint8_t wanted[8];
    struct journal_record record;
    size_t len = file->size - file->end;
    char *rest = arena_alloc(arena, len);
    enum error_code code = ERR_OK;
    if (rest == NULL)
        return err_set(err, ERR_NO_MEMORY, "there is no memory to read the log");
    if (!read_all(file->descriptor, rest, len, file->end))
        return unreadable(err);
    put_number(wanted, MAGIC);
    size_t found = 0;
    for (size_t i = 0; i + sizeof wanted <= len && code == ERR_OK && found == 0; i++)
        if (memcmp(rest + i, wanted, sizeof wanted) == 0)
            code = read_one(file, file->end + i, after, arena, &record, &found, err);
    if (code == ERR_OK && found > 0)
        code = err_set(err, ERR_CORRUPT,
                       "the log beside it (-ahead0, -ahead1) is damaged behind commit %lld: there "
                       "are commits behind what cannot be read. Keep a copy of it and of the "
                       "database; without the log the store opens as of then",
                       (long long)after);
    return code;
}

static int by_number(const void *a, const void *b)
{
    const struct journal_record *left = a;
    const struct journal_record *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

enum error_code journal_read(struct journal *journal, int64_t done, struct arena *arena,
                             struct journal_record **ret, uint32_t *ret_count, struct err *err)
{
    struct journal_record *records = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    for (uint32_t i = 0; i < JOURNAL_FILES; i++) {
        struct journal_file *file = &journal->files[i];
        struct journal_record record;
        size_t len;
        int64_t last = 0;
        enum error_code code;
        file->end = 0;
        while ((code = read_one(file, file->end, last, arena, &record, &len, err)) == ERR_OK &&
               len > 0) {
            if (count == cap) {
                uint32_t larger = cap < 64 ? 64 : cap * 2;
                records =
                    arena_grow(arena, records, cap * sizeof *records, larger * sizeof *records);
                cap = larger;
            }
            if (records == NULL)
                return err_set(err, ERR_NO_MEMORY, "there is no memory to read the log");
            records[count++] = record;
            last = record.number;
            file->end += len;
        }
        if (code == ERR_OK)
            code = look_behind(file, last > done ? last : done, arena, err);
        if (code != ERR_OK)
            return code;
    }
    if (count > 1)
        qsort(records, count, sizeof *records, by_number);
    *ret = records;
    *ret_count = count;
    return ERR_OK;
}
