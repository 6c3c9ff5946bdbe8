#define _GNU_SOURCE /* NOLINT: memmem */
#include "server/request.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <strings.h>

#include "base/json.h"
#include "base/record.h"
#include "base/utf8.h"
#include "core/trace_context.h"
#include "engine/answer.h"
#include "server/guard.h"
#include "server/server_private.h"

enum {
    DROPPED_BYTES_MAX = 64 * 1024 * 1024, /* of a body that is too large, before we hang up */
    PARAMETERS_MAX = 64,
    HEADER_BYTES_MAX = 64 * 1024, /* more than there can be of it */
};

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

struct str request_header(const struct connection *connection, enum header header)
{
    return connection->headers[header];
}

/* ---- headers ---- */

/* What is wrong with a head, counted. */
struct head_check {
    struct connection *connection;
    bool by_place;    /* libmicrohttpd 0.9: where names and values stand tells of mistakes */
    uint32_t lengths; /* Content-Length and Transfer-Encoding */
    uint32_t again;   /* headers that may be sent only once */
    uint32_t folded;
    uint32_t nameless; /* or with an invalid name */
    uint32_t cut;      /* by a NUL */
    uint32_t bare;     /* lines that end with LF alone */
    const char *end;   /* of the value that came last, or of the first line */
};

/* Whether a header's name is a token, as RFC 9110 has it. */
static bool is_token(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
        if (!plain && (c < '0' || c > '9') && strchr("!#$%&'*+.^_`|~", c) == NULL)
            return false;
    }
    return name.len > 0;
}

/* Whether a header went on in the next line. libmicrohttpd 0.9 puts that behind its name, and not
 * behind its value, so that "Transfer-Encoding:" and " chunked" would be a header that nobody
 * knows. Where it has done so the two no longer stand one behind the other, as they do in a
 * request. */
static bool is_folded(struct str name, const char *value)
{
    const char *end = name.at + name.len + 1;
    if (value == NULL)
        return false;
    if (value < end || value - end > HEADER_BYTES_MAX)
        return true;
    while (end < value && (*end == ' ' || *end == '\t'))
        end++;
    return end != value;
}

/* Whether something is hidden behind a value that ended, up to where the next line begins:
 * libmicrohttpd 0.9 ends values at a NUL, of which it makes one at the end of each line, too. */
static bool is_cut(const char *end, const char *next, ptrdiff_t gap_max)
{
    return end != NULL && next - end > gap_max;
}

/* Whether the line that ended there was ended by LF alone: libmicrohttpd 0.9 puts a NUL in the
 * place of each character that ends a line. */
static bool is_bare(const char *end, const char *next, ptrdiff_t gap)
{
    return end != NULL && next - end < gap;
}

/* Which header it is, of those that are looked at; HEADER_COUNT: none of them. */
static enum header header_of(struct str name)
{
    static const struct str names[] = {
#define HEADER(symbol, name, rule) STR_INIT(name),
        HEADERS(HEADER)
#undef HEADER
    };
    int i = 0;
    while (i < HEADER_COUNT &&
           (names[i].len != name.len || strncasecmp(names[i].at, name.at, name.len) != 0))
        i++;
    return (enum header)i;
}

static void note_header(struct head_check *check, enum header header, const char *name,
                        struct str value)
{
    static const enum header_rule rules[HEADER_COUNT] = {
#define HEADER(symbol, name, rule) HEADER_##rule,
        HEADERS(HEADER)
#undef HEADER
    };
    struct str *known = &check->connection->headers[header];
    check->lengths += header == HEADER_CONTENT_LENGTH || header == HEADER_TRANSFER_ENCODING;
    check->again += rules[header] == HEADER_ONCE && str_is_set(*known);
    if (rules[header] == HEADER_FORWARDED)
        check->connection->forwarded = name;
    if (!str_is_set(*known))
        *known = value;
}

static enum MHD_Result take_header(void *cls, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct head_check *check = cls;
    struct str text = str_from(value);
    struct str name_text = str_from(name);
    (void)kind;
    if (name == NULL)
        return MHD_YES;
    if (check->by_place) {
        check->cut += is_cut(check->end, name, 2);
        check->bare += is_bare(check->end, name, 2);
        check->folded += is_folded(name_text, value);
    }
    check->end = value == NULL ? NULL : value + text.len;
    check->nameless += !is_token(name_text);
    enum header header = header_of(name_text);
    if (header < HEADER_COUNT)
        note_header(check, header, name, text);
    else if (strncasecmp(name, "X-Forwarded-", 12) == 0)
        check->connection->forwarded = name;
    return MHD_YES;
}

