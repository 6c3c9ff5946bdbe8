/* The checker's account of the job: moves, claims, leases, failures. */
#include <assert.h>

#include "base/json.h"
#include "base/times.h"
#include "core/verifier.h"

/* ---- moves ---- */

static bool is_claimable(enum job_status status)
{
    return status == JOB_QUEUED || status == JOB_RETRYING;
}

/* Not yet in the account: whether the event at hand, job_leased or job_running, takes the job out
 * of the queue. */
static bool is_claim(const struct verifier *v)
{
    enum event_type type = v->event->type;
    assert(type == EVENT_JOB_LEASED || type == EVENT_JOB_RUNNING);
    return type == EVENT_JOB_LEASED || v->from != JOB_LEASED;
}

static bool opens_epoch(const struct verifier *v)
{
    return v->event->type == EVENT_JOB_REQUEUED &&
           (v->from == JOB_FAILED || v->from == JOB_DEAD_LETTERED);
}

/* The invariants that hold whatever the table says; VERIFY_RULE_COUNT when none is broken. */
static enum verify_rule broken_invariant(enum job_status from, enum event_type type)
{
    switch (from) {
    case JOB_COMPLETED:
    case JOB_CANCELLED:
        return VERIFY_TERMINAL;
    case JOB_FAILED:
    case JOB_DEAD_LETTERED:
        return type == EVENT_JOB_REQUEUED ? VERIFY_RULE_COUNT : VERIFY_TERMINAL;
    case JOB_WAITING:
    case JOB_PARKED:
        return type == EVENT_WAIT_COMPLETED || type == EVENT_JOB_CANCELLED ? VERIFY_RULE_COUNT
                                                                           : VERIFY_BLOCKED;
    default:
        return VERIFY_RULE_COUNT;
    }
}

static void verify_move(struct verifier *v)
{
    const struct event *event = v->event;
    enum move_variant variant = event_variant(event);
    enum job_status to;
    enum verify_rule broken = broken_invariant(v->from, event->type);
    if (broken == VERIFY_RULE_COUNT && !job_move(v->from, event->type, variant, &to))
        broken = VERIFY_LEGAL_MOVE;
    if (broken != VERIFY_RULE_COUNT)
        buf_addf(violate(v, broken), "%.*s when %.*s", STR_ARG(event_text(v)),
                 STR_ARG(job_status_name(v->from)));
    else if (opens_epoch(v) && !event_caused_by(v, COMMAND_REQUEUE))
        buf_addf(violate(v, VERIFY_TERMINAL), "%.*s requeued a job that was %.*s",
                 STR_ARG(command_text(v)), STR_ARG(job_status_name(v->from)));

    /* Legal or not, the last state event says what the job is. */
    v->status = event_target(event);
    v->other = v->status;
    if (event->redacted && event->type == EVENT_JOB_REQUEUED)
        v->other = JOB_RETRYING;
    if (event->redacted && event->type == EVENT_JOB_WAITING)
        v->other = JOB_PARKED;
}

static void verify_epoch(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    if (v->event->type != EVENT_JOB_REQUEUED || v->from == JOB_NONE)
        return;
    if (opens_epoch(v)) {
        int64_t expected = v->epoch + 1;
        if (!v->blind && data->epoch != expected)
            buf_addf(violate(v, VERIFY_EPOCH), "epoch is %lld, the requeue opens %lld",
                     INT_ARG(data->epoch), INT_ARG(expected));
        v->epoch = v->blind ? expected : count_or(data->epoch, expected);
    } else if (!v->blind && data->epoch != 0) {
        buf_addf(violate(v, VERIFY_EPOCH), "epoch %lld is opened, after %lld, when %.*s",
                 INT_ARG(data->epoch), INT_ARG(v->epoch), STR_ARG(job_status_name(v->from)));
        v->epoch = count_or(data->epoch, v->epoch);
    }
}

/* Each command finds the job where it can put it back from: a worker's lease, or an end or a delay
 * that an operator cuts short. */
