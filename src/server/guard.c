#include "server/guard.h"

#include <strings.h>

#include "base/json.h"
#include "base/record.h"
#include "server/peer.h"
#include "server/rate.h"
#include "server/request.h"
#include "server/server_private.h"
#include "server/session.h"

static bool starts_with(struct str text, struct str with)
{
    return text.len >= with.len && strncasecmp(text.at, with.at, with.len) == 0;
}

/* A host without its port, when there is one; absent: what stands behind the colon is no port. */
static struct str without_port(struct str host)
{
    size_t end = 0;
    if (host.len > 0 && host.at[0] == '[')
        while (end < host.len && host.at[end] != ']')
            end++;
    while (end < host.len && host.at[end] != ':')
        end++;
    for (size_t i = end + 1; i < host.len; i++)
        if (host.at[i] < '0' || host.at[i] > '9')
            return (struct str){NULL, 0};
    return (struct str){host.at, end};
}

/* 127.x.y.z, numbers of a byte and dots only, so that 127.0.0.1.example.com does not count. */
static bool is_loopback_address(struct str name)
{
    int numbers = 0;
    int value = -1;
    if (!starts_with(name, STR("127.")))
        return false;
    for (size_t i = 0; i <= name.len; i++) {
        bool digit = i < name.len && name.at[i] >= '0' && name.at[i] <= '9';
        if (digit)
            value = (value < 0 ? 0 : value) * 10 + (name.at[i] - '0');
        if (value > UINT8_MAX)
            return false;
        if (digit)
            continue;
        if (value < 0 || (i < name.len && name.at[i] != '.'))
            return false;
        numbers++;
        value = -1;
    }
    return numbers == 4;
}

bool guard_is_loopback(struct str host)
{
    static const struct str mapped = STR_INIT("[::ffff:");
    struct str name = without_port(host);
    if (starts_with(name, mapped) && name.at[name.len - 1] == ']')
        name = (struct str){name.at + mapped.len, name.len - mapped.len - 1};
    return is_loopback_address(name) || str_eq(name, STR("[::1]")) ||
           (name.len == 9 && starts_with(name, STR("localhost")));
}

/* A page may ask the server that it came from, and no other. */
static bool is_own_origin(struct str origin, struct str host)
{
    struct str rest = origin;
    if (starts_with(rest, STR("http://")))
        rest = (struct str){rest.at + 7, rest.len - 7};
    else if (starts_with(rest, STR("https://")))
        rest = (struct str){rest.at + 8, rest.len - 8};
    else
        return false;
    return str_is_set(host) && rest.len == host.len && strncasecmp(rest.at, host.at, rest.len) == 0;
}

static bool is_plain_get(const struct connection *connection)
{
    return str_eq(connection->match.route->method, STR("GET"));
}

/* Whether the browser itself says that another site's page asks. A link to here is no such page. */
static bool is_cross_site(const struct connection *connection)
{
    struct str site = request_header(connection, HEADER_SEC_FETCH_SITE);
    if (!str_is_set(site) || str_eq(site, STR("same-origin")) || str_eq(site, STR("none")))
        return false;
    return !is_plain_get(connection) ||
           !str_eq(request_header(connection, HEADER_SEC_FETCH_MODE), STR("navigate"));
}

/* If a page asks, it must be one of ours. A proxy may have put its own name for us into Host; what
 * the browser asked for is then in X-Forwarded-Host, which no page of others can send. */
static enum error_code check_page(const struct connection *connection, struct err *err)
{
    struct str origin = request_header(connection, HEADER_ORIGIN);
    struct str host = request_header(connection, HEADER_HOST);
    if (str_is_set(origin) && !is_own_origin(origin, host) &&
        !is_own_origin(origin, request_header(connection, HEADER_X_FORWARDED_HOST)))
        return err_set(
            err, ERR_FORBIDDEN,
            "a page of \"%.*s\" may not use this server (\"%.*s\") without its own token",
            STR_ARG(origin), STR_ARG(host));
    if (is_cross_site(connection))
        return err_set(err, ERR_FORBIDDEN,
                       "a page of another site may not use this server without its own token");
    return ERR_OK;
}

