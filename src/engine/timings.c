#include "engine/timings.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/access.h"
#include "engine/answer.h"

/* Jobs come with their payloads, which may be large: not too many at once. */
enum { PAGE_JOBS = 50 };

struct job_timing timing_of(const struct job *job)
{
    int64_t since = job->lease.since;
    struct job_timing timing = {
        .kind = job->spec.kind,
        .ms = {-1, -1, job->updated_at - job->created_at},
        .ended_at = job->updated_at,
    };
    if (since > 0) {
        timing.ms[TIMING_WAIT] = since > job->run_at ? since - job->run_at : 0;
        timing.ms[TIMING_RUN] = job->updated_at - since;
    }
    return timing;
}

int64_t timing_percentile(const int64_t *sorted, uint32_t count, uint32_t percent)
{
    assert(percent >= 1 && percent <= 100);
    if (count == 0)
        return -1;
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;
    return sorted[rank - 1];
}

int64_t timing_per_minute(const int64_t *ended_at, uint32_t count, uint32_t max, int64_t now)
{
    uint32_t recent = 0;
    int64_t first = now;
    assert(count <= max);
    for (uint32_t i = 0; i < count; i++) {
        recent += ended_at[i] > now - RECENT_MS;
        first = ended_at[i] < first ? ended_at[i] : first;
    }
    if (recent < max)
        return recent;
    int64_t span_ms = now > first ? now - first : 1;
    return (int64_t)recent * RECENT_MS / span_ms;
}

static int by_kind(const void *a, const void *b)
{
    const struct job_timing *left = a;
    const struct job_timing *right = b;
    return str_cmp(left->kind, right->kind);
}

static int by_size(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;
    return (*left > *right) - (*left < *right);
}

static void write_timing(struct json_writer *writer, struct str key, const struct job_timing *jobs,
                         uint32_t count, enum timing timing, int64_t *scratch)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++)
        if (jobs[i].ms[timing] >= 0)
            scratch[known++] = jobs[i].ms[timing];
    if (known == 0)
        return;
    qsort(scratch, known, sizeof *scratch, by_size);
    json_key(writer, key);
    json_begin_object(writer);
    answer_int(writer, STR("p50"), timing_percentile(scratch, known, 50));
    answer_int(writer, STR("p95"), timing_percentile(scratch, known, 95));
    json_end_object(writer);
}

bool timings_sort(struct timings *timings, struct arena *arena)
{
    timings->scratch = arena_alloc(arena, timings->count * sizeof *timings->scratch);
    if (timings->count > 1)
        qsort(timings->jobs, timings->count, sizeof *timings->jobs, by_kind);
    return timings->scratch != NULL;
}

void timings_write(const struct timings *timings, struct json_writer *writer)
{
    const struct job_timing *jobs = timings->jobs;
    int64_t *scratch = timings->scratch;
    json_key(writer, STR("kinds"));
    json_begin_array(writer);
    for (uint32_t at = 0; at < timings->count;) {
        uint32_t end = at + 1;
        while (end < timings->count && str_eq(jobs[end].kind, jobs[at].kind))
            end++;
        json_begin_object(writer);
        answer_text(writer, STR("kind"), jobs[at].kind);
        answer_int(writer, STR("count"), end - at);
        write_timing(writer, STR("wait_ms"), jobs + at, end - at, TIMING_WAIT, scratch);
        write_timing(writer, STR("run_ms"), jobs + at, end - at, TIMING_RUN, scratch);
        write_timing(writer, STR("total_ms"), jobs + at, end - at, TIMING_TOTAL, scratch);
        json_end_object(writer);
        at = end;
    }
    json_end_array(writer);
}

/* "NAME_p50_ms" and "NAME_p95_ms"; neither when it is known of none. */
static void write_recent(struct json_writer *writer, struct str half, struct str most,
                         const struct timings *timings, enum timing timing, int64_t now,
                         int64_t *scratch)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < timings->count; i++) {
        const struct job_timing *job = &timings->jobs[i];
        if (job->ended_at > now - RECENT_MS && job->ms[timing] >= 0)
            scratch[known++] = job->ms[timing];
    }
    if (known == 0)
        return;
    qsort(scratch, known, sizeof *scratch, by_size);
    answer_int(writer, half, timing_percentile(scratch, known, 50));
    answer_int(writer, most, timing_percentile(scratch, known, 95));
}