static void verify_requeued(struct verifier *v)
{
    if (v->event->type != EVENT_JOB_REQUEUED || v->from == JOB_NONE)
        return;
    bool held = v->from == JOB_LEASED || v->from == JOB_RUNNING;
    /* A delay may have been redacted. */
    bool queued = v->from == JOB_QUEUED && !v->blind;
    /* Only a delay is cut short by a run. */
    bool by_run = event_caused_by(v, COMMAND_RUN);
    if (by_run && !v->blind && v->event->at >= v->run_at)
        buf_addf(violate(v, VERIFY_CAUSE), "run at %lld ms, due since %lld ms",
                 INT_ARG(v->event->at), INT_ARG(v->run_at));
    if (by_run && !v->blind && v->event->data.not_before > v->event->at)
        buf_addf(violate(v, VERIFY_CAUSE), "run at %lld ms, not before %lld ms",
                 INT_ARG(v->event->at), INT_ARG(v->event->data.not_before));
    bool wrong = by_run ? !is_claimable(v->from)
                        : (event_caused_by(v, COMMAND_REQUEUE) ? held || queued : !held);
    if (wrong)
        buf_addf(violate(v, VERIFY_CAUSE), "%.*s requeued a job that was %.*s",
                 STR_ARG(command_text(v)), STR_ARG(job_status_name(v->from)));
}

/* Called with the account settled: a queued job counts for its next attempt, and what ends there
 * ends in that attempt although no one claimed it. */
static void verify_position(struct verifier *v)
{
    int64_t attempt = v->claims;
    if (is_claimable(v->status) || (job_status_terminal(v->status) && is_claimable(v->from)))
        attempt++;
    int rank = job_status_rank(v->status);
    bool back = v->epoch != v->position_epoch    ? v->epoch < v->position_epoch
                : attempt != v->position_attempt ? attempt < v->position_attempt
                                                 : rank < v->position_rank;
    if (back)
        buf_addf(violate(v, VERIFY_MONOTONIC),
                 "(epoch, attempt, rank) went from (%lld, %lld, %d) back to (%lld, %lld, %d)",
                 INT_ARG(v->position_epoch), INT_ARG(v->position_attempt), v->position_rank,
                 INT_ARG(v->epoch), INT_ARG(attempt), rank);
    v->position_epoch = v->epoch;
    v->position_attempt = attempt;
    v->position_rank = rank;
}

/* ---- claims and leases ---- */

static bool time_is_sane(int64_t time_ms)
{
    return time_ms >= 0 && time_ms <= TIME_MAX_MS;
}

static int64_t lease_span_max(const struct event_data *data)
{
    int64_t two_beats = 2 * data->heartbeat_ms;
    return two_beats < data->lease_ttl_ms ? two_beats : data->lease_ttl_ms;
}

/* The holder of a lease has a name and a token: without one, anyone could write. */
void verify_lease_holder(struct verifier *v)
{
    static const uint8_t none[TOKEN_HASH_LEN];
    const struct event_data *data = &v->event->data;
    if (data->worker_id.len == 0)
        buf_addf(violate(v, VERIFY_LEASE_TERMS), "the lease has no worker_id");
    if (memcmp(data->token_hash, none, TOKEN_HASH_LEN) == 0)
        buf_addf(violate(v, VERIFY_LEASE_TERMS), "the lease has no token_hash");
}

