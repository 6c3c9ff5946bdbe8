#include "core/spec.h"

#include <assert.h>

#include "base/hex.h"
#include "base/times.h"
#include "base/utf8.h"
#include "core/plan.h"
#include "core/resource.h"
#include "core/trace_context.h"

static const struct record_field spec_fields[] = {
    RECORD_FIELD(struct spec, kind, "kind", NAME),
    RECORD_FIELD(struct spec, queue, "queue", NAME),
    RECORD_FIELD(struct spec, payload, "payload", JSON),
    RECORD_FIELD_RANGE(struct spec, priority, "priority", INT, -PRIORITY_MAX, PRIORITY_MAX),
    RECORD_FIELD(struct spec, run_at, "run_at", TIME),
    RECORD_FIELD_RANGE(struct spec, delay_ms, "delay_ms", INT, 0, DELAY_MS_MAX),
    RECORD_FIELD(struct spec, idempotency_key, "idempotency_key", NAME),
    RECORD_FIELD(struct spec, fingerprint, "fingerprint", TEXT),
    RECORD_FIELD_NESTED(struct spec, retry, "retry", retry_policy_record),
    RECORD_FIELD_RANGE(struct spec, lease_ttl_ms, "lease_ttl_ms", INT, LEASE_TTL_MS_MIN,
                       LEASE_TTL_MS_MAX),
    RECORD_FIELD_RANGE(struct spec, heartbeat_ms, "heartbeat_ms", INT, HEARTBEAT_MS_MIN,
                       LEASE_TTL_MS_MAX),
    RECORD_FIELD_RANGE(struct spec, timeout_ms, "timeout_ms", INT, 1, DELAY_MS_MAX),
    RECORD_FIELD_RANGE(struct spec, expires_ms, "expires_ms", INT, 1, DELAY_MS_MAX),
    RECORD_FIELD_RANGE(struct spec, deadline_ms, "deadline_ms", INT, 1, DELAY_MS_MAX),
    RECORD_FIELD_ENUM(struct spec, in_doubt, "in_doubt", doubt_policy_names),
    RECORD_FIELD(struct spec, capabilities, "capabilities", ARRAY),
    RECORD_FIELD(struct spec, correlation_id, "correlation_id", NAME),
    RECORD_FIELD(struct spec, traceparent, "traceparent", TEXT),
    RECORD_FIELD(struct spec, labels, "labels", OBJECT),
    RECORD_FIELD(struct spec, agent_id, "agent_id", NAME),
    RECORD_FIELD(struct spec, goal, "goal", TEXT),
    RECORD_FIELD(struct spec, plan, "plan", OBJECT),
};

const struct record_type spec_record = {spec_fields, sizeof spec_fields / sizeof spec_fields[0]};

struct spec spec_defaults(const struct kind_settings *kind)
{
    bool kind_says = kind != NULL && kind->retry.max_attempts > 0;
    struct spec spec = {
        .queue = STR("default"),
        .retry = kind_says ? kind->retry : retry_policy_for_jobs(),
        .in_doubt = DOUBT_FAIL,
    };
    /* Whether it has a plan is not known yet: see decide_submit. */
    if (!kind_says)
        spec.retry.on_exhausted = EXHAUSTED_NONE;
    return spec;
}

/* What a new job names in lists looks like what it is. Jobs of old are not asked. */
static enum error_code check_shown(const struct spec *spec, struct arena *arena, struct err *err)
{
    struct names capabilities = {0};
    struct label *labels = NULL;
    uint32_t count = 0;
    enum error_code code =
        names_read(spec->capabilities, CAPABILITIES_MAX, "capabilities", arena, &capabilities, err);
    if (code == ERR_OK)
        code = labels_read(spec->labels, LABELS_MAX, "labels", arena, &labels, &count, err);
    if (code == ERR_OK)
        code = names_check_shown(&capabilities, "capabilities", err);
    return code == ERR_OK ? labels_check_shown(labels, count, err) : code;
}

