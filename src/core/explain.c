#include "core/explain.h"

#include <assert.h>

#include "base/buf.h"
#include "base/times.h"
#include "base/utf8.h"
#include "core/action.h"
#include "core/lifetime.h"
#include "core/retention.h"
#include "core/schedule_entry.h"

/* So much of a text that people wrote, and so many steps, are shown. */
enum { SHOWN_BYTES = 200, SHOWN_STEPS = 20 };

/* What is being explained, and the line that is being written. */
struct explainer {
    const struct job_slice *slice;
    const struct job *job;
    const struct explain_context *context;
    struct json_writer *writer;
    struct buf line;
    char id[UUID_TEXT_LEN + 1];
};

/* ---- pieces of lines ---------------------------------------------------------------------- */

static struct buf *line(struct explainer *e)
{
    buf_init(&e->line, e->context->arena, 256);
    return &e->line;
}

static void put(struct explainer *e)
{
    json_put_string(e->writer, buf_str(&e->line));
    e->writer->buf->failed = e->writer->buf->failed || e->line.failed;
}

/* A line that is all there. */
static void say(struct explainer *e, struct str text)
{
    buf_add(line(e), text);
    put(e);
}

/* The beginning of a text, cut between characters. */
static void add_shown(struct buf *buf, struct str text)
{
    size_t len = 0;
    while (len < text.len) {
        size_t next = utf8_length(text.at + len, text.at + text.len);
        if (next == 0 || len + next > SHOWN_BYTES)
            break;
        len += next;
    }
    buf_add(buf, (struct str){text.at, len});
    if (len < text.len)
        buf_add(buf, STR("..."));
}

static void add_quoted(struct buf *buf, struct str text)
{
    buf_add_char(buf, '"');
    add_shown(buf, text);
    buf_add_char(buf, '"');
}

/* A name as a shell takes it. */
static void add_word(struct buf *buf, struct str word)
{
    static const struct str plain =
        STR_INIT("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/@%+=,-");
    size_t safe = 0;
    while (safe < word.len && memchr(plain.at, word.at[safe], plain.len) != NULL)
        safe++;
    if (safe == word.len && word.len > 0 && word.at[0] != '-') {
        buf_add(buf, word);
        return;
    }
    buf_add_char(buf, '\'');
    for (size_t i = 0; i < word.len; i++)
        buf_add(buf, word.at[i] == '\'' ? STR("'\\''") : (struct str){word.at + i, 1});
    buf_add_char(buf, '\'');
}

static const struct {
    int64_t ms;
    const char *name;
} units[] = {
    {24 * 60 * 60 * 1000, "d"}, {60 * 60 * 1000, "h"}, {60 * 1000, "m"}, {1000, "s"}, {1, "ms"},
};

enum { UNIT_COUNT = sizeof units / sizeof units[0] };

/* The greatest unit that fits, and the smallest that is shown beside it: milliseconds beside
 * seconds, and hours beside ten days, are more than anybody reads. */
static int unit_of(int64_t ms, int *ret_last)
{
    enum { SECONDS = UNIT_COUNT - 2, MANY = 10 };
    int unit = 0;
    while (unit + 1 < UNIT_COUNT && ms < units[unit].ms)
        unit++;
    *ret_last = unit < SECONDS && ms / units[unit].ms < MANY ? unit + 1 : unit;
    return unit;
}

/* "3s", "59m", "1h 30m", "20d": rounded to the nearest, as the command line writes spans. */
static void add_span(struct buf *buf, int64_t ms)
{
    int last;
    (void)unit_of(ms, &last);
    ms = (ms + units[last].ms / 2) / units[last].ms * units[last].ms;

    /* What was rounded up may fit a greater unit. */
    int unit = unit_of(ms, &last);
    int64_t rest = ms % units[unit].ms / units[last].ms;
    buf_addf(buf, "%lld%s", (long long)(ms / units[unit].ms), units[unit].name);
    if (rest > 0)
        buf_addf(buf, " %lld%s", (long long)rest, units[last].name);
}

