#include "server/log_events.h"

#include "base/clock.h"
#include "core/access.h"
#include "core/trace_context.h"
#include "engine/batch.h"
#include "server/attempt.h"

/* A store that is away fails often: one line says how often. */
enum { TELL_AGAIN_MS = 5000 };

void log_events_init(struct log_events *events, struct log *log)
{
    *events = (struct log_events){.log = log};
    arena_init(&events->arena);
}

void log_events_release(struct log_events *events)
{
    arena_release(&events->arena);
}

/* ---- events of jobs ---- */

static enum log_level requeued_level(const struct event *event)
{
    enum command_type cause = event->cause.command;
    if (cause == COMMAND_EXPIRE)
        return LOG_WARN;
    return str_is_set(event->data.error) || cause == COMMAND_REQUEUE ? LOG_INFO : LOG_DEBUG;
}

static enum log_level level_of(const struct event *event)
{
    switch (event->type) {
    case EVENT_JOB_FAILED:
    case EVENT_JOB_DEAD_LETTERED:
    case EVENT_STEP_FAILED:
    case EVENT_STEP_LEASE_TIMEOUT:
        return LOG_WARN;
    case EVENT_JOB_CANCELLED:
    case EVENT_JOB_CANCEL_REQUESTED:
    case EVENT_STEP_FAILED_RETRYABLE:
    case EVENT_STEP_FAILED_RESOURCE:
    case EVENT_STEP_FAILED_FATAL:
        return LOG_INFO;
    case EVENT_JOB_REQUEUED:
        return requeued_level(event);
    default:
        return LOG_DEBUG;
    }
}

/* Why, where that is one of our own words: people's may be anything. */
static struct str reason_of(const struct event *event)
{
    if (event->data.reason_code != DEAD_NONE)
        return dead_letter_reason_names.at[event->data.reason_code];
    if (event->cause.command == COMMAND_EXPIRE && event->type != EVENT_JOB_CANCELLED)
        return event->data.reason;
    return (struct str){NULL, 0};
}

static struct str error_class_of(const struct event *event)
{
    struct str class = json_member(event->data.error, STR("class"));
    return class.len > 2 ? (struct str){class.at + 1, class.len - 2} : (struct str){NULL, 0};
}

/* Whose it was: the step's lease for an event of a step, else the job's. */
static void put_holder(struct log_line *line, const struct job_change *change,
                       const struct event *event, const struct attempt *attempt)
{
    const struct event_data *data = &event->data;
    struct str worker_id = data->worker_id;
    int64_t number = data->attempt;
    if (str_is_set(data->step)) {
        const struct step *step = job_step(change->before, data->step);
        bool live = step != NULL && step->lease.live;
        if (!str_is_set(worker_id) && live)
            worker_id = step->lease.worker_id;
        if (number == 0 && step != NULL)
            number = step->attempt;
        log_text(line, STR("step"), data->step);
        log_text(line, STR("resource_id"),
                 str_is_set(data->resource_id) ? data->resource_id
                 : live                        ? step->lease.resource_id
                                               : (struct str){NULL, 0});
    } else if (!str_is_set(worker_id) && attempt->live) {
        worker_id = attempt->worker_id;
    }
    if (number == 0 && !str_is_set(data->step))
        number = attempt->number;
    if (number > 0)
        log_int(line, STR("attempt"), number);
    log_text(line, STR("worker_id"), worker_id);
}

static void put_event(struct log_line *line, const struct job_change *change,
                      const struct event *event, const struct attempt *attempt)
{
    const struct job *job = &change->after->job;
    log_id(line, STR("job_id"), job->id);
    log_int(line, STR("version"), event->version);
    log_text(line, STR("kind"), job->spec.kind);
    log_text(line, STR("queue"), job->spec.queue);
    put_holder(line, change, event, attempt);
    log_text(line, STR("key"), event->data.key);
    log_text(line, STR("reason"), reason_of(event));
    log_text(line, STR("error_class"), error_class_of(event));
    if (event->data.failures > 0)
        log_int(line, STR("failures"), event->data.failures);
    log_text(line, STR("cause"), command_type_name(event->cause.command));
    log_text(line, STR("actor"), event->actor);
    log_text(line, STR("correlation_id"), job->spec.correlation_id);
    if (str_is_set(job->spec.traceparent)) {
        struct trace_context context = trace_of_job(job);
        log_hex(line, STR("trace_id"), context.trace_id, TRACE_ID_LEN);
    }
}

static void tell_change(struct log_events *events, const struct job_change *change)
{
    struct attempt attempt = attempt_before(&change->before->job);
    for (uint32_t i = 0; i < change->event_count; i++) {
        const struct event *event = &change->events[i];
        struct log_line line;
        if (log_begin(events->log, level_of(event), event_name(event), &events->arena, &line)) {
            put_event(&line, change, event, &attempt);
            log_end(&line);
        }
        (void)attempt_see(&attempt, event);
    }
}

/* ---- what operators do ---- */

static void put_scopes(struct log_line *line, const struct access_token *token)
{
    struct arena arena;
    struct buf text;
    arena_init(&arena);
    buf_init(&text, &arena, 64);
    access_scopes_write(token->scopes, &text);
    if (!text.failed)
        log_text(line, STR("scopes"), buf_str(&text));
    arena_release(&arena);
}

