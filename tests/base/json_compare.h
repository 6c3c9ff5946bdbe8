/* Compares base's JSON with jansson's on one text, and reads the text with every reader, checked or
 * not. Used by the differential test and by the fuzzer.
 *
 * Where the two differ on purpose, the difference is named here, and is allowed only when the text
 * really has what it is about. */
#ifndef PAWL_TESTS_JSON_COMPARE_H
#define PAWL_TESTS_JSON_COMPARE_H

#include <math.h>
#include <stdint.h>

/* jansson gives the same names to other things. Those of its type codes are changed for its header;
 * its json_type and json_string are not used here at all. */
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_STRING JANSSON_STRING
#define JSON_INTEGER JANSSON_INTEGER
#define JSON_REAL JANSSON_REAL
#define JSON_TRUE JANSSON_TRUE
#define JSON_FALSE JANSSON_FALSE
#define JSON_NULL JANSSON_NULL
#define json_type jansson_type
#define json_string jansson_string
#include <jansson.h>
#undef JSON_OBJECT
#undef JSON_ARRAY
#undef JSON_STRING
#undef JSON_INTEGER
#undef JSON_REAL
#undef JSON_TRUE
#undef JSON_FALSE
#undef JSON_NULL
#undef json_type
#undef json_string

#include "base/json.h"
#include "base/utf8.h"

enum json_verdict {
    JSON_BOTH_ACCEPT,
    JSON_BOTH_REFUSE,
    /* jansson keeps integers as int64 and reals as doubles, and refuses what does not fit. We keep
     * the text. */
    JSON_OURS_ACCEPTS_NUMBER,
    /* jansson's keys end at a NUL, so it refuses keys with \u0000. Ours are views. */
    JSON_OURS_ACCEPTS_NUL_KEY,
    /* jansson goes 2,048 levels deep, we go 64. */
    JSON_OURS_REFUSES_DEPTH,
    /* jansson loses a NUL byte right after a number or a literal. It is never JSON. */
    JSON_OURS_REFUSES_NUL,
    JSON_VERDICTS,
};

/* What a walk over a text met. */
struct json_tour {
    struct arena *arena;
    const char *start;
    const char *end;
    const char *wrong;     /* a promise that did not hold */
    bool damaged;          /* a reader refused something */
    bool number_too_large; /* for int64 in plain form, or for a double */
    bool nul_in_key;
    size_t values;
};

static inline void tour_expect(struct json_tour *tour, bool holds, const char *promise)
{
    if (!holds && tour->wrong == NULL)
        tour->wrong = promise;
}

static inline void tour_number(struct json_tour *tour, struct str value)
{
    int64_t integer = 0;
    double real = 0;
    bool has_integer = json_int64(value, &integer);
    bool has_real = json_double(value, &real);
    bool plain = memchr(value.at, '.', value.len) == NULL &&
                 memchr(value.at, 'e', value.len) == NULL &&
                 memchr(value.at, 'E', value.len) == NULL;
    tour->number_too_large = tour->number_too_large || (plain ? !has_integer : !has_real);
    tour_expect(tour, !has_integer || has_real, "every int64 is a double too");
    tour_expect(tour, !has_integer || real == (double)integer, "both readers agree on integers");
}

static inline void tour_string(struct json_tour *tour, struct str raw, bool is_key)
{
    struct str text = {NULL, 0};
    if (!json_string(raw, tour->arena, &text)) {
        tour->damaged = true;
        return;
    }
    tour_expect(tour, utf8_valid(text), "decoded strings are UTF-8");
    bool has_nul = text.len > 0 && memchr(text.at, '\0', text.len) != NULL;
    tour->nul_in_key = tour->nul_in_key || (is_key && has_nul);
    bool same = str_eq(text, STR("id"));
    tour_expect(tour, json_key_is(raw, STR("id")) == same, "json_key_is compares decoded text");
}

/* Goes one level down for each level that the readers walk, so no deeper than they do. */
static inline void tour_value(struct json_tour *tour, struct str value)
{
    struct json_iter iter;
    struct str key;
    struct str inner;
    size_t count = 0;
    bool flag = false;
    tour->values++;
    tour_expect(tour, value.len > 0 && value.at >= tour->start && value.at + value.len <= tour->end,
                "values lie within the text");
    switch (json_type(value)) {
    case JSON_OBJECT:
        (void)json_object_begin(&iter, value);
        while (json_object_next(&iter, &key, &inner)) {
            tour_string(tour, key, true);
            tour_value(tour, inner);
            count++;
        }
        tour->damaged = tour->damaged || !json_iter_ok(&iter);
        tour_expect(tour, json_count(value) == (json_iter_ok(&iter) ? count : 0),
                    "json_count counts");
        break;
    case JSON_ARRAY:
        (void)json_array_begin(&iter, value);
        while (json_array_next(&iter, &inner)) {
            tour_value(tour, inner);
            count++;
        }
        tour->damaged = tour->damaged || !json_iter_ok(&iter);
        tour_expect(tour, json_count(value) == (json_iter_ok(&iter) ? count : 0),
                    "json_count counts");
        break;
    case JSON_STRING:
        tour_string(tour, value, false);
        break;
    case JSON_NUMBER:
        tour_number(tour, value);
        break;
    case JSON_BOOL:
        tour->damaged = tour->damaged || !json_bool(value, &flag);
        break;
    case JSON_NULL:
        tour->damaged = tour->damaged || !str_eq(value, STR("null"));
        break;
    case JSON_INVALID:
        tour->damaged = true;
        break;
    }
}

