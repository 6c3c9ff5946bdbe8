#include "core/trace_context.h"

#include <assert.h>

enum { TRACE_ID_AT = 3, SPAN_ID_AT = 36, FLAGS_AT = 53 };

/* ---- as text ---- */

/* The ids must be lower-case hex digits and not all zero. */
static bool read_id(struct str digits, uint8_t *ret, size_t len)
{
    uint8_t any = 0;
    if (!record_hex(digits, ret, len))
        return false;
    for (size_t i = 0; i < len; i++)
        any |= ret[i];
    return any != 0;
}

/* All but the version. */
static bool read_rest(struct str text, struct trace_context *ret)
{
    struct trace_context context;
    if (text.len < TRACEPARENT_LEN || text.at[TRACE_ID_AT - 1] != '-' ||
        text.at[SPAN_ID_AT - 1] != '-' || text.at[FLAGS_AT - 1] != '-' ||
        !read_id((struct str){text.at + TRACE_ID_AT, (size_t)2 * TRACE_ID_LEN}, context.trace_id,
                 TRACE_ID_LEN) ||
        !read_id((struct str){text.at + SPAN_ID_AT, (size_t)2 * SPAN_ID_LEN}, context.span_id,
                 SPAN_ID_LEN) ||
        !record_hex((struct str){text.at + FLAGS_AT, 2}, &context.flags, 1))
        return false;
    *ret = context;
    return true;
}

bool trace_parse(struct str text, struct trace_context *ret)
{
    return text.len == TRACEPARENT_LEN && memcmp(text.at, "00", 2) == 0 && read_rest(text, ret);
}

bool trace_parse_any(struct str text, struct trace_context *ret)
{
    enum { VERSION_NEVER = 0xff };
    uint8_t version;
    if (text.len < TRACEPARENT_LEN || !record_hex((struct str){text.at, 2}, &version, 1) ||
        version == VERSION_NEVER)
        return false;
    if (version == 0)
        return trace_parse(text, ret);
    return (text.len == TRACEPARENT_LEN || text.at[TRACEPARENT_LEN] == '-') && read_rest(text, ret);
}

static void write_hex(const uint8_t *bytes, size_t len, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
}

void trace_format(const struct trace_context *context, char ret[TRACEPARENT_LEN])
{
    memcpy(ret, "00-", TRACE_ID_AT);
    write_hex(context->trace_id, TRACE_ID_LEN, ret + TRACE_ID_AT);
    ret[SPAN_ID_AT - 1] = '-';
    write_hex(context->span_id, SPAN_ID_LEN, ret + SPAN_ID_AT);
    ret[FLAGS_AT - 1] = '-';
    write_hex(&context->flags, 1, ret + FLAGS_AT);
}

/* ---- ids ---- */

struct trace_context trace_of_job(const struct job *job)
{
    struct trace_context context = {.flags = TRACE_SAMPLED};
    _Static_assert(sizeof job->id.bytes == TRACE_ID_LEN, "a job's id can be that of a trace");
    if (!str_is_set(job->spec.traceparent) || !trace_parse(job->spec.traceparent, &context))
        memcpy(context.trace_id, job->id.bytes, TRACE_ID_LEN);
    return context;
}

struct str correlation_shown(struct str stored, struct uuid job, char text[UUID_TEXT_LEN])
{
    if (str_is_set(stored))
        return stored;
    uuid_format(job, text);
    return (struct str){text, UUID_TEXT_LEN};
}

struct str correlation_stored(struct str shown, struct uuid job)
{
    char text[UUID_TEXT_LEN];
    uuid_format(job, text);
    return str_eq(shown, (struct str){text, sizeof text}) ? (struct str){NULL, 0} : shown;
}

/* Mixes a number into a hash (the steps of SplitMix64, so that near numbers give far ones). These
 * ids are compared between servers of several versions: they never change. */
static uint64_t mix(uint64_t hash, uint64_t number)
{
    hash += number + UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
    return hash ^ (hash >> 31);
}

static uint64_t read_number(const uint8_t *bytes, size_t len)
{
    uint64_t number = 0;
    for (size_t i = 0; i < len; i++)
        number = number << 8 | bytes[i];
    return number;
}

static uint64_t mix_text(uint64_t hash, struct str text)
{
    const uint8_t *bytes = (const uint8_t *)str_start(text);
    hash = mix(hash, text.len);
    for (size_t at = 0; at < text.len; at += 8)
        hash = mix(hash, read_number(bytes + at, text.len - at < 8 ? text.len - at : 8));
    return hash;
}

/* What a span stands for. */
enum span_kind { SPAN_EPOCH = 1, SPAN_ATTEMPT, SPAN_STEP, SPAN_EFFECT, SPAN_WAIT };

static struct trace_context span_of(const struct job *job, enum span_kind kind, struct str step,
                                    struct str key, int64_t number)
{
    struct trace_context context = trace_of_job(job);
    uint64_t hash = mix(read_number(job->id.bytes, 8), read_number(job->id.bytes + 8, 8));
    hash = mix(hash, (uint64_t)kind);
    hash = mix_text(hash, step);
    hash = mix_text(hash, key);
    hash = mix(hash, (uint64_t)number);
    if (hash == 0)
        hash = 1; /* 0 is no id */
    for (size_t i = SPAN_ID_LEN; i-- > 0; hash >>= 8)
        context.span_id[i] = (uint8_t)hash;
    return context;
}

struct trace_context trace_of_epoch(const struct job *job, int64_t epoch)
{
    return span_of(job, SPAN_EPOCH, STR(""), STR(""), epoch);
}

struct trace_context trace_of_attempt(const struct job *job, int64_t attempt)
{
    return span_of(job, SPAN_ATTEMPT, STR(""), STR(""), attempt);
}

/* By the step's name: its place in the plan may change. */
struct trace_context trace_of_step(const struct job *job, struct str step, int64_t attempt)
{
    return span_of(job, SPAN_STEP, step, STR(""), attempt);
}

struct trace_context trace_of_effect(const struct job *job, const struct effect *effect)
{
    return span_of(job, SPAN_EFFECT, effect->step, effect->key, effect->attempt);
}

struct trace_context trace_of_wait(const struct job *job, struct str step, const struct wait *wait)
{
    return span_of(job, SPAN_WAIT, step, wait->correlation_key, wait->since);
}
