#include "core/plan.h"

#include <assert.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "core/resource.h"
#include "core/selector.h"

enum { CYCLE_TEXT_MAX = 240 }; /* ids shown of a cycle, so that the message has room for the rest */

static const struct record_field step_spec_fields[] = {
    RECORD_FIELD(struct step_spec, id, "id", NAME),
    RECORD_FIELD(struct step_spec, kind, "kind", NAME),
    RECORD_FIELD(struct step_spec, deps, "deps", ARRAY),
    RECORD_FIELD(struct step_spec, payload, "payload", JSON),
    RECORD_FIELD(struct step_spec, capabilities, "capabilities", ARRAY),
    RECORD_FIELD_RANGE(struct step_spec, selector, "selector", TEXT, 0, SELECTOR_BYTES_MAX),
    RECORD_FIELD(struct step_spec, avoid, "avoid", ARRAY),
    RECORD_FIELD_NESTED(struct step_spec, retry, "retry", retry_policy_record),
    RECORD_FIELD_RANGE(struct step_spec, timeout_ms, "timeout_ms", INT, 1, DELAY_MS_MAX),
    RECORD_FIELD(struct step_spec, critic, "critic", BOOL),
    RECORD_FIELD_ENUM(struct step_spec, on_failure, "on_failure", failure_policy_names),
    RECORD_FIELD(struct step_spec, wait, "wait", OBJECT),
};

const struct record_type step_spec_record = {
    step_spec_fields,
    sizeof step_spec_fields / sizeof step_spec_fields[0],
};

/* Of the types of waits, those that a plan may ask for; the rest, at the end of the list, are for
 * jobs that wait for their steps. */
#define WAIT_TEXT(symbol, text) STR_INIT(text),
static const struct str wait_texts[] = {STR_INIT(""), WAIT_TYPES(WAIT_TEXT)};
static const struct record_names wait_names = {wait_texts, WAIT_SIGNAL + 1};
_Static_assert(WAIT_STEPS > WAIT_SIGNAL && WAIT_REPLAN > WAIT_SIGNAL, "not for plans");

static const struct record_field wait_spec_fields[] = {
    RECORD_FIELD_ENUM(struct wait_spec, type, "type", wait_names),
    RECORD_FIELD(struct wait_spec, correlation_key, "correlation_key", NAME),
    RECORD_FIELD_RANGE(struct wait_spec, delay_ms, "delay_ms", INT, 1, DELAY_MS_MAX),
    RECORD_FIELD(struct wait_spec, until, "until", TIME),
    RECORD_FIELD_RANGE(struct wait_spec, timeout_ms, "timeout_ms", INT, 1, DELAY_MS_MAX),
    RECORD_FIELD(struct wait_spec, prompt, "prompt", TEXT),
    RECORD_FIELD(struct wait_spec, choices, "choices", ARRAY),
    RECORD_FIELD(struct wait_spec, assignee, "assignee", NAME),
    RECORD_FIELD(struct wait_spec, default_answer, "default_answer", JSON),
};

const struct record_type wait_spec_record = {
    wait_spec_fields,
    sizeof wait_spec_fields / sizeof wait_spec_fields[0],
};

/* A plan in the making. Dependencies stand in the order of their steps, so those of one step are a
 * run of `deps`, from dep_starts[i] up to dep_starts[i + 1]. */
struct builder {
    enum record_source source; /* a request, or a plan that was stored */
    struct arena *arena;
    struct err *err;
    struct step *steps;
    uint32_t count;
    struct map index; /* from ids to ordinals */
    uint32_t *deps;   /* ordinals */
    uint32_t dep_count;
    uint32_t dep_cap;
    uint32_t *dep_starts;
    struct plan_problems *problems; /* NULL: the first one ends it */
};

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "plan: out of memory");
}

/* Puts the step in front of what a reader said of one of its fields. What is wrong with a field is
 * wrong with the plan; memory is a matter of its own. */
