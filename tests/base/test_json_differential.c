/* 200,000 texts from a seed, half of them damaged, judged and read as jansson does. */
#include "fixture.h"
#include "json_compare.h"

enum { TEXTS = 200000 };

struct random {
    uint64_t state;
};

static uint64_t random_next(struct random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t word = random->state;
    word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
    return word ^ word >> 31;
}

/* A number below `limit`. */
static size_t random_below(struct random *random, size_t limit)
{
    return (size_t)(random_next(random) % limit);
}

static const char *pick(struct random *random, const char *const *texts, size_t count)
{
    return texts[random_below(random, count)];
}

#define PICK(random, texts) pick((random), (texts), sizeof(texts) / sizeof((texts)[0]))

static void add_space(struct random *random, struct buf *buf)
{
    static const char *const spaces[] = {" ", "\n", "\t", "\r", "  \r\n"};
    if (random_below(random, 8) == 0)
        buf_add(buf, str_from(PICK(random, spaces)));
}

static void add_string(struct random *random, struct buf *buf)
{
    static const char *const pieces[] = {"a",
                                         "b",
                                         "id",
                                         "key",
                                         "name",
                                         "a longer run of plain text",
                                         "\\n",
                                         "\\\"",
                                         "\\\\",
                                         "\\/",
                                         "\\b\\f\\r\\t",
                                         "\\u0061",
                                         "\\u0069d",
                                         "\\u00e9",
                                         "\xc3\xa9",
                                         "\xe2\x82\xac",
                                         "\\u20AC",
                                         "\xf0\x9f\x98\x80",
                                         "\\ud83d\\ude00",
                                         "\\uD83D\\uDE00",
                                         "\\u0000",
                                         "\x7f",
                                         "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\\ud83d",
                                      "\\ude00",
                                      "\\ud83d\\u0061",
                                      "\\x",
                                      "\\u12",
                                      "\\u12g4",
                                      "\xff",
                                      "\xc3",
                                      "\xc0\x80",
                                      "\xed\xa0\x80",
                                      "\x01",
                                      "\n",
                                      "\xe2\x82",
                                      "\xf4\x90\x80\x80",
                                      "\\ud83d\\ud83d\\ude00",
                                      "\\"};
    buf_add_char(buf, '"');
    for (size_t i = random_below(random, 4); i > 0; i--)
        buf_add(buf, str_from(PICK(random, pieces)));
    if (random_below(random, 200) == 0)
        buf_add(buf, str_from(PICK(random, bad)));
    buf_add_char(buf, '"');
}

static void add_digits(struct random *random, struct buf *buf, size_t most)
{
    for (size_t i = random_below(random, most) + 1; i > 0; i--)
        buf_add_char(buf, (char)('0' + random_below(random, 10)));
}

static void add_number(struct random *random, struct buf *buf)
{
    static const char *const known[] = {"0",
                                        "-0",
                                        "-0.0",
                                        "1.10",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "1e308",
                                        "9223372036854775808",
                                        "-9223372036854775809",
                                        "1e309",
                                        "-1e999",
                                        "1e-400",
                                        "4.9e-324",
                                        "2.2250738585072011e-308",
                                        "1.7976931348623157e308",
                                        "1.7976931348623159e308",
                                        "9007199254740993",
                                        "0.1e1",
                                        "1E+2",
                                        "123456789012345678901234567890",
                                        "5e-324",
                                        "2e-324",
                                        "01",
                                        "1.",
                                        ".5",
                                        "-",
                                        "+1",
                                        "1e",
                                        "1e+",
                                        "0x10",
                                        "--1",
                                        "00",
                                        "-01",
                                        "1.e5",
                                        "NaN"};
    if (random_below(random, 12) == 0) {
        buf_add(buf, str_from(PICK(random, known)));
        return;
    }
    if (random_below(random, 3) == 0)
        buf_add_char(buf, '-');
    buf_add_int(buf, (int64_t)random_below(random, 1000) + 1);
    if (random_below(random, 3) == 0)
        add_digits(random, buf, 14);
    if (random_below(random, 3) == 0) {
        buf_add_char(buf, '.');
        add_digits(random, buf, 20);
    }
    if (random_below(random, 4) == 0) {
        buf_add_char(buf, random_below(random, 2) == 0 ? 'e' : 'E');
        static const char *const signs[] = {"", "+", "-"};
        buf_add(buf, str_from(PICK(random, signs)));
        add_digits(random, buf, 3);
    }
}

static void add_value(struct random *random, struct buf *buf, int depth);

