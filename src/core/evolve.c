#include "core/evolve.h"

#include <assert.h>

#include "base/times.h"
#include "core/fold.h"

enum error_code fold_corrupt(struct err *err, const struct event *event, const char *what,
                             struct str name)
{
    return err_set(err, ERR_CORRUPT,
                   "event %lld (%.*s) refers to %s \"%.*s\", which does not exist",
                   (long long)event->version, STR_ARG(event_name(event)), what, STR_ARG(name));
}

void lease_end(struct lease *lease, const struct event *event)
{
    assert(event_type_ends_lease(event->type));
    if (!lease->live)
        return;
    lease->live = false;
    lease->ended_by = event->cause.command;
    lease->beat_at = 0;
    lease->expires_at = 0;
}

void lease_begin(struct lease *lease, const struct event *event)
{
    assert(event_type_begins_lease(event->type));
    *lease = (struct lease){
        .live = true,
        .worker_id = event->data.worker_id,
        .resource_id = event->data.resource_id,
        .since = event->at,
        .lease_ttl_ms = event->data.lease_ttl_ms,
        .heartbeat_ms = event->data.heartbeat_ms,
        .beat_at = event->at,
        .expires_at = event->data.expires_at,
        .timeout_at = event->data.timeout_at,
    };
    memcpy(lease->token_hash, event->data.token_hash, TOKEN_HASH_LEN);
}

void keep_beats(const struct event_data *data, struct str *progress, struct str *cursor,
                uint8_t *changed)
{
    if (str_is_set(data->progress))
        *progress = data->progress;
    if (str_is_set(data->cursor))
        *cursor = data->cursor;
    if (str_is_set(data->progress) || str_is_set(data->cursor))
        *changed |= CHANGED_PROGRESS;
}

struct wait wait_of(const struct event *event)
{
    const struct event_data *data = &event->data;
    return (struct wait){
        .type = data->wait_type,
        .correlation_key = data->correlation_key,
        .since = event->at,
        .until = data->until,
        .prompt = data->prompt,
        .choices = data->choices,
        .assignee = data->assignee,
        .effect = data->effect,
    };
}

void note_no_records(int64_t attempt, int64_t *records_end)
{
    if (attempt == 0 && *records_end == 0)
        *records_end = 1;
}

static void fold_created(struct job *job, const struct event *event)
{
    job->changed |= CHANGED_REST;
    job->epoch = 1;
    job->created_at = event->at;
    job->run_at = event->at;
    if (event->data.spec == NULL)
        return;
    job->spec = *event->data.spec;
    if (job->spec.run_at > event->at)
        job->run_at = job->spec.run_at;
}

static void fold_requeued(struct job *job, const struct event *event)
{
    const struct event_data *data = &event->data;
    lease_end(&job->lease, event);
    /* A dead letter tells when the last lease would have ended. */
    if (data->last_lease_expires_at > 0)
        job->lease.expires_at = data->last_lease_expires_at;
    job->failures = data->failures;
    job->run_at = data->not_before > event->at ? data->not_before : event->at;
    if (str_is_set(data->error))
        job->error = data->error;
    keep_beats(data, &job->progress, &job->cursor, &job->changed);
    if (data->epoch > 0) {
        job->epoch = data->epoch;
        job->epoch_at = event->at;
        job->dead_letter = (struct dead_letter){0};
        job->error = (struct str){NULL, 0};
        job->replan = false;
        job->replan_reason = (struct str){NULL, 0};
        job->cancel_requested = false;
        job->cancel_reason = (struct str){NULL, 0};
        job->cancel_at = 0;
    }
    if (data->fresh) {
        job->effects_from = event->version;
        job->open_effects = 0;
        job->progress = (struct str){NULL, 0};
        job->cursor = (struct str){NULL, 0};
        job->resume = (struct resume){0};
        job->pin = (struct str){NULL, 0};
        job->changed |= CHANGED_COUNTS | CHANGED_PROGRESS;
    }
}

static void fold_waiting(struct job *job, const struct event *event)
{
    const struct event_data *data = &event->data;
    lease_end(&job->lease, event);
    job->resume = (struct resume){0};
    job->wait = wait_of(event);
    job->wait.default_answer = data->default_answer;
    keep_beats(data, &job->progress, &job->cursor, &job->changed);
}

