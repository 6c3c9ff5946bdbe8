/* Strict JSON (RFC 8259) without a tree: values are views of the exact bytes that came in.
 *
 * json_check refuses what is not strict JSON: bad UTF-8, lone surrogates, control characters,
 * duplicate keys (after decoding escapes), numbers out of grammar, trailing bytes, too deep, too
 * large. The readers below walk checked text and hand out raw views, so that 1.10 stays 1.10. They
 * stay within the bytes they were given even when the text was never checked or is damaged, and
 * then fail. */
#ifndef PAWL_BASE_JSON_H
#define PAWL_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

enum {
    JSON_DEPTH_MAX = 64,   /* of a value that comes from outside, */
    JSON_REQUEST_MAX = 72, /* of a request with such values inside, */
    JSON_NESTED_MAX = 128, /* and of our own answers with many of them */
};

enum json_type {
    JSON_INVALID,
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

/* Checks that `text` is one strict JSON value of at most `bytes_max` bytes and JSON_DEPTH_MAX deep.
 * White space around it is allowed. Fails with bad_request (or payload_too_large) and a detail that
 * names the byte offset, calling the text `what`. Scratch memory comes from `arena`. */
enum error_code json_check(struct str text, size_t bytes_max, const char *what, struct arena *arena,
                           struct err *err);

/* The same for a request: up to JSON_REQUEST_MAX deep. Who reads it sees to the values inside. */
enum error_code json_check_request(struct str text, size_t bytes_max, const char *what,
                                   struct arena *arena, struct err *err);

/* The same for text of our own: up to JSON_NESTED_MAX deep. */
enum error_code json_check_answer(struct str text, const char *what, struct arena *arena,
                                  struct err *err);

/* `text` without white space around it. */
struct str json_trim(struct str text);

/* The type of a value, told by its first byte. */
enum json_type json_type(struct str value);

/* Walks an object or an array. */
struct json_iter {
    const char *at;
    const char *end;
    bool first;
};

/* Starts to walk `value`; false when it is not an object (or array). */
bool json_object_begin(struct json_iter *iter, struct str value);
bool json_array_begin(struct json_iter *iter, struct str value);

/* Next member or element; false at the end, and when the text is damaged (then json_iter_ok is
 * false). `key` is raw, quotes included: json_key_is and json_string read it. */
bool json_object_next(struct json_iter *iter, struct str *ret_key, struct str *ret_value);
bool json_array_next(struct json_iter *iter, struct str *ret_value);

/* The raw value of a member of an object; absent when it is not there. */
struct str json_member(struct str object, struct str name);

/* True when the walk ended at the closing bracket and not at damage. */
bool json_iter_ok(const struct json_iter *iter);

/* Number of elements of an array or members of an object; 0 for other values and damaged text. */
size_t json_count(struct str value);

/* How many brackets are open at once, at most; of checked text. */
size_t json_depth(struct str value);

/* True when the raw key (or string value) decodes to `name`. `name` must be plain ASCII without
 * characters that JSON escapes. */
bool json_key_is(struct str raw, struct str name);

/* Decodes a string value. Without escapes the view points into `raw`; else the text is in `arena`.
 * False when it is not a string, is damaged, or there is no memory. */
bool json_string(struct str raw, struct arena *arena, struct str *ret);

/* An integer in plain form (no fraction, no exponent) that fits; false otherwise. */
bool json_int64(struct str raw, int64_t *ret);

/* Any number, as the nearest double; false when it is not a number or not finite. */
bool json_double(struct str raw, double *ret);

bool json_bool(struct str raw, bool *ret);

/* Whether two checked values mean the same: white space, the order of members, escapes in strings
 * and the form of numbers (1.0 and 1, 1e2 and 100) do not matter; numbers are compared exactly, as
 * decimals. Takes at most as long as both are, times how deep they are nested; `seed` is for
 * look-up tables. Fails with no_memory only. */
enum error_code json_alike(struct str a, struct str b, uint64_t seed, struct arena *arena,
                           bool *ret);

/* `target` changed by `patch` (RFC 7396), both checked: members of a patch that is an object take
 * the place of those there are, null removes one; anything else takes the place of the target,
 * which may be absent. Fails with no_memory only. */
enum error_code json_merge_patch(struct str target, struct str patch, struct arena *arena,
                                 struct str *ret);

/* Writes JSON without white space. Commas come by themselves. */
struct json_writer {
    struct buf *buf;
    uint64_t comma; /* bit per depth: something was already written at that depth */
    int depth;
    bool after_key;
};

void json_writer_init(struct json_writer *writer, struct buf *buf);

void json_begin_object(struct json_writer *writer);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer);
void json_end_array(struct json_writer *writer);

/* `name` must need no escaping. */
void json_key(struct json_writer *writer, struct str name);

/* `text` must be valid UTF-8; it is escaped as RFC 8259 needs, and no more. Absent writes null. */
void json_put_string(struct json_writer *writer, struct str text);
void json_put_int(struct json_writer *writer, int64_t value);
void json_put_bool(struct json_writer *writer, bool value);
void json_put_null(struct json_writer *writer);

/* Checked JSON, copied byte for byte. Absent writes null. */
void json_put_raw(struct json_writer *writer, struct str raw);

/* Milliseconds since 1970 as an RFC 3339 string. */
void json_put_time(struct json_writer *writer, int64_t time_ms);

/* Bytes as a string of lower-case hex digits. */
void json_put_hex(struct json_writer *writer, const uint8_t *bytes, size_t len);

#endif
