/* The checker's account of waits and signals. */
#include "core/plan.h"
#include "core/verifier.h"

/* What is longer stays out of every hot structure. */
enum { LONG_WAIT_MS = 60 * 60 * 1000 };

static bool waits_for_plan(enum wait_type type)
{
    return type == WAIT_STEPS || type == WAIT_REPLAN;
}

/* ---- signals ---- */

/* Versions rise along a stream; in a damaged one a signal may not be found, which is reported too.
 */
static struct signal_account *signal_at(const struct verifier *v, int64_t version)
{
    uint32_t low = 0;
    uint32_t high = v->signal_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (v->signals[middle].version < version)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->signal_count && v->signals[low].version == version ? &v->signals[low] : NULL;
}

/* The signals of a key that are stored; NULL when there never was one. */
static struct stored_account *stored_signals(const struct verifier *v, struct str key)
{
    uint32_t found = key.len > 0 ? map_get(&v->stored_index, key) : MAP_NONE;
    return found == MAP_NONE ? NULL : &v->stored[found];
}

/* Adds the signal that was received last to those of its key. */
static void add_stored(struct verifier *v)
{
    uint32_t number = v->signal_count - 1;
    struct str key = v->signals[number].key;
    struct stored_account *stored = stored_signals(v, key);
    uint32_t found;
    if (stored != NULL && stored->first != SIGNAL_NONE) {
        v->signals[stored->last].next = number;
        stored->last = number;
        return;
    }
    if (stored != NULL) {
        *stored = (struct stored_account){number, number};
        return;
    }
    if (key.len == 0 || !account_reserve(v, (void **)&v->stored, v->stored_count, &v->stored_cap,
                                         sizeof *v->stored))
        return;
    if (map_put(&v->stored_index, key, v->stored_count, &found) != ERR_OK)
        v->no_memory = true;
    v->stored[v->stored_count++] = (struct stored_account){number, number};
}

/* The oldest signal that is stored for a key and is one of the choices, which may be absent. */
static const struct signal_account *oldest_fitting(struct verifier *v, struct str key,
                                                   struct str choices)
{
    struct stored_account *stored = stored_signals(v, key);
    uint32_t before = SIGNAL_NONE;
    for (uint32_t i = stored != NULL ? stored->first : SIGNAL_NONE; i != SIGNAL_NONE;) {
        const struct signal_account *signal = &v->signals[i];
        if (!signal->taken) {
            if (!str_is_set(choices) || choices_have(choices, signal->payload, v->arena))
                return signal;
            before = i;
        } else if (before == SIGNAL_NONE) {
            stored->first = signal->next;
        } else {
            v->signals[before].next = signal->next;
            stored->last = signal->next == SIGNAL_NONE ? before : stored->last;
        }
        i = signal->next;
    }
    return NULL;
}

/* Puts a signal into the account. Repeats are recognised by their id before they get into a stream.
 */
static void signal_add(struct verifier *v, bool taken)
{
    const struct event *event = v->event;
    struct str id = event->data.signal_id;
    if (!account_reserve(v, (void **)&v->signals, v->signal_count, &v->signal_cap,
                         sizeof *v->signals))
        return;
    v->signals[v->signal_count] = (struct signal_account){
        .version = event->version,
        .key = event->data.correlation_key,
        .id = id,
        .payload = event->data.payload,
        .taken = taken,
        .next = SIGNAL_NONE,
    };
    uint32_t found = MAP_NONE;
    if (id.len > 0 && map_put(&v->signal_ids, id, v->signal_count, &found) != ERR_OK)
        v->no_memory = true;
    if (found != MAP_NONE)
        buf_addf(violate(v, VERIFY_SIGNAL), "signal \"%.*s\" was received by event %lld",
                 STR_ARG(id), INT_ARG(v->signals[found].version));
    v->signal_count++;
    if (!taken)
        add_stored(v);
}

/* Takes the stored signal that the event at hand names, for a wait with these choices. */
static void signal_take(struct verifier *v, struct str choices)
{
    const struct event_data *data = &v->event->data;
    if (data->outcome != OUTCOME_SIGNAL)
        buf_addf(violate(v, VERIFY_SIGNAL), "outcome %.*s takes the signal of event %lld",
                 STR_ARG(word(&outcome_names, (int)data->outcome)), INT_ARG(data->signal_version));
    struct signal_account *signal = signal_at(v, data->signal_version);
    if (signal == NULL) {
        buf_addf(violate(v, VERIFY_SIGNAL), "event %lld, whose signal is taken, received none",
                 INT_ARG(data->signal_version));
        return;
    }
    if (signal->taken)
        buf_addf(violate(v, VERIFY_SIGNAL), "the signal of event %lld was taken before",
                 INT_ARG(signal->version));
    if (!text_eq(signal->key, data->correlation_key))
        buf_addf(violate(v, VERIFY_SIGNAL), "a wait for \"%.*s\" took a signal for \"%.*s\"",
                 STR_ARG(data->correlation_key), STR_ARG(signal->key));
    if (data->signal_id.len > 0 && !text_eq(signal->id, data->signal_id))
        buf_addf(violate(v, VERIFY_SIGNAL), "the signal of event %lld is \"%.*s\", not \"%.*s\"",
                 INT_ARG(signal->version), STR_ARG(signal->id), STR_ARG(data->signal_id));
    if (!text_eq(signal->payload, data->payload))
        buf_addf(violate(v, VERIFY_SIGNAL), "the signal of event %lld has another payload",
                 INT_ARG(signal->version));
    const struct signal_account *oldest = oldest_fitting(v, signal->key, choices);
    if (!signal->taken && oldest != NULL && oldest->version < signal->version)
        buf_addf(violate(v, VERIFY_SIGNAL), "the signal of event %lld came first",
                 INT_ARG(oldest->version));
    signal->taken = true;
}

