/* The lexical grammar of JSON, shared by the checker, the readers and the writer. Private to base.
 *
 * A scan starts at a token, stays below `end`, and returns where the token ends; or NULL when the
 * text is not that token, with the place and the reason in `flaw`. Most of a text is plain string
 * bytes, so those are looked at eight at a time. */
#ifndef PAWL_BASE_JSON_SCAN_H
#define PAWL_BASE_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

struct json_flaw {
    const char *at;
    const char *problem;
};

#define JSON_EACH_BYTE UINT64_C(0x0101010101010101)
#define JSON_HIGH_BITS UINT64_C(0x8080808080808080)

/* Eight bytes, the first one lowest, so that the lowest bit set belongs to the earliest byte. */
static inline uint64_t json_scan_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* The high bit of each byte that JSON wants escaped: controls, quote and backslash. Only the lowest
 * bit set is certain, since a borrow can mark bytes above one that is rightly marked. */
static inline uint64_t json_scan_escaped(uint64_t word)
{
    uint64_t control = word - JSON_EACH_BYTE * 0x20;
    uint64_t quote = (word ^ JSON_EACH_BYTE * '"') - JSON_EACH_BYTE;
    uint64_t backslash = (word ^ JSON_EACH_BYTE * '\\') - JSON_EACH_BYTE;
    return (control | quote | backslash) & ~word & JSON_HIGH_BITS;
}

static inline bool json_is_plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* The first byte that is not plain ASCII inside a string, or `end`. */
static inline const char *json_scan_plain(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t word = json_scan_word(at);
        uint64_t special = json_scan_escaped(word) | (word & JSON_HIGH_BITS);
        if (special != 0)
            return at + __builtin_ctzll(special) / 8;
        at += 8;
    }
    while (at < end && json_is_plain(*at))
        at++;
    return at;
}

static inline bool json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static inline const char *json_scan_space(const char *at, const char *end)
{
    /* Texts made by programs have none, so one comparison should tell. */
    if (at < end && (unsigned char)*at > ' ')
        return at;
    while (at < end && json_is_space(*at))
        at++;
    return at;
}

/* For json_scan_string only: from the first byte that is not plain. */
const char *json_scan_string_slow(const char *at, const char *end, bool *ret_escaped,
                                  struct json_flaw *flaw);

/* From the byte after the opening quote to the byte after the closing one. Tells whether there are
 * escapes to decode. */
static inline const char *json_scan_string(const char *at, const char *end, bool *ret_escaped,
                                           struct json_flaw *flaw)
{
    at = json_scan_plain(at, end);
    if (at < end && *at == '"') {
        *ret_escaped = false;
        return at + 1;
    }
    return json_scan_string_slow(at, end, ret_escaped, flaw);
}

/* A backslash and what belongs to it, including the second half of a surrogate pair. */
const char *json_scan_escape(const char *at, const char *end, uint32_t *ret_code_point,
                             struct json_flaw *flaw);

/* A number, whatever follows it. */
const char *json_scan_number(const char *at, const char *end, struct json_flaw *flaw);

/* true, false or null. */
const char *json_scan_literal(const char *at, const char *end, struct json_flaw *flaw);

/* Decodes what stands between the quotes of a string that json_scan_string took. Writes at most
 * text.len bytes to `out` and returns how many. */
size_t json_decode(struct str text, char *out);

#endif
