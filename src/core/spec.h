/* What a job is submitted as: everything about it that never changes afterwards.
 *
 * The payload of job_created is a spec written out, so the same table reads requests and histories.
 */
#ifndef PAWL_CORE_SPEC_H
#define PAWL_CORE_SPEC_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/record.h"
#include "base/str.h"
#include "core/enums.h"
#include "core/retry.h"

enum {
    PAYLOAD_BYTES_MAX = 1024 * 1024,
    LABELS_MAX = 16,
    CAPABILITIES_MAX = 64,
    PRIORITY_MAX = 1000 * 1000,
    LEASE_TTL_MS_MIN = 100,
    LEASE_TTL_MS_MAX = 24 * 60 * 60 * 1000,
    LEASE_TTL_MS_DEFAULT = 30 * 1000,
    HEARTBEAT_MS_MIN = 50,
};

/* The longest delay, wait or timeout: 10 years. */
#define DELAY_MS_MAX (INT64_C(10) * 366 * 24 * 60 * 60 * 1000)

struct spec {
    struct str kind;
    struct str queue;
    struct str payload; /* raw JSON */
    int64_t priority;   /* higher first */
    int64_t run_at;     /* 0: at once */
    int64_t delay_ms;   /* requests only: turned into run_at */
    struct str idempotency_key;
    struct str fingerprint; /* of the payload, by the caller: see fingerprint_read. Compared instead
                               of the payload when the key comes again */
    struct retry_policy retry;
    uint64_t retry_given; /* requests only: the members of it that were given */
    int64_t lease_ttl_ms; /* 0: as the kind or the default says */
    int64_t heartbeat_ms;
    int64_t timeout_ms;  /* of an attempt; 0: none */
    int64_t expires_ms;  /* it must have started by then, from the submission on; 0: whenever */
    int64_t deadline_ms; /* it must have ended by then; 0: whenever. See core/lifetime.h */
    enum doubt_policy in_doubt;
    struct str capabilities; /* raw JSON array of names */
    struct str correlation_id;
    struct str traceparent;
    struct str labels; /* raw JSON object of strings */
    struct str agent_id;
    struct str goal;
    struct str plan; /* requests only: raw JSON object, turned into plan_generated */
};

/* Defaults of a kind of job, set by an operator; zeros mean that nothing is set. */
struct kind_settings {
    int64_t lease_ttl_ms;
    int64_t heartbeat_ms;
    int64_t timeout_ms;
    struct retry_policy retry; /* max_attempts 0: not set */
    int64_t retention_ms;
    int64_t cancel_grace_ms; /* a soft cancel turns hard after it */
    bool pin;                /* jobs are bound to the code version of their first claim */
    int64_t version;         /* rises with every change; 0: never set */
};

extern const struct record_type spec_record;

/* A spec with the defaults of contract and kind (NULL: none), for spec_read to fill. */
struct spec spec_defaults(const struct kind_settings *kind);

/* Reads a request (checked JSON) over the defaults in `spec`, and checks it. Errors: bad_request,
 * unknown_field, payload_too_large, each naming the field and its value. Views point into `json` or
 * `arena`. */
enum error_code spec_read(struct str json, struct arena *arena, struct spec *spec, struct err *err);

/* Lays the settings of a kind under a spec that was read over the defaults of the contract: its
 * retry policy, where the request says nothing of it. bad_request: together they are none. */
enum error_code spec_take_kind(struct spec *spec, const struct kind_settings *kind,
                               struct err *err);

enum { FINGERPRINT_LEN = 64 };

/* A fingerprint as it is kept and compared, in lower case: 64 hex digits of either case, whatever
 * they are. Anything else is bad_request. */
enum error_code fingerprint_read(struct str text, struct arena *arena, struct str *ret,
                                 struct err *err);

/* Checks a spec however it was filled, also one that an older version has stored: limits, policy,
 * labels, capabilities, payload. The raw JSON
 * in it must have passed json_check; `arena` is for decoding it. Fails as spec_read does. */
enum error_code spec_check(const struct spec *spec, struct arena *arena, struct err *err);

/* A submission that was made before. */
struct submitted {
    const struct spec *spec;
    bool planned;  /* it came with a plan, or its job got one */
    bool redacted; /* of the spec only the kind is left */
    bool hidden;   /* the submitter may not read it: the error does not name its kind */
};

/* Whether `asked` is the same submission as `known`, which has its idempotency key: the same kind,
 * a plan only where the other is `planned` too, and the same payload, as json_alike has it; where
 * both have a fingerprint it is compared and the payload is not. Of a redacted job only the kind is
 * left to compare. The steps of plans are not compared: a job's plan may be replaced at any time.
 * idempotency_mismatch says what differs; no_memory. */
enum error_code spec_check_repeat(const struct spec *asked, const struct submitted *known,
                                  uint64_t seed, struct arena *arena, struct err *err);

/* Checks the settings of a kind as spec_check does those of a job; zeros are not set. */
enum error_code kind_settings_check(const struct kind_settings *kind, struct err *err);

/* Lease terms within bounds: a TTL of 100 ms to 24 h, a heartbeat of 50 ms up to half of the TTL
 * (or of 24 h when none is given), so that one missed beat never costs the lease. bad_request names
 * them; 0 means not given. */
enum error_code lease_terms_check(int64_t lease_ttl_ms, int64_t heartbeat_ms, struct err *err);

#endif
