/* The fold of plans and steps. A step's success is told to its children here, edge by edge, so that
 * whether a step is ready never needs the whole plan. */
#include <assert.h>

#include "core/fold.h"
#include "core/plan.h"

/* The step as a plan begins it: what an earlier version of the plan finished stays finished. */
static struct step step_begin(const struct job *job, const struct step *planned,
                              const struct step *before, bool restart, bool fresh)
{
    struct step step = {
        .ordinal = planned->ordinal,
        .state = STEP_PENDING,
        .spec = planned->spec,
        .children = planned->children,
        .child_count = planned->child_count,
        .open_deps = (int64_t)json_count(planned->spec.deps),
        .attempt = job->step_attempt_base,
        .changed = CHANGED_ALL,
    };
    if (before == NULL)
        return step;
    step.attempt = before->attempt;
    step.records_end = before->records_end;
    /* In a new epoch, or from the start, the step may go anywhere again. */
    if (!restart) {
        step.avoided = before->avoided;
        step.avoided_count = before->avoided_count;
    }
    if (before->state == STEP_SUCCEEDED && !fresh) {
        step.state = STEP_SUCCEEDED;
        step.result = before->result;
        step.failures = before->failures;
    }
    return step;
}

/* Fencing numbers never come again: a step that a later plan brings back starts above all that
 * left. */
static void remember_attempts(struct job_slice *slice)
{
    for (uint32_t i = 0; i < slice->step_count; i++)
        if (slice->steps[i].attempt > slice->job.step_attempt_base)
            slice->job.step_attempt_base = slice->steps[i].attempt;
}

/* The whole plan is loaded here, or its children would not all be there. */
static enum error_code release_kept(struct job_slice *slice, const struct event *event,
                                    struct err *err)
{
    for (uint32_t i = 0; i < slice->step_count; i++) {
        const struct step *step = &slice->steps[i];
        for (uint32_t c = 0; step->state == STEP_SUCCEEDED && c < step->child_count; c++) {
            if (step->children[c] >= slice->step_count)
                return fold_corrupt(err, event, "a child of step", step->spec.id);
            slice->steps[step->children[c]].open_deps--;
        }
    }
    return ERR_OK;
}

/* What a step began and did not commit stays in doubt, also when the step was out of the plan for a
 * while. A wait step has nobody to resolve effects. All open effects are loaded here. */
static void count_open_effects(struct job_slice *slice)
{
    for (uint32_t i = 0; i < slice->effect_count; i++) {
        const struct effect *effect = &slice->effects[i];
        bool open = effect_is_open(effect) && effect->version > slice->job.effects_from;
        struct step *step = open && str_is_set(effect->step) ? job_step(slice, effect->step) : NULL;
        if (step != NULL && !str_is_set(step->spec.wait))
            step->open_effects++;
    }
}

