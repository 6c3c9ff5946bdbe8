#include "server/openapi.h"

#include "base/json.h"
#include "pawl.h"
#include "server/routes.h"

enum { METHODS_MAX = 4 };

static void put_text(struct json_writer *writer, const char *key, const char *text)
{
    json_key(writer, str_from(key));
    json_put_string(writer, str_from(text));
}

/* {"$ref": "#/components/..."} */
static void put_reference(struct json_writer *writer, const char *to)
{
    json_begin_object(writer);
    put_text(writer, "$ref", to);
    json_end_object(writer);
}

/* "content": {"TYPE": {"schema": {"$ref": ...}}} */
static void put_content(struct json_writer *writer, const char *type, const char *schema)
{
    json_key(writer, STR("content"));
    json_begin_object(writer);
    json_key(writer, str_from(type));
    json_begin_object(writer);
    json_key(writer, STR("schema"));
    put_reference(writer, schema);
    json_end_object(writer);
    json_end_object(writer);
}

/* What a page is for. */
static const char *page_text(enum route_page page)
{
    switch (page) {
    case PAGE_ROOT:
        return "The dashboard";
    case PAGE_HEALTH:
        return "Whether the server is there";
    case PAGE_READY:
        return "Whether the server can work: its store is in reach";
    case PAGE_METRICS:
        return "Figures for Prometheus";
    case PAGE_OPENAPI:
        return "This document";
    case PAGE_VERB:
        break;
    }
    return "";
}

static const char *page_name(enum route_page page)
{
    static const char *const names[] = {[PAGE_VERB] = "",
                                        [PAGE_ROOT] = "page_root",
                                        [PAGE_HEALTH] = "page_health",
                                        [PAGE_READY] = "page_ready",
                                        [PAGE_METRICS] = "page_metrics",
                                        [PAGE_OPENAPI] = "page_openapi"};
    return names[page];
}

static const char *page_type(enum route_page page)
{
    if (page == PAGE_VERB || page == PAGE_OPENAPI)
        return "application/json";
    return page == PAGE_ROOT ? "text/html" : "text/plain";
}

/* The names in a path, and for what has no body also any others. */
static void put_parameters(struct json_writer *writer, const struct route *route)
{
    json_key(writer, STR("parameters"));
    json_begin_array(writer);
    for (size_t i = 0; i < route->path.len; i++) {
        if (route->path.at[i] != '{')
            continue;
        const char *start = route->path.at + i + 1;
        const char *end = memchr(start, '}', route->path.len - i - 1);
        json_begin_object(writer);
        json_key(writer, STR("name"));
        json_put_string(writer, (struct str){start, (size_t)(end - start)});
        put_text(writer, "in", "path");
        json_key(writer, STR("required"));
        json_put_bool(writer, true);
        json_key(writer, STR("schema"));
        json_put_raw(writer, STR("{\"type\":\"string\"}"));
        json_end_object(writer);
    }
    if (route->page == PAGE_VERB && !route_has_body(route))
        put_reference(writer, "#/components/parameters/query");
    if (str_eq(route->method, STR("POST")))
        put_reference(writer, "#/components/parameters/key");
    json_end_array(writer);
}

static void put_response(struct json_writer *writer, const char *status, const char *text,
                         const char *type, const char *schema)
{
    json_key(writer, str_from(status));
    json_begin_object(writer);
    put_text(writer, "description", text);
    put_content(writer, type, schema);
    json_end_object(writer);
}

