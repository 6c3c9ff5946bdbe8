#include "server/openapi.h"

#include <assert.h>

#include "base/json.h"
#include "core/machine.h"
#include "core/plan.h"
#include "core/retry.h"
#include "core/spec.h"
#include "engine/access.h"
#include "pawl.h"
#include "server/routes.h"

/* openapi.json: what people have to say of pages, of members, and of what responses are made of;
 * verbs.def says it of each verb. */
extern const char openapi_text[];

struct document {
    struct json_writer writer;
    struct str operations;
    struct str fields;
    struct str schemas;
};

/* One operation, and what openapi.json says of it. */
struct operation {
    const struct route *route;
    struct str name;
    struct str text;
    const struct record_type *request; /* NULL: a page */
};

/* One route, two operations: a job, or many. OpenAPI tells operations apart by their path, so the
 * second one has a fragment behind it, which no client sends. */
static const struct str many_jobs = STR_INIT("submit_many");
static const struct str many_jobs_path = STR_INIT("/v1/jobs#many");

/* ---- small things ---- */

static void put_text(struct json_writer *writer, const char *key, const char *text)
{
    json_key(writer, str_from(key));
    json_put_string(writer, str_from(text));
}

static void put_raw(struct json_writer *writer, const char *key, struct str raw)
{
    json_key(writer, str_from(key));
    json_put_raw(writer, raw);
}

/* A member that the text may have, as it is. */
static void put_if_said(struct json_writer *writer, const char *key, struct str text)
{
    struct str raw = json_member(text, str_from(key));
    if (str_is_set(raw))
        put_raw(writer, key, raw);
}

/* What is between the quotes of a text of openapi.json, in which nothing is escaped. */
static struct str inside(struct str raw)
{
    return raw.len >= 2 ? (struct str){raw.at + 1, raw.len - 2} : (struct str){NULL, 0};
}

/* {"$ref": "#/components/WHAT/NAME"} */
static void put_reference(struct json_writer *writer, const char *what, struct str name)
{
    char text[128];
    struct buf buf = {.at = text, .cap = sizeof text};
    buf_addf(&buf, "#/components/%s/%.*s", what, STR_ARG(name));
    json_begin_object(writer);
    json_key(writer, STR("$ref"));
    json_put_string(writer, buf_str(&buf));
    json_end_object(writer);
}

/* ---- members ---- */

/* What is said of a member: where the operation says it, or of any of that name. */
static struct str words_for(const struct document *document, struct str operation, struct str field)
{
    struct str words = json_member(json_member(operation, STR("fields")), field);
    return str_is_set(words) ? words : json_member(document->fields, field);
}

static void put_range(struct json_writer *writer, const struct record_field *field, int64_t unit)
{
    bool any = field->min == 0 && field->max == 0;
    json_key(writer, STR("minimum"));
    json_put_int(writer, field->min / unit);
    if (any)
        return;
    json_key(writer, STR("maximum"));
    json_put_int(writer, field->max / unit);
}

static void put_names(struct json_writer *writer, const struct record_names *names)
{
    json_key(writer, STR("enum"));
    json_begin_array(writer);
    for (size_t i = 1; i < names->count; i++)
        json_put_string(writer, names->at[i]);
    json_end_array(writer);
}

static void put_members(struct document *document, struct str operation,
                        const struct record_type *type, const struct route *route);

