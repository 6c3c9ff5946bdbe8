#include "base/record_pack.h"

#include <assert.h>
#include <limits.h>

enum form { FORM_NUMBER, FORM_BYTES, FORM_TRUE, FORM_RECORD };

enum { VARINT_MAX = 10, FORM_BITS = 2 };

/* ---- writing ---- */

static void put_byte(struct buf *buf, unsigned byte)
{
    buf_add_char(buf, (char)byte);
}

static void put_tag(struct buf *buf, unsigned place, enum form form)
{
    put_byte(buf, place << FORM_BITS | (unsigned)form);
}

static void put_varint(struct buf *buf, uint64_t value)
{
    char bytes[VARINT_MAX];
    size_t len = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[len++] = (char)(value | 0x80);
    bytes[len++] = (char)value;
    buf_add(buf, (struct str){bytes, len});
}

static void put_number(struct buf *buf, unsigned place, int64_t value)
{
    put_tag(buf, place, FORM_NUMBER);
    put_varint(buf, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_bytes(struct buf *buf, unsigned place, struct str bytes)
{
    put_tag(buf, place, FORM_BYTES);
    put_varint(buf, bytes.len);
    buf_add(buf, bytes);
}

static unsigned read_enum(const void *member)
{
    unsigned word;
    memcpy(&word, member, sizeof word);
    return word;
}

static void pack_fields(const struct record_type *type, const char *base, uint64_t mask,
                        struct buf *buf);

/* Leaves no trace of a record without fields. */
static void pack_nested(const struct record_field *field, unsigned place, const char *member,
                        struct buf *buf)
{
    size_t before = buf->len;
    put_tag(buf, place, FORM_RECORD);
    size_t empty = buf->len;
    pack_fields(field->nested, member, RECORD_ALL, buf);
    if (buf->len == empty)
        buf->len = before;
    else
        put_byte(buf, RECORD_PACK_END);
}

static void pack_field(const struct record_field *field, unsigned place, const char *member,
                       struct buf *buf)
{
    static const uint8_t zero[64];
    struct str text;
    int64_t number;
    switch (field->kind) {
    case RECORD_NAME:
    case RECORD_TEXT:
    case RECORD_JSON:
    case RECORD_OBJECT:
    case RECORD_ARRAY:
        text = *(const struct str *)(const void *)member;
        if (str_is_set(text))
            put_bytes(buf, place, text);
        break;
    case RECORD_INT:
    case RECORD_MILLI:
    case RECORD_TIME:
        memcpy(&number, member, sizeof number);
        if (number != 0)
            put_number(buf, place, number);
        break;
    case RECORD_ENUM:
    case RECORD_NUMBER:
        if (read_enum(member) != 0)
            put_number(buf, place, read_enum(member));
        break;
    case RECORD_BOOL:
        if (*(const bool *)(const void *)member)
            put_tag(buf, place, FORM_TRUE);
        break;
    case RECORD_HEX:
        assert(field->size <= sizeof zero);
        if (memcmp(member, zero, field->size) != 0)
            put_bytes(buf, place, (struct str){member, field->size});
        break;
    case RECORD_NESTED:
        pack_nested(field, place, member, buf);
        break;
    }
}

static void pack_fields(const struct record_type *type, const char *base, uint64_t mask,
                        struct buf *buf)
{
    for (size_t i = 0; i < type->count; i++)
        if ((mask >> i & 1) != 0)
            pack_field(&type->fields[i], (unsigned)i, base + type->fields[i].offset, buf);
}

void record_pack(const struct record_type *type, const void *record, uint64_t mask, struct buf *buf)
{
    /* The last place would make a byte that is RECORD_PACK_END. */
    assert(type->count < 63);
    put_byte(buf, RECORD_PACK_MARK);
    pack_fields(type, record, mask, buf);
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

static bool take_varint(struct reader *reader, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = value;
            return shift < 63 || byte <= 1;
        }
    }
    return false;
}

static bool take_number(struct reader *reader, int64_t *ret)
{
    uint64_t value;
    if (!take_varint(reader, &value))
        return false;
    *ret = (int64_t)(value >> 1 ^ (0 - (value & 1)));
    return true;
}

static bool take_bytes(struct reader *reader, struct str *ret)
{
    uint64_t len;
    if (!take_varint(reader, &len) || len > (uint64_t)(reader->end - reader->at))
        return false;
    *ret = (struct str){(const char *)reader->at, (size_t)len};
    reader->at += len;
    return true;
}

static bool store_number(const struct record_field *field, int64_t value, char *member)
{
    unsigned word = (unsigned)value;
    switch (field->kind) {
    case RECORD_INT:
    case RECORD_MILLI:
    case RECORD_TIME:
        memcpy(member, &value, sizeof value);
        return true;
    case RECORD_ENUM:
        memcpy(member, &word, sizeof word);
        return value > 0 && (uint64_t)value < field->names->count;
    case RECORD_NUMBER:
        memcpy(member, &word, sizeof word);
        return value > 0 && value <= (field->max == 0 ? INT_MAX : field->max);
    default:
        return false;
    }
}

static bool store_bytes(const struct record_field *field, struct str bytes, char *member)
{
    if (field->kind == RECORD_HEX && bytes.len == field->size) {
        memcpy(member, bytes.at, bytes.len);
        return true;
    }
    if (field->kind > RECORD_ARRAY)
        return false;
    *(struct str *)(void *)member = bytes;
    return true;
}

static bool unpack_fields(struct reader *reader, const struct record_type *type, uint64_t mask,
                          char *base, bool nested);

/* A field that is not known here is read, and left alone; in it nothing more is nested, so that
 * damaged bytes cannot lead deeper than the tables do. */
static bool unpack_field(struct reader *reader, enum form form, const struct record_field *field,
                         bool known_around, char *member)
{
    static const struct record_type unknown = {NULL, 0};
    int64_t number;
    struct str bytes;
    switch (form) {
    case FORM_NUMBER:
        return take_number(reader, &number) &&
               (field == NULL || store_number(field, number, member));
    case FORM_BYTES:
        return take_bytes(reader, &bytes) && (field == NULL || store_bytes(field, bytes, member));
    case FORM_TRUE:
        if (field != NULL && field->kind == RECORD_BOOL)
            *(bool *)(void *)member = true;
        return field == NULL || field->kind == RECORD_BOOL;
    case FORM_RECORD:
        break;
    }
    if (field != NULL && field->kind != RECORD_NESTED)
        return false;
    if (field == NULL && !known_around)
        return false;
    return unpack_fields(reader, field == NULL ? &unknown : field->nested, RECORD_ALL, member,
                         true);
}

/* Up to the end, of the text or (`nested`) of this record. Places rise. */
static bool unpack_fields(struct reader *reader, const struct record_type *type, uint64_t mask,
                          char *base, bool nested)
{
    int last = -1;
    while (reader->at < reader->end && *reader->at != RECORD_PACK_END) {
        uint8_t tag = *reader->at++;
        int place = tag >> FORM_BITS;
        bool known = (size_t)place < type->count && (mask >> place & 1) != 0;
        const struct record_field *field = known ? &type->fields[place] : NULL;
        if (place <= last || !unpack_field(reader, (enum form)(tag & 3), field, type->count > 0,
                                           known ? base + field->offset : NULL))
            return false;
        last = place;
    }
    if (!nested)
        return reader->at == reader->end;
    return reader->at++ < reader->end;
}

bool record_is_packed(struct str text)
{
    return text.len > 0 && text.at[0] == RECORD_PACK_MARK;
}

bool record_unpack(const struct record_type *type, struct str packed, uint64_t mask, void *record)
{
    const uint8_t *bytes = (const uint8_t *)packed.at;
    struct reader reader = {bytes + 1, bytes + packed.len};
    return record_is_packed(packed) && unpack_fields(&reader, type, mask, record, false);
}
