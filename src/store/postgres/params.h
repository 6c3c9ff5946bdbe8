/* The parameters of a statement in PostgreSQL's binary form, arrays above all: a batch is sent as
 * one array a column. Memory that runs out is remembered until the statement is sent. */
#ifndef PAWL_STORE_POSTGRES_PARAMS_H
#define PAWL_STORE_POSTGRES_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/uuid.h"

enum { PARAMS_MAX = 32 };

/* The types that parameters have here, by PostgreSQL's fixed numbers. */
enum param_type {
    PARAM_BOOL = 16,
    PARAM_BYTEA = 17,
    PARAM_INT8 = 20,
    PARAM_INT4 = 23,
    PARAM_TEXT = 25,
    PARAM_JSON = 114,
    PARAM_TIME = 1184, /* timestamptz */
    PARAM_UUID = 2950,
    PARAM_TID = 27,
    /* By the names that they have in SQL. */
    PARAM_OF_bool = PARAM_BOOL,
    PARAM_OF_bytea = PARAM_BYTEA,
    PARAM_OF_int8 = PARAM_INT8,
    PARAM_OF_int4 = PARAM_INT4,
    PARAM_OF_text = PARAM_TEXT,
    PARAM_OF_json = PARAM_JSON,
    PARAM_OF_timestamptz = PARAM_TIME,
    PARAM_OF_uuid = PARAM_UUID,
};

struct params {
    struct arena *arena;
    int count;
    bool failed; /* there was no memory, or too much data */
    Oid types[PARAMS_MAX];
    const char *values[PARAMS_MAX];
    int lengths[PARAMS_MAX];
    int formats[PARAMS_MAX];
};

/* An array that is being built. */
struct array {
    enum param_type type;
    uint32_t count;
    uint32_t nulls; /* of these */
    struct buf buf;
};

void params_init(struct params *params, struct arena *arena);

/* Adds the next parameter; what is absent goes as NULL. */
void params_add_int8(struct params *params, int64_t value);
void params_add_null(struct params *params, enum param_type type);
void params_add_str(struct params *params, enum param_type type, struct str value);
void params_add_uuid(struct params *params, struct uuid value);
void params_add_time(struct params *params, int64_t time_ms);

/* One that is nothing but NULLs goes as an empty one: unnest of several arrays fills the short ones
 * up with NULLs, which costs nothing on the way. */
void params_add_array(struct params *params, struct array *array);

/* An empty array with room for about `count` elements. */
void array_init(struct array *array, struct arena *arena, enum param_type type, uint32_t count);

/* Each adds an element to an array of its type. */
void array_add_int8(struct array *array, int64_t value);
void array_add_int4(struct array *array, int64_t value);
void array_add_int4_set(struct array *array, int64_t value); /* 0 goes as NULL */
void array_add_bool(struct array *array, bool value);
void array_add_uuid(struct array *array, struct uuid value);
void array_add_tid(struct array *array, const uint8_t *tid); /* TID_LEN bytes */
void array_add_time(struct array *array, int64_t time_ms);
void array_add_bytes(struct array *array, const uint8_t *bytes, size_t len);
void array_add_null(struct array *array);

/* PARAM_TEXT, PARAM_JSON or PARAM_BYTEA; absent goes as NULL. */
void array_add_str(struct array *array, struct str value);

/* Text that may have NUL characters, which PostgreSQL does not take, is written with escapes that
 * reader_free_text undoes. */
void array_add_free_text(struct array *array, struct str value);

#endif
