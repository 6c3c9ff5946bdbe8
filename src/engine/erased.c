#include "engine/erased.h"

#include <assert.h>

#include "core/job_state.h"
#include "core/plan.h"
#include "core/retention.h"

enum { PART_BYTES = 512 };

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)

struct row {
    struct str kind;
    struct str queue;
    int64_t priority;
    struct str agent_id;
    struct str idempotency_key;
    int64_t failures;
    struct str state;
    struct str effects;
    struct str signals;
    struct str steps;
};

static const struct record_field row_fields[] = {
    FIELD(row, kind, NAME),
    FIELD(row, queue, NAME),
    RECORD_FIELD_RANGE(struct row, priority, "priority", INT, -PRIORITY_MAX, PRIORITY_MAX),
    FIELD(row, agent_id, NAME),
    FIELD(row, idempotency_key, NAME),
    FIELD(row, failures, INT),
    FIELD(row, state, OBJECT),
    FIELD(row, effects, ARRAY),
    FIELD(row, signals, ARRAY),
    FIELD(row, steps, ARRAY),
};
RECORD_TABLE(row);

struct effect_part {
    struct str step;
    struct str key;
    int64_t version;
    struct str state;
};

static const struct record_field effect_part_fields[] = {
    FIELD(effect_part, step, NAME),
    FIELD(effect_part, key, NAME),
    FIELD(effect_part, version, INT),
    FIELD(effect_part, state, OBJECT),
};
RECORD_TABLE(effect_part);

/* A signal without its payload. */
static const struct record_field signal_part_fields[] = {
    FIELD(signal, correlation_key, NAME),
    FIELD(signal, signal_id, NAME),
    FIELD(signal, version, INT),
    FIELD(signal, delivered, BOOL),
};
RECORD_TABLE(signal_part);

struct step_part {
    struct str plan;
    struct str state;
};

static const struct record_field step_part_fields[] = {
    FIELD(step_part, plan, OBJECT),
    FIELD(step_part, state, OBJECT),
};
RECORD_TABLE(step_part);

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- writing ------------------------------------------------------------------------------ */

static void write_part(struct json_writer *writer, const struct record_type *type, const void *part)
{
    json_begin_object(writer);
    record_write(type, part, RECORD_ALL, writer);
    json_end_object(writer);
}