static enum error_code step_failure(const struct builder *builder, uint32_t ordinal,
                                    enum error_code code)
{
    const char *detail = builder->err == NULL ? "" : builder->err->detail;
    struct str id = builder->steps[ordinal].spec.id;
    if (code != ERR_NO_MEMORY)
        code = ERR_UNPROCESSABLE_PLAN;
    if (!str_is_set(id))
        return err_set(builder->err, code, "steps[%u]: %s", ordinal, detail);
    return err_set(builder->err, code, "step \"%.*s\": %s", STR_ARG(id), detail);
}

/* What is wrong is kept where all of it is asked for, and then reading goes on. */
static enum error_code refused(const struct builder *builder, uint32_t ordinal,
                               enum error_code code)
{
    struct plan_problems *problems = builder->problems;
    if (code == ERR_OK || code == ERR_NO_MEMORY || problems == NULL)
        return code;
    if (problems->count == PLAN_PROBLEMS_MAX) {
        problems->more = true;
        return ERR_OK;
    }
    struct str text = str_from(builder->err->detail);
    char *copy = arena_alloc(builder->arena, text.len + 1);
    if (copy == NULL)
        return no_memory(builder->err);
    memcpy(copy, text.at, text.len);
    problems->at[problems->count++] = (struct plan_problem){
        .ordinal = ordinal,
        .step = ordinal < builder->count ? builder->steps[ordinal].spec.id : (struct str){NULL, 0},
        .message = {copy, text.len},
    };
    return ERR_OK;
}

/* ---- waits ---- */

static enum error_code wait_error(struct err *err, const char *problem)
{
    return err_set(err, ERR_UNPROCESSABLE_PLAN, "wait: %s", problem);
}

static enum error_code check_timer(const struct wait_spec *wait, struct err *err)
{
    if (wait->delay_ms == 0 && wait->until == 0)
        return wait_error(err, "a timer requires delay_ms or until");
    if (wait->delay_ms != 0 && wait->until != 0)
        return wait_error(err, "a timer takes delay_ms or until, not both");
    if (wait->timeout_ms != 0)
        return wait_error(err, "a timer takes no timeout_ms");
    return ERR_OK;
}

/* Signals and webhooks come with a key. People answer by the step, so theirs may be left out. */
static enum error_code check_other(const struct wait_spec *wait, struct err *err)
{
    if (wait->type != WAIT_HUMAN && !str_is_set(wait->correlation_key))
        return wait_error(err, "correlation_key is required for a signal or webhook");
    if (wait->delay_ms != 0 || wait->until != 0)
        return wait_error(err, "delay_ms and until are for timers; use timeout_ms");
    return ERR_OK;
}

enum error_code choices_check(struct str choices, struct str default_answer, struct arena *arena,
                              struct err *err)
{
    struct json_iter iter;
    struct str raw;
    struct str answer = {NULL, 0};
    struct str seen[CHOICES_MAX];
    size_t seen_count = 0;
    size_t count = json_count(choices);
    if (json_type(choices) != JSON_ARRAY)
        return err_set(err, ERR_BAD_REQUEST, "choices must be an array");
    if (count < 1 || count > CHOICES_MAX)
        return err_set(err, ERR_BAD_REQUEST, "choices must have from 1 to %d entries, not %zu",
                       CHOICES_MAX, count);
    if (str_is_set(default_answer)) {
        enum error_code code = record_string(default_answer, "default_answer", arena, &answer, err);
        if (code != ERR_OK)
            return code;
    }
    bool listed = !str_is_set(answer);
    (void)json_array_begin(&iter, choices);
    while (json_array_next(&iter, &raw)) {
        struct str choice;
        enum error_code code = record_string(raw, "a choice", arena, &choice, err);
        if (code != ERR_OK)
            return code;
        for (size_t i = 0; i < seen_count; i++)
            if (str_eq(choice, seen[i]))
                return err_set(err, ERR_BAD_REQUEST, "duplicate choice \"%.*s\"", STR_ARG(choice));
        seen[seen_count++] = choice;
        listed = listed || str_eq(choice, answer);
    }
    if (!listed) {
        return err_set(err, ERR_BAD_REQUEST, "default_answer \"%.*s\" is not one of the choices",
                       STR_ARG(answer));
    }
    return ERR_OK;
}