void verify_lease_terms(struct verifier *v, int64_t timeout_ms)
{
    const struct event *event = v->event;
    const struct event_data *data = &event->data;
    if (data->lease_ttl_ms < LEASE_TTL_MS_MIN || data->lease_ttl_ms > LEASE_TTL_MS_MAX ||
        data->heartbeat_ms <= 0 || data->heartbeat_ms > LEASE_TTL_MS_MAX) {
        buf_addf(violate(v, VERIFY_LEASE_TERMS), "lease_ttl_ms is %lld, heartbeat_ms %lld",
                 INT_ARG(data->lease_ttl_ms), INT_ARG(data->heartbeat_ms));
        return;
    }
    if (!time_is_sane(event->at) || !time_is_sane(data->expires_at) ||
        !time_is_sane(data->timeout_at) || data->expires_at <= event->at) {
        buf_addf(violate(v, VERIFY_LEASE_TERMS), "expires_at is %lld ms, given out at %lld ms",
                 INT_ARG(data->expires_at), INT_ARG(event->at));
        return;
    }
    if (data->expires_at - event->at > lease_span_max(data))
        buf_addf(violate(v, VERIFY_LEASE_TERMS),
                 "the lease lasts %lld ms, with lease_ttl_ms %lld and heartbeat_ms %lld",
                 INT_ARG(data->expires_at - event->at), INT_ARG(data->lease_ttl_ms),
                 INT_ARG(data->heartbeat_ms));
    if (data->timeout_at != 0 && data->timeout_at < data->expires_at)
        buf_addf(violate(v, VERIFY_LEASE_TERMS), "expires_at is %lld ms, beyond timeout_at %lld ms",
                 INT_ARG(data->expires_at), INT_ARG(data->timeout_at));
    if (timeout_ms > 0 && (data->timeout_at == 0 || data->timeout_at - event->at > timeout_ms))
        buf_addf(violate(v, VERIFY_LEASE_TERMS),
                 "timeout_at is %lld ms, given out at %lld ms with timeout_ms %lld",
                 INT_ARG(data->timeout_at), INT_ARG(event->at), INT_ARG(timeout_ms));
}

static void verify_attempt(struct verifier *v)
{
    int64_t attempt = v->event->data.attempt;
    int64_t expected = is_claim(v) ? v->claims + 1 : v->claims;
    /* The claim has said it: repeating it is not needed. */
    if (attempt == expected || (attempt == 0 && !is_claim(v)))
        return;
    buf_addf(violate(v, VERIFY_ATTEMPT), "attempt is %lld, claims make it %lld", INT_ARG(attempt),
             INT_ARG(expected));
}

static void verify_claim(struct verifier *v)
{
    const struct event *event = v->event;
    if (event->type != EVENT_JOB_LEASED && event->type != EVENT_JOB_RUNNING)
        return;
    if (event->type == EVENT_JOB_LEASED && v->lease.live)
        buf_addf(violate(v, VERIFY_SINGLE_LEASE), "the lease of attempt %lld is live",
                 INT_ARG(v->lease.attempt));
    if (event->type == EVENT_JOB_LEASED && v->has_plan)
        buf_addf(violate(v, VERIFY_CLAIM), "the job has plan %lld: only its steps are leased",
                 INT_ARG(v->plan_version));
    if (event->type == EVENT_JOB_RUNNING && is_claimable(v->from) && !v->has_plan)
        buf_addf(violate(v, VERIFY_CLAIM), "the job runs without a lease or a plan");
    if (v->blind)
        return;
    if (is_claim(v) && event->at < v->run_at)
        buf_addf(violate(v, VERIFY_CLAIM), "claimed at %lld ms, due at %lld ms", INT_ARG(event->at),
                 INT_ARG(v->run_at));
    verify_attempt(v);
    if (event->type != EVENT_JOB_LEASED)
        return;
    verify_lease_holder(v);
    verify_lease_terms(v, v->spec.timeout_ms);
}

/* Heartbeats only make a lease longer: before the end that it was given out with, it cannot expire.
 */
void verify_lease_over(struct verifier *v, const struct lease_account *lease)
{
    int64_t ends_at = lease->expires_at;
    if (lease->timeout_at != 0 && lease->timeout_at < ends_at)
        ends_at = lease->timeout_at;
    if (v->event->at < ends_at)
        buf_addf(violate(v, VERIFY_LEASE_EXPIRY), "expired at %lld ms, given out until %lld ms",
                 INT_ARG(v->event->at), INT_ARG(ends_at));
}

