/* Verbs on the store as a whole: backup, doctor. */
#include <assert.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "engine/answer.h"
#include "engine/backup_place.h"
#include "engine/mend.h"
#include "engine/verb.h"
#include "pawl.h"
#include "store/store_driver.h"

enum {
    PATH_BYTES_MAX = 4096,
    SKEW_MS_MAX = 2000,         /* between this machine's clock and the store's */
    OVERDUE_MS_MAX = 60 * 1000, /* what the engine has not seen to by then, it will not */
    SLOW_MS = 1000,             /* a store that takes so long to answer is in trouble */
    FILES_MIN = 256,
    LANES_WARN = STORE_LANES_MAX / 10 * 8,
    DISK_MIB_MIN = 256,
    MIB = 1024 * 1024,
};

/* ---- backup ------------------------------------------------------------------------------- */

struct backup_request {
    struct str path;
};

static const struct record_field backup_fields[] = {
    RECORD_FIELD_RANGE(struct backup_request, path, "path", TEXT, 0, PATH_BYTES_MAX),
};
static const struct record_type backup_record = {backup_fields, 1};

struct backup {
    struct str path;
    int64_t bytes;
};

static enum error_code run_backup(struct verb_call *call, struct err *err)
{
    struct backup_request request = {0};
    struct backup *backup = verb_data(call, sizeof *backup);
    if (backup == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &backup_record, &request, err);
    if (code == ERR_OK && request.path.len == 0)
        code = err_set(err, ERR_BAD_REQUEST, "path is required: the file of the backup");
    if (code == ERR_OK && memchr(request.path.at, '\0', request.path.len) != NULL)
        code = err_set(err, ERR_BAD_REQUEST, "path contains a NUL byte");
    struct store *store = engine_store(call->engine);
    struct str directory = engine_backup_dir(call->engine);
    if (code == ERR_OK && !call->own && str_is_set(directory))
        code = backup_place(directory, request.path, call->arena, &request.path, err);
    if (code == ERR_OK)
        code = store_backup(store, request.path, &backup->bytes, err);
    backup->path = request.path;
    return code;
}

static void write_backup(const struct verb_call *call, struct json_writer *writer)
{
    const struct backup *backup = call->result.data;
    json_begin_object(writer);
    answer_text(writer, STR("path"), backup->path);
    answer_int(writer, STR("bytes"), backup->bytes);
    json_end_object(writer);
}

const struct verb verb_backup = {
    .request = &backup_record, .run = run_backup, .write = write_backup};

/* ---- doctor ------------------------------------------------------------------------------- */

enum { CHECKS_MAX = 16 };

struct check {
    struct str name;
    bool ok;
    struct str detail;
};

/* The examination, and what has come of it. */
struct doctor {
    struct verb_call *call;
    struct store *store;
    struct check checks[CHECKS_MAX];
    uint32_t count;
    struct buf line;
    uint64_t mended; /* pieces of work that were in lanes which do not exist */
    enum error_code mend_code;
    struct err mend_err;
    bool ok;
    bool failed; /* memory ran out */
};

static struct buf *line(struct doctor *doctor)
{
    buf_init(&doctor->line, doctor->call->arena, 256);
    return &doctor->line;
}

/* Ends a check; its detail is in the line. */
static void check(struct doctor *doctor, struct str name, bool ok)
{
    assert(doctor->count < CHECKS_MAX);
    doctor->checks[doctor->count++] = (struct check){name, ok, buf_str(&doctor->line)};
    doctor->failed = doctor->failed || doctor->line.failed;
    doctor->ok = doctor->ok && ok;
}

static void check_versions(struct doctor *doctor)
{
    int pq = PQlibVersion();
    buf_addf(line(doctor), "Pawl %s, SQLite %s, libpq %d.%d.", pawl_version(), sqlite3_libversion(),
             pq / 10000, pq % 10000);
    check(doctor, STR("versions"), true);
}

static void check_schema(struct doctor *doctor)
{
    const struct store *store = doctor->store;
    if (store->schema_version == 0)
        buf_addf(line(doctor), "A %s store has no schema.", store->driver->name);
    else
        buf_addf(line(doctor), "The schema has version %lld.", (long long)store->schema_version);
    check(doctor, STR("schema"), true);
}

