#include "cli/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct range {
    long first;
    long last;
};

static bool in_ranges(long character, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (character >= ranges[i].first && character <= ranges[i].last)
            return true;
    return false;
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Control characters. */
static bool is_control(long character)
{
    return character < 0x20 || (character >= 0x7f && character <= 0x9f);
}

/* Characters that nobody sees, but that hide or turn others: zero width, bidirectional marks and
 * overrides, line separators, byte order marks, tags. */
static bool is_hidden(long character)
{
    static const struct range hidden[] = {
        {0x00ad, 0x00ad}, {0x061c, 0x061c}, {0x180e, 0x180e}, {0x200b, 0x200f},   {0x2028, 0x202e},
        {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    return in_ranges(character, hidden, COUNT(hidden));
}

long text_character(const char *text, size_t len, size_t *ret_len)
{
    static const long least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = (unsigned char)text[0];
    size_t count = first < 0x80                     ? 1
                   : first >= 0xc2 && first <= 0xdf ? 2
                   : first >= 0xe0 && first <= 0xef ? 3
                   : first >= 0xf0 && first <= 0xf4 ? 4
                                                    : 0;
    *ret_len = 1;
    if (count == 0 || count > len)
        return -1;
    if (count == 1)
        return first;

    long character = first & (0x7f >> count);
    for (size_t i = 1; i < count; i++) {
        unsigned char next = (unsigned char)text[i];
        if ((next & 0xc0) != 0x80)
            return -1;
        character = character << 6 | (next & 0x3f);
    }
    if (character < least[count] || character > 0x10ffff ||
        (character >= 0xd800 && character <= 0xdfff))
        return -1;
    *ret_len = count;
    return character;
}

bool text_is_utf8(const char *text)
{
    size_t len = strlen(text);
    for (size_t at = 0; at < len;) {
        size_t bytes;
        if (text_character(text + at, len - at, &bytes) < 0)
            return false;
        at += bytes;
    }
    return true;
}

/* The blocks that terminals give no column, or two. Rare scripts are left at one: a column too few
 * only shifts what stands behind. */
size_t text_character_width(long character)
{
    static const struct range none[] = {
        {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},   {0x0610, 0x061a}, {0x064b, 0x065f},
        {0x06d6, 0x06dc}, {0x0900, 0x0902}, {0x093c, 0x093c},   {0x0941, 0x0948}, {0x0e31, 0x0e31},
        {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e}, {0x1ab0, 0x1aff},   {0x1dc0, 0x1dff}, {0x20d0, 0x20ff},
        {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0x1f3fb, 0x1f3ff},
    };
    static const struct range two[] = {
        {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
        {0x26a1, 0x26a1},   {0x2705, 0x2705},   {0x274c, 0x274c},   {0x2e80, 0x303e},
        {0x3041, 0x33ff},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
        {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
        {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff},
        {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320},
        {0x1f32d, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f900, 0x1f9ff},
        {0x1fa70, 0x1faff}, {0x20000, 0x3fffd},
    };
    if (character < 0x300)
        return 1;
    if (in_ranges(character, none, COUNT(none)))
        return 0;
    return in_ranges(character, two, COUNT(two)) ? 2 : 1;
}

enum { ESCAPE_LEN_MAX = 40 }; /* far more than any takes */

/* How a character is shown that must not be printed; the empty text: as it is. */
static void escape(long character, char *ret)
{
    ret[0] = '\0';
    if (character < 0)
        snprintf(ret, ESCAPE_LEN_MAX, "?");
    else if (character == '\n')
        snprintf(ret, ESCAPE_LEN_MAX, "\\n");
    else if (character == '\r')
        snprintf(ret, ESCAPE_LEN_MAX, "\\r");
    else if (character == '\t')
        snprintf(ret, ESCAPE_LEN_MAX, "\\t");
    else if (is_control(character))
        snprintf(ret, ESCAPE_LEN_MAX, "\\x%02lx", (unsigned long)character & 0xff);
    else if (is_hidden(character))
        snprintf(ret, ESCAPE_LEN_MAX, "\\u{%04lx}", (unsigned long)character & 0x1fffff);
}

/* In JSON a character that needs it can only stand in a string, where \u says the same; but for
 * white space between values, for which a space does. */
static void escape_json(long character, char *ret)
{
    ret[0] = '\0';
    unsigned long rest = (unsigned long)character - 0x10000;
    if (character < 0)
        snprintf(ret, ESCAPE_LEN_MAX, "?");
    else if (character == '\n' || character == '\r' || character == '\t')
        snprintf(ret, ESCAPE_LEN_MAX, " ");
    else if (!is_control(character) && !is_hidden(character))
        return;
    else if (character < 0x10000)
        snprintf(ret, ESCAPE_LEN_MAX, "\\u%04lx", (unsigned long)character & 0xffff);
    else
        snprintf(ret, ESCAPE_LEN_MAX, "\\u%04lx\\u%04lx", 0xd800 + (rest >> 10 & 0x3ff),
                 0xdc00 + (rest & 0x3ff));
}

static char *escaped(const char *text, size_t len, void (*how)(long character, char *ret))
{
    if (len > SIZE_MAX / ESCAPE_LEN_MAX - 1)
        return NULL;
    /* Most texts need nothing: count first. */
    char shown[ESCAPE_LEN_MAX];
    size_t need = 1;
    size_t bytes;
    for (size_t at = 0; at < len; at += bytes) {
        how(text_character(text + at, len - at, &bytes), shown);
        need += shown[0] == '\0' ? bytes : strlen(shown);
    }
    char *copy = malloc(need);
    if (copy == NULL)
        return NULL;
    char *end = copy;
    for (size_t at = 0; at < len; at += bytes) {
        how(text_character(text + at, len - at, &bytes), shown);
        size_t count = shown[0] == '\0' ? bytes : strlen(shown);
        memcpy(end, shown[0] == '\0' ? text + at : shown, count);
        end += count;
    }
    *end = '\0';
    return copy;
}

char *text_visible(const char *text, size_t len)
{
    return escaped(text, len, escape);
}

char *text_visible_json(const char *json, size_t len)
{
    return escaped(json, len, escape_json);
}

size_t text_fitting(const char *text, size_t width)
{
    size_t len = strlen(text);
    size_t at = 0;
    while (at < len) {
        size_t bytes;
        size_t columns = text_character_width(text_character(text + at, len - at, &bytes));
        if (columns > width)
            break;
        width -= columns;
        at += bytes;
    }
    return at;
}

size_t text_width(const char *text)
{
    size_t len = strlen(text);
    size_t width = 0;
    size_t bytes;
    for (size_t at = 0; at < len; at += bytes)
        width += text_character_width(text_character(text + at, len - at, &bytes));
    return width;
}