/* The members of a schema that follow from how the field is read. */
static void put_kind(struct document *document, struct str operation,
                     const struct record_field *field)
{
    struct json_writer *writer = &document->writer;
    static const char *const types[] = {
        [RECORD_NAME] = "string",   [RECORD_TEXT] = "string", [RECORD_JSON] = NULL,
        [RECORD_OBJECT] = "object", [RECORD_ARRAY] = "array", [RECORD_INT] = "integer",
        [RECORD_MILLI] = "number",  [RECORD_TIME] = "string", [RECORD_BOOL] = "boolean",
        [RECORD_HEX] = "string",    [RECORD_ENUM] = "string", [RECORD_NUMBER] = "integer",
        [RECORD_NESTED] = "object",
    };
    if (types[field->kind] != NULL)
        put_text(writer, "type", types[field->kind]);
    switch (field->kind) {
    case RECORD_NAME:
        put_raw(writer, "minLength", STR("1"));
        put_raw(writer, "maxLength", STR("128"));
        break;
    case RECORD_INT:
    case RECORD_NUMBER:
        put_range(writer, field, 1);
        break;
    case RECORD_MILLI:
        put_range(writer, field, 1000);
        break;
    case RECORD_TIME:
        put_text(writer, "format", "date-time");
        break;
    case RECORD_ENUM:
        put_names(writer, field->names);
        break;
    case RECORD_NESTED:
        put_members(document, operation, field->nested, NULL);
        break;
    case RECORD_TEXT:
    case RECORD_JSON:
    case RECORD_OBJECT:
    case RECORD_ARRAY:
    case RECORD_BOOL:
    case RECORD_HEX:
        break;
    }
}

static void put_field(struct document *document, struct str operation,
                      const struct record_field *field)
{
    struct json_writer *writer = &document->writer;
    struct str words = words_for(document, operation, field->name);
    struct json_iter iter;
    struct str key;
    struct str value;
    assert(str_is_set(words)); /* anyone who adds a member says what it is for, in openapi.json */
    bool elsewhere = str_is_set(json_member(words, STR("$ref")));
    json_begin_object(writer);
    if (!elsewhere)
        put_kind(document, operation, field);
    (void)json_object_begin(&iter, words);
    while (json_object_next(&iter, &key, &value)) {
        json_key(writer, inside(key));
        json_put_raw(writer, value);
    }
    json_end_object(writer);
}

static bool is_in_path(const struct route *route, struct str name)
{
    for (size_t i = 0; route != NULL && i + name.len + 1 < route->path.len; i++)
        if (route->path.at[i] == '{' && route->path.at[i + name.len + 1] == '}' &&
            memcmp(route->path.at + i + 1, name.at, name.len) == 0)
            return true;
    return false;
}

/* "properties" of an object, without what its path says already; others are refused. */
static void put_members(struct document *document, struct str operation,
                        const struct record_type *type, const struct route *route)
{
    struct json_writer *writer = &document->writer;
    assert(type != NULL);
    json_key(writer, STR("properties"));
    json_begin_object(writer);
    for (size_t i = 0; i < type->count; i++) {
        const struct record_field *field = &type->fields[i];
        if (is_in_path(route, field->name))
            continue;
        json_key(writer, field->name);
        put_field(document, operation, field);
    }
    json_end_object(writer);
    put_raw(writer, "additionalProperties", STR("false"));
}

static void put_object(struct document *document, struct str operation,
                       const struct record_type *type, const struct route *route,
                       struct str required)
{
    struct json_writer *writer = &document->writer;
    json_begin_object(writer);
    put_text(writer, "type", "object");
    if (str_is_set(required))
        put_raw(writer, "required", required);
    put_members(document, operation, type, route);
    json_end_object(writer);
}

/* ---- operations ---- */

static void put_parameter(struct document *document, const struct operation *operation,
                          const struct record_field *field)
{
    struct json_writer *writer = &document->writer;
    bool in_path = is_in_path(operation->route, field->name);
    struct str words = words_for(document, operation->text, field->name);
    json_begin_object(writer);
    json_key(writer, STR("name"));
    json_put_string(writer, field->name);
    put_text(writer, "in", in_path ? "path" : "query");
    put_raw(writer, "required", in_path ? STR("true") : STR("false"));
    put_if_said(writer, "description", words);
    json_key(writer, STR("schema"));
    put_field(document, operation->text, field);
    json_end_object(writer);
}

