#include "store/sqlite/ahead.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"

enum { EXPECTED = 4096 };

struct ahead_table *ahead_new(uint64_t seed, struct arena_pool *pool)
{
    struct ahead_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    arena_init_pooled(&table->arena, pool);
    arena_init_pooled(&table->log, pool);
    table->random = seed | 1;
    table->due_at = INT64_MAX;
    map_init(&table->index, &table->arena, EXPECTED, seed);
    map_init(&table->keys, &table->arena, EXPECTED / 16, seed);
    map_init(&table->request_index, &table->arena, EXPECTED / 16, seed);
    return table;
}

void ahead_free(struct ahead_table *table)
{
    if (table == NULL)
        return;
    arena_release(&table->arena);
    arena_release(&table->log);
    free(table);
}

void ahead_forget_events(struct ahead_table *table)
{
    table->events = table->last_events = NULL;
    arena_release(&table->log);
}

bool ahead_is_empty(const struct ahead_table *table)
{
    return table == NULL || (table->job_count == 0 && table->request_count == 0);
}

/* ---- finding ---- */

static struct str id_text(const struct uuid *id)
{
    return (struct str){(const char *)id->bytes, sizeof id->bytes};
}

struct ahead_job *ahead_find(const struct ahead_table *table, const struct uuid *id)
{
    if (table == NULL || table->job_count == 0)
        return NULL;
    uint32_t found = map_get(&table->index, id_text(id));
    return found == MAP_NONE ? NULL : table->jobs[found];
}

/* Two names as one, which no other two make. */
struct str ahead_name(struct str first, struct str second, struct arena *arena)
{
    uint32_t len = (uint32_t)first.len;
    struct buf buf;
    buf_init(&buf, arena, sizeof len + first.len + second.len);
    buf_add(&buf, (struct str){(const char *)&len, sizeof len});
    buf_add(&buf, first);
    buf_add(&buf, second);
    return buf.failed ? (struct str){NULL, 0} : buf_str(&buf);
}

struct ahead_job *ahead_find_key(const struct ahead_table *table, struct str name)
{
    if (table == NULL || table->keys.count == 0)
        return NULL;
    uint32_t found = map_get(&table->keys, name);
    return found == MAP_NONE ? NULL : table->jobs[found];
}

const struct request_record *ahead_find_request(const struct ahead_table *table, struct str name)
{
    if (table == NULL || table->request_count == 0)
        return NULL;
    uint32_t found = map_get(&table->request_index, name);
    return found == MAP_NONE ? NULL : table->requests[found];
}

/* ---- taking in ---- */

static bool more(struct arena *arena, void **at, uint32_t needed, uint32_t *cap, size_t size)
{
    if (needed <= *cap)
        return true;
    uint32_t larger = *cap < 64 ? 64 : *cap * 2;
    while (larger < needed)
        larger *= 2;
    void *moved = arena_grow(arena, *at, *cap * size, larger * size);
    if (moved == NULL)
        return false;
    *at = moved;
    *cap = larger;
    return true;
}

static bool more_lanes(struct ahead_table *table, uint32_t lanes)
{
    uint32_t had = table->lane_cap;
    if (lanes <= had)
        return true;
    if (!more(&table->arena, (void **)&table->lanes, lanes, &table->lane_cap, sizeof(void *)))
        return false;
    for (uint32_t i = had; i < table->lane_cap; i++)
        table->lanes[i] = NULL;
    return true;
}

bool ahead_reserve(struct ahead_table *table, uint32_t jobs, uint32_t requests, uint32_t lanes)
{
    struct arena *arena = &table->arena;
    return more(arena, (void **)&table->jobs, table->job_count + jobs, &table->job_cap,
                sizeof(void *)) &&
           more(arena, (void **)&table->requests, table->request_count + requests,
                &table->request_cap, sizeof(void *)) &&
           more_lanes(table, lanes) && map_reserve(&table->index, jobs) &&
           map_reserve(&table->keys, jobs) && map_reserve(&table->request_index, requests);
}

