#include "server/exchange.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "engine/undelivered_claims.h"
#include "server/guard.h"
#include "server/metrics.h"
#include "server/metrics_page.h"
#include "server/request.h"
#include "server/respond.h"
#include "server/server_private.h"
#include "server/sse.h"

enum { CLAIM_WAIT_MS = 20 * 1000, FIGURES_BYTES = 64 * 1024 };

static struct connection *of_task(struct task *task)
{
    return (struct connection *)(void *)((char *)task - offsetof(struct connection, task));
}

static struct connection *of_watcher(struct watcher *watcher)
{
    return (struct connection *)(void *)((char *)watcher - offsetof(struct connection, watcher));
}

static struct connection *of_waiter(struct readiness_waiter *waiter)
{
    return (struct connection *)(void *)((char *)waiter - offsetof(struct connection, ready));
}

/* Whether an answer may have leases in it. */
static bool may_lease(enum verb_name name)
{
    return verb_is_claim(name) || name == VERB_batch;
}

/* ---- suspended connections ---- */

/* Those who watch leave a part of all places to workers who wait for work. */
static uint32_t places_of(const struct connection *connection)
{
    uint32_t parked = connection->server->options.limits.parked;
    return verb_is_claim(connection->call.name) ? parked : parked - parked / 4;
}

bool exchange_park(struct connection *connection)
{
    struct server *server = connection->server;
    uint32_t max = places_of(connection);
    if (connection->parked)
        return true;
    if (atomic_fetch_add(&server->parked, 1) >= max) {
        (void)atomic_fetch_sub(&server->parked, 1);
        return false;
    }
    connection->parked = true;
    return true;
}

static void unpark(struct connection *connection)
{
    if (connection->parked)
        (void)atomic_fetch_sub(&connection->server->parked, 1);
    connection->parked = false;
}

/* From now on it belongs to the thread that carries the request out, until that one resumes it. */
void exchange_suspend(struct connection *connection, enum serving_event event)
{
    connection_move(connection, event);
    assert(serving_is_suspended(connection_state(connection)));
    (void)atomic_fetch_add(&connection->server->working, 1);
    MHD_suspend_connection(connection->http);
}

/* The caller sees to it that the loop wakes up, or does so here. */
static void resume(struct connection *connection, enum serving_event event, bool wakes)
{
    struct server *server = connection->server;
    assert(serving_is_suspended(connection_state(connection)));
    connection_move(connection, event);
    if (!connection->stream)
        unpark(connection);
    struct loop *loop = connection->loop;
    loop_resume(loop, connection);
    if (wakes)
        loop_wake(loop);
    (void)atomic_fetch_sub(&server->working, 1);
}

void exchange_resume(struct connection *connection)
{
    resume(connection, SERVING_RESUMED, true);
}

void exchange_resume_last(struct connection *connection)
{
    resume(connection, SERVING_LAST, true);
}

/* ---- who asks ---- */

static void run_ask(struct task *task)
{
    struct connection *connection = of_task(task);
    connection->code = guard_check(connection, &connection->err);
    exchange_resume(connection);
}

enum MHD_Result exchange_ask(struct connection *connection)
{
    exchange_suspend(connection, SERVING_ASKS);
    connection->task.run = run_ask;
    pool_put_always(connection->server->short_pool, &connection->task);
    return MHD_YES;
}

/* ---- room ---- */

/* For what was turned away since too much of its sort was there already. */
static enum error_code shed(struct connection *connection, const char *why)
{
    metrics_shed(connection->server->metrics);
    return err_set(&connection->err, ERR_UNAVAILABLE, "%s", why);
}

/* The answer is written, and nothing else of `scratch` is needed any more. Only one that changed
 * nothing can be refused for want of room. */
static void keep_answer(struct connection *connection, bool always)
{
    struct str answer = buf_str(&connection->answer);
    if (!connection_keep(connection, always, &answer)) {
        connection->code = shed(connection, "too many large responses are pending: retry later");
        return;
    }
    if (connection->answer.arena == &connection->scratch && !connection->answer.failed) {
        connection->answer.at = (char *)(uintptr_t)answer.at;
        connection->answer.cap = answer.len;
    }
}

/* ---- writes ---- */

static bool is_wanted(void *arg)
{
    return !connection_is_gone(arg);
}

