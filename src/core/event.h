/* One event of a job's stream: what happened, when, by whom, and the hash that binds it to the one
 * before.
 *
 * An event is made by decide with its data filled in, then sealed: its payload is written as JSON
 * and its hash computed. A stored event comes back with its payload and is opened: the data is read
 * from the payload again. evolve works on the data, so that nothing is parsed on the way from
 * decide to the store. */
#ifndef PAWL_CORE_EVENT_H
#define PAWL_CORE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/record.h"
#include "base/str.h"
#include "core/command_type.h"
#include "core/event_type.h"
#include "core/job.h"

struct plan;

/* The fields of all payloads in one struct. Which of them a type may carry is in event.def. */
struct event_data {
    struct str step;
    struct str worker_id;
    struct str resource_id;
    int64_t attempt;
    uint8_t token_hash[TOKEN_HASH_LEN];
    int64_t lease_ttl_ms;
    int64_t heartbeat_ms;
    int64_t expires_at;
    int64_t timeout_at;
    struct str reason;
    enum dead_letter_reason reason_code;
    enum stage stage;
    struct str error;
    int64_t failures; /* in this epoch, this one included; always as it stands after the event */
    int64_t attempts;
    struct str last_owner;
    int64_t last_lease_expires_at;
    int64_t not_before;
    int64_t epoch;
    bool fresh;
    enum wait_type wait_type;
    struct str correlation_key;
    struct str prompt;
    struct str choices;
    struct str assignee;
    int64_t until;
    struct str default_answer;
    bool parked;
    enum outcome outcome;
    struct str signal_id;
    int64_t signal_version; /* of the signal_received that this takes; 0: the signal came with it */
    struct str by;          /* who says to have answered, beside the actor, who was authenticated */
    struct str comment;     /* what the person added to the answer */
    struct str effect;
    enum resolution resolution;
    struct str key;
    uint8_t input_hash[INPUT_HASH_LEN];
    enum cancel_mode mode;
    enum verdict verdict;
    int64_t plan_version;
    struct str progress;
    struct str cursor;
    struct str input;
    struct str payload;
    struct str result;
    struct str steps; /* raw JSON array of the plan; absent: the plan there is starts again */
    enum doubt_policy in_doubt; /* of this effect; DOUBT_NONE: as the job says */
    struct str fingerprint;     /* of the input, compared instead of it: 64 hex digits */
    struct str pin; /* the code version that the job is bound to from now on; absent: no change */

    const struct spec *spec; /* job_created */
    const struct plan *plan; /* plan_generated with steps */
};

enum event_field {
#define EVENT_FIELD(symbol, member, text, kind, names) EVENT_FIELD_##symbol,
#include "core/event.def"
    EVENT_FIELD_COUNT,
};

/* The command behind an event. As text: "complete#3" (under the lease of attempt 3),
 * "complete:fetch#2" (of step fetch), "submit" (no lease). A step whose id has a '#' always brings
 * the number: "verdict:a#7#0". */
struct cause {
    enum command_type command;
    struct str step;
    int64_t attempt; /* 0: no lease */
};

struct event {
    struct uuid job_id;
    int64_t version; /* TELEMETRY has none of its own: that of the job at that moment */
    int64_t at;      /* ms */
    enum event_type type;
    struct str type_name; /* for CUSTOM and UNKNOWN; else as event_type_name */
    struct str actor;
    struct str correlation_id;
    struct cause cause;
    struct event_data data;

    /* Written by event_seal, or loaded. */
    struct str cause_text;
    struct str payload; /* exact JSON bytes; absent when redacted */
    bool redacted;      /* payload and salt are erased; the digest stays */
    uint8_t digest[HASH_LEN];
    uint8_t hash[HASH_LEN];
};

/* Name as stored and shown. */
struct str event_name(const struct event *event);

/* Writes payload and cause as text, then digest and hash, which bind the event to `previous`, the
 * hash of the event before (32 zero bytes before the first). An APPENDED event keeps the payload it
 * has, TELEMETRY gets no hash. Fails with no_memory only. */
enum error_code event_seal(struct event *event, const uint8_t previous[HASH_LEN],
                           const uint8_t salt[SALT_LEN], struct arena *arena, struct err *err);

/* Reads data and cause from payload and cause_text. The event's type, type_name, payload,
 * cause_text and redacted must be set. A redacted event gets empty data. Damaged text gives
 * corrupt; unknown fields are left alone, since a newer version may have written them. `seed` is
 * for look-up tables. */
enum error_code event_open(struct event *event, uint64_t seed, struct arena *arena,
                           struct err *err);

/* The hash chain, as docs/internals/chain.md specifies it:
 *
 *   digest = SHA-256(salt, payload)
 *   hash   = SHA-256(previous, job id, version, type, time, actor, cause, correlation_id, digest)
 *
 * Each field of the hash but `previous` has its length in front of it. An absent payload counts as
 * empty. */
void event_digest(const struct event *event, const uint8_t salt[SALT_LEN], uint8_t ret[HASH_LEN]);
void event_hash(const struct event *event, const uint8_t previous[HASH_LEN], uint8_t ret[HASH_LEN]);

/* An event's id is its hash, cut to a UUID of version 8: nothing more needs to be stored. That of
 * telemetry, which has no hash, is made in the same way from what it says: job, version, type,
 * time, actor, cause and payload. */
struct uuid event_id(const struct event *event);

/* The status that a stream says: its last state event wins, legal or not. JOB_NONE when there is
 * none. */
enum job_status derive_status(const struct event *events, size_t count);

/* Whether the last state event is job_waiting: nothing may reclaim such a job. */
bool is_blocked(const struct event *events, size_t count);

/* Which outcome of the machine's table a state event asks for. */
enum move_variant event_variant(const struct event *event);

/* The state that a state event leads to, wherever it comes from; JOB_NONE for any other event. */
enum job_status event_target(const struct event *event);

#endif
