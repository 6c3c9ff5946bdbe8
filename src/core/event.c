#include "core/event.h"

#include <assert.h>

#include "base/buf.h"
#include "base/json.h"
#include "core/plan.h"

#define ENTRY_NAME(member, text, names) RECORD_FIELD(struct event_data, member, text, NAME)
#define ENTRY_TEXT(member, text, names) RECORD_FIELD(struct event_data, member, text, TEXT)
#define ENTRY_JSON(member, text, names) RECORD_FIELD(struct event_data, member, text, JSON)
#define ENTRY_INT(member, text, names) RECORD_FIELD(struct event_data, member, text, INT)
#define ENTRY_TIME(member, text, names) RECORD_FIELD(struct event_data, member, text, TIME)
#define ENTRY_BOOL(member, text, names) RECORD_FIELD(struct event_data, member, text, BOOL)
#define ENTRY_HEX(member, text, names) RECORD_FIELD(struct event_data, member, text, HEX)
#define ENTRY_ENUM(member, text, names) RECORD_FIELD_ENUM(struct event_data, member, text, names)

static const struct record_field event_fields[] = {
#define EVENT_FIELD(symbol, member, text, kind, names) ENTRY_##kind(member, text, names),
#include "core/event.def"
};

static const struct record_type event_record = {event_fields, EVENT_FIELD_COUNT};

_Static_assert(EVENT_FIELD_COUNT <= 64, "a mask of fields has 64 bits");

struct str event_name(const struct event *event)
{
    return str_is_set(event->type_name) ? event->type_name : event_type_name(event->type);
}

struct uuid event_id(const struct event *event)
{
    static const uint8_t no_hash[HASH_LEN];
    if (event_type_class(event->type) != EVENT_CLASS_TELEMETRY)
        return uuid_v8(event->hash);
    struct event unsealed = *event;
    uint8_t hash[HASH_LEN];
    hash_sha256(&event->payload, str_is_set(event->payload), unsealed.digest);
    event_hash(&unsealed, no_hash, hash);
    return uuid_v8(hash);
}

enum move_variant event_variant(const struct event *event)
{
    bool later =
        event->type == EVENT_JOB_REQUEUED ? event->data.not_before > event->at : event->data.parked;
    return later ? MOVE_LATER : MOVE_PLAIN;
}

enum job_status event_target(const struct event *event)
{
    enum move_variant variant = event_variant(event);
    enum job_status to = JOB_NONE;
    for (int from = 0; from <= JOB_NONE; from++)
        if (job_move((enum job_status)from, event->type, variant, &to))
            return to;
    return JOB_NONE;
}

static const struct event *last_state_event(const struct event *events, size_t count)
{
    while (count-- > 0)
        if (event_type_class(events[count].type) == EVENT_CLASS_STATE)
            return &events[count];
    return NULL;
}

enum job_status derive_status(const struct event *events, size_t count)
{
    const struct event *last = last_state_event(events, count);
    return last == NULL ? JOB_NONE : event_target(last);
}

bool is_blocked(const struct event *events, size_t count)
{
    const struct event *last = last_state_event(events, count);
    return last != NULL && last->type == EVENT_JOB_WAITING;
}

/* "complete:fetch#2": see struct cause. */
static struct str cause_write(const struct cause *cause, struct arena *arena)
{
    if (!str_is_set(cause->step) && cause->attempt == 0)
        return command_type_name(cause->command);

    struct buf buf;
    buf_init(&buf, arena, 48);
    buf_add(&buf, command_type_name(cause->command));
    if (str_is_set(cause->step)) {
        buf_add_char(&buf, ':');
        buf_add(&buf, cause->step);
    }
    /* A '#' in the id would be taken for the one before the attempt. */
    struct str step = cause->step;
    bool ambiguous = step.len > 0 && memchr(step.at, '#', step.len) != NULL;
    if (cause->attempt > 0 || ambiguous) {
        buf_add_char(&buf, '#');
        buf_add_int(&buf, cause->attempt);
    }
    return buf.failed ? (struct str){NULL, 0} : buf_str(&buf);
}

/* A cause that is not understood is left empty: verify reports it. */
static void cause_read(struct str text, struct cause *ret)
{
    size_t name_len = 0;
    while (name_len < text.len && text.at[name_len] != ':' && text.at[name_len] != '#')
        name_len++;
    *ret = (struct cause){.command = command_type_parse((struct str){text.at, name_len})};
    if (name_len == text.len)
        return;

    /* Step ids may contain '#': the attempt stands behind the last one. */
    size_t end = text.len;
    for (size_t i = text.len; i-- > name_len;) {
        if (text.at[i] == '#') {
            int64_t attempt = 0;
            if (json_int64((struct str){text.at + i + 1, text.len - i - 1}, &attempt))
                ret->attempt = attempt;
            end = i;
            break;
        }
    }
    if (end > name_len && text.at[name_len] == ':')
        ret->step = (struct str){text.at + name_len + 1, end - name_len - 1};
}

static enum error_code payload_write(struct event *event, struct arena *arena, struct err *err)
{
    enum event_class class = event_type_class(event->type);
    if (class == EVENT_CLASS_APPENDED)
        return ERR_OK;