static void put_op(struct log_line *line, const struct op *op)
{
    switch (op->type) {
    case OP_QUEUE:
        log_text(line, STR("queue"), op->queue.queue);
        break;
    case OP_KIND:
        log_text(line, STR("kind"), op->kind.kind->kind);
        break;
    case OP_TOKEN:
        log_id(line, STR("token_id"), op->token->id);
        log_text(line, STR("name"), op->token->name);
        put_scopes(line, op->token);
        break;
    case OP_TOKEN_REVOKE:
        log_id(line, STR("token_id"), op->token->id);
        break;
    case OP_RESOURCE:
        log_text(line, STR("resource_id"), op->resource->id);
        break;
    case OP_RESOURCE_GONE:
        log_text(line, STR("resource_id"), op->resource_gone.id);
        break;
    case OP_WORKER:
        log_text(line, STR("worker_id"), op->worker->id);
        break;
    case OP_WORKER_GONE:
        log_text(line, STR("worker_id"), op->worker_gone);
        break;
    case OP_RESOURCE_FAILED:
        log_text(line, STR("resource_id"), op->failed_resource);
        log_int(line, STR("rests"), op->registered.rests);
        break;
    case OP_PURGE:
    case OP_DROP:
    case OP_REDACT:
    case OP_IMPORT:
        log_id(line, STR("job_id"), op->job);
        break;
    case OP_COMMAND:
    case OP_CLAIM:
    case OP_TIMER_FIRED:
    case OP_ANSWERED:
    case OP_PROBE:
        break;
    }
}

static void tell_op(struct log_events *events, const struct op *op)
{
    static const struct {
        enum log_level level; /* LOG_NONE: the events tell it */
        struct str event;
    } facts[] = {
        [OP_COMMAND] = {LOG_NONE, STR_INIT("")},
        [OP_CLAIM] = {LOG_NONE, STR_INIT("")},
        [OP_TIMER_FIRED] = {LOG_NONE, STR_INIT("")},
        [OP_ANSWERED] = {LOG_NONE, STR_INIT("")},
        [OP_PROBE] = {LOG_NONE, STR_INIT("")},
        [OP_PURGE] = {LOG_DEBUG, STR_INIT("job_purged")},
        [OP_DROP] = {LOG_INFO, STR_INIT("job_dropped")},
        [OP_REDACT] = {LOG_INFO, STR_INIT("job_redacted")},
        [OP_IMPORT] = {LOG_INFO, STR_INIT("job_imported")},
        [OP_RESOURCE] = {LOG_DEBUG, STR_INIT("resource_registered")},
        [OP_RESOURCE_GONE] = {LOG_INFO, STR_INIT("resource_gone")},
        [OP_WORKER] = {LOG_DEBUG, STR_INIT("worker_registered")},
        [OP_WORKER_GONE] = {LOG_DEBUG, STR_INIT("worker_deregistered")},
        [OP_RESOURCE_FAILED] = {LOG_WARN, STR_INIT("resource_rested")},
        [OP_KIND] = {LOG_INFO, STR_INIT("kind_set")},
        [OP_QUEUE] = {LOG_INFO, STR_INIT("queue_resumed")},
        [OP_TOKEN] = {LOG_INFO, STR_INIT("token_created")},
        [OP_TOKEN_REVOKE] = {LOG_INFO, STR_INIT("token_revoked")},
    };
    struct log_line line;
    enum log_level level = facts[op->type].level;
    struct str event = facts[op->type].event;
    if (op->code != ERR_OK || op_is_repeated(op) || level == LOG_NONE)
        return;
    if (op->type == OP_RESOURCE_FAILED && !op->cooldown)
        return; /* the step's event tells it */
    if (op->type == OP_QUEUE && op->queue.paused)
        event = STR("queue_paused");
    if (!log_begin(events->log, level, event, &events->arena, &line))
        return;
    put_op(&line, op);
    log_end(&line);
}

void log_committed(struct log_events *events, const struct batch_report *report)
{
    if (!log_wants(events->log, LOG_WARN))
        return;
    for (uint32_t i = 0; i < report->change_count; i++)
        tell_change(events, &report->changes[i]);
    for (uint32_t i = 0; i < report->op_count; i++)
        tell_op(events, report->ops[i]);
}

/* ---- trouble ---- */

void log_failed(struct log_events *events, enum error_code code)
{
    struct log_line line;
    int64_t now = clock_monotonic_ms();
    events->failures++;
    if (events->failed_at > 0 && now - events->failed_at < TELL_AGAIN_MS)
        return;
    events->failed_at = now;
    if (log_begin(events->log, LOG_WARN, STR("store_failed"), &events->arena, &line)) {
        log_text(&line, STR("code"), str_from(error_info(code)->name));
        log_int(&line, STR("count"), (int64_t)events->failures);
        log_end(&line);
    }
    events->failures = 0;
}

void log_shed(struct log_events *events)
{
    struct log_line line;
    int64_t now = clock_monotonic_ms();
    int64_t last = atomic_load(&events->shed_at);
    (void)atomic_fetch_add(&events->shed, 1);
    if ((last > 0 && now - last < TELL_AGAIN_MS) ||
        !atomic_compare_exchange_strong(&events->shed_at, &last, now))
        return;
    uint64_t count = atomic_exchange(&events->shed, 0);
    if (!log_begin(events->log, LOG_WARN, STR("requests_shed"), NULL, &line))
        return;
    log_int(&line, STR("count"), (int64_t)count);
    log_end(&line);
}
