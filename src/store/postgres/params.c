#include "store/postgres/params.h"

#include <assert.h>
#include <limits.h>

#include "store/postgres/reader.h"

enum {
    ARRAY_HEADER = 20,        /* dimensions, flags, element type, length, lower bound */
    ARRAY_BYTES_MAX = 1 << 29 /* half of what the server takes */
};

static void put_int4(char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(value >> (24 - 8 * i));
}

static void put_int8(char *at, uint64_t value)
{
    put_int4(at, (uint32_t)(value >> 32));
    put_int4(at + 4, (uint32_t)value);
}

static int64_t time_to_wire(int64_t time_ms)
{
    return (time_ms - EPOCH_2000_MS) * 1000;
}

void params_init(struct params *params, struct arena *arena)
{
    params->arena = arena;
    params->count = 0;
    params->failed = false;
}

static void add(struct params *params, Oid type, struct str value)
{
    assert(params->count < PARAMS_MAX);
    int at = params->count++;
    if (value.len > ARRAY_BYTES_MAX)
        params->failed = true;
    params->types[at] = type;
    params->values[at] = value.at;
    params->lengths[at] = params->failed ? 0 : (int)value.len;
    params->formats[at] = 1;
}

/* A parameter of fixed size, to be filled by the caller. */
static char *add_fixed(struct params *params, Oid type, size_t size)
{
    char *at = arena_alloc(params->arena, size);
    if (at == NULL)
        params->failed = true;
    add(params, type, (struct str){at, size});
    return at;
}

void params_add_int8(struct params *params, int64_t value)
{
    char *at = add_fixed(params, PARAM_INT8, 8);
    if (at != NULL)
        put_int8(at, (uint64_t)value);
}

void params_add_null(struct params *params, enum param_type type)
{
    add(params, (Oid)type, (struct str){NULL, 0});
}

void params_add_str(struct params *params, enum param_type type, struct str value)
{
    add(params, (Oid)type, value);
}

void params_add_uuid(struct params *params, struct uuid value)
{
    char *at = add_fixed(params, PARAM_UUID, sizeof value.bytes);
    if (at != NULL)
        memcpy(at, value.bytes, sizeof value.bytes);
}

void params_add_time(struct params *params, int64_t time_ms)
{
    char *at = add_fixed(params, PARAM_TIME, 8);
    if (at != NULL)
        put_int8(at, (uint64_t)time_to_wire(time_ms));
}

static Oid array_type(enum param_type type)
{
    switch (type) {
    case PARAM_BOOL:
        return 1000;
    case PARAM_BYTEA:
        return 1001;
    case PARAM_INT8:
        return 1016;
    case PARAM_INT4:
        return 1007;
    case PARAM_TEXT:
        return 1009;
    case PARAM_JSON:
        return 199;
    case PARAM_TIME:
        return 1185;
    case PARAM_UUID:
        return 2951;
    case PARAM_TID:
        return 1010;
    }
    return 0;
}

void params_add_array(struct params *params, struct array *array)
{
    params->failed = params->failed || array->buf.failed || array->buf.len < ARRAY_HEADER;
    bool is_empty = array->count == array->nulls;
    if (!params->failed) {
        put_int4(array->buf.at, !is_empty);
        put_int4(array->buf.at + 4, array->nulls > 0);
        put_int4(array->buf.at + 8, (uint32_t)array->type);
        put_int4(array->buf.at + 12, array->count);
        put_int4(array->buf.at + 16, 1);
        /* An empty array has no dimension, and its header ends before them. */
        if (is_empty)
            array->buf.len = 12;
    }
    add(params, array_type(array->type), buf_str(&array->buf));
}

static size_t usual_width(enum param_type type)
{
    switch (type) {
    case PARAM_BOOL:
        return 1;
    case PARAM_INT4:
        return 4;
    case PARAM_INT8:
    case PARAM_TIME:
        return 8;
    case PARAM_UUID:
        return 16;
    case PARAM_TID:
        return TID_LEN;
    case PARAM_TEXT:
        return 12;
    case PARAM_BYTEA:
        return 32;
    case PARAM_JSON:
        return 256;
    }
    return 0;
}

