/* The attempt that a job is in, from one event of a change to the next: for anyone who watches the
 * engine and wants to tell whose an event was. */
#ifndef PAWL_SERVER_ATTEMPT_H
#define PAWL_SERVER_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/event.h"

struct attempt {
    bool live; /* somebody has a lease */
    int64_t number;
    int64_t since; /* when that was given */
    struct str worker_id;
};

/* Before the first event. */
static inline struct attempt attempt_before(const struct job *before)
{
    return (struct attempt){
        .live = before->lease.live,
        .number = before->attempt,
        .since = before->lease.since,
        .worker_id = before->lease.worker_id,
    };
}

/* Goes on behind an event. True: it has ended the attempt, whose lease was live. */
static inline bool attempt_see(struct attempt *attempt, const struct event *event)
{
    if (event_type_class(event->type) != EVENT_CLASS_STATE)
        return false;
    if (event_type_begins_lease(event->type)) {
        *attempt = (struct attempt){
            .live = true,
            .number = event->data.attempt,
            .since = event->at,
            .worker_id = event->data.worker_id,
        };
        return false;
    }
    if (event->data.attempt > 0)
        attempt->number = event->data.attempt;
    bool ended = attempt->live && event_type_ends_lease(event->type);
    attempt->live = attempt->live && !ended;
    return ended;
}

#endif