/* "2026-01-01T00:00:00.000Z (3s ago)" */
static void add_time(struct explainer *e, int64_t at)
{
    enum { NOW_MS = 1000 };
    char text[TIME_TEXT_LEN];
    int64_t now = e->context->now;
    int64_t away = at > now ? at - now : now - at;
    time_format(at < 0 ? 0 : at > TIME_MAX_MS ? TIME_MAX_MS : at, text);
    buf_add(&e->line, (struct str){text, TIME_TEXT_LEN});
    if (away < NOW_MS) {
        buf_add(&e->line, STR(" (now)"));
        return;
    }
    buf_add(&e->line, at > now ? STR(" (in ") : STR(" ("));
    add_span(&e->line, away);
    buf_add(&e->line, at > now ? STR(")") : STR(" ago)"));
}

/* The member of an error that says what happened; else all of it. */
static void add_error(struct explainer *e, struct str error)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str text = error;
    struct str type = {NULL, 0};
    struct str code = {NULL, 0};
    bool object = json_object_begin(&iter, error);
    while (object && json_object_next(&iter, &key, &value))
        if (json_key_is(key, STR("message")))
            (void)json_string(value, e->context->arena, &text);
        else if (json_key_is(key, STR("type")))
            (void)json_string(value, e->context->arena, &type);
        else if (json_key_is(key, STR("code")))
            (void)json_string(value, e->context->arena, &code);
    add_quoted(&e->line, text);
    if (type.len + code.len == 0)
        return;
    buf_add(&e->line, STR(" ("));
    add_shown(&e->line, type);
    if (code.len > 0)
        buf_add(&e->line, type.len > 0 ? STR(", code ") : STR("code "));
    add_shown(&e->line, code);
    buf_add_char(&e->line, ')');
}

/* "pawl VERB ID", to be added to. */
static struct buf *command(struct explainer *e, const char *verb)
{
    struct buf *buf = line(e);
    buf_addf(buf, "pawl %s %s", verb, e->id);
    return buf;
}

static void move(struct explainer *e, const char *verb, const char *rest)
{
    buf_addf(command(e, verb), "%s", rest);
    put(e);
}

/* Names of a raw array; it was checked when it came in. */
static void add_names(struct explainer *e, struct str array)
{
    struct json_iter iter;
    struct str raw;
    struct str name;
    bool first = true;
    if (!json_array_begin(&iter, array))
        return;
    while (json_array_next(&iter, &raw)) {
        if (!json_string(raw, e->context->arena, &name))
            continue;
        buf_add(&e->line, first ? STR(" ") : STR(", "));
        add_shown(&e->line, name);
        first = false;
    }
}

/* ---- what several states have in common --------------------------------------------------- */

static void say_failures(struct explainer *e)
{
    const struct job *job = e->job;
    if (job->failures > 0) {
        buf_addf(line(e), "Failures: %lld of at most %lld.", (long long)job->failures,
                 (long long)job->spec.retry.max_attempts);
        put(e);
    }
    if (str_is_set(job->error)) {
        buf_add(line(e), STR("Last error: "));
        add_error(e, job->error);
        put(e);
    }
}

static void say_paused(struct explainer *e)
{
    if (!e->context->queue_paused)
        return;
    buf_add(line(e), STR("Queue "));
    add_quoted(&e->line, e->job->spec.queue);
    buf_add(&e->line, STR(" is paused: no job of it can be claimed."));
    put(e);
}

static void say_cancel(struct explainer *e)
{
    const struct job *job = e->job;
    if (!job->cancel_requested)
        return;
    buf_add(line(e), STR("Cancellation was requested"));
    if (str_is_set(job->cancel_reason) && job->cancel_reason.len > 0) {
        buf_add(&e->line, STR(", because: "));
        add_quoted(&e->line, job->cancel_reason);
    }
    buf_add(&e->line, STR(". If the worker does not stop, Pawl cancels the job at "));
    add_time(e, job->cancel_at);
    buf_add_char(&e->line, '.');
    put(e);
}

/* Until when it must have started, and ended. */
static void say_lifetime(struct explainer *e)
{
    int64_t expires_at = job_expires_at(e->job);
    int64_t deadline_at = job_deadline_at(e->job);
    if (expires_at > 0) {
        buf_add(line(e), STR("Expires (and is cancelled) unless started by "));
        add_time(e, expires_at);
        buf_add_char(&e->line, '.');
        put(e);
    }
    if (deadline_at > 0) {
        buf_add(line(e), STR("Deadline: times out at "));
        add_time(e, deadline_at);
        buf_add_char(&e->line, '.');
        put(e);
    }
}