static void write_response(struct connection *connection, const struct verb_call *call)
{
    verb_write(call, &connection->answer);
    if (connection->answer.failed)
        connection->code = verb_no_memory(&connection->err);
}

static void finish_write(struct connection *connection)
{
    struct verb_call *call = &connection->call;
    bool large = may_lease(call->name);
    if (large)
        call->arena = &connection->scratch;
    buf_init(&connection->answer, call->arena, 1024);
    connection->code = verb_finish(call, &connection->err);
    if (connection->code == ERR_OK)
        write_response(connection, call);
    call->arena = &connection->arena;
    connection->claims = undelivered_claims_of(call, &connection->arena);
    if (large)
        keep_answer(connection, true);
    if (connection->response == RESPONSE_HELD)
        verb_call_release(call);
    connection->response = RESPONSE_WRITTEN;
}

static void run_finish(struct task *task)
{
    struct connection *connection = of_task(task);
    finish_write(connection);
    exchange_resume(connection);
}

static void on_done(struct call *call, void *arg)
{
    struct connection *connection = arg;
    (void)call;
    connection->response = RESPONSE_HELD;
    if (!verb_finish_reads(&connection->call)) {
        resume(connection, SERVING_RESUMED, false);
        return;
    }
    connection->task.run = run_finish;
    pool_put_always(connection->server->short_pool, &connection->task);
}

/* Makes operations of the request. False: there is nothing for the engine to do, and it is to be
 * answered. */
static bool prepare_write(struct connection *connection)
{
    struct verb_call *call = &connection->call;
    call->wanted = is_wanted;
    call->wanted_arg = connection;
    if (atomic_load(&connection->server->draining))
        call->no_claims = "the server is shutting down and gives out no more work";
    if (verb_is_claim(call->name) && !connection_has_room(connection))
        connection->code = shed(connection, "too many large responses are pending: retry later");
    else
        connection->code = verb_prepare(call, &connection->err);
    connection->response = connection->code == ERR_OK ? RESPONSE_HELD : RESPONSE_NONE;
    if (connection->code == ERR_OK)
        connection->code = guard_charge(connection, &connection->err);
    if (connection->code == ERR_OK && call->call.count == 0)
        finish_write(connection);
    return connection->code == ERR_OK && connection->response != RESPONSE_WRITTEN;
}

static void on_refused(struct call *call, enum error_code code, const struct err *err)
{
    struct connection *connection = call->arg;
    connection->code = code;
    connection->err = *err;
    exchange_resume(connection);
}

/* Hands the operations over, on the connection's own thread or another; it is suspended. */
static void submit_write(struct connection *connection, bool on_loop)
{
    struct call *call = &connection->call.call;
    struct err err = {0};
    /* A claim waits unless it says that it does not. */
    if (verb_is_claim(connection->call.name) && connection->call.wait_ms < 0)
        call->wait_ms = CLAIM_WAIT_MS;
    if (call->wait_ms > 0 && !exchange_park(connection))
        call->wait_ms = 0;
    call->done = on_done;
    call->refused = on_refused;
    call->arg = connection;
    call->sink = loop_sink(connection->loop);
    if (on_loop) {
        loop_submit(connection->loop, call);
        return;
    }
    enum error_code code = engine_submit(connection->server->engine, call, &err);
    if (code != ERR_OK)
        on_refused(call, code, &err);
}

static void run_write(struct task *task)
{
    struct connection *connection = of_task(task);
    if (prepare_write(connection))
        submit_write(connection, false);
    else
        exchange_resume(connection);
}

/* What reads the store before it begins is not for a thread that others wait for. Whether there is
 * too much of it the engine says, which knows what can be refused first. */
static enum MHD_Result start_write(struct connection *connection)
{
    if (verb_at(connection->call.name)->reads_first) {
        exchange_suspend(connection, SERVING_STARTED);
        connection->task.run = run_write;
        pool_put_always(connection->server->short_pool, &connection->task);
        return MHD_YES;
    }
    if (!prepare_write(connection)) {
        connection_move(connection, SERVING_FINISHED);
        return exchange_answer(connection);
    }
    exchange_suspend(connection, SERVING_STARTED);
    submit_write(connection, true);
    return MHD_YES;
}

/* ---- reads, and what takes long ---- */