/* What is asked without a token on loopback must come from this machine itself. */
static enum error_code check_open(struct connection *connection, struct err *err)
{
    struct str host = request_header(connection, HEADER_HOST);
    if (connection->forwarded != NULL)
        return err_set(err, ERR_FORBIDDEN,
                       "the request was forwarded (%s), which requires a token: set PAWL_TOKEN for "
                       "the server and send it as Authorization: Bearer",
                       connection->forwarded);
    if (str_is_set(host) && !guard_is_loopback(host))
        return err_set(err, ERR_FORBIDDEN,
                       "Host \"%.*s\" is not this machine: without a token use localhost",
                       STR_ARG(host));
    return check_page(connection, err);
}

/* What a browser has sent with a cookie must come from our own page, and what changes something
 * must prove it. */
static enum error_code check_cookie(const struct connection *connection, struct err *err)
{
    enum error_code code = check_page(connection, err);
    if (code != ERR_OK || is_plain_get(connection) ||
        session_has_proof(connection, connection->auth.token))
        return code;
    return err_set(err, ERR_FORBIDDEN,
                   "requests with a session cookie require the header X-Pawl-CSRF, with the value "
                   "from GET /session");
}

/* Whether a page is for those, too, who have not signed in: it has to be shown to them. */
static bool is_for_nobody(enum route_page page)
{
    return page == PAGE_ROOT || page == PAGE_ASSET || page == PAGE_SESSION || page == PAGE_SIGN_OUT;
}

/* Whether it matters who asks for a page, beside where it is asked from. */
static bool is_asked_who(enum route_page page)
{
    return page == PAGE_SESSION || !is_for_nobody(page);
}

/* Whether somebody else's process on this machine is at the other end. */
static bool is_stranger(struct connection *connection)
{
    if (connection->peer == PEER_NOT_ASKED)
        connection->peer = peer_is_trusted(connection->socket) ? PEER_TRUSTED : PEER_STRANGER;
    return connection->peer == PEER_STRANGER;
}

void guard_ask(struct connection *connection)
{
    const struct route *route = connection->match.route;
    bool who = is_asked_who(route->page);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->http, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    connection->asked = (struct auth_request){
        .verb = route->verb,
        .scopes = route->page == PAGE_METRICS ? ACCESS_READ : 0,
        .peer = info == NULL ? NULL : info->client_addr,
    };
    if (who)
        connection->asked.authorization = request_header(connection, HEADER_AUTHORIZATION);
    if (!who || str_is_set(connection->asked.authorization))
        return;
    bool open = authority_is_open(connection->server->authority);
    connection->asked.stranger = open && is_stranger(connection);
    if (route->page != PAGE_SIGN_IN && (!open || connection->asked.stranger))
        connection->asked.cookie = session_token(connection);
}

bool guard_is_open(const struct connection *connection)
{
    enum route_page page = connection->match.route->page;
    return page == PAGE_HEALTH || page == PAGE_READY;
}

