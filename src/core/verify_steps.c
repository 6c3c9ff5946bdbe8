/* The checker's account of steps: moves, claims, resources, failures, questions, verdicts. */
#include <assert.h>

#include "base/json.h"
#include "core/plan.h"
#include "core/verifier.h"

static struct str step_id(const struct step_account *step)
{
    return step->planned->spec.id;
}

/* ---- moves ---- */

static enum step_place step_place(const struct step_account *step)
{
    switch (step->state) {
    case STEP_PENDING:
    case STEP_WAITING_DEPS:
        return step->open_deps > 0 ? PLACE_BLOCKED : PLACE_READY;
    case STEP_RETRYING:
    case STEP_SWITCHING_RESOURCE:
        return PLACE_READY;
    case STEP_RUNNING:
        return step->held && !step->lease.live ? PLACE_HELD : PLACE_WORKING;
    case STEP_NEEDS_USER:
        return step->answered ? PLACE_READY : PLACE_ASKING;
    case STEP_SUCCEEDED:
        return PLACE_SUCCEEDED;
    case STEP_FAILED:
        return step->replans ? PLACE_REPLANNED : PLACE_FAILED;
    default:
        return PLACE_WORKING;
    }
}

void count_step(struct verifier *v, const struct step_account *step, int64_t change)
{
    enum step_place place = step_place(step);
    v->steps_in[place] += change;
    if (place == PLACE_FAILED && step->planned->spec.on_failure != ON_FAILURE_CONTINUE)
        v->steps_fatal += change;
}

bool verify_not_passing(struct verifier *v, const struct step_account *step)
{
    if (!step_is_passing(step->state))
        return true;
    buf_addf(violate(v, VERIFY_STEP_PASSING), "%.*s while step \"%.*s\" is %.*s",
             STR_ARG(event_text(v)), STR_ARG(step_id(step)), STR_ARG(step_state_name(step->state)));
    return false;
}

static void verify_step_move(struct verifier *v, const struct step_account *step,
                             enum step_state to)
{
    if (step_move(step->state, to) || !verify_not_passing(v, step))
        return;
    buf_addf(violate(v, VERIFY_STEP_MOVE), "step \"%.*s\" goes from %.*s to %.*s",
             STR_ARG(step_id(step)), STR_ARG(step_state_name(step->state)),
             STR_ARG(step_state_name(to)));
}

/* ---- claims ---- */

/* A step is given out while its job runs and is not on its way to an end or to another plan. What
 * was finished or answered may be brought to its end even then. */
static void verify_step_ready(struct verifier *v, const struct step_account *step)
{
    const struct event *event = v->event;
    bool judging = event->type == EVENT_STEP_JUDGING;
    bool ending = judging || (step_waits(step) && step->state == STEP_NEEDS_USER);
    struct str id = step_id(step);
    if (v->status != JOB_RUNNING)
        buf_addf(violate(v, VERIFY_STEP_CLAIM), "step \"%.*s\" is claimed while its job is %.*s",
                 STR_ARG(id), STR_ARG(job_status_name(v->status)));
    if (!judging && step->open_deps > 0)
        buf_addf(violate(v, VERIFY_STEP_CLAIM), "step \"%.*s\" has %lld open dependencies",
                 STR_ARG(id), INT_ARG(step->open_deps));
    if (!ending && v->cancel_requested)
        buf_addf(violate(v, VERIFY_STEP_CLAIM), "step \"%.*s\" is claimed of a job to be cancelled",
                 STR_ARG(id));
    if (!ending && v->replan)
        buf_addf(violate(v, VERIFY_STEP_CLAIM), "step \"%.*s\" is claimed before the new plan",
                 STR_ARG(id));
    if (step_waits(step) && event_caused_by(v, COMMAND_STEP_CLAIM))
        buf_addf(violate(v, VERIFY_STEP_CLAIM), "step \"%.*s\" only waits: no worker runs it",
                 STR_ARG(id));
    if (judging && (step->state != STEP_RUNNING || !step->held))
        buf_addf(violate(v, VERIFY_STEP_CLAIM), "step \"%.*s\" is judged before it finished",
                 STR_ARG(id));
    if (step->state == STEP_RETRYING && event->at < step->not_before)
        buf_addf(violate(v, VERIFY_STEP_CLAIM), "step \"%.*s\" retries at %lld ms, due at %lld ms",
                 STR_ARG(id), INT_ARG(event->at), INT_ARG(step->not_before));
}

