/* The types of events: their numbers, names, aliases, and what class each belongs to. */
#ifndef PAWL_CORE_EVENT_TYPE_H
#define PAWL_CORE_EVENT_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum event_type {
    EVENT_UNKNOWN = 0, /* a type that this version does not know; its name is kept */
#define EVENT(symbol, number, name, class_, fields) EVENT_##symbol = (number),
#include "core/event.def"
};

enum event_class {
    EVENT_CLASS_STATE,
    EVENT_CLASS_FACT,
    EVENT_CLASS_STEP,
    EVENT_CLASS_APPENDED,
    EVENT_CLASS_TELEMETRY,
};

/* The canonical name; "" for EVENT_CUSTOM and EVENT_UNKNOWN, whose names are in the event. */
struct str event_type_name(enum event_type type);

/* The type of a name, aliases included. A name with a dot is EVENT_CUSTOM; any other that is not in
 * the list is EVENT_UNKNOWN. */
enum event_type event_type_parse(struct str name);

/* The class of a type; APPENDED for EVENT_UNKNOWN, which moves nothing. */
enum event_class event_type_class(enum event_type type);

/* The payload fields that a type may carry, as a mask over event.def's fields. */
uint64_t event_type_fields(enum event_type type);

/* Whether an event of that type begins a lease, of the job or of the step that it is about, unless
 * one is live: it carries the hash of a token. And whether it ends the one that is live: it records
 * what heartbeats have brought. */
bool event_type_begins_lease(enum event_type type);
bool event_type_ends_lease(enum event_type type);

#endif
