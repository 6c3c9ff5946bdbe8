#include "core/retry.h"

#include <assert.h>

#include "core/spec.h"

#define ATTEMPTS_MAX INT64_C(1000000)
#define FACTOR_MILLI_MIN INT64_C(1000)
#define FACTOR_MILLI_MAX INT64_C(100000)

static const struct record_field retry_policy_fields[] = {
    RECORD_FIELD_RANGE(struct retry_policy, max_attempts, "max_attempts", INT, 1, ATTEMPTS_MAX),
    RECORD_FIELD_ENUM(struct retry_policy, strategy, "strategy", retry_strategy_names),
    RECORD_FIELD_RANGE(struct retry_policy, initial_ms, "initial_ms", INT, 0, DELAY_MS_MAX),
    RECORD_FIELD_RANGE(struct retry_policy, factor_milli, "factor", MILLI, FACTOR_MILLI_MIN,
                       FACTOR_MILLI_MAX),
    RECORD_FIELD_RANGE(struct retry_policy, max_ms, "max_ms", INT, 0, DELAY_MS_MAX),
    RECORD_FIELD_ENUM(struct retry_policy, jitter, "jitter", jitter_names),
    RECORD_FIELD_ENUM(struct retry_policy, on_exhausted, "on_exhausted", exhausted_policy_names),
    RECORD_FIELD_ENUM(struct retry_policy, on_permanent, "on_permanent", exhausted_policy_names),
};

const struct record_type retry_policy_record = {
    retry_policy_fields,
    sizeof retry_policy_fields / sizeof retry_policy_fields[0],
};

struct retry_policy retry_policy_unset(void)
{
    struct retry_policy policy;
    memset(&policy, 0xff, sizeof policy);
    return policy;
}

uint64_t retry_policy_given(const struct retry_policy *read)
{
    struct retry_policy unset = retry_policy_unset();
    uint64_t given = 0;
    for (size_t i = 0; i < retry_policy_record.count; i++)
        if (record_differs(&retry_policy_record, read, &unset, UINT64_C(1) << i) != NULL)
            given |= UINT64_C(1) << i;
    return given;
}

struct retry_policy retry_policy_over(const struct retry_policy *policy, uint64_t given,
                                      const struct retry_policy *under)
{
    struct retry_policy over = *under;
    for (uint64_t rest = given; rest != 0; rest &= rest - 1) {
        const struct record_field *field = &retry_policy_fields[__builtin_ctzll(rest)];
        memcpy((char *)&over + field->offset, (const char *)policy + field->offset, field->size);
    }
    return over;
}

struct retry_policy retry_policy_for_jobs(void)
{
    return (struct retry_policy){
        .max_attempts = 20,
        .strategy = RETRY_EXPONENTIAL,
        .initial_ms = 500,
        .factor_milli = 2000,
        .max_ms = 60 * 60 * 1000,
        .jitter = JITTER_EQUAL,
        .on_exhausted = EXHAUSTED_DEAD_LETTER,
    };
}

struct retry_policy retry_policy_for_steps(void)
{
    return (struct retry_policy){
        .max_attempts = 4,
        .strategy = RETRY_EXPONENTIAL,
        .initial_ms = 1000,
        .factor_milli = 2000,
        .max_ms = 30 * 1000,
        .jitter = JITTER_NONE,
    };
}

static enum error_code check_range(const char *what, const char *name, int64_t value, int64_t min,
                                   int64_t max, struct err *err)
{
    if (value >= min && value <= max)
        return ERR_OK;
    return err_set(err, ERR_BAD_REQUEST, "%s.%s must be a whole number from %lld to %lld, not %lld",
                   what, name, (long long)min, (long long)max, (long long)value);
}

/* Only exponential growth has a factor; elsewhere it may be left out. */
static enum error_code check_factor(const struct retry_policy *policy, const char *what,
                                    struct err *err)
{
    int64_t factor = policy->factor_milli;
    if (factor == 0 && policy->strategy != RETRY_EXPONENTIAL)
        return ERR_OK;
    if (factor >= FACTOR_MILLI_MIN && factor <= FACTOR_MILLI_MAX)
        return ERR_OK;
    /* The sign is written apart, since it would be lost in front of a whole part of 0. */
    long long whole = (long long)(factor / 1000);
    long long rest = (long long)(factor % 1000);
    return err_set(err, ERR_BAD_REQUEST, "%s.factor must be from 1 to 100, not %s%lld.%03lld", what,
                   factor < 0 ? "-" : "", whole < 0 ? -whole : whole, rest < 0 ? -rest : rest);
}