bool choices_have(struct str choices, struct str answer, struct arena *arena)
{
    struct json_iter iter;
    struct str raw;
    struct str choice;
    struct str said;
    if (!json_string(answer, arena, &said) || !json_array_begin(&iter, choices))
        return false;
    while (json_array_next(&iter, &raw))
        if (json_string(raw, arena, &choice) && str_eq(choice, said))
            return true;
    return false;
}

static enum error_code check_wait_choices(const struct wait_spec *wait, struct arena *arena,
                                          struct err *err)
{
    struct err detail = {0};
    enum error_code code = choices_check(wait->choices, wait->default_answer, arena, &detail);
    return code == ERR_OK ? code : err_set(err, code, "wait: %s", detail.detail);
}

enum error_code wait_spec_read(struct str json, enum record_source source, struct arena *arena,
                               struct wait_spec *ret, struct err *err)
{
    assert(arena != NULL);
    assert(ret != NULL);
    struct wait_spec wait = {.type = WAIT_NONE};
    enum error_code code =
        record_read(&wait_spec_record, json, RECORD_ALL, source, "wait", arena, &wait, err);
    if (code == ERR_OK && wait.type == WAIT_NONE)
        code = wait_error(err, "type is required: webhook, human, timer or signal");
    if (code == ERR_OK && source == RECORD_STORED) {
        *ret = wait;
        return ERR_OK;
    }
    if (code == ERR_OK)
        code = wait.type == WAIT_TIMER ? check_timer(&wait, err) : check_other(&wait, err);
    if (code == ERR_OK && str_is_set(wait.choices))
        code = check_wait_choices(&wait, arena, err);
    if (code == ERR_OK)
        *ret = wait;
    else if (code != ERR_NO_MEMORY)
        code = err_set(err, ERR_UNPROCESSABLE_PLAN, "%s", err == NULL ? "" : err->detail);
    return code;
}

/* ---- one step ---- */

/* No worker runs a wait step, so what is said to workers and resources would never be heard. */
static enum error_code check_no_worker(const struct step_spec *spec, struct arena *arena,
                                       struct err *err)
{
    (void)arena;
    const char *field = str_is_set(spec->capabilities) ? "capabilities"
                        : str_is_set(spec->selector)   ? "selector"
                        : str_is_set(spec->avoid)      ? "avoid"
                        : spec->critic                 ? "critic"
                        : spec->timeout_ms != 0        ? "timeout_ms"
                                                       : NULL;
    return field == NULL ? ERR_OK
                         : err_set(err, ERR_UNPROCESSABLE_PLAN,
                                   "a wait step is not run by a worker and takes no %s", field);
}

static enum error_code check_wait(const struct step_spec *spec, struct arena *arena,
                                  struct err *err)
{
    struct wait_spec wait;
    return wait_spec_read(spec->wait, RECORD_REQUEST, arena, &wait, err);
}

static enum error_code check_payload(const struct step_spec *spec, struct arena *arena,
                                     struct err *err)
{
    (void)arena;
    return spec->payload.len <= PAYLOAD_BYTES_MAX
               ? ERR_OK
               : err_set(err, ERR_UNPROCESSABLE_PLAN,
                         "payload must be at most %d bytes long, not %zu", PAYLOAD_BYTES_MAX,
                         spec->payload.len);
}

static enum error_code check_retry(const struct step_spec *spec, struct arena *arena,
                                   struct err *err)
{
    (void)arena;
    if (spec->retry.on_exhausted == EXHAUSTED_NONE && spec->retry.on_permanent == EXHAUSTED_NONE)
        return retry_policy_check(&spec->retry, "retry", err);
    return err_set(err, ERR_UNPROCESSABLE_PLAN, "retry.%s is for jobs; a step has on_failure",
                   spec->retry.on_exhausted != EXHAUSTED_NONE ? "on_exhausted" : "on_permanent");
}