/* Only a caller who may do everything may say who they are; the header of others is ignored. */
static enum error_code read_actor(struct connection *connection, struct err *err)
{
    struct auth *auth = &connection->auth;
    struct str actor = request_header(connection, HEADER_PAWL_ACTOR);
    if (!str_is_set(actor) || (!auth->open && (auth->scopes & ACCESS_ADMIN) == 0))
        return ERR_OK;
    enum error_code code = record_check_name(actor, "Pawl-Actor", err);
    if (code == ERR_OK)
        code = record_check_shown(actor, "Pawl-Actor", err);
    if (code == ERR_OK && access_is_reserved(actor))
        code = err_set(err, ERR_BAD_REQUEST,
                       "Pawl-Actor must not start with \"" ACCESS_ACTOR_PREFIX "\"");
    if (code != ERR_OK)
        return code;
    auth->actor = arena_copy(&connection->arena, actor);
    return str_is_set(auth->actor) ? ERR_OK
                                   : (enum error_code)err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* Takes from the bucket of the token. */
static enum error_code take(struct connection *connection, uint32_t cost, bool always,
                            struct err *err)
{
    struct server *server = connection->server;
    if (connection->auth.open)
        return ERR_OK;
    int64_t wait_ms = rate_take(server->rate, connection->auth.caller, cost, always,
                                engine_steady(server->engine));
    if (wait_ms == 0)
        return ERR_OK;
    connection->retry_ms = wait_ms;
    return err_set(err, ERR_RATE_LIMITED, "rate limit of this token exceeded: wait %lld ms",
                   (long long)wait_ms);
}

/* What the holder of a lease says is paid for, but never refused: a heartbeat or a result that
 * comes too late is work that is done again, which costs more than the request. */
static bool is_of_lease(enum verb_name name)
{
    return name < VERB_COUNT && verb_is_of_lease(name);
}

/* Each entry of a batch is paid for, also one that is refused by itself, and a submit of many jobs
 * as often. It passes in any case only when all of it is of leases: else the word of one would let
 * hundreds of others in. */
static enum error_code charge_batch(struct connection *connection, struct err *err)
{
    struct json_iter iter;
    struct str entry;
    uint32_t count = 0;
    bool always = true;
    if (!json_array_begin(&iter, json_member(connection->call.request, STR("ops"))))
        return take(connection, 1, false, err);
    while (json_array_next(&iter, &entry)) {
        struct str name = json_member(entry, STR("op"));
        bool is_text = name.len >= 2;
        enum verb_name verb =
            is_text ? verb_find((struct str){name.at + 1, name.len - 2}) : VERB_COUNT;
        always = always && is_of_lease(verb);
        count++;
    }
    if (count < connection->call.call.count)
        count = connection->call.call.count;
    return take(connection, count > 0 ? count : 1, always, err);
}

enum error_code guard_charge(struct connection *connection, struct err *err)
{
    const struct call *call = &connection->call.call;
    if (connection->call.name == VERB_batch)
        return charge_batch(connection, err);
    return call->count > 1 ? take(connection, call->count - 1, true, err) : ERR_OK;
}

/* Who asks, and whether from where they may. */
static enum error_code check_caller(struct connection *connection, struct err *err)
{
    enum route_page page = connection->match.route->page;
    enum error_code code =
        auth_check(connection->server->authority, &connection->asked, &connection->arena,
                   &connection->auth, &connection->retry_ms, err);
    if (code == ERR_UNAUTHORIZED && is_for_nobody(page)) {
        connection->auth = (struct auth){0};
        *err = (struct err){0};
        return page == PAGE_SIGN_OUT ? check_page(connection, err) : ERR_OK;
    }
    if (code == ERR_OK && connection->auth.open)
        code = check_open(connection, err);
    if (code == ERR_OK && connection->auth.by_cookie)
        code = check_cookie(connection, err);
    return code;
}

enum error_code guard_check(struct connection *connection, struct err *err)
{
    enum verb_name name = connection->match.route->verb;
    if (guard_is_open(connection))
        return ERR_OK;
    enum error_code code = check_caller(connection, err);
    if (code != ERR_OK || connection->auth.scopes == 0)
        return code;
    if (connection->auth.queues != NULL && connection->match.route->page == PAGE_METRICS)
        code = err_set(err, ERR_FORBIDDEN,
                       "metrics concern all queues, but the token is limited to some");
    if (code == ERR_OK)
        code = read_actor(connection, err);
    /* What a batch costs is known when it has been read. */
    if (code == ERR_OK && name != VERB_batch)
        code = take(connection, 1, is_of_lease(name), err);
    return code;
}
