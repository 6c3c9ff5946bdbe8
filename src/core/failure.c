#include "core/failure.h"

#include "base/json.h"
#include "base/utf8.h"
#include "core/spec.h"

static const struct record_field failure_fields[] = {
    RECORD_FIELD_ENUM(struct failure, error_class, "class", error_class_names),
    RECORD_FIELD(struct failure, message, "message", TEXT),
    RECORD_FIELD(struct failure, type, "type", NAME),
    RECORD_FIELD(struct failure, code, "code", NAME),
    RECORD_FIELD_ENUM(struct failure, stage, "stage", stage_names),
    RECORD_FIELD(struct failure, details, "details", JSON),
    RECORD_FIELD(struct failure, stack, "stack", TEXT),
};

const struct record_type failure_record = {failure_fields,
                                           sizeof failure_fields / sizeof failure_fields[0]};

static enum error_code check_text(struct str text, const char *what, struct err *err)
{
    if (text.len > TEXT_BYTES_MAX)
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "%s has %zu bytes; the limit is %d", what,
                       text.len, TEXT_BYTES_MAX);
    if (!utf8_valid(text))
        return err_set(err, ERR_BAD_REQUEST, "%s is not valid UTF-8", what);
    return ERR_OK;
}

static enum error_code check_details(struct str details, struct err *err)
{
    struct str value = str_is_set(details) ? json_trim(details) : details;
    if (value.len > PAYLOAD_BYTES_MAX)
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "error.details has %zu bytes; the limit is %d",
                       value.len, PAYLOAD_BYTES_MAX);
    if (str_is_set(details) && json_type(value) == JSON_INVALID)
        return err_set(err, ERR_BAD_REQUEST, "error.details must be JSON, not \"%.*s\"",
                       STR_ARG(value));
    return ERR_OK;
}

enum error_code failure_check(const struct failure *failure, struct err *err)
{
    enum error_code code = check_text(failure->message, "error.message", err);
    if (code == ERR_OK && str_is_set(failure->type))
        code = record_check_name(failure->type, "error.type", err);
    if (code == ERR_OK && str_is_set(failure->code))
        code = record_check_name(failure->code, "error.code", err);
    if (code == ERR_OK)
        code = check_details(failure->details, err);
    if (code == ERR_OK)
        code = check_text(failure->stack, "error.stack", err);
    return code;
}

enum error_code failure_write(const struct failure *failure, struct arena *arena, struct str *ret,
                              struct err *err)
{
    struct failure kept = *failure;
    struct json_writer writer;
    struct buf buf;
    enum error_code code = failure_check(failure, err);
    if (code != ERR_OK)
        return code;
    if (kept.error_class == CLASS_NONE)
        kept.error_class = CLASS_TRANSIENT;
    if (kept.message.len == 0)
        kept.message = STR("no message");
    if (str_is_set(kept.details))
        kept.details = json_trim(kept.details);
    if (json_type(kept.details) == JSON_NULL)
        kept.details = (struct str){NULL, 0};
    buf_init(&buf, arena, kept.message.len + kept.details.len + kept.stack.len + 128);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    record_write(&failure_record, &kept, RECORD_ALL, &writer);
    json_end_object(&writer);
    if (buf.failed)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *ret = buf_str(&buf);
    return ERR_OK;
}

enum error_class failure_class_of(struct str error)
{
    struct str raw = json_member(error, STR("class"));
    for (size_t i = 1; str_is_set(raw) && i < error_class_names.count; i++)
        if (json_key_is(raw, error_class_names.at[i]))
            return (enum error_class)i;
    return CLASS_NONE;
}

enum dead_letter_reason failure_reason_code(enum error_class class, enum stage stage, bool final)
{
    if (class == CLASS_TIMEOUT)
        return DEAD_TIMEOUT;
    if (class == CLASS_VALIDATION || (final && stage == STAGE_INPUT))
        return DEAD_VALIDATION_FAILED;
    return final && stage == STAGE_FETCH ? DEAD_DEPENDENCY_UNAVAILABLE : DEAD_EXHAUSTED_RETRIES;
}