static void wake(struct watcher *watcher)
{
    exchange_look(of_watcher(watcher));
}

bool exchange_is_watched(const struct watcher *watcher)
{
    return !connection_is_gone(
        (const struct connection *)(const void *)((const char *)watcher -
                                                  offsetof(struct connection, watcher)));
}

/* Parks until there is a change: a job is watched by the version that was seen, all else by any
 * change. */
static void watch_for(struct connection *connection, const struct verb_result *seen)
{
    struct watcher *watcher = &connection->watcher;
    watcher->any = connection->call.name != VERB_get ||
                   !uuid_parse(connection->match.values[0], &watcher->job);
    watcher->version = seen->version;
    watcher->until = connection->wait_until;
    watcher->wake = wake;
    watcher->wanted = exchange_is_watched;
    connection->call.after = seen->next;
    connection_let_go(connection);
    watch_park(connection->server->watch, watcher);
}

/* Whether a read waits for a change, and does not answer with what was seen. When a look at the
 * feed has passed over events that the client may not see, it is told to go on behind them. */
static bool has_to_wait(struct connection *connection, const struct verb_result *seen)
{
    struct server *server = connection->server;
    bool passed = connection->call.name == VERB_feed && seen->passed;
    return connection->wait_until > engine_steady(server->engine) && !seen->has_come && !passed &&
           !atomic_load(&server->draining) && !connection_is_gone(connection) &&
           exchange_park(connection);
}

/* Carries out a verb, all of it. One that takes long and has a key is not begun twice. */
static enum error_code do_verb(struct connection *connection, struct verb_call *call)
{
    bool keyed = str_is_set(call->scope);
    if (keyed && !connection_take_key(connection))
        return err_set(&connection->err, ERR_UNAVAILABLE,
                       "the request \"%.*s\" is still running: retry later", STR_ARG(call->key));
    enum error_code code = verb_do(call, &connection->err);
    if (keyed)
        connection_leave_key(connection);
    return code;
}

static bool is_safe(const struct connection *connection)
{
    return str_eq(connection->match.route->method, STR("GET"));
}

static void run_read(struct task *task)
{
    struct connection *connection = of_task(task);
    struct server *server = connection->server;
    connection_let_go(connection);
    if (connection->wait_until > 0 || connection->stream)
        connection->watcher.seen = watch_seen(server->watch);
    if (connection->stream) {
        sse_look(connection);
        return;
    }
    struct verb_call call = connection->call;
    call.arena = &connection->scratch;
    connection->code = do_verb(connection, &call);
    if (connection->code == ERR_OK && has_to_wait(connection, &call.result)) {
        struct verb_result seen = call.result;
        verb_call_release(&call);
        watch_for(connection, &seen);
        return;
    }
    connection->call.result.status = call.result.status;
    connection->call.result.version = call.result.version;
    if (connection->code == ERR_OK) {
        buf_init(&connection->answer, &connection->scratch, 4096);
        write_response(connection, &call);
        verb_call_release(&call);
    }
    connection->response = RESPONSE_WRITTEN;
    if (connection->code == ERR_OK)
        keep_answer(connection, !is_safe(connection));
    else
        connection_let_go(connection);
    exchange_resume(connection);
}

void exchange_look(struct connection *connection)
{
    connection->task.run = run_read;
    pool_put_always(connection->server->readers, &connection->task);
}

static enum MHD_Result start_read(struct connection *connection)
{
    struct server *server = connection->server;
    struct pool *pool = verb_is_long(connection->call.name) ? server->bulk_pool : server->readers;
    if (connection->stream && !exchange_park(connection)) {
        connection->code = shed(connection, "too many open streams: retry later");
        connection_move(connection, SERVING_FINISHED);
        return exchange_answer(connection);
    }
    exchange_suspend(connection, SERVING_STARTED);
    connection->task.run = run_read;
    if (!pool_put(pool, &connection->task)) {
        connection->code =
            shed(connection, "too many requests are waiting for the store: retry later");
        exchange_resume(connection);
    }
    return MHD_YES;
}

enum MHD_Result exchange_start(struct connection *connection)
{
    return verb_is_write(connection->call.name) ? start_write(connection) : start_read(connection);
}

/* ---- figures ---- */