static bool write_effects(const struct job_slice *slice, struct arena *arena,
                          struct json_writer *writer)
{
    bool ok = true;
    json_key(writer, STR("effects"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < slice->effect_count && ok; i++) {
        const struct effect *effect = &slice->effects[i];
        struct buf state;
        buf_init(&state, arena, PART_BYTES);
        effect_state_write(effect, STATE_JSON, &state);
        struct effect_part part = {effect->step, effect->key, effect->version, buf_str(&state)};
        write_part(writer, &effect_part_record, &part);
        ok = !state.failed;
    }
    json_end_array(writer);
    return ok;
}

static void write_signals(const struct job_slice *slice, struct json_writer *writer)
{
    json_key(writer, STR("signals"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < slice->signal_count; i++)
        write_part(writer, &signal_part_record, &slice->signals[i]);
    json_end_array(writer);
}

static bool write_steps(const struct job_slice *slice, struct arena *arena,
                        struct json_writer *writer)
{
    bool ok = true;
    json_key(writer, STR("steps"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < slice->step_count && ok; i++) {
        struct buf plan;
        struct buf state;
        buf_init(&plan, arena, PART_BYTES);
        step_plan_write(&slice->steps[i], &plan);
        buf_init(&state, arena, PART_BYTES);
        step_state_write(&slice->steps[i], &state);
        struct step_part part = {buf_str(&plan), buf_str(&state)};
        write_part(writer, &step_part_record, &part);
        ok = !plan.failed && !state.failed;
    }
    json_end_array(writer);
    return ok;
}

enum error_code erased_write(const struct job_slice *slice, struct arena *arena,
                             struct json_writer *writer, struct err *err)
{
    const struct job *job = &slice->job;
    struct buf state;
    assert(job->redacted);
    buf_init(&state, arena, 2 * PART_BYTES);
    job_state_write(job, STATE_JSON, &state);
    struct row row = {
        .kind = job->spec.kind,
        .queue = job->spec.queue,
        .priority = job->spec.priority,
        .agent_id = job->spec.agent_id,
        .idempotency_key = job->spec.idempotency_key,
        .failures = job->failures,
        .state = buf_str(&state),
    };
    json_begin_object(writer);
    record_write(&row_record, &row, RECORD_ALL, writer);
    bool ok = write_effects(slice, arena, writer);
    write_signals(slice, writer);
    ok = write_steps(slice, arena, writer) && ok && !state.failed;
    json_end_object(writer);
    return ok ? ERR_OK : no_memory(err);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* What is in front of the reader: the parts of one list, one after the other. */
struct parts {
    struct json_iter iter;
    size_t remaining;
    void *room; /* for all of them, zeroed */
};

static enum error_code parts_begin(struct str json, size_t size, struct arena *arena,
                                   struct parts *ret, struct err *err)
{
    ret->remaining = str_is_set(json) ? json_count(json) : 0;
    ret->room = arena_zalloc(arena, ret->remaining + 1, size);
    if (ret->room == NULL)
        return no_memory(err);
    if (ret->remaining > 0)
        (void)json_array_begin(&ret->iter, json);
    return ERR_OK;
}

/* Reads the next of them into `part`; *ret_more is false at the end. */
static enum error_code parts_next(struct parts *parts, const struct record_type *type,
                                  const char *what, struct arena *arena, void *part, bool *ret_more,
                                  struct err *err)
{
    struct str raw;
    *ret_more = parts->remaining > 0 && json_array_next(&parts->iter, &raw);
    if (!*ret_more)
        return ERR_OK;
    parts->remaining--;
    if (json_type(raw) != JSON_OBJECT)
        return err_set(err, ERR_BAD_REQUEST, "%s of its row is not an object", what);
    return record_read(type, raw, RECORD_ALL, RECORD_REQUEST, what, arena, part, err);
}

static enum error_code missing(const char *what, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "its row has %s", what);
}

/* Reading takes any number for how a lease has ended: what comes from elsewhere must be one that
 * there is. */
static bool is_sound(const struct lease *lease)
{
    switch (lease->ended_by) {
    case COMMAND_NONE:
#define COMMAND(symbol, number, name, by) case COMMAND_##symbol:
#include "core/command.def"
#undef COMMAND
        return true;
    }
    return false;
}

static enum error_code read_effects(struct str json, struct arena *arena, struct job_slice *slice,
                                    struct err *err)
{
    struct parts parts;
    bool more = true;
    enum error_code code = parts_begin(json, sizeof *slice->effects, arena, &parts, err);
    if (code != ERR_OK)
        return code;
    slice->effects = parts.room;
    while (code == ERR_OK && more) {
        struct effect *effect = &slice->effects[slice->effect_count];
        struct effect_part part = {0};
        code = parts_next(&parts, &effect_part_record, "an effect", arena, &part, &more, err);
        if (code != ERR_OK || !more)
            break;
        if (!str_is_set(part.key) || !str_is_set(part.state))
            return missing("an effect without key or state", err);
        effect->step = part.step;
        effect->key = part.key;
        effect->version = part.version;
        code = effect_state_read(part.state, arena, effect, err);
        slice->effect_cap = ++slice->effect_count;
    }
    return code;
}

static enum error_code read_signals(struct str json, struct arena *arena, struct job_slice *slice,
                                    struct err *err)
{
    struct parts parts;
    bool more = true;
    enum error_code code = parts_begin(json, sizeof *slice->signals, arena, &parts, err);
    if (code != ERR_OK)
        return code;
    slice->signals = parts.room;
    while (code == ERR_OK && more) {
        struct signal *signal = &slice->signals[slice->signal_count];
        code = parts_next(&parts, &signal_part_record, "a signal", arena, signal, &more, err);
        if (code != ERR_OK || !more)
            break;
        if (!str_is_set(signal->correlation_key))
            return missing("a signal without correlation_key", err);
        slice->signal_cap = ++slice->signal_count;
    }
    return code;
}

static enum error_code check_step(const struct step *step, size_t count, struct err *err)
{
    for (uint32_t i = 0; i < step->child_count; i++)
        if (step->children[i] >= count)
            return missing("a step with a child that is not there", err);
    if (!is_sound(&step->lease))
        return missing("a lease that has ended in no way that there is", err);
    return record_check_name(step->spec.id, "the id of a step", err);
}

static enum error_code read_steps(struct str json, struct arena *arena, struct job_slice *slice,
                                  struct err *err)
{
    struct parts parts;
    bool more = true;
    enum error_code code = parts_begin(json, sizeof *slice->steps, arena, &parts, err);
    if (code != ERR_OK)
        return code;
    size_t count = parts.remaining;
    if (count > PLAN_STEPS_MAX)
        return missing("more steps than a plan may have", err);
    slice->steps = parts.room;
    while (code == ERR_OK && more) {
        struct step *step = &slice->steps[slice->step_count];
        struct step_part part = {0};
        code = parts_next(&parts, &step_part_record, "a step", arena, &part, &more, err);
        if (code != ERR_OK || !more)
            break;
        if (!str_is_set(part.plan) || !str_is_set(part.state))
            return missing("a step without plan or state", err);
        step->ordinal = slice->step_count++;
        code = step_plan_read(part.plan, arena, step, err);
        if (code == ERR_OK)
            code = step_state_read(part.state, arena, step, err);
        if (code == ERR_OK)
            code = check_step(step, count, err);
    }
    return code;
}

/* What the events still say. */
static void take_events(const struct job_import *import, struct job *job)
{
    const struct event *first = &import->events[0];
    const struct event *last = &import->events[import->count - 1];
    job->status = derive_status(import->events, import->count);
    job->version = last->version;
    job->created_at = first->at;
    job->updated_at = last->at;
    job->spec.correlation_id = first->correlation_id;
    memcpy(job->head, last->hash, HASH_LEN);
}

static enum error_code read_header(const struct row *row, struct arena *arena, struct job *job,
                                   struct err *err)
{
    struct err why = {0};
    if (!str_is_set(row->kind) || !str_is_set(row->queue) || !str_is_set(row->state))
        return missing("no kind, no queue or no state", err);
    job->spec.kind = row->kind;
    job->spec.queue = row->queue;
    job->spec.priority = row->priority;
    job->spec.agent_id = row->agent_id;
    job->spec.idempotency_key = row->idempotency_key;
    job->failures = row->failures;
    enum error_code code = job_state_read(row->state, arena, job, err);
    if (code != ERR_OK)
        return code;
    if (!is_sound(&job->lease))
        return missing("a lease that has ended in no way that there is", err);
    /* Nobody could have erased anything of it before it ended. */
    if (job_check_redact(job, &why) != ERR_OK)
        return err_set(err, ERR_CORRUPT, "%s", why.detail);
    return ERR_OK;
}

enum error_code erased_read(struct str json, struct uuid id, uint64_t seed, struct arena *arena,
                            struct job_import *import, struct err *err)
{
    struct row row = {0};
    struct job_slice slice;
    assert(import->count > 0);
    job_slice_init(&slice, id, seed);
    take_events(import, &slice.job);
    enum error_code code =
        record_read(&row_record, json, RECORD_ALL, RECORD_REQUEST, "row", arena, &row, err);
    if (code == ERR_OK)
        code = read_header(&row, arena, &slice.job, err);
    if (code == ERR_OK)
        code = read_effects(row.effects, arena, &slice, err);
    if (code == ERR_OK)
        code = read_signals(row.signals, arena, &slice, err);
    if (code == ERR_OK)
        code = read_steps(row.steps, arena, &slice, err);
    if (code != ERR_OK)
        return code;
    if (job_slice_index(&slice, arena) != ERR_OK)
        return no_memory(err);
    job_redact(&slice);
    import->slice = slice;
    return ERR_OK;
}