static void verify_question_closed(struct verifier *v, const struct step_account *step)
{
    if (step->state == STEP_NEEDS_USER && !step->answered)
        buf_addf(violate(v, VERIFY_STEP_ANSWER), "step \"%.*s\" goes on without an answer",
                 STR_ARG(step_id(step)));
}

static bool plan_avoids(struct verifier *v, const struct step_account *step, struct str resource)
{
    struct json_iter iter;
    struct str raw;
    struct str name;
    if (!json_array_begin(&iter, step->planned->spec.avoid))
        return false;
    while (json_array_next(&iter, &raw)) {
        if (json_type(raw) != JSON_STRING)
            continue;
        if (!json_string(raw, v->arena, &name)) {
            v->no_memory = true;
            return false;
        }
        if (text_eq(name, resource))
            return true;
    }
    return false;
}

static void verify_resource(struct verifier *v, const struct step_account *step)
{
    struct str resource = v->event->data.resource_id;
    if (resource.len == 0 && !step_waits(step))
        buf_addf(violate(v, VERIFY_STEP_RESOURCE), "step \"%.*s\" runs on no resource",
                 STR_ARG(step_id(step)));
    if (resource.len == 0)
        return;
    if (plan_avoids(v, step, resource))
        buf_addf(violate(v, VERIFY_STEP_RESOURCE), "step \"%.*s\" avoids resource \"%.*s\"",
                 STR_ARG(step_id(step)), STR_ARG(resource));
    for (const struct lost_resource *lost = step->lost; lost != NULL; lost = lost->next) {
        if (!text_eq(lost->id, resource))
            continue;
        buf_addf(violate(v, VERIFY_STEP_RESOURCE), "step \"%.*s\" lost resource \"%.*s\" before",
                 STR_ARG(step_id(step)), STR_ARG(resource));
        return;
    }
}

static void verify_step_claim(struct verifier *v, struct step_account *step)
{
    const struct event *event = v->event;
    const struct event_data *data = &event->data;
    bool judging = event->type == EVENT_STEP_JUDGING;
    verify_step_ready(v, step);
    verify_question_closed(v, step);
    if (step_lease_live(v, step))
        buf_addf(violate(v, VERIFY_SINGLE_LEASE),
                 "the lease of attempt %lld of step \"%.*s\" is live", INT_ARG(step->lease.attempt),
                 STR_ARG(step_id(step)));

    int64_t expected = step->attempt + 1;
    if (data->attempt != expected)
        buf_addf(violate(v, VERIFY_STEP_ATTEMPT),
                 "attempt of step \"%.*s\" is %lld, claims make it %lld", STR_ARG(step_id(step)),
                 INT_ARG(data->attempt), INT_ARG(expected));
    /* No worker holds a step that only waits, so that it needs no terms. */
    if (!step_waits(step))
        verify_lease_holder(v);
    if (!step_waits(step) || data->lease_ttl_ms != 0)
        verify_lease_terms(v, judging ? 0 : step->planned->spec.timeout_ms);
    if (!judging) {
        verify_resource(v, step);
        step->resource_id = data->resource_id;
    }

    step->attempt = data->attempt != 0 ? count_or(data->attempt, expected) : expected;
    step->not_before = 0;
    step->lease = (struct lease_account){
        .live = true,
        .attempt = step->attempt,
        .expires_at = data->expires_at,
        .timeout_at = data->timeout_at,
        .life = v->life,
    };
}

/* A step that goes on under the lease it has says nothing new of it. */
static void verify_step_start(struct verifier *v, const struct step_account *step)
{
    int64_t attempt = v->event->data.attempt;
    if (attempt != 0 && attempt != step->attempt)
        buf_addf(violate(v, VERIFY_STEP_ATTEMPT),
                 "step \"%.*s\" starts attempt %lld, leased as %lld", STR_ARG(step_id(step)),
                 INT_ARG(attempt), INT_ARG(step->attempt));
}

/* ---- ends ---- */

