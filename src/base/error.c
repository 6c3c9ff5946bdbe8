#include "base/error.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

const struct error_info *error_info(enum error_code code)
{
    static const struct error_info infos[] = {
#define ERROR(symbol, number, name, http, exit, title)                                             \
    [number] = {ERR_##symbol, (name), (http), (exit), (title)},
#include "base/error.def"
#undef ERROR
    };
    size_t index = (size_t)code;
    assert(index < sizeof infos / sizeof infos[0]);
    assert(infos[index].name != NULL);
    return &infos[index];
}

/* Length of the printable character at `at`, or 0. Controls are those below U+0020, U+007F, and
 * U+0080 to U+009F, which terminals obey just like the first ones. */
static size_t printable_length(const char *at, const char *end)
{
    size_t len = utf8_length(at, end);
    unsigned char first = (unsigned char)at[0];
    if (len == 1)
        return first < 0x20 || first == 0x7f ? 0 : 1;
    return len == 2 && first == 0xc2 && (unsigned char)at[1] < 0xa0 ? 0 : len;
}

/* Where `text` (full to its last byte, so probably cut) should end: a character that lost its last
 * bytes to the cut is left out rather than shown as '?'. */
static size_t whole_characters(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char byte = (unsigned char)text[len - back];
        if (byte >= 0xc0) {
            size_t need = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
            return need > back ? len - back : len;
        }
        if (byte < 0x80)
            break;
    }
    return len;
}

void err_write(struct err *err, enum error_code code, const char *format, ...)
{
    assert(format != NULL);
    if (err == NULL)
        return;
    /* Not straight into err->detail, since callers pass the old detail to put words before it. */
    char text[sizeof err->detail];
    va_list args;
    va_start(args, format);
    int printed = vsnprintf(text, sizeof text, format, args);
    va_end(args);

    size_t len = printed < 0 ? 0 : (size_t)printed;
    if (len >= sizeof text)
        len = whole_characters(text, sizeof text - 1);
    const char *end = text + len;
    char *out = err->detail;
    for (const char *at = text; at < end;) {
        size_t step = printable_length(at, end);
        if (step == 0) {
            *out++ = '?';
            at++;
            continue;
        }
        memcpy(out, at, step);
        out += step;
        at += step;
    }
    assert(out < err->detail + sizeof err->detail);
    *out = '\0';
    err->code = code;
}