static void run_figures(struct task *task)
{
    struct connection *connection = of_task(task);
    buf_init(&connection->answer, &connection->scratch, FIGURES_BYTES);
    metrics_page_write(connection->server, &connection->answer);
    if (connection->answer.failed)
        connection->code = err_set(&connection->err, ERR_NO_MEMORY, "out of memory");
    keep_answer(connection, false);
    connection->response = RESPONSE_WRITTEN;
    exchange_resume(connection);
}

static void put_figures(struct readiness_waiter *waiter)
{
    struct connection *connection = of_waiter(waiter);
    connection->task.run = run_figures;
    if (!pool_put(connection->server->scrapers, &connection->task)) {
        connection->code = shed(connection, "too many requests for metrics: retry later");
        exchange_resume(connection);
    }
}

/* Runs the waiter when it is known whether the server is ready; the connection is suspended. */
static enum MHD_Result when_known(struct connection *connection,
                                  void (*run)(struct readiness_waiter *waiter))
{
    exchange_suspend(connection, SERVING_STARTED);
    connection->ready.run = run;
    if (!readiness_wait(connection->server->readiness, &connection->ready))
        run(&connection->ready);
    return MHD_YES;
}

enum MHD_Result exchange_figures(struct connection *connection)
{
    return when_known(connection, put_figures);
}

static void resume_waiter(struct readiness_waiter *waiter)
{
    exchange_resume(of_waiter(waiter));
}

enum MHD_Result exchange_readiness(struct connection *connection)
{
    return when_known(connection, resume_waiter);
}

/* ---- answers ---- */

/* Claims of which nobody will hear. */
struct chore {
    struct task task;
    struct engine *engine;
    struct undelivered_claims claims; /* in `tokens`, and behind them */
    struct token tokens[];
};

static void run_chore(struct task *task)
{
    struct chore *chore = (struct chore *)(void *)task;
    undelivered_claims_release(chore->engine, &chore->claims);
    free(chore);
}

/* Copies a text to `*at`, and moves that behind it. */
static struct str put_text(char **at, struct str text)
{
    struct str copy = {*at, text.len};
    if (!str_is_set(text))
        return text;
    memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
}

static void release_claims(struct connection *connection)
{
    const struct undelivered_claims *claims = &connection->claims;
    size_t bytes = claims->count * sizeof *claims->tokens;
    if (claims->count == 0 || connection->code != ERR_OK ||
        connection->response != RESPONSE_WRITTEN)
        return;
    /* Without memory the leases expire in their time. */
    struct chore *chore = malloc(sizeof *chore + bytes + claims->scope.len + claims->key.len);
    if (chore == NULL)
        return;
    *chore = (struct chore){.task = {.run = run_chore}, .engine = connection->server->engine};
    char *text = (char *)chore->tokens + bytes;
    memcpy(chore->tokens, claims->tokens, bytes);
    chore->claims.tokens = chore->tokens;
    chore->claims.count = claims->count;
    chore->claims.scope = put_text(&text, claims->scope);
    chore->claims.key = put_text(&text, claims->key);
    pool_put_always(connection->server->short_pool, &chore->task);
}

enum MHD_Result exchange_answer(struct connection *connection)
{
    assert(connection_state(connection) == SERVING_DONE);
    if (connection->code == ERR_OK && connection->response != RESPONSE_WRITTEN)
        finish_write(connection);
    if (connection->code != ERR_OK)
        return respond_error(connection, false);
    if (connection->match.route->page == PAGE_METRICS)
        return respond_text(connection, 200, METRICS_CONTENT_TYPE, buf_str(&connection->answer));
    if (connection->stream)
        return sse_begin(connection);
    if (may_lease(connection->call.name) && connection_is_gone(connection)) {
        release_claims(connection);
        connection->response = RESPONSE_NONE;
        return MHD_NO;
    }
    return respond_answer(connection);
}

void exchange_end(struct connection *connection, bool sent)
{
    /* Who went away between the commit and the making of the answer has leases, too. */
    if (!sent && connection->code == ERR_OK && connection->response == RESPONSE_HELD &&
        may_lease(connection->call.name))
        finish_write(connection);
    if (!sent)
        release_claims(connection);
    if (connection->response == RESPONSE_HELD)
        verb_call_release(&connection->call);
    unpark(connection);
    connection_reset(connection);
}