struct ahead_events *ahead_stage_events(struct ahead_table *table, uint32_t count)
{
    struct ahead_events *events =
        arena_alloc(&table->log, sizeof *events + count * sizeof events->at[0]);
    if (events != NULL)
        *events = (struct ahead_events){.count = 0};
    return events;
}

void ahead_apply_events(struct ahead_table *table, struct ahead_events *events)
{
    if (events->count == 0)
        return;
    if (table->last_events == NULL)
        table->events = events;
    else
        table->last_events->next = events;
    table->last_events = events;
}

/* One in four is higher by one. */
static uint32_t height_of(struct ahead_table *table)
{
    uint32_t height = 1;
    table->random ^= table->random << 13;
    table->random ^= table->random >> 7;
    table->random ^= table->random << 17;
    for (uint64_t bits = table->random; height < AHEAD_HEIGHT_MAX && (bits & 3) == 0; bits >>= 2)
        height++;
    return height;
}

/* The links that a node of this place would go between. */
static void find_links(struct ahead_lane *lane, const struct lane_place *place,
                       struct ahead_node **ret[AHEAD_HEIGHT_MAX])
{
    struct ahead_node *last = lane->last[0];
    if (last != NULL && lane_place_cmp(&last->place, place) < 0) {
        for (uint32_t i = 0; i < AHEAD_HEIGHT_MAX; i++)
            ret[i] = lane->last[i] != NULL ? &lane->last[i]->next[i] : &lane->first[i];
        return;
    }
    struct ahead_node *at = NULL;
    for (uint32_t i = AHEAD_HEIGHT_MAX; i-- > 0;) {
        struct ahead_node **link = at != NULL ? &at->next[i] : &lane->first[i];
        while (*link != NULL && lane_place_cmp(&(*link)->place, place) < 0) {
            at = *link;
            link = &at->next[i];
        }
        ret[i] = link;
    }
}

static void link_node(struct ahead_lane *lane, struct ahead_node *node)
{
    struct ahead_node **links[AHEAD_HEIGHT_MAX];
    find_links(lane, &node->place, links);
    /* It stood in this very place before: that node serves again. */
    const struct ahead_node *there = *links[0];
    if (there != NULL && lane_place_cmp(&there->place, &node->place) == 0)
        return;
    for (uint32_t i = 0; i < node->height; i++) {
        node->next[i] = *links[i];
        *links[i] = node;
        if (node->next[i] == NULL)
            lane->last[i] = node;
    }
}

static struct ahead_node *make_node(struct ahead_table *table, const struct ahead_job *job)
{
    uint32_t number = (uint32_t)job->now.lane;
    assert(number > 0 && number <= table->lane_cap);
    struct ahead_lane **lane = &table->lanes[number - 1];
    if (*lane == NULL)
        *lane = arena_zalloc(&table->arena, 1, sizeof **lane);
    uint32_t height = height_of(table);
    struct ahead_node *node =
        arena_alloc(&table->arena, sizeof *node + height * sizeof(struct ahead_node *));
    if (*lane == NULL || node == NULL)
        return NULL;
    node->place = (struct lane_place){
        .rank = job->now.rank,
        .run_at = job->now.run_at,
        .job = job->job.id,
        .step = STEP_NONE,
    };
    node->height = height;
    return node;
}

bool ahead_stage_job(struct ahead_table *table, struct ahead_change *change, bool ready)
{
    const struct job *job = &change->job.job;
    if (change->here == NULL) {
        change->fresh = arena_alloc(&table->arena, sizeof *change->fresh);
        if (change->fresh == NULL)
            return false;
        if (str_is_set(job->spec.idempotency_key)) {
            change->key = ahead_name(job->spec.queue, job->spec.idempotency_key, &table->arena);
            if (!str_is_set(change->key))
                return false;
        }
    }
    if (ready)
        change->node = make_node(table, &change->job);
    return !ready || change->node != NULL;
}

