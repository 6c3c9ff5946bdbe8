/* Registrations of workers within a batch.
 *
 * A worker says itself which work it handles (OP_WORKER). From then on its claims keep it alive: a
 * claim looks at the registration every few seconds, or sooner when enough of its time has passed,
 * and prolongs it in its own commit. When to look next the batcher remembers, so that most claims
 * neither read nor write for it. They look without a lock: who changes a registration meanwhile is
 * not waited for. */
#include <assert.h>
#include <stdlib.h>

#include "base/record.h"
#include "engine/batch_private.h"

enum {
    LOOK_AGAIN_MS = 5000, /* at the latest: another server may have registered it meanwhile */
    WORKERS_KNOWN_MAX = WORKERS_MAX,
};

/* ---- what is remembered ---- */

bool batch_worker_looks(const struct batcher *batcher, struct str id, int64_t wait_ms)
{
    const struct worker_table *table = &batcher->workers;
    uint32_t place = table->count == 0 ? MAP_NONE : map_get(&table->index, id);
    if (place != MAP_NONE)
        return batcher->seen_at + wait_ms >= table->look_at[place];
    return record_is_name(id); /* else the claim is refused */
}

static void table_clear(struct worker_table *table)
{
    arena_clear(&table->arena);
    table->look_at = NULL;
    table->count = table->cap = 0;
}

static void note(struct batcher *batcher, struct str id, int64_t look_at)
{
    struct worker_table *table = &batcher->workers;
    uint32_t found;
    if (table->count >= WORKERS_KNOWN_MAX)
        table_clear(table);
    if (table->count == 0)
        map_init(&table->index, &table->arena, 0, batcher->store->options.seed);
    uint32_t place = table->count == 0 ? MAP_NONE : map_get(&table->index, id);
    if (place != MAP_NONE) {
        table->look_at[place] = look_at;
        return;
    }
    if (table->count == table->cap) {
        uint32_t cap = table->cap < 16 ? 16 : table->cap * 2;
        int64_t *grown = arena_grow(&table->arena, table->look_at, table->cap * sizeof *grown,
                                    cap * sizeof *grown);
        if (grown == NULL)
            return;
        table->look_at = grown;
        table->cap = cap;
    }
    struct str copy = arena_copy(&table->arena, id);
    if (!str_is_set(copy) || map_put(&table->index, copy, table->count, &found) != ERR_OK)
        return;
    table->look_at[table->count++] = look_at;
}

void batch_note_workers(struct batch *batch)
{
    const struct store_load *load = &batch->load;
    for (uint32_t i = 0; i < load->registration_count; i++) {
        const struct store_registration *known = &load->registrations[i];
        int64_t look_at = load->now + LOOK_AGAIN_MS;
        if (known->found && worker_renewal_at(&known->worker) < look_at)
            look_at = worker_renewal_at(&known->worker);
        note(batch->batcher, known->id, look_at);
    }
}

/* ---- what operations do ---- */

static int by_id(const void *a, const void *b)
{
    const struct store_registration *left = a;
    const struct store_registration *right = b;
    return str_cmp(left->id, right->id);
}

static struct store_registration *find(struct batch *batch, struct str id)
{
    struct store_registration wanted = {.id = id};
    struct store_registration *found = bsearch(
        &wanted, batch->load.registrations, batch->load.registration_count, sizeof wanted, by_id);
    assert(found != NULL);
    return found;
}

static enum registration_fate *fate_of(struct batch *batch, const struct store_registration *known)
{
    return &batch->fates[known - batch->load.registrations];
}

/* How many a token has registered, those included that are new in this batch. */
static enum error_code count_of_token(struct batch *batch, struct str token, uint32_t *ret)
{
    uint32_t count = 0;
    enum error_code code = ERR_OK;
    if (batch->registered == NULL)
        code = store_registrations(batch->txn, batch->arena, &batch->registered,
                                   &batch->registered_count, batch->err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < batch->registered_count; i++)
        count += str_eq(batch->registered[i].registered_by, token);
    for (uint32_t i = 0; i < batch->load.registration_count; i++)
        count += batch->fates[i] == REGISTRATION_NEW &&
                 str_eq(batch->load.registrations[i].worker.registered_by, token);
    *ret = count;
    return ERR_OK;
}

/* There is room for one more; counted once in a batch, and only when one is new. What one token has
 * is counted only when it could be too much. */