/* Compares a value that we read with jansson's; NULL when they are equal. */
static inline const char *compare_value(struct str value, const json_t *theirs,
                                        struct arena *arena);

static inline const char *compare_object(struct str value, const json_t *theirs,
                                         struct arena *arena)
{
    struct json_iter iter;
    struct str key;
    struct str inner;
    if (!json_object_begin(&iter, value) || json_count(value) != json_object_size(theirs))
        return "an object of another size";
    while (json_object_next(&iter, &key, &inner)) {
        struct str name;
        if (!json_string(key, arena, &name))
            return "a key cannot be read";
        const json_t *member = json_object_getn(theirs, name.at, name.len);
        if (member == NULL)
            return "a key that jansson does not have";
        const char *difference = compare_value(inner, member, arena);
        if (difference != NULL)
            return difference;
    }
    return json_iter_ok(&iter) ? NULL : "an object that does not end";
}

static inline const char *compare_array(struct str value, const json_t *theirs, struct arena *arena)
{
    struct json_iter iter;
    struct str inner;
    size_t index = 0;
    if (!json_array_begin(&iter, value) || json_count(value) != json_array_size(theirs))
        return "an array of another size";
    while (json_array_next(&iter, &inner)) {
        const char *difference = compare_value(inner, json_array_get(theirs, index), arena);
        if (difference != NULL)
            return difference;
        index++;
    }
    return json_iter_ok(&iter) ? NULL : "an array that does not end";
}

static inline const char *compare_value(struct str value, const json_t *theirs, struct arena *arena)
{
    struct str text;
    int64_t integer;
    double real;
    bool flag;
    switch (json_typeof(theirs)) {
    case JANSSON_OBJECT:
        return compare_object(value, theirs, arena);
    case JANSSON_ARRAY:
        return compare_array(value, theirs, arena);
    case JANSSON_STRING:
        return json_string(value, arena, &text) && text.len == json_string_length(theirs) &&
                       memcmp(text.at, json_string_value(theirs), text.len) == 0
                   ? NULL
                   : "another string";
    case JANSSON_INTEGER:
        return json_int64(value, &integer) && integer == json_integer_value(theirs)
                   ? NULL
                   : "another integer";
    case JANSSON_REAL:
        return json_double(value, &real) && real == json_real_value(theirs) &&
                       signbit(real) == signbit(json_real_value(theirs))
                   ? NULL
                   : "another real";
    case JANSSON_TRUE:
    case JANSSON_FALSE:
        return json_bool(value, &flag) && flag == (json_typeof(theirs) == JANSSON_TRUE)
                   ? NULL
                   : "another flag";
    default:
        return str_eq(value, STR("null")) ? NULL : "another null";
    }
}

/* How deep the brackets of a text that jansson took are nested. */
static inline size_t depth_of(struct str text)
{
    size_t depth = 0;
    size_t deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (in_string) {
            i += c == '\\' ? 1 : 0;
            in_string = c != '"';
        } else if (c == '[' || c == '{') {
            depth++;
            deepest = depth > deepest ? depth : deepest;
        } else {
            depth -= c == ']' || c == '}' ? 1 : 0;
            in_string = c == '"';
        }
    }
    return deepest;
}

/* Says what is wrong when the two differ and should not, or when a promise of the readers does not
 * hold; else NULL, and which of the allowed outcomes it was. */
static inline const char *json_compare(struct str text, struct arena *arena,
                                       enum json_verdict *ret_verdict)
{
    struct err err;
    enum error_code code = json_check(text, SIZE_MAX, "text", arena, &err);
    if (code != ERR_OK && code != ERR_BAD_REQUEST)
        return "json_check fails with a code of its own";
    bool ours = code == ERR_OK;
    struct str trimmed = json_trim(text);
    struct json_tour tour = {.arena = arena, .start = text.at, .end = text.at + text.len};
    if (trimmed.len > 0)
        tour_value(&tour, trimmed);
    if (tour.wrong != NULL)
        return tour.wrong;
    if (ours && (tour.damaged || tour.values == 0))
        return "the readers refuse a checked text";

    json_error_t error;
    json_t *theirs = json_loadb(text.at, text.len,
                                JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    const char *difference = NULL;
    if (ours && theirs != NULL) {
        *ret_verdict = JSON_BOTH_ACCEPT;
        difference = compare_value(trimmed, theirs, arena);
    } else if (!ours && theirs == NULL) {
        *ret_verdict = JSON_BOTH_REFUSE;
    } else if (!ours && memchr(text.at, '\0', text.len) != NULL) {
        *ret_verdict = JSON_OURS_REFUSES_NUL;
    } else if (!ours) {
        *ret_verdict = JSON_OURS_REFUSES_DEPTH;
        difference = depth_of(text) > JSON_DEPTH_MAX ? NULL : "we refuse what jansson accepts";
    } else if (json_error_code(&error) == json_error_numeric_overflow && tour.number_too_large) {
        *ret_verdict = JSON_OURS_ACCEPTS_NUMBER;
    } else if (json_error_code(&error) == json_error_null_byte_in_key && tour.nul_in_key) {
        *ret_verdict = JSON_OURS_ACCEPTS_NUL_KEY;
    } else {
        difference = "we accept what jansson refuses";
    }
    json_decref(theirs);
    return difference;
}

#endif
