/* Figures of the server, for Prometheus: what was counted since it was started.
 *
 * The engine's thread is the only one that counts what the engine does, so that counting costs no
 * more than a few additions to memory; requests are counted by all threads that answer them.
 * Anybody may read at any time. */
#ifndef PAWL_SERVER_METRICS_H
#define PAWL_SERVER_METRICS_H

#include <stdint.h>

#include "base/buf.h"
#include "engine/observer.h"

struct metrics;

/* `seed` is for look-up tables. NULL: no memory. */
struct metrics *metrics_new(uint64_t seed);
void metrics_free(struct metrics *metrics);

/* As struct observer tells it. */
void metrics_committed(struct metrics *metrics, const struct batch_report *report);
void metrics_failed(struct metrics *metrics, enum error_code code);
void metrics_maintained(struct metrics *metrics, const struct maintenance_report *report);
void metrics_shed(struct metrics *metrics);

/* A request was answered. `route` is its number in routes_all; any that is too large: there was no
 * such route. A stream has no duration: `us` is negative. */
void metrics_answered(struct metrics *metrics, uint32_t route, unsigned status, int64_t us);

/* A stream has begun (1) or ended (-1). */
void metrics_stream(struct metrics *metrics, int change);

/* Writes all that is counted here. */
void metrics_write(struct metrics *metrics, struct buf *text);

#endif
