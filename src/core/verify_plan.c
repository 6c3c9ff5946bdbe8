/* The checker's account of plans: which steps there are, what a new plan keeps, and how a planned
 * job ends. */
#include "core/plan.h"
#include "core/verifier.h"

struct step_account *step_account(const struct verifier *v, struct str id)
{
    uint32_t found = str_is_set(id) ? map_get(&v->step_index, id) : MAP_NONE;
    return found == MAP_NONE ? NULL : &v->steps[found];
}

struct step_account *event_step_account(struct verifier *v)
{
    struct str id = v->event->data.step;
    struct step_account *step = step_account(v, id);
    if (step == NULL)
        buf_addf(violate(v, VERIFY_STEP_KNOWN), "step \"%.*s\" is not in plan %lld", STR_ARG(id),
                 INT_ARG(v->plan_version));
    return step;
}

bool step_is_passing(enum step_state state)
{
    return state == STEP_FAILED_RETRYABLE || state == STEP_FAILED_RESOURCE ||
           state == STEP_FAILED_FATAL || state == STEP_LEASE_TIMEOUT;
}

/* The steps that stand where no decision may leave them: at the end of a stream, and when a plan
 * begins. */
void verify_plan_rest(struct verifier *v)
{
    for (uint32_t i = 0; !v->blind && i < v->step_count; i++) {
        const struct step_account *step = &v->steps[i];
        if (step_is_passing(step->state))
            buf_addf(violate(v, VERIFY_STEP_PASSING), "step \"%.*s\" was left %.*s by event %lld",
                     STR_ARG(step->planned->spec.id), STR_ARG(step_state_name(step->state)),
                     INT_ARG(step->entered));
    }
}

/* ---- a plan begins ---- */

static void verify_plan_version(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    int64_t expected = v->plan_version + 1;
    if (data->plan_version != expected)
        buf_addf(violate(v, VERIFY_PLAN), "plan_version is %lld after %lld",
                 INT_ARG(data->plan_version), INT_ARG(v->plan_version));
    v->plan_version = count_or(data->plan_version, expected);
}

/* The steps that the event brings, or those there are when the plan starts again. */
static const struct step *planned_step(const struct verifier *v, uint32_t ordinal)
{
    const struct plan *plan = v->event->data.plan;
    return plan != NULL ? &plan->steps[ordinal] : v->steps[ordinal].planned;
}

/* What succeeded stays so, unless all starts fresh. Numbers that fence are not forgotten in any
 * case; resources that were lost are when the same plan starts again, in a new epoch. */
static struct step_account step_begin(const struct verifier *v, const struct step *planned)
{
    const struct step_account *before = step_account(v, planned->spec.id);
    struct step_account step = {.planned = planned, .state = STEP_PENDING};
    step.attempt = before != NULL ? before->attempt : v->step_attempt_base;
    if (before == NULL)
        return step;
    if (v->event->data.plan != NULL)
        step.lost = before->lost;
    if (before->state == STEP_SUCCEEDED && !v->event->data.fresh)
        step.state = STEP_SUCCEEDED;
    return step;
}

static void count_dependencies(struct verifier *v, struct step_account *steps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct step *planned = steps[i].planned;
        for (uint32_t c = 0; c < planned->child_count; c++)
            if (planned->children[c] >= count)
                buf_addf(violate(v, VERIFY_PLAN), "step \"%.*s\" has a child outside the plan",
                         STR_ARG(planned->spec.id));
            else if (steps[i].state != STEP_SUCCEEDED)
                steps[planned->children[c]].open_deps++;
    }
}

static bool plan_begin(struct verifier *v, uint32_t count)
{
    struct map index;
    struct step_account *steps = arena_zalloc(v->arena, count, sizeof *steps);
    if (steps == NULL)
        return false;
    map_init(&index, v->arena, count, v->seed);

    for (uint32_t i = 0; i < v->step_count; i++)
        if (v->steps[i].attempt > v->step_attempt_base)
            v->step_attempt_base = v->steps[i].attempt;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t found;
        steps[i] = step_begin(v, planned_step(v, i));
        if (map_put(&index, steps[i].planned->spec.id, i, &found) != ERR_OK)
            return false;
        if (found != MAP_NONE)
            buf_addf(violate(v, VERIFY_PLAN), "the plan has step \"%.*s\" twice",
                     STR_ARG(steps[i].planned->spec.id));
    }
    count_dependencies(v, steps, count);
    memset(v->steps_in, 0, sizeof v->steps_in);
    v->steps_fatal = 0;
    for (uint32_t i = 0; i < count; i++)
        count_step(v, &steps[i], 1);
    v->steps = steps;
    v->step_count = count;
    v->step_index = index;
    return true;
}

