/* What a list of events says of a job, for programs that have events from elsewhere: the functions
 * of pawl.h on core's derive_status and is_blocked. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/record.h"
#include "core/event.h"
#include "core/machine.h"
#include "engine/library_private.h"
#include "pawl.h"

/* Of an event, what decides where its job is. */
struct told {
    struct str type;
    int64_t at;
    struct str payload; /* an object, or, as exports have it, that as a string */
    int64_t not_before;
    bool parked;
};

static const struct record_field told_fields[] = {
    RECORD_FIELD(struct told, type, "type", TEXT),
    RECORD_FIELD(struct told, at, "at", TIME),
    RECORD_FIELD(struct told, payload, "payload", JSON),
};
RECORD_TABLE(told);

static const struct record_field told_payload_fields[] = {
    RECORD_FIELD(struct told, not_before, "not_before", TIME),
    RECORD_FIELD(struct told, parked, "parked", BOOL),
};
RECORD_TABLE(told_payload);

static enum error_code read_event(struct str json, size_t place, struct arena *arena,
                                  struct event *ret, struct err *err)
{
    struct told told = {0};
    if (json_type(json) != JSON_OBJECT)
        return err_set(err, ERR_BAD_REQUEST, "events[%zu] must be an object", place);
    enum error_code code =
        record_read(&told_record, json, RECORD_ALL, RECORD_STORED, "an event", arena, &told, err);
    if (code == ERR_OK && !str_is_set(told.type))
        code = err_set(err, ERR_BAD_REQUEST, "events[%zu] has no type", place);
    if (code == ERR_OK && json_type(told.payload) == JSON_STRING &&
        !json_string(told.payload, arena, &told.payload))
        code = err_set(err, ERR_NO_MEMORY, "out of memory");
    if (code == ERR_OK && json_type(told.payload) == JSON_OBJECT)
        code = record_read(&told_payload_record, told.payload, RECORD_ALL, RECORD_STORED,
                           "the payload of an event", arena, &told, err);
    /* Stored text that cannot be read is corrupt; here it is what the caller said. */
    if (code == ERR_CORRUPT)
        return err_set(err, ERR_BAD_REQUEST, "events[%zu] cannot be read", place);
    if (code != ERR_OK)
        return code;
    enum event_type type = event_type_parse(told.type);
    /* One that is not known moves no job, as one of somebody's own. */
    *ret = (struct event){.type = type != EVENT_UNKNOWN ? type : EVENT_CUSTOM, .at = told.at};
    ret->data.not_before = told.not_before;
    ret->data.parked = told.parked;
    return ERR_OK;
}

/* The events of a text: an array, or an object that has one as "events". */
static enum error_code read_events(const char *text, struct arena *arena, struct event **ret,
                                   size_t *ret_count, struct err *err)
{
    struct str json = str_from(text);
    struct json_iter iter;
    struct str raw;
    size_t at = 0;
    enum error_code code = json_check_request(json, SIZE_MAX, "events", arena, err);
    if (code != ERR_OK)
        return code;
    if (json_type(json_trim(json)) == JSON_OBJECT)
        json = json_member(json, STR("events"));
    if (!json_array_begin(&iter, json))
        return err_set(err, ERR_BAD_REQUEST, "events must be an array of events");
    size_t count = json_count(json);
    struct event *events = arena_zalloc(arena, count + 1, sizeof *events);
    if (events == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu events", count);
    while (code == ERR_OK && at < count && json_array_next(&iter, &raw)) {
        code = read_event(raw, at, arena, &events[at], err);
        at++;
    }
    *ret = events;
    *ret_count = at;
    return code;
}

enum pawl_code pawl_derive_status(const char *events, char **ret_status, struct pawl_error *error)
{
    struct arena arena;
    struct event *read = NULL;
    size_t count = 0;
    struct err err = {0};
    char *copy = NULL;
    if (events == NULL || ret_status == NULL)
        return PAWL_BAD_REQUEST;
    arena_init(&arena);
    enum error_code code = read_events(events, &arena, &read, &count, &err);
    if (code == ERR_OK) {
        struct str name = job_status_name(derive_status(read, count));
        copy = calloc(1, name.len + 1);
        if (copy != NULL)
            memcpy(copy, name.at, name.len);
        else
            code = err_set(&err, ERR_NO_MEMORY, "out of memory");
    }
    arena_release(&arena);
    if (code != ERR_OK)
        return library_fail(code, &err, error);
    *ret_status = copy;
    return PAWL_OK;
}

enum pawl_code pawl_is_blocked(const char *events, int *ret_blocked, struct pawl_error *error)
{
    struct arena arena;
    struct event *read = NULL;
    size_t count = 0;
    struct err err = {0};
    if (events == NULL || ret_blocked == NULL)
        return PAWL_BAD_REQUEST;
    arena_init(&arena);
    enum error_code code = read_events(events, &arena, &read, &count, &err);
    bool blocked = code == ERR_OK && is_blocked(read, count);
    arena_release(&arena);
    if (code != ERR_OK)
        return library_fail(code, &err, error);
    *ret_blocked = blocked;
    return PAWL_OK;
}
