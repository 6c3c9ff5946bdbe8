#include "server/request.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#include "base/json.h"
#include "base/record.h"
#include "base/utf8.h"
#include "engine/answer.h"
#include "server/guard.h"
#include "server/server_private.h"

enum {
    DROPPED_BYTES_MAX = 64 * 1024 * 1024, /* of a body that is too large, before we hang up */
    PARAMETERS_MAX = 64,
};

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "there is no memory for the request");
}

struct str request_header(const struct connection *connection, const char *name)
{
    return str_from(MHD_lookup_connection_value(connection->http, MHD_HEADER_KIND, name));
}

/* ---- headers ---- */

/* What must not come twice, counted. */
struct header_counts {
    uint32_t length;
    uint32_t encoding;
    uint32_t host;
    uint32_t key;
    uint32_t authorization;
};

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    struct header_counts *counts = cls;
    (void)kind;
    (void)value;
    if (name == NULL)
        return MHD_YES;
    counts->length += strcasecmp(name, "Content-Length") == 0;
    counts->encoding += strcasecmp(name, "Transfer-Encoding") == 0;
    counts->host += strcasecmp(name, "Host") == 0;
    counts->key += strcasecmp(name, "Idempotency-Key") == 0;
    counts->authorization += strcasecmp(name, "Authorization") == 0;
    return MHD_YES;
}

/* A request whose length can be read in two ways is two requests for somebody. */
static enum error_code check_headers(struct connection *connection, struct err *err)
{
    struct header_counts counts = {0};
    (void)MHD_get_connection_values(connection->http, MHD_HEADER_KIND, count_header, &counts);
    if (counts.length + counts.encoding > 1)
        return err_set(err, ERR_BAD_REQUEST,
                       "the length of the request is ambiguous: send either one Content-Length or "
                       "one Transfer-Encoding");
    struct str encoding = request_header(connection, "Transfer-Encoding");
    if (str_is_set(encoding) && strcasecmp(encoding.at, "chunked") != 0)
        return err_set(err, ERR_BAD_REQUEST, "Transfer-Encoding must be chunked, not \"%.*s\"",
                       STR_ARG(encoding));
    if (counts.host > 1 || counts.key > 1 || counts.authorization > 1)
        return err_set(err, ERR_BAD_REQUEST,
                       "Host, Authorization and Idempotency-Key may be sent only once");
    return ERR_OK;
}

/* application/json, perhaps with parameters. */
static bool is_json(struct str type)
{
    const struct str json = STR("application/json");
    if (type.len < json.len || strncasecmp(type.at, json.at, json.len) != 0)
        return false;
    return type.len == json.len || type.at[json.len] == ';' || type.at[json.len] == ' ';
}

static bool expects_body(const struct connection *connection)
{
    struct str length = request_header(connection, "Content-Length");
    return str_is_set(request_header(connection, "Transfer-Encoding")) ||
           (str_is_set(length) && strspn(length.at, "0") != length.len);
}

static enum error_code check_body(struct connection *connection, struct err *err)
{
    const struct route *route = connection->match.route;
    struct str length = request_header(connection, "Content-Length");
    struct str type = request_header(connection, "Content-Type");
    if (!expects_body(connection))
        return ERR_OK;
    if (!route_has_body(route))
        return err_set(err, ERR_BAD_REQUEST, "%.*s takes no body: its parameters go into the query",
                       STR_ARG(route->method));
    if (!str_is_set(type) || !is_json(type))
        return err_set(err, ERR_UNSUPPORTED_MEDIA_TYPE,
                       "the body must be application/json, not %.*s",
                       STR_ARG(str_is_set(type) ? type : STR("without a Content-Type")));
    size_t bytes_max = verb_bytes_max(route->verb);
    if (str_is_set(length) && strtoull(length.at, NULL, 10) > bytes_max)
        return err_set(err, ERR_PAYLOAD_TOO_LARGE,
                       "the body has %.*s bytes; at most %zu are allowed", STR_ARG(length),
                       bytes_max);
    return ERR_OK;
}

/* Whose request key it is, and which. */
static enum error_code read_key(struct connection *connection, struct err *err)
{
    struct verb_call *call = &connection->call;
    struct str key = request_header(connection, "Idempotency-Key");
    struct buf scope;
    if (!str_is_set(key))
        return ERR_OK;
    const struct route *route = connection->match.route;
    bool is_taken = str_eq(route->method, STR("POST")) ||
                    (route->verb < VERB_COUNT && verb_needs_key(route->verb));
    if (!is_taken)
        return err_set(err, ERR_BAD_REQUEST, "%.*s takes no Idempotency-Key: just send it again",
                       STR_ARG(route->method));
    enum error_code code = record_check_name(key, "Idempotency-Key", err);
    if (code != ERR_OK)
        return code;
    buf_init(&scope, &connection->arena, 128);
    buf_add(&scope, connection->auth.caller);
    buf_add_char(&scope, ' ');
    buf_add(&scope, verb_text(call->name));
    call->key = arena_copy(&connection->arena, key);
    call->scope = buf_str(&scope);
    return scope.failed || !str_is_set(call->key) ? no_memory(err) : ERR_OK;
}

