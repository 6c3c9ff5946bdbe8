#include "server/sse.h"

#include <stddef.h>

#include "base/json.h"
#include "engine/answer.h"
#include "engine/position.h"
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
static void add_type(struct buf *text, struct str event)
{
    struct str raw = json_member(event, STR("type"));
    if (raw.len <= 2 || memchr(raw.at, '\\', raw.len) != NULL)
        return;
    buf_add(text, STR("event: "));
    buf_add(text, (struct str){raw.at + 1, raw.len - 2});
    buf_add_char(text, '\n');
}

/* Where to go on behind an event: its version, or its place in the feed. */
static struct str place_of(const struct connection *connection, struct str event)
{
    if (connection->call.name == VERB_events)
        return json_member(event, STR("version"));
    struct str raw = json_member(event, STR("position"));
    return raw.len >= 2 ? (struct str){raw.at + 1, raw.len - 2} : (struct str){NULL, 0};
}

static void go_behind(struct connection *connection, struct str place)
{
    memcpy(connection->after_text, place.at, place.len);
    connection->after = (struct str){connection->after_text, place.len};
}

/* Moves on behind what a look has passed over, since the client may not see it or wants other
 * types; true: it has. */
static bool pass_over(struct connection *connection, struct str answer)
{
    struct str place = json_member(answer, STR("next"));
    if (connection->call.name == VERB_feed)
        place = place.len >= 2 ? (struct str){place.at + 1, place.len - 2} : (struct str){NULL, 0};
    if (place.len == 0 || place.len > sizeof connection->after_text)
        return false;
    bool first =
        !str_is_set(connection->after) && (str_eq(place, STR("0-0")) || str_eq(place, STR("0")));
    if (first || str_eq(place, connection->after))
        return false;
    go_behind(connection, place);
    return true;
}

/* Writes what was found and moves on behind it. */
static void take_events(struct connection *connection, struct str answer, struct buf *text)
{
    struct json_iter iter;
    struct str event;
    if (!json_array_begin(&iter, json_member(answer, STR("events"))))
        return;
    while (json_array_next(&iter, &event)) {
        struct str place = place_of(connection, event);
        if (!str_is_set(place) || place.len > sizeof connection->after_text)
            continue;
        buf_add(text, STR("id: "));
        buf_add(text, place);
        buf_add_char(text, '\n');
        add_type(text, event);
        add_data(text, event);
        buf_add_char(text, '\n');
        if (text->failed)
            return;
        go_behind(connection, place);
    }
}

/* The last event of a stream whose events were lost: whoever connects again with its id goes on
 * where nothing is missing. */
static void tell_reset(const struct err *err, struct buf *text)
{
    struct json_writer writer;
    buf_add(text, STR("event: feed_reset\nid: "));
    buf_add(text, position_of_reset(err));
    buf_add(text, STR("\ndata: "));
    json_writer_init(&writer, text);
    answer_error(&writer, ERR_FEED_RESET, err);
    buf_add(text, STR("\n\n"));
}

/* ---- looking ---- */

static enum error_code read_events(struct connection *connection, struct buf *answer,
                                   struct err *err)
{
    struct verb_call call = connection->call;
    struct buf request;
    struct str head = {connection->request.at, connection->head_len};
    call.arena = &connection->scratch;
    buf_init(&request, &connection->scratch, 256);
    buf_add(&request, head);
    if (str_is_set(connection->after)) {
        struct json_writer writer;
        buf_add(&request, head.len > 1 ? STR(",\"after\":") : STR("\"after\":"));
        json_writer_init(&writer, &request);
        json_put_string(&writer, connection->after);
    }
    buf_add_char(&request, '}');
    if (request.failed)
        return err_set(err, ERR_NO_MEMORY, "there is no memory for the events");
    call.request = buf_str(&request);
    return verb_respond(&call, answer, err);
}

static void wake(struct watcher *watcher)
{
    exchange_look(
        (struct connection *)(void *)((char *)watcher - offsetof(struct connection, watcher)));
}

static void wait_for_more(struct connection *connection, int64_t until)
{
    struct watcher *watcher = &connection->watcher;
    int64_t version;
    watcher->any = true;
    if (connection->call.name == VERB_events && str_is_set(connection->after) &&
        json_int64(connection->after, &version) &&
        uuid_parse(connection->match.values[0], &watcher->job)) {
        watcher->any = false;
        watcher->version = version;
    }
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

void sse_look(struct connection *connection)
{
    struct buf answer;
    struct buf text;
    struct err err = {0};
    int64_t now = engine_steady(connection->server->engine);
    buf_init(&answer, &connection->scratch, 4096);
    enum error_code code = connection->stream_begun ? check_token(connection, &err) : ERR_OK;
    if (code == ERR_OK)
        code = read_events(connection, &answer, &err);
    if (code == ERR_OK && !connection_hold(connection, answer.len)) {
        metrics_shed(connection->server->metrics);
        code =
            err_set(&err, ERR_UNAVAILABLE, "too many large answers have not been taken: try again");
    }
    buf_init(&text, &connection->scratch, answer.len + 256);
    if (!connection->stream_begun) {
        connection->code = code;
        connection->err = err;
        connection->finished = true;
        buf_add(&text, STR("retry: 1000\n\n"));
        connection->wait_until = now + ALIVE_MS;
    }
    connection->stream_over = connection->stream_begun && is_over(connection, code);
    bool passed = false;
    if (code == ERR_FEED_RESET && connection->stream_begun)
        tell_reset(&err, &text);
    if (code == ERR_OK) {
        take_events(connection, buf_str(&answer), &text);
        passed = pass_over(connection, buf_str(&answer));
    }
    if (text.len == 0 && now >= connection->wait_until)
        buf_add(&text, STR(": still here\n\n"));
    if (text.len == 0 && !connection->stream_over && passed) {
        exchange_look(connection);
        return;
    }
    if (text.len == 0 && !connection->stream_over) {
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
    if (connection->stream_over || atomic_load(&connection->server->draining))
        return MHD_CONTENT_READER_END_OF_STREAM;
    (void)atomic_fetch_add(&connection->server->working, 1);
    connection_enter(connection, PHASE_WORKING);
    MHD_suspend_connection(connection->http);
    connection_let_go(connection);
    exchange_look(connection);
    return 0;
}

enum MHD_Result sse_begin(struct connection *connection)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, connection, NULL);
    connection->stream_begun = true;
    metrics_stream(connection->server->metrics, 1);
    /* Whoever has read the stream to its end is to connect anew. */
    if (response != NULL)
        (void)MHD_add_response_header(response, "Connection", "close");
    return respond_queue(connection, 200, "text/event-stream", response);
}
