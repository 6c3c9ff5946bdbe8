#include "server/routes.h"

#include "base/hex.h"
#include "base/utf8.h"

static const struct route routes[] = {
#define VERB(name, method, path, class, safe, scopes, queues, ...)                                 \
    {STR_INIT(#method), STR_INIT(path), PAGE_VERB, VERB_##name, "{" #__VA_ARGS__ "}"},
#include "engine/verbs.def"
#undef VERB
    /* The first is the name of a route before it was /v1/ops. */
    {STR_INIT("POST"), STR_INIT("/v1/batch"), PAGE_VERB, VERB_batch, NULL},
    {STR_INIT("GET"), STR_INIT("/"), PAGE_ROOT, VERB_COUNT, NULL},
    {STR_INIT("GET"), STR_INIT("/assets/{file}"), PAGE_ASSET, VERB_COUNT, NULL},
    {STR_INIT("GET"), STR_INIT("/session"), PAGE_SESSION, VERB_COUNT, NULL},
    {STR_INIT("POST"), STR_INIT("/session"), PAGE_SIGN_IN, VERB_COUNT, NULL},
    {STR_INIT("DELETE"), STR_INIT("/session"), PAGE_SIGN_OUT, VERB_COUNT, NULL},
    {STR_INIT("GET"), STR_INIT("/healthz"), PAGE_HEALTH, VERB_COUNT, NULL},
    {STR_INIT("GET"), STR_INIT("/readyz"), PAGE_READY, VERB_COUNT, NULL},
    {STR_INIT("GET"), STR_INIT("/metrics"), PAGE_METRICS, VERB_COUNT, NULL},
    {STR_INIT("GET"), STR_INIT("/openapi.json"), PAGE_OPENAPI, VERB_COUNT, NULL},
};

const struct route *routes_all(uint32_t *ret_count)
{
    *ret_count = sizeof routes / sizeof routes[0];
    return routes;
}

bool route_has_body(const struct route *route)
{
    return route->page == PAGE_VERB &&
           (str_eq(route->method, STR("POST")) || str_eq(route->method, STR("PUT")) ||
            str_eq(route->method, STR("PATCH")));
}

enum error_code route_decode(struct str text, const char *what, struct arena *arena,
                             struct str *ret, struct err *err)
{
    char *copy = arena_alloc(arena, text.len + 1);
    size_t len = 0;
    if (copy == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_value(text.at[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_value(text.at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return err_set(err, ERR_BAD_REQUEST,
                               "%s \"%.*s\": a %% must be followed by two hex digits", what,
                               STR_ARG(text));
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0')
            return err_set(err, ERR_BAD_REQUEST, "%s \"%.*s\": NUL is not allowed", what,
                           STR_ARG(text));
        copy[len++] = c;
    }
    struct str decoded = {copy, len};
    if (!utf8_valid(decoded))
        return err_set(err, ERR_BAD_REQUEST, "%s \"%.*s\" is not UTF-8", what, STR_ARG(text));
    *ret = decoded;
    return ERR_OK;
}

/* The next segment of a path, without its slash; false: none. */
static bool next_segment(struct str *rest, struct str *ret)
{
    if (rest->len == 0 || rest->at[0] != '/')
        return false;
    const char *start = rest->at + 1;
    size_t left = rest->len - 1;
    const char *slash = left == 0 ? NULL : memchr(start, '/', left);
    size_t len = slash == NULL ? left : (size_t)(slash - start);
    *ret = (struct str){start, len};
    *rest = (struct str){start + len, left - len};
    return true;
}

static bool is_member(struct str segment)
{
    return segment.len > 2 && segment.at[0] == '{';
}

/* Whether a path goes with a route; values are still encoded then. */
static bool match(const struct route *route, struct str path, struct route_match *ret)
{
    struct str pattern = route->path;
    struct str wanted;
    struct str given;
    const char *member = memchr(pattern.at, '{', pattern.len);
    size_t same = member == NULL ? pattern.len : (size_t)(member - pattern.at);
    if (path.len < same || memcmp(path.at, pattern.at, same) != 0)
        return false;
    ret->route = route;
    ret->count = 0;
    while (next_segment(&pattern, &wanted)) {
        if (!next_segment(&path, &given))
            return false;
        if (is_member(wanted) && given.len > 0 && ret->count < ROUTE_MEMBERS_MAX) {
            ret->names[ret->count] = (struct str){wanted.at + 1, wanted.len - 2};
            ret->values[ret->count++] = given;
        } else if (!str_eq(wanted, given)) {
            return false;
        }
    }
    return path.len == 0;
}

void route_methods(struct str path, struct buf *ret)
{
    struct route_match found;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        bool fits = match(&routes[i], path, &found);
        if (!fits)
            continue;
        buf_add(ret, ret->len == 0 ? STR("") : STR(", "));
        buf_add(ret, routes[i].method);
        buf_add(ret, str_eq(routes[i].method, STR("GET")) ? STR(", HEAD") : STR(""));
    }
}

/* Whether the path would be one without the slashes at its end. */
static bool has_slash_too_many(struct str path)
{
    char text[METHODS_BYTES_MAX];
    struct buf methods = {.at = text, .cap = sizeof text};
    size_t len = path.len;
    while (len > 1 && path.at[len - 1] == '/')
        len--;
    if (len < path.len)
        route_methods((struct str){path.at, len}, &methods);
    return methods.len > 0;
}

/* Says what there is instead. */
static enum error_code no_route(struct str method, struct str path, struct err *err)
{
    char text[METHODS_BYTES_MAX];
    struct buf methods = {.at = text, .cap = sizeof text};
    route_methods(path, &methods);
    if (methods.len > 0)
        return err_set(err, ERR_METHOD_NOT_ALLOWED,
                       "method %.*s is not allowed for %.*s; allowed: %.*s", STR_ARG(method),
                       STR_ARG(path), STR_ARG(buf_str(&methods)));
    if (has_slash_too_many(path))
        return err_set(err, ERR_NOT_FOUND, "unknown route %.*s: remove the trailing slash",
                       STR_ARG(path));
    return err_set(err, ERR_NOT_FOUND, "unknown route %.*s; /openapi.json lists all routes",
                   STR_ARG(path));
}

enum error_code route_find(struct str method, struct str path, struct arena *arena,
                           struct route_match *ret, struct err *err)
{
    struct route_match found = {0};
    size_t count = sizeof routes / sizeof routes[0];
    size_t i = 0;
    struct str wanted = str_eq(method, STR("HEAD")) ? STR("GET") : method;
    while (i < count && !(str_eq(routes[i].method, wanted) && match(&routes[i], path, &found)))
        i++;
    if (i == count)
        return no_route(method, path, err);
    enum error_code code = ERR_OK;
    for (uint32_t member = 0; code == ERR_OK && member < found.count; member++)
        code = route_decode(found.values[member], "the path", arena, &found.values[member], err);
    if (code == ERR_OK)
        *ret = found;
    return code;
}
