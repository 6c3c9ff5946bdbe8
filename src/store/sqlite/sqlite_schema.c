#include "store/sqlite/sqlite_schema.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/backup.h"
#include "store/sqlite/old_log.h"

/* ---- versions ---- */

/* The newest row says what the schema is. */
static enum error_code read_versions(struct connection *writer, int64_t *ret_version,
                                     int64_t *ret_usable_from, struct err *err)
{
    int64_t there = 0;
    enum error_code code = lite_get_int(
        writer, STR("SELECT count(*) FROM sqlite_schema WHERE name = 'pawl_schema'"), &there, err);
    if (code != ERR_OK)
        return code;
    if (there == 0) {
        *ret_version = 0;
        *ret_usable_from = 0;
        return ERR_OK;
    }
    code = lite_get_int(writer, STR("SELECT max(version) FROM pawl_schema"), ret_version, err);
    if (code != ERR_OK)
        return code;
    return lite_get_int(writer,
                        STR("SELECT usable_from FROM pawl_schema ORDER BY version DESC LIMIT 1"),
                        ret_usable_from, err);
}

/* What is in a buffer of `size` bytes, of which snprintf has said that it wrote `len`. */
static enum error_code run_made(struct connection *writer, const char *sql, int len, size_t size,
                                struct err *err)
{
    assert(len > 0 && (size_t)len < size);
    (void)size;
    return lite_run_sql(writer, (struct str){sql, (size_t)len}, "note the schema's version", err);
}

static enum error_code note_applied(struct connection *writer, const struct migration *migration,
                                    struct err *err)
{
    char sql[128];
    int len =
        snprintf(sql, sizeof sql,
                 "INSERT INTO pawl_schema (version, usable_from) VALUES (%" PRId64 ", %" PRId64 ")",
                 migration->version, migration->usable_from);
    return run_made(writer, sql, len, sizeof sql, err);
}

/* In the header of the file, where other programs look. */
static enum error_code note_whose(struct connection *writer, int64_t version, struct err *err)
{
    char sql[128];
    int len = snprintf(sql, sizeof sql,
                       "PRAGMA user_version = %" PRId64 "; PRAGMA application_id = %" PRIu32,
                       version, SQLITE_APPLICATION_ID);
    return run_made(writer, sql, len, sizeof sql, err);
}

/* ---- migrations ---- */

static enum error_code apply(struct sqlite_store *store, const struct migrations *known,
                             int64_t version, struct err *err)
{
    struct connection *writer = &store->writer;
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < known->count && code == ERR_OK; i++) {
        const struct migration *migration = &known->at[i];
        assert(migration->version == (int64_t)i + 1);
        if (migration->version <= version)
            continue;
        code = lite_run_sql(writer, migration->sql, migration->name, err);
        if (code == ERR_OK && migration->version == OLD_LOG_ENDS)
            code = old_log_apply(store, err);
        if (code == ERR_OK)
            code = note_applied(writer, migration, err);
    }
    return code;
}

/* From `version` (0: nothing) to the newest, in one transaction. */
static enum error_code migrate(struct sqlite_store *store, const struct migrations *known,
                               int64_t version, struct err *err)
{
    struct connection *writer = &store->writer;
    enum error_code code = lite_begin(writer, STORE_WRITE, err);
    if (code != ERR_OK)
        return code;
    code = lite_run_sql(writer,
                        STR("CREATE TABLE IF NOT EXISTS pawl_schema ("
                            "version INTEGER PRIMARY KEY, usable_from INTEGER NOT NULL)"),
                        "set up the schema", err);
    if (code == ERR_OK)
        code = apply(store, known, version, err);
    if (code == ERR_OK)
        code = note_whose(writer, known->at[known->count - 1].version, err);
    if (code == ERR_OK)
        code = lite_commit(writer, err);
    else
        lite_rollback(writer);
    /* Its log, if it had one, is in the database, and the database on the disk. */
    if (code == ERR_OK && version > 0 && version < OLD_LOG_ENDS) {
        lite_sync_log(writer);
        old_log_delete(&store->owner);
    }
    return code;
}

