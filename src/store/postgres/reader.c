#include "store/postgres/reader.h"

#include <assert.h>

#include "core/job_state.h"

void reader_init(struct reader *reader, PGresult *result, struct arena *arena)
{
    *reader = (struct reader){.result = result, .arena = arena};
}

void reader_row(struct reader *reader, int row)
{
    assert(row < PQntuples(reader->result));
    reader->row = row;
    reader->column = 0;
}

enum error_code reader_check(const struct reader *reader, const char *what, struct err *err)
{
    if (reader->no_memory)
        return err_set(err, ERR_NO_MEMORY, "out of memory while reading %s", what);
    if (reader->damaged)
        return err_set(err, ERR_CORRUPT, "%s cannot be read: a value has an unexpected form", what);
    return ERR_OK;
}

/* The bytes of the next value, in the result; absent for NULL. */
static struct str next(struct reader *reader)
{
    int column = reader->column++;
    if (column >= PQnfields(reader->result)) {
        reader->damaged = true;
        return (struct str){NULL, 0};
    }
    if (PQgetisnull(reader->result, reader->row, column))
        return (struct str){NULL, 0};
    return (struct str){PQgetvalue(reader->result, reader->row, column),
                        (size_t)PQgetlength(reader->result, reader->row, column)};
}

int64_t reader_int(struct reader *reader)
{
    struct str bytes = next(reader);
    if (!str_is_set(bytes))
        return 0;
    if (bytes.len != 2 && bytes.len != 4 && bytes.len != 8) {
        reader->damaged = true;
        return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.len; i++)
        value = value << 8 | (unsigned char)bytes.at[i];
    if (bytes.len == 2)
        return (int16_t)value;
    return bytes.len == 4 ? (int32_t)value : (int64_t)value;
}

bool reader_bool(struct reader *reader)
{
    struct str bytes = next(reader);
    return bytes.len == 1 && bytes.at[0] != 0;
}

int64_t reader_time(struct reader *reader)
{
    if (PQgetisnull(reader->result, reader->row, reader->column)) {
        reader->column++;
        return 0;
    }
    int64_t micros = reader_int(reader);
    /* The earliest time is 1970 and stores keep whole milliseconds: the division is exact. */
    return micros / 1000 + EPOCH_2000_MS;
}

struct uuid reader_uuid(struct reader *reader)
{
    struct uuid id = {{0}};
    struct str bytes = next(reader);
    if (bytes.len == sizeof id.bytes)
        memcpy(id.bytes, bytes.at, sizeof id.bytes);
    else if (str_is_set(bytes))
        reader->damaged = true;
    return id;
}

struct str reader_str(struct reader *reader)
{
    struct str bytes = next(reader);
    struct str copy = arena_copy(reader->arena, bytes);
    if (str_is_set(bytes) && !str_is_set(copy))
        reader->no_memory = true;
    return copy;
}

struct str reader_free_text(struct reader *reader)
{
    struct str text = reader_str(reader);
    if (!str_is_set(text) || memchr(text.at, FREE_TEXT_ESCAPE, text.len) == NULL)
        return text;
    char *at = arena_alloc(reader->arena, text.len);
    if (at == NULL) {
        reader->no_memory = true;
        return (struct str){NULL, 0};
    }
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool escape = text.at[i] == FREE_TEXT_ESCAPE && i + 1 < text.len;
        at[len++] = escape ? (char)(text.at[++i] - '0') : text.at[i];
    }
    return (struct str){at, len};
}

void reader_bytes(struct reader *reader, uint8_t *ret, size_t len)
{
    struct str bytes = next(reader);
    if (bytes.len == len)
        memcpy(ret, bytes.at, len);
    else
        reader->damaged = true;
}

void reader_skip(struct reader *reader, int count)
{
    reader->column += count;
}

uint32_t reader_step(struct reader *reader)
{
    int64_t step = reader_int(reader);
    if (step < -1 || step >= STEP_NONE)
        reader->damaged = true;
    return step < 0 ? STEP_NONE : (uint32_t)step;
}

