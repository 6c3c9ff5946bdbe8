#include "base/buf.h"

#include "fixture.h"

static void a_new_buffer_is_empty_and_not_absent(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    assert_true(str_is_set(buf_str(&buf)));
    assert_int_equal(buf_str(&buf).len, 0);
    buf_init(&buf, *state, 100);
    assert_true(buf.cap >= 100);
    assert_int_equal(buf_str(&buf).len, 0);
}

static void what_is_added_stands_in_order(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("one "));
    buf_add_char(&buf, '2');
    buf_add(&buf, (struct str){NULL, 0});
    buf_add(&buf, STR(""));
    buf_add(&buf, STR(" thr\0ee"));
    assert_str_equal(buf_str(&buf), STR("one 2 thr\0ee"));
    assert_false(buf.failed);
}

static void a_buffer_grows_as_far_as_needed(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 1);
    for (int i = 0; i < 100000; i++)
        buf_add_char(&buf, (char)('a' + i % 26));
    for (int i = 0; i < 1000; i++) {
        buf_add(&buf, STR("0123456789"));
        (void)arena_alloc(*state, 1); /* so that it cannot grow in place */
    }
    assert_int_equal(buf.len, 110000);
    assert_int_equal(buf.at[99999], 'a' + 99999 % 26);
    assert_memory_equal(buf.at + 109990, "0123456789", 10);
}

static void integers_are_written_exactly(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    const int64_t values[] = {0, 1, -1, 9, 10, -10, 1234567890, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        buf_add_int(&buf, values[i]);
        buf_add_char(&buf, ' ');
    }
    assert_str_equal(buf_str(&buf), STR("0 1 -1 9 10 -10 1234567890 9223372036854775807 "
                                        "-9223372036854775808 "));
}

static void bytes_are_written_as_lower_case_hex(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add_hex(&buf, (const uint8_t[]){0x00, 0x0f, 0xab, 0xff}, 4);
    buf_add_hex(&buf, NULL, 0);
    assert_str_equal(buf_str(&buf), STR("000fabff"));
}

static void formatted_text_fits_whatever_its_length(void **state)
{
    for (int len = 0; len < 200; len++) {
        for (size_t cap = 0; cap < 130; cap += 13) {
            struct buf buf;
            buf_init(&buf, *state, cap);
            buf_addf(&buf, "%*s|", len, "");
            buf_addf(&buf, "%d", 42);
            assert_int_equal(buf.len, len + 3);
            assert_memory_equal(buf.at + len, "|42", 3);
            assert_true(buf.len <= buf.cap);
        }
        arena_clear(*state);
    }
}

static void formatting_nothing_adds_nothing(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_addf(&buf, "%s", "");
    assert_int_equal(buf.len, 0);
    assert_false(buf.failed);
}

static void reserved_room_is_the_callers_to_fill(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("<"));
    char *room = buf_reserve(&buf, 1000);
    assert_non_null(room);
    memset(room, 'x', 1000);
    buf.len += 3;
    buf_add(&buf, STR(">"));
    assert_str_equal(buf_str(&buf), STR("<xxx>"));
    assert_non_null(buf_reserve(&buf, 0));
}

static void without_memory_it_is_marked_failed_and_stays_as_it_was(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("before"));
    assert_null(buf_reserve(&buf, PTRDIFF_MAX));
    assert_true(buf.failed);
    buf_add(&buf, STR("after"));
    buf_add_char(&buf, 'c');
    buf_add_int(&buf, 1);
    buf_add_hex(&buf, (const uint8_t[]){1}, 1);
    buf_addf(&buf, "%d", 1);
    buf_addf(&buf, "%s", "");
    assert_null(buf_reserve(&buf, 1));
    assert_str_equal(buf_str(&buf), STR("before"));
    assert_true(buf.failed);
}

static void lengths_that_wrap_are_refused(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("x"));
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    buf_init(&buf, *state, SIZE_MAX);
    assert_true(buf.failed);
    buf_init(&buf, *state, 0);
    buf_add_hex(&buf, (const uint8_t[]){1}, SIZE_MAX / 2 + 1);
    assert_true(buf.failed);
    assert_int_equal(buf_str(&buf).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(a_new_buffer_is_empty_and_not_absent),
        WITH_ARENA(what_is_added_stands_in_order),
        WITH_ARENA(a_buffer_grows_as_far_as_needed),
        WITH_ARENA(integers_are_written_exactly),
        WITH_ARENA(bytes_are_written_as_lower_case_hex),
        WITH_ARENA(formatted_text_fits_whatever_its_length),
        WITH_ARENA(formatting_nothing_adds_nothing),
        WITH_ARENA(reserved_room_is_the_callers_to_fill),
        WITH_ARENA(without_memory_it_is_marked_failed_and_stays_as_it_was),
        WITH_ARENA(lengths_that_wrap_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
