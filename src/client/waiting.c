#include "client/waiting.h"

#include "base/json.h"
#include "core/machine.h"

bool waiting_find(enum verb_name name, struct str request, struct waiting *ret)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    ret->wait_ms = verb_wait_ms(name, request);
    if (ret->wait_ms == 0)
        return false;
    (void)json_object_begin(&iter, request);
    while (json_object_next(&iter, &key, &value))
        if (json_key_is(key, STR("wait_ms")))
            break;
    const char *end = value.at + value.len;
    ret->before = (struct str){request.at, (size_t)(value.at - request.at)};
    ret->after = (struct str){end, request.len - (size_t)(end - request.at)};
    return true;
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
