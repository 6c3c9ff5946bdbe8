/* The text format of Prometheus: families of samples, labels, histograms. */
#ifndef PAWL_SERVER_METRICS_TEXT_H
#define PAWL_SERVER_METRICS_TEXT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum metric {
#define METRIC(symbol, type, name, labels, help) METRIC_##symbol,
#include "server/metrics.def"
#undef METRIC
    METRIC_COUNT,
};

enum { METRIC_LABELS_MAX = 3, BOUNDS_MAX = 16 };

/* A number that grows. Members of one are read by any thread. */
typedef _Atomic(uint64_t) counter;

/* For what only one thread writes, which then needs no locked instruction. */
static inline void counter_bump(counter *at, uint64_t by)
{
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* For what many write. */
static inline void counter_add(counter *at, uint64_t by)
{
    (void)atomic_fetch_add_explicit(at, by, memory_order_relaxed);
}

static inline uint64_t counter_read(counter *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

/* Upper ends of buckets, rising, and how many of the unit make one of what is shown: 1,000,000 for
 * microseconds shown as seconds, 1 for plain numbers. */
struct bounds {
    int64_t at[BOUNDS_MAX];
    uint32_t count;
    int64_t scale;
};

struct histogram {
    counter at[BOUNDS_MAX + 1]; /* not cumulative; the last that is used has no upper end */
    counter sum;                /* in the unit */
};

extern const struct bounds bounds_work;  /* jobs and steps: 5 ms to 4 hours */
extern const struct bounds bounds_call;  /* commits and requests: 0.5 ms to a minute */
extern const struct bounds bounds_count; /* how many at once: 1 to 1,000 */

/* The bucket of a value. */
uint32_t bounds_find(const struct bounds *bounds, int64_t value);

/* Counts a value, as the only writer, or as one of many. Negative ones count as 0. */
void histogram_bump(struct histogram *histogram, const struct bounds *bounds, int64_t value);
void histogram_add(struct histogram *histogram, const struct bounds *bounds, int64_t value);

/* Name, type, labels and help of a metric, as metrics.def has them. */
struct metric_info {
    struct str name;
    struct str type; /* "counter", "gauge", "histogram" */
    struct str labels;
    struct str help;
};
const struct metric_info *metric_info(enum metric metric);

/* Begins a family: its help and its type. All of its samples come next. */
void text_family(struct buf *text, enum metric metric);

/* One sample; `labels` has a value for each of the metric's labels. */
void text_sample(struct buf *text, enum metric metric, const struct str *labels, uint64_t value);
void text_sample_us(struct buf *text, enum metric metric, const struct str *labels, int64_t us);

/* All samples of a histogram; none when nothing was counted. */
void text_histogram(struct buf *text, enum metric metric, const struct str *labels,
                    struct histogram *histogram, const struct bounds *bounds);

#endif