static enum error_code check_word(const char *what, const char *name, unsigned word,
                                  const struct record_names *names, struct err *err)
{
    if (word == 0)
        return err_set(err, ERR_BAD_REQUEST, "%s.%s is required", what, name);
    if (word >= names->count)
        return err_set(err, ERR_BAD_REQUEST, "%s.%s has no word number %u", what, name, word);
    return ERR_OK;
}

enum error_code retry_policy_check(const struct retry_policy *policy, const char *what,
                                   struct err *err)
{
    assert(policy != NULL);
    assert(what != NULL);
    enum error_code code =
        check_range(what, "max_attempts", policy->max_attempts, 1, ATTEMPTS_MAX, err);
    if (code == ERR_OK)
        code = check_word(what, "strategy", policy->strategy, &retry_strategy_names, err);
    if (code == ERR_OK)
        code = check_range(what, "initial_ms", policy->initial_ms, 0, DELAY_MS_MAX, err);
    if (code == ERR_OK)
        code = check_factor(policy, what, err);
    if (code == ERR_OK)
        code = check_range(what, "max_ms", policy->max_ms, 0, DELAY_MS_MAX, err);
    if (code == ERR_OK && policy->initial_ms > policy->max_ms) {
        code = err_set(err, ERR_BAD_REQUEST,
                       "%s.initial_ms must be at most max_ms, but %lld is more than %lld", what,
                       (long long)policy->initial_ms, (long long)policy->max_ms);
    }
    if (code == ERR_OK)
        code = check_word(what, "jitter", policy->jitter, &jitter_names, err);
    return code;
}

/* Grows in millionths of a millisecond: fine enough that a factor of 1.001 moves even 1 ms, and
 * coarse enough that ten years fit. The loop ends at `max_ms`, however many failures there were:
 * the slowest growth, from 1 ms to ten years, takes 26,000 turns, and 30 s from 1 s at doubling
 * takes 5. */
static int64_t exponential_ms(const struct retry_policy *policy, int64_t failures, int64_t max_ms)
{
    const int64_t unit = 1000000;
    int64_t factor =
        policy->factor_milli < FACTOR_MILLI_MAX ? policy->factor_milli : FACTOR_MILLI_MAX;
    if (policy->initial_ms >= max_ms)
        return max_ms;
    if (policy->initial_ms == 0 || factor <= 1000)
        return policy->initial_ms;
    int64_t delay = policy->initial_ms * unit;
    int64_t longest = max_ms * unit;
    for (int64_t i = 1; i < failures; i++) {
        if (delay / 1000 >= longest / factor + 1)
            return max_ms;
        delay = delay / 1000 * factor + delay % 1000 * factor / 1000;
        if (delay >= longest)
            return max_ms;
    }
    return delay / unit;
}

static int64_t linear_ms(const struct retry_policy *policy, int64_t failures, int64_t max_ms)
{
    if (policy->initial_ms == 0)
        return 0;
    return failures > max_ms / policy->initial_ms ? max_ms : policy->initial_ms * failures;
}

/* Evenly from 0 to `max`, both included. The remainder favours low values by one part in 2^25 at
 * most, since no delay is near 2^39. */
static int64_t draw(uint64_t random, int64_t max)
{
    assert(max >= 0);
    return (int64_t)(random % ((uint64_t)max + 1));
}

int64_t retry_delay_ms(const struct retry_policy *policy, int64_t failures, uint64_t random)
{
    assert(policy->initial_ms >= 0 && policy->max_ms >= 0);
    assert(failures >= 1);
    int64_t max_ms = policy->max_ms < DELAY_MS_MAX ? policy->max_ms : DELAY_MS_MAX;
    int64_t delay = policy->initial_ms < max_ms ? policy->initial_ms : max_ms;
    if (policy->strategy == RETRY_EXPONENTIAL)
        delay = exponential_ms(policy, failures, max_ms);
    else if (policy->strategy == RETRY_LINEAR)
        delay = linear_ms(policy, failures, max_ms);
    assert(delay >= 0);
    if (policy->jitter == JITTER_EQUAL) {
        int64_t half = delay / 2;
        return half + draw(random, delay - half);
    }
    return policy->jitter == JITTER_FULL ? draw(random, delay) : delay;
}
