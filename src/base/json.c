#include "base/json.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json_scan.h"

struct str json_trim(struct str text)
{
    if (text.len == 0)
        return text;
    const char *end = text.at + text.len;
    const char *at = json_scan_space(text.at, end);
    while (end > at && json_is_space(end[-1]))
        end--;
    return (struct str){at, (size_t)(end - at)};
}

enum json_type json_type(struct str value)
{
    if (value.len == 0)
        return JSON_INVALID;
    switch (value.at[0]) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    case '-':
        return JSON_NUMBER;
    default:
        return value.at[0] >= '0' && value.at[0] <= '9' ? JSON_NUMBER : JSON_INVALID;
    }
}

/* From the byte after the opening quote to the byte after the closing one, or NULL. What is between
 * them is looked at only when json_string reads it. */
static const char *skip_string(const char *at, const char *end)
{
    for (;;) {
        at = json_scan_plain(at, end);
        if (at == end)
            return NULL;
        if (*at == '"')
            return at + 1;
        if (*at == '\\' && ++at == end)
            return NULL;
        at++;
    }
}

/* From an opening bracket to the byte after the one that closes it, or NULL. */
static const char *skip_container(const char *at, const char *end)
{
    assert(at < end && (*at == '[' || *at == '{'));
    uint64_t objects[JSON_NESTED_MAX / 64] = {0}; /* bit per depth: the bracket there is a brace */
    unsigned depth = 0;
    while (at < end) {
        switch (*at++) {
        case '"':
            at = skip_string(at, end);
            if (at == NULL)
                return NULL;
            break;
        case '[':
        case '{':
            if (depth == JSON_NESTED_MAX)
                return NULL;
            objects[depth / 64] &= ~(UINT64_C(1) << depth % 64);
            objects[depth / 64] |= (uint64_t)(at[-1] == '{') << depth % 64;
            depth++;
            break;
        case ']':
        case '}':
            depth--;
            if ((objects[depth / 64] >> depth % 64 & 1) != (at[-1] == '}'))
                return NULL;
            if (depth == 0)
                return at;
            break;
        default:
            break;
        }
    }
    return NULL;
}

size_t json_depth(struct str value)
{
    const char *at = str_start(value);
    const char *end = at + value.len;
    size_t depth = 0;
    size_t deepest = 0;
    while (at != NULL && at < end) {
        char byte = *at++;
        if (byte == '"') {
            at = skip_string(at, end);
        } else if (byte == '[' || byte == '{') {
            depth++;
            deepest = depth > deepest ? depth : deepest;
        } else if (depth > 0 && (byte == ']' || byte == '}')) {
            depth--;
        }
    }
    return deepest;
}

/* From the first byte of a value to the byte after its last, or NULL. */
static const char *skip_value(const char *at, const char *end)
{
    struct json_flaw flaw;
    switch (json_type((struct str){at, (size_t)(end - at)})) {
    case JSON_NULL:
    case JSON_BOOL:
        return json_scan_literal(at, end, &flaw);
    case JSON_NUMBER:
        return json_scan_number(at, end, &flaw);
    case JSON_STRING:
        return skip_string(at + 1, end);
    case JSON_ARRAY:
    case JSON_OBJECT:
        return skip_container(at, end);
    case JSON_INVALID:
        break;
    }
    return NULL;
}

/* A walk stands before its end while it goes on, at its end when the closing bracket was met, and
 * at NULL after damage. */
static bool iter_damaged(struct json_iter *iter)
{
    iter->at = NULL;
    return false;
}

static bool iter_begin(struct json_iter *iter, struct str value, char bracket)
{
    value = json_trim(value);
    if (value.len == 0 || value.at[0] != bracket)
        return false;
    *iter = (struct json_iter){value.at + 1, value.at + value.len, true};
    if (iter->at == iter->end)
        iter->at = NULL;
    return true;
}

bool json_object_begin(struct json_iter *iter, struct str value)
{
    assert(iter != NULL);
    return iter_begin(iter, value, '{');
}

bool json_array_begin(struct json_iter *iter, struct str value)
{
    assert(iter != NULL);
    return iter_begin(iter, value, '[');
}