void verify_signal_received(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    if (v->blind)
        return;
    if (!str_is_set(data->step)) {
        if (data->correlation_key.len == 0)
            buf_addf(violate(v, VERIFY_SIGNAL), "the signal has no correlation_key");
        if (!event_caused_by(v, COMMAND_SIGNAL) && v->has_plan)
            buf_addf(violate(v, VERIFY_CAUSE), "%.*s cannot produce a signal for no step",
                     STR_ARG(command_text(v)));
        if (data->signal_version != 0)
            buf_addf(violate(v, VERIFY_SIGNAL), "the signal takes that of event %lld, for no step",
                     INT_ARG(data->signal_version));
        bool awaited = v->status == JOB_WAITING || v->status == JOB_PARKED;
        if (awaited && data->correlation_key.len > 0 && text_eq(data->correlation_key, v->wait.key))
            buf_addf(violate(v, VERIFY_SIGNAL), "stored although the job waits for \"%.*s\"",
                     STR_ARG(v->wait.key));
        signal_add(v, false);
        return;
    }
    const struct step_account *step = step_account(v, data->step);
    verify_answer(v);
    if (data->signal_version != 0)
        signal_take(v, step != NULL ? step->question.choices : (struct str){NULL, 0});
    else if (data->outcome == OUTCOME_SIGNAL || data->signal_id.len > 0)
        signal_add(v, true);
}

/* ---- waits ---- */

static void verify_wait_type(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    enum wait_type type = data->wait_type;
    if (type == WAIT_NONE) {
        buf_addf(violate(v, VERIFY_WAIT), "the wait has no type");
        return;
    }
    if (waits_for_plan(type) != v->has_plan)
        buf_addf(violate(v, VERIFY_WAIT), "a job with%s a plan waits for type %.*s",
                 v->has_plan ? "" : "out", STR_ARG(word(&wait_type_names, (int)type)));
    if (!waits_for_plan(type) && type != WAIT_TIMER && data->correlation_key.len == 0)
        buf_addf(violate(v, VERIFY_WAIT), "the wait has no correlation_key");
    if (type == WAIT_TIMER && data->until == 0)
        buf_addf(violate(v, VERIFY_WAIT), "the timer has no end");
    if (!data->parked && v->event->at >= 0 && data->until > v->event->at &&
        data->until - v->event->at > LONG_WAIT_MS)
        buf_addf(violate(v, VERIFY_WAIT), "a wait of %lld ms is not parked",
                 INT_ARG(data->until - v->event->at));
    if (data->until != 0 && data->until < v->event->at)
        buf_addf(violate(v, VERIFY_WAIT), "the wait ends at %lld ms, begun at %lld ms",
                 INT_ARG(data->until), INT_ARG(v->event->at));
}

/* Whether a worker puts its job to wait: by a wait, or by a commit that a wait follows. A commit
 * that is followed by a begin may ask a person about an effect, which it names. */
static bool is_wait(const struct verifier *v)
{
    return event_caused_by(v, COMMAND_WAIT) ||
           (event_caused_by(v, COMMAND_EFFECT_COMMIT) && !str_is_set(v->event->data.effect));
}

void verify_waiting(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    if (v->blind)
        return;
    verify_wait_type(v);
    if (is_wait(v) && !v->has_plan) {
        verify_no_open_effect(v, (struct str){NULL, 0});
        if (data->wait_type != WAIT_HUMAN &&
            oldest_fitting(v, data->correlation_key, data->choices) != NULL)
            buf_addf(violate(v, VERIFY_SIGNAL),
                     "a wait blocks for \"%.*s\", whose signal is stored",
                     STR_ARG(data->correlation_key));
    }
    if (str_is_set(data->effect))
        verify_doubt(v, (struct str){NULL, 0}, data->effect);
    else if (!is_wait(v) && !v->has_plan)
        buf_addf(violate(v, VERIFY_WAIT), "a person is asked of an effect that is not named");
    v->wait = (struct wait_account){
        .type = data->wait_type,
        .key = data->correlation_key,
        .until = data->until,
        .effect = data->effect,
        .choices = data->choices,
        .default_answer = data->default_answer,
    };
}

