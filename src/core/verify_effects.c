/* The checker's account of effects: called, returned, in doubt. */
#include <assert.h>

#include "core/verifier.h"

static const char separator = '\x1f';

/* Names cannot contain the separator, so that no two pairs give the same text. */
static struct str index_name(struct verifier *v, struct str step, struct str key)
{
    assert(str_is_set(key));
    char *name = arena_alloc(v->arena, step.len + 1 + key.len);
    if (name == NULL) {
        v->no_memory = true;
        return (struct str){"", 0};
    }
    if (step.len > 0)
        memcpy(name, step.at, step.len);
    name[step.len] = separator;
    memcpy(name + step.len + 1, key.at, key.len);
    return (struct str){name, step.len + 1 + key.len};
}

/* What was called before the last fresh start does not count. */
static struct effect_account *effect_account(struct verifier *v, struct str step, struct str key)
{
    uint32_t found = map_get(&v->effect_index, index_name(v, step, key));
    if (found == MAP_NONE || v->effects[found].start != v->start)
        return NULL;
    return &v->effects[found];
}

static uint32_t owner_number(struct verifier *v, struct str step)
{
    struct str name = str_is_set(step) ? step : STR("");
    uint32_t found = map_get(&v->owner_index, name);
    if (found != MAP_NONE)
        return found;
    if (!account_reserve(v, (void **)&v->owners, v->owner_count, &v->owner_cap, sizeof *v->owners))
        return MAP_NONE;
    if (map_put(&v->owner_index, name, v->owner_count, &found) != ERR_OK) {
        v->no_memory = true;
        return MAP_NONE;
    }
    v->owners[v->owner_count] = (struct effect_owner){.start = v->start};
    return v->owner_count++;
}

static void owner_count_open(struct verifier *v, uint32_t owner, int64_t change)
{
    struct effect_owner *of = &v->owners[owner];
    if (of->start != v->start)
        *of = (struct effect_owner){.start = v->start};
    of->open += change;
}

void effects_start_fresh(struct verifier *v)
{
    v->start++;
}

/* ---- calls ---- */

static bool is_open(const struct effect_account *effect)
{
    return !effect->returned && !effect->aborted;
}

static struct effect_account *effect_add(struct verifier *v)
{
    const struct event *event = v->event;
    struct str name = index_name(v, event->data.step, event->data.key);
    uint32_t owner = owner_number(v, event->data.step);
    if (owner == MAP_NONE || !account_reserve(v, (void **)&v->effects, v->effect_count,
                                              &v->effect_cap, sizeof *v->effects))
        return NULL;
    uint32_t found = MAP_NONE;
    if (map_put(&v->effect_index, name, v->effect_count, &found) != ERR_OK) {
        v->no_memory = true;
        return NULL;
    }
    /* One that a fresh start has forgotten gives its place to the new one. */
    struct effect_account *effect = &v->effects[found == MAP_NONE ? v->effect_count : found];
    if (found == MAP_NONE)
        v->effect_count++;
    *effect = (struct effect_account){
        .step = event->data.step,
        .key = event->data.key,
        .start = v->start,
        .version = event->version,
        .owner = owner,
        .fingerprint = event->data.fingerprint,
        .in_doubt = event->data.in_doubt,
    };
    memcpy(effect->input_hash, event->data.input_hash, INPUT_HASH_LEN);
    owner_count_open(v, owner, 1);
    return effect;
}

/* Whether an effect that is known may be called again, and if not why. */
static const char *why_not_again(const struct verifier *v, const struct effect_account *effect)
{
    if (effect->returned)
        return "it has returned";
    if (effect->aborted)
        return NULL;
    if (effect->attempt == v->event->cause.attempt)
        return "this attempt has called it";
    enum doubt_policy said = v->event->data.in_doubt;
    enum doubt_policy policy = said != DOUBT_NONE               ? said
                               : effect->in_doubt != DOUBT_NONE ? effect->in_doubt
                                                                : v->spec.in_doubt;
    if (policy != DOUBT_RETRY && !effect->may_retry)
        return "it is in doubt, and neither policy nor a person said retry";
    return NULL;
}

static void verify_called_again(struct verifier *v, struct effect_account *effect)
{
    const struct event_data *data = &v->event->data;
    const char *why = why_not_again(v, effect);
    if (why != NULL)
        buf_addf(violate(v, VERIFY_EFFECT), "effect \"%.*s\" of event %lld is called again: %s",
                 STR_ARG(data->key), INT_ARG(effect->version), why);
    bool told = str_is_set(effect->fingerprint) && str_is_set(data->fingerprint);
    if (told ? !text_eq(effect->fingerprint, data->fingerprint)
             : memcmp(effect->input_hash, data->input_hash, INPUT_HASH_LEN) != 0)
        buf_addf(violate(v, VERIFY_EFFECT_INPUT),
                 "effect \"%.*s\" was called with another input by event %lld", STR_ARG(data->key),
                 INT_ARG(effect->version));
    if (!is_open(effect))
        owner_count_open(v, effect->owner, 1);
    if (effect->aborted)
        effect->in_doubt = data->in_doubt;
    if (str_is_set(data->fingerprint))
        effect->fingerprint = data->fingerprint;
    memcpy(effect->input_hash, data->input_hash, INPUT_HASH_LEN);
}

