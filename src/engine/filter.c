#include "engine/filter.h"

#include "base/buf.h"
#include "base/json_scan.h"
#include "base/record.h"
#include "core/machine.h"

/* All of them, for anyone who has named another. */
static enum error_code no_such_status(struct str name, struct err *err)
{
    char text[256];
    struct buf buf = {.at = text, .cap = sizeof text};
    for (int i = 0; i < JOB_STATUS_COUNT; i++) {
        buf_add(&buf, i == 0 ? STR("") : STR(", "));
        buf_add(&buf, job_status_name((enum job_status)i));
    }
    return err_set(err, ERR_BAD_REQUEST, "unknown status \"%.*s\"; valid: %.*s", STR_ARG(name),
                   (int)buf.len, buf.at);
}

static enum error_code read_statuses(struct str list, uint32_t *ret, struct err *err)
{
    uint32_t statuses = 0;
    for (size_t at = 0; at <= list.len;) {
        const char *comma = at == list.len ? NULL : memchr(list.at + at, ',', list.len - at);
        size_t end = comma == NULL ? list.len : (size_t)(comma - list.at);
        struct str name = {list.at + at, end - at};
        enum job_status status;
        if (!job_status_parse(name, &status))
            return no_such_status(name, err);
        statuses |= UINT32_C(1) << status;
        at = end + 1;
    }
    *ret = statuses;
    return ERR_OK;
}

static enum error_code read_label(struct str label, struct store_filter *ret, struct err *err)
{
    const char *colon = label.len == 0 ? NULL : memchr(label.at, ':', label.len);
    if (colon == NULL || colon == label.at)
        return err_set(err, ERR_BAD_REQUEST, "invalid label \"%.*s\"; write key:value",
                       STR_ARG(label));
    size_t key_len = (size_t)(colon - label.at);
    ret->label_key = (struct str){label.at, key_len};
    ret->label_value = (struct str){colon + 1, label.len - key_len - 1};
    return ERR_OK;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether `part` is somewhere in `text`; letters of ASCII are the same in both cases. */
static bool has_part(struct str text, struct str part)
{
    for (size_t at = 0; at + part.len <= text.len; at++) {
        size_t same = 0;
        while (same < part.len && lower(text.at[at + same]) == lower(part.at[same]))
            same++;
        if (same == part.len)
            return true;
    }
    return false;
}

/* A string of JSON without its quotes, decoded where it has escapes; absent: it does not fit. */
static struct str plain_text(struct str raw, char *room, size_t size)
{
    struct str inside = {raw.at + 1, raw.len - 2};
    if (raw.len < 2 || raw.at[0] != '"')
        return (struct str){NULL, 0};
    if (memchr(inside.at, '\\', inside.len) == NULL)
        return inside;
    if (inside.len > size)
        return (struct str){NULL, 0};
    return (struct str){room, json_decode(inside, room)};
}

/* Walks the labels of a job as key:value; `test` says whether to stop, and so what is returned. */
static bool any_label(struct str labels, bool (*test)(struct str label, struct str wanted),
                      struct str wanted)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    if (!str_is_set(labels) || !json_object_begin(&iter, labels))
        return false;
    while (json_object_next(&iter, &key, &value)) {
        char keys[FILTER_LABEL_LEN_MAX];
        char values[FILTER_LABEL_LEN_MAX];
        char text[2 * FILTER_LABEL_LEN_MAX + 2];
        struct buf label = {.at = text, .cap = sizeof text};
        buf_add(&label, plain_text(key, keys, sizeof keys));
        buf_add_char(&label, ':');
        buf_add(&label, plain_text(value, values, sizeof values));
        if (!label.failed && test(buf_str(&label), wanted))
            return true;
    }
    return false;
}

static bool is_label(struct str label, struct str wanted)
{
    return str_eq(label, wanted);
}

/* An array of key:value, at most FILTER_LABELS_MAX. */
static enum error_code check_labels(struct str labels, struct err *err)
{
    struct json_iter iter;
    struct str raw;
    size_t count = json_count(labels);
    if (count > FILTER_LABELS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "labels may have at most %d entries, not %zu",
                       FILTER_LABELS_MAX, count);
    (void)json_array_begin(&iter, labels);
    while (json_array_next(&iter, &raw)) {
        char room[FILTER_LABEL_LEN_MAX];
        struct str label = plain_text(raw, room, sizeof room);
        const char *colon =
            !str_is_set(label) || label.len == 0 ? NULL : memchr(label.at, ':', label.len);
        if (colon == NULL || colon == label.at)
            return err_set(err, ERR_BAD_REQUEST, "invalid label %.*s; write key:value",
                           STR_ARG(raw));
    }
    return ERR_OK;
}

