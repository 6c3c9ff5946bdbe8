/* Lanes, what stands ready in them, and what waits for its time. */
#include "store/lane_merge.h"
#include "store/memory/memory.h"

/* ---- lanes ---- */

enum error_code memory_lane(struct memory_txn *txn, struct str lane, bool make, int64_t *ret,
                            struct err *err)
{
    struct buf key = memory_buf(txn);
    buf_add(&key, lane);
    const struct entry *entry;
    enum error_code code = memory_get(txn, TABLE_LANES, &key, &entry);
    if (code != ERR_OK)
        return code;
    if (entry != NULL) {
        struct reader reader = reader_of(entry_value(entry));
        *ret = read_int(&reader);
        return ERR_OK;
    }
    *ret = 0;
    if (!make)
        return ERR_OK;
    if (txn->store->tables[TABLE_LANES].count >= STORE_LANES_MAX)
        return err_set(err, ERR_RATE_LIMITED,
                       "the limit of %d combinations of queue, kind, capabilities, selector and "
                       "avoid list is reached",
                       STORE_LANES_MAX);
    int64_t number = ++txn->store->lane_last;
    struct buf by_key = memory_buf(txn);
    struct buf by_number = memory_buf(txn);
    value_int(&by_key, number);
    key_int(&by_number, number);
    code = memory_put(txn, TABLE_LANES, &key, &by_key);
    if (code == ERR_OK)
        code = memory_put(txn, TABLE_LANE_NUMBERS, &by_number, &key);
    *ret = number;
    return code;
}

/* Marks the lanes, by number, of work that waits for its time. */
static void mark_timers(const struct memory_txn *txn, bool *used)
{
    struct scan scan = memory_scan(txn, TABLE_TIMERS_WORK, STR(""));
    const struct entry *entry;
    while ((entry = scan_next(&scan)) != NULL) {
        struct reader value = reader_of(entry_value(entry));
        int64_t number = read_int(&value);
        if (number >= 0 && number <= txn->store->lane_last)
            used[number] = true;
    }
}

static bool has_ready(struct memory_txn *txn, int64_t number)
{
    struct buf prefix = memory_buf(txn);
    key_int(&prefix, number);
    struct scan scan = memory_scan(txn, TABLE_READY, buf_str(&prefix));
    return scan_next(&scan) != NULL;
}

enum error_code memory_lanes_sweep(struct memory_txn *txn)
{
    struct memory_store *store = txn->store;
    if (store->tables[TABLE_LANES].count <= store->lanes_many)
        return ERR_OK;
    bool *used = arena_zalloc(&txn->scratch, (size_t)store->lane_last + 1, sizeof *used);
    if (used == NULL)
        return ERR_NO_MEMORY;
    mark_timers(txn, used);
    struct scan scan = memory_scan(txn, TABLE_LANE_NUMBERS, STR(""));
    enum error_code code = ERR_OK;
    const struct entry *entry;
    while (code == ERR_OK && (entry = scan_next(&scan)) != NULL) {
        struct reader reader = reader_of(entry_key(entry));
        int64_t number = read_key_int(&reader);
        if (used[number] || has_ready(txn, number))
            continue;
        code = memory_take(txn, TABLE_LANES, entry_value(entry), NULL);
        if (code == ERR_OK)
            code = memory_take(txn, TABLE_LANE_NUMBERS, entry_key(entry), NULL);
    }
    store->lanes_many = store_lanes_many((uint32_t)store->tables[TABLE_LANES].count);
    store->lanes_era++;
    return code;
}

enum error_code memory_lanes(struct store_txn *handle, uint32_t after, struct arena *arena,
                             struct store_lane **ret, uint32_t *ret_count, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    const struct table *table = &txn->store->tables[TABLE_LANE_NUMBERS];
    struct store_lane *lanes = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    struct buf from = memory_buf(txn);
    key_int(&from, after);
    code = from.failed ? ERR_NO_MEMORY : ERR_OK;
    const struct entry *entry = code == ERR_OK ? table_after(table, buf_str(&from)) : NULL;
    for (; entry != NULL && code == ERR_OK; entry = table_after(table, entry_key(entry))) {
        struct reader reader = reader_of(entry_key(entry));
        struct str key = arena_copy(arena, entry_value(entry));
        struct store_lane *lane = memory_more(arena, (void **)&lanes, count, &cap, sizeof *lanes);
        if (lane == NULL || !str_is_set(key)) {
            code = ERR_NO_MEMORY;
            break;
        }
        *lane = (struct store_lane){(uint32_t)read_key_int(&reader), key};
        count++;
    }
    code = memory_verb_end(txn, code, err);
    if (code != ERR_OK)
        return code;
    *ret = lanes;
    *ret_count = count;
    return ERR_OK;
}

