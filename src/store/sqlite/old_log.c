#include "store/sqlite/old_log.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/evolve.h"
#include "core/job_state.h"
#include "core/retention.h"
#include "store/codec.h"

/* A record: magic, number, previous number, length of the body (8 bytes each, the low ones first),
 * a sum of these and the body, and the body, which begins with the id of its database. Records
 * before that have another magic, and another sum. */
#define MAGIC UINT64_C(0x32676f4c6c776150)
#define FORMER_MAGIC UINT64_C(0x31676f4c6c776150)

enum { FILES = 2, FIELDS_LEN = 32, SUM_LEN = 32, HEAD_LEN = FIELDS_LEN + SUM_LEN, WORDS = 4 };

static const char *const suffixes[FILES] = {"-ahead0", "-ahead1"};

struct record {
    int64_t number;
    int64_t previous; /* of the commit before it */
    struct str body;
};

struct records {
    struct record *at;
    uint32_t count;
    uint32_t cap;
};

/* ---- files ---- */

static enum error_code unreadable(const char *path, struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, "%.300s cannot be read: %s", path, strerror(errno));
}

/* All of a file; empty if missing. */
static enum error_code read_file(const char *path, struct arena *arena, struct str *ret,
                                 struct err *err)
{
    struct stat status;
    *ret = (struct str){"", 0};
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return errno == ENOENT ? ERR_OK : unreadable(path, err);
    enum error_code code = fstat(file, &status) == 0 ? ERR_OK : unreadable(path, err);
    size_t size = code == ERR_OK ? (size_t)status.st_size : 0;
    char *bytes = arena_alloc(arena, size + 1);
    if (code == ERR_OK && bytes == NULL)
        code = sqlite_no_memory(err);
    size_t len = 0;
    while (code == ERR_OK && len < size) {
        ssize_t got = read(file, bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            code = unreadable(path, err);
        else
            len += (size_t)got;
    }
    (void)close(file);
    if (code == ERR_OK)
        *ret = (struct str){bytes, len};
    return code;
}

static enum error_code write_file(const char *path, struct str bytes, struct err *err)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    size_t len = 0;
    while (file >= 0 && len < bytes.len) {
        ssize_t put = write(file, bytes.at + len, bytes.len - len);
        if (put < 0 && errno != EINTR)
            break;
        len += put > 0 ? (size_t)put : 0;
    }
    bool written = file >= 0 && len == bytes.len && fsync(file) == 0;
    int number = errno;
    if (file >= 0)
        (void)close(file);
    return written ? ERR_OK
                   : err_set(err, ERR_UNAVAILABLE, "%.300s cannot be written: %s", path,
                             strerror(number));
}

enum error_code old_log_copy(const struct owner *owner, const char *path, struct err *err)
{
    enum error_code code = ERR_OK;
    for (size_t i = 0; i < FILES && code == ERR_OK; i++) {
        char from[PATH_MAX + OWNER_SUFFIX_MAX];
        char to[PATH_MAX + 2 * OWNER_SUFFIX_MAX];
        struct arena arena;
        struct str bytes;
        arena_init(&arena);
        owner_path(owner, suffixes[i], from);
        (void)snprintf(to, sizeof to, "%s%s", path, suffixes[i]);
        code = read_file(from, &arena, &bytes, err);
        if (code == ERR_OK && bytes.len > 0)
            code = write_file(to, bytes, err);
        arena_release(&arena);
    }
    return code;
}

void old_log_delete(const struct owner *owner)
{
    for (size_t i = 0; i < FILES; i++) {
        char path[PATH_MAX + OWNER_SUFFIX_MAX];
        owner_path(owner, suffixes[i], path);
        (void)unlink(path);
    }
}

/* ---- records ---- */

static uint64_t get_number(const char *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return le64toh(number);
}

static uint64_t mix(uint64_t word, uint64_t next)
{
    word = (word ^ next) * UINT64_C(0x9e3779b97f4a7c15);
    return word ^ word >> 29;
}

static void sum_record(const char *fields, struct str body, uint64_t ret[WORDS])
{
    uint64_t words[WORDS];
    char last[SUM_LEN] = {0};
    for (size_t i = 0; i < WORDS; i++)
        words[i] = mix(i + 1, get_number(fields + 8 * i));
    for (; body.len >= SUM_LEN; body.len -= SUM_LEN, body.at += SUM_LEN)
        for (size_t i = 0; i < WORDS; i++)
            words[i] = mix(words[i], get_number(body.at + 8 * i));
    if (body.len > 0)
        memcpy(last, body.at, body.len);
    for (size_t i = 0; i < WORDS; i++)
        words[i] = mix(words[i], get_number(last + 8 * i));
    for (size_t i = 0; i < WORDS; i++)
        ret[i] = mix(words[i], words[(i + 1) % WORDS]);
}