/* The reaper acts on what it saw: a lease that had come to its end. */
static void verify_expiry(struct verifier *v)
{
    const struct event *event = v->event;
    if (!event_caused_by(v, COMMAND_EXPIRE) || v->has_plan || v->blind)
        return;
    if (event->type != EVENT_JOB_REQUEUED && event->type != EVENT_JOB_FAILED &&
        event->type != EVENT_JOB_DEAD_LETTERED)
        return;
    struct str reason = event->data.reason;
    if (!text_eq(reason, STR("lease_expired")) && !text_eq(reason, STR("timeout")))
        buf_addf(violate(v, VERIFY_LEASE_EXPIRY), "the reason of an expiry is \"%.*s\"",
                 STR_ARG(reason));
    if (!v->lease.live) {
        buf_addf(violate(v, VERIFY_LEASE_EXPIRY), "no lease was live");
        return;
    }
    verify_lease_over(v, &v->lease);
    /* Where heartbeats had moved it to. */
    int64_t ended_at = event->data.last_lease_expires_at;
    if (text_eq(reason, STR("lease_expired")) && event->at < ended_at)
        buf_addf(violate(v, VERIFY_LEASE_EXPIRY), "expired at %lld ms, renewed until %lld ms",
                 INT_ARG(event->at), INT_ARG(ended_at));
}

/* ---- failures ---- */

/* How many failures an event may add. What fails in a plan is a step, which counts for itself. */
struct failure_range {
    int64_t least;
    int64_t most;
};

static struct failure_range failures_added(const struct verifier *v)
{
    if (v->has_plan)
        return (struct failure_range){0, 0};
    switch (v->event->cause.command) {
    case COMMAND_FAIL:
    case COMMAND_EXPIRE:
        return (struct failure_range){1, 1};
    /* Whether an effect in doubt is a failure is for the payload to say. */
    case COMMAND_EFFECT_BEGIN:
    case COMMAND_EFFECT_COMMIT:
        return (struct failure_range){0, 1};
    default:
        return (struct failure_range){0, 0};
    }
}

enum error_class error_class_of(struct str error)
{
    struct json_iter iter;
    struct str key;
    struct str raw;
    if (!json_object_begin(&iter, error))
        return CLASS_NONE;
    while (json_object_next(&iter, &key, &raw))
        for (size_t i = 1; json_key_is(key, STR("class")) && i < error_class_names.count; i++)
            if (json_key_is(raw, error_class_names.at[i]))
                return (enum error_class)i;
    return CLASS_NONE;
}

/* Called with the failure counted: whether it may be retried, and how a job ends that may not. */
static void verify_retry(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    enum event_type type = v->event->type;
    int64_t limit = v->spec.retry.max_attempts;
    bool fails = event_caused_by(v, COMMAND_FAIL);
    bool final = fails && error_is_final(data->error);
    if (limit <= 0 || (!fails && !event_caused_by(v, COMMAND_EXPIRE)))
        return;
    if (type == EVENT_JOB_REQUEUED && final)
        buf_addf(violate(v, VERIFY_RETRY_LIMIT), "retried after the error %.*s",
                 STR_ARG(data->error));
    else if (type == EVENT_JOB_REQUEUED && v->failures >= limit)
        buf_addf(violate(v, VERIFY_RETRY_LIMIT), "retried after %lld of %lld failures",
                 INT_ARG(v->failures), INT_ARG(limit));
    if (type == EVENT_JOB_REQUEUED)
        return;
    if (!final && v->failures != limit)
        buf_addf(violate(v, VERIFY_RETRY_LIMIT), "ended after %lld of %lld failures",
                 INT_ARG(v->failures), INT_ARG(limit));
    /* What was not started cannot fail. */
    const struct retry_policy *policy = &v->spec.retry;
    bool may_fail = v->from == JOB_RUNNING && (final ? policy->on_permanent != EXHAUSTED_DEAD_LETTER
                                                     : policy->on_exhausted == EXHAUSTED_FAIL);
    if ((type == EVENT_JOB_FAILED) != may_fail)
        buf_addf(violate(v, VERIFY_EXHAUSTED), "%.*s when %.*s, %s is \"%.*s\"",
                 STR_ARG(event_text(v)), STR_ARG(job_status_name(v->from)),
                 final ? "on_permanent" : "on_exhausted",
                 STR_ARG(word(&exhausted_policy_names,
                              (int)(final ? policy->on_permanent : policy->on_exhausted))));
}