enum error_code spec_read(struct str json, struct arena *arena, struct spec *spec, struct err *err)
{
    assert(spec != NULL);
    struct spec read = *spec;
    read.retry = retry_policy_unset();
    enum error_code code =
        record_read(&spec_record, json, RECORD_ALL, RECORD_REQUEST, "submit", arena, &read, err);
    if (code != ERR_OK)
        return code;
    read.retry_given = retry_policy_given(&read.retry);
    read.retry = retry_policy_over(&read.retry, read.retry_given, &spec->retry);
    code = spec_check(&read, arena, err);
    if (code == ERR_OK)
        code = check_shown(&read, arena, err);
    if (code == ERR_OK)
        code = lease_terms_check(read.lease_ttl_ms, read.heartbeat_ms, err);
    if (code == ERR_OK)
        *spec = read;
    return code;
}

enum error_code spec_take_kind(struct spec *spec, const struct kind_settings *kind, struct err *err)
{
    if (kind->retry.max_attempts == 0)
        return ERR_OK;
    struct retry_policy retry = retry_policy_over(&spec->retry, spec->retry_given, &kind->retry);
    enum error_code code = retry_policy_check(&retry, "retry", err);
    if (code == ERR_OK)
        spec->retry = retry;
    return code;
}

static enum error_code check_range(const char *name, int64_t value, int64_t min, int64_t max,
                                   struct err *err)
{
    if (value >= min && value <= max)
        return ERR_OK;
    return err_set(err, ERR_BAD_REQUEST, "%s must be a whole number from %lld to %lld, not %lld",
                   name, (long long)min, (long long)max, (long long)value);
}

/* The bounds that stored terms have always had. */
static enum error_code check_terms(int64_t lease_ttl_ms, int64_t heartbeat_ms, struct err *err)
{
    enum error_code code = ERR_OK;
    if (lease_ttl_ms != 0)
        code = check_range("lease_ttl_ms", lease_ttl_ms, LEASE_TTL_MS_MIN, LEASE_TTL_MS_MAX, err);
    if (code == ERR_OK && heartbeat_ms != 0)
        code = check_range("heartbeat_ms", heartbeat_ms, HEARTBEAT_MS_MIN, LEASE_TTL_MS_MAX, err);
    if (code == ERR_OK && lease_ttl_ms != 0 && heartbeat_ms > lease_ttl_ms) {
        code = err_set(err, ERR_BAD_REQUEST,
                       "heartbeat_ms must be at most half of lease_ttl_ms, but %lld is more than "
                       "half of %lld",
                       (long long)heartbeat_ms, (long long)lease_ttl_ms);
    }
    return code;
}

enum error_code lease_terms_check(int64_t lease_ttl_ms, int64_t heartbeat_ms, struct err *err)
{
    enum error_code code = check_terms(lease_ttl_ms, heartbeat_ms, err);
    int64_t ttl = lease_ttl_ms != 0 ? lease_ttl_ms : LEASE_TTL_MS_MAX;
    if (code == ERR_OK && heartbeat_ms > ttl / 2) {
        code = err_set(err, ERR_BAD_REQUEST,
                       "heartbeat_ms must be at most half of lease_ttl_ms, but %lld is more than "
                       "half of %lld",
                       (long long)heartbeat_ms, (long long)ttl);
    }
    return code;
}

/* Names that may be left out. */
static enum error_code check_names(const struct spec *spec, struct err *err)
{
    const struct {
        struct str value;
        const char *name;
    } names[] = {
        {spec->idempotency_key, "idempotency_key"},
        {spec->correlation_id, "correlation_id"},
        {spec->agent_id, "agent_id"},
    };
    if (!str_is_set(spec->kind))
        return err_set(err, ERR_BAD_REQUEST, "kind is required");
    enum error_code code = record_check_name(spec->kind, "kind", err);
    if (code == ERR_OK)
        code = record_check_name(spec->queue, "queue", err);
    for (size_t i = 0; code == ERR_OK && i < sizeof names / sizeof names[0]; i++)
        if (str_is_set(names[i].value))
            code = record_check_name(names[i].value, names[i].name, err);
    return code;
}

