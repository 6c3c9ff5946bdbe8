#include "store/codec.h"

#include "store/store.h"

void key_int(struct buf *key, int64_t value)
{
    uint64_t bits = (uint64_t)value ^ (UINT64_C(1) << 63);
    char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(uint8_t)(bits >> (56 - 8 * i));
    buf_add(key, (struct str){bytes, sizeof bytes});
}

void key_uuid(struct buf *key, struct uuid id)
{
    buf_add(key, (struct str){(const char *)id.bytes, sizeof id.bytes});
}

void key_text(struct buf *key, struct str text)
{
    struct str rest = text;
    while (rest.len > 0) {
        const char *zero = memchr(rest.at, '\0', rest.len);
        size_t plain = zero == NULL ? rest.len : (size_t)(zero - rest.at);
        buf_add(key, (struct str){rest.at, plain});
        if (zero == NULL)
            break;
        buf_add(key, (struct str){"\0\1", 2});
        rest = (struct str){zero + 1, rest.len - plain - 1};
    }
    buf_add(key, (struct str){"\0\0", 2});
}

void key_step(struct buf *key, uint32_t step)
{
    uint32_t order = step == STEP_NONE ? 0 : step + 1;
    char bytes[4] = {(char)(uint8_t)(order >> 24), (char)(uint8_t)(order >> 16),
                     (char)(uint8_t)(order >> 8), (char)(uint8_t)order};
    buf_add(key, (struct str){bytes, sizeof bytes});
}

struct reader reader_of(struct str bytes)
{
    const char *at = str_start(bytes);
    return (struct reader){.at = at, .end = at + bytes.len};
}

/* The next `len` bytes, or NULL when there are not so many. */
static const char *take(struct reader *reader, size_t len)
{
    if (reader->bad || (size_t)(reader->end - reader->at) < len) {
        reader->bad = true;
        return NULL;
    }
    const char *at = reader->at;
    reader->at += len;
    return at;
}

int64_t read_key_int(struct reader *reader)
{
    const char *at = take(reader, 8);
    if (at == NULL)
        return 0;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | (uint8_t)at[i];
    return (int64_t)(bits ^ (UINT64_C(1) << 63));
}

struct uuid read_key_uuid(struct reader *reader)
{
    struct uuid id = {0};
    read_bytes(reader, id.bytes, sizeof id.bytes);
    return id;
}

uint32_t read_key_step(struct reader *reader)
{
    const char *at = take(reader, 4);
    if (at == NULL)
        return 0;
    uint32_t order = 0;
    for (int i = 0; i < 4; i++)
        order = order << 8 | (uint8_t)at[i];
    return order == 0 ? STEP_NONE : order - 1;
}

/* Seven bits a byte, the low ones first. */
static void value_number(struct buf *value, uint64_t number)
{
    while (number >= 0x80) {
        buf_add_char(value, (char)(uint8_t)(number | 0x80));
        number >>= 7;
    }
    buf_add_char(value, (char)(uint8_t)number);
}

static uint64_t read_number(struct reader *reader)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const char *at = take(reader, 1);
        if (at == NULL)
            return 0;
        number |= (uint64_t)((uint8_t)*at & 0x7f) << shift;
        if (((uint8_t)*at & 0x80) == 0)
            return number;
    }
    reader->bad = true;
    return 0;
}

void value_int(struct buf *value, int64_t number)
{
    /* Small numbers are short, whatever their sign. */
    uint64_t bits = (uint64_t)number << 1;
    value_number(value, number < 0 ? ~bits : bits);
}

int64_t read_int(struct reader *reader)
{
    uint64_t bits = read_number(reader);
    return (int64_t)((bits & 1) != 0 ? ~(bits >> 1) : bits >> 1);
}

void value_text(struct buf *value, struct str text)
{
    value_number(value, str_is_set(text) ? (uint64_t)text.len + 1 : 0);
    buf_add(value, text);
}

struct str read_text(struct reader *reader)
{
    uint64_t len = read_number(reader);
    if (len == 0)
        return (struct str){NULL, 0};
    const char *at = take(reader, (size_t)(len - 1));
    return at == NULL ? (struct str){NULL, 0} : (struct str){at, (size_t)(len - 1)};
}

void value_bytes(struct buf *value, const uint8_t *bytes, size_t len)
{
    buf_add(value, (struct str){(const char *)bytes, len});
}

void read_bytes(struct reader *reader, uint8_t *ret, size_t len)
{
    const char *at = take(reader, len);
    if (at == NULL)
        memset(ret, 0, len);
    else
        memcpy(ret, at, len);
}