enum error_code take_signal(struct job_slice *slice, const struct event *event, struct arena *arena,
                            struct err *err)
{
    const struct event_data *data = &event->data;
    if (data->signal_version == 0) {
        struct signal *signal = job_signal_add(slice, arena);
        if (signal == NULL)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        *signal = (struct signal){.correlation_key = data->correlation_key,
                                  .signal_id = data->signal_id,
                                  .payload = data->payload,
                                  .version = event->version,
                                  .delivered = true,
                                  .changed = true};
        return ERR_OK;
    }
    for (uint32_t i = slice->signal_count; i-- > 0;) {
        struct signal *signal = &slice->signals[i];
        if (signal->version != data->signal_version)
            continue;
        if (!signal->delivered)
            slice->job.stored_signals--;
        slice->job.changed |= CHANGED_COUNTS;
        signal->delivered = true;
        signal->changed = true;
        return ERR_OK;
    }
    return fold_corrupt(err, event, "a stored signal with the key", data->correlation_key);
}

/* A person's word on an effect in doubt: "done" brings the result, which closes the effect. */
static void resolve_effect(struct effect *effect, const struct job *job, const struct event *event,
                           int64_t *open_effects, uint8_t *changed)
{
    effect->changed = true;
    *changed |= CHANGED_COUNTS;
    effect->resolution = event->data.resolution;
    effect->resolved_epoch = job->epoch;
    if (event->data.resolution != RESOLVE_DONE || !effect_is_open(effect))
        return;
    effect->returned = true;
    effect->result = event->data.result;
    effect->ended_at = event->at;
    if (*open_effects > 0)
        (*open_effects)--;
}

static enum error_code fold_wait_completed(struct job_slice *slice, const struct event *event,
                                           struct arena *arena, struct err *err)
{
    struct job *job = &slice->job;
    const struct event_data *data = &event->data;
    if (str_is_set(job->wait.effect) && data->resolution != RESOLVE_NONE) {
        struct effect *effect = job_effect(slice, job->wait.effect);
        if (effect == NULL)
            return fold_corrupt(err, event, "the effect", job->wait.effect);
        resolve_effect(effect, job, event, &job->open_effects, &job->changed);
    }
    lease_end(&job->lease, event);
    keep_beats(data, &job->progress, &job->cursor, &job->changed);
    job->records_end = event->version + 1;
    job->run_at = event->at;
    job->wait = (struct wait){0};
    job->resume = (struct resume){.outcome = data->outcome,
                                  .correlation_key = data->correlation_key,
                                  .payload = data->payload,
                                  .by = data->by,
                                  .comment = data->comment};
    return data->outcome == OUTCOME_SIGNAL && str_is_set(data->correlation_key)
               ? take_signal(slice, event, arena, err)
               : ERR_OK;
}

/* completed, failed, cancelled, dead_lettered. */
static void fold_end(struct job *job, const struct event *event)
{
    const struct event_data *data = &event->data;
    lease_end(&job->lease, event);
    job->wait = (struct wait){0};
    job->resume = (struct resume){0};
    keep_beats(data, &job->progress, &job->cursor, &job->changed);
    if (event->type == EVENT_JOB_COMPLETED)
        job->result = data->result;
    if (event->type == EVENT_JOB_FAILED || event->type == EVENT_JOB_DEAD_LETTERED)
        job->failures = data->failures;
    if (str_is_set(data->error))
        job->error = data->error;
    if (event->type == EVENT_JOB_DEAD_LETTERED)
        job->dead_letter = (struct dead_letter){
            .reason_code = data->reason_code,
            .stage = data->stage,
            .last_error = str_is_set(data->error) ? data->error : job->error,
            .attempts = data->attempts,
            .last_owner = data->last_owner,
            .last_lease_expires_at = data->last_lease_expires_at,
            .at = event->at,
        };
}

static enum error_code fold_state(struct job_slice *slice, const struct event *event,
                                  struct arena *arena, struct err *err)
{
    struct job *job = &slice->job;
    enum job_status from = job->status;
    enum error_code code = ERR_OK;
    job->status = event_target(event);
    job->changed |= CHANGED_LEASE;
    if (from == JOB_NONE)
        fold_created(job, event);
    /* A claim that pins no job moves nothing else: a store may keep what it moves apart from the
     * rest. */
    if ((event->type != EVENT_JOB_LEASED && event->type != EVENT_JOB_RUNNING) ||
        str_is_set(event->data.pin))
        job->changed |= CHANGED_REST;