static void verify_failures(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    enum event_type type = v->event->type;
    if (v->blind ||
        (type != EVENT_JOB_REQUEUED && type != EVENT_JOB_FAILED && type != EVENT_JOB_DEAD_LETTERED))
        return;

    int64_t before = opens_epoch(v) ? 0 : v->failures;
    struct failure_range added = failures_added(v);
    if (data->failures < before + added.least || data->failures > before + added.most)
        buf_addf(violate(v, VERIFY_FAILURES), "failures is %lld after %.*s, %lld before",
                 INT_ARG(data->failures), STR_ARG(command_text(v)), INT_ARG(before));
    v->failures = count_or(data->failures, before + added.least);

    if (v->has_spec && !v->has_plan)
        verify_retry(v);
}

static void verify_dead_letter(struct verifier *v)
{
    const struct event *event = v->event;
    if (event->type != EVENT_JOB_DEAD_LETTERED)
        return;
    if (event_caused_by(v, COMMAND_DEAD_LETTER) && !v->has_plan &&
        (v->from == JOB_LEASED || v->from == JOB_RUNNING))
        buf_addf(violate(v, VERIFY_CAUSE), "%.*s ended a job that was %.*s",
                 STR_ARG(command_text(v)), STR_ARG(job_status_name(v->from)));
    if (v->blind)
        return;
    if (event->data.reason_code == DEAD_NONE)
        buf_addf(violate(v, VERIFY_DEAD_LETTER), "there is no reason_code");
    if (event->data.attempts != v->claims)
        buf_addf(violate(v, VERIFY_DEAD_LETTER), "attempts is %lld, the job had %lld",
                 INT_ARG(event->data.attempts), INT_ARG(v->claims));
}

/* ---- lifetime ---- */

/* When the job expires and when its deadline is, as its spec says; 0: never. */
static int64_t expires_at(const struct verifier *v)
{
    return v->spec.expires_ms > 0 && v->claims == 0 && v->epoch == 1
               ? v->created_at + v->spec.expires_ms
               : 0;
}

static int64_t deadline_at(const struct verifier *v)
{
    return v->spec.deadline_ms > 0 ? v->epoch_at + v->spec.deadline_ms : 0;
}

static void verify_lifetime(struct verifier *v)
{
    const struct event *event = v->event;
    if (v->blind || !v->has_spec || v->from == JOB_NONE)
        return;
    bool expired = expires_at(v) > 0 && event->at >= expires_at(v);
    bool late = deadline_at(v) > 0 && event->at >= deadline_at(v);
    /* What only wakes a job with a plan need not know that its timer is about to fire. */
    bool claims = event_caused_by(v, COMMAND_CLAIM) || event_caused_by(v, COMMAND_STEP_CLAIM);
    if (claims && (expired || late))
        buf_addf(violate(v, VERIFY_LIFETIME), "claimed at %lld ms, when its life was over",
                 INT_ARG(event->at));
    if (!event_caused_by(v, COMMAND_LIFETIME))
        return;
    if (!expired && !late)
        buf_addf(violate(v, VERIFY_LIFETIME), "ended at %lld ms, before its life was over",
                 INT_ARG(event->at));
    else if (event->type != EVENT_JOB_CANCELLED && !late)
        buf_addf(violate(v, VERIFY_LIFETIME), "a job that expired is cancelled, not %.*s",
                 STR_ARG(event_text(v)));
}

/* ---- cancellation ---- */

void verify_cancel_requested(struct verifier *v)
{
    v->cancel_requested = true;
    v->cancel_at = v->event->data.until;
}

/* What was redacted does not say whether it pinned the job. */
void verify_repinned(struct verifier *v)
{
    if (!v->event->redacted && !v->redacted && (!v->pinned || v->event->data.pin.len == 0))
        buf_addf(violate(v, VERIFY_PIN), "it goes to \"%.*s\", and %s pinned before",
                 STR_ARG(v->event->data.pin), v->pinned ? "was" : "was not");
}