/* ---- the copy ---- */

/* An empty file that those may read who may read the store, and nobody else. */
static enum error_code make_empty(const struct owner *owner, const char *path, struct err *err)
{
    struct stat own;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool made =
        file >= 0 && fstat(owner->file, &own) == 0 && fchmod(file, own.st_mode & (mode_t)0666) == 0;
    int number = errno;
    if (file >= 0)
        (void)close(file);
    return made ? ERR_OK
                : err_set(err, ERR_UNAVAILABLE, "cannot copy the database: error %d", number);
}

/* PATH.vN.bak is there only when it is complete. */
static enum error_code keep_copy(struct connection *writer, const struct owner *owner,
                                 int64_t version, struct err *err)
{
    char path[PATH_MAX + OWNER_SUFFIX_MAX];
    char unfinished[PATH_MAX + OWNER_SUFFIX_MAX];
    char suffix[OWNER_SUFFIX_MAX];
    (void)snprintf(suffix, sizeof suffix, ".v%" PRId64 ".bak", version);
    owner_path(owner, suffix, path);
    (void)snprintf(suffix, sizeof suffix, ".v%" PRId64 ".bak.new", version);
    owner_path(owner, suffix, unfinished);
    (void)unlink(unfinished);
    int64_t bytes;
    enum error_code code = make_empty(owner, unfinished, err);
    if (code == ERR_OK)
        code = sqlite_copy(writer, unfinished, &bytes, err);
    if (code == ERR_OK && version < OLD_LOG_ENDS)
        code = old_log_copy(owner, path, err);
    if (code == ERR_OK && (rename(unfinished, path) != 0 || !owner_sync_directory(path)))
        code = err_set(err, ERR_UNAVAILABLE,
                       "cannot move the copy of the database into place: error %d", errno);
    if (code != ERR_OK)
        (void)unlink(unfinished);
    return code;
}

/* ---- all of it ---- */

/* The log must be on before anything is done with the store. */
static enum error_code use_log(struct connection *writer, struct err *err)
{
    int64_t is_wal = 0;
    enum error_code code =
        lite_run_sql(writer, STR("PRAGMA journal_mode = WAL"), "turn the log on", err);
    if (code == ERR_OK)
        code = lite_get_int(writer, STR("SELECT journal_mode = 'wal' FROM pragma_journal_mode"),
                            &is_wal, err);
    if (code == ERR_OK && is_wal == 0)
        code = err_set(err, ERR_UNAVAILABLE,
                       "this file system does not support shared memory, which the log needs: use "
                       "a local disk");
    return code;
}

enum error_code sqlite_schema_apply(struct sqlite_store *store, enum file_content content,
                                    const struct migrations *known, struct err *err)
{
    struct connection *writer = &store->writer;
    enum schema_standing standing;
    int64_t version = 0;
    int64_t usable_from = 0;
    enum error_code code = read_versions(writer, &version, &usable_from, err);
    if (code != ERR_OK)
        return code;
    int64_t application = 0;
    code = lite_get_int(writer, STR("PRAGMA application_id"), &application, err);
    if (code == ERR_OK && content == FILE_OURS && version == 0 && application != 0)
        code = err_set(err, ERR_CORRUPT, "the database is damaged: it has no schema version");
    if (code == ERR_OK)
        code = schema_standing(known, version, usable_from, &standing, err);
    if (code != ERR_OK)
        return code;
    /* Set up before the log is on, so that the file itself says from the start whose it is. */
    if (standing == SCHEMA_OLDER)
        code = keep_copy(writer, &store->owner, version, err);
    if (code == ERR_OK && standing != SCHEMA_CURRENT)
        code = migrate(store, known, version, err);
    return code == ERR_OK ? use_log(writer, err) : code;
}