    struct buf buf;
    struct json_writer writer;
    bool created = event->type == EVENT_JOB_CREATED && event->data.spec != NULL;
    size_t guess = created ? event->data.spec->payload.len + 384 : event->data.result.len + 320;
    buf_init(&buf, arena, guess);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    if (created)
        record_write(&spec_record, event->data.spec, RECORD_ALL, &writer);
    else
        record_write(&event_record, &event->data, event_type_fields(event->type), &writer);
    json_end_object(&writer);
    if (buf.failed)
        return err_set(err, ERR_NO_MEMORY, "out of memory");

    /* "{}" says nothing, so it is not stored. */
    event->payload = buf.len == 2 ? (struct str){NULL, 0} : buf_str(&buf);
    return ERR_OK;
}

static void put_u32(uint8_t *at, uint64_t value)
{
    for (int i = 3; i >= 0; i--, value >>= 8)
        at[i] = (uint8_t)value;
}

static void put_u64(uint8_t *at, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        at[i] = (uint8_t)value;
}

static struct str bytes(const uint8_t *at, size_t len)
{
    return (struct str){(const char *)at, len};
}

void event_digest(const struct event *event, const uint8_t salt[SALT_LEN], uint8_t ret[HASH_LEN])
{
    const struct str parts[] = {bytes(salt, SALT_LEN), event->payload};
    hash_sha256(parts, str_is_set(event->payload) ? 2 : 1, ret);
}

void event_hash(const struct event *event, const uint8_t previous[HASH_LEN], uint8_t ret[HASH_LEN])
{
    enum { FIELDS = 8 };
    uint8_t version[8];
    uint8_t at[8];
    put_u64(version, (uint64_t)event->version);
    put_u64(at, (uint64_t)event->at);

    const struct str fields[FIELDS] = {
        bytes(event->job_id.bytes, sizeof event->job_id.bytes),
        bytes(version, sizeof version),
        event_name(event),
        bytes(at, sizeof at),
        event->actor,
        event->cause_text,
        event->correlation_id,
        bytes(event->digest, HASH_LEN),
    };
    uint8_t lengths[FIELDS][4];
    struct str parts[1 + 2 * FIELDS];
    size_t count = 0;
    parts[count++] = bytes(previous, HASH_LEN);
    for (size_t i = 0; i < FIELDS; i++) {
        put_u32(lengths[i], fields[i].len);
        parts[count++] = bytes(lengths[i], sizeof lengths[i]);
        if (fields[i].len > 0)
            parts[count++] = fields[i];
    }
    hash_sha256(parts, count, ret);
}

enum error_code event_seal(struct event *event, const uint8_t previous[HASH_LEN],
                           const uint8_t salt[SALT_LEN], struct arena *arena, struct err *err)
{
    enum error_code code = payload_write(event, arena, err);
    if (code != ERR_OK)
        return code;
    event->cause_text = cause_write(&event->cause, arena);
    if (!str_is_set(event->cause_text))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (event_type_class(event->type) == EVENT_CLASS_TELEMETRY)
        return ERR_OK;

    event_digest(event, salt, event->digest);
    event_hash(event, previous, event->hash);
    return ERR_OK;
}

static enum error_code open_created(struct event *event, struct arena *arena, struct err *err)
{
    struct spec *spec = arena_zalloc(arena, 1, sizeof *spec);
    if (spec == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    enum error_code code = record_read(&spec_record, event->payload, RECORD_ALL, RECORD_STORED,
                                       "job_created", arena, spec, err);
    event->data.spec = spec;
    return code;
}

static enum error_code open_plan(struct event *event, uint64_t seed, struct arena *arena,
                                 struct err *err)
{
    struct plan *plan = arena_zalloc(arena, 1, sizeof *plan);
    if (plan == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    enum error_code code = plan_read(event->data.steps, RECORD_STORED, seed, arena, plan, err);
    event->data.plan = plan;
    return code;
}

enum error_code event_open(struct event *event, uint64_t seed, struct arena *arena, struct err *err)
{
    cause_read(event->cause_text, &event->cause);
    event->data = (struct event_data){0};
    if (event->redacted || !str_is_set(event->payload) ||
        event_type_class(event->type) == EVENT_CLASS_APPENDED)
        return ERR_OK;

    struct err detail = {0};
    enum error_code code;
    if (event->type == EVENT_JOB_CREATED)
        code = open_created(event, arena, &detail);
    else
        code = record_read(&event_record, event->payload, event_type_fields(event->type),
                           RECORD_STORED, "payload", arena, &event->data, &detail);
    if (code == ERR_OK && str_is_set(event->data.steps))
        code = open_plan(event, seed, arena, &detail);
    if (code == ERR_OK || code == ERR_NO_MEMORY)
        return code == ERR_OK ? code : err_set(err, code, "%s", detail.detail);
    return err_set(err, ERR_CORRUPT, "event %lld (%.*s) is damaged: %s", (long long)event->version,
                   STR_ARG(event_name(event)), detail.detail);
}