static void verify_input_hash(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    uint8_t hash[HASH_LEN];
    hash_sha256(&data->input, str_is_set(data->input) ? 1 : 0, hash);
    if (memcmp(hash, data->input_hash, INPUT_HASH_LEN) != 0)
        buf_addf(violate(v, VERIFY_EFFECT_INPUT), "the input of effect \"%.*s\" is not of its hash",
                 STR_ARG(data->key));
}

static void verify_called(struct verifier *v)
{
    const struct event *event = v->event;
    struct effect_account *effect = effect_account(v, event->data.step, event->data.key);
    if (event->data.attempt != event->cause.attempt)
        buf_addf(violate(v, VERIFY_EFFECT), "effect \"%.*s\" says attempt %lld, called by %lld",
                 STR_ARG(event->data.key), INT_ARG(event->data.attempt),
                 INT_ARG(event->cause.attempt));
    verify_input_hash(v);
    if (effect != NULL)
        verify_called_again(v, effect);
    else
        effect = effect_add(v);
    if (effect == NULL)
        return;
    effect->attempt = event->cause.attempt;
    effect->returned = false;
    effect->aborted = false;
    effect->may_retry = false;
}

/* tool_returned, tool_aborted. */
static void verify_ended(struct verifier *v)
{
    const struct event *event = v->event;
    struct str key = event->data.key;
    struct effect_account *effect = effect_account(v, event->data.step, key);
    if (effect == NULL) {
        buf_addf(violate(v, VERIFY_EFFECT_RETURN), "effect \"%.*s\" was never called",
                 STR_ARG(key));
        return;
    }
    if (!is_open(effect)) {
        buf_addf(violate(v, VERIFY_EFFECT_RETURN), "effect \"%.*s\" has returned before",
                 STR_ARG(key));
        return;
    }
    if (effect->attempt != event->cause.attempt)
        buf_addf(violate(v, VERIFY_EFFECT_RETURN),
                 "effect \"%.*s\" was called by attempt %lld, returned to %lld", STR_ARG(key),
                 INT_ARG(effect->attempt), INT_ARG(event->cause.attempt));
    if (event->type == EVENT_TOOL_ABORTED && !str_is_set(event->data.error))
        buf_addf(violate(v, VERIFY_EFFECT_RETURN), "effect \"%.*s\" is aborted without a reason",
                 STR_ARG(key));
    effect->returned = event->type == EVENT_TOOL_RETURNED;
    effect->aborted = !effect->returned;
    owner_count_open(v, effect->owner, -1);
}

void verify_tool(struct verifier *v)
{
    const struct event *event = v->event;
    if (v->blind)
        return;
    if (str_is_set(event->data.step)) {
        const struct step_account *step = event_step_account(v);
        if (step != NULL && verify_not_passing(v, step) &&
            (step->state != STEP_RUNNING || step->held))
            buf_addf(violate(v, VERIFY_EFFECT), "step \"%.*s\" is %.*s%s",
                     STR_ARG(event->data.step), STR_ARG(step_state_name(step->state)),
                     step->held ? " and its result is held" : ", not running");
    } else if (v->status != JOB_RUNNING && !job_status_terminal(v->status)) {
        buf_addf(violate(v, VERIFY_EFFECT), "the job is %.*s, not running",
                 STR_ARG(job_status_name(v->status)));
    }
    if (event->data.key.len == 0)
        buf_addf(violate(v, VERIFY_EFFECT), "the effect has no key");
    else if (event->type == EVENT_TOOL_CALLED)
        verify_called(v);
    else
        verify_ended(v);
}

/* ---- open and in doubt ---- */

/* Of an owner that has one by its count. */
static const struct effect_account *first_open(const struct verifier *v, uint32_t owner)
{
    const struct effect_account *effect = v->effects;
    while (effect->owner != owner || effect->start != v->start || !is_open(effect)) {
        effect++;
        assert(effect < v->effects + v->effect_count);
    }
    return effect;
}

void verify_no_open_effect(struct verifier *v, struct str step)
{
    uint32_t owner = map_get(&v->owner_index, str_is_set(step) ? step : STR(""));
    if (v->blind || owner == MAP_NONE || v->owners[owner].start != v->start ||
        v->owners[owner].open <= 0)
        return;
    /* Searched for only when it is shown. */
    const struct effect_account *open = report_is_full(v) ? NULL : first_open(v, owner);
    buf_addf(violate(v, VERIFY_EFFECT_OPEN), "%.*s while effect \"%.*s\" of event %lld is open",
             STR_ARG(event_text(v)), STR_ARG(open != NULL ? open->key : STR("")),
             INT_ARG(open != NULL ? open->version : 0));
}

void verify_doubt(struct verifier *v, struct str step, struct str key)
{
    const struct effect_account *effect = effect_account(v, step, key);
    if (effect == NULL || !is_open(effect))
        buf_addf(violate(v, VERIFY_EFFECT), "effect \"%.*s\" is asked about and is not open",
                 STR_ARG(key));
}

void verify_resolution(struct verifier *v, struct str step, struct str key)
{
    struct effect_account *effect = str_is_set(key) ? effect_account(v, step, key) : NULL;
    if (effect == NULL || !is_open(effect)) {
        buf_addf(violate(v, VERIFY_EFFECT), "effect \"%.*s\" is resolved and is not open",
                 STR_ARG(key));
        return;
    }
    enum resolution resolution = v->event->data.resolution;
    effect->may_retry = resolution == RESOLVE_RETRY;
    if (resolution == RESOLVE_DONE) {
        effect->returned = true;
        owner_count_open(v, effect->owner, -1);
    }
}
