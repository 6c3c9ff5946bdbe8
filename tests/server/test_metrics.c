/* The parts of /metrics: buckets, labels, and the text that Prometheus reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/metrics.h"
#include "server/metrics_names.h"
#include "server/metrics_text.h"
#include "server/routes.h"

struct page {
    struct arena arena;
    struct buf text;
};

static int setup(void **state)
{
    struct page *page = calloc(1, sizeof *page);
    if (page == NULL)
        return -1;
    arena_init(&page->arena);
    buf_init(&page->text, &page->arena, 256);
    *state = page;
    return 0;
}

static int teardown(void **state)
{
    struct page *page = *state;
    arena_release(&page->arena);
    free(page);
    return 0;
}

static const char *shown(struct page *page)
{
    buf_add_char(&page->text, '\0');
    assert_false(page->text.failed);
    return page->text.at;
}

/* ---- buckets ---- */

static void a_value_at_a_bound_is_in_its_bucket(void **state)
{
    (void)state;
    assert_int_equal(bounds_find(&bounds_count, 0), 0);
    assert_int_equal(bounds_find(&bounds_count, 1), 0);
    assert_int_equal(bounds_find(&bounds_count, 2), 1);
    assert_int_equal(bounds_find(&bounds_count, 3), 2);
    assert_int_equal(bounds_find(&bounds_count, 1000), bounds_count.count - 1);
    assert_int_equal(bounds_find(&bounds_count, 1001), bounds_count.count);
    assert_int_equal(bounds_find(&bounds_count, INT64_MAX), bounds_count.count);
    assert_int_equal(bounds_find(&bounds_count, -5), 0);
}

static void bounds_rise(void **state)
{
    static const struct bounds *const all[] = {&bounds_work, &bounds_call, &bounds_count};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(all[i]->count, 1, BOUNDS_MAX);
        for (uint32_t b = 1; b < all[i]->count; b++)
            assert_true(all[i]->at[b - 1] < all[i]->at[b]);
    }
}

static void a_histogram_adds_up(void **state)
{
    struct page *page = *state;
    struct histogram histogram = {0};
    histogram_bump(&histogram, &bounds_count, 1);
    histogram_bump(&histogram, &bounds_count, 2);
    histogram_add(&histogram, &bounds_count, 700);
    histogram_add(&histogram, &bounds_count, 5000);
    histogram_add(&histogram, &bounds_count, -3);
    text_histogram(&page->text, METRIC_BATCH_SIZE, NULL, &histogram, &bounds_count);
    assert_string_equal(shown(page), "pawl_batch_operations_bucket{le=\"1\"} 2\n"
                                     "pawl_batch_operations_bucket{le=\"2\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"5\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"10\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"20\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"50\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"100\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"200\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"500\"} 3\n"
                                     "pawl_batch_operations_bucket{le=\"1000\"} 4\n"
                                     "pawl_batch_operations_bucket{le=\"+Inf\"} 5\n"
                                     "pawl_batch_operations_sum 5703\n"
                                     "pawl_batch_operations_count 5\n");
}

static void times_are_shown_in_seconds(void **state)
{
    struct page *page = *state;
    struct histogram histogram = {0};
    histogram_bump(&histogram, &bounds_call, 1500);
    histogram_bump(&histogram, &bounds_call, 2 * 1000 * 1000);
    text_histogram(&page->text, METRIC_COMMIT_TIME, NULL, &histogram, &bounds_call);
    const char *text = shown(page);
    assert_non_null(strstr(text, "pawl_commit_seconds_bucket{le=\"0.0005\"} 0\n"));
    assert_non_null(strstr(text, "pawl_commit_seconds_bucket{le=\"0.001\"} 0\n"));
    assert_non_null(strstr(text, "pawl_commit_seconds_bucket{le=\"0.0025\"} 1\n"));
    assert_non_null(strstr(text, "pawl_commit_seconds_bucket{le=\"2.5\"} 2\n"));
    assert_non_null(strstr(text, "pawl_commit_seconds_bucket{le=\"60\"} 2\n"));
    assert_non_null(strstr(text, "pawl_commit_seconds_sum 2.0015\n"));
}

/* ---- labels ---- */

static void hostile_names_stay_one_label(void **state)
{
    struct page *page = *state;
    struct str labels[] = {STR("a\"} 1\npawl_up{x=\"\\"), STR("caf\xc3\xa9")};
    text_sample(&page->text, METRIC_QUEUE_JOBS, labels, 7);
    assert_string_equal(shown(page), "pawl_queue_jobs{queue=\"a\\\"} 1\\npawl_up{x=\\\"\\\\\","
                                     "state=\"caf\xc3\xa9\"} 7\n");
}

static void a_family_says_what_it_is(void **state)
{
    struct page *page = *state;
    text_family(&page->text, METRIC_STALE_WRITES);
    assert_string_equal(shown(page),
                        "# HELP pawl_stale_writes_refused_total Calls of workers rejected "
                        "because of a stale lease.\n"
                        "# TYPE pawl_stale_writes_refused_total counter\n");
}

