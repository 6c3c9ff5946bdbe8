#include "base/json_scan.h"

#include <assert.h>

#include "base/utf8.h"

static const char *set_flaw(struct json_flaw *flaw, const char *at, const char *problem)
{
    *flaw = (struct json_flaw){at, problem};
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The number that four hex digits at `at` stand for; false when there are not four. */
static bool read_hex4(const char *at, const char *end, uint32_t *ret)
{
    if (end - at < 4)
        return false;
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char lower = (char)(at[i] | 0x20);
        if (is_digit(at[i]))
            value = value << 4 | (uint32_t)(at[i] - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value << 4 | (uint32_t)(lower - 'a' + 10);
        else
            return false;
    }
    *ret = value;
    return true;
}

/* \uXXXX, or two of them where the first is the high half of a surrogate pair. */
static const char *scan_unicode_escape(const char *at, const char *end, uint32_t *ret_code_point,
                                       struct json_flaw *flaw)
{
    assert(at[0] == '\\' && at[1] == 'u');
    uint32_t high;
    if (!read_hex4(at + 2, end, &high))
        return set_flaw(flaw, at, "\\u needs four hex digits");
    if (high < 0xd800 || high > 0xdfff) {
        *ret_code_point = high;
        return at + 6;
    }
    uint32_t low;
    if (high > 0xdbff || end - at < 12 || at[6] != '\\' || at[7] != 'u' ||
        !read_hex4(at + 8, end, &low) || low < 0xdc00 || low > 0xdfff)
        return set_flaw(flaw, at, "unpaired surrogate");
    *ret_code_point = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    return at + 12;
}

const char *json_scan_escape(const char *at, const char *end, uint32_t *ret_code_point,
                             struct json_flaw *flaw)
{
    assert(at < end && *at == '\\');
    if (end - at < 2)
        return set_flaw(flaw, end, "the string is not closed");
    switch (at[1]) {
    case '"':
    case '\\':
    case '/':
        *ret_code_point = (uint32_t)at[1];
        return at + 2;
    case 'b':
        *ret_code_point = '\b';
        return at + 2;
    case 'f':
        *ret_code_point = '\f';
        return at + 2;
    case 'n':
        *ret_code_point = '\n';
        return at + 2;
    case 'r':
        *ret_code_point = '\r';
        return at + 2;
    case 't':
        *ret_code_point = '\t';
        return at + 2;
    case 'u':
        return scan_unicode_escape(at, end, ret_code_point, flaw);
    default:
        return set_flaw(flaw, at, "unknown escape after '\\'");
    }
}

const char *json_scan_string_slow(const char *at, const char *end, bool *ret_escaped,
                                  struct json_flaw *flaw)
{
    bool escaped = false;
    for (;;) {
        if (at == end)
            return set_flaw(flaw, end, "the string is not closed");
        if (*at == '"') {
            *ret_escaped = escaped;
            return at + 1;
        }
        if (*at == '\\') {
            uint32_t code_point;
            at = json_scan_escape(at, end, &code_point, flaw);
            if (at == NULL)
                return NULL;
            escaped = true;
        } else if ((unsigned char)*at < 0x20) {
            return set_flaw(flaw, at, "a control character in a string must be escaped");
        }
        /* Characters outside ASCII mostly come in runs. */
        while (at < end && (unsigned char)*at >= 0x80) {
            size_t len = utf8_length(at, end);
            if (len == 0)
                return set_flaw(flaw, at, "the string is not valid UTF-8");
            at += len;
        }
        at = json_scan_plain(at, end);
    }
}

/* One digit or more. */
static const char *scan_digits(const char *at, const char *end, const char *problem,
                               struct json_flaw *flaw)
{
    const char *first = at;
    while (at < end && is_digit(*at))
        at++;
    return at == first ? set_flaw(flaw, at, problem) : at;
}

const char *json_scan_number(const char *at, const char *end, struct json_flaw *flaw)
{
    if (at < end && *at == '-')
        at++;
    const char *first = at;
    at = scan_digits(at, end, "a number needs a digit here", flaw);
    if (at != NULL && *first == '0' && at - first > 1)
        return set_flaw(flaw, first, "a number must not begin with 0");
    if (at != NULL && at < end && *at == '.')
        at = scan_digits(at + 1, end, "a digit must follow the decimal point", flaw);
    if (at != NULL && at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        at = scan_digits(at, end, "the exponent needs a digit", flaw);
    }
    return at;
}

const char *json_scan_literal(const char *at, const char *end, struct json_flaw *flaw)
{
    assert(at < end);
    struct str literal = *at == 't' ? STR("true") : *at == 'f' ? STR("false") : STR("null");
    if ((size_t)(end - at) < literal.len || memcmp(at, literal.at, literal.len) != 0)
        return set_flaw(flaw, at, "expected true, false or null");
    return at + literal.len;
}

size_t json_decode(struct str text, char *out)
{
    const char *at = text.at;
    const char *end = text.at + text.len;
    size_t len = 0;
    while (at < end) {
        if (*at != '\\') {
            out[len++] = *at++;
            continue;
        }
        uint32_t code_point = 0;
        struct json_flaw flaw;
        at = json_scan_escape(at, end, &code_point, &flaw);
        assert(at != NULL);
        char encoded[4];
        size_t encoded_len = utf8_encode(code_point, encoded);
        memcpy(out + len, encoded, encoded_len);
        len += encoded_len;
    }
    /* Every escape is at least as long as what it stands for. */
    assert(len <= text.len);
    return len;
}