void timings_write_recent(const struct timings *timings, int64_t now, struct json_writer *writer)
{
    int64_t *scratch = timings->scratch;
    for (uint32_t i = 0; i < timings->count; i++)
        scratch[i] = timings->jobs[i].ended_at;
    json_key(writer, STR("recent"));
    json_begin_object(writer);
    answer_int(writer, STR("completed_per_min"),
               timing_per_minute(scratch, timings->count, TIMINGS_JOBS_MAX, now));
    answer_int(
        writer, STR("failed_per_min"),
        timing_per_minute(timings->failed_at, timings->failed_count, TIMINGS_FAILED_MAX, now));
    write_recent(writer, STR("wait_p50_ms"), STR("wait_p95_ms"), timings, TIMING_WAIT, now,
                 scratch);
    write_recent(writer, STR("run_p50_ms"), STR("run_p95_ms"), timings, TIMING_RUN, now, scratch);
    json_end_object(writer);
}

/* Reads the newest jobs of some statuses, at most `max`, and gives each to `add`. */
static enum error_code read_ended(const struct verb_call *call, struct store_txn *txn,
                                  uint32_t statuses, uint32_t max,
                                  void (*add)(const struct verb_call *call, const struct job *job,
                                              struct timings *timings),
                                  struct timings *timings, struct err *err)
{
    struct store_reach reach; /* figures of the jobs that it has come to will do */
    struct store_filter filter = {.statuses = statuses, .limit = PAGE_JOBS, .reach = &reach};
    struct arena page;
    uint32_t count = PAGE_JOBS;
    enum error_code code = access_filter(call, &filter, err);
    arena_init(&page);
    for (uint32_t read = 0; code == ERR_OK && count == PAGE_JOBS && read < max; read += count) {
        struct store_job *jobs = NULL;
        arena_clear(&page);
        code = store_list(txn, &filter, &page, &jobs, &count, err);
        for (uint32_t i = 0; code == ERR_OK && i < count; i++) {
            filter.before = jobs[i].id;
            if (!str_is_set(jobs[i].damaged))
                add(call, &jobs[i].slice.job, timings);
        }
    }
    arena_release(&page);
    return code;
}

static void add_completed(const struct verb_call *call, const struct job *job,
                          struct timings *timings)
{
    struct job_timing timing = timing_of(job);
    timing.kind = arena_copy(call->arena, timing.kind);
    timings->jobs[timings->count++] = timing;
}

static void add_failed(const struct verb_call *call, const struct job *job, struct timings *timings)
{
    (void)call;
    timings->failed_at[timings->failed_count++] = job->updated_at;
}

enum error_code timings_read(const struct verb_call *call, struct store_txn *txn,
                             struct timings *ret, struct err *err)
{
    static_assert(TIMINGS_JOBS_MAX % PAGE_JOBS == 0, "pages fill it");
    static_assert(TIMINGS_FAILED_MAX % PAGE_JOBS == 0, "pages fill it");
    const uint32_t completed = UINT32_C(1) << JOB_COMPLETED;
    const uint32_t failed = UINT32_C(1) << JOB_FAILED | UINT32_C(1) << JOB_DEAD_LETTERED;
    struct timings timings = {
        .jobs = arena_alloc(call->arena, TIMINGS_JOBS_MAX * sizeof *timings.jobs),
        .failed_at = arena_alloc(call->arena, TIMINGS_FAILED_MAX * sizeof *timings.failed_at)};
    if (timings.jobs == NULL || timings.failed_at == NULL)
        return verb_no_memory(err);
    enum error_code code =
        read_ended(call, txn, completed, TIMINGS_JOBS_MAX, add_completed, &timings, err);
    if (code == ERR_OK)
        code = read_ended(call, txn, failed, TIMINGS_FAILED_MAX, add_failed, &timings, err);
    if (code == ERR_OK && !timings_sort(&timings, call->arena))
        code = verb_no_memory(err);
    if (code == ERR_OK)
        *ret = timings;
    return code;
}