static void put_parameters(struct document *document, const struct operation *operation)
{
    struct json_writer *writer = &document->writer;
    const struct route *route = operation->route;
    json_key(writer, STR("parameters"));
    json_begin_array(writer);
    for (size_t i = 0; operation->request != NULL && i < operation->request->count; i++) {
        const struct record_field *field = &operation->request->fields[i];
        if (!route_has_body(route) || is_in_path(route, field->name))
            put_parameter(document, operation, field);
    }
    if (str_eq(route->method, STR("POST")) && route->page == PAGE_VERB)
        put_reference(writer, "parameters", STR("IdempotencyKey"));
    if (str_is_set(json_member(operation->text, STR("stream"))))
        put_reference(writer, "parameters", STR("LastEventId"));
    if (str_is_set(json_member(operation->text, STR("etag"))))
        put_reference(writer, "parameters", STR("IfNoneMatch"));
    json_end_array(writer);
}

static void put_body(struct document *document, const struct operation *operation)
{
    struct json_writer *writer = &document->writer;
    struct str required = json_member(operation->text, STR("required"));
    json_key(writer, STR("requestBody"));
    json_begin_object(writer);
    put_raw(writer, "required", str_is_set(required) ? STR("true") : STR("false"));
    json_key(writer, STR("content"));
    json_begin_object(writer);
    json_key(writer, STR("application/json"));
    json_begin_object(writer);
    json_key(writer, STR("schema"));
    if (str_eq(operation->name, many_jobs))
        put_reference(writer, "schemas", STR("JobSpecs"));
    else if (operation->route->verb == VERB_submit)
        put_reference(writer, "schemas", STR("JobSpec"));
    else
        put_object(document, operation->text, operation->request, operation->route, required);
    put_if_said(writer, "example", operation->text);
    json_end_object(writer);
    json_end_object(writer);
    json_end_object(writer);
}

/* "TYPE": {"schema": ...}: what openapi.json calls that, or any text when it has no name. */
static void put_content(struct json_writer *writer, struct str type, struct str schema)
{
    json_key(writer, type);
    json_begin_object(writer);
    json_key(writer, STR("schema"));
    if (str_is_set(schema))
        put_reference(writer, "schemas", schema);
    else
        json_put_raw(writer, str_eq(type, STR("application/json")) ? STR("{\"type\":\"object\"}")
                                                                   : STR("{\"type\":\"string\"}"));
    json_end_object(writer);
}

static void put_answer(struct json_writer *writer, const struct operation *operation,
                       struct str status, struct str description, struct str schema)
{
    struct str type = inside(json_member(operation->text, STR("type")));
    json_key(writer, status);
    json_begin_object(writer);
    json_key(writer, STR("description"));
    json_put_string(writer, description);
    if (str_is_set(json_member(operation->text, STR("etag"))))
        put_raw(writer, "headers",
                STR("{\"ETag\":{\"description\":\"Changes with every change of the "
                    "response\",\"schema\":{\"type\":\"string\"}}}"));
    if (str_eq(status, STR("204"))) {
        json_end_object(writer);
        return;
    }
    json_key(writer, STR("content"));
    json_begin_object(writer);
    put_content(writer, str_is_set(type) ? type : STR("application/json"), schema);
    if (str_is_set(json_member(operation->text, STR("stream"))))
        put_content(writer, STR("text/event-stream"), (struct str){NULL, 0});
    json_end_object(writer);
    json_end_object(writer);
}

/* Pages that tell how the server is. */
static bool is_open(const struct route *route)
{
    return route->page == PAGE_HEALTH || route->page == PAGE_READY;
}

/* Whether no token is needed for it. */
static bool is_for_nobody(const struct route *route)
{
    return is_open(route) || route->page == PAGE_ROOT || route->page == PAGE_SESSION ||
           route->page == PAGE_SIGN_OUT;
}

/* Which errors an operation may have: by what it takes. */
static bool may_answer(const struct operation *operation, int status)
{
    const struct route *route = operation->route;
    if (route->page != PAGE_VERB)
        return status == 400 || status == 503 ||
               (!is_open(route) && (status == 403 || status == 429)) ||
               (!is_for_nobody(route) && status == 401);
    bool has_body = route_has_body(route);
    switch (status) {
    case 404:
        return memchr(route->path.at, '{', route->path.len) != NULL || has_body ||
               route->verb == VERB_clock;
    case 409:
        return has_body || verb_is_of_lease(route->verb);
    case 413:
    case 415:
    case 422:
        return has_body;
    default:
        return true;
    }
}