/* Notes the headers, and what is wrong with them. A request whose length can be read in two ways is
 * two requests for somebody. `head` is where it begins, `version` stands at the end of its first
 * line. */
static enum error_code take_headers(struct connection *connection, const char *head,
                                    const char *version, struct err *err)
{
    struct head_check check = {
        .connection = connection,
        .by_place = strncmp(MHD_get_version(), "0.9.", 4) == 0,
        .end = version + strlen(version),
    };
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->http, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    memset(connection->headers, 0, sizeof connection->headers);
    connection->forwarded = NULL;
    (void)MHD_get_connection_values(connection->http, MHD_HEADER_KIND, take_header, &check);
    if (info != NULL && check.by_place && check.folded == 0) {
        check.cut += is_cut(check.end, head + info->header_size, 4);
        check.bare += is_bare(check.end, head + info->header_size, 4);
    }
    if (check.cut > 0 && check.folded == 0)
        return err_set(err, ERR_BAD_REQUEST, "a header contains a NUL byte");
    if (check.bare > 0 && check.folded == 0)
        return err_set(err, ERR_BAD_REQUEST,
                       "a header line ends with LF only: end each line with CR LF");
    if (info != NULL && check.by_place && memchr(head, '\r', info->header_size) != NULL)
        return err_set(err, ERR_BAD_REQUEST,
                       "the headers contain a CR without LF: end each line with CR LF");
    if (check.lengths > 1)
        return err_set(err, ERR_BAD_REQUEST,
                       "the length of the request is ambiguous: send either one Content-Length or "
                       "one Transfer-Encoding");
    if (check.folded > 0)
        return err_set(err, ERR_BAD_REQUEST, "header line folding is not supported");
    if (check.nameless > 0)
        return err_set(err, ERR_BAD_REQUEST, "invalid header name");
    struct str encoding = request_header(connection, HEADER_TRANSFER_ENCODING);
    if (str_is_set(encoding) && strcasecmp(encoding.at, "chunked") != 0)
        return err_set(err, ERR_BAD_REQUEST, "Transfer-Encoding must be chunked, not \"%.*s\"",
                       STR_ARG(encoding));
    if (check.again > 0)
        return err_set(err, ERR_BAD_REQUEST,
                       "Host, Authorization, Idempotency-Key, Origin, Content-Encoding and "
                       "Last-Event-ID may be sent only once");
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
    struct str length = request_header(connection, HEADER_CONTENT_LENGTH);
    return str_is_set(request_header(connection, HEADER_TRANSFER_ENCODING)) ||
           (str_is_set(length) && strspn(length.at, "0") != length.len);
}

static enum error_code check_body(struct connection *connection, struct err *err)
{
    const struct route *route = connection->match.route;
    struct str length = request_header(connection, HEADER_CONTENT_LENGTH);
    struct str type = request_header(connection, HEADER_CONTENT_TYPE);
    if (!expects_body(connection))
        return ERR_OK;
    if (!route_has_body(route))
        return err_set(err, ERR_BAD_REQUEST, "%.*s %.*s takes no body%s", STR_ARG(route->method),
                       STR_ARG(route->path),
                       route->page == PAGE_VERB ? ": put the parameters into the query" : "");
    struct str encoding = request_header(connection, HEADER_CONTENT_ENCODING);
    if (str_is_set(encoding) && strcasecmp(encoding.at, "identity") != 0)
        return err_set(err, ERR_UNSUPPORTED_MEDIA_TYPE,
                       "Content-Encoding \"%.*s\" is not supported: send the body uncompressed",
                       STR_ARG(encoding));
    if (!str_is_set(type) || !is_json(type))
        return err_set(err, ERR_UNSUPPORTED_MEDIA_TYPE,
                       "the body must be application/json, not %.*s",
                       STR_ARG(str_is_set(type) ? type : STR("without a Content-Type")));
    size_t bytes_max = verb_bytes_max(route->verb);
    if (str_is_set(length) && strtoull(length.at, NULL, 10) > bytes_max)
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "the body has %.*s bytes; the limit is %zu",
                       STR_ARG(length), bytes_max);
    return ERR_OK;
}

