/* Steps, effects and signals of one job: those that are asked for, each once. */
#include <stdlib.h>

#include "core/job_state.h"
#include "store/sqlite/inline_effects.h"
#include "store/sqlite/sqlite.h"

/* ---- steps ---- */

struct steps {
    struct sqlite_txn *txn;
    const struct uuid *job;
    struct arena *arena;
    struct err *err;
    struct step *at;
    uint32_t count;
    uint32_t cap;
};

/* The lease in the last eight columns of STEP_COLUMNS. */
static struct claim_row read_claim(struct query *query)
{
    struct claim_row claim = {
        .worker_id = lite_read_text(query),
        .resource_id = lite_read_text(query),
    };
    claim.present = !lite_next_is_null(query);
    claim.attempt = lite_read_int(query);
    claim.expires_at = lite_read_int(query);
    claim.beat_at = lite_read_int(query);
    claim.due_at = lite_read_int(query);
    claim.progress = lite_read_text(query);
    claim.cursor = lite_read_text(query);
    return claim;
}

/* Adds what the query gives, and ends it. Rows are made steps at once, so that a text that cannot
 * be read is told for what it is. */
static enum error_code add_steps(struct steps *steps, struct query *query)
{
    while (lite_next(query)) {
        struct step_row row = {.ordinal = lite_read_step(query)};
        row.id = lite_read_text(query);
        row.state_number = lite_read_int(query);
        row.asking_key = lite_read_text(query);
        row.plan = lite_read_text(query);
        row.state = lite_read_text(query);
        row.claim = read_claim(query);
        sqlite_apply_beat(steps->txn->store, steps->job, row.ordinal, &row.claim);
        if (!sqlite_more(steps->arena, (void **)&steps->at, steps->count, &steps->cap,
                         sizeof *steps->at))
            query->out_of_memory = true;
        if (query->out_of_memory || query->code != ERR_OK)
            break;
        query->code = row_to_step(&row, steps->arena, &steps->at[steps->count], steps->err);
        if (query->code == ERR_OK)
            steps->count++;
    }
    return lite_end(query);
}

static struct query step_query(const struct steps *steps, enum statement statement)
{
    struct query query = lite_query(steps->txn->connection, statement, steps->arena, steps->err);
    lite_put_uuid(&query, steps->job);
    return query;
}

static enum error_code add_step_at(struct steps *steps, uint32_t ordinal)
{
    struct query query = step_query(steps, STATEMENT_STEP_AT);
    lite_put_step(&query, ordinal);
    return add_steps(steps, &query);
}

static enum error_code add_steps_by_text(struct steps *steps, enum statement statement,
                                         const struct str *texts, uint32_t count)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        struct query query = step_query(steps, statement);
        lite_put_text(&query, texts[i]);
        code = add_steps(steps, &query);
    }
    return code;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static int compare_steps(const void *a, const void *b)
{
    const struct step *left = a;
    const struct step *right = b;
    return (left->ordinal > right->ordinal) - (left->ordinal < right->ordinal);
}

/* Sorts, and leaves one of each. */
static void settle_steps(struct steps *steps)
{
    uint32_t kept = 0;
    if (steps->count > 1)
        qsort(steps->at, steps->count, sizeof *steps->at, compare_steps);
    for (uint32_t i = 0; i < steps->count; i++)
        if (kept == 0 || steps->at[i].ordinal != steps->at[kept - 1].ordinal)
            steps->at[kept++] = steps->at[i];
    steps->count = kept;
}

/* The ordinals of all children, each once. */
static enum error_code collect_children(const struct steps *steps, uint32_t **ret,
                                        uint32_t *ret_count)
{
    size_t all = 0;
    for (uint32_t i = 0; i < steps->count; i++)
        all += steps->at[i].child_count;
    uint32_t *children = arena_zalloc(&steps->txn->scratch, all + 1, sizeof *children);
    if (children == NULL)
        return sqlite_no_memory(steps->err);
    uint32_t count = 0;
    for (uint32_t i = 0; i < steps->count; i++)
        for (uint32_t c = 0; c < steps->at[i].child_count; c++)
            children[count++] = steps->at[i].children[c];
    uint32_t kept = 0;
    if (count > 1)
        qsort(children, count, sizeof *children, compare_numbers);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || children[i] != children[kept - 1])
            children[kept++] = children[i];
    *ret = children;
    *ret_count = kept;
    return ERR_OK;
}

/* The steps that are there (sorted, each once) with those that depend on them. */
static enum error_code add_children(struct steps *steps)
{
    uint32_t *children = NULL;
    uint32_t count = 0;
    enum error_code code = collect_children(steps, &children, &count);
    uint32_t named = steps->count;
    uint32_t next = 0;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        while (next < named && steps->at[next].ordinal < children[i])
            next++;
        if (next == named || steps->at[next].ordinal != children[i])
            code = add_step_at(steps, children[i]);
    }
    return code;
}

