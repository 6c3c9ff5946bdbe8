#include "base/buf.h"
#include "base/json.h"
#include "base/times.h"
#include "base/utf8.h"
#include "fixture.h"

static struct json_writer writer_on(struct buf *buf, struct arena *arena)
{
    struct json_writer writer;
    buf_init(buf, arena, 0);
    json_writer_init(&writer, buf);
    return writer;
}

static void assert_written(struct arena *arena, const struct buf *buf, struct str expected)
{
    assert_false(buf->failed);
    assert_str_equal(buf_str(buf), expected);
    struct err err;
    assert_int_equal(json_check(buf_str(buf), SIZE_MAX, "written", arena, &err), ERR_OK);
}

static void commas_come_by_themselves(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_begin_object(&writer);
    json_key(&writer, STR("a"));
    json_put_int(&writer, 1);
    json_key(&writer, STR("list"));
    json_begin_array(&writer);
    json_put_bool(&writer, true);
    json_put_null(&writer);
    json_begin_object(&writer);
    json_end_object(&writer);
    json_begin_array(&writer);
    json_put_string(&writer, STR("x"));
    json_end_array(&writer);
    json_put_bool(&writer, false);
    json_end_array(&writer);
    json_key(&writer, STR("b"));
    json_begin_object(&writer);
    json_key(&writer, STR("c"));
    json_put_raw(&writer, STR("1.10"));
    json_key(&writer, STR("d"));
    json_put_string(&writer, STR(""));
    json_end_object(&writer);
    json_end_object(&writer);
    assert_written(
        *state, &buf,
        STR("{\"a\":1,\"list\":[true,null,{},[\"x\"],false],\"b\":{\"c\":1.10,\"d\":\"\"}}"));
}

static void containers_after_one_another_start_without_a_comma(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_begin_array(&writer);
    for (int i = 0; i < 3; i++) {
        json_begin_array(&writer);
        json_put_int(&writer, i);
        json_put_int(&writer, -i);
        json_end_array(&writer);
    }
    json_end_array(&writer);
    assert_written(*state, &buf, STR("[[0,0],[1,-1],[2,-2]]"));
}

static void a_single_value_is_a_text(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_put_int(&writer, INT64_MIN);
    assert_written(*state, &buf, STR("-9223372036854775808"));
    writer = writer_on(&buf, *state);
    json_put_bool(&writer, false);
    assert_written(*state, &buf, STR("false"));
}

static void absent_views_are_written_as_null(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_begin_array(&writer);
    json_put_string(&writer, (struct str){NULL, 0});
    json_put_raw(&writer, (struct str){NULL, 0});
    json_put_string(&writer, STR(""));
    json_end_array(&writer);
    assert_written(*state, &buf, STR("[null,null,\"\"]"));
}

static void only_what_must_be_is_escaped(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_put_string(&writer, STR("\"\\/\b\f\n\r\t\v\x01\x1f\x7f z\xc3\xb6lf \xe2\x82\xac\0end"));
    assert_written(
        *state, &buf,
        STR("\"\\\"\\\\/\\b\\f\\n\\r\\t\\u000b\\u0001\\u001f\x7f z\xc3\xb6lf \xe2\x82\xac"
            "\\u0000end\""));
}

static void every_ascii_character_at_every_place_reads_back(void **state)
{
    for (size_t len = 1; len < 20; len++) {
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 128; c++) {
                char text[20];
                memset(text, 'a', sizeof text);
                text[at] = (char)c;
                struct str source = exact((struct str){text, len});
                struct buf buf;
                struct json_writer writer = writer_on(&buf, *state);
                json_put_string(&writer, source);
                struct str again;
                if (json_check(buf_str(&buf), SIZE_MAX, "written", *state, NULL) != ERR_OK ||
                    !json_string(buf_str(&buf), *state, &again) || !str_eq(again, source))
                    fail_msg("character %d at %zu of %zu", c, at, len);
                exact_free(source);
                arena_clear(*state);
            }
        }
    }
}

static void every_code_point_reads_back(void **state)
{
    for (uint32_t start = 0; start < 0x110000; start += 64) {
        char text[64 * 4];
        size_t len = 0;
        for (uint32_t code_point = start; code_point < start + 64; code_point++)
            if (code_point < 0xd800 || code_point > 0xdfff)
                len += utf8_encode(code_point, text + len);
        struct buf buf;
        struct json_writer writer = writer_on(&buf, *state);
        json_put_string(&writer, (struct str){text, len});
        struct str again;
        assert_true(json_string(buf_str(&buf), *state, &again));
        assert_true(str_eq(again, (struct str){text, len}));
        arena_clear(*state);
    }
}

static void raw_values_keep_every_byte(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_begin_object(&writer);
    json_key(&writer, STR("payload"));
    json_put_raw(&writer, STR("{ \"n\" : 1.10, \"e\": \"\\u0041\" }"));
    json_end_object(&writer);
    assert_written(*state, &buf, STR("{\"payload\":{ \"n\" : 1.10, \"e\": \"\\u0041\" }}"));
}

static void times_and_hashes_are_strings(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_begin_array(&writer);
    json_put_time(&writer, 0);
    json_put_time(&writer, TIME_MAX_MS);
    json_put_hex(&writer, (const uint8_t[]){0, 0xab, 0xff}, 3);
    json_put_hex(&writer, NULL, 0);
    json_end_array(&writer);
    assert_written(
        *state, &buf,
        STR("[\"1970-01-01T00:00:00.000Z\",\"9999-12-31T23:59:59.999Z\",\"00abff\",\"\"]"));
}

static void sixty_three_levels_can_be_written(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    for (int i = 0; i < 63; i++) {
        json_begin_array(&writer);
        json_put_int(&writer, 0);
    }
    for (int i = 0; i < 63; i++) {
        json_put_int(&writer, 1);
        json_end_array(&writer);
    }
    struct err err;
    assert_int_equal(json_check(buf_str(&buf), SIZE_MAX, "written", *state, &err), ERR_OK);
    assert_memory_equal(buf.at, "[0,[0,[0,", 9);
    assert_memory_equal(buf.at + buf.len - 9, ",1],1],1]", 9);
}

static void without_memory_the_buffer_is_marked_failed(void **state)
{
    struct buf buf;
    struct json_writer writer = writer_on(&buf, *state);
    json_begin_object(&writer);
    assert_null(buf_reserve(&buf, PTRDIFF_MAX));
    json_key(&writer, STR("a"));
    json_put_string(&writer, STR("text"));
    json_key(&writer, STR("b"));
    json_put_time(&writer, 1);
    json_end_object(&writer);
    assert_true(buf.failed);
    assert_int_equal(writer.depth, 0);
    assert_str_equal(buf_str(&buf), STR("{"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(commas_come_by_themselves),
        WITH_ARENA(containers_after_one_another_start_without_a_comma),
        WITH_ARENA(a_single_value_is_a_text),
        WITH_ARENA(absent_views_are_written_as_null),
        WITH_ARENA(only_what_must_be_is_escaped),
        WITH_ARENA(every_ascii_character_at_every_place_reads_back),
        WITH_ARENA(every_code_point_reads_back),
        WITH_ARENA(raw_values_keep_every_byte),
        WITH_ARENA(times_and_hashes_are_strings),
        WITH_ARENA(sixty_three_levels_can_be_written),
        WITH_ARENA(without_memory_the_buffer_is_marked_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
