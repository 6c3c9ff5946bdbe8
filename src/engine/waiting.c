#include "engine/waiting.h"

#include "base/json.h"
#include "core/machine.h"

bool waiting_find(enum verb_name name, struct str request, struct waiting *ret)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct arena arena;
    if ((!verb_is_claim(name) && !verb_is_watch(name)) || !str_is_set(request))
        return false;
    arena_init(&arena);
    bool sound =
        json_check_request(request, REQUEST_BYTES_MAX, "the request", &arena, NULL) == ERR_OK;
    arena_release(&arena);
    if (!sound || !json_object_begin(&iter, request))
        return false;
    while (json_object_next(&iter, &key, &value)) {
        int64_t wait_ms;
        if (!json_key_is(key, STR("wait_ms")))
            continue;
        const char *end = value.at + value.len;
        ret->before = (struct str){request.at, (size_t)(value.at - request.at)};
        ret->after = (struct str){end, request.len - (size_t)(end - request.at)};
        if (!json_int64(value, &wait_ms) || wait_ms <= 0 || wait_ms > WAIT_MS_MAX)
            return false;
        ret->wait_ms = wait_ms;
        return true;
    }
    return false;
}

void waiting_write(const struct waiting *waiting, int64_t wait_ms, struct buf *request)
{
    buf_add(request, waiting->before);
    buf_add_int(request, wait_ms);
    buf_add(request, waiting->after);
}

bool waiting_has_come(enum verb_name name, struct str answer, struct arena *arena)
{
    struct str text;
    enum job_status status;
    if (verb_is_claim(name))
        return json_count(json_member(answer, STR("claims"))) > 0;
    if (name != VERB_get)
        return json_count(json_member(answer, STR("events"))) > 0;
    return !json_string(json_member(answer, STR("status")), arena, &text) ||
           !job_status_parse(text, &status) || job_status_terminal(status);
}