static enum error_code load_steps(struct sqlite_txn *txn, struct store_parts *parts,
                                  struct arena *arena, struct err *err)
{
    struct steps steps = {.txn = txn, .job = &parts->job, .arena = arena, .err = err};
    enum error_code code = ERR_OK;
    if (parts->all_steps) {
        struct query query = step_query(&steps, STATEMENT_STEPS_ALL);
        code = add_steps(&steps, &query);
    } else {
        for (uint32_t i = 0; i < parts->ordinal_count && code == ERR_OK; i++)
            code = add_step_at(&steps, parts->ordinals[i]);
        if (code == ERR_OK)
            code = add_steps_by_text(&steps, STATEMENT_STEPS_BY_ID, parts->step_ids,
                                     parts->step_id_count);
        if (code == ERR_OK)
            code = add_steps_by_text(&steps, STATEMENT_STEPS_ASKING, parts->asking_keys,
                                     parts->asking_key_count);
        settle_steps(&steps);
        if (code == ERR_OK && !parts->no_children)
            code = add_children(&steps);
        settle_steps(&steps);
    }
    parts->steps = steps.at;
    parts->step_count = steps.count;
    return code;
}

/* ---- effects ---- */

struct effects {
    struct sqlite_txn *txn;
    const struct uuid *job;
    struct arena *arena;
    struct err *err;
    struct effect *at;
    uint32_t count;
    uint32_t cap;
};

static struct query effect_query(const struct effects *effects, enum statement statement)
{
    struct query query =
        lite_query(effects->txn->connection, statement, effects->arena, effects->err);
    lite_put_uuid(&query, effects->job);
    return query;
}

/* Adds what the query gives, and ends it. */
static enum error_code take_effects(struct effects *effects, struct query *query)
{
    while (lite_next(query)) {
        struct effect_row row = {.name = lite_read_text(query)};
        row.step = lite_read_text(query);
        row.key = lite_read_text(query);
        row.version = lite_read_int(query);
        row.open = lite_read_int(query) != 0;
        row.state = lite_read_text(query);
        if (!sqlite_more(effects->arena, (void **)&effects->at, effects->count, &effects->cap,
                         sizeof *effects->at))
            query->out_of_memory = true;
        if (query->out_of_memory)
            break;
        query->code =
            row_to_effect(&row, effects->arena, &effects->at[effects->count], effects->err);
        if (query->code == ERR_OK)
            effects->count++;
    }
    return lite_end(query);
}

/* One use of a statement on the job, with a text unless that is NULL. */
static enum error_code add_effects(struct effects *effects, enum statement statement,
                                   const struct str *text)
{
    struct query query = effect_query(effects, statement);
    if (text != NULL)
        lite_put_text(&query, *text);
    return take_effects(effects, &query);
}

/* Effects of one owner, for transactions that only read. */
static enum error_code add_effects_of(struct effects *effects, const struct store_effects *of)
{
    bool step = str_is_set(of->step);
    struct query query =
        effect_query(effects, step ? STATEMENT_EFFECTS_OF_STEP : STATEMENT_EFFECTS_OF_JOB);
    lite_put_int(&query, of->after);
    lite_put_int(&query, of->max);
    if (step)
        lite_put_text(&query, of->step);
    return take_effects(effects, &query);
}

static int compare_effects(const void *a, const void *b)
{
    const struct effect *left = a;
    const struct effect *right = b;
    if (left->version != right->version)
        return left->version < right->version ? -1 : 1;
    return str_cmp(left->name, right->name);
}

static bool is_among(struct str name, const struct str *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (str_eq(name, names[i]))
            return true;
    return false;
}

static bool is_wanted(const struct store_parts *parts, const struct effect *effect)
{
    bool open = effect_is_open(effect);
    const struct store_effects *of = &parts->effects_of;
    if (of->wanted && str_eq(effect->step, of->step) && effect->version > of->after)
        return true;
    return parts->all_effects || (parts->all_open_effects && open) ||
           (open && is_among(effect->step, parts->open_of, parts->open_of_count)) ||
           is_among(effect->name, parts->effect_names, parts->effect_name_count);
}

/* Adds those that are in the row of the job; *ret_all: the job has no others. */
static enum error_code take_inline_effects(struct effects *effects, const struct store_parts *parts,
                                           bool *ret_all)
{
    struct header header;
    enum error_code code =
        sqlite_find_header(effects->txn, effects->job, effects->arena, &header, effects->err);
    *ret_all = code == ERR_OK && (header.no == 0 || str_is_set(header.effects));
    if (!*ret_all || header.no == 0)
        return code;
    /* What is in the cache may go. */
    struct str packed = arena_copy(effects->arena, header.effects);
    if (!str_is_set(packed))
        return sqlite_no_memory(effects->err);
    code = inline_effects_read(packed, effects->arena, &effects->at, &effects->count, effects->err);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < effects->count && code == ERR_OK; i++)
        if (is_wanted(parts, &effects->at[i]))
            effects->at[kept++] = effects->at[i];
    effects->count = kept;
    return code;
}