/* ---- the query ---- */

struct query {
    struct connection *connection;
    struct json_writer *writer;
    uint32_t count;
    enum error_code code;
    struct err *err;
};

/* Verbs that can wait for something. */
static bool may_wait(enum verb_name name)
{
    return name == VERB_get || name == VERB_events || name == VERB_feed;
}

/* The time to wait is the server's business: a thread must not. What is no such time is left to the
 * verb to refuse. */
static bool take_wait(struct connection *connection, struct str key, struct str value)
{
    int64_t wait_ms;
    if (!may_wait(connection->call.name) || !str_eq(key, STR("wait_ms")) ||
        !json_int64(value, &wait_ms) || wait_ms < 0 || wait_ms > WAIT_MS_MAX ||
        connection->wait_until != 0)
        return false;
    connection->wait_until = engine_steady(connection->server->engine) + wait_ms;
    return true;
}

/* So is where a stream begins, as it moves on; of others it is noted. */
static bool take_after(struct connection *connection, struct str key, struct str value)
{
    if (!str_eq(key, STR("after")) || value.len > sizeof connection->after_text)
        return false;
    /* Last-Event-ID knows better. */
    if (!str_is_set(connection->after)) {
        memcpy(connection->after_text, value.at, value.len);
        connection->after = (struct str){connection->after_text, value.len};
    }
    return connection->stream;
}

static enum MHD_Result add_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                     size_t name_len, const char *value, size_t value_len)
{
    struct query *query = cls;
    struct connection *connection = query->connection;
    struct str key = {NULL, 0};
    struct str text = {NULL, 0};
    (void)kind;
    if (query->count++ == PARAMETERS_MAX)
        query->code = err_set(query->err, ERR_BAD_REQUEST, "the query has over %d parameters",
                              PARAMETERS_MAX);
    if (query->code == ERR_OK)
        query->code = route_decode((struct str){name, name_len}, "the query", &connection->arena,
                                   &key, query->err);
    if (query->code == ERR_OK)
        query->code = route_decode((struct str){value == NULL ? "" : value, value_len}, "the query",
                                   &connection->arena, &text, query->err);
    if (query->code == ERR_OK && connection->stream && str_eq(key, STR("telemetry")))
        query->code = err_set(query->err, ERR_BAD_REQUEST,
                              "telemetry cannot be streamed: ask for it without text/event-stream");
    if (query->code != ERR_OK)
        return MHD_NO;
    if (take_wait(connection, key, text) || take_after(connection, key, text))
        return MHD_YES;
    answer_key(query->writer, key);
    json_put_string(query->writer, text);
    return MHD_YES;
}

/* Writes what path and query say, as an object that is still open. */
static enum error_code write_head(struct connection *connection, struct err *err)
{
    struct json_writer writer;
    const struct route_match *match = &connection->match;
    struct query query = {.connection = connection, .writer = &writer, .err = err};
    buf_init(&connection->request, &connection->arena, 512);
    json_writer_init(&writer, &connection->request);
    json_begin_object(&writer);
    for (uint32_t i = 0; i < match->count; i++) {
        json_key(&writer, match->names[i]);
        json_put_string(&writer, match->values[i]);
    }
    if (route_has_body(match->route)) {
        if (MHD_get_connection_values_n(connection->http, MHD_GET_ARGUMENT_KIND, NULL, NULL) > 0)
            query.code =
                err_set(err, ERR_BAD_REQUEST, "%.*s takes no query: its members go into the body",
                        STR_ARG(match->route->method));
    } else {
        (void)MHD_get_connection_values_n(connection->http, MHD_GET_ARGUMENT_KIND, add_parameter,
                                          &query);
    }
    connection->head_len = connection->request.len;
    return query.code == ERR_OK && connection->request.failed ? no_memory(err) : query.code;
}

/* ---- the head ---- */

/* Whether the client asks for a stream of events. */
static bool wants_stream(const struct connection *connection)
{
    enum verb_name name = connection->match.route->verb;
    struct str accept = request_header(connection, "Accept");
    return (name == VERB_events || name == VERB_feed) && str_is_set(accept) &&
           strstr(accept.at, "text/event-stream") != NULL;
}

