#include "base/record.h"

#include <stdio.h>

#include "base/times.h"
#include "starve.h"

/* ---- a struct with a field of every kind ---- */

enum colour { COLOUR_NONE, COLOUR_RED, COLOUR_GREEN };

static const struct str colour_texts[] = {
    STR_INIT(""),
    STR_INIT("red"),
    STR_INIT("green"),
};
static const struct record_names colour_names = {colour_texts, 3};

struct inner {
    int64_t count;
    struct str note;
};

static const struct record_field inner_fields[] = {
    RECORD_FIELD_RANGE(struct inner, count, "count", INT, 1, 1000000),
    RECORD_FIELD(struct inner, note, "note", NAME),
};
static const struct record_type inner_record = {inner_fields, 2};

struct middle {
    struct inner inner;
};

static const struct record_field middle_fields[] = {
    RECORD_FIELD_NESTED(struct middle, inner, "inner", inner_record),
};
static const struct record_type middle_record = {middle_fields, 1};

struct sample {
    struct str name;
    struct str text;
    struct str short_text;
    struct str json;
    struct str object;
    struct str array;
    int64_t number;
    int64_t bounded;
    int64_t milli;
    int64_t bounded_milli;
    int64_t time;
    bool flag;
    uint8_t hash[4];
    enum colour colour;
    enum colour state;
    struct inner inner;
    struct middle middle;
};

enum {
    FIELD_NAME,
    FIELD_TEXT,
    FIELD_SHORT_TEXT,
    FIELD_JSON,
    FIELD_OBJECT,
    FIELD_ARRAY,
    FIELD_INT,
    FIELD_BOUNDED,
};

static const struct record_field sample_fields[] = {
    RECORD_FIELD(struct sample, name, "name", NAME),
    RECORD_FIELD(struct sample, text, "text", TEXT),
    RECORD_FIELD_RANGE(struct sample, short_text, "short_text", TEXT, 0, 5),
    RECORD_FIELD(struct sample, json, "json", JSON),
    RECORD_FIELD(struct sample, object, "object", OBJECT),
    RECORD_FIELD(struct sample, array, "array", ARRAY),
    RECORD_FIELD(struct sample, number, "number", INT),
    RECORD_FIELD_RANGE(struct sample, bounded, "bounded", INT, -10, 10),
    RECORD_FIELD(struct sample, milli, "milli", MILLI),
    RECORD_FIELD_RANGE(struct sample, bounded_milli, "bounded_milli", MILLI, -1500, 100000),
    RECORD_FIELD(struct sample, time, "time", TIME),
    RECORD_FIELD(struct sample, flag, "flag", BOOL),
    RECORD_FIELD(struct sample, hash, "hash", HEX),
    RECORD_FIELD_ENUM(struct sample, colour, "colour", colour_names),
    RECORD_FIELD(struct sample, state, "state", NUMBER),
    RECORD_FIELD_NESTED(struct sample, inner, "inner", inner_record),
    RECORD_FIELD_NESTED(struct sample, middle, "middle", middle_record),
};
enum { SAMPLE_FIELDS = sizeof sample_fields / sizeof sample_fields[0] };
static const struct record_type sample_record = {sample_fields, SAMPLE_FIELDS};

static enum error_code read_sample(struct str json, struct arena *arena, struct sample *sample,
                                   struct err *err)
{
    assert_int_equal(json_check(json, SIZE_MAX, "the test's own text", arena, err), ERR_OK);
    return record_read(&sample_record, json, RECORD_ALL, RECORD_REQUEST, "submit", arena, sample,
                       err);
}

