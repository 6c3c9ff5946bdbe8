/* Events as a caller gets them, one by one or in a list: the event, what is said of its job, and
 * where to go on behind it. */
#ifndef PAWL_ENGINE_SHOWN_EVENT_H
#define PAWL_ENGINE_SHOWN_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "core/event.h"
#include "engine/position.h"

/* Where somebody who reads events stands. */
struct event_place {
    bool set;                       /* else at the beginning */
    int64_t version;                /* of a job's events: behind it; of its telemetry: the time */
    struct store_position position; /* of the feed */
};

struct shown_event {
    const struct event *event;
    struct str traceparent; /* of its job */
    bool fed;               /* it is of the feed, and has the following */
    struct str kind;        /* absent: the job is not there any more */
    struct str queue;
    struct store_position position;
};

/* As answer_event; of the feed with kind, queue and position. */
void shown_event_write(const struct shown_event *shown, struct json_writer *writer);

/* About what it is in JSON. */
size_t shown_event_bytes(const struct shown_event *shown);

/* Where to go on behind it, in words: its version, or its position; in `text`. */
struct str shown_event_place(const struct shown_event *shown, char text[POSITION_TEXT_MAX]);

#endif