/* The record at the start of `bytes`, of which it takes `ret_len`; 0: none with a higher
 * number. */
static void read_record(struct str bytes, int64_t after, struct record *ret, size_t *ret_len)
{
    uint64_t sum[WORDS];
    *ret_len = 0;
    if (bytes.len < HEAD_LEN || get_number(bytes.at) != MAGIC)
        return;
    uint64_t len = get_number(bytes.at + 24);
    *ret = (struct record){
        .number = (int64_t)get_number(bytes.at + 8),
        .previous = (int64_t)get_number(bytes.at + 16),
        .body = {bytes.at + HEAD_LEN, len},
    };
    if (len > bytes.len - HEAD_LEN || ret->number <= after)
        return;
    sum_record(bytes.at, ret->body, sum);
    bool whole = true;
    for (size_t i = 0; i < WORDS; i++)
        whole = whole && sum[i] == get_number(bytes.at + FIELDS_LEN + 8 * i);
    if (whole)
        *ret_len = HEAD_LEN + len;
}

/* A record that was cut is the last: it was not acknowledged. One behind it means damage. */
static enum error_code check_rest(struct str rest, int64_t after, struct err *err)
{
    uint64_t magic = htole64(MAGIC);
    for (size_t i = 0; i + HEAD_LEN <= rest.len; i++) {
        struct record record;
        size_t len = 0;
        if (memcmp(rest.at + i, &magic, sizeof magic) == 0)
            read_record((struct str){rest.at + i, rest.len - i}, after, &record, &len);
        if (len > 0)
            return err_set(err, ERR_CORRUPT,
                           "the log next to it (-ahead0, -ahead1) is damaged after commit %lld: "
                           "later commits cannot be read. Keep a copy of the log and the database; "
                           "without the log the store opens in the state of that commit",
                           (long long)after);
    }
    return ERR_OK;
}

static enum error_code read_records(struct str bytes, int64_t done, struct arena *arena,
                                    struct records *records, struct err *err)
{
    int64_t last = 0;
    size_t len = 1;
    if (bytes.len >= HEAD_LEN && get_number(bytes.at) == FORMER_MAGIC)
        return err_set(err, ERR_UNAVAILABLE,
                       "the log next to it (-ahead0, -ahead1) was written by a version before "
                       "0.1.0 that did not shut down cleanly: start and stop that version once");
    while (len > 0) {
        struct record record;
        read_record(bytes, last, &record, &len);
        if (len == 0)
            break;
        if (!sqlite_more(arena, (void **)&records->at, records->count, &records->cap,
                         sizeof *records->at))
            return sqlite_no_memory(err);
        records->at[records->count++] = record;
        last = record.number;
        bytes = (struct str){bytes.at + len, bytes.len - len};
    }
    return check_rest(bytes, last > done ? last : done, err);
}

static int by_number(const void *a, const void *b)
{
    const struct record *left = a;
    const struct record *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

/* ---- what a record says ---- */

struct logged_job {
    struct uuid id;
    bool created;
    uint8_t salt[SALT_LEN];
    struct event *events;
    uint32_t event_count;
};

static enum error_code damaged(struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "a record of the log next to it (-ahead0, -ahead1) cannot be read");
}

/* How many of something follow. */
static uint32_t read_count(struct reader *reader)
{
    int64_t count = read_int(reader);
    if (count < 0 || count > reader->end - reader->at)
        reader->bad = true;
    return reader->bad ? 0 : (uint32_t)count;
}

static void read_event(struct reader *reader, struct uuid job, struct event *ret)
{
    *ret = (struct event){.job_id = job, .version = read_int(reader), .at = read_int(reader)};
    ret->type_name = read_text(reader);
    ret->actor = read_text(reader);
    ret->cause_text = read_text(reader);
    ret->correlation_id = read_text(reader);
    ret->payload = read_text(reader);
    read_bytes(reader, ret->digest, HASH_LEN);
    read_bytes(reader, ret->hash, HASH_LEN);
    ret->type = event_type_parse(ret->type_name);
    if (str_eq(ret->type_name, event_type_name(ret->type)))
        ret->type_name = (struct str){NULL, 0};
}