static void check_clock(struct doctor *doctor, int64_t store_now)
{
    int64_t skew = store_now - clock_wall_ms();
    struct buf *buf = line(doctor);
    if (doctor->store->options.clock != NULL) {
        buf_add(buf, STR("The store uses a custom clock."));
        check(doctor, STR("clock"), true);
        return;
    }
    bool ok = skew >= -SKEW_MS_MAX && skew <= SKEW_MS_MAX;
    buf_addf(buf, "The store's clock is %lld ms %s this machine's.",
             (long long)(skew < 0 ? -skew : skew), skew < 0 ? "behind" : "ahead of");
    if (!ok)
        buf_add(buf,
                STR(" Leases and delays use the store's clock: synchronize both clocks with NTP."));
    check(doctor, STR("clock"), ok);
}

static void check_lanes(struct doctor *doctor, struct store_txn *txn)
{
    struct store_lane *lanes = NULL;
    uint32_t count = 0;
    struct err err = {0};
    struct buf *buf = line(doctor);
    enum error_code code = store_lanes(txn, 0, doctor->call->arena, &lanes, &count, &err);
    if (code != ERR_OK) {
        buf_addf(buf, "The lanes cannot be read: %s", err.detail);
        check(doctor, STR("lanes"), false);
        return;
    }
    buf_addf(buf,
             "%u of %d lanes are in use: one for each combination of queue, kind and requirements.",
             count, STORE_LANES_MAX);
    if (count >= LANES_WARN)
        buf_add(buf, STR(" Use fewer names for queues, kinds and capabilities."));
    if (doctor->mend_code != ERR_OK)
        buf_addf(buf, " Jobs in lanes that do not exist cannot be repaired: %s",
                 doctor->mend_err.detail);
    else if (doctor->mended > 0)
        buf_addf(buf,
                 " %llu jobs or steps were in lanes that do not exist, where no claim finds them; "
                 "they were repaired.",
                 (unsigned long long)doctor->mended);
    check(doctor, STR("lanes"), count < LANES_WARN && doctor->mend_code == ERR_OK);
}

/* Whether the store answers, and what can only be asked of one that does. */
static void check_store(struct doctor *doctor)
{
    struct store_txn *txn;
    struct store_load load = {0};
    struct err err = {0};
    int64_t began = engine_steady(doctor->call->engine);
    enum error_code code = store_begin(doctor->store, STORE_READ, &txn, &err);
    if (code == ERR_OK) {
        code = store_load(txn, &load, doctor->call->arena, &err);
        if (code != ERR_OK)
            store_rollback(txn);
    }
    if (code != ERR_OK) {
        buf_addf(line(doctor), "The %s store does not respond: %s", doctor->store->driver->name,
                 err.detail);
        check(doctor, STR("store"), false);
        return;
    }
    int64_t took = engine_steady(doctor->call->engine) - began;
    buf_addf(line(doctor), "The %s store responded in %lld ms.", doctor->store->driver->name,
             (long long)took);
    check(doctor, STR("store"), took < SLOW_MS);
    check_clock(doctor, load.now);
    check_lanes(doctor, txn);
    store_rollback(txn);
}