static void add_container(struct random *random, struct buf *buf, int depth, bool is_object)
{
    size_t count = random_below(random, random_below(random, 30) == 0 ? 60 : 5);
    buf_add_char(buf, is_object ? '{' : '[');
    add_space(random, buf);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_add_char(buf, ',');
        add_space(random, buf);
        if (is_object && random_below(random, 3) > 0) {
            buf_addf(buf, "\"k%zu\":", random_below(random, 4) == 0 ? i : i * 7);
        } else if (is_object) {
            add_string(random, buf);
            add_space(random, buf);
            buf_add_char(buf, ':');
        }
        add_value(random, buf, depth + 1);
        add_space(random, buf);
    }
    buf_add_char(buf, is_object ? '}' : ']');
}

static void add_value(struct random *random, struct buf *buf, int depth)
{
    static const char *const literals[] = {"true", "false", "null", "true", "false", "null", "nul"};
    size_t choice = random_below(random, depth > 4 ? 12 : 20);
    if (choice < 5)
        add_string(random, buf);
    else if (choice < 9)
        add_number(random, buf);
    else if (choice < 12)
        buf_add(buf, str_from(PICK(random, literals)));
    else
        add_container(random, buf, depth, choice % 2 == 0);
}

/* Brackets nested around the limits of both sides. */
static void add_deep(struct random *random, struct buf *buf)
{
    size_t depth = random_below(random, 8) == 0 ? 2040 + random_below(random, 20)
                                                : 60 + random_below(random, 10);
    bool is_object = random_below(random, 2) == 0;
    for (size_t i = 0; i < depth; i++)
        buf_add(buf, is_object ? STR("{\"a\":") : STR("["));
    buf_add_char(buf, '1');
    for (size_t i = 0; i < depth; i++)
        buf_add_char(buf, is_object ? '}' : ']');
}

/* Damages a text in one place. */
static void mutate(struct random *random, struct buf *buf)
{
    static const char alphabet[] = "{}[]\",:\\ \n0123456789-+.eEtfnu/\x01\x80\xc3\xed\xf0\xff\0a";
    if (buf->len == 0)
        return;
    size_t at = random_below(random, buf->len);
    char c = alphabet[random_below(random, sizeof alphabet - 1)];
    switch (random_below(random, 5)) {
    case 0:
        buf->at[at] = c;
        break;
    case 1:
        buf->at[at] = (char)(buf->at[at] ^ (1 << random_below(random, 8)));
        break;
    case 2:
        memmove(buf->at + at, buf->at + at + 1, buf->len - at - 1);
        buf->len--;
        break;
    case 3:
        buf_add_char(buf, c);
        memmove(buf->at + at + 1, buf->at + at, buf->len - at - 1);
        buf->at[at] = c;
        break;
    default:
        buf->len = at;
        break;
    }
}

static void random_texts_are_judged_and_read_as_by_jansson(void **state)
{
    struct arena *arena = *state;
    struct random random = {20261115};
    size_t verdicts[JSON_VERDICTS] = {0};
    for (int i = 0; i < TEXTS; i++) {
        arena_clear(arena);
        struct buf buf;
        buf_init(&buf, arena, 256);
        add_space(&random, &buf);
        if (random_below(&random, 400) == 0)
            add_deep(&random, &buf);
        else
            add_value(&random, &buf, 0);
        add_space(&random, &buf);
        for (size_t m = random_below(&random, 2) * (1 + random_below(&random, 3)); m > 0; m--)
            mutate(&random, &buf);
        struct str text = exact(buf_str(&buf));
        enum json_verdict verdict = JSON_VERDICTS;
        const char *difference = json_compare(text, arena, &verdict);
        if (difference != NULL)
            fail_msg("text %d: %s: %.*s", i, difference, (int)text.len, text.at);
        exact_free(text);
        verdicts[verdict]++;
    }
    /* Texts that are nearly all refused, or nearly all accepted, would prove little. */
    print_message("accepted %zu, refused %zu; numbers %zu, NUL keys %zu, depth %zu, NUL %zu\n",
                  verdicts[JSON_BOTH_ACCEPT], verdicts[JSON_BOTH_REFUSE],
                  verdicts[JSON_OURS_ACCEPTS_NUMBER], verdicts[JSON_OURS_ACCEPTS_NUL_KEY],
                  verdicts[JSON_OURS_REFUSES_DEPTH], verdicts[JSON_OURS_REFUSES_NUL]);
    assert_true(verdicts[JSON_BOTH_ACCEPT] > TEXTS / 4);
    assert_true(verdicts[JSON_BOTH_REFUSE] > TEXTS / 4);
    assert_true(verdicts[JSON_OURS_ACCEPTS_NUMBER] > 100);
    assert_true(verdicts[JSON_OURS_ACCEPTS_NUL_KEY] > 100);
    assert_true(verdicts[JSON_OURS_REFUSES_DEPTH] > 100);
    assert_true(verdicts[JSON_OURS_REFUSES_NUL] > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(random_texts_are_judged_and_read_as_by_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