static enum error_code read_job(struct reader *reader, struct arena *arena, struct logged_job *ret,
                                struct err *err)
{
    *ret = (struct logged_job){0};
    read_bytes(reader, ret->id.bytes, sizeof ret->id.bytes);
    ret->created = read_int(reader) != 0;
    if (ret->created)
        read_bytes(reader, ret->salt, sizeof ret->salt);
    ret->event_count = read_count(reader);
    ret->events = arena_zalloc(arena, (size_t)ret->event_count + 1, sizeof *ret->events);
    if (ret->events == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < ret->event_count; i++)
        read_event(reader, ret->id, &ret->events[i]);
    return reader->bad ? damaged(err) : ERR_OK;
}

/* ---- applying it ---- */

/* The job as the tables have it, with the events folded in. The log had jobs without plans, and of
 * their parts effects alone. */
static enum error_code fold_job(struct sqlite_txn *txn, const struct logged_job *logged,
                                struct arena *arena, struct job_slice *before,
                                struct job_slice *after, struct err *err)
{
    struct store_parts parts = {.job = logged->id, .all_effects = true};
    enum error_code code = sqlite_read_job(txn, logged->id, arena, before, err);
    if (code == ERR_OK && !logged->created)
        code = sqlite_load_parts(&txn->base, &parts, 1, arena, err);
    before->effects = parts.effects;
    before->effect_count = before->effect_cap = parts.effect_count;
    if (code == ERR_OK)
        code = job_slice_copy(before, arena, after);
    if (code == ERR_OK && logged->created)
        memcpy(after->job.salt, logged->salt, SALT_LEN);
    for (uint32_t i = 0; i < logged->event_count && code == ERR_OK; i++) {
        code = event_open(&logged->events[i], txn->store->base.options.seed, arena, err);
        if (code == ERR_OK)
            code = job_evolve(after, &logged->events[i], arena, err);
    }
    if (code == ERR_OK && logged->event_count > 0)
        memcpy(after->job.head, logged->events[logged->event_count - 1].hash, HASH_LEN);
    return code;
}

static enum error_code write_of(struct sqlite_txn *txn, const struct store_load *settings,
                                const struct logged_job *logged, struct arena *arena,
                                struct store_job_write *ret, struct err *err)
{
    struct job_slice *slices = arena_zalloc(arena, 2, sizeof *slices);
    const struct kind_settings *kind = NULL;
    if (slices == NULL)
        return sqlite_no_memory(err);
    struct job_slice *after = &slices[1];
    enum error_code code = fold_job(txn, logged, arena, &slices[0], after, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < settings->kind_count; i++)
        if (str_eq(settings->kinds[i].kind, after->job.spec.kind))
            kind = &settings->kinds[i].settings;
    const struct effect **effects =
        arena_zalloc(arena, after->effect_count + (size_t)1, sizeof(void *));
    if (effects == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < after->effect_count; i++)
        effects[i] = &after->effects[i];
    *ret = (struct store_job_write){
        .after = after,
        .events = logged->events,
        .event_count = logged->event_count,
        .created = logged->created,
        .changed = CHANGED_ALL,
        .purge_at = job_purge_at(&after->job, kind),
        .effects = effects,
        .effect_count = after->effect_count,
    };
    if (!logged->created)
        code = schedule_entry_of_job(&slices[0].job, arena, &ret->was, err);
    return code == ERR_OK ? schedule_entry_of_job(&after->job, arena, &ret->now, err) : code;
}

static enum error_code apply_record(struct sqlite_txn *txn, struct str body, struct arena *arena,
                                    struct err *err)
{
    struct reader reader = reader_of(body);
    struct store_load settings = {0};
    txn->now = read_int(&reader);
    (void)read_int(&reader); /* where its events stood in the feed, which nobody has read yet */
    struct store_write write = {.job_count = read_count(&reader)};
    struct store_job_write *jobs = arena_zalloc(arena, (size_t)write.job_count + 1, sizeof *jobs);
    if (jobs == NULL)
        return sqlite_no_memory(err);
    enum error_code code = sqlite_load(&txn->base, &settings, arena, err);
    for (uint32_t i = 0; i < write.job_count && code == ERR_OK; i++) {
        struct logged_job logged;
        code = read_job(&reader, arena, &logged, err);
        if (code == ERR_OK)
            code = write_of(txn, &settings, &logged, arena, &jobs[i], err);
    }
    if (code != ERR_OK)
        return code;
    write.jobs = jobs;
    write.request_count = read_count(&reader);
    struct request_record *requests =
        arena_zalloc(arena, (size_t)write.request_count + 1, sizeof *requests);
    if (requests == NULL)
        return sqlite_no_memory(err);
    for (uint32_t i = 0; i < write.request_count; i++) {
        requests[i].scope = read_text(&reader);
        requests[i].key = read_text(&reader);
        requests[i].at = read_int(&reader);
        read_bytes(&reader, requests[i].body_hash, sizeof requests[i].body_hash);
        requests[i].answer = read_text(&reader);
    }
    write.requests = requests;
    return reader.bad ? damaged(err) : sqlite_write(&txn->base, &write, err);
}