static void put_operation(struct json_writer *writer, const struct route *route)
{
    bool verb = route->page == PAGE_VERB;
    struct str name = verb ? verb_text(route->verb) : str_from(page_name(route->page));
    json_begin_object(writer);
    json_key(writer, STR("operationId"));
    json_put_string(writer, name);
    json_key(writer, STR("summary"));
    json_put_string(writer, verb ? name : str_from(page_text(route->page)));
    put_parameters(writer, route);
    if (route_has_body(route)) {
        json_key(writer, STR("requestBody"));
        json_begin_object(writer);
        put_content(writer, "application/json", "#/components/schemas/request");
        json_end_object(writer);
    }
    json_key(writer, STR("responses"));
    json_begin_object(writer);
    put_response(writer, "200", "Done", page_type(route->page),
                 verb ? "#/components/schemas/answer" : "#/components/schemas/page");
    if (route->page == PAGE_VERB && route->verb == VERB_submit)
        put_response(writer, "201", "Made", "application/json", "#/components/schemas/answer");
    if (route->page == PAGE_VERB && route->verb == VERB_signal)
        put_response(writer, "202", "Kept until it is waited for", "application/json",
                     "#/components/schemas/answer");
    put_response(writer, "4XX", "Refused", "application/problem+json",
                 "#/components/schemas/problem");
    put_response(writer, "5XX", "Failed", "application/problem+json",
                 "#/components/schemas/problem");
    json_end_object(writer);
    json_end_object(writer);
}

static struct str lower_method(struct str method)
{
    static const struct str methods[METHODS_MAX][2] = {
        {STR_INIT("GET"), STR_INIT("get")},
        {STR_INIT("POST"), STR_INIT("post")},
        {STR_INIT("PUT"), STR_INIT("put")},
        {STR_INIT("DELETE"), STR_INIT("delete")},
    };
    int i = 0;
    while (i < METHODS_MAX - 1 && !str_eq(methods[i][0], method))
        i++;
    return methods[i][1];
}

/* Every path once, with all of its methods. */
static void put_paths(struct json_writer *writer)
{
    uint32_t count;
    const struct route *routes = routes_all(&count);
    json_begin_object(writer);
    for (uint32_t i = 0; i < count; i++) {
        bool told = false;
        for (uint32_t j = 0; j < i; j++)
            told = told || str_eq(routes[j].path, routes[i].path);
        if (told)
            continue;
        json_key(writer, routes[i].path);
        json_begin_object(writer);
        for (uint32_t j = i; j < count; j++) {
            bool same = str_eq(routes[j].path, routes[i].path);
            if (!same)
                continue;
            json_key(writer, lower_method(routes[j].method));
            put_operation(writer, &routes[j]);
        }
        json_end_object(writer);
    }
    json_end_object(writer);
}

/* What every route refers to. */
static const char components[] =
    "{\"schemas\":{"
    "\"request\":{\"type\":\"object\",\"description\":\"What the verb takes; a member that is not "
    "known is refused by name.\"},"
    "\"answer\":{\"type\":\"object\"},"
    "\"page\":{\"description\":\"Text.\"},"
    "\"problem\":{\"type\":\"object\",\"required\":[\"status\",\"title\",\"detail\",\"code\"],"
    "\"properties\":{\"status\":{\"type\":\"integer\"},\"title\":{\"type\":\"string\"},"
    "\"detail\":{\"type\":\"string\"},\"code\":{\"type\":\"string\"}}}},"
    "\"parameters\":{"
    "\"query\":{\"name\":\"query\",\"in\":\"query\",\"required\":false,\"style\":\"form\","
    "\"explode\":true,\"schema\":{\"type\":\"object\",\"additionalProperties\":{\"type\":"
    "\"string\"}}},"
    "\"key\":{\"name\":\"Idempotency-Key\",\"in\":\"header\",\"required\":false,"
    "\"description\":\"Repeats of a request under one key get the first answer.\","
    "\"schema\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":128}}},"
    "\"securitySchemes\":{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"}}}";

void openapi_write(struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    put_text(&writer, "openapi", "3.1.0");
    json_key(&writer, STR("info"));
    json_begin_object(&writer);
    put_text(&writer, "title", "Pawl");
    put_text(&writer, "version", PAWL_VERSION);
    put_text(&writer, "description", "Durable jobs and workflows.");
    json_key(&writer, STR("license"));
    json_put_raw(&writer, STR("{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}"));
    json_end_object(&writer);
    json_key(&writer, STR("servers"));
    json_put_raw(&writer, STR("[{\"url\":\"/\"}]"));
    json_key(&writer, STR("security"));
    json_put_raw(&writer, STR("[{},{\"token\":[]}]"));
    json_key(&writer, STR("paths"));
    put_paths(&writer);
    json_key(&writer, STR("components"));
    json_put_raw(&writer, str_from(components));
    json_end_object(&writer);
}
