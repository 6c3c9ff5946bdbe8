#include "server/respond.h"

#include <stdio.h>

#include "base/json.h"
#include "engine/answer.h"
#include "server/request.h"
#include "server/server_private.h"

enum { RETRY_AFTER_S = 1 };

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

enum MHD_Result respond_queue(struct connection *connection, unsigned status, const char *type,
                              struct MHD_Response *response)
{
    if (response == NULL)
        return MHD_NO;
    if (type != NULL)
        add_header(response, "Content-Type", type);
    add_header(response, "Cache-Control", "no-store");
    add_header(response, "X-Content-Type-Options", "nosniff");
    if (atomic_load(&connection->server->draining))
        add_header(response, "Connection", "close");
    connection->stage = EXCHANGE_ANSWERING;
    connection_enter(connection, PHASE_SENDING);
    enum MHD_Result result = MHD_queue_response(connection->http, status, response);
    MHD_destroy_response(response);
    return result;
}

/* The text is the connection's, or stays for ever. libmicrohttpd does not write to it. */
static struct MHD_Response *response_of(struct str text)
{
    union {
        const char *from;
        void *to;
    } view = {.from = text.at};
    return MHD_create_response_from_buffer(text.len, view.to, MHD_RESPMEM_PERSISTENT);
}

enum MHD_Result respond_text(struct connection *connection, unsigned status, const char *type,
                             struct str text)
{
    return respond_queue(connection, status, type, response_of(text));
}

enum MHD_Result respond_error(struct connection *connection, bool cut)
{
    struct json_writer writer;
    struct buf body;
    enum error_code code = connection->code;
    unsigned status = (unsigned)error_info(code)->http_status;
    buf_init(&body, &connection->arena, 512);
    json_writer_init(&writer, &body);
    answer_error(&writer, code, &connection->err);
    struct MHD_Response *response = body.failed ? NULL : response_of(buf_str(&body));
    if (response == NULL)
        return MHD_NO;
    if (status == 429 || status == 503) {
        char seconds[24];
        int64_t wait_s = (connection->retry_ms + 999) / 1000;
        (void)snprintf(seconds, sizeof seconds, "%lld",
                       (long long)(wait_s > RETRY_AFTER_S ? wait_s : RETRY_AFTER_S));
        add_header(response, "Retry-After", seconds);
    }
    if (status == 401)
        add_header(response, "WWW-Authenticate", "Bearer");
    if (cut)
        add_header(response, "Connection", "close");
    return respond_queue(connection, status, "application/problem+json", response);
}

/* The version of a job, as an entity tag; false: there is none. */
static bool read_tag(struct str answer, char *ret, size_t size)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    if (json_object_begin(&iter, answer))
        while (json_object_next(&iter, &key, &value))
            if (json_key_is(key, STR("version"))) {
                (void)snprintf(ret, size, "\"%.*s\"", STR_ARG(value));
                return true;
            }
    return false;
}

enum MHD_Result respond_answer(struct connection *connection)
{
    char tag[64];
    struct str answer = buf_str(&connection->answer);
    unsigned status = (unsigned)connection->call.status;
    bool tagged =
        connection->call.name == VERB_get && status == 200 && read_tag(answer, tag, sizeof tag);
    bool known = tagged && str_eq(request_header(connection, "If-None-Match"), str_from(tag));
    struct MHD_Response *response = response_of(known ? STR("") : answer);
    if (response != NULL && tagged)
        add_header(response, "ETag", tag);
    return respond_queue(connection, known ? 304 : status, known ? NULL : "application/json",
                         response);
}