static enum error_code check_capabilities(const struct step_spec *spec, struct arena *arena,
                                          struct err *err)
{
    struct names names;
    enum error_code code =
        names_read(spec->capabilities, CAPABILITIES_MAX, "capabilities", arena, &names, err);
    return code == ERR_OK ? names_check_shown(&names, "capabilities", err) : code;
}

static enum error_code check_avoid(const struct step_spec *spec, struct arena *arena,
                                   struct err *err)
{
    struct names names;
    return names_read(spec->avoid, AVOID_MAX, "avoid", arena, &names, err);
}

static enum error_code check_selector(const struct step_spec *spec, struct arena *arena,
                                      struct err *err)
{
    struct selector selector;
    return str_is_set(spec->selector) ? selector_parse(spec->selector, arena, &selector, err)
                                      : ERR_OK;
}

typedef enum error_code (*step_check)(const struct step_spec *, struct arena *, struct err *);

/* Lists and selector are checked now, so that later code can trust them. */
static enum error_code check_step(const struct builder *builder, uint32_t ordinal)
{
    static const step_check for_workers[] = {
        check_payload, check_retry, check_capabilities, check_avoid, check_selector, NULL,
    };
    static const step_check for_waits[] = {
        check_payload, check_retry, check_no_worker, check_wait, NULL,
    };
    const struct step_spec *spec = &builder->steps[ordinal].spec;
    enum error_code code = ERR_OK;
    const step_check *check = str_is_set(spec->wait) ? for_waits : for_workers;
    for (; *check != NULL && code == ERR_OK; check++) {
        code = (*check)(spec, builder->arena, builder->err);
        if (code != ERR_OK)
            code = refused(builder, ordinal, step_failure(builder, ordinal, code));
    }
    return code;
}

static enum error_code read_members(struct builder *builder, uint32_t ordinal, struct str json)
{
    return record_read(&step_spec_record, json, RECORD_ALL, builder->source, NULL, builder->arena,
                       &builder->steps[ordinal].spec, builder->err);
}

/* Reads one member after the other, each as an object of its own, so that one that is wrong hides
 * no other. */
static enum error_code read_each_member(struct builder *builder, uint32_t ordinal, struct str json)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    enum error_code code = ERR_OK;
    (void)json_object_begin(&iter, json);
    while (code == ERR_OK && json_object_next(&iter, &key, &value)) {
        struct buf one;
        buf_init(&one, builder->arena, key.len + value.len + 3);
        buf_add_char(&one, '{');
        buf_add(&one, key);
        buf_add_char(&one, ':');
        buf_add(&one, value);
        buf_add_char(&one, '}');
        code = one.failed ? no_memory(builder->err) : read_members(builder, ordinal, buf_str(&one));
        if (code != ERR_OK)
            code = refused(builder, ordinal, step_failure(builder, ordinal, code));
    }
    return code;
}

/* The id first: what is said of the other members names it. */
static enum error_code read_all_members(struct builder *builder, uint32_t ordinal, struct str json)
{
    struct str id = json_member(json, STR("id"));
    if (json_type(id) == JSON_STRING)
        (void)json_string(id, builder->arena, &builder->steps[ordinal].spec.id);
    return read_each_member(builder, ordinal, json);
}

static enum error_code index_step(struct builder *builder, uint32_t ordinal)
{
    struct str id = builder->steps[ordinal].spec.id;
    uint32_t found;
    if (map_put(&builder->index, id, ordinal, &found) != ERR_OK)
        return no_memory(builder->err);
    if (found == MAP_NONE)
        return ERR_OK;
    return refused(builder, ordinal,
                   err_set(builder->err, ERR_UNPROCESSABLE_PLAN,
                           "duplicate step id \"%.*s\" in steps[%u] and steps[%u]", STR_ARG(id),
                           found, ordinal));
}

