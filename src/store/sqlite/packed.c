#include "store/sqlite/packed.h"

#include <stdio.h>

#include "base/record.h"

/* What every version knows is a number. */
static bool has_number(enum event_type type)
{
    return type >= EVENT_JOB_CREATED && type <= EVENT_JOB_DEAD_LETTERED;
}

static void put_type(struct json_writer *writer, const struct event *event)
{
    if (has_number(event->type) && !str_is_set(event->type_name))
        json_put_int(writer, event->type);
    else
        json_put_string(writer, event_name(event));
}

void packed_write(const struct event *event, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_array(&writer);
    json_put_int(&writer, event->version);
    put_type(&writer, event);
    json_put_int(&writer, event->at);
    json_put_string(&writer, event->actor);
    json_put_string(&writer, event->cause_text);
    json_put_string(&writer, event->correlation_id);
    if (event->redacted) {
        json_put_null(&writer);
        json_put_hex(&writer, event->digest, HASH_LEN);
    } else {
        json_put_raw(&writer, event->payload);
    }
    json_end_array(&writer);
}

static enum error_code damaged(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "a stored event is damaged");
}

/* The next element as a text; null is an absent one. */
static bool next_text(struct json_iter *iter, struct arena *arena, struct str *ret)
{
    struct str raw;
    if (!json_array_next(iter, &raw))
        return false;
    *ret = (struct str){NULL, 0};
    return json_type(raw) == JSON_NULL ||
           (json_type(raw) == JSON_STRING && json_string(raw, arena, ret));
}

static bool next_int(struct json_iter *iter, int64_t *ret)
{
    struct str raw;
    return json_array_next(iter, &raw) && json_int64(raw, ret);
}

static bool read_type(struct json_iter *iter, struct arena *arena, struct event *event)
{
    struct str raw;
    struct str name;
    int64_t number;
    if (!json_array_next(iter, &raw))
        return false;
    if (json_int64(raw, &number)) {
        event->type = (enum event_type)number;
        return number > 0 && number <= INT32_MAX && has_number(event->type);
    }
    if (json_type(raw) != JSON_STRING || !json_string(raw, arena, &name))
        return false;
    event->type = event_type_parse(name);
    if (!str_eq(name, event_type_name(event->type)))
        event->type_name = name;
    return true;
}

/* All up to the payload. */
static bool read_head(struct json_iter *iter, struct arena *arena, struct event *event)
{
    return next_int(iter, &event->version) && read_type(iter, arena, event) &&
           next_int(iter, &event->at) && next_text(iter, arena, &event->actor) &&
           next_text(iter, arena, &event->cause_text) &&
           next_text(iter, arena, &event->correlation_id);
}

/* The payload, and the digest of one that was erased. */
static bool read_tail(struct json_iter *iter, struct arena *arena, struct event *event)
{
    struct str payload;
    struct str digest;
    struct str digits;
    if (!json_array_next(iter, &payload))
        return false;
    if (json_type(payload) != JSON_NULL)
        event->payload = payload;
    if (*iter->at == ']')
        return true;
    event->redacted = json_array_next(iter, &digest) && json_string(digest, arena, &digits) &&
                      record_hex(digits, event->digest, HASH_LEN);
    return event->redacted && *iter->at == ']';
}

/* Where the next event begins: each says its version first. */
static const char *find_next(struct str text, int64_t version)
{
    char begin[32];
    size_t len = (size_t)snprintf(begin, sizeof begin, ",[%lld,", (long long)version);
    const char *end = text.at + text.len;
    for (const char *at = text.at; (size_t)(end - at) > len; at++)
        if (memcmp(at, begin, len) == 0 && (at[len] == '"' || (at[len] >= '1' && at[len] <= '9')))
            return at;
    return end;
}

enum error_code packed_begin(struct packed *packed, struct str events, struct str hashes,
                             int64_t first, struct err *err)
{
    if (events.len < 2 || events.at[0] != '[' || events.at[events.len - 1] != ']')
        return damaged(err);
    *packed = (struct packed){
        .rest = {events.at + 1, events.len - 2}, .hashes = hashes, .version = first};
    return ERR_OK;
}

bool packed_next(struct packed *packed, struct arena *arena, struct event *ret)
{
    struct str rest = packed->rest;
    struct json_iter iter;
    struct event event = {0};
    if (rest.len > 0 && rest.at[0] == ',')
        rest = (struct str){rest.at + 1, rest.len - 1};
    if (rest.len == 0 || packed->hashes.len < HASH_LEN)
        return false;
    /* The bracket that ends all of them is behind the rest. */
    bool head = json_array_begin(&iter, (struct str){rest.at, rest.len + 1}) &&
                read_head(&iter, arena, &event);
    const char *from = head ? iter.at : rest.at;
    const char *end;
    if (head && read_tail(&iter, arena, &event)) {
        end = iter.at + 1;
    } else {
        if (!head)
            event = (struct event){.version = packed->version, .type_name = STR("unreadable")};
        end = find_next(rest, event.version + 1);
        event.type = head ? event.type : event_type_parse(event.type_name);
        event.payload = (struct str){from, (size_t)(end - from)};
    }
    memcpy(event.hash, packed->hashes.at, HASH_LEN);
    packed->rest = (struct str){end, (size_t)(rest.at + rest.len - end)};
    packed->hashes = (struct str){packed->hashes.at + HASH_LEN, packed->hashes.len - HASH_LEN};
    packed->version = event.version + 1;
    *ret = event;
    return true;
}

enum error_code packed_payload(struct str event, struct str *ret, struct err *err)
{
    enum { PAYLOAD_INDEX = 6 };
    struct json_iter iter;
    struct str element = {NULL, 0};
    bool ok = json_array_begin(&iter, event);
    for (int i = 0; i <= PAYLOAD_INDEX && ok; i++)
        ok = json_array_next(&iter, &element);
    if (!ok)
        return damaged(err);
    *ret = json_type(element) == JSON_NULL ? (struct str){NULL, 0} : element;
    return ERR_OK;
}
