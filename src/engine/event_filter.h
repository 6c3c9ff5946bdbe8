/* Which events a reader wants: the types that `?type=a,b` names, of the feed and of one job. */
#ifndef PAWL_ENGINE_EVENT_FILTER_H
#define PAWL_ENGINE_EVENT_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/event.h"

enum { EVENT_FILTER_MAX = 64 };

struct event_filter {
    uint64_t types;     /* bits by number; custom ones are by name */
    struct str *custom; /* names with a dot */
    uint32_t custom_count;
    bool limited; /* false: every event passes */
};

/* Reads names with commas between; absent: all events pass. Names of the seeds are read as the
 * canonical ones. bad_request names one that is no type. Views of `list` are kept. */
enum error_code event_filter_read(struct str list, struct arena *arena, struct event_filter *ret,
                                  struct err *err);

/* Whether the event passes; it need not be opened. */
bool event_filter_passes(const struct event_filter *filter, const struct event *event);

#endif