void array_init(struct array *array, struct arena *arena, enum param_type type, uint32_t count)
{
    array->type = type;
    array->count = 0;
    array->nulls = 0;
    buf_init(&array->buf, arena, ARRAY_HEADER + count * (4 + usual_width(type)));
    char *header = buf_reserve(&array->buf, ARRAY_HEADER);
    if (header != NULL) {
        memset(header, 0, ARRAY_HEADER);
        array->buf.len += ARRAY_HEADER;
    }
}

/* Room for an element of `len` bytes behind its length. */
static char *element(struct array *array, size_t len)
{
    char *at = len < ARRAY_BYTES_MAX ? buf_reserve(&array->buf, 4 + len) : NULL;
    array->count++;
    if (at == NULL) {
        array->buf.failed = true;
        return NULL;
    }
    put_int4(at, (uint32_t)len);
    array->buf.len += 4 + len;
    return at + 4;
}

void array_add_int8(struct array *array, int64_t value)
{
    assert(array->type == PARAM_INT8);
    char *at = element(array, 8);
    if (at != NULL)
        put_int8(at, (uint64_t)value);
}

void array_add_int4(struct array *array, int64_t value)
{
    assert(array->type == PARAM_INT4);
    assert(value >= INT32_MIN && value <= INT32_MAX);
    char *at = element(array, 4);
    if (at != NULL)
        put_int4(at, (uint32_t)value);
}

void array_add_int4_set(struct array *array, int64_t value)
{
    if (value != 0)
        array_add_int4(array, value);
    else
        array_add_null(array);
}

void array_add_bool(struct array *array, bool value)
{
    assert(array->type == PARAM_BOOL);
    char *at = element(array, 1);
    if (at != NULL)
        *at = (char)value;
}

void array_add_uuid(struct array *array, struct uuid value)
{
    assert(array->type == PARAM_UUID);
    char *at = element(array, sizeof value.bytes);
    if (at != NULL)
        memcpy(at, value.bytes, sizeof value.bytes);
}

void array_add_tid(struct array *array, const uint8_t *tid)
{
    assert(array->type == PARAM_TID);
    char *at = element(array, TID_LEN);
    if (at != NULL)
        memcpy(at, tid, TID_LEN);
}

void array_add_time(struct array *array, int64_t time_ms)
{
    assert(array->type == PARAM_TIME);
    char *at = element(array, 8);
    if (at != NULL)
        put_int8(at, (uint64_t)time_to_wire(time_ms));
}

void array_add_bytes(struct array *array, const uint8_t *bytes, size_t len)
{
    assert(array->type == PARAM_BYTEA);
    char *at = element(array, len);
    if (at != NULL && len > 0)
        memcpy(at, bytes, len);
}

void array_add_null(struct array *array)
{
    char *at = buf_reserve(&array->buf, 4);
    array->count++;
    array->nulls++;
    if (at == NULL)
        return;
    put_int4(at, UINT32_MAX);
    array->buf.len += 4;
}

void array_add_str(struct array *array, struct str value)
{
    if (!str_is_set(value)) {
        array_add_null(array);
        return;
    }
    char *at = element(array, value.len);
    if (at != NULL && value.len > 0)
        memcpy(at, value.at, value.len);
}

void array_add_free_text(struct array *array, struct str value)
{
    size_t escapes = 0;
    for (size_t i = 0; i < value.len; i++)
        escapes += (unsigned char)value.at[i] <= FREE_TEXT_ESCAPE;
    if (escapes == 0) {
        array_add_str(array, value);
        return;
    }
    char *at = element(array, value.len + escapes);
    for (size_t i = 0; at != NULL && i < value.len; i++) {
        bool escape = (unsigned char)value.at[i] <= FREE_TEXT_ESCAPE;
        if (escape)
            *at++ = FREE_TEXT_ESCAPE;
        *at++ = escape ? (char)(value.at[i] + '0') : value.at[i];
    }
}
