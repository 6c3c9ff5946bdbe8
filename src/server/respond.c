#include "server/respond.h"

#include <stdio.h>

#include "base/hash.h"
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
    if (MHD_get_response_header(response, "Cache-Control") == NULL)
        add_header(response, "Cache-Control", "no-store");
    add_header(response, "X-Content-Type-Options", "nosniff");
    if (atomic_load(&connection->server->draining))
        add_header(response, "Connection", "close");
    connection_move(connection, SERVING_ANSWERED);
    connection->status = status;
    enum MHD_Result result = MHD_queue_response(connection->http, status, response);
    MHD_destroy_response(response);
    return result;
}

/* libmicrohttpd does not write to the text. */
struct MHD_Response *respond_make(struct str text)
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
    return respond_queue(connection, status, type, respond_make(text));
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
    struct MHD_Response *response = body.failed ? NULL : respond_make(buf_str(&body));
    if (response == NULL)
        return MHD_NO;
    if (status == 429 || status == 503) {
        char seconds[24];
        int64_t wait_s = (connection->retry_ms + 999) / 1000;
        (void)snprintf(seconds, sizeof seconds, "%lld",
                       (long long)(wait_s > RETRY_AFTER_S ? wait_s : RETRY_AFTER_S));
        add_header(response, "Retry-After", seconds);
    }
    if (status == 405 && str_is_set(connection->allow)) {
        char methods[METHODS_BYTES_MAX + 1];
        (void)snprintf(methods, sizeof methods, "%.*s", STR_ARG(connection->allow));
        add_header(response, "Allow", methods);
    }
    if (status == 401)
        add_header(response, "WWW-Authenticate", "Bearer");
    if (cut)
        add_header(response, "Connection", "close");
    return respond_queue(connection, status, "application/problem+json", response);
}

/* An entity tag: the version of a job, and what tells apart answers with the same one, as leases
 * and progress move without it. */
static void write_tag(int64_t version, struct str answer, char *ret, size_t size)
{
    uint8_t hash[HASH_LEN];
    hash_sha256(&answer, 1, hash);
    (void)snprintf(ret, size, "\"%lld-%02x%02x%02x%02x%02x%02x%02x%02x\"", (long long)version,
                   hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7]);
}

/* Whether the header If-None-Match has the tag, weak or not, or *. */
static bool is_known(struct str header, struct str tag)
{
    struct str one;
    while (str_take(&header, ',', &one)) {
        one = json_trim(one);
        if (one.len > 2 && memcmp(one.at, "W/", 2) == 0)
            one = (struct str){one.at + 2, one.len - 2};
        if (str_eq(one, tag) || str_eq(one, STR("*")))
            return true;
    }
    return false;
}

enum MHD_Result respond_answer(struct connection *connection)
{
    char tag[64];
    struct str answer = buf_str(&connection->answer);
    unsigned status = (unsigned)connection->call.result.status;
    bool tagged = connection->call.name == VERB_get && status == 200;
    if (tagged)
        write_tag(connection->call.result.version, answer, tag, sizeof tag);
    bool known =
        tagged && is_known(request_header(connection, HEADER_IF_NONE_MATCH), str_from(tag));
    struct MHD_Response *response = respond_make(known ? STR("") : answer);
    if (response != NULL && tagged)
        add_header(response, "ETag", tag);
    return respond_queue(connection, known ? 304 : status, known ? NULL : "application/json",
                         response);
}

/* A page of ours runs and shows only what came from this server, and nobody shows it in theirs. */
static void add_page_headers(struct MHD_Response *response)
{
    add_header(response, "Content-Security-Policy",
               "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
               "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
               "frame-ancestors 'none'");
    add_header(response, "Referrer-Policy", "no-referrer");
    add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
}

static bool takes_gzip(const struct connection *connection)
{
    struct str accept = request_header(connection, HEADER_ACCEPT_ENCODING);
    return request_preference(accept, STR("gzip")) > 0;
}

enum MHD_Result respond_asset(struct connection *connection, const struct asset *asset, bool stays)
{
    bool packed = takes_gzip(connection);
    bool known = is_known(request_header(connection, HEADER_IF_NONE_MATCH), str_from(asset->tag));
    char tag[64];
    struct str body = {(const char *)asset->packed, asset->packed_len};
    if (known)
        body = STR("");
    else if (!packed)
        connection->code = asset_unpack(asset, &connection->arena, &body, &connection->err);
    if (connection->code != ERR_OK)
        return respond_error(connection, false);
    struct MHD_Response *response = respond_make(body);
    if (response == NULL)
        return MHD_NO;
    (void)snprintf(tag, sizeof tag, "W/%s", asset->tag);
    add_header(response, "ETag", tag);
    add_header(response, "Cache-Control",
               stays ? "public, max-age=31536000, immutable" : "no-cache");
    add_header(response, "Vary", "Accept-Encoding");
    if (packed && !known)
        add_header(response, "Content-Encoding", "gzip");
    add_page_headers(response);
    return respond_queue(connection, known ? 304 : 200, known ? NULL : asset->type, response);
}
