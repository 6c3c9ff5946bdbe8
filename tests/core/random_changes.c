#include "random_changes.h"

#include "core/job_records.h"

void changes_forget(struct job_slice *slice)
{
    slice->job.changed = 0;
    for (uint32_t i = 0; i < slice->effect_count; i++)
        slice->effects[i].changed = false;
    for (uint32_t i = 0; i < slice->signal_count; i++)
        slice->signals[i].changed = false;
    for (uint32_t i = 0; i < slice->step_count; i++)
        slice->steps[i].changed = 0;
}

/* The group of a member of a job or step; what is not named is of the rest. */
static unsigned group_of(struct str member)
{
    static const struct {
        const char *member;
        unsigned group;
    } groups[] = {
        {"version", CHANGED_STREAM},     {"updated_at", CHANGED_STREAM},
        {"head", CHANGED_STREAM},        {"records_end", CHANGED_STREAM},
        {"status", CHANGED_LEASE},       {"state", CHANGED_LEASE},
        {"attempt", CHANGED_LEASE},      {"progress", CHANGED_PROGRESS},
        {"cursor", CHANGED_PROGRESS},    {"open_effects", CHANGED_COUNTS},
        {"open_deps", CHANGED_COUNTS},   {"stored_signals", CHANGED_COUNTS},
        {"final_steps", CHANGED_COUNTS},
    };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (str_eq(member, str_from(groups[i].member)))
            return groups[i].group;
    return member.len > 6 && memcmp(member.at, "steps_", 6) == 0 ? CHANGED_COUNTS : CHANGED_REST;
}

/* A lease is of its group; what a beat moves may be told as a beat. */
static unsigned lease_difference(const struct record_field *field, const struct lease *a,
                                 const struct lease *b)
{
    struct lease same = *a;
    same.beat_at = b->beat_at;
    same.expires_at = b->expires_at;
    if (record_differs(field->nested, &same, b, RECORD_ALL) != NULL)
        return CHANGED_LEASE;
    return record_differs(field->nested, a, b, RECORD_ALL) != NULL ? CHANGED_BEAT : 0;
}

/* The groups in which two jobs or steps differ. */
static unsigned differences(const struct record_type *type, const void *a, const void *b,
                            const struct lease *lease_a, const struct lease *lease_b)
{
    unsigned groups = 0;
    for (uint32_t i = 0; i < type->count; i++) {
        const struct record_field *field = &type->fields[i];
        if (str_eq(field->name, STR("lease")))
            groups |= lease_difference(field, lease_a, lease_b);
        else if (record_differs(type, a, b, UINT64_C(1) << i) != NULL)
            groups |= group_of(field->name);
    }
    return groups;
}

/* What is told of the lease as a whole is told of its beats. */
static bool are_told(unsigned groups, uint8_t changed)
{
    unsigned told = changed | ((changed & CHANGED_LEASE) != 0 ? CHANGED_BEAT : 0u);
    return (groups & ~told) == 0;
}

static const char *check_job(const struct job *given, const struct job *after)
{
    unsigned groups = differences(&job_record, given, after, &given->lease, &after->lease);
    if (given->status == JOB_NONE)
        return NULL; /* all of it is new */
    if (!are_told(groups, after->changed))
        return "a change of the job is not noted";
    if (given->version == after->version && (after->changed & ~CHANGED_BESIDE) != 0)
        return "a change of the job is noted though no event has a version";
    return NULL;
}

static unsigned step_differences(const struct step *a, const struct step *b)
{
    unsigned groups = differences(&step_record, a, b, &a->lease, &b->lease);
    bool avoids = a->avoided_count == b->avoided_count;
    for (uint32_t i = 0; avoids && i < a->avoided_count; i++)
        avoids = str_eq(a->avoided[i], b->avoided[i]);
    return avoids ? groups : groups | CHANGED_REST;
}

static const char *check_steps(const struct job_slice *given, const struct job_slice *after)
{
    bool replaced = given->job.plan_version != after->job.plan_version;
    for (uint32_t i = 0; i < after->step_count; i++) {
        const struct step *step = &after->steps[i];
        const struct step *was = replaced ? NULL : job_step_at(given, step->ordinal);
        unsigned groups = was == NULL ? CHANGED_ALL : step_differences(was, step);
        if (!are_told(groups, step->changed))
            return "a change of a step is not noted";
        /* A heartbeat may bring what is there. */
        if (groups == 0 && (step->changed & ~CHANGED_BESIDE) != 0)
            return "a step is noted that is as it was";
    }
    return NULL;
}

static const char *check_effects(const struct job_slice *given, const struct job_slice *after)
{
    for (uint32_t i = 0; i < after->effect_count; i++) {
        const struct effect *effect = &after->effects[i];
        bool same = i < given->effect_count &&
                    record_differs(&effect_record, &given->effects[i], effect, RECORD_ALL) == NULL;
        if (!same && !effect->changed)
            return "a change of an effect is not noted";
    }
    return NULL;
}

static const char *check_signals(const struct job_slice *given, const struct job_slice *after)
{
    for (uint32_t i = 0; i < after->signal_count; i++) {
        const struct signal *signal = &after->signals[i];
        bool same = i < given->signal_count &&
                    record_differs(&signal_record, &given->signals[i], signal, RECORD_ALL) == NULL;
        if (same == signal->changed)
            return same ? "a signal is noted that is as it was"
                        : "a change of a signal is not noted";
    }
    return NULL;
}

const char *changes_are_noted(const struct job_slice *given, const struct job_slice *after)
{
    const char *fault = check_job(&given->job, &after->job);
    if (fault == NULL)
        fault = check_effects(given, after);
    if (fault == NULL)
        fault = check_signals(given, after);
    return fault == NULL ? check_steps(given, after) : fault;
}