/* One record is one batch. */
static enum error_code apply_one(struct sqlite_store *store, struct str body, struct err *err)
{
    struct arena arena;
    struct sqlite_txn txn = {
        .base = {.store = &store->base, .mode = STORE_WRITE},
        .store = store,
        .connection = &store->writer,
        .feed_end = store->feed_end,
        .last_no = store->last_no,
    };
    arena_init(&arena);
    arena_init(&txn.scratch);
    arena_init(&txn.notes);
    enum error_code code = apply_record(&txn, body, &arena, err);
    sqlite_counts_end(&txn, code == ERR_OK);
    store->feed_end = txn.feed_end;
    store->last_no = txn.last_no;
    arena_release(&arena);
    arena_release(&txn.scratch);
    arena_release(&txn.notes);
    return code;
}

static enum error_code apply_all(struct sqlite_store *store, const struct records *records,
                                 int64_t number, const uint8_t id[16], struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < records->count && code == ERR_OK; i++) {
        struct record record = records->at[i];
        if (record.body.len < 16 || memcmp(record.body.at, id, 16) != 0)
            return err_set(err, ERR_UNAVAILABLE,
                           "the log next to it (-ahead0, -ahead1) belongs to another database. "
                           "Restore the right database, or move the log away");
        if (record.number <= number)
            continue;
        if (record.previous != number)
            return err_set(
                err, ERR_UNAVAILABLE,
                "the log next to it (-ahead0, -ahead1) starts after commit %lld, but the database "
                "ends with %lld. Restore the right database, or move the log away",
                (long long)record.previous, (long long)number);
        number = record.number;
        code = apply_one(store, (struct str){record.body.at + 16, record.body.len - 16}, err);
    }
    return code;
}

/* How far the tables have come, and the id of the database. */
static enum error_code read_mark(struct sqlite_store *store, int64_t *ret_number,
                                 uint8_t ret_id[16], struct err *err)
{
    sqlite3_stmt *statement = NULL;
    int result =
        sqlite3_prepare_v2(store->writer.db, "SELECT number, id FROM ahead", -1, &statement, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_step(statement);
    bool found = result == SQLITE_ROW && sqlite3_column_bytes(statement, 1) == 16;
    if (found) {
        *ret_number = sqlite3_column_int64(statement, 0);
        memcpy(ret_id, sqlite3_column_blob(statement, 1), 16);
    }
    (void)sqlite3_finalize(statement);
    return found ? ERR_OK
                 : lite_fail(&store->writer, result == SQLITE_ROW ? SQLITE_CORRUPT : result,
                             "read the last commit of the database", err);
}

enum error_code old_log_apply(struct sqlite_store *store, struct err *err)
{
    struct arena arena;
    struct records records = {0};
    uint8_t id[16];
    int64_t number = 0;
    arena_init(&arena);
    enum error_code code = read_mark(store, &number, id, err);
    for (size_t i = 0; i < FILES && code == ERR_OK; i++) {
        char path[PATH_MAX + OWNER_SUFFIX_MAX];
        struct str bytes;
        owner_path(&store->owner, suffixes[i], path);
        code = read_file(path, &arena, &bytes, err);
        if (code == ERR_OK)
            code = read_records(bytes, number, &arena, &records, err);
    }
    if (records.count > 1)
        qsort(records.at, records.count, sizeof *records.at, by_number);
    if (code == ERR_OK && records.count > 0)
        code = sqlite_ends_read(store, err);
    if (code == ERR_OK && records.count > 0)
        code = sqlite_lanes_read(store, err);
    if (code == ERR_OK && records.count > 0)
        code = sqlite_counts_read(store, err);
    if (code == ERR_OK)
        code = apply_all(store, &records, number, id, err);
    arena_release(&arena);
    return code == ERR_OK
               ? lite_run_sql(&store->writer, STR("DROP TABLE ahead"), "migrate the log", err)
               : code;
}