static void say_signals(struct explainer *e)
{
    if (e->job->stored_signals == 0)
        return;
    buf_addf(line(e), "Stored signals not delivered yet: %lld.", (long long)e->job->stored_signals);
    put(e);
}

static void say_resume(struct explainer *e)
{
    const struct resume *resume = &e->job->resume;
    if (resume->outcome == OUTCOME_NONE)
        return;
    buf_add(line(e), STR("The wait"));
    if (str_is_set(resume->correlation_key)) {
        buf_add(&e->line, STR(" for "));
        add_quoted(&e->line, resume->correlation_key);
    }
    buf_add(&e->line, resume->outcome == OUTCOME_SIGNAL    ? STR(" was answered.")
                      : resume->outcome == OUTCOME_TIMEOUT ? STR(" timed out.")
                                                           : STR(" ended: there is a new plan."));
    put(e);
}

static void move_resume(struct explainer *e)
{
    if (!e->context->queue_paused)
        return;
    buf_add(line(e), STR("pawl resume "));
    add_word(&e->line, e->job->spec.queue);
    put(e);
}

/* The options that give a worker what a job asks for. */
static void add_capabilities(struct explainer *e)
{
    struct json_iter iter;
    struct str raw;
    struct str name;
    if (!json_array_begin(&iter, e->job->spec.capabilities))
        return;
    while (json_array_next(&iter, &raw)) {
        if (!json_string(raw, e->context->arena, &name))
            continue;
        buf_add(&e->line, STR(" --capability "));
        add_word(&e->line, name);
    }
}

/* A worker for it. */
static void move_work(struct explainer *e)
{
    buf_add(line(e), STR("pawl work --kind "));
    add_word(&e->line, e->job->spec.kind);
    buf_add(&e->line, STR(" --queue "));
    add_word(&e->line, e->job->spec.queue);
    add_capabilities(e);
    buf_add(&e->line, STR(" -- COMMAND"));
    put(e);
}

/* ---- the steps of a plan ------------------------------------------------------------------ */

static const struct str standing_texts[STANDING_COUNT] = {
    [STANDING_BLOCKED] = STR_INIT("blocked by dependencies"),
    [STANDING_READY] = STR_INIT("ready to be claimed"),
    [STANDING_ACTIVE] = STR_INIT("running"),
    [STANDING_HELD] = STR_INIT("held for review"),
    [STANDING_ASKING] = STR_INIT("needing input"),
    [STANDING_SUCCEEDED] = STR_INIT("succeeded"),
    [STANDING_FAILED] = STR_INIT("failed"),
};

static void add_standings(struct explainer *e)
{
    bool first = true;
    buf_add(&e->line, STR("Steps:"));
    for (int i = 0; i < STANDING_COUNT; i++) {
        int64_t count = e->job->steps[i];
        if (count == 0)
            continue;
        buf_addf(&e->line, "%s %lld %.*s", first ? "" : ",", (long long)count,
                 STR_ARG(standing_texts[i]));
        first = false;
    }
    buf_add_char(&e->line, '.');
}

/* The dependencies that have not succeeded. */
static void add_open_deps(struct explainer *e, const struct step *step)
{
    struct json_iter iter;
    struct str raw;
    struct str id;
    bool first = true;
    if (!json_array_begin(&iter, step->spec.deps))
        return;
    while (json_array_next(&iter, &raw)) {
        const struct step *dep =
            json_string(raw, e->context->arena, &id) ? job_step(e->slice, id) : NULL;
        if (dep == NULL || step_standing(dep) == STANDING_SUCCEEDED)
            continue;
        buf_add(&e->line, first ? STR(" waits for ") : STR(", "));
        add_quoted(&e->line, id);
        buf_addf(&e->line, " (%.*s)", STR_ARG(step_state_name(dep->state)));
        first = false;
    }
}

static void add_question(struct explainer *e, const struct wait *wait)
{
    if (str_is_set(wait->prompt)) {
        buf_add(&e->line, STR(": "));
        add_quoted(&e->line, wait->prompt);
    }
    if (str_is_set(wait->choices)) {
        buf_add(&e->line, STR("; choices:"));
        add_names(e, wait->choices);
    }
    if (str_is_set(wait->assignee)) {
        buf_add(&e->line, STR("; assignee: "));
        add_quoted(&e->line, wait->assignee);
    }
    if (str_is_set(wait->correlation_key)) {
        buf_add(&e->line, STR("; key: "));
        add_quoted(&e->line, wait->correlation_key);
    }
    if (wait->until > 0) {
        buf_add(&e->line, STR("; times out at "));
        add_time(e, wait->until);
    }
}