static struct sample sample_of(const char *json, struct arena *arena)
{
    struct sample sample = {0};
    struct err err = {0};
    if (read_sample(str_from(json), arena, &sample, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return sample;
}

static void refuses_with(struct arena *arena, const char *json, enum error_code code,
                         const char *detail)
{
    struct sample sample = {0};
    struct err err = {0};
    assert_int_equal(read_sample(str_from(json), arena, &sample, &err), code);
    assert_int_equal(err.code, code);
    assert_string_equal(err.detail, detail);
    /* The detail is a courtesy: who does not want it gets the code all the same. */
    assert_int_equal(record_read(&sample_record, str_from(json), RECORD_ALL, RECORD_REQUEST,
                                 "submit", arena, &sample, NULL),
                     code);
}

static struct str written(const struct sample *sample, uint64_t mask, struct arena *arena)
{
    struct buf buf;
    struct json_writer writer;
    buf_init(&buf, arena, 0);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    record_write(&sample_record, sample, mask, &writer);
    json_end_object(&writer);
    assert_false(buf.failed);
    return buf_str(&buf);
}

/* ---- reading ---- */

static void every_kind_of_field_is_read(void **state)
{
    struct sample sample =
        sample_of("{\"name\":\"a\",\"text\":\"b\\n\",\"short_text\":\"12345\",\"json\":[1.10],"
                  "\"object\":{ \"x\":1},\"array\":[ ],\"number\":9223372036854775807,"
                  "\"bounded\":-10,\"milli\":1.5,\"bounded_milli\":-1.5,"
                  "\"time\":\"1970-01-01T00:00:01.5Z\",\"flag\":true,\"hash\":\"00ff10a0\","
                  "\"colour\":\"green\",\"state\":2,\"inner\":{\"count\":7,\"note\":\"n\"},"
                  "\"middle\":{\"inner\":{\"count\":8}}}",
                  *state);
    assert_str_equal(sample.name, STR("a"));
    assert_str_equal(sample.text, STR("b\n"));
    assert_str_equal(sample.short_text, STR("12345"));
    assert_str_equal(sample.json, STR("[1.10]"));
    assert_str_equal(sample.object, STR("{ \"x\":1}"));
    assert_str_equal(sample.array, STR("[ ]"));
    assert_int_equal(sample.number, INT64_MAX);
    assert_int_equal(sample.bounded, -10);
    assert_int_equal(sample.milli, 1500);
    assert_int_equal(sample.bounded_milli, -1500);
    assert_int_equal(sample.time, 1500);
    assert_true(sample.flag);
    assert_memory_equal(sample.hash, ((uint8_t[]){0x00, 0xff, 0x10, 0xa0}), 4);
    assert_int_equal(sample.colour, COLOUR_GREEN);
    assert_int_equal(sample.state, 2);
    assert_int_equal(sample.inner.count, 7);
    assert_str_equal(sample.inner.note, STR("n"));
    assert_int_equal(sample.middle.inner.count, 8);
}

static void absent_fields_leave_their_members_as_they_were(void **state)
{
    struct sample sample = {.number = 5, .colour = COLOUR_RED, .inner = {.count = 3}};
    struct err err;
    assert_int_equal(read_sample(STR(" {\"inner\":{\"note\":\"x\"}} "), *state, &sample, &err),
                     ERR_OK);
    assert_int_equal(sample.number, 5);
    assert_int_equal(sample.colour, COLOUR_RED);
    assert_int_equal(sample.inner.count, 3);
    assert_str_equal(sample.inner.note, STR("x"));
}

static void what_is_given_as_zero_or_false_replaces_what_was_there(void **state)
{
    struct sample sample = {.number = 5, .flag = true, .state = COLOUR_RED};
    struct err err;
    assert_int_equal(
        read_sample(STR("{\"number\":0,\"flag\":false,\"state\":0}"), *state, &sample, &err),
        ERR_OK);
    assert_int_equal(sample.number, 0);
    assert_false(sample.flag);
    assert_int_equal(sample.state, 0);
}

static void null_counts_as_absent_for_raw_json_only(void **state)
{
    struct sample sample = {.json = STR("1")};
    struct err err;
    assert_int_equal(read_sample(STR("{\"json\":null}"), *state, &sample, &err), ERR_OK);
    assert_str_equal(sample.json, STR("1"));
    refuses_with(*state, "{\"name\":null}", ERR_BAD_REQUEST,
                 "submit: name must be a string, not null");
    refuses_with(*state, "{\"object\":null}", ERR_BAD_REQUEST,
                 "submit: object must be an object, not null");
}

static void keys_and_strings_may_be_escaped(void **state)
{
    struct sample sample =
        sample_of("{\"n\\u0061me\":\"\\u00e9\\\\\",\"\\u0063olour\":\"r\\u0065d\"}", *state);
    assert_str_equal(sample.name, STR("\u00e9\\"));
    assert_int_equal(sample.colour, COLOUR_RED);
}

static void fields_may_come_in_any_order(void **state)
{
    struct sample sample = sample_of(
        "{\"middle\":{},\"colour\":\"red\",\"name\":\"a\",\"flag\":true,\"text\":\"\"}", *state);
    assert_str_equal(sample.name, STR("a"));
    assert_int_equal(sample.text.len, 0);
    assert_true(str_is_set(sample.text));
    assert_true(sample.flag);
    assert_int_equal(sample.colour, COLOUR_RED);
}

static void an_unknown_field_is_refused_by_name(void **state)
{
    refuses_with(*state, "{\"name\":\"a\",\"size\":1}", ERR_UNKNOWN_FIELD,
                 "submit: unknown field \"size\"");
    refuses_with(*state, "{\"inner\":{\"size\":1}}", ERR_UNKNOWN_FIELD,
                 "submit: unknown field \"inner.size\"");
    refuses_with(*state, "{\"middle\":{\"inner\":{\"\":1}}}", ERR_UNKNOWN_FIELD,
                 "submit: unknown field \"middle.inner.\"");
    refuses_with(*state,
                 "{\"0123456789012345678901234567890123456789012345678901234567890123456789\":1}",
                 ERR_UNKNOWN_FIELD,
                 "submit: unknown field "
                 "\"012345678901234567890123456789012345678901234567890123456789…\"");
}

static void a_field_outside_the_mask_is_unknown(void **state)
{
    struct sample sample = {0};
    struct err err;
    uint64_t mask = UINT64_C(1) << FIELD_NAME | UINT64_C(1) << FIELD_INT;
    struct str json = STR("{\"number\":3,\"text\":\"x\",\"name\":\"a\"}");
    assert_int_equal(
        record_read(&sample_record, json, mask, RECORD_REQUEST, "submit", *state, &sample, &err),
        ERR_UNKNOWN_FIELD);
    assert_string_equal(err.detail, "submit: unknown field \"text\"");
    assert_int_equal(
        record_read(&sample_record, json, mask, RECORD_STORED, "submit", *state, &sample, &err),
        ERR_OK);
    assert_int_equal(sample.number, 3);
    assert_false(str_is_set(sample.text));
    assert_str_equal(sample.name, STR("a"));
}

static void numbers_and_flags_of_a_query_may_be_strings(void **state)
{
    struct sample sample = {0};
    struct err err;
    struct str good = STR("{\"number\":\"50\",\"bounded\":\"-3\",\"flag\":\"true\","
                          "\"name\":\"7\",\"inner\":{\"count\":2}}");
    assert_int_equal(
        record_read(&sample_record, good, RECORD_ALL, RECORD_QUERY, NULL, *state, &sample, &err),
        ERR_OK);
    assert_int_equal(sample.number, 50);
    assert_int_equal(sample.bounded, -3);
    assert_true(sample.flag);
    assert_str_equal(sample.name, STR("7"));
    assert_int_equal(sample.inner.count, 2);
    static const char *const wrong[] = {
        "{\"number\":\"\"}",        "{\"number\":\" 5\"}",
        "{\"number\":\"5x\"}",      "{\"number\":\"1e2\"}",
        "{\"bounded\":\"11\"}",     "{\"flag\":\"yes\"}",
        "{\"flag\":\"\"}",          "{\"number\":\"-\"}",
        "{\"number\":\"\\u0000\"}", "{\"number\":\"99999999999999999999\"}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(record_read(&sample_record, str_from(wrong[i]), RECORD_ALL, RECORD_QUERY,
                                     NULL, *state, &sample, &err),
                         ERR_BAD_REQUEST);
    }
    assert_int_equal(record_read(&sample_record, STR("{\"size\":\"1\"}"), RECORD_ALL, RECORD_QUERY,
                                 NULL, *state, &sample, &err),
                     ERR_UNKNOWN_FIELD);
    assert_int_equal(record_read(&sample_record, STR("{\"number\":\"50\"}"), RECORD_ALL,
                                 RECORD_REQUEST, NULL, *state, &sample, &err),
                     ERR_BAD_REQUEST);
}

