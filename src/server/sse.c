#include "server/sse.h"

#include <stddef.h>

#include "base/json.h"
#include "engine/answer.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/respond.h"
#include "server/server_private.h"

enum {
    ALIVE_MS = 15 * 1000, /* between two signs of life */
    PAUSE_MS = 1000,      /* before the next try when the store is out of reach */
    BLOCK_BYTES = 16 * 1024,
};

/* ---- events as text ---- */

/* A payload may have line ends, outside of strings, where they mean nothing. */
static void add_data(struct buf *text, struct str json)
{
    size_t start = 0;
    for (size_t i = 0; i <= json.len; i++) {
        bool ends = i == json.len || json.at[i] == '\n' || json.at[i] == '\r';
        if (!ends)
            continue;
        buf_add(text, STR("data: "));
        buf_add(text, (struct str){json.at + start, i - start});
        buf_add_char(text, '\n');
        start = i + 1;
    }
}

/* The type of an event as its name in the stream. Names have no control characters; one that JSON
 * has to escape is only in the data. */
static void add_type(struct buf *text, struct str name)
{
    if (name.len == 0 || memchr(name.at, '\\', name.len) != NULL ||
        memchr(name.at, '"', name.len) != NULL)
        return;
    buf_add(text, STR("event: "));
    buf_add(text, name);
    buf_add_char(text, '\n');
}

static void add_event(struct buf *text, const struct shown_event *shown, struct buf *json)
{
    char place[POSITION_TEXT_MAX];
    struct json_writer writer;
    json->len = 0;
    json_writer_init(&writer, json);
    shown_event_write(shown, &writer);
    buf_add(text, STR("id: "));
    buf_add(text, shown_event_place(shown, place));
    buf_add_char(text, '\n');
    add_type(text, event_name(shown->event));
    add_data(text, buf_str(json));
    buf_add_char(text, '\n');
}

/* Writes what was found and moves on behind it, and behind what was passed over, since the client
 * may not see it or wants other types. */
static enum error_code take_events(struct connection *connection, const struct verb_result *found,
                                   struct buf *text, struct err *err)
{
    struct buf json;
    size_t start = text->len;
    buf_init(&json, &connection->scratch, 1024);
    for (uint32_t i = 0; i < found->event_count; i++)
        add_event(text, &found->events[i], &json);
    if (text->failed || json.failed) {
        text->len = start;
        return verb_no_memory(err);
    }
    connection->call.after = found->next;
    return ERR_OK;
}

/* The last event of a stream whose events were lost: anyone who connects again with its id goes on
 * where nothing is missing. */
static void tell_reset(const struct err *err, struct buf *text)
{
    struct json_writer writer;
    buf_add(text, STR("event: feed_reset\nid: "));
    buf_add(text, str_from(err->cursor));
    buf_add(text, STR("\ndata: "));
    json_writer_init(&writer, text);
    answer_error(&writer, ERR_FEED_RESET, err);
    buf_add(text, STR("\n\n"));
}

/* ---- looking ---- */

static void wake(struct watcher *watcher)
{
    exchange_look(
        (struct connection *)(void *)((char *)watcher - offsetof(struct connection, watcher)));
}

static void wait_for_more(struct connection *connection, int64_t until)
{
    struct watcher *watcher = &connection->watcher;
    watcher->any = connection->call.name != VERB_events || !connection->call.after.set ||
                   !uuid_parse(connection->match.values[0], &watcher->job);
    watcher->version = connection->call.after.version;
    watcher->until = until;
    watcher->wake = wake;
    watcher->wanted = exchange_is_watched;
    watch_park(connection->server->watch, watcher);
}

/* A token that was revoked or has expired ends its streams too. */
static enum error_code check_token(struct connection *connection, struct err *err)
{
    struct auth auth;
    int64_t retry_ms;
    struct auth_request asked = connection->asked;
    asked.again = true;
    return auth_check(connection->server->authority, &asked, &connection->scratch, &auth, &retry_ms,
                      err);
}

