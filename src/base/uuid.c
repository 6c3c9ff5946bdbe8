#include "base/uuid.h"

#include <assert.h>
#include <stddef.h>

#include "base/hex.h"

static void set_version(struct uuid *id, unsigned version)
{
    assert(version >= 1 && version <= 8);
    id->bytes[6] = (uint8_t)((id->bytes[6] & 0x0f) | version << 4);
    id->bytes[8] = (uint8_t)((id->bytes[8] & 0x3f) | 0x80);
}

struct uuid uuid_v7(int64_t time_ms, const uint8_t random[10])
{
    assert(time_ms >= 0);
    assert(time_ms < INT64_C(1) << 48);
    struct uuid id;
    for (int i = 0; i < 6; i++)
        id.bytes[i] = (uint8_t)(time_ms >> (40 - 8 * i));
    memcpy(id.bytes + 6, random, 10);
    set_version(&id, 7);
    return id;
}

struct uuid uuid_v8(const uint8_t hash[16])
{
    struct uuid id;
    memcpy(id.bytes, hash, sizeof id.bytes);
    set_version(&id, 8);
    return id;
}

/* A dash stands before the byte with this index. */
static bool dash_before(size_t index)
{
    return index == 4 || index == 6 || index == 8 || index == 10;
}

void uuid_format(struct uuid id, char ret[UUID_TEXT_LEN])
{
    static const char digits[] = "0123456789abcdef";
    char *out = ret;
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        if (dash_before(i))
            *out++ = '-';
        *out++ = digits[id.bytes[i] >> 4];
        *out++ = digits[id.bytes[i] & 15];
    }
    assert(out == ret + UUID_TEXT_LEN);
}

bool uuid_parse(struct str text, struct uuid *ret)
{
    assert(ret != NULL);
    if (text.len != UUID_TEXT_LEN)
        return false;
    struct uuid id;
    const char *at = text.at;
    for (size_t i = 0; i < sizeof id.bytes; i++) {
        if (dash_before(i) && *at++ != '-')
            return false;
        int high = hex_value(at[0]);
        int low = hex_value(at[1]);
        if (high < 0 || low < 0)
            return false;
        id.bytes[i] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    assert(at == text.at + UUID_TEXT_LEN);
    *ret = id;
    return true;
}