static void note_due(struct ahead_table *table, int64_t at)
{
    if (at > 0 && at < table->due_at)
        table->due_at = at;
}

void ahead_apply_job(struct ahead_table *table, const struct ahead_change *change)
{
    struct ahead_job *job = change->here != NULL ? change->here : change->fresh;
    uint32_t index = change->here != NULL ? job->index : table->job_count;
    uint32_t found;
    *job = change->job;
    job->index = index;
    if (change->here == NULL) {
        assert(table->job_count < table->job_cap);
        table->jobs[table->job_count++] = job;
        (void)map_put(&table->index, id_text(&job->job.id), index, &found);
        if (str_is_set(change->key))
            (void)map_put(&table->keys, change->key, index, &found);
    }
    note_due(table, job->now.due_at);
    note_due(table, job->purge_at);
    if (change->node == NULL) {
        note_due(table, job->now.lane != 0 ? job->now.run_at : 0);
        return;
    }
    change->node->job = index;
    link_node(table->lanes[change->job.now.lane - 1], change->node);
}

bool ahead_stage_request(struct ahead_table *table, const struct request_record *record,
                         struct ahead_request *ret)
{
    struct arena *arena = &table->arena;
    struct request_record *kept = arena_alloc(arena, sizeof *kept);
    if (kept == NULL)
        return false;
    *kept = *record;
    kept->scope = arena_copy(arena, record->scope);
    kept->key = arena_copy(arena, record->key);
    kept->answer = arena_copy(arena, record->answer);
    *ret = (struct ahead_request){.record = kept,
                                  .name = ahead_name(record->scope, record->key, arena)};
    return str_is_set(kept->scope) && str_is_set(kept->key) && str_is_set(ret->name) &&
           str_is_set(kept->answer) == str_is_set(record->answer);
}

void ahead_apply_request(struct ahead_table *table, const struct ahead_request *request)
{
    uint32_t found;
    (void)map_put(&table->request_index, request->name, table->request_count, &found);
    if (found != MAP_NONE) {
        *table->requests[found] = *request->record;
        return;
    }
    assert(table->request_count < table->request_cap);
    table->requests[table->request_count++] = request->record;
}

/* ---- walking ---- */

static bool stands(const struct ahead_table *table, const struct ahead_table *newer, uint32_t lane,
                   const struct ahead_node *node)
{
    const struct ahead_job *job = table->jobs[node->job];
    return job->now.lane == lane && job->now.rank == node->place.rank &&
           job->now.run_at == node->place.run_at && ahead_find(newer, &node->place.job) == NULL;
}

/* Work that has gone from the head of a lane is forgotten, so that nobody walks over it twice. */
static void forget_gone(struct ahead_table *table, const struct ahead_table *newer, uint32_t number)
{
    struct ahead_lane *lane = table->lanes[number - 1];
    struct ahead_node *node;
    while ((node = lane->first[0]) != NULL && !stands(table, newer, number, node))
        for (uint32_t i = 0; i < node->height; i++) {
            lane->first[i] = node->next[i];
            if (lane->last[i] == node)
                lane->last[i] = NULL;
        }
}

struct ahead_node *ahead_next(struct ahead_table *table, const struct ahead_table *newer,
                              uint32_t lane, const struct ahead_node *after)
{
    if (table == NULL || lane > table->lane_cap || table->lanes[lane - 1] == NULL)
        return NULL;
    if (after == NULL)
        forget_gone(table, newer, lane);
    struct ahead_node *node = after != NULL ? after->next[0] : table->lanes[lane - 1]->first[0];
    while (node != NULL && (table->jobs[node->job]->taken || !stands(table, newer, lane, node)))
        node = node->next[0];
    return node;
}
