/* Registrations of workers. They are written straight to the database, as settings are. */
#include "store/sqlite/sqlite.h"

static void read_registration(struct query *query, struct worker *ret)
{
    *ret = (struct worker){0};
    struct str id = lite_read_text(query);
    int64_t expires_at = lite_read_int(query);
    struct str state = lite_read_text(query);
    if (!query->out_of_memory)
        query->code = worker_state_read(state, query->arena, ret, query->err);
    ret->id = id;
    ret->expires_at = expires_at;
}

enum error_code sqlite_load_registration(struct sqlite_txn *txn, struct store_registration *wanted,
                                         struct arena *arena, struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_WORKER_BY_ID, arena, err);
    lite_put_text(&query, wanted->id);
    wanted->found = lite_next(&query);
    if (wanted->found)
        read_registration(&query, &wanted->worker);
    return lite_end(&query);
}

enum error_code sqlite_put_registration(struct sqlite_txn *txn, const struct worker *worker,
                                        struct err *err)
{
    struct buf state;
    buf_init(&state, &txn->scratch, 256);
    worker_state_write(worker, &state);
    if (state.failed)
        return sqlite_no_memory(err);
    struct query query = lite_query(txn->connection, STATEMENT_WORKER_PUT, NULL, err);
    lite_put_text(&query, worker->id);
    lite_put_int(&query, worker->expires_at);
    lite_put_text(&query, buf_str(&state));
    return lite_run(&query);
}

enum error_code sqlite_renew_registration(struct sqlite_txn *txn, const struct worker *worker,
                                          struct err *err)
{
    struct query query = lite_query(txn->connection, STATEMENT_WORKER_RENEW, NULL, err);
    lite_put_text(&query, worker->id);
    lite_put_int(&query, worker->expires_at);
    return lite_run(&query);
}

enum error_code sqlite_registrations(struct store_txn *base, struct arena *arena,
                                     struct worker **ret, uint32_t *ret_count, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    struct worker *workers = NULL;
    uint32_t count = 0;
    uint32_t cap = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_WORKERS, arena, err);
    lite_put_int(&query, WORKERS_MAX);
    while (lite_next(&query)) {
        if (!sqlite_more(arena, (void **)&workers, count, &cap, sizeof *workers)) {
            query.out_of_memory = true;
            break;
        }
        read_registration(&query, &workers[count++]);
    }
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code != ERR_OK)
        return code;
    *ret = workers;
    *ret_count = count;
    return ERR_OK;
}

enum error_code sqlite_registration_count(struct store_txn *base, int64_t *ret, struct err *err)
{
    struct sqlite_txn *txn = (struct sqlite_txn *)base;
    int64_t count = 0;
    enum error_code code = sqlite_verb_begin(txn, err);
    if (code != ERR_OK)
        return code;
    struct query query = lite_query(txn->connection, STATEMENT_WORKERS_COUNT, NULL, err);
    if (lite_next(&query))
        count = lite_read_int(&query);
    code = sqlite_verb_end(txn, lite_end(&query));
    if (code == ERR_OK)
        *ret = count;
    return code;
}