static enum error_code check_times(const struct spec *spec, struct err *err)
{
    enum error_code code = check_range("delay_ms", spec->delay_ms, 0, DELAY_MS_MAX, err);
    if (code != ERR_OK)
        return code;
    if (spec->run_at < 0 || spec->run_at > TIME_MAX_MS) {
        return err_set(err, ERR_BAD_REQUEST, "run_at must be a time up to the year 9999, not %lld",
                       (long long)spec->run_at);
    }
    if (spec->run_at != 0 && spec->delay_ms != 0)
        return err_set(err, ERR_BAD_REQUEST, "run_at and delay_ms exclude each other");
    /* 0 means that none is given. */
    code = check_range("timeout_ms", spec->timeout_ms, 0, DELAY_MS_MAX, err);
    if (code == ERR_OK)
        code = check_range("expires_ms", spec->expires_ms, 0, DELAY_MS_MAX, err);
    if (code == ERR_OK)
        code = check_range("deadline_ms", spec->deadline_ms, 0, DELAY_MS_MAX, err);
    return code;
}

static enum error_code check_texts(const struct spec *spec, struct err *err)
{
    struct trace_context trace;
    if (str_is_set(spec->traceparent) && !trace_parse(spec->traceparent, &trace)) {
        return err_set(err, ERR_BAD_REQUEST,
                       "traceparent must follow W3C Trace Context, such as "
                       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, not \"%.*s\"",
                       STR_ARG(spec->traceparent));
    }
    if (spec->goal.len > TEXT_BYTES_MAX) {
        return err_set(err, ERR_BAD_REQUEST, "goal must be at most %d bytes long, not %zu",
                       TEXT_BYTES_MAX, spec->goal.len);
    }
    if (!utf8_valid(spec->goal))
        return err_set(err, ERR_BAD_REQUEST, "goal is not valid UTF-8");
    if ((int)spec->in_doubt < 0 || (size_t)spec->in_doubt >= doubt_policy_names.count)
        return err_set(err, ERR_BAD_REQUEST, "in_doubt has no word number %d", (int)spec->in_doubt);
    return ERR_OK;
}

static enum error_code check_json(const struct spec *spec, struct arena *arena, struct err *err)
{
    if (spec->payload.len > PAYLOAD_BYTES_MAX) {
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "payload must be at most %d bytes long, not %zu",
                       PAYLOAD_BYTES_MAX, spec->payload.len);
    }
    if (str_is_set(spec->payload) && json_type(json_trim(spec->payload)) == JSON_INVALID) {
        return err_set(err, ERR_BAD_REQUEST, "payload must be JSON, not \"%.*s\"",
                       STR_ARG(spec->payload));
    }
    if (spec->plan.len > PLAN_BYTES_MAX) {
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "plan must be at most %d bytes long, not %zu",
                       PLAN_BYTES_MAX, spec->plan.len);
    }
    if (str_is_set(spec->plan) && json_type(json_trim(spec->plan)) != JSON_OBJECT) {
        return err_set(err, ERR_BAD_REQUEST, "plan must be an object, not \"%.*s\"",
                       STR_ARG(spec->plan));
    }
    struct names capabilities;
    enum error_code code =
        names_read(spec->capabilities, CAPABILITIES_MAX, "capabilities", arena, &capabilities, err);
    if (code == ERR_OK) {
        struct label *labels;
        uint32_t label_count;
        code = labels_read(spec->labels, LABELS_MAX, "labels", arena, &labels, &label_count, err);
    }
    return code;
}

