/* What went wrong: the error that a worker reports, as it is kept in events, jobs and dead letters,
 * and what makes two errors the same for somebody who counts them. */
#ifndef PAWL_CORE_FAILURE_H
#define PAWL_CORE_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/record.h"
#include "base/str.h"
#include "core/enums.h"

enum { FAILURE_PATTERN_MAX = 256 };

struct failure {
    enum error_class error_class; /* CLASS_NONE: transient */
    struct str message;           /* absent or empty: that none was given */
    struct str type;              /* a name, such as the class of an exception */
    struct str code;              /* a name, such as an error code or a status */
    enum stage stage;
    struct str details;   /* raw JSON */
    struct str stack;     /* text */
    bool has_retry_after; /* retry_after_ms replaces the backoff */
    int64_t retry_after_ms;
};

/* class message type code stage details stack, in this order: a request, and the error as it is
 * kept. */
extern const struct record_type failure_record;

/* Checks an error however it was filled: texts of at most TEXT_BYTES_MAX bytes in UTF-8, names,
 * details of at most PAYLOAD_BYTES_MAX bytes. bad_request or payload_too_large name the field. */
enum error_code failure_check(const struct failure *failure, struct err *err);

/* The error as raw JSON, with a class and a message always. Fails as failure_check, or with
 * no_memory. */
enum error_code failure_write(const struct failure *failure, struct arena *arena, struct str *ret,
                              struct err *err);

/* The class of an error that is kept; CLASS_NONE when it says none. */
enum error_class failure_class_of(struct str error);

/* Why a job that ends with this failure is a dead letter. `final`: it is not retried whatever the
 * policy says. A permanent failure is told by where it happened: fetching (the dependency), reading
 * the input (validation); else no retry was left for it. */
enum dead_letter_reason failure_reason_code(enum error_class class, enum stage stage, bool final);

/* What groups errors that are kept: the type, or without one the message with everything folded
 * that differs from job to job: numbers, hex digits and UUIDs become "*", as does what stands
 * between quotes; the first line, at most FAILURE_PATTERN_MAX bytes of it. Both are absent when the
 * error says neither. False: no memory. */
struct failure_group {
    struct str type;
    struct str pattern;
};
bool failure_group_of(struct str error, struct arena *arena, struct failure_group *ret);

#endif
