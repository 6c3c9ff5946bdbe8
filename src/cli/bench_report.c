/* What 'pawl bench' has measured, as tables for people or as JSON: of all runs the median, and how
 * far they are apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/screen.h"
#include "cli/table.h"

/* ---- figures ---- */

/* One number of a run; less than 0: it is not known. */
typedef double (*bench_figure)(const struct measure *measure);

struct spread {
    double median;
    double min;
    double max;
};

static double per_second(const struct measure *measure)
{
    return (double)measure->count / measure->seconds;
}

static double us_each(const struct measure *measure)
{
    return measure->seconds * 1e6 / (double)measure->count;
}

static double events_per_second(const struct measure *measure)
{
    return measure->events < 0 ? -1 : measure->events * per_second(measure);
}

static double client_us(const struct measure *measure)
{
    return measure->client_cpu < 0 ? -1 : measure->client_cpu * 1e6 / (double)measure->count;
}

static double server_us(const struct measure *measure)
{
    return measure->server_cpu < 0 ? -1 : measure->server_cpu * 1e6 / (double)measure->count;
}

static double p50(const struct measure *measure)
{
    return measure->latency[0];
}

static double p95(const struct measure *measure)
{
    return measure->latency[1];
}

static double p99(const struct measure *measure)
{
    return measure->latency[2];
}

static int by_size(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

static struct spread spread_of(const struct row *row, bench_figure figure)
{
    double values[BENCH_REPEATS_MAX] = {0};
    size_t count = row->count;
    for (size_t i = 0; i < count; i++)
        values[i] = figure(&row->runs[i]);
    if (count == 0)
        return (struct spread){-1, -1, -1};
    qsort(values, count, sizeof values[0], by_size);
    double middle =
        count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    return (struct spread){middle, values[0], values[count - 1]};
}

static bool has_latencies(const struct row *row)
{
    return row->count > 0 && row->runs[0].has_latencies;
}

/* The rate relative to that with the fewest jobs waiting, or without background load; less than 0:
 * there is nothing to compare with. */
static double ratio_of(const struct bench *bench, const struct row *row)
{
    if (row->under_load)
        return spread_of(row, per_second).median / spread_of(row - 1, per_second).median;
    for (const struct row *first = bench->rows; first < row; first++)
        if (first->waiting >= 0 && row->waiting > first->waiting)
            return spread_of(row, per_second).median / spread_of(first, per_second).median;
    return -1;
}

/* ---- for people ---- */

/* With a comma for the thousands; few digits behind the point where that is much. */
static const char *number_text(double value, char ret[32])
{
    char digits[32];
    if (value < 0)
        return NULL;
    if (value < 100) {
        (void)snprintf(ret, 32, value < 10 ? "%.2f" : "%.1f", value);
        return ret;
    }
    size_t len = (size_t)snprintf(digits, sizeof digits, "%.0f", value);
    size_t at = 0;
    for (size_t i = 0; i < len && at + 2 < 32; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            ret[at++] = ',';
        ret[at++] = digits[i];
    }
    ret[at] = '\0';
    return ret;
}

static void put_number(struct table *table, double value)
{
    char text[32];
    table_text(table, number_text(value, text));
}

static void put_spread(struct table *table, struct spread spread)
{
    put_number(table, spread.median);
    put_number(table, spread.min);
    put_number(table, spread.max);
}

static enum cli_exit print_rates(const struct bench *bench)
{
    static const struct column columns[] = {
        {.title = "SCENARIO"},
        {.title = "CASE"},
        {.title = "PER SECOND", .right = true},
        {.title = "LEAST", .right = true},
        {.title = "MOST", .right = true},
        {.title = "UNIT", .optional = true},
        {.title = "CPU US", .right = true},
        {.title = "SERVER US", .right = true},
        {.title = "EVENTS/S", .right = true, .optional = true},
        {.title = "BYTES", .right = true, .optional = true},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < bench->row_count; i++) {
        const struct row *row = &bench->rows[i];
        if (has_latencies(row))
            continue;
        table_text(table, row->scenario);
        table_text(table, row->label);
        put_spread(table, spread_of(row, per_second));
        table_text(table, row->unit);
        put_number(table, spread_of(row, client_us).median);
        put_number(table, spread_of(row, server_us).median);
        put_number(table, spread_of(row, events_per_second).median);
        put_number(table, row->bytes);
    }
    enum cli_exit code = CLI_DONE;
    if (table == NULL || table_rows(table) > 0)
        code = table_print(bench->args->verb, table, true);
    table_free(table);
    return code;
}

static enum cli_exit print_latencies(const struct bench *bench)
{
    static const struct column columns[] = {
        {.title = "SCENARIO"},
        {.title = "CASE"},
        {.title = "P50 MS", .right = true},
        {.title = "LEAST", .right = true, .optional = true},
        {.title = "MOST", .right = true, .optional = true},
        {.title = "P95 MS", .right = true},
        {.title = "P99 MS", .right = true},
        {.title = "LEAST", .right = true, .optional = true},
        {.title = "MOST", .right = true, .optional = true},
        {.title = "PER SECOND", .right = true},
        {.title = "CPU US", .right = true, .optional = true},
        {.title = "SERVER US", .right = true, .optional = true},
        {.title = "BYTES", .right = true, .optional = true},
    };
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < bench->row_count; i++) {
        const struct row *row = &bench->rows[i];
        if (!has_latencies(row))
            continue;
        table_text(table, row->scenario);
        table_text(table, row->label);
        put_spread(table, spread_of(row, p50));
        put_number(table, spread_of(row, p95).median);
        put_spread(table, spread_of(row, p99));
        put_number(table, spread_of(row, per_second).median);
        put_number(table, spread_of(row, client_us).median);
        put_number(table, spread_of(row, server_us).median);
        put_number(table, row->bytes);
    }
    enum cli_exit code = CLI_DONE;
    if (table == NULL || table_rows(table) > 0)
        code = table_print(bench->args->verb, table, true);
    table_free(table);
    return code;
}