/* Which states a verdict leads to; a retry or switch beyond the limit is fatal. */
static bool verdict_leads_to(enum verdict verdict, enum step_state state)
{
    switch (verdict) {
    case VERDICT_ACCEPT:
        return state == STEP_SUCCEEDED;
    case VERDICT_RETRY:
        return state == STEP_FAILED_RETRYABLE || state == STEP_FAILED_FATAL;
    case VERDICT_SWITCH_RESOURCE:
        return state == STEP_FAILED_RESOURCE || state == STEP_FAILED_FATAL;
    case VERDICT_REPLAN:
        return state == STEP_FAILED_FATAL;
    case VERDICT_NEEDS_USER:
        return state == STEP_NEEDS_USER;
    default:
        return false;
    }
}

static void verify_verdict(struct verifier *v, const struct step_account *step, enum step_state to)
{
    const struct event *event = v->event;
    enum verdict verdict = event->data.verdict;
    bool judged =
        event_caused_by(v, COMMAND_VERDICT) && text_eq(event->cause.step, event->data.step);
    bool decides = to == STEP_SUCCEEDED || to == STEP_FAILED_RETRYABLE ||
                   to == STEP_FAILED_RESOURCE || to == STEP_FAILED_FATAL || to == STEP_NEEDS_USER;
    if (decides && (verdict != VERDICT_NONE || judged) && !verdict_leads_to(verdict, to))
        buf_addf(violate(v, VERIFY_STEP_VERDICT), "verdict %.*s leads step \"%.*s\" to %.*s",
                 STR_ARG(word(&verdict_names, (int)verdict)), STR_ARG(step_id(step)),
                 STR_ARG(step_state_name(to)));
}

static void verify_success(struct verifier *v, struct step_account *step)
{
    const struct step *planned = step->planned;
    /* A wait step that a new plan put in the place of a worker's has nobody to resolve its
     * effects. */
    if (!step_waits(step))
        verify_no_open_effect(v, planned->spec.id);
    if (planned->spec.critic && !step->held &&
        (event_caused_by(v, COMMAND_COMPLETE) || event_caused_by(v, COMMAND_EFFECT_COMMIT)))
        buf_addf(violate(v, VERIFY_STEP_VERDICT), "step \"%.*s\" succeeded without its critic",
                 STR_ARG(step_id(step)));
    /* A second success of one step is reported already, and frees no one. */
    for (uint32_t i = 0; step->state != STEP_SUCCEEDED && i < planned->child_count; i++) {
        if (planned->children[i] >= v->step_count)
            continue;
        struct step_account *child = &v->steps[planned->children[i]];
        count_step(v, child, -1);
        child->open_deps--;
        count_step(v, child, 1);
    }
}

static void lose_resource(struct verifier *v, struct step_account *step)
{
    struct str resource = v->event->data.resource_id;
    if (step->resource_id.len > 0 && !text_eq(resource, step->resource_id))
        buf_addf(violate(v, VERIFY_STEP_RESOURCE),
                 "step \"%.*s\" ran on \"%.*s\" and lost \"%.*s\"", STR_ARG(step_id(step)),
                 STR_ARG(step->resource_id), STR_ARG(resource));
    if (resource.len == 0)
        return;
    struct lost_resource *lost = arena_alloc(v->arena, sizeof *lost);
    if (lost == NULL) {
        v->no_memory = true;
        return;
    }
    *lost = (struct lost_resource){.id = resource, .next = step->lost};
    step->lost = lost;
}

/* A retry and an end count, and so does a lease that was lost. Giving it back does not, nor does
 * moving to another resource on someone's word. */
static bool counts(const struct verifier *v, enum step_state to)
{
    if (to == STEP_FAILED_RESOURCE || to == STEP_LEASE_TIMEOUT)
        return event_caused_by(v, COMMAND_EXPIRE);
    return to == STEP_FAILED_FATAL || !text_eq(v->event->data.reason, STR("released"));
}

/* Called with the failure counted: the class of a worker's error says whether it is the end. A step
 * may also run out of resources. */
static void verify_step_class(struct verifier *v, const struct step_account *step,
                              enum step_state to)
{
    struct str error = v->event->data.error;
    int64_t limit = step->planned->spec.retry.max_attempts;
    if (!event_caused_by(v, COMMAND_FAIL))
        return;
    if (to != STEP_FAILED_FATAL && error_is_final(error))
        buf_addf(violate(v, VERIFY_STEP_FAILURES), "step \"%.*s\" goes on after the error %.*s",
                 STR_ARG(step_id(step)), STR_ARG(error));
    if (to == STEP_FAILED_FATAL && step->failures < limit && !error_is_final(error) &&
        error_class_of(error) != CLASS_RESOURCE)
        buf_addf(violate(v, VERIFY_STEP_FAILURES), "step \"%.*s\" ends after %lld of %lld failures",
                 STR_ARG(step_id(step)), INT_ARG(step->failures), INT_ARG(limit));
}