static enum error_code load_effects(struct sqlite_txn *txn, struct store_parts *parts,
                                    struct arena *arena, struct err *err)
{
    struct effects effects = {.txn = txn, .job = &parts->job, .arena = arena, .err = err};
    bool all = false;
    parts->effects = NULL;
    parts->effect_count = 0;
    if (!parts->all_effects && !parts->effects_of.wanted && !parts->all_open_effects &&
        parts->open_of_count == 0 && parts->effect_name_count == 0)
        return ERR_OK;
    enum error_code code = take_inline_effects(&effects, parts, &all);
    if (code != ERR_OK || all) {
        /* There are no others. */
    } else if (parts->all_effects) {
        code = add_effects(&effects, STATEMENT_EFFECTS_ALL, NULL);
    } else if (parts->effects_of.wanted) {
        code = add_effects_of(&effects, &parts->effects_of);
    } else {
        if (parts->all_open_effects)
            code = add_effects(&effects, STATEMENT_EFFECTS_OPEN, NULL);
        for (uint32_t i = 0; i < parts->open_of_count && code == ERR_OK; i++)
            code = add_effects(&effects, STATEMENT_EFFECTS_OPEN_OF, &parts->open_of[i]);
        for (uint32_t i = 0; i < parts->effect_name_count && code == ERR_OK; i++)
            code = add_effects(&effects, STATEMENT_EFFECTS_NAMED, &parts->effect_names[i]);
    }
    uint32_t kept = 0;
    if (effects.count > 1)
        qsort(effects.at, effects.count, sizeof *effects.at, compare_effects);
    for (uint32_t i = 0; i < effects.count; i++)
        if (kept == 0 || compare_effects(&effects.at[i], &effects.at[kept - 1]) != 0)
            effects.at[kept++] = effects.at[i];
    if (parts->effects_of.wanted && kept > parts->effects_of.max)
        kept = parts->effects_of.max;
    parts->effects = effects.at;
    parts->effect_count = kept;
    return code;
}

/* ---- signals ---- */

struct signals {
    struct sqlite_txn *txn;
    const struct uuid *job;
    struct arena *arena;
    struct err *err;
    struct signal *at;
    uint32_t count;
    uint32_t cap;
};

static enum error_code add_signals(struct signals *signals, enum statement statement,
                                   const struct str *text)
{
    struct query query =
        lite_query(signals->txn->connection, statement, signals->arena, signals->err);
    lite_put_uuid(&query, signals->job);
    if (text != NULL)
        lite_put_text(&query, *text);
    while (lite_next(&query)) {
        if (!sqlite_more(signals->arena, (void **)&signals->at, signals->count, &signals->cap,
                         sizeof *signals->at)) {
            query.out_of_memory = true;
            break;
        }
        struct signal *signal = &signals->at[signals->count++];
        *signal = (struct signal){.version = lite_read_int(&query)};
        signal->correlation_key = lite_read_text(&query);
        signal->signal_id = lite_read_text(&query);
        signal->delivered = lite_read_int(&query) != 0;
        signal->payload = lite_read_text(&query);
    }
    return lite_end(&query);
}

static int compare_signals(const void *a, const void *b)
{
    const struct signal *left = a;
    const struct signal *right = b;
    return (left->version > right->version) - (left->version < right->version);
}

static enum error_code load_signals(struct sqlite_txn *txn, struct store_parts *parts,
                                    struct arena *arena, struct err *err)
{
    struct signals signals = {.txn = txn, .job = &parts->job, .arena = arena, .err = err};
    enum error_code code = ERR_OK;
    if (parts->all_signals) {
        code = add_signals(&signals, STATEMENT_SIGNALS_ALL, NULL);
    } else {
        if (parts->stored_signals)
            code = add_signals(&signals, STATEMENT_SIGNALS_ALL_STORED, NULL);
        for (uint32_t i = 0; i < parts->signal_key_count && code == ERR_OK; i++) {
            code = add_signals(&signals, STATEMENT_SIGNALS_NEWEST, &parts->signal_keys[i]);
            if (code == ERR_OK)
                code = add_signals(&signals, STATEMENT_SIGNALS_STORED, &parts->signal_keys[i]);
        }
        for (uint32_t i = 0; i < parts->signal_id_count && code == ERR_OK; i++)
            code = add_signals(&signals, STATEMENT_SIGNALS_WITH_ID, &parts->signal_ids[i]);
    }
    uint32_t kept = 0;
    if (signals.count > 1)
        qsort(signals.at, signals.count, sizeof *signals.at, compare_signals);
    for (uint32_t i = 0; i < signals.count; i++)
        if (kept == 0 || signals.at[i].version != signals.at[kept - 1].version)
            signals.at[kept++] = signals.at[i];
    parts->signals = signals.at;
    parts->signal_count = kept;
    return code;
}

enum error_code sqlite_load_parts(struct store_txn *base, struct store_parts *parts, uint32_t count,
                                  struct arena *arena, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        code = load_steps(txn, &parts[i], arena, err);
        if (code == ERR_OK)
            code = load_effects(txn, &parts[i], arena, err);
        if (code == ERR_OK)
            code = load_signals(txn, &parts[i], arena, err);
        arena_clear(&txn->scratch);
    }
    return sqlite_verb_end(txn, code);
}