enum error_code plan_fold(struct job_slice *slice, const struct event *event, struct arena *arena,
                          struct err *err)
{
    struct job *job = &slice->job;
    const struct plan *plan = event->data.plan;
    const struct step *planned = plan != NULL ? plan->steps : slice->steps;
    uint32_t count = plan != NULL ? plan->count : slice->step_count;
    struct step *steps = arena_zalloc(arena, count, sizeof *steps);
    if (steps == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %u steps", count);

    remember_attempts(slice);
    for (uint32_t i = 0; i < count; i++) {
        const struct step *before = job_step(slice, planned[i].spec.id);
        steps[i] = step_begin(job, &planned[i], before, plan == NULL, event->data.fresh);
    }
    slice->steps = steps;
    slice->step_count = count;
    if (job_slice_index(slice, arena) != ERR_OK)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %u steps", count);
    enum error_code code = release_kept(slice, event, err);
    if (code != ERR_OK)
        return code;

    count_open_effects(slice);
    memset(job->steps, 0, sizeof job->steps);
    job->final_steps = 0;
    for (uint32_t i = 0; i < count; i++) {
        job->steps[step_standing(&steps[i])]++;
        job->final_steps += steps[i].child_count == 0;
    }
    job->plan_version = event->data.plan_version;
    job->replan = false;
    job->replan_reason = (struct str){NULL, 0};
    job->changed |= CHANGED_COUNTS | CHANGED_REST;
    return ERR_OK;
}

/* The array is never changed in place: a copy of the slice may share it. */
static enum error_code avoid_resource(struct step *step, struct str resource_id,
                                      struct arena *arena, struct err *err)
{
    if (!str_is_set(resource_id))
        return ERR_OK;
    for (uint32_t i = 0; i < step->avoided_count; i++)
        if (str_eq(step->avoided[i], resource_id))
            return ERR_OK;
    struct str *avoided = arena_alloc(arena, (step->avoided_count + 1) * sizeof *avoided);
    if (avoided == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (step->avoided_count > 0)
        memcpy(avoided, step->avoided, step->avoided_count * sizeof *avoided);
    avoided[step->avoided_count++] = resource_id;
    step->avoided = avoided;
    return ERR_OK;
}

static enum error_code release_children(struct job_slice *slice, const struct step *step,
                                        const struct event *event, struct err *err)
{
    for (uint32_t i = 0; i < step->child_count; i++) {
        struct step *child = job_step_at(slice, step->children[i]);
        if (child == NULL)
            return fold_corrupt(err, event, "a child of step", step->spec.id);
        slice->job.steps[step_standing(child)]--;
        child->open_deps--;
        child->changed |= CHANGED_COUNTS;
        slice->job.steps[step_standing(child)]++;
    }
    return ERR_OK;
}

static void fold_claim(struct step *step, const struct event *event)
{
    note_no_records(step->attempt, &step->records_end);
    step->attempt++;
    step->not_before = 0;
    struct str resource_id = step->lease.resource_id;
    lease_begin(&step->lease, event);
    /* A critic judges the work of the resource that did it; any other claim has no result yet. */
    if (event->type == EVENT_STEP_JUDGING)
        step->lease.resource_id = resource_id;
    else
        step->result = (struct str){NULL, 0};
}

static enum error_code fold_failure(struct job_slice *slice, struct step *step,
                                    const struct event *event, struct arena *arena, struct err *err)
{
    const struct event_data *data = &event->data;
    lease_end(&step->lease, event);
    keep_beats(data, &step->progress, &step->cursor, &step->changed);
    step->failures = data->failures;
    step->held = false;
    step->result = (struct str){NULL, 0};
    if (str_is_set(data->error))
        step->error = data->error;
    step->verdict = data->verdict;
    if (data->verdict == VERDICT_REPLAN) {
        slice->job.replan = true;
        slice->job.replan_reason = data->reason;
        slice->job.changed |= CHANGED_REST;
    }
    return event->type == EVENT_STEP_FAILED_RESOURCE
               ? avoid_resource(step, data->resource_id, arena, err)
               : ERR_OK;
}

static void fold_question(struct step *step, const struct event *event)
{
    const struct event_data *data = &event->data;
    lease_end(&step->lease, event);
    keep_beats(data, &step->progress, &step->cursor, &step->changed);
    step->verdict = data->verdict;
    step->held = false;
    step->answered = false;
    step->answer = (struct str){NULL, 0};
    step->answered_by = (struct str){NULL, 0};
    step->default_answer = data->default_answer;
    step->question = wait_of(event);
}

/* Everything about the step itself; its standing is counted by the caller. */
static enum error_code fold_into_step(struct job_slice *slice, struct step *step,
                                      const struct event *event, struct arena *arena,
                                      struct err *err)
{
    const struct event_data *data = &event->data;
    enum step_state from = step->state;
    step_event_state(event->type, &step->state);
    switch (event->type) {
    case EVENT_STEP_LEASED:
    case EVENT_STEP_JUDGING:
        fold_claim(step, event);
        break;
    case EVENT_STEP_RUNNING:
        /* Straight from retrying or an answered question: a claim of its own. */
        if (from != STEP_LEASED)
            fold_claim(step, event);
        break;
    case EVENT_STEP_SUCCEEDED:
    case EVENT_STEP_FINISHED:
        lease_end(&step->lease, event);
        keep_beats(data, &step->progress, &step->cursor, &step->changed);
        if (str_is_set(data->result))
            step->result = data->result;
        step->held = event->type == EVENT_STEP_FINISHED;
        step->verdict = data->verdict;
        if (data->failures > 0) /* those of its critics count too */
            step->failures = data->failures;
        if (str_is_set(data->error))
            step->error = data->error;
        break;
    case EVENT_STEP_FAILED_RETRYABLE:
    case EVENT_STEP_FAILED_RESOURCE:
    case EVENT_STEP_FAILED_FATAL:
        return fold_failure(slice, step, event, arena, err);
    case EVENT_STEP_RETRYING:
        step->not_before = data->not_before;
        break;
    case EVENT_STEP_NEEDS_USER:
        fold_question(step, event);
        break;
    case EVENT_STEP_LEASE_TIMEOUT:
        lease_end(&step->lease, event);
        step->failures = data->failures;
        keep_beats(data, &step->progress, &step->cursor, &step->changed);
        break;
    default:
        break;
    }
    return ERR_OK;
}

enum error_code step_fold(struct job_slice *slice, const struct event *event, struct arena *arena,
                          struct err *err)
{
    struct str id = event->data.step;
    struct step *step = str_is_set(id) ? job_step(slice, id) : NULL;
    if (step == NULL)
        return fold_corrupt(err, event, "step", id);
    slice->job.steps[step_standing(step)]--;
    slice->job.changed |= CHANGED_COUNTS;
    step->changed |= CHANGED_STREAM | CHANGED_LEASE | CHANGED_REST;
    enum error_code code = fold_into_step(slice, step, event, arena, err);
    assert(code != ERR_OK || !event_type_begins_lease(event->type) || step->lease.live);
    assert(code != ERR_OK || !event_type_ends_lease(event->type) || !step->lease.live);
    slice->job.steps[step_standing(step)]++;
    if (code == ERR_OK && event->type == EVENT_STEP_SUCCEEDED)
        code = release_children(slice, step, event, err);
    return code;
}