static enum error_code check_room(struct batch *batch, struct op *op)
{
    struct str token = op->worker->registered_by;
    uint32_t of_token = 0;
    enum error_code code = ERR_OK;
    if (!batch->workers_counted)
        code = store_registration_count(batch->txn, &batch->worker_count, batch->err);
    if (code != ERR_OK)
        return code;
    batch->workers_counted = true;
    if (str_is_set(token) && batch->worker_count >= WORKERS_OF_TOKEN_MAX)
        code = count_of_token(batch, token, &of_token);
    if (code != ERR_OK)
        return code;
    if (of_token >= WORKERS_OF_TOKEN_MAX)
        op->code = err_set(&op->err, ERR_FORBIDDEN,
                           "the token has registered %u workers; the limit is %d: deregister some, "
                           "or use another token",
                           of_token, WORKERS_OF_TOKEN_MAX);
    else if (batch->worker_count >= WORKERS_MAX)
        op->code = err_set(&op->err, ERR_FORBIDDEN,
                           "the limit of %d registered workers is reached: deregister some, or "
                           "wait until lost workers expire",
                           WORKERS_MAX);
    else
        batch->worker_count++;
    return ERR_OK;
}

enum error_code batch_register(struct batch *batch, struct op *op)
{
    struct store_registration *known = find(batch, op->worker->id);
    bool live = known->found && worker_is_live(&known->worker, batch->load.now);
    if (live && !worker_is_visible(&known->worker, op->queues)) {
        op->code = err_set(&op->err, ERR_FORBIDDEN, "the worker name belongs to another token");
        return ERR_OK;
    }
    enum error_code code = known->found ? ERR_OK : check_room(batch, op);
    if (code != ERR_OK || op->code != ERR_OK)
        return code;
    struct worker worker = *op->worker;
    worker.ttl_ms = op->ttl_ms;
    worker.registered_at = live ? known->worker.registered_at : batch->load.now;
    worker.expires_at = batch->load.now + op->ttl_ms;
    known->worker = op->worker_now = worker;
    enum registration_fate *fate = fate_of(batch, known);
    if (*fate != REGISTRATION_NEW)
        *fate = known->found ? REGISTRATION_PUT : REGISTRATION_NEW;
    known->found = true;
    return ERR_OK;
}

enum error_code batch_deregister(struct batch *batch, struct op *op)
{
    struct store_registration *known = find(batch, op->worker_gone);
    if (!known->found || !worker_is_live(&known->worker, batch->load.now) ||
        !worker_is_visible(&known->worker, op->queues)) {
        op->code =
            err_set(&op->err, ERR_NOT_FOUND, "unknown worker \"%.*s\"", STR_ARG(op->worker_gone));
        return ERR_OK;
    }
    op->worker_now = known->worker;
    known->found = false;
    *fate_of(batch, known) = REGISTRATION_GONE;
    return ERR_OK;
}

void batch_renew_worker(struct batch *batch, const struct op *op)
{
    struct store_registration *known = find(batch, op->command.claim.worker_id);
    enum registration_fate *fate = fate_of(batch, known);
    if (!known->found || !worker_is_visible(&known->worker, op->queues) ||
        !worker_renew(&known->worker, batch->load.now, op->claim.wait_ms))
        return;
    if (*fate == REGISTRATION_SAME)
        *fate = REGISTRATION_RENEWED;
}

enum error_code batch_write_workers(struct batch *batch, struct store_write *write)
{
    uint32_t count = batch->load.registration_count;
    if (count == 0)
        return ERR_OK;
    struct worker *put = arena_zalloc(batch->arena, count, sizeof *put);
    struct worker *renewed = arena_zalloc(batch->arena, count, sizeof *renewed);
    struct str *gone = arena_zalloc(batch->arena, count, sizeof *gone);
    if (put == NULL || renewed == NULL || gone == NULL)
        return batch_no_memory(batch);
    for (uint32_t i = 0; i < count; i++) {
        const struct store_registration *known = &batch->load.registrations[i];
        switch (batch->fates[i]) {
        case REGISTRATION_SAME:
            break;
        case REGISTRATION_NEW:
        case REGISTRATION_PUT:
            put[write->registration_count++] = known->worker;
            break;
        case REGISTRATION_RENEWED:
            renewed[write->renewal_count++] = known->worker;
            break;
        case REGISTRATION_GONE:
            gone[write->registration_gone_count++] = known->id;
            break;
        }
    }
    write->registrations = put;
    write->renewals = renewed;
    write->registrations_gone = gone;
    return ERR_OK;
}