void verify_plan_generated(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    bool had_plan = v->has_plan;
    v->has_plan = true;
    v->replan = false;
    v->life++;
    if (v->blind) {
        v->plan_version++;
        return;
    }

    verify_plan_rest(v);
    verify_plan_version(v);
    if (v->lease.live)
        buf_addf(violate(v, VERIFY_PLAN), "the job is leased, by attempt %lld",
                 INT_ARG(v->lease.attempt));
    /* The steps of a job that ended stay as they were until it is requeued. */
    if (v->steps_in[PLACE_WORKING] > 0 && !event_caused_by(v, COMMAND_REQUEUE))
        buf_addf(violate(v, VERIFY_PLAN), "%lld steps of plan %lld are leased or running",
                 INT_ARG(v->steps_in[PLACE_WORKING]), INT_ARG(v->plan_version));
    if (data->plan == NULL && str_is_set(data->steps)) {
        buf_addf(violate(v, VERIFY_PLAN), "the plan could not be read");
        /* Steps are unknown from here on, as after a redaction. */
        v->blind = true;
        return;
    }
    if (data->plan == NULL && !had_plan)
        buf_addf(violate(v, VERIFY_PLAN), "there is no plan to start again");

    uint32_t count = data->plan != NULL ? data->plan->count : v->step_count;
    if (data->plan != NULL && (count == 0 || count > PLAN_STEPS_MAX))
        buf_addf(violate(v, VERIFY_PLAN), "the plan has %lld steps", INT_ARG(count));
    if (!plan_begin(v, count))
        v->no_memory = true;
}

/* ---- a planned job moves ---- */

static bool can_go_on(const struct verifier *v)
{
    return v->steps_in[PLACE_READY] > 0 || v->steps_in[PLACE_WORKING] > 0 ||
           v->steps_in[PLACE_HELD] > 0;
}

static void verify_planned_wait(struct verifier *v)
{
    enum wait_type type = v->event->data.wait_type;
    if (v->steps_in[PLACE_WORKING] > 0)
        buf_addf(violate(v, VERIFY_PLAN_END), "the job waits while %lld of its steps run",
                 INT_ARG(v->steps_in[PLACE_WORKING]));
    else if (type == WAIT_STEPS && can_go_on(v))
        buf_addf(violate(v, VERIFY_PLAN_END), "the job waits while %lld of its steps can go on",
                 INT_ARG(v->steps_in[PLACE_READY] + v->steps_in[PLACE_HELD]));
    if (type == WAIT_STEPS && v->steps_in[PLACE_ASKING] == 0)
        buf_addf(violate(v, VERIFY_PLAN_END), "the job waits for its steps, none of which asks");
    if (type == WAIT_REPLAN && !v->replan)
        buf_addf(violate(v, VERIFY_PLAN_END), "the job waits for a new plan that no one asked for");
}

void verify_planned_state(struct verifier *v)
{
    enum event_type type = v->event->type;
    if (!v->has_plan || v->blind)
        return;
    /* An operator, or the end of its life, needs no step that failed. */
    bool by_step =
        !event_caused_by(v, COMMAND_DEAD_LETTER) && !event_caused_by(v, COMMAND_LIFETIME);
    bool fails = by_step && (type == EVENT_JOB_FAILED || type == EVENT_JOB_DEAD_LETTERED);
    if (type == EVENT_JOB_COMPLETED && v->steps_in[PLACE_SUCCEEDED] != (int64_t)v->step_count)
        buf_addf(violate(v, VERIFY_PLAN_END), "%lld of %lld steps succeeded",
                 INT_ARG(v->steps_in[PLACE_SUCCEEDED]), INT_ARG(v->step_count));
    if (fails && v->steps_in[PLACE_FAILED] == 0)
        buf_addf(violate(v, VERIFY_PLAN_END), "the job failed and none of its steps did");
    else if (fails && v->steps_fatal == 0 && (can_go_on(v) || v->steps_in[PLACE_ASKING] > 0))
        buf_addf(violate(v, VERIFY_PLAN_END), "the job failed while other steps may continue");
    if (fails && type == EVENT_JOB_DEAD_LETTERED && v->has_spec &&
        v->spec.retry.on_exhausted != EXHAUSTED_DEAD_LETTER &&
        v->spec.retry.on_permanent != EXHAUSTED_DEAD_LETTER)
        buf_addf(violate(v, VERIFY_EXHAUSTED), "a failed step made a dead letter of a job whose "
                                               "policy says no such thing");
    if (type == EVENT_JOB_WAITING)
        verify_planned_wait(v);
}

/* ---- a command ends ---- */

/* What a planned job that is not at its end should have done, or NULL. */
static const char *plan_unsettled(const struct verifier *v)
{
    bool waits = v->status == JOB_WAITING || v->status == JOB_PARKED;
    bool runs = v->status == JOB_RUNNING;
    if (v->steps_in[PLACE_SUCCEEDED] == (int64_t)v->step_count)
        return "all steps succeeded";
    if (v->steps_fatal > 0 && !v->replan)
        return "a step failed that the job fails with";
    if (waits && v->wait.type == WAIT_STEPS && can_go_on(v))
        return "a step can go on";
    if (runs && v->replan && v->steps_in[PLACE_WORKING] == 0)
        return "a new plan was asked for and no step runs";
    if (runs && !can_go_on(v))
        return v->steps_in[PLACE_ASKING] > 0 ? "no step can go on before an answer"
                                             : "no step can go on";
    return NULL;
}

void verify_settled(struct verifier *v)
{
    if (v->blind || v->status == JOB_NONE)
        return;
    const char *why = NULL;
    if (job_status_terminal(v->status))
        why = NULL;
    else if (v->cancel_requested && !v->lease.live && v->steps_in[PLACE_WORKING] == 0)
        why = "it is to be cancelled and no one works on it";
    else if (v->has_plan)
        why = plan_unsettled(v);
    /* A fault in the command itself has been reported. */
    if (why != NULL && !v->unsettled && v->violation_count == v->command_violations)
        buf_addf(violate(v, VERIFY_SETTLED), "the job is left %.*s, but %s",
                 STR_ARG(job_status_name(v->status)), why);
    v->unsettled = why != NULL;
}