static void names_keep_to_the_rules(void **state)
{
    (void)state;
    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_info *info = metric_info((enum metric)i);
        bool counter_name =
            info->name.len > 6 && memcmp(info->name.at + info->name.len - 6, "_total", 6) == 0;
        assert_int_equal(counter_name, str_eq(info->type, STR("counter")));
        assert_true(memcmp(info->name.at, "pawl_", 5) == 0 ||
                    memcmp(info->name.at, "process_", 8) == 0);
        assert_true(info->help.len > 0 && info->help.at[info->help.len - 1] == '.');
        assert_null(memchr(info->help.at, '\n', info->help.len));
    }
}

static void the_first_names_have_a_place_and_all_others_share_one(void **state)
{
    struct page *page = *state;
    struct name_table table = {0};
    char text[16];
    uint32_t *first = NULL;
    assert_true(names_init(&table, &page->arena, 1, sizeof(uint32_t), 1));
    for (uint32_t i = 0; i < NAMES_MAX + 50; i++) {
        (void)snprintf(text, sizeof text, "kind-%u", i);
        struct str name = str_from(text);
        uint32_t *series = names_find(&table, &name);
        ++*series;
        if (i == 0)
            first = series;
    }
    assert_int_equal(names_count(&table), NAMES_MAX + 1);
    assert_true(str_eq(table.places[0].parts[0], STR("other")));
    assert_int_equal(*(uint32_t *)table.places[0].series, 50);
    /* Names are copies, and found again. */
    assert_true(str_eq(table.places[1].parts[0], STR("kind-0")));
    assert_true(str_eq(table.places[NAMES_MAX].parts[0], STR("kind-199")));
    assert_ptr_equal(names_find(&table, &STR("kind-0")), first);
    assert_ptr_equal(names_find(&table, &STR("kind-0")), first);
    assert_ptr_equal(names_find(&table, &STR("kind-249")), table.places[0].series);
}

static void a_name_that_is_other_is_not_there_twice(void **state)
{
    struct page *page = *state;
    struct name_table table = {0};
    assert_true(names_init(&table, &page->arena, 1, 8, 1));
    const void *mail = names_find(&table, &STR("mail"));
    assert_ptr_equal(mail, table.places[1].series);
    assert_ptr_equal(names_find(&table, &STR("other")), table.places[0].series);
    struct str absent = {NULL, 0};
    assert_ptr_equal(names_find(&table, &absent), table.places[0].series);
    assert_int_equal(names_count(&table), 2);
}

static void names_of_two_parts_are_told_apart(void **state)
{
    struct page *page = *state;
    struct name_table table = {0};
    struct str ab_c[] = {STR("ab"), STR("c")};
    struct str a_bc[] = {STR("a"), STR("bc")};
    struct str ab_none[] = {STR("ab"), STR("")};
    assert_true(names_init(&table, &page->arena, 2, 8, 1));
    void *first = names_find(&table, ab_c);
    assert_ptr_not_equal(first, names_find(&table, a_bc));
    assert_ptr_not_equal(first, names_find(&table, ab_none));
    assert_ptr_equal(first, names_find(&table, ab_c));
    assert_int_equal(names_count(&table), 4);
    assert_true(str_eq(table.places[1].parts[0], STR("ab")));
    assert_true(str_eq(table.places[1].parts[1], STR("c")));
    assert_true(str_eq(table.places[3].parts[1], STR("")));
}

/* ---- requests ---- */

static void requests_are_counted_by_route_and_status(void **state)
{
    struct page *page = *state;
    struct metrics *metrics = metrics_new(1);
    metrics_answered(metrics, VERB_submit, 201, 1000);
    metrics_answered(metrics, VERB_submit, 201, 3000);
    metrics_answered(metrics, VERB_submit, 418, 1000);
    metrics_answered(metrics, UINT32_MAX, 404, 1000);
    metrics_answered(metrics, VERB_feed, 200, -1);
    metrics_stream(metrics, 1);
    metrics_shed(metrics);
    metrics_write(metrics, &page->text);
    metrics_free(metrics);
    const char *text = shown(page);
    static const char *const lines[] = {
        "\npawl_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"} 2\n",
        "\npawl_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"other\"} 1\n",
        "\npawl_http_requests_total{method=\"unknown\",route=\"unknown\",status=\"404\"} 1\n",
        "\npawl_http_requests_total{method=\"GET\",route=\"/v1/feed\",status=\"200\"} 1\n",
        "\npawl_http_request_duration_seconds_sum{method=\"POST\",route=\"/v1/jobs\"} 0.005\n",
        "\npawl_http_streams 1\n",
        "\npawl_requests_shed_total 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (strstr(text, lines[i]) == NULL)
            fail_msg("missing: %s", lines[i]);
    /* Streams last as long as they last. */
    assert_null(strstr(text, "duration_seconds_count{method=\"GET\",route=\"/v1/feed\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_at_a_bound_is_in_its_bucket),
        cmocka_unit_test(bounds_rise),
        cmocka_unit_test_setup_teardown(a_histogram_adds_up, setup, teardown),
        cmocka_unit_test_setup_teardown(times_are_shown_in_seconds, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_names_stay_one_label, setup, teardown),
        cmocka_unit_test_setup_teardown(a_family_says_what_it_is, setup, teardown),
        cmocka_unit_test(names_keep_to_the_rules),
        cmocka_unit_test_setup_teardown(the_first_names_have_a_place_and_all_others_share_one,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_that_is_other_is_not_there_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(names_of_two_parts_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_are_counted_by_route_and_status, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