static void add_lease(struct explainer *e, const struct lease *lease)
{
    buf_add(&e->line, STR(" is leased by "));
    add_quoted(&e->line, lease->worker_id);
    if (str_is_set(lease->resource_id)) {
        buf_add(&e->line, STR(" on "));
        add_quoted(&e->line, lease->resource_id);
    }
    buf_add(&e->line, STR(" until "));
    add_time(e, lease->expires_at);
}

static void add_needs(struct explainer *e, const struct step *step)
{
    const struct step_spec *spec = &step->spec;
    if (step->not_before > e->context->now) {
        buf_add(&e->line, STR(" can be claimed at "));
        add_time(e, step->not_before);
    } else if (str_is_set(spec->wait)) {
        buf_add(&e->line, STR(" starts waiting when the job is due"));
    } else {
        buf_add(&e->line, STR(" is ready for a worker with a matching resource"));
    }
    if (json_count(spec->capabilities) > 0) {
        buf_add(&e->line, STR("; requires"));
        add_names(e, spec->capabilities);
    }
    if (str_is_set(spec->selector) && spec->selector.len > 0) {
        buf_add(&e->line, STR("; selector: "));
        add_quoted(&e->line, spec->selector);
    }
    if (json_count(spec->avoid) > 0) {
        buf_add(&e->line, STR("; avoids"));
        add_names(e, spec->avoid);
    }
    for (uint32_t i = 0; i < step->avoided_count; i++) {
        buf_add(&e->line, i == 0 ? STR("; lost on ") : STR(", "));
        add_shown(&e->line, step->avoided[i]);
    }
}

static void say_step(struct explainer *e, const struct step *step)
{
    enum step_standing standing = step_standing(step);
    buf_add(line(e), STR("Step "));
    add_quoted(&e->line, step->spec.id);
    if (step->lease.live)
        add_lease(e, &step->lease);
    else if (standing == STANDING_BLOCKED)
        add_open_deps(e, step);
    else if (standing == STANDING_READY)
        add_needs(e, step);
    else if (standing == STANDING_HELD)
        buf_add(&e->line, STR(" is finished and awaits review"));
    else
        buf_addf(&e->line, " is %.*s", STR_ARG(step_state_name(step->state)));
    if (standing == STANDING_ASKING)
        add_question(e, &step->question);
    if (step->failures > 0)
        buf_addf(&e->line, "; failures: %lld of at most %lld", (long long)step->failures,
                 (long long)step->spec.retry.max_attempts);
    if (str_is_set(step->error) && standing != STANDING_SUCCEEDED) {
        buf_add(&e->line, STR("; last error: "));
        add_error(e, step->error);
    }
    buf_add_char(&e->line, '.');
    put(e);
}

/* Steps that hold the others up: all but those that are done, or only wait for these. */
static void say_steps(struct explainer *e)
{
    static const enum step_standing order[] = {STANDING_FAILED, STANDING_ASKING, STANDING_HELD,
                                               STANDING_ACTIVE, STANDING_READY,  STANDING_BLOCKED};
    /* When the job has ended the others stay as they are. */
    size_t standings = job_status_terminal(e->job->status) ? 1 : sizeof order / sizeof order[0];
    uint32_t shown = 0;
    uint32_t open = 0;
    for (size_t i = 0; i < standings; i++) {
        for (uint32_t s = 0; s < e->slice->step_count; s++) {
            const struct step *step = &e->slice->steps[s];
            if (step_standing(step) != order[i])
                continue;
            if (open++ < SHOWN_STEPS) {
                say_step(e, step);
                shown++;
            }
        }
    }
    if (open > shown) {
        buf_addf(line(e), "And %u more step%s: pawl steps %s shows all.", open - shown,
                 open - shown == 1 ? "" : "s", e->id);
        put(e);
    }
}