/* Whether there is something for both tables. */
static bool has_both(const struct bench *bench)
{
    size_t latencies = 0;
    for (size_t i = 0; i < bench->row_count; i++)
        latencies += has_latencies(&bench->rows[i]);
    return latencies > 0 && latencies < bench->row_count;
}

static void print_ratios(const struct bench *bench)
{
    for (size_t i = 0; i < bench->row_count; i++) {
        double ratio = ratio_of(bench, &bench->rows[i]);
        if (ratio >= 0 && bench->rows[i].under_load)
            printf("mixed: %.2f times the throughput without background load\n", ratio);
        else if (ratio >= 0)
            printf("backlog: with %lld waiting jobs, %.2f times the throughput of the smallest "
                   "backlog\n",
                   bench->rows[i].waiting, ratio);
    }
}

static enum cli_exit print_tables(const struct bench *bench)
{
    print_text(bench->where);
    printf(", %s\n", bench->manner);
    if (bench->batch > 0)
        printf("%lld per call, ", bench->batch);
    printf("%lld client%s, payloads of %lld bytes; median of %lld run%s\n", bench->clients,
           bench->clients == 1 ? "" : "s", bench->payload_bytes, bench->repeat,
           bench->repeat == 1 ? "" : "s");
    if (bench->syncs >= 0) {
        char text[32];
        printf("disk: %s syncs per second\n", number_text(bench->syncs, text));
    }
    putchar('\n');
    enum cli_exit code = print_rates(bench);
    if (code == CLI_DONE)
        print_ratios(bench);
    if (code == CLI_DONE && has_both(bench))
        putchar('\n');
    return code == CLI_DONE ? print_latencies(bench) : code;
}

/* ---- for programs ---- */

static void add_number(struct draft *draft, const char *key, double value)
{
    if (value < 0)
        draft_print(draft, ",\"%s\":null", key);
    else
        draft_print(draft, ",\"%s\":%.3f", key, value);
}

