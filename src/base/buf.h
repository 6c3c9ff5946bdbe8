/* A growing string in an arena.
 *
 * When memory runs out the buffer is marked failed and further additions do nothing, so a caller
 * adds all it wants and asks once, at the end. */
#ifndef PAWL_BASE_BUF_H
#define PAWL_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct buf {
    struct arena *arena;
    char *at;
    size_t len;
    size_t cap;
    bool failed; /* memory ran out; the content is incomplete, and cap == len */
};

/* An empty buffer in `arena`, with room for `cap` bytes before it must grow. */
void buf_init(struct buf *buf, struct arena *arena, size_t cap);

/* For buf_add only: adds where there may be no room yet. */
void buf_add_slow(struct buf *buf, struct str s);

/* Adds the bytes of `s`; an absent view adds nothing. */
static inline void buf_add(struct buf *buf, struct str s)
{
    /* Empty views wrap to SIZE_MAX and go slow, so that memcpy never sees NULL. */
    if (s.len - 1 < buf->cap - buf->len) {
        memcpy(buf->at + buf->len, s.at, s.len);
        buf->len += s.len;
        return;
    }
    buf_add_slow(buf, s);
}

static inline void buf_add_char(struct buf *buf, char c)
{
    if (buf->len < buf->cap) {
        buf->at[buf->len++] = c;
        return;
    }
    buf_add_slow(buf, (struct str){&c, 1});
}

void buf_add_int(struct buf *buf, int64_t value);
void buf_add_hex(struct buf *buf, const uint8_t *bytes, size_t len);

/* As printf. */
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room for `len` more bytes at the end, to be filled by the caller, who then adds what it wrote to
 * buf->len; NULL when there is no memory. */
char *buf_reserve(struct buf *buf, size_t len);

/* What has been written, never absent; valid until the next addition. */
static inline struct str buf_str(const struct buf *buf)
{
    return (struct str){buf->at == NULL ? "" : buf->at, buf->len};
}

#endif
