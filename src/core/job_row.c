/* The row of a job as one text, and two rows compared. */
#include <assert.h>

#include "core/event.h"
#include "core/job.h"
#include "core/job_records.h"

static void write_object(struct json_writer *writer, const struct record_type *type,
                         const void *record)
{
    json_begin_object(writer);
    record_write(type, record, RECORD_ALL, writer);
    json_end_object(writer);
}

static void write_step(struct json_writer *writer, const struct step *step)
{
    json_begin_object(writer);
    record_write(&step_record, step, RECORD_ALL, writer);
    json_key(writer, STR("avoided"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < step->avoided_count; i++)
        json_put_string(writer, step->avoided[i]);
    json_end_array(writer);
    json_end_object(writer);
}

void job_row_write(const struct job_slice *slice, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    record_write(&job_record, &slice->job, RECORD_ALL, &writer);
    json_key(&writer, STR("effects"));
    json_begin_array(&writer);
    for (uint32_t i = 0; i < slice->effect_count; i++)
        write_object(&writer, &effect_record, &slice->effects[i]);
    json_end_array(&writer);
    json_key(&writer, STR("signals"));
    json_begin_array(&writer);
    for (uint32_t i = 0; i < slice->signal_count; i++)
        write_object(&writer, &signal_record, &slice->signals[i]);
    json_end_array(&writer);
    json_key(&writer, STR("steps"));
    json_begin_array(&writer);
    for (uint32_t i = 0; i < slice->step_count; i++)
        write_step(&writer, &slice->steps[i]);
    json_end_array(&writer);
    json_end_object(&writer);
}

/* While a lease is live, heartbeats move these beside the stream. */
static void forget_beats(struct lease *lease, struct str *progress, struct str *cursor)
{
    lease->beat_at = 0;
    lease->expires_at = 0;
    *progress = (struct str){NULL, 0};
    *cursor = (struct str){NULL, 0};
}

/* Rows of older versions do not have what is 0 in one of them. */
static void forget_unknown(int64_t *a, int64_t *b)
{
    if (*a == 0 || *b == 0)
        *a = *b = 0;
}

static struct str job_differs(const struct job *a, const struct job *b)
{
    struct job left = *a;
    struct job right = *b;
    forget_unknown(&left.records_end, &right.records_end);
    if (a->lease.live || b->lease.live) {
        forget_beats(&left.lease, &left.progress, &left.cursor);
        forget_beats(&right.lease, &right.progress, &right.cursor);
    }
    const struct record_field *field = record_differs(&job_record, &left, &right, RECORD_ALL);
    return field == NULL ? (struct str){NULL, 0} : field->name;
}

static struct str step_differs(const struct step *a, const struct step *b)
{
    struct step left = *a;
    struct step right = *b;
    forget_unknown(&left.records_end, &right.records_end);
    if (a->lease.live || b->lease.live) {
        forget_beats(&left.lease, &left.progress, &left.cursor);
        forget_beats(&right.lease, &right.progress, &right.cursor);
    }
    const struct record_field *field = record_differs(&step_record, &left, &right, RECORD_ALL);
    if (field != NULL)
        return field->name;
    if (a->avoided_count != b->avoided_count)
        return STR("avoided");
    for (uint32_t i = 0; i < a->avoided_count; i++)
        if (!str_eq(a->avoided[i], b->avoided[i]))
            return STR("avoided");
    return (struct str){NULL, 0};
}

static struct str effect_differs(const struct effect *a, const struct effect *b)
{
    struct effect left = *a;
    struct effect right = *b;
    forget_unknown(&left.ended_at, &right.ended_at);
    const struct record_field *field = record_differs(&effect_record, &left, &right, RECORD_ALL);
    return field == NULL ? (struct str){NULL, 0} : field->name;
}

/* The effect of the same name. It is in the same place, unless a fresh start had the same
 * effects begin in another order. */
static const struct effect *effect_like(const struct job_slice *slice, const struct effect *effect,
                                        uint32_t place)
{
    if (str_eq(slice->effects[place].name, effect->name))
        return &slice->effects[place];
    for (uint32_t i = 0; i < slice->effect_count; i++)
        if (str_eq(slice->effects[i].name, effect->name))
            return &slice->effects[i];
    return &slice->effects[place];
}

struct row_difference job_row_differs(const struct job_slice *a, const struct job_slice *b)
{
    struct str member = job_differs(&a->job, &b->job);
    if (str_is_set(member))
        return (struct row_difference){STR("job"), {NULL, 0}, member};
    if (a->effect_count != b->effect_count)
        return (struct row_difference){STR("effects"), {NULL, 0}, STR("count")};
    for (uint32_t i = 0; i < a->effect_count; i++) {
        member = effect_differs(&a->effects[i], effect_like(b, &a->effects[i], i));
        if (str_is_set(member))
            return (struct row_difference){STR("effect"), a->effects[i].key, member};
    }
    if (a->signal_count != b->signal_count)
        return (struct row_difference){STR("signals"), {NULL, 0}, STR("count")};
    for (uint32_t i = 0; i < a->signal_count; i++) {
        const struct record_field *field =
            record_differs(&signal_record, &a->signals[i], &b->signals[i], RECORD_ALL);
        if (field != NULL)
            return (struct row_difference){STR("signal"), a->signals[i].correlation_key,
                                           field->name};
    }
    if (a->step_count != b->step_count)
        return (struct row_difference){STR("steps"), {NULL, 0}, STR("count")};
    for (uint32_t i = 0; i < a->step_count; i++) {
        member = step_differs(&a->steps[i], &b->steps[i]);
        if (str_is_set(member))
            return (struct row_difference){STR("step"), a->steps[i].spec.id, member};
    }
    return (struct row_difference){{NULL, 0}, {NULL, 0}, {NULL, 0}};
}
