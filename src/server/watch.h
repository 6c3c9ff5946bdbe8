/* Those who wait for a change in the store without a thread of their own: requests that ask to
 * wait, and streams of events. One thread watches the store for all of them, and only looks at what
 * somebody waits for. */
#ifndef PAWL_SERVER_WATCH_H
#define PAWL_SERVER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/uuid.h"
#include "engine/engine.h"

struct watch;

/* One who waits. Memory of its owner, who must leave it alone from watch_park to `wake`. */
struct watcher {
    bool any;                              /* any change will do; else one of the job */
    struct uuid job;                       /* whose version is no longer */
    int64_t version;                       /* this one */
    uint64_t seen;                         /* what watch_seen said before the owner looked */
    int64_t until;                         /* on the engine's steady clock: wake then in any case */
    void (*wake)(struct watcher *watcher); /* on the thread of the watch: must not block */
    /* Asked every now and then, as above; false: wake, since nobody waits any more. */
    bool (*wanted)(const struct watcher *watcher);

    struct watcher *next; /* the watch's */
    struct watcher *previous;
};

/* NULL: no memory, or no thread. */
struct watch *watch_open(struct engine *engine);

/* Wakes everybody, now and from now on: for the end. */
void watch_interrupt(struct watch *watch);

/* Ends it, when nobody is parked any more. NULL does nothing. */
void watch_close(struct watch *watch);

/* The state of the store now, to be asked for before one looks at it. */
uint64_t watch_seen(struct watch *watch);

/* Waits. `wake` may be called before this returns. */
void watch_park(struct watch *watch, struct watcher *watcher);

#endif