static enum error_code read_step(struct builder *builder, uint32_t ordinal, struct str json)
{
    struct step *step = &builder->steps[ordinal];
    step->ordinal = ordinal;
    step->state = STEP_PENDING;
    /* A stored plan has every default written out, so that it means the same for ever. */
    if (builder->source == RECORD_REQUEST) {
        step->spec.retry = retry_policy_for_steps();
        step->spec.on_failure = ON_FAILURE_FAIL;
    }
    enum error_code code;
    if (builder->problems != NULL && json_type(json) == JSON_OBJECT) {
        code = read_all_members(builder, ordinal, json);
    } else {
        code = read_members(builder, ordinal, json);
        if (code != ERR_OK)
            return refused(builder, ordinal, step_failure(builder, ordinal, code));
    }
    if (code == ERR_OK && builder->source == RECORD_REQUEST)
        code = check_step(builder, ordinal);
    if (code != ERR_OK)
        return code;
    if (!str_is_set(step->spec.id)) {
        code = err_set(builder->err, ERR_UNPROCESSABLE_PLAN, "id is required");
        return refused(builder, ordinal, step_failure(builder, ordinal, code));
    }
    return index_step(builder, ordinal);
}

/* Counts the steps, and stops where there are too many. */
static enum error_code count_steps(struct str steps_json, uint32_t *ret, struct err *err)
{
    struct json_iter iter;
    struct str value;
    uint32_t count = 0;
    if (!json_array_begin(&iter, steps_json))
        return err_set(err, ERR_UNPROCESSABLE_PLAN, "steps must be an array of steps");
    while (json_array_next(&iter, &value)) {
        if (++count > PLAN_STEPS_MAX) {
            return err_set(err, ERR_UNPROCESSABLE_PLAN, "a plan may have at most %d steps",
                           PLAN_STEPS_MAX);
        }
    }
    if (!json_iter_ok(&iter))
        return err_set(err, ERR_UNPROCESSABLE_PLAN, "steps is not valid JSON");
    if (count == 0)
        return err_set(err, ERR_UNPROCESSABLE_PLAN, "a plan needs at least one step");
    *ret = count;
    return ERR_OK;
}