static void verify_pinned(struct verifier *v)
{
    const struct event *event = v->event;
    if (event->type == EVENT_JOB_REQUEUED && event->data.fresh)
        v->pinned = false;
    if (event->type != EVENT_JOB_LEASED || !str_is_set(event->data.pin))
        return;
    if (v->pinned)
        buf_addf(violate(v, VERIFY_PIN), "a claim pins it to \"%.*s\", and it was pinned before",
                 STR_ARG(event->data.pin));
    v->pinned = true;
}

static void verify_cancelled(struct verifier *v)
{
    const struct event *event = v->event;
    if (event->type != EVENT_JOB_CANCELLED)
        return;
    bool works = v->lease.live || v->steps_in[PLACE_WORKING] > 0;
    if (!v->blind && works && event_caused_by(v, COMMAND_CANCEL) && event->data.mode == CANCEL_SOFT)
        buf_addf(violate(v, VERIFY_CANCEL), "a soft cancel ended a job that a worker has");
    bool due = event_caused_by(v, COMMAND_CANCEL_DUE);
    if (!v->cancel_requested && (due || event_caused_by(v, COMMAND_CANCELLED)))
        buf_addf(violate(v, VERIFY_CANCEL), "no cancellation was requested");
    else if (due && !v->blind && event->at < v->cancel_at)
        buf_addf(violate(v, VERIFY_CANCEL), "turned hard at %lld ms, due at %lld ms",
                 INT_ARG(event->at), INT_ARG(v->cancel_at));
}

/* ---- the account ---- */

static void settle_claim(struct verifier *v)
{
    const struct event *event = v->event;
    if (is_claim(v))
        v->claims = v->blind || event->data.attempt == 0
                        ? v->claims + 1
                        : count_or(event->data.attempt, v->claims + 1);
    if (event->type == EVENT_JOB_LEASED)
        v->lease = (struct lease_account){
            .live = true,
            .attempt = v->claims,
            .expires_at = event->data.expires_at,
            .timeout_at = event->data.timeout_at,
        };
}

static void settle_created(struct verifier *v)
{
    const struct event *event = v->event;
    v->epoch = 1;
    v->position_epoch = 1;
    v->run_at = event->at;
    v->created_at = event->at;
    v->epoch_at = event->at;
    v->has_spec = event->data.spec != NULL;
    if (!v->has_spec)
        return;
    v->spec = *event->data.spec;
    if (v->spec.run_at > event->at)
        v->run_at = v->spec.run_at;
}

static void settle_requeued(struct verifier *v)
{
    const struct event *event = v->event;
    v->run_at = event->data.not_before > event->at ? event->data.not_before : event->at;
    if (opens_epoch(v)) {
        v->epoch_at = event->at;
        v->cancel_requested = false;
        v->replan = false;
    }
    if (event->data.fresh)
        effects_start_fresh(v);
}

static void settle(struct verifier *v)
{
    const struct event *event = v->event;
    if (event->type == EVENT_JOB_LEASED || event->type == EVENT_JOB_RUNNING)
        settle_claim(v);
    else
        v->lease.live = false;

    if (v->from == JOB_NONE)
        settle_created(v);
    if (event->type == EVENT_JOB_REQUEUED)
        settle_requeued(v);
    if (event->type == EVENT_WAIT_COMPLETED)
        v->run_at = event->at;
    /* The tokens of its steps die with the job. */
    if (job_status_terminal(v->status))
        v->life++;
}

void verify_state(struct verifier *v)
{
    v->from = v->status;
    verify_move(v);
    verify_epoch(v);
    verify_requeued(v);
    verify_claim(v);
    verify_expiry(v);
    verify_failures(v);
    verify_dead_letter(v);
    verify_cancelled(v);
    verify_lifetime(v);
    verify_pinned(v);
    if (v->event->type == EVENT_JOB_WAITING)
        verify_waiting(v);
    if (v->event->type == EVENT_WAIT_COMPLETED)
        verify_wait_completed(v);
    if (v->event->type == EVENT_JOB_COMPLETED)
        verify_no_open_effect(v, (struct str){NULL, 0});
    verify_planned_state(v);
    settle(v);
    verify_position(v);
}
