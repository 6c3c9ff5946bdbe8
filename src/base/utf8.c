#include "base/utf8.h"

#include <assert.h>
#include <string.h>

static bool is_tail(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t utf8_length(const char *at, const char *end)
{
    if (at >= end)
        return 0;
    size_t room = (size_t)(end - at);
    unsigned char first = (unsigned char)at[0];
    if (first < 0x80)
        return 1;
    /* 0x80 to 0xbf are tails; 0xc0 and 0xc1 could only begin a form that is not the shortest. */
    if (first < 0xc2 || room < 2 || !is_tail(at[1]))
        return 0;
    if (first < 0xe0)
        return 2;
    /* The second byte decides what is too long a form, a surrogate, or past U+10FFFF. */
    unsigned char second = (unsigned char)at[1];
    if (first < 0xf0) {
        bool allowed = !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f);
        return allowed && room >= 3 && is_tail(at[2]) ? 3 : 0;
    }
    bool allowed =
        first < 0xf5 && !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f);
    return allowed && room >= 4 && is_tail(at[2]) && is_tail(at[3]) ? 4 : 0;
}

bool utf8_valid(struct str s)
{
    if (s.len == 0)
        return true;
    const char *at = s.at;
    const char *end = at + s.len;
    while (at < end) {
        uint64_t word;
        if ((size_t)(end - at) >= sizeof word) {
            memcpy(&word, at, sizeof word);
            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                at += sizeof word;
                continue;
            }
        }
        size_t len = utf8_length(at, end);
        if (len == 0)
            return false;
        at += len;
    }
    return true;
}

size_t utf8_encode(uint32_t code_point, char ret[4])
{
    assert(code_point <= 0x10ffff);
    assert(code_point < 0xd800 || code_point > 0xdfff);
    if (code_point < 0x80) {
        ret[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        ret[0] = (char)(0xc0 | code_point >> 6);
        ret[1] = (char)(0x80 | (code_point & 0x3f));
        return 2;
    }
    if (code_point < 0x10000) {
        ret[0] = (char)(0xe0 | code_point >> 12);
        ret[1] = (char)(0x80 | (code_point >> 6 & 0x3f));
        ret[2] = (char)(0x80 | (code_point & 0x3f));
        return 3;
    }
    ret[0] = (char)(0xf0 | code_point >> 18);
    ret[1] = (char)(0x80 | (code_point >> 12 & 0x3f));
    ret[2] = (char)(0x80 | (code_point >> 6 & 0x3f));
    ret[3] = (char)(0x80 | (code_point & 0x3f));
    return 4;
}