static enum error_code read_steps(struct builder *builder, struct str steps_json)
{
    struct json_iter iter;
    struct str value;
    (void)json_array_begin(&iter, steps_json);
    for (uint32_t i = 0; i < builder->count && json_array_next(&iter, &value); i++) {
        enum error_code code = read_step(builder, i, value);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

/* ---- edges ---- */

static enum error_code add_dep(struct builder *builder, uint32_t dep)
{
    if (builder->dep_count == PLAN_DEPS_MAX) {
        return err_set(builder->err, ERR_UNPROCESSABLE_PLAN,
                       "a plan may have at most %d dependencies in all", PLAN_DEPS_MAX);
    }
    if (builder->dep_count == builder->dep_cap) {
        uint32_t cap = builder->dep_cap * 2 + builder->count;
        uint32_t *deps = arena_grow(builder->arena, builder->deps, builder->dep_cap * sizeof *deps,
                                    cap * sizeof *deps);
        if (deps == NULL)
            return no_memory(builder->err);
        builder->deps = deps;
        builder->dep_cap = cap;
    }
    builder->deps[builder->dep_count++] = dep;
    return ERR_OK;
}

/* Resolves one dependency. `last_user` holds, for each step, one more than the ordinal of the last
 * step that named it, which shows at once when a step names it again. */
static enum error_code resolve_dep(struct builder *builder, uint32_t ordinal, struct str raw,
                                   uint32_t *last_user)
{
    struct str step_id = builder->steps[ordinal].spec.id;
    struct str id;
    enum error_code code = record_string(raw, "a dependency", builder->arena, &id, builder->err);
    if (code != ERR_OK)
        return step_failure(builder, ordinal, code);
    uint32_t dep = map_get(&builder->index, id);
    if (dep == MAP_NONE) {
        return err_set(builder->err, ERR_UNPROCESSABLE_PLAN,
                       "step \"%.*s\" depends on \"%.*s\", which is not a step of this plan",
                       STR_ARG(step_id), STR_ARG(id));
    }
    if (dep == ordinal) {
        return err_set(builder->err, ERR_UNPROCESSABLE_PLAN, "step \"%.*s\" depends on itself",
                       STR_ARG(step_id));
    }
    if (last_user[dep] == ordinal + 1) {
        return err_set(builder->err, ERR_UNPROCESSABLE_PLAN,
                       "step \"%.*s\" has the duplicate dependency \"%.*s\"", STR_ARG(step_id),
                       STR_ARG(id));
    }
    last_user[dep] = ordinal + 1;
    builder->steps[dep].child_count++;
    return add_dep(builder, dep);
}

static enum error_code resolve_deps(struct builder *builder)
{
    uint32_t *last_user = arena_zalloc(builder->arena, builder->count, sizeof *last_user);
    builder->dep_starts =
        arena_zalloc(builder->arena, (size_t)builder->count + 1, sizeof *builder->dep_starts);
    if (last_user == NULL || builder->dep_starts == NULL)
        return no_memory(builder->err);
    for (uint32_t i = 0; i < builder->count; i++) {
        struct json_iter iter;
        struct str raw;
        struct step *step = &builder->steps[i];
        builder->dep_starts[i] = builder->dep_count;
        if (!str_is_set(step->spec.deps))
            continue;
        (void)json_array_begin(&iter, step->spec.deps);
        while (json_array_next(&iter, &raw)) {
            enum error_code code = refused(builder, i, resolve_dep(builder, i, raw, last_user));
            if (code != ERR_OK)
                return code;
        }
        if (!json_iter_ok(&iter)) {
            return err_set(builder->err, ERR_UNPROCESSABLE_PLAN,
                           "step \"%.*s\": deps is not valid JSON", STR_ARG(step->spec.id));
        }
        step->open_deps = builder->dep_count - builder->dep_starts[i];
    }
    builder->dep_starts[builder->count] = builder->dep_count;
    return ERR_OK;
}

/* The children of all steps share one allocation. Each step's part starts where that of the step
 * before it ends, and child_count, known by now, counts up once more as it fills. */
static enum error_code fill_children(struct builder *builder)
{
    uint32_t *children = arena_zalloc(builder->arena, builder->dep_count, sizeof *children);
    if (children == NULL)
        return no_memory(builder->err);
    for (uint32_t i = 0; i < builder->count; i++) {
        struct step *step = &builder->steps[i];
        step->children = children;
        children += step->child_count;
        step->child_count = 0;
    }
    for (uint32_t i = 0; i < builder->count; i++) {
        for (uint32_t at = builder->dep_starts[i]; at < builder->dep_starts[i + 1]; at++) {
            struct step *dep = &builder->steps[builder->deps[at]];
            dep->children[dep->child_count++] = i;
        }
    }
    return ERR_OK;
}

/* ---- cycles ---- */

/* A dependency of the step that is itself stuck: every stuck step has one. */
static uint32_t stuck_dep(const struct builder *builder, const uint32_t *open, uint32_t ordinal)
{
    uint32_t at = builder->dep_starts[ordinal];
    while (open[builder->deps[at]] == 0) {
        at++;
        assert(at < builder->dep_starts[ordinal + 1]);
    }
    return builder->deps[at];
}

/* Writes the cycle that starts and ends at `first`, its middle left out when it is long. */
static struct str cycle_text(const struct builder *builder, const uint32_t *next, uint32_t first,
                             uint32_t length)
{
    struct buf buf;
    buf_init(&buf, builder->arena, 2 * CYCLE_TEXT_MAX);
    uint32_t ordinal = first;
    for (uint32_t i = 0; i < length; i++, ordinal = next[ordinal]) {
        struct str id = builder->steps[ordinal].spec.id;
        if (buf.len + id.len > CYCLE_TEXT_MAX) {
            buf_add(&buf, STR("… ("));
            buf_add_int(&buf, length - i);
            buf_add(&buf, STR(" more) → "));
            break;
        }
        buf_add(&buf, id);
        buf_add(&buf, STR(" → "));
    }
    buf_add(&buf, builder->steps[first].spec.id);
    return buf_str(&buf);
}

/* Shows one cycle. Going from a stuck step to a stuck dependency again and again must come back to
 * a step that was seen; from there on it is the cycle. It is shown from its earliest step. */
static enum error_code refuse_cycle(const struct builder *builder, const uint32_t *open,
                                    uint32_t *ret_first)
{
    uint32_t *next = arena_alloc(builder->arena, builder->count * sizeof *next);
    if (next == NULL)
        return no_memory(builder->err);
    for (uint32_t i = 0; i < builder->count; i++)
        next[i] = MAP_NONE;
    uint32_t start = 0;
    while (open[start] == 0)
        start++;
    while (next[start] == MAP_NONE) {
        next[start] = stuck_dep(builder, open, start);
        start = next[start];
    }
    uint32_t first = start;
    uint32_t length = 1;
    for (uint32_t at = next[start]; at != start; at = next[at]) {
        first = at < first ? at : first;
        length++;
    }
    struct str text = cycle_text(builder, next, first, length);
    *ret_first = first;
    return err_set(builder->err, ERR_UNPROCESSABLE_PLAN, "the plan has a dependency cycle: %.*s",
                   (int)text.len, text.at);
}

/* Kahn: takes away steps whose dependencies are all gone. What cannot be taken away is in a cycle
 * or behind one. */
static enum error_code check_cycles(const struct builder *builder)
{
    uint32_t *open = arena_alloc(builder->arena, builder->count * sizeof *open);
    uint32_t *ready = arena_alloc(builder->arena, builder->count * sizeof *ready);
    if (open == NULL || ready == NULL)
        return no_memory(builder->err);
    uint32_t ready_count = 0;
    for (uint32_t i = 0; i < builder->count; i++) {
        open[i] = builder->dep_starts[i + 1] - builder->dep_starts[i];
        if (open[i] == 0)
            ready[ready_count++] = i;
    }
    uint32_t done = 0;
    enum error_code code = ERR_OK;
    while (code == ERR_OK) {
        for (; done < ready_count; done++) {
            const struct step *step = &builder->steps[ready[done]];
            for (uint32_t i = 0; i < step->child_count; i++) {
                uint32_t child = step->children[i];
                if (open[child] > 0 && --open[child] == 0)
                    ready[ready_count++] = child;
            }
        }
        if (ready_count == builder->count)
            break;
        /* Without this step there is no cycle: there may be another. */
        uint32_t first;
        code = refuse_cycle(builder, open, &first);
        if (code == ERR_NO_MEMORY)
            break;
        code = refused(builder, first, code);
        open[first] = 0;
        ready[ready_count++] = first;
    }
    return code;
}

/* The steps with all defaults written out. */
static enum error_code write_source(const struct builder *builder, size_t guess, struct str *ret)
{
    struct buf buf;
    struct json_writer writer;
    buf_init(&buf, builder->arena, guess);
    json_writer_init(&writer, &buf);
    json_begin_array(&writer);
    for (uint32_t i = 0; i < builder->count; i++) {
        json_begin_object(&writer);
        record_write(&step_spec_record, &builder->steps[i].spec, RECORD_ALL, &writer);
        json_end_object(&writer);
    }
    json_end_array(&writer);
    if (buf.failed)
        return no_memory(builder->err);
    *ret = buf_str(&buf);
    return ERR_OK;
}

/* Reads the steps and what they depend on. */
static enum error_code build(struct builder *builder, struct str steps_json, uint64_t seed)
{
    enum error_code code = count_steps(steps_json, &builder->count, builder->err);
    if (code != ERR_OK)
        return refused(builder, PLAN_NO_STEP, code);
    map_init(&builder->index, builder->arena, builder->count, seed);
    builder->steps = arena_zalloc(builder->arena, builder->count, sizeof *builder->steps);
    if (builder->steps == NULL)
        return no_memory(builder->err);
    code = read_steps(builder, steps_json);
    if (code == ERR_OK)
        code = resolve_deps(builder);
    if (code == ERR_OK)
        code = fill_children(builder);
    if (code == ERR_OK)
        code = check_cycles(builder);
    return code;
}

enum error_code plan_read(struct str steps_json, enum record_source source, uint64_t seed,
                          struct arena *arena, struct plan *ret, struct err *err)
{
    assert(arena != NULL);
    assert(ret != NULL);
    struct builder builder = {.arena = arena, .source = source, .err = err};
    struct str written = steps_json;
    enum error_code code = build(&builder, steps_json, seed);
    if (code == ERR_OK && source == RECORD_REQUEST)
        code = write_source(&builder, steps_json.len + builder.count * 128, &written);
    if (code == ERR_OK)
        *ret = (struct plan){written, builder.steps, builder.count};
    return code;
}

enum error_code plan_steps(struct str plan, struct str *ret, struct err *err)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str steps = {NULL, 0};
    if (!json_object_begin(&iter, plan))
        return err_set(err, ERR_UNPROCESSABLE_PLAN, "plan must be an object with the field steps");
    while (json_object_next(&iter, &key, &value)) {
        if (!json_key_is(key, STR("steps")))
            return err_set(err, ERR_UNKNOWN_FIELD, "plan: unknown field %.*s", STR_ARG(key));
        steps = value;
    }
    if (!str_is_set(steps))
        return err_set(err, ERR_UNPROCESSABLE_PLAN, "plan has no steps");
    *ret = steps;
    return ERR_OK;
}

enum error_code plan_check(struct str plan, uint64_t seed, struct arena *arena,
                           struct plan_problems *ret, struct err *err)
{
    struct err detail = {0};
    struct plan_problems problems = {
        .at = arena_zalloc(arena, PLAN_PROBLEMS_MAX, sizeof *problems.at),
    };
    struct builder builder = {
        .arena = arena,
        .source = RECORD_REQUEST,
        .err = &detail,
        .problems = &problems,
    };
    struct str steps;
    if (problems.at == NULL)
        return no_memory(err);
    enum error_code code = refused(&builder, PLAN_NO_STEP, plan_steps(plan, &steps, &detail));
    if (code == ERR_OK && problems.count == 0 && plan.len > PLAN_BYTES_MAX)
        code =
            refused(&builder, PLAN_NO_STEP,
                    err_set(&detail, ERR_PAYLOAD_TOO_LARGE,
                            "the plan has %zu bytes; the limit is %d", plan.len, PLAN_BYTES_MAX));
    if (code == ERR_OK && problems.count == 0)
        code = build(&builder, steps, seed);
    if (code != ERR_OK)
        return no_memory(err);
    problems.step_count = builder.count;
    *ret = problems;
    return ERR_OK;
}

enum step_state decide_next_state(enum verdict verdict, int64_t retries, int64_t retries_max)
{
    switch (verdict) {
    case VERDICT_ACCEPT:
        return STEP_SUCCEEDED;
    case VERDICT_RETRY:
        return retries < retries_max ? STEP_FAILED_RETRYABLE : STEP_FAILED_FATAL;
    case VERDICT_SWITCH_RESOURCE:
        return STEP_FAILED_RESOURCE;
    case VERDICT_NEEDS_USER:
        return STEP_NEEDS_USER;
    case VERDICT_REPLAN:
    case VERDICT_NONE:
        break;
    }
    return STEP_FAILED_FATAL;
}
