#include "server/metrics_text.h"

#include <assert.h>

#define MS(ms) ((int64_t)(ms)*1000)
#define SECONDS(s) ((int64_t)(s)*1000 * 1000)

const struct bounds bounds_work = {
    .at = {MS(5), MS(25), MS(100), MS(500), SECONDS(1), MS(2500), SECONDS(5), SECONDS(10),
           SECONDS(30), SECONDS(60), SECONDS(300), SECONDS(900), SECONDS(3600), SECONDS(14400)},
    .count = 14,
    .scale = 1000 * 1000,
};

const struct bounds bounds_call = {
    .at = {500, MS(1), 2500, MS(5), MS(10), MS(25), MS(50), MS(100), MS(250), MS(500), SECONDS(1),
           MS(2500), SECONDS(5), SECONDS(10), SECONDS(30), SECONDS(60)},
    .count = 16,
    .scale = 1000 * 1000,
};

const struct bounds bounds_count = {
    .at = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
    .count = 10,
    .scale = 1,
};

uint32_t bounds_find(const struct bounds *bounds, int64_t value)
{
    uint32_t i = 0;
    while (i < bounds->count && value > bounds->at[i])
        i++;
    return i;
}

void histogram_bump(struct histogram *histogram, const struct bounds *bounds, int64_t value)
{
    counter_bump(&histogram->at[bounds_find(bounds, value)], 1);
    counter_bump(&histogram->sum, value > 0 ? (uint64_t)value : 0);
}

void histogram_add(struct histogram *histogram, const struct bounds *bounds, int64_t value)
{
    counter_add(&histogram->at[bounds_find(bounds, value)], 1);
    counter_add(&histogram->sum, value > 0 ? (uint64_t)value : 0);
}

/* ---- text ---- */

static const struct metric_info metrics[] = {
#define COUNTER "counter"
#define GAUGE "gauge"
#define HISTOGRAM "histogram"
#define METRIC(symbol, type, name, labels, help)                                                   \
    {STR_INIT(name), STR_INIT(type), STR_INIT(labels), STR_INIT(help)},
#include "server/metrics.def"
#undef METRIC
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

const struct metric_info *metric_info(enum metric metric)
{
    assert(metric < METRIC_COUNT);
    return &metrics[metric];
}

void text_family(struct buf *text, enum metric metric)
{
    const struct metric_info *info = metric_info(metric);
    buf_add(text, STR("# HELP "));
    buf_add(text, info->name);
    buf_add_char(text, ' ');
    buf_add(text, info->help);
    buf_add(text, STR("\n# TYPE "));
    buf_add(text, info->name);
    buf_add_char(text, ' ');
    buf_add(text, info->type);
    buf_add_char(text, '\n');
}

/* Names are whatever users choose. Only these three mean something here; all else stays as it is,
 * so that two names never become one. */
static void add_escaped(struct buf *text, struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (c == '\\' || c == '"')
            buf_add_char(text, '\\');
        if (c == '\n')
            buf_add(text, STR("\\n"));
        else
            buf_add_char(text, c);
    }
}

static void add_number(struct buf *text, int64_t value, int64_t scale)
{
    char digits[8];
    size_t len = 0;
    buf_add_int(text, value / scale);
    for (int64_t rest = value % scale; rest > 0 && len < sizeof digits; rest = rest * 10 % scale)
        digits[len++] = (char)('0' + rest * 10 / scale);
    if (len > 0)
        buf_add_char(text, '.');
    buf_add(text, (struct str){digits, len});
}

/* `name_suffix{labels,le="..."} `; `le` is the bucket's, when `bounds` are given. */
static void add_head(struct buf *text, enum metric metric, const char *suffix,
                     const struct str *labels, const struct bounds *bounds, uint32_t bucket)
{
    const struct metric_info *info = metric_info(metric);
    struct str rest = info->labels;
    struct str name;
    uint32_t count = 0;
    buf_add(text, info->name);
    buf_add(text, str_from(suffix));
    while (str_take(&rest, ',', &name)) {
        assert(count < METRIC_LABELS_MAX);
        buf_add_char(text, count == 0 ? '{' : ',');
        buf_add(text, name);
        buf_add(text, STR("=\""));
        add_escaped(text, labels[count++]);
        buf_add_char(text, '"');
    }
    if (bounds != NULL) {
        buf_add(text, count++ == 0 ? STR("{le=\"") : STR(",le=\""));
        if (bucket == bounds->count)
            buf_add(text, STR("+Inf"));
        else
            add_number(text, bounds->at[bucket], bounds->scale);
        buf_add_char(text, '"');
    }
    buf_add(text, count == 0 ? STR(" ") : STR("} "));
}

void text_sample(struct buf *text, enum metric metric, const struct str *labels, uint64_t value)
{
    add_head(text, metric, "", labels, NULL, 0);
    buf_add_int(text, (int64_t)value);
    buf_add_char(text, '\n');
}

void text_sample_us(struct buf *text, enum metric metric, const struct str *labels, int64_t us)
{
    add_head(text, metric, "", labels, NULL, 0);
    add_number(text, us > 0 ? us : 0, SECONDS(1));
    buf_add_char(text, '\n');
}

void text_histogram(struct buf *text, enum metric metric, const struct str *labels,
                    struct histogram *histogram, const struct bounds *bounds)
{
    uint64_t counts[BOUNDS_MAX + 1];
    uint64_t total = 0;
    /* Read once: what is counted meanwhile comes next time, and the parts agree. */
    int64_t sum = (int64_t)counter_read(&histogram->sum);
    for (uint32_t i = 0; i <= bounds->count; i++) {
        total += counter_read(&histogram->at[i]);
        counts[i] = total;
    }
    if (total == 0)
        return;
    for (uint32_t i = 0; i <= bounds->count; i++) {
        add_head(text, metric, "_bucket", labels, bounds, i);
        buf_add_int(text, (int64_t)counts[i]);
        buf_add_char(text, '\n');
    }
    add_head(text, metric, "_sum", labels, NULL, 0);
    add_number(text, sum, bounds->scale);
    buf_add_char(text, '\n');
    add_head(text, metric, "_count", labels, NULL, 0);
    buf_add_int(text, (int64_t)total);
    buf_add_char(text, '\n');
}
