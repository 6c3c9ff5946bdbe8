#include <assert.h>

#include "base/json.h"
#include "base/json_scan.h"
#include "base/times.h"

/* The bits of `comma` are for depths 0 to 63. */
enum { WRITER_DEPTH_MAX = 63 };

void json_writer_init(struct json_writer *writer, struct buf *buf)
{
    assert(writer != NULL);
    assert(buf != NULL);
    *writer = (struct json_writer){.buf = buf};
}

/* True when a comma must come before what is written next at this depth, which is a key or a value
 * without one. */
static bool comma_due(struct json_writer *writer)
{
    uint64_t bit = UINT64_C(1) << writer->depth;
    bool due = (writer->comma & bit) != 0;
    assert(!(due && writer->depth == 0)); /* a text is one value */
    writer->comma |= bit;
    return due;
}

/* Writes what must stand before a value. */
static void before_value(struct json_writer *writer)
{
    if (writer->after_key)
        writer->after_key = false;
    else if (comma_due(writer))
        buf_add_char(writer->buf, ',');
}

static void put_text(struct json_writer *writer, struct str text)
{
    before_value(writer);
    buf_add(writer->buf, text);
}

static void begin(struct json_writer *writer, char bracket)
{
    before_value(writer);
    assert(writer->depth < WRITER_DEPTH_MAX);
    writer->depth++;
    writer->comma &= ~(UINT64_C(1) << writer->depth);
    buf_add_char(writer->buf, bracket);
}

static void end(struct json_writer *writer, char bracket)
{
    assert(writer->depth > 0);
    assert(!writer->after_key);
    writer->depth--;
    buf_add_char(writer->buf, bracket);
}

void json_begin_object(struct json_writer *writer)
{
    begin(writer, '{');
}

void json_end_object(struct json_writer *writer)
{
    end(writer, '}');
}

void json_begin_array(struct json_writer *writer)
{
    begin(writer, '[');
}

void json_end_array(struct json_writer *writer)
{
    end(writer, ']');
}

void json_key(struct json_writer *writer, struct str name)
{
    assert(writer->depth > 0);
    assert(!writer->after_key);
    struct buf *buf = writer->buf;
    bool fits = name.len + 4 <= buf->cap - buf->len;
    char *room = fits ? buf->at + buf->len : buf_reserve(buf, name.len + 4);
    bool comma = comma_due(writer);
    writer->after_key = true;
    if (room == NULL)
        return;
    char *out = room;
    if (comma)
        *out++ = ',';
    *out++ = '"';
    memcpy(out, name.at, name.len);
    out += name.len;
    *out++ = '"';
    *out++ = ':';
    buf->len += (size_t)(out - room);
}

/* The first byte that must be escaped, or `end`. Unlike the reader's, it goes on over UTF-8. */
static const char *scan_unescaped(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t escaped = json_scan_escaped(json_scan_word(at));
        if (escaped != 0)
            return at + __builtin_ctzll(escaped) / 8;
        at += 8;
    }
    while (at < end && (unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
        at++;
    return at;
}

static void put_escape(struct buf *buf, char c)
{
    static const char letters[] = "btn?fr"; /* of the controls 8 to 13; 11 has none */
    if (c == '"' || c == '\\') {
        buf_add(buf, (struct str){(char[]){'\\', c}, 2});
    } else if (c >= '\b' && c <= '\r' && c != '\v') {
        buf_add(buf, (struct str){(char[]){'\\', letters[c - '\b']}, 2});
    } else {
        assert((unsigned char)c < 0x20);
        buf_add(buf, STR("\\u00"));
        buf_add_hex(buf, (uint8_t[]){(uint8_t)c}, 1);
    }
}

void json_put_string(struct json_writer *writer, struct str text)
{
    if (!str_is_set(text)) {
        json_put_null(writer);
        return;
    }
    struct buf *buf = writer->buf;
    before_value(writer);
    buf_add_char(buf, '"');
    const char *at = text.at;
    const char *last = text.at + text.len;
    for (;;) {
        const char *stop = scan_unescaped(at, last);
        buf_add(buf, (struct str){at, (size_t)(stop - at)});
        if (stop == last)
            break;
        put_escape(buf, *stop);
        at = stop + 1;
    }
    buf_add_char(buf, '"');
}

void json_put_int(struct json_writer *writer, int64_t value)
{
    before_value(writer);
    buf_add_int(writer->buf, value);
}

void json_put_bool(struct json_writer *writer, bool value)
{
    put_text(writer, value ? STR("true") : STR("false"));
}

void json_put_null(struct json_writer *writer)
{
    put_text(writer, STR("null"));
}

void json_put_raw(struct json_writer *writer, struct str raw)
{
    assert(!str_is_set(raw) || raw.len > 0);
    put_text(writer, str_is_set(raw) ? raw : STR("null"));
}

void json_put_time(struct json_writer *writer, int64_t time_ms)
{
    char text[TIME_TEXT_LEN + 2];
    text[0] = '"';
    time_format(time_ms, text + 1);
    text[TIME_TEXT_LEN + 1] = '"';
    put_text(writer, (struct str){text, sizeof text});
}

void json_put_hex(struct json_writer *writer, const uint8_t *bytes, size_t len)
{
    before_value(writer);
    buf_add_char(writer->buf, '"');
    buf_add_hex(writer->buf, bytes, len);
    buf_add_char(writer->buf, '"');
}
