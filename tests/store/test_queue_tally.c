/* Counting jobs by queue and status. */
#include "store/queue_tally.h"

#include <stdio.h>

#include "../base/starve.h"
#include "base/buf.h"

static const char *told(struct arena *arena, struct queue_tally *tally)
{
    struct store_queue_count *rows;
    uint32_t count;
    struct buf buf;
    struct err err;
    buf_init(&buf, arena, 64);
    assert_int_equal(queue_tally_finish(tally, &rows, &count, &err), ERR_OK);
    for (uint32_t i = 0; i < count; i++)
        buf_addf(&buf, "%s%.*s %d:%lld@%lld", i > 0 ? ", " : "", STR_ARG(rows[i].queue),
                 (int)rows[i].status, (long long)rows[i].count, (long long)rows[i].oldest_at);
    buf_add_char(&buf, '\0');
    return buf.at;
}

static void nothing_is_counted_of_nothing(void **state)
{
    struct queue_tally tally;
    queue_tally_init(&tally, *state, 1);
    assert_string_equal(told(*state, &tally), "");
}

static void queues_that_alternate_are_counted_apart_and_sorted(void **state)
{
    struct queue_tally tally;
    struct err err;
    queue_tally_init(&tally, *state, 1);
    for (int i = 9; i >= 0; i--)
        assert_int_equal(
            queue_tally_add(&tally, i % 2 == 0 ? STR("b") : STR("a"), i < 4 ? 1 : 0, i, &err),
            ERR_OK);
    assert_string_equal(told(*state, &tally), "a 0:3@5, a 1:2@1, b 0:3@4, b 1:2@0");
}

static void names_are_kept_as_copies(void **state)
{
    struct queue_tally tally;
    struct err err;
    char name[] = "mail";
    queue_tally_init(&tally, *state, 1);
    assert_int_equal(queue_tally_add(&tally, str_from(name), 0, 1, &err), ERR_OK);
    name[0] = 'n';
    assert_string_equal(told(*state, &tally), "mail 0:1@1");
}

static void thousands_of_queues_are_no_matter(void **state)
{
    struct queue_tally tally;
    struct store_queue_count *rows;
    uint32_t count;
    struct err err;
    queue_tally_init(&tally, *state, 1);
    for (int i = 0; i < 20000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "q%d", i % 5000);
        assert_int_equal(queue_tally_add(&tally, str_from(name), 0, i, &err), ERR_OK);
    }
    assert_int_equal(queue_tally_finish(&tally, &rows, &count, &err), ERR_OK);
    assert_int_equal(count, 5000);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].count, 4);
        assert_true(i == 0 || str_cmp(rows[i - 1].queue, rows[i].queue) < 0);
    }
}

static void a_status_that_there_is_not_is_damage(void **state)
{
    struct queue_tally tally;
    struct err err;
    queue_tally_init(&tally, *state, 1);
    assert_int_equal(queue_tally_add(&tally, STR("a"), -1, 1, &err), ERR_CORRUPT);
    assert_int_equal(queue_tally_add(&tally, STR("a"), JOB_STATUS_COUNT, 1, &err), ERR_CORRUPT);
    assert_string_equal(told(*state, &tally), "");
}

/* Whether the memory was enough. */
static bool count_some(struct arena *arena, void *data)
{
    struct queue_tally tally;
    struct store_queue_count *rows;
    uint32_t count;
    struct err err;
    enum error_code code = ERR_OK;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    (void)data;
    queue_tally_init(&tally, arena, 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && code == ERR_OK; i++)
        code = queue_tally_add(&tally, str_from(names[i]), 0, 1, &err);
    if (code == ERR_OK)
        code = queue_tally_finish(&tally, &rows, &count, &err);
    return code != ERR_NO_MEMORY;
}

static void memory_that_runs_out_is_told(void **state)
{
    (void)state;
    if (!STARVING)
        skip();
    assert_true(starve(count_some, NULL) > 5);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ARENA(nothing_is_counted_of_nothing),
        WITH_ARENA(queues_that_alternate_are_counted_apart_and_sorted),
        WITH_ARENA(names_are_kept_as_copies),
        WITH_ARENA(thousands_of_queues_are_no_matter),
        WITH_ARENA(a_status_that_there_is_not_is_damage),
        WITH_ARENA(memory_that_runs_out_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