static void reasons_plan(struct explainer *e)
{
    (void)line(e);
    buf_addf(&e->line, "Plan version %lld. ", (long long)e->job->plan_version);
    add_standings(e);
    put(e);
    if (e->job->replan) {
        buf_add(line(e), STR("A step requested a new plan"));
        if (str_is_set(e->job->replan_reason)) {
            buf_add(&e->line, STR(", because: "));
            add_quoted(&e->line, e->job->replan_reason);
        }
        buf_add_char(&e->line, '.');
        put(e);
    }
    say_steps(e);
}

static bool takes_claims(const struct explainer *e, enum step_standing standing)
{
    return job_takes_step_claims(e->job) && e->job->steps[standing] > 0;
}

/* "pawl VERB ID", or with a step "pawl VERB ID STEP", and `rest`. */
static void move_verdict(struct explainer *e, const char *verb, struct str step, const char *rest)
{
    (void)command(e, verb);
    if (str_is_set(step)) {
        buf_add_char(&e->line, ' ');
        add_word(&e->line, step);
    }
    buf_addf(&e->line, "%s", rest);
    put(e);
}

/* Who answers a question, and how. */
static void move_answer(struct explainer *e, const struct wait *wait, struct str step)
{
    bool chosen = str_is_set(wait->choices);
    if (str_is_set(wait->effect)) {
        move_verdict(e, "approve", step, " --answer retry");
        move_verdict(e, "approve", step, " --answer done --result JSON");
        move_verdict(e, "reject", step, "");
        return;
    }
    if (wait->type == WAIT_HUMAN) {
        /* With choices there is neither yes nor no, only one of them. */
        move_verdict(e, "approve", step, chosen ? " --answer CHOICE" : "");
        if (!chosen)
            move_verdict(e, "reject", step, "");
    }
    if (!str_is_set(wait->correlation_key) || wait->type == WAIT_TIMER || chosen)
        return;
    (void)command(e, "signal");
    buf_add_char(&e->line, ' ');
    add_word(&e->line, wait->correlation_key);
    buf_add(&e->line, STR(" --payload JSON"));
    put(e);
}

static void moves_plan(struct explainer *e)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < e->slice->step_count && shown < SHOWN_STEPS; i++) {
        const struct step *step = &e->slice->steps[i];
        if (step_standing(step) != STANDING_ASKING || e->job->replan)
            continue;
        move_answer(e, &step->question, step->spec.id);
        shown++;
    }
    if (takes_claims(e, STANDING_READY))
        say(e, STR("Start a worker with a matching resource: 'pawl work --resource ID'."));
    if (takes_claims(e, STANDING_HELD))
        say(e, STR("A reviewer claims finished steps with \"judge\": true and gives a verdict."));
    if (e->job->replan)
        say(e, STR("Submit a new plan."));
    if (e->job->steps[STANDING_ACTIVE] > 0)
        say(e, STR("A worker completes or fails its step, or its lease expires."));
}

/* ---- the states of a job ------------------------------------------------------------------ */

static bool is_due(const struct explainer *e)
{
    return e->job->run_at <= e->context->now;
}

static void summary_queued(struct explainer *e)
{
    struct buf *buf = line(e);
    if (!is_due(e)) {
        buf_add(buf, STR("Scheduled: it can be claimed at "));
        add_time(e, e->job->run_at);
        buf_add_char(buf, '.');
    } else if (e->context->queue_paused) {
        buf_add(buf, STR("Ready, but the queue is paused."));
    } else if (job_has_plan(e->job)) {
        buf_add(buf, STR("Ready: waiting for a worker to claim one of its steps."));
    } else {
        buf_add(buf, STR("Ready: waiting for a worker to claim it."));
    }
}

static void say_workers(struct explainer *e)
{
    if (e->context->workers == NULL)
        return;
    worker_coverage_tell(e->context->workers, e->job->spec.kind, e->job->spec.queue, line(e));
    put(e);
}