enum error_code fingerprint_read(struct str text, struct arena *arena, struct str *ret,
                                 struct err *err)
{
    char *digits = arena_alloc(arena, FINGERPRINT_LEN);
    if (digits == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    bool sound = text.len == FINGERPRINT_LEN;
    for (size_t i = 0; sound && i < FINGERPRINT_LEN; i++) {
        int value = hex_value(text.at[i]);
        sound = value >= 0;
        digits[i] = sound ? "0123456789abcdef"[value] : '?';
    }
    if (!sound)
        return err_set(err, ERR_BAD_REQUEST, "fingerprint must be %d hex digits, not \"%.*s\"",
                       FINGERPRINT_LEN, STR_ARG(text));
    *ret = (struct str){digits, FINGERPRINT_LEN};
    return ERR_OK;
}

enum error_code spec_check(const struct spec *spec, struct arena *arena, struct err *err)
{
    assert(spec != NULL);
    enum error_code code = check_names(spec, err);
    if (code == ERR_OK)
        code = check_range("priority", spec->priority, -PRIORITY_MAX, PRIORITY_MAX, err);
    if (code == ERR_OK)
        code = check_times(spec, err);
    if (code == ERR_OK)
        code = retry_policy_check(&spec->retry, "retry", err);
    if (code == ERR_OK)
        code = check_terms(spec->lease_ttl_ms, spec->heartbeat_ms, err);
    if (code == ERR_OK)
        code = check_texts(spec, err);
    if (code == ERR_OK)
        code = check_json(spec, arena, err);
    struct str fingerprint;
    if (code == ERR_OK && str_is_set(spec->fingerprint))
        code = fingerprint_read(spec->fingerprint, arena, &fingerprint, err);
    return code;
}

static enum error_code repeat_differs(const struct spec *asked, const char *what, struct err *err)
{
    return err_set(err, ERR_IDEMPOTENCY_MISMATCH,
                   "the idempotency_key \"%.*s\" belongs to a job %s: use a different key",
                   STR_ARG(asked->idempotency_key), what);
}

/* The payload as it counts: null means absent. */
static struct str payload_of(const struct spec *spec)
{
    struct str payload = str_is_set(spec->payload) ? json_trim(spec->payload) : STR("null");
    return payload;
}

enum error_code spec_check_repeat(const struct spec *asked, const struct submitted *known,
                                  uint64_t seed, struct arena *arena, struct err *err)
{
    bool same = false;
    if (!str_eq(asked->kind, known->spec->kind) && known->hidden)
        return repeat_differs(asked, "of another kind", err);
    if (!str_eq(asked->kind, known->spec->kind))
        return err_set(err, ERR_IDEMPOTENCY_MISMATCH,
                       "the idempotency_key \"%.*s\" belongs to a job of kind \"%.*s\", not "
                       "\"%.*s\": use a different key",
                       STR_ARG(asked->idempotency_key), STR_ARG(known->spec->kind),
                       STR_ARG(asked->kind));
    if (known->redacted)
        return ERR_OK;
    if (str_is_set(asked->plan) && !known->planned)
        return repeat_differs(asked, "without a plan", err);
    enum error_code code;
    if (str_is_set(asked->fingerprint) && str_is_set(known->spec->fingerprint)) {
        struct str mine;
        struct str theirs = {NULL, 0};
        code = fingerprint_read(asked->fingerprint, arena, &mine, err);
        if (code == ERR_OK)
            code = fingerprint_read(known->spec->fingerprint, arena, &theirs, err);
        return code != ERR_OK || str_eq(mine, theirs)
                   ? code
                   : repeat_differs(asked, "with another fingerprint", err);
    }
    code = json_alike(payload_of(asked), payload_of(known->spec), seed, arena, &same);
    if (code != ERR_OK)
        return err_set(err, code, "out of memory");
    return same ? ERR_OK : repeat_differs(asked, "with another payload", err);
}

enum error_code kind_settings_check(const struct kind_settings *kind, struct err *err)
{
    enum error_code code = lease_terms_check(kind->lease_ttl_ms, kind->heartbeat_ms, err);
    if (code == ERR_OK && (kind->timeout_ms < 0 || kind->timeout_ms > DELAY_MS_MAX))
        code = err_set(err, ERR_BAD_REQUEST, "timeout_ms must be from 0 to %lld, not %lld",
                       (long long)DELAY_MS_MAX, (long long)kind->timeout_ms);
    if (code == ERR_OK && (kind->retention_ms < 0 || kind->retention_ms > DELAY_MS_MAX))
        code = err_set(err, ERR_BAD_REQUEST, "retention_ms must be from 0 to %lld, not %lld",
                       (long long)DELAY_MS_MAX, (long long)kind->retention_ms);
    if (code == ERR_OK)
        code = check_range("cancel_grace_ms", kind->cancel_grace_ms, 0, DELAY_MS_MAX, err);
    if (code == ERR_OK && kind->retry.max_attempts != 0)
        code = retry_policy_check(&kind->retry, "retry", err);
    return code;
}