    switch (event->type) {
    case EVENT_JOB_REQUEUED:
        fold_requeued(job, event);
        break;
    case EVENT_JOB_LEASED:
        note_no_records(job->attempt, &job->records_end);
        job->attempt++;
        lease_begin(&job->lease, event);
        if (str_is_set(event->data.pin))
            job->pin = event->data.pin;
        break;
    case EVENT_JOB_RUNNING:
        /* Straight from the queue: a plan's first step, which is a claim of its own. */
        if (from != JOB_LEASED)
            job->attempt++;
        break;
    case EVENT_JOB_WAITING:
        fold_waiting(job, event);
        break;
    case EVENT_WAIT_COMPLETED:
        code = fold_wait_completed(slice, event, arena, err);
        break;
    case EVENT_JOB_COMPLETED:
    case EVENT_JOB_FAILED:
    case EVENT_JOB_CANCELLED:
    case EVENT_JOB_DEAD_LETTERED:
        fold_end(job, event);
        break;
    default:
        break;
    }
    assert(code != ERR_OK || !event_type_begins_lease(event->type) || job->lease.live);
    assert(code != ERR_OK || !event_type_ends_lease(event->type) || !job->lease.live);
    return code;
}

static struct step *event_step(struct job_slice *slice, const struct event *event)
{
    return str_is_set(event->data.step) ? job_step(slice, event->data.step) : NULL;
}

/* Stores a signal for a wait that may come. */
static enum error_code store_signal(struct job_slice *slice, const struct event *event,
                                    struct arena *arena, struct err *err)
{
    struct signal *signal = job_signal_add(slice, arena);
    if (signal == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    *signal = (struct signal){.correlation_key = event->data.correlation_key,
                              .signal_id = event->data.signal_id,
                              .payload = event->data.payload,
                              .version = event->version,
                              .changed = true};
    slice->job.stored_signals++;
    slice->job.changed |= CHANGED_COUNTS;
    return ERR_OK;
}

/* Answers the question that a step asks. */
static enum error_code fold_answer(struct job_slice *slice, const struct event *event,
                                   struct arena *arena, struct err *err)
{
    const struct event_data *data = &event->data;
    struct step *step = event_step(slice, event);
    if (step == NULL)
        return fold_corrupt(err, event, "step", data->step);
    slice->job.steps[step_standing(step)]--;
    step->answered = true;
    step->answer = data->payload;
    step->answered_by = data->by;
    step->answer_comment = data->comment;
    step->records_end = event->version + 1;
    slice->job.steps[step_standing(step)]++;
    slice->job.changed |= CHANGED_COUNTS;
    step->changed |= CHANGED_REST | CHANGED_STREAM;
    if (str_is_set(step->question.effect) && data->resolution != RESOLVE_NONE) {
        struct str name = effect_name(step->spec.id, step->question.effect, arena);
        if (!str_is_set(name))
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        struct effect *effect = job_effect(slice, name);
        if (effect == NULL)
            return fold_corrupt(err, event, "the effect", step->question.effect);
        resolve_effect(effect, &slice->job, event, &step->open_effects, &step->changed);
    }
    return data->outcome == OUTCOME_SIGNAL ? take_signal(slice, event, arena, err) : ERR_OK;
}

/* tool_returned, tool_aborted: the effect is open no longer. */
static void end_effect(struct effect *effect, const struct event *event, int64_t *open_effects)
{
    if (effect_is_open(effect) && *open_effects > 0)
        (*open_effects)--;
    effect->returned = event->type == EVENT_TOOL_RETURNED;
    effect->aborted = !effect->returned;
    effect->ended_at = event->at;
    effect->result = event->data.result;
    effect->error = event->data.error;
}

static void call_effect(struct effect *effect, const struct event *event, int64_t epoch)
{
    const struct event_data *data = &event->data;
    /* A call after an abort is a first one again. */
    if (effect->called_at == 0 || effect->aborted)
        effect->in_doubt = data->in_doubt;
    if (str_is_set(data->fingerprint))
        effect->fingerprint = data->fingerprint;
    effect->called_at = event->at;
    effect->attempt = data->attempt;
    effect->epoch = epoch;
    effect->returned = false;
    effect->aborted = false;
    effect->ended_at = 0;
    effect->error = (struct str){NULL, 0};
    effect->resolution = RESOLVE_NONE;
    effect->resolved_epoch = 0;
    memcpy(effect->input_hash, data->input_hash, INPUT_HASH_LEN);
}

static enum error_code fold_tool(struct job_slice *slice, const struct event *event,
                                 struct arena *arena, struct err *err)
{
    const struct event_data *data = &event->data;
    struct step *step = event_step(slice, event);
    if (step == NULL && str_is_set(data->step))
        return fold_corrupt(err, event, "step", data->step);
    if (!str_is_set(data->key))
        return fold_corrupt(err, event, "effect", data->key);
    int64_t *open_effects = step != NULL ? &step->open_effects : &slice->job.open_effects;
    int64_t *records_end = step != NULL ? &step->records_end : &slice->job.records_end;
    uint8_t *changed = step != NULL ? &step->changed : &slice->job.changed;
    struct str name = effect_name(data->step, data->key, arena);
    if (!str_is_set(name))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    struct effect *effect = job_effect(slice, name);
    *changed |= CHANGED_COUNTS | CHANGED_STREAM;