/* ---- ready and timers ---- */

static struct buf ready_key(struct memory_txn *txn, const struct step_place *place, struct uuid job,
                            uint32_t step)
{
    struct buf key = memory_buf(txn);
    key_int(&key, place->lane);
    key_int(&key, place->rank);
    key_int(&key, place->run_at);
    key_uuid(&key, job);
    key_step(&key, step);
    return key;
}

static struct buf timer_key(struct memory_txn *txn, int64_t at, struct uuid job, uint32_t step)
{
    struct buf key = memory_buf(txn);
    key_int(&key, at);
    key_uuid(&key, job);
    key_step(&key, step);
    return key;
}

/* Puts work into its lane, or among the timers when it may not be claimed yet. */
static enum error_code place_put(struct memory_txn *txn, const struct step_place *place,
                                 struct uuid job, uint32_t step)
{
    enum error_code code = ERR_OK;
    if (place->lane != 0 && place->run_at > txn->now) {
        struct buf key = timer_key(txn, place->run_at, job, step);
        struct buf value = memory_buf(txn);
        value_int(&value, place->lane);
        value_int(&value, place->rank);
        code = memory_put(txn, TABLE_TIMERS_WORK, &key, &value);
    } else if (place->lane != 0) {
        struct buf key = ready_key(txn, place, job, step);
        code = memory_put(txn, TABLE_READY, &key, NULL);
    }
    if (code == ERR_OK && place->due_at != 0 && !place->leased) {
        struct buf key = timer_key(txn, place->due_at, job, step);
        code = memory_put(txn, TABLE_TIMERS_DUE, &key, NULL);
    }
    return code;
}

/* Takes work out of its lane, whether or not its time had come. */
static enum error_code place_take_lane(struct memory_txn *txn, const struct step_place *place,
                                       struct uuid job, uint32_t step, bool *ret_found)
{
    *ret_found = false;
    if (place->lane == 0)
        return ERR_OK;
    struct buf timer = timer_key(txn, place->run_at, job, step);
    enum error_code code = memory_take_buf(txn, TABLE_TIMERS_WORK, &timer, ret_found);
    if (code != ERR_OK || *ret_found)
        return code;
    struct buf ready = ready_key(txn, place, job, step);
    return memory_take_buf(txn, TABLE_READY, &ready, ret_found);
}

static enum error_code place_take_due(struct memory_txn *txn, const struct step_place *place,
                                      struct uuid job, uint32_t step)
{
    if (place->due_at == 0 || place->leased)
        return ERR_OK;
    struct buf key = timer_key(txn, place->due_at, job, step);
    return memory_take_buf(txn, TABLE_TIMERS_DUE, &key, NULL);
}

/* ---- leases ---- */

static enum error_code claim_take(struct memory_txn *txn, struct uuid job, uint32_t step,
                                  struct claim_row *ret_was, struct err *err)
{
    struct claim_row was;
    enum error_code code = memory_read_claim(txn, job, step, &was, err);
    if (code != ERR_OK)
        return code;
    if (ret_was != NULL)
        *ret_was = was;
    if (!was.present)
        return ERR_OK;
    struct buf key = memory_step_key(txn, job, step);
    code = memory_take_buf(txn, TABLE_CLAIMS, &key, NULL);
    if (code == ERR_OK && was.due_at != 0) {
        struct buf due = timer_key(txn, was.due_at, job, step);
        code = memory_take_buf(txn, TABLE_CLAIMS_DUE, &due, NULL);
    }
    if (code == ERR_OK && str_is_set(was.resource_id)) {
        struct buf on = memory_buf(txn);
        key_text(&on, was.resource_id);
        key_uuid(&on, job);
        key_step(&on, step);
        code = memory_take_buf(txn, TABLE_CLAIMS_ON, &on, NULL);
    }
    return code;
}