/* Moves to the start of the next element or member; false at the end and at damage. */
static bool iter_next(struct json_iter *iter, char bracket)
{
    if (iter->at == NULL || iter->at == iter->end)
        return false;
    const char *at = json_scan_space(iter->at, iter->end);
    if (at == iter->end)
        return iter_damaged(iter);
    if (*at == bracket) {
        iter->at = iter->end;
        return at + 1 == iter->end ? false : iter_damaged(iter);
    }
    if (!iter->first) {
        if (*at != ',')
            return iter_damaged(iter);
        at = json_scan_space(at + 1, iter->end);
    }
    iter->first = false;
    iter->at = at;
    return true;
}

/* Takes the value at `at`. A value always has something after it, at least the bracket. */
static bool iter_value(struct json_iter *iter, const char *at, struct str *ret_value)
{
    const char *after = skip_value(at, iter->end);
    if (after == NULL || after == iter->end)
        return iter_damaged(iter);
    iter->at = after;
    *ret_value = (struct str){at, (size_t)(after - at)};
    return true;
}

bool json_object_next(struct json_iter *iter, struct str *ret_key, struct str *ret_value)
{
    assert(ret_key != NULL);
    assert(ret_value != NULL);
    if (!iter_next(iter, '}'))
        return false;
    const char *end = iter->end;
    const char *key = iter->at;
    const char *key_end = key < end && *key == '"' ? skip_string(key + 1, end) : NULL;
    if (key_end == NULL)
        return iter_damaged(iter);
    const char *colon = json_scan_space(key_end, end);
    if (colon == end || *colon != ':')
        return iter_damaged(iter);
    if (!iter_value(iter, json_scan_space(colon + 1, end), ret_value))
        return false;
    *ret_key = (struct str){key, (size_t)(key_end - key)};
    return true;
}

bool json_array_next(struct json_iter *iter, struct str *ret_value)
{
    assert(ret_value != NULL);
    return iter_next(iter, ']') && iter_value(iter, iter->at, ret_value);
}

bool json_iter_ok(const struct json_iter *iter)
{
    assert(iter->end != NULL);
    return iter->at == iter->end;
}

struct str json_member(struct str object, struct str name)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    if (json_object_begin(&iter, object))
        while (json_object_next(&iter, &key, &value))
            if (json_key_is(key, name))
                return value;
    return (struct str){NULL, 0};
}

size_t json_count(struct str value)
{
    struct json_iter iter;
    struct str ignored;
    size_t count = 0;
    if (json_object_begin(&iter, value))
        while (json_object_next(&iter, &ignored, &ignored))
            count++;
    else if (json_array_begin(&iter, value))
        while (json_array_next(&iter, &ignored))
            count++;
    else
        return 0;
    return json_iter_ok(&iter) ? count : 0;
}

bool json_key_is(struct str raw, struct str name)
{
    assert(name.at != NULL);
    if (raw.len < name.len + 2 || raw.at[0] != '"' || raw.at[raw.len - 1] != '"')
        return false;
    if (raw.len == name.len + 2)
        return memcmp(raw.at + 1, name.at, name.len) == 0;
    /* Longer than the name, it can be equal only if there are escapes in it. */
    const char *at = raw.at + 1;
    const char *end = raw.at + raw.len - 1;
    for (size_t i = 0; i < name.len; i++) {
        uint32_t code_point;
        struct json_flaw flaw;
        if (at == end)
            return false;
        if (*at != '\\')
            code_point = (unsigned char)*at++;
        else
            at = json_scan_escape(at, end, &code_point, &flaw);
        if (at == NULL || code_point != (unsigned char)name.at[i])
            return false;
    }
    return at == end;
}

bool json_string(struct str raw, struct arena *arena, struct str *ret)
{
    assert(ret != NULL);
    if (raw.len < 2 || raw.at[0] != '"')
        return false;
    const char *end = raw.at + raw.len;
    bool escaped = false;
    struct json_flaw flaw;
    if (json_scan_string(raw.at + 1, end, &escaped, &flaw) != end)
        return false;
    struct str inside = {raw.at + 1, raw.len - 2};
    if (escaped) {
        char *decoded = arena_alloc(arena, inside.len);
        if (decoded == NULL)
            return false;
        inside = (struct str){decoded, json_decode(inside, decoded)};
    }
    *ret = inside;
    return true;
}

/* True when all of `raw` is one number. */
static bool is_number(struct str raw)
{
    struct json_flaw flaw;
    return raw.len > 0 && json_scan_number(raw.at, raw.at + raw.len, &flaw) == raw.at + raw.len;
}

