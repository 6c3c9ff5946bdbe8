#include "engine/shown_event.h"

#include "base/buf.h"
#include "engine/answer.h"

enum { EVENT_BYTES = 640 }; /* about what an event has in JSON besides its payload */

void shown_event_write(const struct shown_event *shown, struct json_writer *writer)
{
    answer_event_open(writer, shown->event, shown->traceparent);
    if (shown->fed) {
        answer_text(writer, STR("kind"), shown->kind);
        answer_text(writer, STR("queue"), shown->queue);
        position_write(writer, STR("position"), shown->position);
    }
    json_end_object(writer);
}

size_t shown_event_bytes(const struct shown_event *shown)
{
    return EVENT_BYTES + shown->event->payload.len;
}

struct str shown_event_place(const struct shown_event *shown, char text[POSITION_TEXT_MAX])
{
    struct buf buf = {.at = text, .cap = POSITION_TEXT_MAX};
    if (shown->fed)
        return position_text(shown->position, text);
    buf_add_int(&buf, shown->event->version);
    return buf_str(&buf);
}
