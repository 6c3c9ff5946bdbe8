/* C structs as JSON objects, driven by a table of their fields.
 *
 * One table serves to read a request or a stored payload, to write it, and to compare two structs.
 * A field is absent when it is zero (numbers, enums, flags, hashes) or unset (views): absent fields
 * are not written, and reading leaves the members of absent fields as they were. So writing what
 * was read into a zeroed struct gives the same fields again. */
#ifndef PAWL_BASE_RECORD_H
#define PAWL_BASE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

enum {
    NAME_BYTES_MAX = 128,
    TEXT_BYTES_MAX = 64 * 1024,
};

enum record_kind {
    RECORD_NAME,   /* struct str: 1 to 128 bytes without control characters */
    RECORD_TEXT,   /* struct str: at most `max` bytes, or TEXT_BYTES_MAX where max is 0 */
    RECORD_JSON,   /* struct str: any value, raw; null counts as absent */
    RECORD_OBJECT, /* struct str: an object, raw */
    RECORD_ARRAY,  /* struct str: an array, raw */
    RECORD_INT,    /* int64_t: in min..max, or 0..INT64_MAX where both are 0 */
    RECORD_MILLI,  /* int64_t: a decimal number, kept in thousandths; in min..max as RECORD_INT */
    RECORD_TIME,   /* int64_t: RFC 3339 text, kept as milliseconds since 1970 */
    RECORD_BOOL,   /* bool */
    RECORD_HEX,    /* uint8_t[]: lower-case hex digits, exactly as many as fill the member */
    RECORD_ENUM,   /* an enum: one of `names`, whose index is the value; index 0 is absent */
    RECORD_NUMBER, /* an enum, as its number in min..max as RECORD_INT; written even when 0 */
    RECORD_NESTED, /* a struct with a table of its own; absent when all of it is absent */
};

struct record_type;

/* The texts of an enum; names[0] is for "absent" and is never read or written. */
struct record_names {
    const struct str *at;
    size_t count;
};

struct record_field {
    struct str name;
    enum record_kind kind;
    uint32_t offset;
    uint32_t size; /* of the member */
    int64_t min;
    int64_t max;
    const struct record_names *names; /* RECORD_ENUM */
    const struct record_type *nested; /* RECORD_NESTED */
};

struct record_type {
    const struct record_field *fields;
    size_t count; /* at most 64 */
};

/* For `mask` arguments: field i is bit i. */
#define RECORD_ALL UINT64_MAX

/* Where an object comes from. The limits of the day are for requests: what was stored under other
 * limits must be readable for ever. */
enum record_source {
    RECORD_REQUEST, /* ranges and lengths hold; unknown_field names what is not in the table */
    RECORD_QUERY,   /* as a request, but numbers and flags may be strings: "50", "true" */
    RECORD_STORED, /* numbers are within ±2^53; a field that a newer version wrote is left alone */
};

/* Reads the object `json` into `record`. The text must have passed json_check; decoded strings that
 * had escapes are in `arena`, others are views of `json`. Fields outside `mask` are not in the
 * table. Errors name `what` (NULL: nothing) and the field, with its path when it is nested:
 * bad_request for a wrong type or range, unknown_field, no_memory; `record` may then be partly
 * filled. */
enum error_code record_read(const struct record_type *type, struct str json, uint64_t mask,
                            enum record_source source, const char *what, struct arena *arena,
                            void *record, struct err *err);

/* Writes the fields of `mask` that are set, in the table's order, as members of the object that the
 * writer is in. */
void record_write(const struct record_type *type, const void *record, uint64_t mask,
                  struct json_writer *writer);

/* NULL when the fields of `mask` are equal in both; else the first field that is not. Raw JSON is
 * compared byte by byte. */
const struct record_field *record_differs(const struct record_type *type, const void *a,
                                          const void *b, uint64_t mask);

/* Makes copies in `arena` of all texts that `record` has views of; false when there is no memory,
 * with the rest as it was. */
bool record_copy_texts(const struct record_type *type, void *record, struct arena *arena);

/* The index of `text` in `names`, or 0 when it is not there. */
int record_enum(const struct record_names *names, struct str text);

/* Checks a name as RECORD_NAME does: bad_request with `what` when it is empty, over 128 bytes, has
 * control characters, or is not UTF-8. */
enum error_code record_check_name(struct str name, const char *what, struct err *err);

/* What a request names must look like what it is: refuses bidirectional controls, joiners and other
 * characters of format (bad_request). Stored names are not asked: they may be older than this rule.
 */
enum error_code record_check_shown(struct str name, const char *what, struct err *err);

/* The same without words. */
bool record_is_name(struct str name);

/* Decodes a string value of checked JSON, wherever it stands: bad_request with `what` when it is
 * not a string; no_memory. As json_string, but tells the two apart. */
enum error_code record_string(struct str raw, const char *what, struct arena *arena,
                              struct str *ret, struct err *err);

/* Reads `size` bytes from exactly twice as many lower-case hex digits; false for anything else. */
bool record_hex(struct str digits, uint8_t *ret, size_t size);

/* Entries of a table: RECORD_FIELD(struct lease, worker_id, "worker_id", NAME). */
#define RECORD_SIZE(type, member) (uint32_t)sizeof(((type *)0)->member)
#define RECORD_FIELD(type, member, text, kind_)                                                    \
    {                                                                                              \
        .name = STR_INIT(text), .kind = RECORD_##kind_,                                            \
        .offset = (uint32_t)offsetof(type, member), .size = RECORD_SIZE(type, member)              \
    }
#define RECORD_FIELD_RANGE(type, member, text, kind_, min_, max_)                                  \
    {                                                                                              \
        .name = STR_INIT(text), .kind = RECORD_##kind_,                                            \
        .offset = (uint32_t)offsetof(type, member), .size = RECORD_SIZE(type, member),             \
        .min = (min_), .max = (max_)                                                               \
    }
#define RECORD_FIELD_ENUM(type, member, text, names_)                                              \
    {                                                                                              \
        .name = STR_INIT(text), .kind = RECORD_ENUM, .offset = (uint32_t)offsetof(type, member),   \
        .size = RECORD_SIZE(type, member), .names = &(names_)                                      \
    }
#define RECORD_FIELD_NESTED(type, member, text, nested_)                                           \
    {                                                                                              \
        .name = STR_INIT(text), .kind = RECORD_NESTED, .offset = (uint32_t)offsetof(type, member), \
        .size = RECORD_SIZE(type, member), .nested = &(nested_)                                    \
    }

/* The type that a table `name_fields` makes: RECORD_TABLE(cancel); defines cancel_record. */
#define RECORD_TABLE(name)                                                                         \
    static const struct record_type name##_record = {name##_fields, sizeof name##_fields /         \
                                                                        sizeof name##_fields[0]}

#endif