static void verify_failure(struct verifier *v, struct step_account *step, enum step_state to)
{
    const struct event_data *data = &v->event->data;
    bool counted = counts(v, to);
    int64_t expected = step->failures + (counted ? 1 : 0);
    if (data->failures != expected)
        buf_addf(violate(v, VERIFY_STEP_FAILURES), "failures of step \"%.*s\" is %lld, %lld before",
                 STR_ARG(step_id(step)), INT_ARG(data->failures), INT_ARG(step->failures));
    step->failures = count_or(data->failures, expected);

    int64_t limit = step->planned->spec.retry.max_attempts;
    bool again = to != STEP_FAILED_FATAL && counted;
    if (again && limit > 0 && step->failures >= limit)
        buf_addf(violate(v, VERIFY_STEP_FAILURES),
                 "step \"%.*s\" goes on after %lld of %lld failures", STR_ARG(step_id(step)),
                 INT_ARG(step->failures), INT_ARG(limit));
    verify_step_class(v, step, to);
    step->replans = data->verdict == VERDICT_REPLAN;
    v->replan = v->replan || step->replans;
    if (to == STEP_FAILED_RESOURCE)
        lose_resource(v, step);
}

/* A lost resource ends leases before their time, and says so with another reason. */
static void verify_step_expiry(struct verifier *v, const struct step_account *step)
{
    if (event_caused_by(v, COMMAND_EXPIRE) && step_lease_live(v, step) &&
        text_eq(v->event->data.reason, STR("lease_expired")))
        verify_lease_over(v, &step->lease);
}

/* ---- questions ---- */

static void verify_question(struct verifier *v, struct step_account *step)
{
    const struct event_data *data = &v->event->data;
    if (data->wait_type == WAIT_NONE)
        buf_addf(violate(v, VERIFY_WAIT), "the question of step \"%.*s\" has no type",
                 STR_ARG(step_id(step)));
    if (str_is_set(data->effect))
        verify_doubt(v, step_id(step), data->effect);
    step->answered = false;
    step->question = (struct wait_account){
        .type = data->wait_type,
        .key = data->correlation_key,
        .until = data->until,
        .effect = data->effect,
        .choices = data->choices,
    };
}

void verify_answer(struct verifier *v)
{
    const struct event *event = v->event;
    const struct event_data *data = &event->data;
    struct step_account *step = event_step_account(v);
    if (step == NULL || !verify_not_passing(v, step))
        return;
    const struct wait_account *question = &step->question;
    struct str id = step_id(step);
    if (step->state != STEP_NEEDS_USER || step->answered) {
        buf_addf(violate(v, VERIFY_STEP_ANSWER), "step \"%.*s\" has no open question", STR_ARG(id));
        return;
    }
    if (data->outcome == OUTCOME_TIMEOUT && (question->until == 0 || event->at < question->until))
        buf_addf(violate(v, VERIFY_STEP_ANSWER),
                 "step \"%.*s\" timed out at %lld ms, open until %lld ms", STR_ARG(id),
                 INT_ARG(event->at), INT_ARG(question->until));
    /* A stored signal is delivered by a wake, or when a younger one comes. */
    bool by_wake = data->outcome == OUTCOME_TIMEOUT || data->signal_version != 0;
    bool pushed = data->signal_version != 0 && event_caused_by(v, COMMAND_SIGNAL);
    if (by_wake != event_caused_by(v, COMMAND_WAKE) && !pushed)
        buf_addf(violate(v, VERIFY_STEP_ANSWER), "%.*s answered step \"%.*s\" with outcome %.*s",
                 STR_ARG(command_text(v)), STR_ARG(id),
                 STR_ARG(word(&outcome_names, (int)data->outcome)));
    if (data->correlation_key.len > 0 && !text_eq(data->correlation_key, question->key))
        buf_addf(violate(v, VERIFY_STEP_ANSWER),
                 "step \"%.*s\" asks for \"%.*s\", answered \"%.*s\"", STR_ARG(id),
                 STR_ARG(question->key), STR_ARG(data->correlation_key));
    verify_choice(v, question, VERIFY_STEP_ANSWER);
    if (data->resolution != RESOLVE_NONE)
        verify_resolution(v, id, question->effect);
    else if (str_is_set(question->effect))
        buf_addf(violate(v, VERIFY_STEP_ANSWER), "effect \"%.*s\" of step \"%.*s\" stays in doubt",
                 STR_ARG(question->effect), STR_ARG(id));
    count_step(v, step, -1);
    step->answered = true;
    count_step(v, step, 1);
}

