#include "engine/give_back.h"

#include "base/json.h"
#include "base/planted.h"

/* Adds a release of each lease in a claim's answer to the operations of a batch. `ret_first` is the
 * first token of all, when there is one. */
static void add_releases(struct str answer, struct json_writer *ops, struct str *ret_first)
{
    struct json_iter iter;
    struct str claim;
    if (!json_array_begin(&iter, json_member(answer, STR("claims"))))
        return;
    while (json_array_next(&iter, &claim)) {
        struct str token = json_member(json_member(claim, STR("lease")), STR("token"));
        if (json_type(token) != JSON_STRING)
            continue;
        if (!str_is_set(*ret_first))
            *ret_first = (struct str){token.at + 1, token.len - 2};
        json_begin_object(ops);
        json_key(ops, STR("op"));
        json_put_string(ops, STR("release"));
        json_key(ops, STR("token"));
        json_put_raw(ops, token);
        json_end_object(ops);
    }
}

/* Writes the request for a batch that releases all leases. Returns the first token; absent: there
 * is none. */
static struct str write_releases(const struct lost_answer *lost, struct buf *request)
{
    struct json_writer writer;
    struct json_iter iter;
    struct str result;
    struct str first = {NULL, 0};
    json_writer_init(&writer, request);
    json_begin_object(&writer);
    json_key(&writer, STR("ops"));
    json_begin_array(&writer);
    if (verb_is_claim(lost->name))
        add_releases(lost->answer, &writer, &first);
    else if (json_array_begin(&iter, json_member(lost->answer, STR("results"))))
        while (json_array_next(&iter, &result))
            add_releases(json_member(result, STR("body")), &writer, &first);
    json_end_array(&writer);
    json_end_object(&writer);
    return first;
}

/* Writes the answer of a batch as if its claims had found nothing. */
static void render_rest(void *arg, struct buf *buf)
{
    const struct lost_answer *lost = arg;
    struct buf body;
    struct json_writer writer;
    struct json_iter iter;
    struct str result;
    buf_init(&body, buf->arena, lost->answer.len);
    json_writer_init(&writer, &body);
    json_begin_object(&writer);
    json_key(&writer, STR("results"));
    json_begin_array(&writer);
    bool any = json_array_begin(&iter, json_member(lost->answer, STR("results")));
    while (any && json_array_next(&iter, &result)) {
        struct str claims = json_member(json_member(result, STR("body")), STR("claims"));
        json_put_raw(&writer, json_type(claims) == JSON_ARRAY
                                  ? STR("{\"status\":200,\"body\":{\"claims\":[]}}")
                                  : result);
    }
    json_end_array(&writer);
    json_end_object(&writer);
    if (!body.failed)
        verb_keep_answer(200, buf_str(&body), buf);
}

/* Has the record of the request give way together with the leases. */
static void take_record(struct call *call, const struct lost_answer *lost, struct str token)
{
    struct op_request *request = &call->ops[0]->request;
    if (!str_is_set(lost->scope))
        return;
    request->scope = lost->scope;
    request->key = lost->key;
    request->lost = token;
    request->render = verb_is_claim(lost->name) ? NULL : render_rest;
    request->arg = (void *)(uintptr_t)lost;
    for (uint32_t i = 1; i < call->count; i++)
        call->ops[i]->joined = true;
}

void give_back_leases(struct engine *engine, const struct lost_answer *lost)
{
    struct arena arena;
    struct buf request;
    if ((!verb_is_claim(lost->name) && lost->name != VERB_batch) || PLANTED(LOST_LEASES_STAY))
        return;
    arena_init(&arena);
    buf_init(&request, &arena, 1024);
    struct str token = write_releases(lost, &request);
    struct verb_call call = {
        .engine = engine,
        .arena = &arena,
        .name = VERB_batch,
        .request = buf_str(&request),
        .actor = STR("engine"),
    };
    if (str_is_set(token) && !request.failed && verb_prepare(&call, NULL) == ERR_OK) {
        if (call.call.count > 0) {
            take_record(&call.call, lost, token);
            (void)engine_run(engine, &call.call, NULL);
        }
        call_release(&call.call);
    }
    arena_release(&arena);
}
