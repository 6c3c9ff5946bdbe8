#include "engine/give_back.h"

#include "base/json.h"

static void release_lease(struct engine *engine, struct str token)
{
    struct arena arena;
    struct buf request;
    struct buf answer;
    struct json_writer writer;
    arena_init(&arena);
    buf_init(&request, &arena, 256);
    buf_init(&answer, &arena, 1024);
    json_writer_init(&writer, &request);
    json_begin_object(&writer);
    json_key(&writer, STR("token"));
    json_put_raw(&writer, token);
    json_end_object(&writer);
    struct verb_call call = {
        .engine = engine,
        .arena = &arena,
        .name = VERB_release,
        .request = buf_str(&request),
        .actor = STR("engine"),
    };
    /* When it fails the lease ends by itself, in its time. */
    if (!request.failed)
        (void)verb_do(&call, &answer, NULL);
    arena_release(&arena);
}

void give_back_leases(struct engine *engine, enum verb_name name, struct str answer)
{
    struct json_iter iter;
    struct str item;
    if (name == VERB_batch && json_array_begin(&iter, json_member(answer, STR("results"))))
        while (json_array_next(&iter, &item))
            give_back_leases(engine, VERB_claim, json_member(item, STR("body")));
    if (name != VERB_claim && name != VERB_claim_steps)
        return;
    if (json_array_begin(&iter, json_member(answer, STR("claims"))))
        while (json_array_next(&iter, &item)) {
            struct str token = json_member(json_member(item, STR("lease")), STR("token"));
            if (json_type(token) == JSON_STRING)
                release_lease(engine, token);
        }
}