static enum error_code claim_put(struct memory_txn *txn, struct uuid job, uint32_t step,
                                 const struct claim_row *claim)
{
    struct buf key = memory_step_key(txn, job, step);
    struct buf value = memory_buf(txn);
    claim_row_pack(claim, &value);
    enum error_code code = memory_put(txn, TABLE_CLAIMS, &key, &value);
    if (code == ERR_OK && claim->due_at != 0) {
        struct buf due = timer_key(txn, claim->due_at, job, step);
        code = memory_put(txn, TABLE_CLAIMS_DUE, &due, NULL);
    }
    if (code == ERR_OK && str_is_set(claim->resource_id)) {
        struct buf on = memory_buf(txn);
        key_text(&on, claim->resource_id);
        key_uuid(&on, job);
        key_step(&on, step);
        code = memory_put(txn, TABLE_CLAIMS_ON, &on, NULL);
    }
    return code;
}

static enum error_code claim_replace(struct memory_txn *txn, const struct job *job,
                                     const struct step *step, const struct schedule_entry *was,
                                     const struct schedule_entry *now, struct err *err)
{
    uint32_t ordinal = step != NULL ? step->ordinal : STEP_NONE;
    struct claim_row old = {0};
    enum error_code code = ERR_OK;
    if (was->leased || now->leased)
        code = claim_take(txn, job->id, ordinal, &old, err);
    if (code != ERR_OK || !now->leased)
        return code;
    struct claim_row claim = row_of_lease(job, step, now->due_at);
    /* A beat does not move the time at which the engine looks: it looks too early, and sees. */
    if (old.present && was->leased && was->due_at == now->due_at)
        claim.due_at = old.due_at;
    return claim_put(txn, job->id, ordinal, &claim);
}

/* ---- schedule entries ---- */

static bool schedule_entry_same(const struct schedule_entry *a, const struct schedule_entry *b)
{
    return str_eq(a->lane, b->lane) && a->priority == b->priority && a->run_at == b->run_at &&
           a->due_at == b->due_at && a->leased == b->leased;
}

static enum error_code place_of(struct memory_txn *txn, const struct schedule_entry *entry,
                                bool make, struct step_place *ret, struct err *err)
{
    *ret = (struct step_place){.rank = -entry->priority,
                               .run_at = entry->run_at,
                               .due_at = entry->due_at,
                               .leased = entry->leased};
    if (!str_is_set(entry->lane))
        return ERR_OK;
    return memory_lane(txn, entry->lane, make, &ret->lane, err);
}

enum error_code memory_replace(struct memory_txn *txn, const struct job *job,
                               const struct step *step, const struct schedule_entry *was,
                               const struct schedule_entry *now, struct step_place *ret_place,
                               struct err *err)
{
    uint32_t ordinal = step != NULL ? step->ordinal : STEP_NONE;
    struct step_place old;
    enum error_code code = claim_replace(txn, job, step, was, now, err);
    if (code == ERR_OK)
        code = place_of(txn, now, true, ret_place, err);
    if (code != ERR_OK || schedule_entry_same(was, now))
        return code;
    code = place_of(txn, was, false, &old, err);
    bool found = false;
    if (code == ERR_OK)
        code = place_take_lane(txn, &old, job->id, ordinal, &found);
    /* The caller has loaded it and nobody else could move it: somebody has lost count. */
    if (code == ERR_OK && str_is_set(was->lane) && !found)
        return err_set(err, ERR_CORRUPT, "a queued entry is not in its lane %.*s",
                       STR_ARG(was->lane));
    if (code == ERR_OK)
        code = place_take_due(txn, &old, job->id, ordinal);
    if (code == ERR_OK)
        code = place_put(txn, ret_place, job->id, ordinal);
    return code;
}

enum error_code memory_unplace_step(struct memory_txn *txn, struct uuid job, uint32_t step,
                                    bool all, struct step_place *place, struct err *err)
{
    /* It is in no lane any more when candidates has just found it. */
    bool found;
    enum error_code code = place_take_lane(txn, place, job, step, &found);
    place->lane = 0;
    if (code != ERR_OK || !all)
        return code;
    code = place_take_due(txn, place, job, step);
    if (code == ERR_OK && place->leased)
        code = claim_take(txn, job, step, NULL, err);
    *place = (struct step_place){0};
    return code;
}

/* ---- finding work ---- */

/* How far a search has come in a lane. */
struct lane_walked {
    const struct entry *last; /* NULL: not begun */
};

struct lane_walk {
    struct memory_txn *txn;
    const struct store_search *search;
    struct lane_walked *lanes; /* by index of the lane */
};

