#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    BUF_CAP_MIN = 64,
    BUF_INT_LEN_MAX = 20, /* -9223372036854775808 */
};

/* From now on nothing fits, so that the quick way of buf_add needs no test of `failed`. */
static void mark_failed(struct buf *buf)
{
    buf->failed = true;
    buf->cap = buf->len;
}

void buf_init(struct buf *buf, struct arena *arena, size_t cap)
{
    assert(buf != NULL);
    assert(arena != NULL);
    *buf = (struct buf){.arena = arena};
    if (cap > 0)
        (void)buf_reserve(buf, cap);
}

char *buf_reserve(struct buf *buf, size_t len)
{
    assert(buf->len <= buf->cap);
    if (buf->failed)
        return NULL;
    if (len <= buf->cap - buf->len && buf->at != NULL)
        return buf->at + buf->len;
    if (len > SIZE_MAX - buf->len) {
        mark_failed(buf);
        return NULL;
    }
    size_t cap = buf->cap > SIZE_MAX / 2 ? SIZE_MAX : buf->cap * 2;
    cap = cap < buf->len + len ? buf->len + len : cap;
    cap = cap < BUF_CAP_MIN ? BUF_CAP_MIN : cap;
    char *at = arena_grow(buf->arena, buf->at, buf->cap, cap);
    if (at == NULL) {
        mark_failed(buf);
        return NULL;
    }
    buf->at = at;
    buf->cap = cap;
    return at + buf->len;
}

void buf_add_slow(struct buf *buf, struct str s)
{
    assert(s.at != NULL || s.len == 0);
    if (s.len == 0)
        return;
    char *room = buf_reserve(buf, s.len);
    if (room != NULL) {
        memcpy(room, s.at, s.len);
        buf->len += s.len;
    }
}

void buf_add_int(struct buf *buf, int64_t value)
{
    char text[BUF_INT_LEN_MAX];
    size_t start = sizeof text;
    /* The magnitude of INT64_MIN exists only without a sign. */
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        text[--start] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        text[--start] = '-';
    buf_add(buf, (struct str){text + start, sizeof text - start});
}

void buf_add_hex(struct buf *buf, const uint8_t *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    assert(bytes != NULL || len == 0);
    if (len > SIZE_MAX / 2) {
        mark_failed(buf);
        return;
    }
    char *room = buf_reserve(buf, len * 2);
    if (room == NULL)
        return;
    for (size_t i = 0; i < len; i++) {
        *room++ = digits[bytes[i] >> 4];
        *room++ = digits[bytes[i] & 15];
    }
    buf->len += len * 2;
}

void buf_addf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    size_t room_len = buf->cap - buf->len;
    char *room = buf->at == NULL ? NULL : buf->at + buf->len;
    int len = vsnprintf(room, room == NULL ? 0 : room_len, format, args);
    if (len < 0) {
        mark_failed(buf);
    } else if ((size_t)len >= room_len) {
        /* vsnprintf ends with a NUL, which needs room but is not counted. */
        room = buf_reserve(buf, (size_t)len + 1);
        if (room != NULL)
            (void)vsnprintf(room, (size_t)len + 1, format, again);
    }
    if (!buf->failed)
        buf->len += (size_t)len;
    va_end(again);
    va_end(args);
}