static void reader_job(struct reader *reader, struct job_row *ret)
{
    *ret = (struct job_row){.id = reader_uuid(reader)};
    ret->created_at = reader_time(reader);
    ret->updated_at = reader_time(reader);
    ret->version = reader_int(reader);
    ret->status = reader_int(reader);
    ret->retry_count = reader_int(reader);
    ret->redacted = reader_bool(reader);
    reader_bytes(reader, ret->head, sizeof ret->head);
    reader_bytes(reader, ret->salt, sizeof ret->salt);
    ret->cursor = reader_free_text(reader);
    ret->state = reader_str(reader);
    /* The rest is in the first event, unless that was erased. */
    if (!ret->redacted) {
        reader_skip(reader, 6);
        return;
    }
    ret->priority = reader_int(reader);
    ret->kind = reader_str(reader);
    ret->queue = reader_str(reader);
    ret->agent_id = reader_str(reader);
    ret->correlation_id = reader_str(reader);
    ret->idempotency_key = reader_str(reader);
}

void reader_claim(struct reader *reader, struct claim_row *ret)
{
    *ret = (struct claim_row){.worker_id = reader_str(reader)};
    ret->resource_id = reader_str(reader);
    ret->present = !PQgetisnull(reader->result, reader->row, reader->column);
    ret->attempt = reader_int(reader);
    ret->beat_at = reader_int(reader);
    ret->expires_at = reader_time(reader);
    ret->due_at = reader_int(reader);
    ret->progress = reader_str(reader);
    ret->cursor = reader_free_text(reader);
}

enum error_code reader_slice(struct reader *reader, uint64_t seed, struct job_slice *ret,
                             struct err *err)
{
    struct job_row row;
    reader_job(reader, &row);
    reader_claim(reader, &row.claim);
    row.created = reader_str(reader);
    enum error_code code = reader_check(reader, "a job", err);
    return code == ERR_OK ? row_to_job(&row, seed, reader->arena, ret, err) : code;
}

struct job_note reader_note(struct reader *reader, struct uuid id)
{
    struct job_note note = {.id = id, .has_state = reader_bool(reader)};
    note.is_state_full = reader_int(reader) >= RECORD_BYTES_MAX;
    note.is_claim_full = reader_int(reader) >= RECORD_BYTES_MAX;
    return note;
}

enum error_code reader_resource(struct reader *reader, struct resource *ret, struct err *err)
{
    struct resource resource = {0};
    struct str state = reader_str(reader);
    int64_t expires_at = reader_time(reader);
    int64_t used = reader_int(reader);
    enum error_code code = reader_check(reader, "a resource", err);
    if (code == ERR_OK)
        code = resource_state_read(state, reader->arena, &resource, err);
    if (code != ERR_OK)
        return code;
    resource.expires_at = expires_at;
    resource.used = used;
    *ret = resource;
    return ERR_OK;
}

enum error_code reader_registration(struct reader *reader, struct worker *ret, struct err *err)
{
    struct worker worker = {0};
    struct str id = reader_str(reader);
    struct str state = reader_str(reader);
    int64_t expires_at = reader_time(reader);
    enum error_code code = reader_check(reader, "a registered worker", err);
    if (code == ERR_OK)
        code = worker_state_read(state, reader->arena, &worker, err);
    if (code != ERR_OK)
        return code;
    worker.id = id;
    worker.expires_at = expires_at;
    *ret = worker;
    return ERR_OK;
}

void reader_event(struct reader *reader, struct event *ret)
{
    *ret = (struct event){.job_id = reader_uuid(reader)};
    ret->version = reader_int(reader);
    ret->at = reader_time(reader);
    ret->redacted = reader_bool(reader);
    ret->type_name = reader_str(reader);
    ret->type = event_type_parse(ret->type_name);
    ret->payload = reader_str(reader);
    ret->actor = reader_str(reader);
    ret->cause_text = reader_str(reader);
    ret->correlation_id = reader_str(reader);
    reader_bytes(reader, ret->digest, sizeof ret->digest);
    reader_bytes(reader, ret->hash, sizeof ret->hash);
}