/* Whether a job has all of these labels, which were checked. */
static bool has_labels(const struct job *job, struct str labels)
{
    struct json_iter iter;
    struct str raw;
    (void)json_array_begin(&iter, labels);
    while (json_array_next(&iter, &raw)) {
        char room[FILTER_LABEL_LEN_MAX];
        if (!any_label(job->spec.labels, is_label, plain_text(raw, room, sizeof room)))
            return false;
    }
    return true;
}

enum error_code filter_read(const struct filter_request *request, struct store_filter *ret,
                            struct err *err)
{
    enum error_code code = ERR_OK;
    ret->kind = request->kind;
    ret->queue = request->queue;
    ret->agent_id = request->agent_id;
    ret->correlation_id = request->correlation_id;
    /* A job without one is shown with its own id in its place, and is found by it. */
    if (str_is_set(request->correlation_id))
        (void)uuid_parse(request->correlation_id, &ret->correlation_job);
    ret->created_after = request->created_after;
    if (str_is_set(request->status))
        code = read_statuses(request->status, &ret->statuses, err);
    if (code == ERR_OK && str_is_set(request->label))
        code = read_label(request->label, ret, err);
    if (code == ERR_OK && str_is_set(request->labels))
        code = check_labels(request->labels, err);
    return code;
}

bool filter_sifts(const struct filter_request *request)
{
    return str_is_set(request->labels) || request->created_before != 0;
}

bool filter_passes(const struct filter_request *request, const struct job *job)
{
    return (request->created_before == 0 || job->created_at < request->created_before) &&
           (!str_is_set(request->labels) || has_labels(job, request->labels));
}

bool filter_has_text(const struct job *job, struct str text)
{
    char id[UUID_TEXT_LEN];
    const struct spec *spec = &job->spec;
    uuid_format(job->id, id);
    const struct str places[] = {
        {id, sizeof id},      spec->kind,
        spec->queue,          spec->idempotency_key,
        spec->correlation_id, spec->agent_id,
        spec->goal,           spec->labels,
        job->error,           job->dead_letter.last_error,
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (has_part(places[i], text))
            return true;
    return any_label(spec->labels, has_part, text);
}

enum error_code cursor_read(struct str cursor, struct uuid *ret, struct err *err)
{
    struct uuid id = {0};
    if (str_is_set(cursor) && !uuid_parse(cursor, &id))
        return err_set(err, ERR_BAD_REQUEST,
                       "invalid cursor \"%.*s\": use next_cursor of an earlier response",
                       STR_ARG(cursor));
    *ret = id;
    return ERR_OK;
}

static int hex_digit(char c)
{
    c = lower(c);
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The id after this one; all zero after the last. */
static struct uuid next_id(struct uuid id)
{
    for (size_t i = sizeof id.bytes; i-- > 0;)
        if (++id.bytes[i] != 0)
            break;
    return id;
}

enum error_code id_prefix_read(struct str prefix, struct id_range *ret, struct err *err)
{
    enum { DIGITS_MIN = 4, DIGITS = 2 * sizeof(struct uuid) };
    struct uuid first = {0};
    struct uuid last;
    size_t count = 0;
    bool valid = prefix.len <= UUID_TEXT_LEN;
    memset(&last, 0xff, sizeof last);
    for (size_t i = 0; i < prefix.len && valid; i++) {
        int digit = hex_digit(prefix.at[i]);
        bool dash = prefix.at[i] == '-' && (i == 8 || i == 13 || i == 18 || i == 23);
        valid = dash || (digit >= 0 && count < DIGITS);
        if (!valid || dash)
            continue;
        unsigned shift = count % 2 == 0 ? 4 : 0;
        uint8_t *low = &first.bytes[count / 2];
        uint8_t *high = &last.bytes[count / 2];
        *low = (uint8_t)(*low | (unsigned)digit << shift);
        *high = (uint8_t)((*high & ~(0xfU << shift)) | (unsigned)digit << shift);
        count++;
    }
    if (!valid || count < DIGITS_MIN)
        return err_set(err, ERR_BAD_REQUEST,
                       "id_prefix must be the first %d to %d hexadecimal digits of an id, not "
                       "\"%.*s\"",
                       DIGITS_MIN, DIGITS, STR_ARG(prefix));
    *ret = (struct id_range){.first = first, .behind = next_id(last)};
    return ERR_OK;
}

void cursor_write(struct json_writer *writer, bool more, struct uuid last)
{
    char text[UUID_TEXT_LEN];
    json_key(writer, STR("next_cursor"));
    if (!more) {
        json_put_null(writer);
        return;
    }
    uuid_format(last, text);
    json_put_string(writer, (struct str){text, UUID_TEXT_LEN});
}