static void say_claimable(struct explainer *e)
{
    const struct job *job = e->job;
    (void)line(e);
    buf_add(&e->line, is_due(e) ? STR("Ready since ") : STR("Ready at "));
    add_time(e, job->run_at);
    buf_add_char(&e->line, '.');
    put(e);
    say_paused(e);
    if (job_has_plan(job))
        return;
    buf_add(line(e), STR("Needs a worker for kind "));
    add_quoted(&e->line, job->spec.kind);
    buf_add(&e->line, STR(" on queue "));
    add_quoted(&e->line, job->spec.queue);
    buf_add(&e->line, STR(""));
    if (json_count(job->spec.capabilities) > 0) {
        buf_add(&e->line, STR(", with the capabilities"));
        add_names(e, job->spec.capabilities);
    }
    if (str_is_set(job->pin)) {
        buf_add(&e->line, STR(", and says the code version "));
        add_quoted(&e->line, job->pin);
    }
    buf_add_char(&e->line, '.');
    put(e);
    say_workers(e);
    buf_addf(line(e),
             "Priority %lld: jobs of the queue with a higher priority run first, then older jobs "
             "of the same priority.",
             (long long)job->spec.priority);
    put(e);
}

static void reasons_queued(struct explainer *e)
{
    say_claimable(e);
    say_resume(e);
    say_failures(e);
    say_lifetime(e);
    say_signals(e);
    if (job_has_plan(e->job))
        reasons_plan(e);
}

static void moves_queued(struct explainer *e)
{
    move_resume(e);
    if (!is_due(e)) {
        say(e, STR("A worker can claim it when it is due."));
        move(e, "run", "");
    } else if (job_has_plan(e->job)) {
        moves_plan(e);
    } else {
        move_work(e);
    }
    move(e, "cancel", "");
}

static void summary_held(struct explainer *e)
{
    const struct lease *lease = &e->job->lease;
    struct buf *buf = line(e);
    if (!lease->live) {
        add_standings(e);
        return;
    }
    add_quoted(buf, lease->worker_id);
    buf_addf(buf, " %s attempt %lld.",
             job_status_rank(e->job->status) < job_status_rank(JOB_RUNNING)
                 ? "has claimed but not started"
                 : "is running",
             (long long)e->job->attempt);
}

static void say_lease(struct explainer *e)
{
    const struct lease *lease = &e->job->lease;
    bool over = lease->expires_at <= e->context->now;
    buf_add(line(e), STR("Last heartbeat at "));
    add_time(e, lease->beat_at);
    buf_add_char(&e->line, '.');
    put(e);
    buf_add(line(e), over ? STR("The lease expired at ") : STR("The lease expires at "));
    add_time(e, lease->expires_at);
    buf_add(&e->line, over ? STR(": the job is about to be retried.")
                           : STR(" unless the worker renews it with a heartbeat."));
    put(e);
    if (lease->timeout_at > 0) {
        buf_add(line(e), STR("The attempt times out at "));
        add_time(e, lease->timeout_at);
        buf_add_char(&e->line, '.');
        put(e);
    }
}

static void reasons_held(struct explainer *e)
{
    const struct job *job = e->job;
    if (job->lease.live)
        say_lease(e);
    if (str_is_set(job->progress)) {
        buf_add(line(e), STR("Progress: "));
        add_shown(&e->line, job->progress);
        put(e);
    }
    if (job->open_effects > 0) {
        buf_addf(line(e), "Effects started but not committed: %lld.", (long long)job->open_effects);
        put(e);
    }
    say_cancel(e);
    say_failures(e);
    say_lifetime(e);
    say_signals(e);
    if (job_has_plan(job)) {
        say_paused(e);
        reasons_plan(e);
    }
}

static void moves_held(struct explainer *e)
{
    if (job_has_plan(e->job)) {
        move_resume(e);
        moves_plan(e);
    } else {
        say(e, STR("The worker completes, fails, releases or suspends it."));
        say(e, STR("Without a heartbeat the lease expires and the job is retried."));
    }
    if (!e->job->cancel_requested)
        move(e, "cancel", "");
    move(e, "cancel", " --hard");
}

static void summary_blocked(struct explainer *e)
{
    const struct wait *wait = &e->job->wait;
    struct buf *buf = line(e);
    switch (wait->type) {
    case WAIT_HUMAN:
        buf_add(buf, str_is_set(wait->effect)
                         ? STR("Needs input: waiting for a decision about an effect in doubt")
                         : STR("Needs input: waiting for a person"));
        break;
    case WAIT_WEBHOOK:
        buf_add(buf, STR("Waiting for a webhook"));
        break;
    case WAIT_TIMER:
        buf_add(buf, STR("Waiting for a timer"));
        break;
    case WAIT_SIGNAL:
        buf_add(buf, STR("Waiting for a signal"));
        break;
    case WAIT_STEPS:
        buf_add(buf, STR("Needs input: waiting for answers to its steps"));
        break;
    case WAIT_REPLAN:
        buf_add(buf, STR("Waiting for a new plan"));
        break;
    case WAIT_NONE:
        buf_add(buf, STR("Waiting"));
        break;
    }
    if (str_is_set(wait->correlation_key)) {
        buf_add(buf, STR(" with the key "));
        add_quoted(buf, wait->correlation_key);
    }
    if (wait->until > 0) {
        buf_add(buf, STR(" until "));
        add_time(e, wait->until);
    } else {
        buf_add(buf, STR(", without a timeout"));
    }
    buf_add_char(buf, '.');
}