/* ---- errors that are the same ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* How many bytes at the front are a UUID; 0: none are. */
static size_t uuid_at(struct str text)
{
    enum { UUID_LEN = 36 };
    if (text.len < UUID_LEN)
        return 0;
    for (size_t i = 0; i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text.at[i] != '-' : !is_hex(text.at[i]))
            return 0;
    }
    return UUID_LEN;
}

/* How many bytes at the front are quoted, quotes included; 0: none are. `before` is the byte in
 * front: an apostrophe within a word opens nothing. */
static size_t quoted_at(struct str text, char before)
{
    char quote = text.at[0];
    if ((quote != '"' && quote != '\'' && quote != '`') || is_letter(before) || is_digit(before))
        return 0;
    for (size_t i = 1; i < text.len; i++)
        if (text.at[i] == quote && text.at[i - 1] != '\\' &&
            (i + 1 == text.len || (!is_letter(text.at[i + 1]) && !is_digit(text.at[i + 1]))))
            return i + 1;
    return 0;
}

/* A run of letters and digits: all of it when it is a number in hex, else its digits. */
static void fold_run(struct str run, struct buf *buf)
{
    enum { HEX_MIN = 8 };
    bool prefixed = run.len > 2 && run.at[0] == '0' && (run.at[1] == 'x' || run.at[1] == 'X');
    bool digits = false;
    bool hex = true;
    for (size_t i = prefixed ? 2 : 0; i < run.len; i++) {
        digits = digits || is_digit(run.at[i]);
        hex = hex && is_hex(run.at[i]);
    }
    if (hex && (prefixed || (digits && run.len >= HEX_MIN))) {
        buf_add_char(buf, '*');
        return;
    }
    for (size_t i = 0; i < run.len; i++)
        if (!is_digit(run.at[i]))
            buf_add_char(buf, run.at[i]);
        else if (i == 0 || !is_digit(run.at[i - 1]))
            buf_add_char(buf, '*');
}

static void fold_message(struct str text, struct buf *buf)
{
    size_t at = 0;
    while (at < text.len && text.at[at] != '\n' && buf->len < FAILURE_PATTERN_MAX) {
        struct str rest = {text.at + at, text.len - at};
        char before = at > 0 ? text.at[at - 1] : ' ';
        size_t quoted = quoted_at(rest, before);
        size_t uuid = quoted == 0 ? uuid_at(rest) : 0;
        size_t len = 0;
        if (quoted > 0) {
            buf_add_char(buf, rest.at[0]);
            buf_add_char(buf, '*');
            buf_add_char(buf, rest.at[0]);
        } else if (uuid > 0) {
            buf_add_char(buf, '*');
        } else {
            while (len < rest.len && (is_letter(rest.at[len]) || is_digit(rest.at[len])))
                len++;
            if (len > 0)
                fold_run((struct str){rest.at, len}, buf);
            else
                buf_add_char(buf, rest.at[0]);
        }
        at += quoted + uuid + len > 0 ? quoted + uuid + len : 1;
    }
}

/* The longest part that is whole characters. */
static struct str whole(struct str text)
{
    size_t len = 0;
    while (len < text.len) {
        size_t width = utf8_length(text.at + len, text.at + text.len);
        if (width == 0 || len + width > FAILURE_PATTERN_MAX)
            break;
        len += width;
    }
    return (struct str){text.at, len};
}

bool failure_group_of(struct str error, struct arena *arena, struct failure_group *ret)
{
    struct str type = json_member(error, STR("type"));
    struct str raw = json_member(error, STR("message"));
    struct str message;
    struct buf buf;
    *ret = (struct failure_group){0};
    if (json_type(type) == JSON_STRING)
        return json_string(type, arena, &ret->type);
    if (json_type(raw) != JSON_STRING)
        return true;
    if (!json_string(raw, arena, &message))
        return false;
    buf_init(&buf, arena, FAILURE_PATTERN_MAX + 64);
    fold_message(message, &buf);
    if (buf.failed)
        return false;
    ret->pattern = whole(buf_str(&buf));
    return true;
}
