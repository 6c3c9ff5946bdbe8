/* Trace contexts: how they are read and written, and that every span has one id wherever it is
 * made. */
#include "core/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define GIVEN "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static struct job job_of(uint8_t number, struct str traceparent)
{
    struct job job = {.spec.traceparent = traceparent};
    memset(job.id.bytes, 0x10, sizeof job.id.bytes);
    job.id.bytes[15] = number;
    return job;
}

static const char *text_of(struct trace_context context, char ret[TRACEPARENT_LEN + 1])
{
    trace_format(&context, ret);
    ret[TRACEPARENT_LEN] = '\0';
    return ret;
}

static void what_is_read_is_written_again(void **state)
{
    char text[TRACEPARENT_LEN + 1];
    struct trace_context context;
    (void)state;
    assert_true(trace_parse(STR(GIVEN), &context));
    assert_int_equal(context.trace_id[0], 0x0a);
    assert_int_equal(context.trace_id[15], 0x9c);
    assert_int_equal(context.span_id[0], 0xb7);
    assert_int_equal(context.flags, TRACE_SAMPLED);
    assert_string_equal(text_of(context, text), GIVEN);
    assert_true(trace_parse_any(STR(GIVEN), &context));
    assert_string_equal(text_of(context, text), GIVEN);
}

static void a_later_version_is_read_as_far_as_it_is_known(void **state)
{
    static const char *const good[] = {
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-and more",
    };
    static const char *const bad[] = {
        "",
        "00",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "FE-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-and more",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01and more",
        "01-00000000000000000000000000000000-b7ad6b7169203331-01",
        "01-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
    };
    char text[TRACEPARENT_LEN + 1];
    struct trace_context context;
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(trace_parse_any(str_from(good[i]), &context));
        assert_string_equal(text_of(context, text), GIVEN);
        assert_false(trace_parse(str_from(good[i]), &context));
    }
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(trace_parse_any(str_from(bad[i]), &context));
    assert_false(trace_parse_any((struct str){NULL, 0}, &context));
}

static void a_job_belongs_to_the_trace_it_was_submitted_in(void **state)
{
    char text[TRACEPARENT_LEN + 1];
    struct job job = job_of(1, STR(GIVEN));
    (void)state;
    assert_string_equal(text_of(trace_of_job(&job), text), GIVEN);
    struct trace_context attempt = trace_of_attempt(&job, 1);
    struct trace_context given = trace_of_job(&job);
    assert_memory_equal(attempt.trace_id, given.trace_id, TRACE_ID_LEN);
    assert_memory_not_equal(attempt.span_id, given.span_id, SPAN_ID_LEN);
    assert_int_equal(attempt.flags, 1);
    job.spec.traceparent = STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    assert_int_equal(trace_of_attempt(&job, 1).flags, 0);
}

static void a_job_without_one_has_a_trace_of_its_own(void **state)
{
    struct job job = job_of(2, (struct str){NULL, 0});
    struct trace_context context = trace_of_job(&job);
    static const uint8_t none[SPAN_ID_LEN];
    (void)state;
    assert_memory_equal(context.trace_id, job.id.bytes, TRACE_ID_LEN);
    assert_memory_equal(context.span_id, none, SPAN_ID_LEN);
    assert_int_equal(context.flags, TRACE_SAMPLED);
    assert_memory_not_equal(trace_of_attempt(&job, 1).span_id, none, SPAN_ID_LEN);
}

/* Servers of several versions must agree on them, and spans that were exported before an upgrade
 * are the parents of those after it. */
static void ids_are_for_ever(void **state)
{
    char text[TRACEPARENT_LEN + 1];
    struct job job = job_of(3, STR(GIVEN));
    const struct effect effect = {.step = STR("fetch"), .key = STR("charge"), .attempt = 2};
    const struct wait wait = {.type = WAIT_SIGNAL, .correlation_key = STR("paid"), .since = 1000};
    (void)state;
    assert_string_equal(text_of(trace_of_epoch(&job, 1), text),
                        "00-0af7651916cd43dd8448eb211c80319c-8015e77f4ef43899-01");
    assert_string_equal(text_of(trace_of_attempt(&job, 1), text),
                        "00-0af7651916cd43dd8448eb211c80319c-36c203f762d539e6-01");
    assert_string_equal(text_of(trace_of_step(&job, STR("fetch"), 1), text),
                        "00-0af7651916cd43dd8448eb211c80319c-5eaa6ef9a7b3e8a0-01");
    assert_string_equal(text_of(trace_of_effect(&job, &effect), text),
                        "00-0af7651916cd43dd8448eb211c80319c-25d3d663ee94c9ed-01");
    assert_string_equal(text_of(trace_of_wait(&job, STR("fetch"), &wait), text),
                        "00-0af7651916cd43dd8448eb211c80319c-6b1c2786c123435d-01");
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, SPAN_ID_LEN);
}

static void no_two_spans_share_an_id(void **state)
{
    enum { JOBS = 40, NUMBERS = 20, SORTS = 6, ALL = JOBS * NUMBERS * SORTS };
    uint8_t(*ids)[SPAN_ID_LEN] = calloc(ALL, sizeof *ids);
    size_t count = 0;
    (void)state;
    assert_non_null(ids);
    for (int j = 0; j < JOBS; j++) {
        struct job job = job_of((uint8_t)j, (struct str){NULL, 0});
        for (int64_t n = 1; n <= NUMBERS; n++) {
            const struct effect effect = {.key = STR("a"), .attempt = n};
            const struct effect of_step = {.step = STR("a"), .key = STR(""), .attempt = n};
            const struct trace_context contexts[SORTS] = {
                trace_of_epoch(&job, n),          trace_of_attempt(&job, n),
                trace_of_step(&job, STR("a"), n), trace_of_step(&job, STR("ab"), n),
                trace_of_effect(&job, &effect),   trace_of_effect(&job, &of_step),
            };
            for (size_t i = 0; i < SORTS; i++)
                memcpy(ids[count++], contexts[i].span_id, SPAN_ID_LEN);
        }
    }
    qsort(ids, count, sizeof *ids, by_bytes);
    for (size_t i = 1; i < count; i++)
        assert_memory_not_equal(ids[i - 1], ids[i], SPAN_ID_LEN);
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written_again),
        cmocka_unit_test(a_later_version_is_read_as_far_as_it_is_known),
        cmocka_unit_test(a_job_belongs_to_the_trace_it_was_submitted_in),
        cmocka_unit_test(a_job_without_one_has_a_trace_of_its_own),
        cmocka_unit_test(ids_are_for_ever),
        cmocka_unit_test(no_two_spans_share_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