static void reasons_blocked(struct explainer *e)
{
    const struct wait *wait = &e->job->wait;
    buf_add(line(e), STR("Waiting since "));
    add_time(e, wait->since);
    buf_add(&e->line, STR("; no worker holds a lease."));
    put(e);
    if (str_is_set(wait->prompt) || str_is_set(wait->assignee) || str_is_set(wait->choices)) {
        buf_add(line(e), STR("Question"));
        add_question(e, wait);
        buf_add_char(&e->line, '.');
        put(e);
    }
    if (str_is_set(wait->effect)) {
        buf_add(line(e), STR("Effect "));
        add_quoted(&e->line, wait->effect);
        buf_add(&e->line,
                STR(" was started by an earlier attempt and never committed: it is unknown whether "
                    "it happened. Check, then answer retry, done or fail."));
        put(e);
    }
    say_cancel(e);
    say_failures(e);
    say_lifetime(e);
    say_signals(e);
    if (job_has_plan(e->job))
        reasons_plan(e);
}

static void moves_blocked(struct explainer *e)
{
    const struct wait *wait = &e->job->wait;
    move_answer(e, wait, (struct str){NULL, 0});
    if (wait->until > 0)
        say(e, STR("It continues by itself when the wait times out."));
    if (job_has_plan(e->job))
        moves_plan(e);
    move(e, "cancel", "");
}

static void summary_retrying(struct explainer *e)
{
    struct buf *buf = line(e);
    buf_addf(buf, "The last attempt failed (failures: %lld of at most %lld); ",
             (long long)e->job->failures, (long long)e->job->spec.retry.max_attempts);
    buf_add(buf, is_due(e) ? STR("ready again since ") : STR("next attempt at "));
    add_time(e, e->job->run_at);
    buf_add_char(buf, '.');
}

static void moves_retrying(struct explainer *e)
{
    move_resume(e);
    if (!is_due(e))
        move(e, "run", "");
    if (job_has_plan(e->job))
        moves_plan(e);
    else if (is_due(e))
        move_work(e);
    move(e, "cancel", "");
}

static void say_kept(struct explainer *e)
{
    int64_t purge_at = job_purge_at(e->job, e->context->kind);
    if (purge_at == 0) {
        say(e, STR("Kept until it is redriven or dropped."));
    } else {
        buf_add(line(e), STR("Kept until "));
        add_time(e, purge_at);
        buf_add_char(&e->line, '.');
        put(e);
    }
    if (e->job->redacted)
        say(e, STR("Payloads erased."));
}

static void summary_completed(struct explainer *e)
{
    buf_addf(line(e), "Completed in attempt %lld at ", (long long)e->job->attempt);
    add_time(e, e->job->updated_at);
    buf_add_char(&e->line, '.');
}

static void reasons_ended(struct explainer *e)
{
    say_failures(e);
    if (job_has_plan(e->job))
        reasons_plan(e);
    say_kept(e);
}

static void moves_ended(struct explainer *e)
{
    say(e, STR("No further actions; submit a new job to run it again."));
}

static void summary_cancelled(struct explainer *e)
{
    const struct job *job = e->job;
    bool expired = job->spec.expires_ms > 0 && job->attempt == 0 && job->epoch == 1 &&
                   job->updated_at >= job->created_at + job->spec.expires_ms;
    buf_add(line(e),
            expired ? STR("Expired before it started and cancelled at ") : STR("Cancelled at "));
    add_time(e, e->job->updated_at);
    buf_add_char(&e->line, '.');
}

