#include "client/http_request.h"

#include <assert.h>

#include "base/buf.h"
#include "base/json.h"

struct route {
    const char *method;
    struct str path;
};

static const struct route routes[VERB_COUNT] = {
#define VERB(name, method, path, ...) [VERB_##name] = {#method, STR_INIT(path)},
#include "engine/verbs.def"
#undef VERB
};

/* Servers of 0.1.0 know the batch by this name only; newer ones accept both. */
static const struct route older_batch = {"POST", STR_INIT("/v1/batch")};

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* Adds bytes as RFC 3986 wants them between two delimiters. */
static void add_encoded(struct buf *buf, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    /* A part of a path that is nothing but dots would be taken for a way up. */
    bool dots = str_eq(text, STR(".")) || str_eq(text, STR(".."));
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '_' || c == '~' || (c == '.' && !dots);
        if (plain) {
            buf_add_char(buf, (char)c);
            continue;
        }
        buf_add_char(buf, '%');
        buf_add_char(buf, digits[c >> 4]);
        buf_add_char(buf, digits[c & 15]);
    }
}

/* The next {name} of a path, and what stands before it; false: none. */
static bool next_name(struct str *path, struct str *ret_before, struct str *ret_name)
{
    const char *open = memchr(path->at, '{', path->len);
    *ret_before = (struct str){path->at, open == NULL ? path->len : (size_t)(open - path->at)};
    if (open == NULL)
        return false;
    const char *end = path->at + path->len;
    const char *close = memchr(open, '}', (size_t)(end - open));
    assert(close != NULL);
    *ret_name = (struct str){open + 1, (size_t)(close - open - 1)};
    *path = (struct str){close + 1, (size_t)(end - close - 1)};
    return true;
}

static bool is_in_path(const struct route *route, struct str key)
{
    struct str path = route->path;
    struct str before;
    struct str name;
    while (next_name(&path, &before, &name))
        if (json_key_is(key, name))
            return true;
    return false;
}

/* Adds the member `name` of the request to the path. A token that cannot be one is unknown to
 * everybody, as any other that is not live. */
static enum error_code add_to_path(struct buf *target, struct str request, struct str name,
                                   struct arena *arena, struct err *err)
{
    struct json_iter iter;
    struct str key;
    struct str value = {NULL, 0};
    struct str text = {NULL, 0};
    bool found = false;
    if (json_object_begin(&iter, request))
        while (!found && json_object_next(&iter, &key, &value))
            found = json_key_is(key, name);
    if (!found || json_type(value) == JSON_NULL)
        return err_set(err, ERR_BAD_REQUEST, "%.*s is required", STR_ARG(name));
    if (json_type(value) != JSON_STRING)
        return err_set(err, ERR_BAD_REQUEST, "%.*s must be a string, not %.*s", STR_ARG(name),
                       STR_ARG(value));
    if (!json_string(value, arena, &text))
        return no_memory(err);
    if (text.len > 0 && memchr(text.at, '\0', text.len) == NULL) {
        add_encoded(target, text);
        return ERR_OK;
    }
    if (str_eq(name, STR("token")))
        return err_set(err, ERR_STALE_LEASE, "stale or unknown lease token \"%.*s\"",
                       STR_ARG(text));
    return err_set(err, ERR_BAD_REQUEST, "%.*s must be a name, not \"%.*s\"", STR_ARG(name),
                   STR_ARG(text));
}

static enum error_code add_path(struct buf *target, const struct route *route, struct str request,
                                struct arena *arena, struct err *err)
{
    struct str path = route->path;
    struct str before;
    struct str name;
    while (next_name(&path, &before, &name)) {
        buf_add(target, before);
        enum error_code code = add_to_path(target, request, name, arena, err);
        if (code != ERR_OK)
            return code;
    }
    buf_add(target, before);
    return ERR_OK;
}

/* Strings as they are, anything else as it is written. A member that is null is as good as none. */
static enum error_code add_query(struct buf *target, const struct route *route, struct str request,
                                 struct arena *arena, struct err *err)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    char separator = '?';
    bool any = json_object_begin(&iter, request);
    while (any && json_object_next(&iter, &key, &value)) {
        struct str name;
        struct str text = value;
        if (is_in_path(route, key) || json_type(value) == JSON_NULL)
            continue;
        bool read = json_string(key, arena, &name) &&
                    (json_type(value) != JSON_STRING || json_string(value, arena, &text));
        if (!read)
            return no_memory(err);
        buf_add_char(target, separator);
        add_encoded(target, name);
        buf_add_char(target, '=');
        add_encoded(target, text);
        separator = '&';
    }
    return ERR_OK;
}

/* The members that are not in the path, byte for byte. Over HTTP a claim that does not say how long
 * it waits may wait; here it does not. */
static struct str make_body(const struct route *route, enum verb_name name, struct str request,
                            struct arena *arena)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct buf body;
    bool says_wait = !verb_is_claim(name);
    bool any = json_object_begin(&iter, request);
    buf_init(&body, arena, request.len + 64);
    buf_add_char(&body, '{');
    while (any && json_object_next(&iter, &key, &value)) {
        if (is_in_path(route, key))
            continue;
        if (body.len > 1)
            buf_add_char(&body, ',');
        buf_add(&body, key);
        buf_add_char(&body, ':');
        buf_add(&body, value);
        says_wait = says_wait || json_key_is(key, STR("wait_ms"));
    }
    if (!says_wait)
        buf_addf(&body, "%s\"wait_ms\":0", body.len > 1 ? "," : "");
    buf_add_char(&body, '}');
    return body.failed ? (struct str){NULL, 0} : buf_str(&body);
}

enum error_code http_request_make(enum verb_name name, struct str request, struct arena *arena,
                                  struct http_request *ret, struct err *err)
{
    const struct route *route = name == VERB_batch ? &older_batch : &routes[name];
    struct http_request made = {.method = route->method};
    struct buf target;
    /* Only these take a body. */
    bool has_query = strcmp(route->method, "POST") != 0 && strcmp(route->method, "PUT") != 0 &&
                     strcmp(route->method, "PATCH") != 0;
    if (!str_is_set(request))
        request = STR("{}");
    enum error_code code =
        json_check_request(request, verb_bytes_max(name), "the request", arena, err);
    if (code != ERR_OK)
        return code;
    request = json_trim(request);
    if (json_type(request) != JSON_OBJECT)
        return err_set(err, ERR_BAD_REQUEST, "a request must be a JSON object");
    buf_init(&target, arena, 256);
    code = add_path(&target, route, request, arena, err);
    if (code == ERR_OK && has_query)
        code = add_query(&target, route, request, arena, err);
    if (code != ERR_OK)
        return code;
    if (target.len > HTTP_TARGET_BYTES_MAX)
        return err_set(err, ERR_PAYLOAD_TOO_LARGE,
                       "the URL of the request has %zu bytes; the limit is %d", target.len,
                       HTTP_TARGET_BYTES_MAX);
    buf_add_char(&target, '\0');
    if (!has_query)
        made.body = make_body(route, name, request, arena);
    if (target.failed || (!has_query && !str_is_set(made.body)))
        return no_memory(err);
    made.target = target.at;
    *ret = made;
    return ERR_OK;
}