/* ---- the critic ---- */

/* A critic that failed or was lost counts, as long as there is another try. Earlier versions said
 * nothing of it. */
static void verify_critic(struct verifier *v, struct step_account *step)
{
    bool failed = event_caused_by(v, COMMAND_FAIL) || event_caused_by(v, COMMAND_EXPIRE);
    int64_t said = v->event->data.failures;
    int64_t limit = step->planned->spec.retry.max_attempts;
    if (said == 0)
        return;
    if (said != step->failures + (step->held && failed ? 1 : 0) ||
        (failed && limit > 0 && said >= limit))
        buf_addf(violate(v, VERIFY_STEP_FAILURES),
                 "failures of step \"%.*s\", which is judged, is %lld of %lld, %lld before",
                 STR_ARG(step_id(step)), INT_ARG(said), INT_ARG(limit), INT_ARG(step->failures));
    step->failures = said;
}

/* The result is held for a critic; when a critic gives up, it is held again. */
static void verify_finished(struct verifier *v, struct step_account *step)
{
    if (!verify_not_passing(v, step))
        return;
    if (step->state != STEP_RUNNING || (step->held && !step_lease_live(v, step)))
        buf_addf(violate(v, VERIFY_STEP_MOVE), "step \"%.*s\" finished while %.*s%s",
                 STR_ARG(step_id(step)), STR_ARG(step_state_name(step->state)),
                 step->held ? " and held" : "");
    if (!step->planned->spec.critic)
        buf_addf(violate(v, VERIFY_STEP_VERDICT), "step \"%.*s\" is held, and asks for no critic",
                 STR_ARG(step_id(step)));
    verify_no_open_effect(v, step_id(step));
    verify_critic(v, step);
    step->lease.live = false;
    step->held = true;
}

/* ---- the step ---- */

/* Everything that entering a state means besides the move itself. */
static void enter_state(struct verifier *v, struct step_account *step, enum step_state to)
{
    verify_verdict(v, step, to);
    verify_step_expiry(v, step);
    switch (to) {
    case STEP_WAITING_DEPS:
        if (step->open_deps <= 0)
            buf_addf(violate(v, VERIFY_STEP_MOVE), "step \"%.*s\" has no open dependency",
                     STR_ARG(step_id(step)));
        break;
    case STEP_LEASED:
        verify_step_claim(v, step);
        return;
    case STEP_RUNNING:
        if (step->state == STEP_LEASED)
            verify_step_start(v, step);
        else
            verify_step_claim(v, step);
        return;
    case STEP_SUCCEEDED:
        verify_success(v, step);
        break;
    case STEP_FAILED_RETRYABLE:
    case STEP_FAILED_RESOURCE:
    case STEP_FAILED_FATAL:
    case STEP_LEASE_TIMEOUT:
        verify_failure(v, step, to);
        break;
    case STEP_RETRYING:
        step->not_before = v->event->data.not_before;
        break;
    case STEP_NEEDS_USER:
        verify_question(v, step);
        break;
    default:
        break;
    }
    step->lease.live = false;
    step->held = false;
}

void verify_step(struct verifier *v)
{
    struct step_account *step = v->blind ? NULL : event_step_account(v);
    if (step == NULL)
        return;

    count_step(v, step, -1);
    if (v->event->type == EVENT_STEP_FINISHED) {
        verify_finished(v, step);
    } else if (v->event->type == EVENT_STEP_JUDGING) {
        if (verify_not_passing(v, step))
            verify_step_claim(v, step);
    } else {
        enum step_state to = STEP_PENDING;
        bool enters = step_event_state(v->event->type, &to);
        assert(enters);
        (void)enters;
        verify_step_move(v, step, to);
        enter_state(v, step, to);
        step->state = to;
        step->entered = v->event->version;
    }
    count_step(v, step, 1);
}