/* The statuses of error.def, each once, from the lowest on. 405 is that of other methods than those
 * which are told. */
static int next_status(int after)
{
    int next = 600;
#define ERROR(symbol, number, name, http, exit, title)                                             \
    if ((http) > after && (http) < next && (http) >= 400 && (http) != 405)                         \
        next = (http);
#include "base/error.def"
#undef ERROR
    return next;
}

/* What the answer for a status is called. */
static struct str error_name(int status, struct buf *room)
{
    buf_addf(room, "Error%d", status);
    return buf_str(room);
}

static void put_answers(struct json_writer *writer, const struct operation *operation)
{
    struct str answers = json_member(operation->text, STR("responses"));
    struct json_iter iter;
    struct json_iter pair;
    struct str key;
    struct str value;
    struct str description;
    struct str schema;
    json_key(writer, STR("responses"));
    json_begin_object(writer);
    if (!str_is_set(answers))
        put_answer(writer, operation, STR("200"), STR("Done"),
                   inside(json_member(operation->text, STR("response"))));
    else if (json_object_begin(&iter, answers))
        while (json_object_next(&iter, &key, &value)) {
            (void)json_array_begin(&pair, value);
            (void)json_array_next(&pair, &description);
            (void)json_array_next(&pair, &schema);
            put_answer(writer, operation, inside(key), inside(description), inside(schema));
        }
    if (str_is_set(json_member(operation->text, STR("etag"))))
        put_raw(writer, "304", STR("{\"description\":\"Not modified\"}"));
    for (int status = next_status(0); status < 600; status = next_status(status)) {
        char text[16];
        char number[8];
        struct buf name = {.at = text, .cap = sizeof text};
        struct buf buf = {.at = number, .cap = sizeof number};
        if (!may_answer(operation, status))
            continue;
        buf_add_int(&buf, status);
        json_key(writer, buf_str(&buf));
        put_reference(writer, "responses", error_name(status, &name));
    }
    json_end_object(writer);
}

/* Who may: nobody needs a token for how the server is; else one of these scopes opens it. */
static void put_scopes(struct json_writer *writer, const struct operation *operation)
{
    const struct route *route = operation->route;
    if (is_for_nobody(route))
        put_raw(writer, "security", STR("[]"));
    if (route->page != PAGE_VERB)
        return;
    uint32_t scopes = access_scopes_of(route->verb);
    json_key(writer, STR("x-scopes"));
    json_begin_array(writer);
    for (uint32_t scope = ACCESS_READ; scope <= ACCESS_ANSWER; scope <<= 1)
        if ((scopes & scope) != 0)
            json_put_string(writer, access_scope_name((enum access_scope)scope));
    json_end_array(writer);
}

static struct operation operation_of(const struct document *document, const struct route *route)
{
    static const struct str pages[] = {
        [PAGE_ROOT] = STR_INIT("page_root"),       [PAGE_HEALTH] = STR_INIT("page_health"),
        [PAGE_READY] = STR_INIT("page_ready"),     [PAGE_METRICS] = STR_INIT("page_metrics"),
        [PAGE_OPENAPI] = STR_INIT("page_openapi"), [PAGE_SESSION] = STR_INIT("page_session"),
        [PAGE_SIGN_IN] = STR_INIT("page_sign_in"), [PAGE_SIGN_OUT] = STR_INIT("page_sign_out"),
    };
    static const struct record_type nothing = {NULL, 0};
    bool verb = route->page == PAGE_VERB;
    struct operation operation = {.route = route,
                                  .name = verb ? verb_text(route->verb) : pages[route->page]};
    const struct record_type *request = verb ? verb_at(route->verb)->request : NULL;
    operation.request = verb && request == NULL ? &nothing : request;
    operation.text =
        verb ? str_from(route->text) : json_member(document->operations, operation.name);
    assert(str_is_set(operation.text)); /* anyone who adds a page says what it is for */
    return operation;
}