/* From running a wait ends before it begins: its signal is there, or its timer is due. */
static void verify_wait_skipped(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    if (!is_wait(v))
        buf_addf(violate(v, VERIFY_WAIT_END), "%.*s ended a wait that was not open",
                 STR_ARG(command_text(v)));
    else if (data->outcome == OUTCOME_SIGNAL && data->signal_version == 0)
        buf_addf(violate(v, VERIFY_WAIT_END), "a wait did not block, yet took no stored signal");
    if (data->outcome == OUTCOME_SIGNAL && str_is_set(data->choices) &&
        !choices_have(data->choices, data->payload, v->arena))
        buf_addf(violate(v, VERIFY_WAIT_END), "the signal is not one of %.*s",
                 STR_ARG(data->choices));
    verify_no_open_effect(v, (struct str){NULL, 0});
}

void verify_choice(struct verifier *v, const struct wait_account *question, enum verify_rule rule)
{
    const struct event_data *data = &v->event->data;
    /* What is taken from the store was acknowledged before there were choices. Before 0.2.0 a job
     * took any signal; since then the event says who answered. */
    bool answered = data->outcome == OUTCOME_SIGNAL && data->signal_version == 0 &&
                    data->by.len > 0 && !str_is_set(question->effect);
    if (answered && str_is_set(question->choices) &&
        !choices_have(question->choices, data->payload, v->arena))
        buf_addf(violate(v, rule), "the answer is not one of %.*s", STR_ARG(question->choices));
}

static void verify_wait_timeout(struct verifier *v)
{
    const struct event *event = v->event;
    if (event_caused_by(v, COMMAND_LIFETIME))
        return; /* whether its time had come is for the life of the job to say */
    if (!text_eq(event->data.payload, v->wait.default_answer))
        buf_addf(violate(v, VERIFY_WAIT_END), "timed out with another answer than the default");
    if (!event_caused_by(v, COMMAND_WAKE))
        buf_addf(violate(v, VERIFY_WAIT_END), "%.*s timed a wait out", STR_ARG(command_text(v)));
    /* The time of a wait for steps is that of their questions, each of which is checked. */
    if (v->wait.type == WAIT_STEPS && v->wait.until == 0)
        return;
    if (v->wait.until == 0)
        buf_addf(violate(v, VERIFY_WAIT_END), "a wait without end timed out");
    else if (event->at < v->wait.until)
        buf_addf(violate(v, VERIFY_WAIT_END), "timed out at %lld ms, open until %lld ms",
                 INT_ARG(event->at), INT_ARG(v->wait.until));
}

static void verify_wait_outcome(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    if (!text_eq(data->correlation_key, v->wait.key))
        buf_addf(violate(v, VERIFY_WAIT_END), "key \"%.*s\" ended a wait for \"%.*s\"",
                 STR_ARG(data->correlation_key), STR_ARG(v->wait.key));
    switch (data->outcome) {
    case OUTCOME_TIMEOUT:
        verify_wait_timeout(v);
        break;
    case OUTCOME_PLAN:
        if (!event_caused_by(v, COMMAND_PLAN) || !waits_for_plan(v->wait.type))
            buf_addf(violate(v, VERIFY_WAIT_END), "%.*s brought no plan to a wait of type %.*s",
                     STR_ARG(command_text(v)), STR_ARG(word(&wait_type_names, (int)v->wait.type)));
        break;
    case OUTCOME_SIGNAL:
        if (data->signal_version == 0 && !v->has_plan && !event_caused_by(v, COMMAND_SIGNAL) &&
            !event_caused_by(v, COMMAND_ANSWER))
            buf_addf(violate(v, VERIFY_WAIT_END), "%.*s brought no signal",
                     STR_ARG(command_text(v)));
        if (event_caused_by(v, COMMAND_ANSWER) && !v->has_plan && v->wait.type != WAIT_HUMAN)
            buf_addf(violate(v, VERIFY_WAIT_END), "an answer ended a wait of type %.*s",
                     STR_ARG(word(&wait_type_names, (int)v->wait.type)));
        verify_choice(v, &v->wait, VERIFY_WAIT_END);
        break;
    default:
        break;
    }
}

void verify_wait_completed(struct verifier *v)
{
    const struct event_data *data = &v->event->data;
    bool waited = v->from == JOB_WAITING || v->from == JOB_PARKED;
    if (v->blind)
        return;
    if (waited)
        verify_wait_outcome(v);
    else if (v->from == JOB_RUNNING)
        verify_wait_skipped(v);
    else if (v->from == JOB_QUEUED || v->from == JOB_RETRYING)
        buf_addf(violate(v, VERIFY_WAIT_END), "no wait was open");

    if (data->outcome == OUTCOME_NONE)
        buf_addf(violate(v, VERIFY_WAIT_END), "the wait ended without an outcome");
    if (data->signal_version != 0)
        signal_take(v, data->choices);
    else if (data->outcome == OUTCOME_SIGNAL && data->correlation_key.len > 0)
        signal_add(v, true);

    if (waited && data->resolution != RESOLVE_NONE)
        verify_resolution(v, (struct str){NULL, 0}, v->wait.effect);
    else if (waited && str_is_set(v->wait.effect))
        buf_addf(violate(v, VERIFY_WAIT_END), "effect \"%.*s\" stays in doubt",
                 STR_ARG(v->wait.effect));
    v->wait = (struct wait_account){0};
}