/* Whose request key it is, and which. */
static enum error_code read_key(struct connection *connection, struct err *err)
{
    struct verb_call *call = &connection->call;
    struct str key = request_header(connection, HEADER_IDEMPOTENCY_KEY);
    struct buf scope;
    if (!str_is_set(key))
        return ERR_OK;
    const struct route *route = connection->match.route;
    bool is_taken = str_eq(route->method, STR("POST")) ||
                    (route->verb < VERB_COUNT && verb_needs_key(route->verb));
    if (!is_taken)
        return err_set(err, ERR_BAD_REQUEST,
                       "%.*s takes no Idempotency-Key: it can be repeated without one",
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
    struct str names[PARAMETERS_MAX];
    uint32_t count;
    struct str labels[PARAMETERS_MAX]; /* of a list: those that came again */
    uint32_t label_count;
    bool labelled; /* the first has come */
    enum error_code code;
    struct err *err;
};

/* The time to wait is the server's business: a thread must not. What is no such time is left to the
 * verb to refuse. */
static bool take_wait(struct connection *connection, struct str key, struct str value)
{
    int64_t wait_ms;
    if (!verb_is_watch(connection->call.name) || !str_eq(key, STR("wait_ms")) ||
        !json_int64(value, &wait_ms) || wait_ms < 0 || wait_ms > WAIT_MS_MAX)
        return false;
    if (!connection->is_head)
        connection->wait_until = engine_steady(connection->server->engine) + wait_ms;
    return true;
}

/* The last event that the client of a stream has seen, which knows better than the query where to
 * begin; empty: it does not say. */
static struct str last_event(const struct connection *connection)
{
    struct str last = request_header(connection, HEADER_LAST_EVENT_ID);
    return connection->stream && str_is_set(last) ? last : STR("");
}

/* Notes a name; each may come once, but for the labels of a list. */
static enum error_code note_name(struct query *query, struct str name)
{
    bool many = query->connection->match.route->verb == VERB_list &&
                (str_eq(name, STR("label")) || str_eq(name, STR("labels")));
    for (uint32_t i = 0; i < query->count; i++)
        if (str_eq(query->names[i], name) && !many)
            return err_set(query->err, ERR_BAD_REQUEST, "duplicate query parameter \"%.*s\"",
                           STR_ARG(name));
    if (query->count == PARAMETERS_MAX)
        return err_set(query->err, ERR_BAD_REQUEST, "the query has more than %d parameters",
                       PARAMETERS_MAX);
    query->names[query->count++] = name;
    return ERR_OK;
}

static enum error_code read_parameter(struct query *query, struct str name, struct str value,
                                      struct str *ret_name, struct str *ret_value)
{
    const struct connection *connection = query->connection;
    struct arena *arena = &query->connection->arena;
    /* libmicrohttpd has made spaces of every plus. */
    enum error_code code = route_decode(name, "the query", arena, ret_name, query->err);
    if (code == ERR_OK)
        code = route_decode(value, "the query", arena, ret_value, query->err);
    if (code == ERR_OK && route_has_body(connection->match.route))
        code =
            err_set(query->err, ERR_BAD_REQUEST, "%.*s takes no query: put \"%.*s\" into the body",
                    STR_ARG(connection->match.route->method), STR_ARG(*ret_name));
    if (code == ERR_OK && connection->stream && str_eq(*ret_name, STR("telemetry")))
        code = err_set(query->err, ERR_BAD_REQUEST,
                       "telemetry cannot be streamed: request application/json");
    return code == ERR_OK ? note_name(query, *ret_name) : code;
}

/* A list may be limited to several labels: the first is a member of its own, the others go together
 * into `labels`. */
static bool take_label(struct query *query, struct str key, struct str value)
{
    bool again = str_eq(key, STR("label")) && query->labelled;
    if (query->connection->call.name != VERB_list || (!again && !str_eq(key, STR("labels"))))
        return false;
    query->labels[query->label_count++] = value;
    return true;
}

static enum MHD_Result add_parameter(void *cls, enum MHD_ValueKind kind, const char *name,
                                     size_t name_len, const char *value, size_t value_len)
{
    struct query *query = cls;
    struct connection *connection = query->connection;
    struct str given = {name == NULL ? "" : name, name_len};
    struct str key;
    struct str text;
    (void)kind;
    query->code = read_parameter(query, given, (struct str){value == NULL ? "" : value, value_len},
                                 &key, &text);
    if (query->code != ERR_OK)
        return MHD_NO;
    if (take_wait(connection, key, text) ||
        (last_event(connection).len > 0 && str_eq(key, STR("after"))) ||
        take_label(query, key, text))
        return MHD_YES;
    query->labelled = query->labelled || str_eq(key, STR("label"));
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
    (void)MHD_get_connection_values_n(connection->http, MHD_GET_ARGUMENT_KIND, add_parameter,
                                      &query);
    if (last_event(connection).len > 0) {
        json_key(&writer, STR("after"));
        json_put_string(&writer, last_event(connection));
    }
    if (query.label_count > 0) {
        json_key(&writer, STR("labels"));
        json_begin_array(&writer);
        for (uint32_t i = 0; i < query.label_count; i++)
            json_put_string(&writer, query.labels[i]);
        json_end_array(&writer);
    }
    connection->head_len = connection->request.len;
    return query.code == ERR_OK && connection->request.failed ? no_memory(err) : query.code;
}

/* ---- the head ---- */

/* The q of a media range in thousandths: text/html;q=0.5 has 500. */
static int weight_of(struct str range)
{
    const char *end = range.at + range.len;
    const char *at = range.len == 0 ? NULL : memmem(range.at, range.len, "q=", 2);
    int weight = 0;
    if (at == NULL)
        return 1000;
    for (int unit = 1000; unit > 0; unit /= 10) {
        at += unit == 1000 || unit == 100 ? 2 : 1; /* behind the = and the point */
        if (at < end && *at >= '0' && *at <= '9')
            weight += unit * (*at - '0');
        else
            break;
    }
    return weight > 1000 ? 1000 : weight;
}

int request_preference(struct str accept, struct str type)
{
    int best = 0;
    struct str range;
    while (str_take(&accept, ',', &range)) {
        range = json_trim(range);
        bool named = range.len >= type.len && strncasecmp(range.at, type.at, type.len) == 0 &&
                     (range.len == type.len || strchr("; \t", range.at[type.len]) != NULL);
        if (!named)
            continue;
        int wish = weight_of(range);
        best = wish > best ? wish : best;
    }
    return best;
}

static bool has_parameter(const struct connection *connection, const char *name)
{
    return MHD_lookup_connection_value_n(connection->http, MHD_GET_ARGUMENT_KIND, name,
                                         strlen(name), NULL, NULL) == MHD_YES;
}

/* Whether the client asks for a stream of events. Those of a job are a page unless it does; the
 * feed is a stream unless it asks for a page, by its type or by what only a page has. */
static bool wants_stream(const struct connection *connection)
{
    enum verb_name name = connection->match.route->verb;
    struct str accept = request_header(connection, HEADER_ACCEPT);
    int stream = request_preference(accept, STR("text/event-stream"));
    int page = request_preference(accept, STR("application/json"));
    if (connection->is_head || (name != VERB_events && name != VERB_feed))
        return false;
    if (stream > 0 || page > 0)
        return stream >= page && stream > 0;
    return name == VERB_feed && !has_parameter(connection, "limit") &&
           !has_parameter(connection, "wait_ms");
}

static enum error_code begin_stream(struct connection *connection, struct err *err)
{
    connection->stream = wants_stream(connection);
    struct str last = last_event(connection);
    if (last.len > POSITION_TEXT_MAX || !utf8_valid(last))
        return err_set(err, ERR_BAD_REQUEST, "unknown Last-Event-ID: start without it");
    return ERR_OK;
}

bool request_route(struct connection *connection, const char *method, const char *path,
                   const char *version)
{
    enum error_code code = take_headers(connection, method, version, &connection->err);
    if (code == ERR_OK)
        code = route_find(str_from(method), str_from(path), &connection->arena, &connection->match,
                          &connection->err);
    if (code == ERR_METHOD_NOT_ALLOWED) {
        struct buf methods;
        buf_init(&methods, &connection->arena, METHODS_BYTES_MAX);
        route_methods(str_from(path), &methods);
        connection->allow = buf_str(&methods);
    }
    connection->is_head = strcmp(method, "HEAD") == 0;
    if (code == ERR_OK)
        guard_ask(connection);
    connection->code = code;
    return code == ERR_OK;
}

/* The span of the caller, for jobs that bring none themselves. What is no traceparent is nobody's
 * mistake that we know of (whatever is between us may have added it), and is passed over, as W3C
 * asks for. */
static struct str read_traceparent(struct connection *connection)
{
    struct trace_context context;
    char *text;
    enum verb_name verb = connection->match.route->verb;
    if ((verb != VERB_submit && verb != VERB_batch) ||
        !trace_parse_any(request_header(connection, HEADER_TRACEPARENT), &context))
        return (struct str){NULL, 0};
    text = arena_alloc(&connection->arena, TRACEPARENT_LEN);
    if (text == NULL)
        return (struct str){NULL, 0};
    trace_format(&context, text);
    return (struct str){text, TRACEPARENT_LEN};
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
        .traceparent = read_traceparent(connection),
        .scopes = connection->auth.scopes,
        .queues = connection->auth.queues,
    };
    code = begin_stream(connection, err);
    if (code == ERR_OK)
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
                                   "too many large requests in progress: retry later");
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