/* Whether somebody sees to what is due. */
static void check_timers(struct doctor *doctor)
{
    struct store_due *due = NULL;
    uint32_t count = 0;
    int64_t now = 0;
    int64_t next = 0;
    int64_t overdue = 0;
    struct err err = {0};
    struct buf *buf = line(doctor);
    enum error_code code =
        store_due(doctor->store, 1, doctor->call->arena, &due, &count, &now, &next, &err);
    if (code != ERR_OK) {
        buf_addf(buf, "Timers cannot be read: %s", err.detail);
        check(doctor, STR("timers"), false);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (now - due[i].at > overdue)
            overdue = now - due[i].at;
    if (overdue < OVERDUE_MS_MAX)
        buf_add(buf, STR("No overdue timers."));
    else
        buf_addf(buf,
                 "A timer is overdue by %lld s: is a process that serves this store still running?",
                 (long long)(overdue / 1000));
    check(doctor, STR("timers"), overdue < OVERDUE_MS_MAX);
}

/* Whether the engine takes work: a command on a job that cannot be there goes all the way, and
 * changes nothing. */
static void check_engine(struct doctor *doctor)
{
    struct op op = {
        .type = OP_COMMAND,
        .command = {.type = COMMAND_CANCEL, .actor = doctor->call->actor},
    };
    struct op *ops[] = {&op};
    struct call batch = {.ops = ops, .count = 1, .class = CALL_RESULT};
    struct err err = {0};
    struct buf *buf = line(doctor);
    int64_t began = engine_steady(doctor->call->engine);
    enum error_code code = engine_run(doctor->call->engine, &batch, &err);
    int64_t took = engine_steady(doctor->call->engine) - began;
    if (code == ERR_OK) {
        code = op.code;
        err = op.err;
        call_release(&batch);
    }
    if (code == ERR_NOT_FOUND)
        buf_addf(buf, "The engine responded in %lld ms.", (long long)took);
    else
        buf_addf(buf, "The engine does not accept requests: %s", err.detail);
    check(doctor, STR("engine"), code == ERR_NOT_FOUND && took < SLOW_MS);
}

/* The directory that a file is in, as a string of its own. */
static const char *directory_of(struct arena *arena, struct str path)
{
    size_t end = path.len;
    while (end > 0 && path.at[end - 1] != '/')
        end--;
    struct str directory = end == 0 ? STR(".") : (struct str){path.at, end};
    char *text = arena_alloc(arena, directory.len + 1);
    if (text == NULL)
        return NULL;
    memcpy(text, directory.at, directory.len);
    text[directory.len] = '\0';
    return text;
}

static void check_disk(struct doctor *doctor)
{
    static const struct str scheme = STR_INIT("sqlite:");
    struct str url = engine_url(doctor->call->engine);
    struct buf *buf = line(doctor);
    struct statvfs disk;
    if (url.len <= scheme.len || memcmp(url.at, scheme.at, scheme.len) != 0)
        return; /* it is in no file of this machine */
    const char *directory =
        directory_of(doctor->call->arena, (struct str){url.at + scheme.len, url.len - scheme.len});
    if (directory == NULL || statvfs(directory, &disk) != 0) {
        buf_add(buf, STR("The disk of the store cannot be checked."));
        check(doctor, STR("disk"), false);
        return;
    }
    uint64_t free_mib = (uint64_t)disk.f_bavail * disk.f_frsize / MIB;
    buf_addf(buf, "%llu MiB are free where the store is.", (unsigned long long)free_mib);
    if (free_mib < DISK_MIB_MIN)
        buf_add(buf, STR(" Free some space: a full disk stops all jobs."));
    check(doctor, STR("disk"), free_mib >= DISK_MIB_MIN);
}

static void check_files(struct doctor *doctor)
{
    struct rlimit limit;
    struct buf *buf = line(doctor);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        buf_add(buf, STR("This process may open any number of files."));
    else
        buf_addf(buf, "This process may open %llu files.", (unsigned long long)limit.rlim_cur);
    bool ok = limit.rlim_cur >= FILES_MIN;
    if (!ok)
        buf_add(buf, STR(" Raise the limit with ulimit -n: every connection needs one."));
    check(doctor, STR("files"), ok);
}

static enum error_code run_doctor(struct verb_call *call, struct err *err)
{
    static const struct record_type nothing = {NULL, 0};
    struct doctor *doctor = verb_data(call, sizeof *doctor);
    char none;
    if (doctor == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &nothing, &none, err);
    if (code != ERR_OK)
        return code;
    *doctor = (struct doctor){.call = call, .store = engine_store(call->engine), .ok = true};
    doctor->mend_code = mend_lanes(doctor->store, call->arena, &doctor->mended, &doctor->mend_err);
    check_store(doctor);
    check_schema(doctor);
    check_timers(doctor); /* before the engine has a turn */
    check_engine(doctor);
    check_disk(doctor);
    check_files(doctor);
    check_versions(doctor);
    return doctor->failed ? verb_no_memory(err) : ERR_OK;
}

static void write_doctor(const struct verb_call *call, struct json_writer *writer)
{
    const struct doctor *doctor = call->result.data;
    json_begin_object(writer);
    answer_bool(writer, STR("ok"), doctor->ok);
    json_key(writer, STR("checks"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < doctor->count; i++) {
        const struct check *done = &doctor->checks[i];
        json_begin_object(writer);
        answer_text(writer, STR("name"), done->name);
        answer_bool(writer, STR("ok"), done->ok);
        answer_text(writer, STR("detail"), done->detail);
        json_end_object(writer);
    }
    json_end_array(writer);
    json_end_object(writer);
}

const struct verb verb_doctor = {.run = run_doctor, .write = write_doctor};
