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

enum error_code timings_write(struct timings *timings, struct arena *arena,
                              struct json_writer *writer, struct err *err)
{
    const struct job_timing *jobs = timings->jobs;
    int64_t *scratch = arena_alloc(arena, timings->count * sizeof *scratch);
    if (scratch == NULL)
        return verb_no_memory(err);
    if (timings->count > 1)
        qsort(timings->jobs, timings->count, sizeof *timings->jobs, by_kind);
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
    return ERR_OK;
}

enum error_code timings_read(const struct verb_call *call, struct store_txn *txn,
                             struct timings *ret, struct err *err)
{
    struct store_filter filter = {.statuses = UINT32_C(1) << JOB_COMPLETED, .limit = PAGE_JOBS};
    struct timings timings = {
        .jobs = arena_alloc(call->arena, TIMINGS_JOBS_MAX * sizeof *timings.jobs)};
    struct arena page;
    uint32_t count = PAGE_JOBS;
    if (timings.jobs == NULL)
        return verb_no_memory(err);
    enum error_code code = access_filter(call, &filter, err);
    arena_init(&page);
    while (code == ERR_OK && count == PAGE_JOBS && timings.count + PAGE_JOBS <= TIMINGS_JOBS_MAX) {
        struct store_job *jobs = NULL;
        arena_clear(&page);
        code = store_list(txn, &filter, &page, &jobs, &count, err);
        for (uint32_t i = 0; code == ERR_OK && i < count; i++) {
            filter.before = jobs[i].id;
            if (str_is_set(jobs[i].damaged))
                continue;
            struct job_timing timing = timing_of(&jobs[i].slice.job);
            timing.kind = arena_copy(call->arena, timing.kind);
            timings.jobs[timings.count++] = timing;
        }
    }
    arena_release(&page);
    if (code == ERR_OK)
        *ret = timings;
    return code;
}
