#include "engine/event_filter.h"

#include <assert.h>

static enum error_code add_type(struct str name, struct event_filter *filter, struct err *err)
{
    enum event_type type = event_type_parse(name);
    if (type == EVENT_UNKNOWN)
        return err_set(err, ERR_BAD_REQUEST,
                       "type: unknown event type \"%.*s\"; use a name such as job_created, or a "
                       "custom type with a dot",
                       STR_ARG(name));
    assert(type < 64);
    if (type != EVENT_CUSTOM) {
        filter->types |= UINT64_C(1) << type;
        return ERR_OK;
    }
    if (filter->custom_count == EVENT_FILTER_MAX)
        return err_set(err, ERR_BAD_REQUEST, "type may name at most %d custom types",
                       EVENT_FILTER_MAX);
    filter->custom[filter->custom_count++] = name;
    return ERR_OK;
}

enum error_code event_filter_read(struct str list, struct arena *arena, struct event_filter *ret,
                                  struct err *err)
{
    struct event_filter filter = {.limited = str_is_set(list)};
    enum error_code code = ERR_OK;
    struct str name;
    if (!filter.limited) {
        *ret = filter;
        return ERR_OK;
    }
    filter.custom = arena_zalloc(arena, EVENT_FILTER_MAX, sizeof *filter.custom);
    if (filter.custom == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (list.len == 0)
        return err_set(err, ERR_BAD_REQUEST, "type must not be empty");
    while (code == ERR_OK && str_take(&list, ',', &name))
        code = add_type(name, &filter, err);
    if (code == ERR_OK)
        *ret = filter;
    return code;
}

bool event_filter_passes(const struct event_filter *filter, const struct event *event)
{
    if (!filter->limited)
        return true;
    if (event->type != EVENT_CUSTOM)
        return event->type != EVENT_UNKNOWN && (filter->types >> event->type & 1) != 0;
    for (uint32_t i = 0; i < filter->custom_count; i++)
        if (str_eq(filter->custom[i], event_name(event)))
            return true;
    return false;
}