static void begin_stream(struct connection *connection)
{
    struct str last = request_header(connection, "Last-Event-ID");
    connection->stream = wants_stream(connection);
    if (!connection->stream || !str_is_set(last) || last.len == 0 ||
        last.len > sizeof connection->after_text || !utf8_valid(last))
        return;
    memcpy(connection->after_text, last.at, last.len);
    connection->after = (struct str){connection->after_text, last.len};
}

bool request_route(struct connection *connection, const char *method, const char *path)
{
    enum error_code code = check_headers(connection, &connection->err);
    if (code == ERR_OK)
        code = route_find(str_from(method), str_from(path), &connection->arena, &connection->match,
                          &connection->err);
    if (code == ERR_OK)
        guard_ask(connection);
    connection->code = code;
    return code == ERR_OK;
}

static enum error_code read_head(struct connection *connection, struct err *err)
{
    enum error_code code = check_body(connection, err);
    if (code != ERR_OK || connection->match.route->page != PAGE_VERB)
        return code;
    connection->call = (struct verb_call){
        .engine = connection->server->engine,
        .arena = &connection->arena,
        .name = connection->match.route->verb,
        .from_query = !route_has_body(connection->match.route),
        .actor = connection->auth.actor,
        .scopes = connection->auth.scopes,
        .queues = connection->auth.queues,
    };
    begin_stream(connection);
    code = read_key(connection, err);
    if (code == ERR_OK)
        code = write_head(connection, err);
    return code;
}

bool request_admit(struct connection *connection)
{
    connection->code = read_head(connection, &connection->err);
    return connection->code == ERR_OK;
}

/* ---- the body ---- */

bool request_take(struct connection *connection, const char *data, size_t len)
{
    struct server *server = connection->server;
    size_t bytes_max = verb_bytes_max(connection->call.name);
    size_t got = connection->request.len - connection->head_len;
    if (connection->code == ERR_OK && connection->match.route->page != PAGE_VERB)
        return false;
    if (connection->code == ERR_OK && len > bytes_max - got)
        connection->code =
            err_set(&connection->err, ERR_PAYLOAD_TOO_LARGE,
                    "the body is too large: at most %zu bytes are allowed", bytes_max);
    if (connection->code == ERR_OK &&
        atomic_load(&server->held) + len > server->options.limits.bytes_max)
        connection->code = err_set(&connection->err, ERR_UNAVAILABLE,
                                   "too many large requests are coming in: try again");
    if (connection->code != ERR_OK) {
        connection->dropped += len;
        return connection->dropped <= DROPPED_BYTES_MAX;
    }
    (void)atomic_fetch_add(&server->held, len);
    connection->held += len;
    buf_add(&connection->request, (struct str){data, len});
    if (connection->request.failed)
        connection->code = no_memory(&connection->err);
    return true;
}

/* Joins the object of the head, which is open, with that of the body: `{"id":"x"` and `{"a":1}`.
 * False: the body is no object. */
static bool join(struct connection *connection)
{
    struct buf *request = &connection->request;
    struct str body = {request->at + connection->head_len, request->len - connection->head_len};
    body = json_trim(body);
    if (body.len == 0) {
        buf_add_char(request, '}');
        return true;
    }
    if (json_type(body) != JSON_OBJECT)
        return false;
    struct str inside = json_trim((struct str){body.at + 1, body.len - 1});
    bool empty = inside.len > 0 && inside.at[0] == '}';
    bool first = connection->head_len == 1;
    request->at[body.at - request->at] = first || empty ? ' ' : ',';
    return true;
}

enum error_code request_finish(struct connection *connection)
{
    struct buf *request = &connection->request;
    struct verb_call *call = &connection->call;
    size_t bytes_max = verb_bytes_max(call->name);
    struct str body = {request->at + connection->head_len, request->len - connection->head_len};
    struct err *err = &connection->err;
    /* Errors name the place in the body, which is what the client knows. */
    enum error_code code = ERR_OK;
    if (json_trim(body).len > 0)
        code = json_check_request(body, bytes_max, "the body", &connection->arena, err);
    if (code != ERR_OK)
        return code;
    if (!join(connection))
        return err_set(err, ERR_BAD_REQUEST, "the body must be a JSON object");
    if (request->failed)
        return no_memory(err);
    call->request = json_trim(buf_str(request));
    /* A member that the path has already is found here. */
    return connection->head_len > 1
               ? json_check_request(call->request, bytes_max + connection->head_len, "the request",
                                    &connection->arena, err)
               : ERR_OK;
}