bool json_int64(struct str raw, int64_t *ret)
{
    assert(ret != NULL);
    if (!is_number(raw))
        return false;
    bool negative = raw.at[0] == '-';
    uint64_t limit = negative ? UINT64_C(1) << 63 : INT64_MAX;
    uint64_t magnitude = 0;
    for (size_t i = negative ? 1 : 0; i < raw.len; i++) {
        if (raw.at[i] < '0' || raw.at[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(raw.at[i] - '0');
        if (magnitude > (limit - digit) / 10)
            return false;
        magnitude = magnitude * 10 + digit;
    }
    *ret =
        negative ? -(int64_t)(magnitude - (magnitude > 0)) - (magnitude > 0) : (int64_t)magnitude;
    return true;
}

enum {
    /* No double, nor the middle between two, has more digits; past these only "more" counts. */
    DECIMAL_DIGITS_MAX = 800,
    /* With so many digits, exponents beyond this are infinite or zero. */
    DECIMAL_EXPONENT_MAX = 20000,
};

/* digits × 10^exponent. */
struct decimal {
    size_t count;
    int64_t exponent;
    char digits[DECIMAL_DIGITS_MAX + 16]; /* with room for one more, and the exponent as text */
};

/* The exponent written in a number, cut where it is past all sense. */
static int64_t read_exponent(const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int64_t exponent = 0;
    for (at += at < end && (*at == '-' || *at == '+'); at < end; at++)
        if (exponent < INT64_MAX / 100)
            exponent = exponent * 10 + (*at - '0');
    return negative ? -exponent : exponent;
}

static void read_decimal(struct str raw, struct decimal *ret)
{
    const char *end = raw.at + raw.len;
    bool in_fraction = false;
    bool more = false;
    ret->count = 0;
    ret->exponent = 0;
    for (const char *at = raw.at; at < end; at++) {
        if (*at == 'e' || *at == 'E') {
            ret->exponent += read_exponent(at + 1, end);
            break;
        }
        if (*at == '.') {
            in_fraction = true;
        } else if (*at != '-') {
            bool leading = ret->count == 0 && *at == '0';
            bool kept = !leading && ret->count < DECIMAL_DIGITS_MAX;
            if (kept)
                ret->digits[ret->count++] = *at;
            more = more || (!kept && *at != '0');
            ret->exponent += (in_fraction ? -1 : 0) + (kept || leading ? 0 : 1);
        }
    }
    if (more) {
        ret->digits[ret->count++] = '1';
        ret->exponent--;
    }
}

/* Short numbers are one exact operation on two exact doubles, so the result is the nearest. */
static bool decimal_quick(const struct decimal *decimal, double *ret)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (FLT_EVAL_METHOD != 0 || decimal->count > 15 || decimal->exponent < -22 ||
        decimal->exponent > 22)
        return false;
    int64_t digits = 0;
    for (size_t i = 0; i < decimal->count; i++)
        digits = digits * 10 + (decimal->digits[i] - '0');
    *ret = decimal->exponent < 0 ? (double)digits / powers[-decimal->exponent]
                                 : (double)digits * powers[decimal->exponent];
    return true;
}

/* strtod depends on the locale only for the decimal point and what groups digits. It is given
 * neither: the number goes in as digits and an exponent. */
static double decimal_slow(struct decimal *decimal)
{
    int64_t exponent = decimal->exponent;
    exponent = exponent > DECIMAL_EXPONENT_MAX ? DECIMAL_EXPONENT_MAX : exponent;
    exponent = exponent < -DECIMAL_EXPONENT_MAX ? -DECIMAL_EXPONENT_MAX : exponent;
    size_t room = sizeof decimal->digits - decimal->count;
    int len = snprintf(decimal->digits + decimal->count, room, "e%d", (int)exponent);
    assert(len > 0 && (size_t)len < room);
    (void)len;
    return strtod(decimal->digits, NULL);
}

bool json_double(struct str raw, double *ret)
{
    assert(ret != NULL);
    if (!is_number(raw))
        return false;
    struct decimal decimal;
    read_decimal(raw, &decimal);
    double value = 0;
    if (decimal.count > 0 && !decimal_quick(&decimal, &value))
        value = decimal_slow(&decimal);
    if (!isfinite(value))
        return false;
    *ret = raw.at[0] == '-' ? -value : value;
    return true;
}

bool json_bool(struct str raw, bool *ret)
{
    assert(ret != NULL);
    if (str_eq(raw, STR("true"))) {
        *ret = true;
        return true;
    }
    if (str_eq(raw, STR("false"))) {
        *ret = false;
        return true;
    }
    return false;
}
