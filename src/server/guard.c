#include "server/guard.h"

#include <strings.h>

#include "server/request.h"
#include "server/server_private.h"

static bool starts_with(struct str text, struct str with)
{
    return text.len >= with.len && strncasecmp(text.at, with.at, with.len) == 0;
}

/* A host without its port. */
static struct str without_port(struct str host)
{
    if (host.len > 0 && host.at[0] == '[') {
        const char *end = memchr(host.at, ']', host.len);
        return end == NULL ? host : (struct str){host.at, (size_t)(end - host.at) + 1};
    }
    const char *colon = host.len == 0 ? NULL : memchr(host.at, ':', host.len);
    return colon == NULL ? host : (struct str){host.at, (size_t)(colon - host.at)};
}

/* 127.x.y.z, digits and dots only, so that 127.0.0.1.example.com is none. */
static bool is_loopback_address(struct str name)
{
    int dots = 0;
    if (!starts_with(name, STR("127.")))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        bool digit = name.at[i] >= '0' && name.at[i] <= '9';
        if (!digit && name.at[i] != '.')
            return false;
        dots += digit ? 0 : 1;
    }
    return dots == 3;
}

bool guard_is_loopback(struct str host)
{
    struct str name = without_port(host);
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

static enum MHD_Result find_forwarded(void *cls, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    const char **found = cls;
    (void)kind;
    (void)value;
    if (name != NULL && (strncasecmp(name, "X-Forwarded-", 12) == 0 ||
                         strcasecmp(name, "Forwarded") == 0 || strcasecmp(name, "X-Real-IP") == 0))
        *found = name;
    return MHD_YES;
}

/* What is asked without a token on loopback must come from this machine itself. */
static enum error_code check_open(struct connection *connection, struct err *err)
{
    struct str host = request_header(connection, "Host");
    struct str origin = request_header(connection, "Origin");
    const char *forwarded = NULL;
    (void)MHD_get_connection_values(connection->http, MHD_HEADER_KIND, find_forwarded, &forwarded);
    if (forwarded != NULL)
        return err_set(err, ERR_FORBIDDEN,
                       "the request was forwarded (%s), which needs a token: set PAWL_TOKEN for "
                       "the server and send it as Authorization: Bearer",
                       forwarded);
    if (str_is_set(host) && !guard_is_loopback(host))
        return err_set(err, ERR_FORBIDDEN,
                       "Host \"%.*s\" is not this machine: without a token use localhost",
                       STR_ARG(host));
    if (str_is_set(origin) && !is_own_origin(origin, host))
        return err_set(err, ERR_FORBIDDEN,
                       "a page of \"%.*s\" may not use this server without a token",
                       STR_ARG(origin));
    return ERR_OK;
}

void guard_ask(struct connection *connection)
{
    const struct route *route = connection->match.route;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->http, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    connection->asked = (struct auth_request){
        .verb = route->verb,
        .scopes = route->page == PAGE_METRICS ? ACCESS_READ : 0,
        .authorization = request_header(connection, "Authorization"),
        .peer = info == NULL ? NULL : info->client_addr,
    };
}

bool guard_is_open(const struct connection *connection)
{
    enum route_page page = connection->match.route->page;
    return page == PAGE_HEALTH || page == PAGE_READY;
}

enum error_code guard_check(struct connection *connection, struct err *err)
{
    if (guard_is_open(connection))
        return ERR_OK;
    enum error_code code =
        auth_check(connection->server->authority, &connection->asked, &connection->arena,
                   &connection->auth, &connection->retry_ms, err);
    return code == ERR_OK && connection->auth.open ? check_open(connection, err) : code;
}