static void stored_data_may_have_fields_that_are_not_known_yet(void **state)
{
    struct sample sample = {0};
    struct err err;
    assert_int_equal(record_read(&sample_record,
                                 STR("{\"new\":[{}],\"inner\":{\"newer\":1,\"count\":2},"
                                     "\"flag\":true}"),
                                 RECORD_ALL, RECORD_STORED, "payload", *state, &sample, &err),
                     ERR_OK);
    assert_int_equal(sample.inner.count, 2);
    assert_true(sample.flag);
}

static void without_a_what_only_the_field_is_named(void **state)
{
    struct sample sample = {0};
    struct err err;
    assert_int_equal(record_read(&sample_record, STR("{\"inner\":{\"count\":0}}"), RECORD_ALL,
                                 RECORD_REQUEST, NULL, *state, &sample, &err),
                     ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "inner.count must be a whole number from 1 to 1000000, not 0");
    assert_int_equal(record_read(&sample_record, STR("{\"x\":0}"), RECORD_ALL, RECORD_REQUEST, NULL,
                                 *state, &sample, &err),
                     ERR_UNKNOWN_FIELD);
    assert_string_equal(err.detail, "unknown field \"x\"");
    assert_int_equal(record_read(&sample_record, STR("[]"), RECORD_ALL, RECORD_REQUEST, NULL,
                                 *state, &sample, &err),
                     ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "the object must be an object, not an array");
}