    if (event->type != EVENT_TOOL_CALLED) {
        if (effect == NULL)
            return fold_corrupt(err, event, "effect", data->key);
        end_effect(effect, event, open_effects);
        effect->changed = true;
        return ERR_OK;
    }

    if (effect == NULL) {
        effect = job_effect_add(slice, name, arena);
        if (effect == NULL)
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        effect->step = data->step;
        effect->key = data->key;
        effect->version = event->version;
        (*open_effects)++;
    } else if (!effect_is_open(effect)) {
        (*open_effects)++;
    }
    call_effect(effect, event, slice->job.epoch);
    effect->changed = true;
    *records_end = event->version + 1;
    return ERR_OK;
}

static enum error_code fold_fact(struct job_slice *slice, const struct event *event,
                                 struct arena *arena, struct err *err)
{
    struct job *job = &slice->job;
    switch (event->type) {
    case EVENT_SIGNAL_RECEIVED:
        return str_is_set(event->data.step) ? fold_answer(slice, event, arena, err)
                                            : store_signal(slice, event, arena, err);
    case EVENT_JOB_CANCEL_REQUESTED:
        job->cancel_requested = true;
        job->cancel_reason = event->data.reason;
        job->cancel_at = event->data.until;
        job->changed |= CHANGED_REST;
        return ERR_OK;
    case EVENT_JOB_REPINNED:
        job->pin = event->data.pin;
        job->changed |= CHANGED_REST;
        return ERR_OK;
    case EVENT_TOOL_CALLED:
    case EVENT_TOOL_RETURNED:
    case EVENT_TOOL_ABORTED:
        return fold_tool(slice, event, arena, err);
    case EVENT_PLAN_GENERATED:
        return plan_fold(slice, event, arena, err);
    default:
        return step_fold(slice, event, arena, err);
    }
}

/* Heartbeats move what stands beside the stream, and nothing else. */
static enum error_code fold_telemetry(struct job_slice *slice, const struct event *event,
                                      struct err *err)
{
    struct lease *lease = &slice->job.lease;
    struct str *progress = &slice->job.progress;
    struct str *cursor = &slice->job.cursor;
    uint8_t *changed = &slice->job.changed;
    if (str_is_set(event->data.step)) {
        struct step *step = event_step(slice, event);
        if (step == NULL)
            return fold_corrupt(err, event, "step", event->data.step);
        lease = &step->lease;
        progress = &step->progress;
        cursor = &step->cursor;
        changed = &step->changed;
    }
    if (!lease->live)
        return err_set(err, ERR_CORRUPT, "a heartbeat without a live lease");
    if (event->at > lease->beat_at)
        lease->beat_at = event->at;
    lease->expires_at = event->data.expires_at;
    *changed |= CHANGED_BEAT;
    keep_beats(&event->data, progress, cursor, changed);
    return ERR_OK;
}

enum error_code job_evolve(struct job_slice *slice, const struct event *event, struct arena *arena,
                           struct err *err)
{
    struct job *job = &slice->job;
    enum event_class class = event_type_class(event->type);
    if (event->at < 0 || event->at > TIME_MAX_MS)
        return err_set(err, ERR_CORRUPT, "event %lld has an invalid time",
                       (long long)event->version);
    if (class == EVENT_CLASS_TELEMETRY)
        return fold_telemetry(slice, event, err);
    if (event->version != job->version + 1)
        return err_set(err, ERR_CORRUPT, "event %lld follows event %lld", (long long)event->version,
                       (long long)job->version);

    enum error_code code = ERR_OK;
    if (class == EVENT_CLASS_STATE)
        code = fold_state(slice, event, arena, err);
    else if (class == EVENT_CLASS_FACT)
        code = fold_fact(slice, event, arena, err);
    else if (class == EVENT_CLASS_STEP)
        code = step_fold(slice, event, arena, err);
    if (code != ERR_OK)
        return code;
    job->version = event->version;
    job->updated_at = event->at;
    memcpy(job->head, event->hash, HASH_LEN);
    job->changed |= CHANGED_STREAM;
    return ERR_OK;
}