static void put_operation(struct document *document, const struct operation *operation)
{
    struct json_writer *writer = &document->writer;
    json_begin_object(writer);
    json_key(writer, STR("operationId"));
    json_put_string(writer, operation->name);
    json_key(writer, STR("tags"));
    json_begin_array(writer);
    json_put_raw(writer, json_member(operation->text, STR("tag")));
    json_end_array(writer);
    put_if_said(writer, "summary", operation->text);
    put_if_said(writer, "description", operation->text);
    put_scopes(writer, operation);
    put_parameters(document, operation);
    if (route_has_body(operation->route))
        put_body(document, operation);
    put_answers(writer, operation);
    json_end_object(writer);
}

/* The operation for many jobs, on a path of its own. */
static void put_many(struct document *document, const struct route *submit)
{
    struct json_writer *writer = &document->writer;
    struct operation operation = operation_of(document, submit);
    operation.name = many_jobs;
    operation.text = json_member(document->operations, many_jobs);
    json_key(writer, many_jobs_path);
    json_begin_object(writer);
    json_key(writer, STR("post"));
    put_operation(document, &operation);
    json_end_object(writer);
}

static struct str lower_method(struct str method)
{
    static const struct str methods[][2] = {
        {STR_INIT("GET"), STR_INIT("get")},       {STR_INIT("POST"), STR_INIT("post")},
        {STR_INIT("PUT"), STR_INIT("put")},       {STR_INIT("PATCH"), STR_INIT("patch")},
        {STR_INIT("DELETE"), STR_INIT("delete")},
    };
    size_t i = 0;
    while (i < sizeof methods / sizeof methods[0] - 1 && !str_eq(methods[i][0], method))
        i++;
    return methods[i][1];
}

/* Every path once, with all of its methods. */
static void put_paths(struct document *document)
{
    struct json_writer *writer = &document->writer;
    uint32_t count;
    const struct route *routes = routes_all(&count);
    json_key(writer, STR("paths"));
    json_begin_object(writer);
    for (uint32_t i = 0; i < count; i++) {
        bool told = routes[i].page == PAGE_ASSET; /* nobody asks for these but the dashboard */
        /* Every path once, and every verb under the name that it has today. */
        for (uint32_t j = 0; j < i; j++)
            told = told || str_eq(routes[j].path, routes[i].path) ||
                   (routes[i].page == PAGE_VERB && routes[j].verb == routes[i].verb);
        if (told)
            continue;
        json_key(writer, routes[i].path);
        json_begin_object(writer);
        for (uint32_t j = i; j < count; j++) {
            bool same = str_eq(routes[j].path, routes[i].path);
            if (!same)
                continue;
            struct operation operation = operation_of(document, &routes[j]);
            json_key(writer, lower_method(routes[j].method));
            put_operation(document, &operation);
        }
        json_end_object(writer);
        if (routes[i].page == PAGE_VERB && routes[i].verb == VERB_submit)
            put_many(document, &routes[i]);
    }
    json_end_object(writer);
}

/* ---- what operations refer to ---- */

static void put_schemas(struct document *document)
{
    struct json_writer *writer = &document->writer;
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str none = {NULL, 0};
    uint32_t count;
    json_key(writer, STR("schemas"));
    json_begin_object(writer);
    (void)json_object_begin(&iter, document->schemas);
    while (json_object_next(&iter, &key, &value)) {
        json_key(writer, inside(key));
        json_put_raw(writer, value);
    }
    json_key(writer, STR("JobSpec"));
    put_object(document, str_from(routes_all(&count)[VERB_submit].text), &spec_record, NULL,
               STR("[\"kind\"]"));
    json_key(writer, STR("StepSpec"));
    put_object(document, none, &step_spec_record, NULL, STR("[\"id\"]"));
    json_key(writer, STR("RetryPolicy"));
    put_object(document, none, &retry_policy_record, NULL, none);
    json_key(writer, STR("JobStatus"));
    json_begin_object(writer);
    put_text(writer, "type", "string");
    json_key(writer, STR("enum"));
    json_begin_array(writer);
    for (int i = 0; i < JOB_STATUS_COUNT; i++)
        json_put_string(writer, job_status_name((enum job_status)i));
    json_end_array(writer);
    json_end_object(writer);
    json_end_object(writer);
}