static void a_wrong_type_is_refused_with_the_type_that_is_wanted(void **state)
{
    static const struct {
        const char *json;
        const char *detail;
    } cases[] = {
        {"{\"name\":12}", "submit: name must be a string, not 12"},
        {"{\"text\":{\"a\":1}}", "submit: text must be a string, not an object"},
        {"{\"object\":[]}", "submit: object must be an object, not an array"},
        {"{\"array\":{}}", "submit: array must be an array, not an object"},
        {"{\"array\":\"[]\"}", "submit: array must be an array, not \"[]\""},
        {"{\"number\":\"1\"}", "submit: number must be a whole number from 0 up, not \"1\""},
        {"{\"number\":1.0}", "submit: number must be a whole number from 0 up, not 1.0"},
        {"{\"number\":1e2}", "submit: number must be a whole number from 0 up, not 1e2"},
        {"{\"time\":17}",
         "submit: time must be a time such as \"2026-11-15T19:53:15.042Z\", not 17"},
        {"{\"flag\":1}", "submit: flag must be true or false, not 1"},
        {"{\"flag\":\"true\"}", "submit: flag must be true or false, not \"true\""},
        {"{\"hash\":1}", "submit: hash must be a string of 8 lower-case hex digits, not 1"},
        {"{\"colour\":1}", "submit: colour must be one of red, green, not 1"},
        {"{\"state\":\"red\"}",
         "submit: state must be a whole number from 0 to 2147483647, not \"red\""},
        {"{\"inner\":[1]}", "submit: inner must be an object, not an array"},
        {"{\"inner\":{\"count\":\"x\"}}",
         "submit: inner.count must be a whole number from 1 to 1000000, not \"x\""},
        {"{\"middle\":{\"inner\":{\"count\":null}}}",
         "submit: middle.inner.count must be a whole number from 1 to 1000000, not null"},
        {"7", "submit must be an object, not 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuses_with(*state, cases[i].json, ERR_BAD_REQUEST, cases[i].detail);
}

static void a_value_out_of_range_is_refused_with_the_range(void **state)
{
    static const struct {
        const char *json;
        const char *detail;
    } cases[] = {
        {"{\"number\":-1}", "submit: number must be a whole number from 0 up, not -1"},
        {"{\"number\":9223372036854775808}",
         "submit: number must be a whole number from 0 up, not 9223372036854775808"},
        {"{\"bounded\":11}", "submit: bounded must be a whole number from -10 to 10, not 11"},
        {"{\"bounded\":-11}", "submit: bounded must be a whole number from -10 to 10, not -11"},
        {"{\"state\":2147483648}",
         "submit: state must be a whole number from 0 to 2147483647, not 2147483648"},
        {"{\"short_text\":\"123456\"}", "submit: short_text must be at most 5 bytes long, not 6"},
        {"{\"time\":\"yesterday\"}", "submit: time must be a time such as "
                                     "\"2026-11-15T19:53:15.042Z\", not \"yesterday\""},
        {"{\"hash\":\"00ff10\"}",
         "submit: hash must be a string of 8 lower-case hex digits, not \"00ff10\""},
        {"{\"hash\":\"00FF10A0\"}",
         "submit: hash must be a string of 8 lower-case hex digits, not \"00FF10A0\""},
        {"{\"colour\":\"blue\"}", "submit: colour must be one of red, green, not \"blue\""},
        {"{\"colour\":\"\"}", "submit: colour must be one of red, green, not \"\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuses_with(*state, cases[i].json, ERR_BAD_REQUEST, cases[i].detail);
}

static void a_long_value_is_cut_at_a_character_in_messages(void **state)
{
    refuses_with(*state,
                 "{\"flag\":\"01234567890123456789012345678901234567890123456789012345678901\"}",
                 ERR_BAD_REQUEST,
                 "submit: flag must be true or false, not "
                 "\"01234567890123456789012345678901234567890123456789012345678…\"");
    refuses_with(*state, "{\"flag\":1234567890123456789012345678901234567890123456789012345678901}",
                 ERR_BAD_REQUEST,
                 "submit: flag must be true or false, not "
                 "123456789012345678901234567890123456789012345678901234567890…");
    /* The é would be cut in half. */
    refuses_with(*state,
                 "{\"flag\":\"0123456789012345678901234567890123456789012345678901234567é89\"}",
                 ERR_BAD_REQUEST,
                 "submit: flag must be true or false, not "
                 "\"0123456789012345678901234567890123456789012345678901234567…\"");
}

static void text_is_limited_in_bytes(void **state)
{
    char json[TEXT_BYTES_MAX + 32];
    int start = snprintf(json, sizeof json, "{\"text\":\"");
    memset(json + start, 'x', TEXT_BYTES_MAX + 1);
    memcpy(json + start + TEXT_BYTES_MAX, "\"}", 3);
    assert_int_equal(sample_of(json, *state).text.len, TEXT_BYTES_MAX);
    memcpy(json + start + TEXT_BYTES_MAX, "x\"}", 4);
    refuses_with(*state, json, ERR_BAD_REQUEST,
                 "submit: text must be at most 65536 bytes long, not 65537");
}

static void a_name_is_1_to_128_bytes_without_control_characters(void **state)
{
    static const char e[] = "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"; /* 32 */
    char json[256];
    (void)snprintf(json, sizeof json, "{\"name\":\"%s%s%s%s\"}", e, e, e, e);
    assert_int_equal(sample_of(json, *state).name.len, NAME_BYTES_MAX);
    (void)snprintf(json, sizeof json, "{\"name\":\"%s%s%s%s!\"}", e, e, e, e);
    refuses_with(*state, json, ERR_BAD_REQUEST,
                 "submit: name must be at most 128 bytes long, not 129: "
                 "\"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee…\"");
    refuses_with(*state, "{\"name\":\"\"}", ERR_BAD_REQUEST, "submit: name must not be empty");
    refuses_with(*state, "{\"name\":\"a\\u001fb\"}", ERR_BAD_REQUEST,
                 "submit: name must not contain control characters: \"a?b\"");
    refuses_with(*state, "{\"name\":\"a\\u007f\"}", ERR_BAD_REQUEST,
                 "submit: name must not contain control characters: \"a?\"");
    refuses_with(*state, "{\"inner\":{\"note\":\"\\u0085\"}}", ERR_BAD_REQUEST,
                 "submit: inner.note must not contain control characters: \"??\"");
    assert_str_equal(sample_of("{\"name\":\"~ \\u00a0\U0001F600\"}", *state).name,
                     STR("~ \u00a0\U0001F600"));
}

static void a_name_of_a_request_has_no_characters_of_format(void **state)
{
    static const char *const wrong[] = {"a\u202eb", "\u200b", "\u2066x", "\ufeff", "\U000E0041"};
    char json[64];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct sample sample = {0};
        struct err err = {0};
        (void)snprintf(json, sizeof json, "{\"name\":\"%s\"}", wrong[i]);
        assert_int_equal(record_read(&sample_record, str_from(json), RECORD_ALL, RECORD_REQUEST,
                                     "submit", *state, &sample, &err),
                         ERR_BAD_REQUEST);
        assert_non_null(
            strstr(err.detail, "name must not contain invisible formatting characters"));
        /* What was stored before this rule stays readable. */
        assert_int_equal(record_read(&sample_record, str_from(json), RECORD_ALL, RECORD_STORED,
                                     "stored", *state, &sample, &err),
                         ERR_OK);
    }
    refuses_with(
        *state, "{\"name\":\"a\\u202eb\"}", ERR_BAD_REQUEST,
        "submit: name must not contain invisible formatting characters: found U+202E at byte 1");
}

static void a_name_from_elsewhere_is_checked_in_the_same_way(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(record_check_name(STR("läuft"), "queue", &err), ERR_OK);
    assert_int_equal(record_check_name((struct str){NULL, 0}, "queue", &err), ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "queue must not be empty");
    assert_int_equal(record_check_name(STR("a\xff"), "queue", &err), ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "queue must be valid UTF-8: \"a?\"");
    assert_int_equal(record_check_name(STR("a\xc3"), "queue", &err), ERR_BAD_REQUEST);
    assert_int_equal(record_check_name(STR("\n"), "queue", NULL), ERR_BAD_REQUEST);
    assert_int_equal(
        record_check_name(STR("0123456789012345678901234567890123456789012345678901234567890\t"),
                          "queue", &err),
        ERR_BAD_REQUEST);
    assert_string_equal(err.detail,
                        "queue must not contain control characters: "
                        "\"012345678901234567890123456789012345678901234567890123456789…\"");
    assert_int_equal(
        record_check_name(STR("0123456789012345678901234567890123456789012345678901234567890\xff"),
                          "queue", &err),
        ERR_BAD_REQUEST);
    assert_string_equal(err.detail,
                        "queue must be valid UTF-8: "
                        "\"012345678901234567890123456789012345678901234567890123456789…\"");
}

static void a_decimal_number_is_kept_in_thousandths_exactly(void **state)
{
    static const struct {
        const char *text;
        int64_t milli;
    } cases[] = {
        {"0", 0},
        {"1", 1000},
        {"1.5", 1500},
        {"1.50", 1500},
        {"0.001", 1},
        {"0.1", 100},
        {"2.007", 2007},
        {"9223372036854775.807", INT64_MAX},
        {"-0", 0},
        {"-1", -1},
        {"-1.5", -1},
        {"1.1234", -1},
        {"1.0000", -1},
        {"1e1", -1},
        {"1E0", -1},
        {"9223372036854775.808", -1},
        {"\"1\"", -1},
        {"null", -1},
        {"[1]", -1},
        {"99999999999999999999", -1},
        {"9223372036854776", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[64];
        (void)snprintf(json, sizeof json, "{\"milli\":%s}", cases[i].text);
        if (cases[i].milli >= 0) {
            assert_int_equal(sample_of(json, *state).milli, cases[i].milli);
            continue;
        }
        struct sample sample = {0};
        struct err err;
        assert_int_equal(read_sample(str_from(json), *state, &sample, &err), ERR_BAD_REQUEST);
        assert_non_null(strstr(err.detail,
                               "submit: milli must be a number with at most 3 decimals, from 0 up, "
                               "not "));
    }
    refuses_with(
        *state, "{\"bounded_milli\":100.001}", ERR_BAD_REQUEST,
        "submit: bounded_milli must be a number with at most 3 decimals, from -1.5 to 100, "
        "not 100.001");
    assert_int_equal(sample_of("{\"bounded_milli\":-0.25}", *state).bounded_milli, -250);
}

static void a_decimal_number_is_written_without_needless_zeros(void **state)
{
    static const struct {
        int64_t milli;
        struct str text;
    } cases[] = {
        {1500, STR_INIT("{\"milli\":1.5}")},
        {2000, STR_INIT("{\"milli\":2}")},
        {1, STR_INIT("{\"milli\":0.001}")},
        {10, STR_INIT("{\"milli\":0.01}")},
        {100, STR_INIT("{\"milli\":0.1}")},
        {1010, STR_INIT("{\"milli\":1.01}")},
        {-250, STR_INIT("{\"milli\":-0.25}")},
        {INT64_MAX, STR_INIT("{\"milli\":9223372036854775.807}")},
        {INT64_MIN, STR_INIT("{\"milli\":-9223372036854775.808}")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sample sample = {.milli = cases[i].milli};
        uint64_t mask = UINT64_C(1) << 8;
        assert_str_equal(written(&sample, mask, *state), cases[i].text);
    }
}

static void damaged_text_is_refused_without_reading_past_it(void **state)
{
    static const char *const texts[] = {
        "{",
        "{\"name\"",
        "{\"name\":",
        "{\"name\":\"a\"",
        "{\"x\":1",
        "{\"name\":\"\\q\"}",
        "{\"name\":\"\\ud800\"}",
        "{\"colour\":\"\\u00\"}",
        "{} {}",
        "",
        "{\"name\":\"a\nb\"}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct str text = exact(str_from(texts[i]));
        struct sample sample = {0};
        struct err err = {0};
        assert_int_equal(record_read(&sample_record, text, RECORD_ALL, RECORD_STORED, "payload",
                                     *state, &sample, &err),
                         ERR_BAD_REQUEST);
        assert_memory_equal(err.detail, "payload", 7);
        exact_free(text);
    }
}

static void a_string_value_is_decoded_wherever_it_stands(void **state)
{
    struct str text = STR("untouched");
    struct err err;
    assert_int_equal(record_string(STR("[1]"), "choices[0]", *state, &text, &err), ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "choices[0] must be a string, not an array");
    assert_int_equal(record_string(STR("\"\\x\""), "choices[0]", *state, &text, &err),
                     ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "choices[0]"));
    assert_int_equal(record_string(STR(""), "it", *state, &text, &err), ERR_BAD_REQUEST);
    assert_str_equal(text, STR("untouched"));
    assert_int_equal(record_string(STR("\"a\\tb\""), "choices[0]", *state, &text, &err), ERR_OK);
    assert_str_equal(text, STR("a\tb"));
}

static void hex_digits_are_lower_case_and_exactly_as_many_as_asked_for(void **state)
{
    uint8_t bytes[2] = {1, 2};
    (void)state;
    assert_false(record_hex(STR("0a1"), bytes, 2));
    assert_false(record_hex(STR("0a1b2c"), bytes, 2));
    assert_false(record_hex(STR("0a1g"), bytes, 2));
    assert_false(record_hex(STR("0A1b"), bytes, 2));
    assert_false(record_hex(STR("0a1/"), bytes, 2));
    assert_int_equal(bytes[0], 1);
    assert_true(record_hex(STR("0a9f"), bytes, 2));
    assert_memory_equal(bytes, ((uint8_t[]){0x0a, 0x9f}), 2);
    assert_true(record_hex(STR(""), bytes, 0));
}

static void a_word_is_found_by_its_text(void **state)
{
    (void)state;
    assert_int_equal(record_enum(&colour_names, STR("red")), COLOUR_RED);
    assert_int_equal(record_enum(&colour_names, STR("green")), COLOUR_GREEN);
    assert_int_equal(record_enum(&colour_names, STR("")), 0);
    assert_int_equal(record_enum(&colour_names, STR("Red")), 0);
}

static bool read_in(struct arena *arena, void *data)
{
    struct sample sample = {0};
    return record_read(&sample_record, *(struct str *)data, RECORD_ALL, RECORD_REQUEST, "submit",
                       arena, &sample, NULL) != ERR_NO_MEMORY;
}

static void without_memory_escaped_strings_fail_as_no_memory(void **state)
{
    struct str json = STR("{\"name\":\"\\u0061\",\"inner\":{\"note\":\"\\u0062\"}}");
    (void)state;
    if (!STARVING)
        skip();
    assert_int_equal(starve(read_in, &json), 2);
}

/* ---- writing and comparing ---- */

static void only_what_is_set_is_written_in_the_tables_order(void **state)
{
    struct sample sample = {
        .colour = COLOUR_RED,
        .name = STR("a\"b"),
        .number = 7,
        .time = 1500,
        .hash = {0, 0, 0, 1},
        .flag = true,
        .middle = {.inner = {.count = 2}},
        .text = STR(""),
        .array = STR("[ 1.10 ]"),
        .state = COLOUR_GREEN,
    };
    assert_str_equal(written(&sample, RECORD_ALL, *state),
                     STR("{\"name\":\"a\\\"b\",\"text\":\"\",\"array\":[ 1.10 ],\"number\":7,"
                         "\"time\":\"1970-01-01T00:00:01.500Z\",\"flag\":true,"
                         "\"hash\":\"00000001\",\"colour\":\"red\",\"state\":2,"
                         "\"middle\":{\"inner\":{\"count\":2}}}"));
}

static void only_fields_of_the_mask_are_written(void **state)
{
    struct sample sample = {.name = STR("a"), .number = 7, .bounded = -3};
    assert_str_equal(written(&sample, UINT64_C(1) << FIELD_INT, *state), STR("{\"number\":7}"));
    assert_str_equal(
        written(&sample, UINT64_C(1) << FIELD_NAME | UINT64_C(1) << FIELD_BOUNDED, *state),
        STR("{\"name\":\"a\",\"bounded\":-3}"));
    assert_str_equal(written(&sample, 0, *state), STR("{}"));
}

static void a_number_is_written_even_when_it_is_0(void **state)
{
    struct sample sample = {0};
    assert_str_equal(written(&sample, RECORD_ALL, *state), STR("{\"state\":0}"));
}

static void the_first_field_that_differs_is_told(void **state)
{
    struct sample a = {.name = STR("a"), .number = 1, .inner = {.count = 5}};
    struct sample b = {.name = STR("a"), .number = 1, .inner = {.count = 5}};
    (void)state;
    assert_null(record_differs(&sample_record, &a, &b, RECORD_ALL));
    b.inner.count = 6;
    b.middle.inner.note = STR("x");
    assert_str_equal(record_differs(&sample_record, &a, &b, RECORD_ALL)->name, STR("inner"));
    b.number = 2;
    assert_str_equal(record_differs(&sample_record, &a, &b, RECORD_ALL)->name, STR("number"));
    b.name = (struct str){NULL, 0};
    assert_str_equal(record_differs(&sample_record, &a, &b, RECORD_ALL)->name, STR("name"));
    assert_null(record_differs(&sample_record, &a, &b, UINT64_C(1) << FIELD_JSON));
}

static void a_table_may_have_64_fields(void **state)
{
    int64_t values[64];
    struct record_field fields[64];
    char names[64][4];
    struct record_type type = {fields, 64};
    struct buf buf;
    struct json_writer writer;
    for (int i = 0; i < 64; i++) {
        values[i] = i + 1;
        int len = snprintf(names[i], sizeof names[i], "f%d", i);
        fields[i] = (struct record_field){
            .name = {names[i], (size_t)len},
            .kind = RECORD_INT,
            .offset = (uint32_t)i * (uint32_t)sizeof(int64_t),
            .size = sizeof(int64_t),
        };
    }
    buf_init(&buf, *state, 0);
    json_writer_init(&writer, &buf);
    json_begin_object(&writer);
    record_write(&type, values, RECORD_ALL, &writer);
    json_end_object(&writer);
    int64_t again[64] = {0};
    struct err err;
    assert_int_equal(
        record_read(&type, buf_str(&buf), RECORD_ALL, RECORD_REQUEST, "it", *state, again, &err),
        ERR_OK);
    assert_memory_equal(values, again, sizeof values);
    assert_null(record_differs(&type, values, again, RECORD_ALL));
    /* After the last field of the table the search starts over. */
    assert_int_equal(record_read(&type, STR("{\"f63\":5,\"f0\":6}"), RECORD_ALL, RECORD_REQUEST,
                                 "it", *state, again, &err),
                     ERR_OK);
    assert_int_equal(again[63], 5);
    assert_int_equal(again[0], 6);
}

/* ---- any struct comes back as it was written ---- */

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static struct str random_text(uint64_t *seed, struct arena *arena, size_t len_min, bool controls)
{
    static const char *const pieces[] = {"a", "Z",          " ",  "\"",   "\\",  "/",
                                         "é", "\U0001F600", "\n", "\x01", "\x7f"};
    struct buf buf;
    buf_init(&buf, arena, 0);
    size_t count = len_min + draw(seed) % 12;
    for (size_t i = 0; i < count; i++)
        buf_add(&buf, str_from(pieces[draw(seed) % (controls ? 11 : 8)]));
    return buf_str(&buf);
}

static struct str random_json(uint64_t *seed)
{
    static const struct str values[] = {
        STR_INIT("1.10"),       STR_INIT("\"x\\u0041\""), STR_INIT("[ null ]"),
        STR_INIT("{\"a\":{}}"), STR_INIT("false"),        STR_INIT("-0e5"),
    };
    return values[draw(seed) % 6];
}

static struct sample random_sample(uint64_t *seed, struct arena *arena)
{
    struct sample sample = {0};
    uint64_t set = draw(seed);
    sample.name = set & 1 ? random_text(seed, arena, 1, false) : sample.name;
    sample.text = set & 2 ? random_text(seed, arena, 0, true) : sample.text;
    sample.short_text = set & 4 ? STR("\x02") : sample.short_text;
    sample.json = set & 8 ? random_json(seed) : sample.json;
    sample.object = set & 16 ? STR("{ \"x\" : [1] }") : sample.object;
    sample.array = set & 32 ? STR("[\t]") : sample.array;
    sample.number = set & 64 ? (int64_t)(draw(seed) >> (1 + draw(seed) % 60)) : 0;
    sample.bounded = set & 128 ? (int64_t)(draw(seed) % 21) - 10 : 0;
    sample.milli = set & 256 ? (int64_t)(draw(seed) >> (1 + draw(seed) % 60)) : 0;
    sample.bounded_milli = set & 512 ? (int64_t)(draw(seed) % 101501) - 1500 : 0;
    sample.time = set & 1024 ? (int64_t)(draw(seed) % (TIME_MAX_MS + 1)) : 0;
    sample.flag = (set & 2048) != 0;
    for (size_t i = 0; (set & 4096) != 0 && i < sizeof sample.hash; i++)
        sample.hash[i] = (uint8_t)draw(seed);
    sample.colour = (enum colour)(set & 8192 ? draw(seed) % 3 : 0);
    sample.state = (enum colour)(draw(seed) % 3);
    sample.inner.count = set & 16384 ? 1 + (int64_t)(draw(seed) % 1000000) : 0;
    sample.inner.note = set & 32768 ? random_text(seed, arena, 1, false) : sample.inner.note;
    sample.middle.inner.count = set & 65536 ? 1 : 0;
    return sample;
}

static void any_struct_comes_back_as_it_was_written(void **state)
{
    uint64_t seed = 20261115;
    for (int i = 0; i < 5000; i++) {
        arena_clear(*state);
        struct sample sample = random_sample(&seed, *state);
        struct str text = written(&sample, RECORD_ALL, *state);
        struct sample again = {0};
        struct err err;
        if (read_sample(text, *state, &again, &err) != ERR_OK)
            fail_msg("round %d: %s", i, err.detail);
        const struct record_field *field =
            record_differs(&sample_record, &sample, &again, RECORD_ALL);
        if (field != NULL)
            fail_msg("round %d: %.*s differs", i, STR_ARG(field->name));
        assert_str_equal(written(&again, RECORD_ALL, *state), text);
    }
}

static void copied_texts_outlive_what_they_were_views_of(void **state)
{
    char name[] = "a name";
    char note[] = "a note";
    struct sample sample = {.name = str_from(name), .text = STR("")};
    sample.middle.inner.note = str_from(note);
    assert_true(record_copy_texts(&sample_record, &sample, *state));
    memset(name, 'x', sizeof name - 1);
    memset(note, 'x', sizeof note - 1);
    assert_true(str_eq(sample.name, STR("a name")));
    assert_true(str_eq(sample.middle.inner.note, STR("a note")));
    assert_true(str_is_set(sample.text));
    assert_false(str_is_set(sample.json));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(every_kind_of_field_is_read),
        WITH_ARENA(absent_fields_leave_their_members_as_they_were),
        WITH_ARENA(what_is_given_as_zero_or_false_replaces_what_was_there),
        WITH_ARENA(null_counts_as_absent_for_raw_json_only),
        WITH_ARENA(keys_and_strings_may_be_escaped),
        WITH_ARENA(fields_may_come_in_any_order),
        WITH_ARENA(an_unknown_field_is_refused_by_name),
        WITH_ARENA(a_field_outside_the_mask_is_unknown),
        WITH_ARENA(numbers_and_flags_of_a_query_may_be_strings),
        WITH_ARENA(stored_data_may_have_fields_that_are_not_known_yet),
        WITH_ARENA(without_a_what_only_the_field_is_named),
        WITH_ARENA(a_wrong_type_is_refused_with_the_type_that_is_wanted),
        WITH_ARENA(a_value_out_of_range_is_refused_with_the_range),
        WITH_ARENA(a_long_value_is_cut_at_a_character_in_messages),
        WITH_ARENA(text_is_limited_in_bytes),
        WITH_ARENA(a_name_is_1_to_128_bytes_without_control_characters),
        WITH_ARENA(a_name_from_elsewhere_is_checked_in_the_same_way),
        WITH_ARENA(a_name_of_a_request_has_no_characters_of_format),
        WITH_ARENA(a_decimal_number_is_kept_in_thousandths_exactly),
        WITH_ARENA(a_decimal_number_is_written_without_needless_zeros),
        WITH_ARENA(damaged_text_is_refused_without_reading_past_it),
        WITH_ARENA(a_string_value_is_decoded_wherever_it_stands),
        WITH_ARENA(hex_digits_are_lower_case_and_exactly_as_many_as_asked_for),
        WITH_ARENA(a_word_is_found_by_its_text),
        WITH_ARENA(without_memory_escaped_strings_fail_as_no_memory),
        WITH_ARENA(only_what_is_set_is_written_in_the_tables_order),
        WITH_ARENA(only_fields_of_the_mask_are_written),
        WITH_ARENA(a_number_is_written_even_when_it_is_0),
        WITH_ARENA(the_first_field_that_differs_is_told),
        WITH_ARENA(a_table_may_have_64_fields),
        WITH_ARENA(any_struct_comes_back_as_it_was_written),
        WITH_ARENA(copied_texts_outlive_what_they_were_views_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