static void add_spread(struct draft *draft, const char *key, struct spread spread)
{
    if (spread.median < 0)
        draft_print(draft, ",\"%s\":null", key);
    else
        draft_print(draft, ",\"%s\":{\"median\":%.3f,\"min\":%.3f,\"max\":%.3f}", key,
                    spread.median, spread.min, spread.max);
}

static void add_runs(struct draft *draft, const struct row *row)
{
    draft_text(draft, ",\"runs\":[");
    for (size_t i = 0; i < row->count; i++) {
        const struct measure *measure = &row->runs[i];
        draft_print(draft, "%s{\"count\":%lld,\"start_s\":%.6f,\"seconds\":%.6f", i > 0 ? "," : "",
                    measure->count, measure->start, measure->seconds);
        if (measure->client_cpu >= 0)
            draft_print(draft, ",\"client_cpu_s\":%.6f", measure->client_cpu);
        add_number(draft, "server_cpu_s", measure->server_cpu);
        draft_text(draft, "}");
    }
    draft_text(draft, "]");
}

static void add_row(struct draft *draft, const struct bench *bench, const struct row *row)
{
    draft_print(draft, "%s{\"scenario\":\"%s\",\"case\":\"%s\",\"unit\":\"%s\"",
                row > bench->rows ? "," : "", row->scenario, row->label, row->unit);
    add_spread(draft, "per_second", spread_of(row, per_second));
    add_spread(draft, "us_each", spread_of(row, us_each));
    add_spread(draft, "events_per_second", spread_of(row, events_per_second));
    add_spread(draft, "client_cpu_us", spread_of(row, client_us));
    add_spread(draft, "server_cpu_us", spread_of(row, server_us));
    add_number(draft, "bytes_per_job", row->bytes);
    if (has_latencies(row)) {
        draft_print(draft, ",\"latency_ms\":{\"what\":\"%s\"", row->what);
        add_spread(draft, "p50", spread_of(row, p50));
        add_spread(draft, "p95", spread_of(row, p95));
        add_spread(draft, "p99", spread_of(row, p99));
        draft_text(draft, "}");
    }
    if (row->waiting >= 0)
        draft_print(draft, ",\"waiting\":%lld", row->waiting);
    if (row->waiting >= 0 || row->under_load)
        add_number(draft, "ratio", ratio_of(bench, row));
    add_runs(draft, row);
    draft_text(draft, "}");
}

static enum cli_exit print_as_json(const struct bench *bench)
{
    struct draft results = {0};
    draft_text(&results, "[");
    for (size_t i = 0; i < bench->row_count; i++)
        add_row(&results, bench, &bench->rows[i]);
    draft_text(&results, "]");
    struct draft syncs = {0};
    draft_print(&syncs, "%.1f", bench->syncs);
    struct pawl_object *answer = pawl_object_new();
    pawl_object_text(answer, "version", pawl_version());
    pawl_object_text(answer, "store", bench->where);
    pawl_object_text(answer, "manner", bench->manner);
    if (bench->batch > 0)
        pawl_object_int(answer, "batch", bench->batch);
    pawl_object_int(answer, "clients", bench->clients);
    pawl_object_int(answer, "payload_bytes", bench->payload_bytes);
    pawl_object_int(answer, "repeat", bench->repeat);
    pawl_object_int(answer, "warm_up", bench->warm_up);
    if (bench->syncs >= 0)
        pawl_object_json(answer, "disk_syncs_per_second", syncs.at);
    pawl_object_json(answer, "results", results.failed ? "" : results.at);
    const char *text = answer != NULL ? pawl_object_str(answer) : NULL;
    if (text != NULL)
        print_answer(text);
    pawl_object_free(answer);
    draft_free(&results);
    draft_free(&syncs);
    return text != NULL ? CLI_DONE : cli_no_memory(bench->args->verb);
}

enum cli_exit report_print(const struct bench *bench)
{
    return cli_has(bench->args, "--json") ? print_as_json(bench) : print_tables(bench);
}