/* Whether the stream has come to its end. */
static bool is_over(struct connection *connection, enum error_code code)
{
    return atomic_load(&connection->server->draining) || connection_is_gone(connection) ||
           (code != ERR_OK && code != ERR_UNAVAILABLE && code != ERR_NO_MEMORY);
}

/* Looks for events, and writes what is to be sent of them. */
static enum error_code look(struct connection *connection, struct buf *text, bool *ret_passed,
                            struct err *err)
{
    struct verb_call call = connection->call;
    call.arena = &connection->scratch;
    enum error_code code =
        connection_state(connection) == SERVING_LOOKING ? check_token(connection, err) : ERR_OK;
    if (code == ERR_OK)
        code = verb_do(&call, err);
    if (code != ERR_OK)
        return code;
    if (connection_hold(connection, call.result.bytes)) {
        (void)buf_reserve(text, call.result.bytes);
        code = take_events(connection, &call.result, text, err);
    } else {
        metrics_shed(connection->server->metrics);
        code = err_set(err, ERR_UNAVAILABLE, "too many large responses are pending: retry later");
    }
    *ret_passed = code == ERR_OK && call.result.passed;
    verb_call_release(&call);
    return code;
}

void sse_look(struct connection *connection)
{
    struct buf text;
    struct err err = {0};
    int64_t now = engine_steady(connection->server->engine);
    bool passed = false;
    bool begun = connection_state(connection) == SERVING_LOOKING;
    buf_init(&text, &connection->scratch, 256);
    if (!begun)
        buf_add(&text, STR("retry: 1000\n\n"));
    enum error_code code = look(connection, &text, &passed, &err);
    if (!begun) {
        connection->code = code;
        connection->err = err;
        connection->response = RESPONSE_WRITTEN;
        connection->wait_until = now + ALIVE_MS;
    }
    bool over = begun && is_over(connection, code);
    if (code == ERR_FEED_RESET && begun)
        tell_reset(&err, &text);
    if (text.len == 0 && now >= connection->wait_until)
        buf_add(&text, STR(": keep-alive\n"
                           "\n"));
    if (text.len == 0 && !over && passed) {
        exchange_look(connection);
        return;
    }
    if (text.len == 0 && !over) {
        int64_t until = code == ERR_OK ? connection->wait_until : now + PAUSE_MS;
        connection_let_go(connection);
        wait_for_more(connection, until);
        return;
    }
    struct str pending = buf_str(&text);
    (void)connection_keep(connection, true, &pending);
    connection->pending = pending;
    connection->sent = 0;
    connection->wait_until = now + ALIVE_MS;
    if (over)
        exchange_resume_last(connection);
    else
        exchange_resume(connection);
}

/* ---- sending ---- */

/* libmicrohttpd's reader. */
static ssize_t read_stream(void *cls, uint64_t position, char *buf, size_t max)
{
    struct connection *connection = cls;
    size_t left = connection->pending.len - connection->sent;
    (void)position;
    if (left > 0) {
        size_t len = left < max ? left : max;
        memcpy(buf, connection->pending.at + connection->sent, len);
        connection->sent += len;
        return (ssize_t)len;
    }
    if (connection_state(connection) == SERVING_ENDING ||
        atomic_load(&connection->server->draining))
        return MHD_CONTENT_READER_END_OF_STREAM;
    exchange_suspend(connection, SERVING_EMPTIED);
    connection_let_go(connection);
    exchange_look(connection);
    return 0;
}

enum MHD_Result sse_begin(struct connection *connection)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, connection, NULL);
    /* Anyone who has read the stream to its end is to connect anew. */
    if (response != NULL)
        (void)MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result result = respond_queue(connection, 200, "text/event-stream", response);
    if (result == MHD_YES) {
        connection_move(connection, SERVING_STREAMED);
        metrics_stream(connection->server->metrics, 1);
    }
    return result;
}