static void reasons_cancelled(struct explainer *e)
{
    if (str_is_set(e->job->cancel_reason) && e->job->cancel_reason.len > 0) {
        buf_add(line(e), STR("Reason: "));
        add_quoted(&e->line, e->job->cancel_reason);
        put(e);
    }
    reasons_ended(e);
}

static void summary_failed(struct explainer *e)
{
    buf_add(line(e), STR("Failed permanently"));
    if (str_is_set(e->job->error)) {
        buf_add(&e->line, STR(": "));
        add_error(e, e->job->error);
    }
    buf_add_char(&e->line, '.');
}

/* One that is erased cannot run again. */
static void moves_failed(struct explainer *e)
{
    if (e->job->redacted) {
        say(e, STR("No further actions: its payloads are erased."));
        return;
    }
    move(e, "requeue", "");
    move(e, "requeue", " --fresh");
}

static void summary_dead(struct explainer *e)
{
    const struct dead_letter *dead = &e->job->dead_letter;
    buf_addf(line(e), "Dead letter: %.*s", STR_ARG(dead_letter_reason_names.at[dead->reason_code]));
    if (str_is_set(dead->last_error)) {
        buf_add(&e->line, STR(", "));
        add_error(e, dead->last_error);
    }
    buf_add_char(&e->line, '.');
}

static void reasons_dead(struct explainer *e)
{
    const struct dead_letter *dead = &e->job->dead_letter;
    buf_addf(line(e), "Dead-lettered (attempts: %lld)", (long long)dead->attempts);
    if (dead->stage != STAGE_NONE)
        buf_addf(&e->line, ", stage %.*s", STR_ARG(stage_names.at[dead->stage]));
    if (str_is_set(dead->last_owner)) {
        buf_add(&e->line, STR("; last worker: "));
        add_quoted(&e->line, dead->last_owner);
    }
    buf_add(&e->line, STR("; at "));
    add_time(e, dead->at > 0 ? dead->at : e->job->updated_at);
    buf_add_char(&e->line, '.');
    put(e);
    reasons_ended(e);
}

static void moves_dead(struct explainer *e)
{
    moves_failed(e);
    move(e, "dlq drop", "");
}

/* ---- all of it ---------------------------------------------------------------------------- */

struct explanation {
    void (*summary)(struct explainer *e); /* leaves the line for the caller to put */
    void (*reasons)(struct explainer *e);
    void (*moves)(struct explainer *e);
};

static const struct explanation explanations[JOB_STATUS_COUNT] = {
    [JOB_QUEUED] = {summary_queued, reasons_queued, moves_queued},
    [JOB_LEASED] = {summary_held, reasons_held, moves_held},
    [JOB_RUNNING] = {summary_held, reasons_held, moves_held},
    [JOB_WAITING] = {summary_blocked, reasons_blocked, moves_blocked},
    [JOB_PARKED] = {summary_blocked, reasons_blocked, moves_blocked},
    [JOB_RETRYING] = {summary_retrying, reasons_queued, moves_retrying},
    [JOB_COMPLETED] = {summary_completed, reasons_ended, moves_ended},
    [JOB_CANCELLED] = {summary_cancelled, reasons_cancelled, moves_ended},
    [JOB_FAILED] = {summary_failed, reasons_ended, moves_failed},
    [JOB_DEAD_LETTERED] = {summary_dead, reasons_dead, moves_dead},
};

void job_explain(const struct job_slice *slice, const struct explain_context *context,
                 struct json_writer *writer)
{
    assert(slice->job.status < JOB_STATUS_COUNT);
    const struct explanation *how = &explanations[slice->job.status];
    struct explainer e = {.slice = slice, .job = &slice->job, .context = context, .writer = writer};
    uuid_format(slice->job.id, e.id);
    e.id[UUID_TEXT_LEN] = '\0';
    json_begin_object(writer);
    json_key(writer, STR("status"));
    json_put_string(writer, job_status_name(slice->job.status));
    json_key(writer, STR("summary"));
    how->summary(&e);
    put(&e);
    json_key(writer, STR("reasons"));
    json_begin_array(writer);
    how->reasons(&e);
    json_end_array(writer);
    json_key(writer, STR("moves"));
    json_begin_array(writer);
    how->moves(&e);
    json_end_array(writer);
    json_key(writer, STR("actions"));
    job_actions_write(job_actions(e.job, context->queue_paused, context->now) & context->may,
                      writer);
    json_end_object(writer);
}