static enum error_code walk_next(void *arg, uint32_t index, struct lane_place *ret, bool *ret_found,
                                 struct err *err)
{
    struct lane_walk *walk = arg;
    const struct table *table = &walk->txn->store->tables[TABLE_READY];
    struct buf prefix = memory_buf(walk->txn);
    key_int(&prefix, walk->search->lanes[index]);
    if (prefix.failed)
        return ERR_NO_MEMORY;
    const struct entry *last = walk->lanes[index].last;
    const struct entry *entry =
        last != NULL ? table_after(table, entry_key(last)) : table_seek(table, buf_str(&prefix));
    *ret_found = entry != NULL && entry->key_len >= prefix.len &&
                 memcmp(entry->bytes, prefix.at, prefix.len) == 0;
    if (!*ret_found)
        return ERR_OK;
    walk->lanes[index].last = entry;
    struct reader reader = reader_of(entry_key(entry));
    read_key_int(&reader);
    ret->rank = read_key_int(&reader);
    ret->run_at = read_key_int(&reader);
    ret->job = read_key_uuid(&reader);
    ret->step = read_key_step(&reader);
    return reader.bad ? err_set(err, ERR_CORRUPT, "a lane in memory is damaged") : ERR_OK;
}

static enum error_code search_one(struct memory_txn *txn, struct store_search *search,
                                  struct arena *arena, struct err *err)
{
    uint32_t lanes = search->group_count > 0 ? search->group_ends[search->group_count - 1] : 0;
    struct lane_walk walk = {txn, search,
                             arena_zalloc(&txn->scratch, lanes + (size_t)1, sizeof *walk.lanes)};
    struct lane_pick *picks = arena_zalloc(&txn->scratch, search->max + (size_t)1, sizeof *picks);
    if (walk.lanes == NULL || picks == NULL)
        return ERR_NO_MEMORY;
    uint32_t count = 0;
    enum error_code code = lane_merge(search, walk_next, &walk, &txn->scratch, picks, &count, err);
    if (code != ERR_OK)
        return code;
    struct store_candidate *found = arena_zalloc(arena, count + (size_t)1, sizeof *found);
    if (found == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct lane_place *at = &picks[i].place;
        struct step_place place = {
            .lane = search->lanes[picks[i].index], .rank = at->rank, .run_at = at->run_at};
        struct buf key = ready_key(txn, &place, at->job, at->step);
        bool redacted;
        code = memory_take_buf(txn, TABLE_READY, &key, NULL);
        if (code == ERR_OK)
            code = memory_read_job(txn, at->job, arena, &found[i].slice, &redacted, err);
        if (code != ERR_OK)
            return code;
        found[i].step = at->step;
        found[i].lane = search->lanes[picks[i].index];
    }
    search->found = found;
    search->found_count = count;
    return ERR_OK;
}

enum error_code memory_candidates(struct store_txn *handle, struct store_search *searches,
                                  uint32_t count, struct arena *arena, struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++)
        code = search_one(txn, &searches[i], arena, err);
    return memory_verb_end(txn, code, err);
}

static enum error_code promote_one(struct memory_txn *txn, const struct entry *entry)
{
    struct reader key = reader_of(entry_key(entry));
    struct reader value = reader_of(entry_value(entry));
    struct step_place place = {.run_at = read_key_int(&key)};
    struct uuid job = read_key_uuid(&key);
    uint32_t step = read_key_step(&key);
    place.lane = read_int(&value);
    place.rank = read_int(&value);
    struct buf ready = ready_key(txn, &place, job, step);
    enum error_code code = memory_take(txn, TABLE_TIMERS_WORK, entry_key(entry), NULL);
    return code != ERR_OK ? code : memory_put(txn, TABLE_READY, &ready, NULL);
}

enum error_code memory_promote(struct store_txn *handle, uint32_t limit, uint32_t *ret_count,
                               struct err *err)
{
    struct memory_txn *txn = (struct memory_txn *)handle;
    enum error_code code = memory_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    uint32_t count = 0;
    struct scan scan = memory_scan(txn, TABLE_TIMERS_WORK, STR(""));
    while (code == ERR_OK && count < limit) {
        const struct entry *entry = scan_next(&scan);
        struct reader reader = reader_of(entry != NULL ? entry_key(entry) : STR(""));
        if (entry == NULL || read_key_int(&reader) > txn->now)
            break;
        code = promote_one(txn, entry);
        count++;
    }
    code = memory_verb_end(txn, code, err);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}