/* An answer for each status of error.def, which tells the codes that it may come with. */
static void put_errors(struct json_writer *writer)
{
    static const char content[] = "{\"application/problem+json\":{\"schema\":{\"$ref\":"
                                  "\"#/components/schemas/Problem\"}}}";
    json_key(writer, STR("responses"));
    json_begin_object(writer);
    for (int status = next_status(0); status < 600; status = next_status(status)) {
        char text[512];
        char name_text[16];
        struct buf name = {.at = name_text, .cap = sizeof name_text};
        struct buf buf = {.at = text, .cap = sizeof text};
#define ERROR(symbol, number, code, http, exit, title)                                             \
    if ((http) == status)                                                                          \
        buf_addf(&buf, "%s`%s`: %s.", buf.len > 0 ? " " : "", code, title);
#include "base/error.def"
#undef ERROR
        json_key(writer, error_name(status, &name));
        json_begin_object(writer);
        json_key(writer, STR("description"));
        json_put_string(writer, buf_str(&buf));
        if (status == 429 || status == 503)
            put_raw(writer, "headers",
                    STR("{\"Retry-After\":{\"description\":\"Seconds\",\"schema\":{\"type\":"
                        "\"integer\"}}}"));
        put_raw(writer, "content", str_from(content));
        json_end_object(writer);
    }
    json_end_object(writer);
}

static const char parameters[] =
    "{\"IdempotencyKey\":{\"name\":\"Idempotency-Key\",\"in\":\"header\",\"required\":false,"
    "\"description\":\"For one day, the same request with the same key returns the first response "
    "and nothing is executed twice; a different request gets "
    "422.\",\"schema\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":128}},\"LastEventId\":{"
    "\"name\":\"Last-Event-ID\",\"in\":\"header\",\"required\":false,\"description\":\"For "
    "streams: continue after this "
    "event.\",\"schema\":{\"type\":\"string\"}},\"IfNoneMatch\":{\"name\":\"If-None-Match\",\"in\":"
    "\"header\",\"required\":false,\"description\":\"The ETag of a cached "
    "response.\",\"schema\":{\"type\":\"string\"}}}";

static void put_components(struct document *document)
{
    struct json_writer *writer = &document->writer;
    json_key(writer, STR("components"));
    json_begin_object(writer);
    put_schemas(document);
    put_errors(writer);
    put_raw(writer, "parameters", str_from(parameters));
    put_raw(writer, "securitySchemes",
            STR("{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"Created by "
                "`pawl token create`. Not required on loopback, unless the server requires "
                "tokens.\"}}"));
    json_end_object(writer);
}

void openapi_write(struct buf *buf)
{
    struct str text = json_trim(str_from(openapi_text));
    struct document document = {
        .operations = json_member(text, STR("operations")),
        .fields = json_member(text, STR("fields")),
        .schemas = json_member(text, STR("schemas")),
    };
    struct json_writer *writer = &document.writer;
    json_writer_init(writer, buf);
    json_begin_object(writer);
    put_text(writer, "openapi", "3.1.0");
    json_key(writer, STR("info"));
    json_begin_object(writer);
    put_text(writer, "title", "Pawl");
    put_text(writer, "version", PAWL_VERSION);
    put_if_said(writer, "description", text);
    put_raw(writer, "license", STR("{\"name\":\"Apache-2.0\",\"identifier\":\"Apache-2.0\"}"));
    json_end_object(writer);
    put_raw(writer, "servers", STR("[{\"url\":\"/\",\"description\":\"This server\"}]"));
    put_raw(writer, "security", STR("[{},{\"token\":[]}]"));
    put_if_said(writer, "tags", text);
    put_paths(&document);
    put_components(&document);
    json_end_object(writer);
}
