/* The ordered table against a model so simple that it cannot be wrong: a sorted array. */
#include <stdio.h>

#include "base/fixture.h"
#include "store/codec.h"
#include "store/memory/table.h"
#include "store/store.h"

/* ---- the model ---- */

enum { MODEL_MAX = 4096, KEY_MAX = 24 };

struct model_row {
    char key[KEY_MAX];
    size_t key_len;
    uint32_t value;
};

struct model {
    struct model_row rows[MODEL_MAX];
    size_t count;
    uint64_t random;
};

static uint64_t model_random(struct model *model)
{
    uint64_t x = model->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static struct str row_key(const struct model_row *row)
{
    return (struct str){row->key, row->key_len};
}

/* The place of the first row whose key is not smaller. */
static size_t model_place(const struct model *model, struct str key)
{
    size_t at = 0;
    while (at < model->count && str_cmp(row_key(&model->rows[at]), key) < 0)
        at++;
    return at;
}

static bool model_has(const struct model *model, size_t at, struct str key)
{
    return at < model->count && str_eq(row_key(&model->rows[at]), key);
}

static void model_put(struct model *model, struct str key, uint32_t value)
{
    size_t at = model_place(model, key);
    if (!model_has(model, at, key)) {
        assert_true(model->count < MODEL_MAX);
        memmove(&model->rows[at + 1], &model->rows[at],
                (model->count - at) * sizeof model->rows[0]);
        model->count++;
        memcpy(model->rows[at].key, key.at, key.len);
        model->rows[at].key_len = key.len;
    }
    model->rows[at].value = value;
}

static void model_take(struct model *model, size_t at)
{
    model->count--;
    memmove(&model->rows[at], &model->rows[at + 1], (model->count - at) * sizeof model->rows[0]);
}

/* ---- the comparison ---- */

/* The heights are right and no side is two deeper than the other. */
static int check_heights(const struct entry *entry)
{
    if (entry == NULL)
        return 0;
    int left = check_heights(entry->child[0]);
    int right = check_heights(entry->child[1]);
    assert_in_range(left - right + 1, 0, 2);
    int height = 1 + (left > right ? left : right);
    assert_int_equal(entry->height, height);
    return height;
}

static void assert_entry(const struct entry *entry, const struct model *model, size_t at)
{
    if (at >= model->count) {
        assert_null(entry);
        return;
    }
    assert_non_null(entry);
    assert_str_equal(entry_key(entry), row_key(&model->rows[at]));
    assert_int_equal(entry->value_len, sizeof(uint32_t));
    uint32_t value;
    memcpy(&value, entry_value(entry).at, sizeof value);
    assert_int_equal(value, model->rows[at].value);
}

/* All rows, forwards and backwards. */
static void assert_same(const struct table *table, const struct model *model)
{
    check_heights(table->root);
    assert_int_equal(table->count, model->count);
    const struct entry *entry = table_seek(table, STR(""));
    for (size_t i = 0; i <= model->count; i++) {
        assert_entry(entry, model, i);
        entry = entry == NULL ? NULL : table_after(table, entry_key(entry));
    }
    entry = table_before(table, STR("\xff\xff\xff\xff\xff\xff\xff\xff\xff"));
    for (size_t i = model->count; i-- > 0;) {
        assert_entry(entry, model, i);
        entry = table_before(table, entry_key(entry));
    }
    assert_null(entry);
}

/* Short keys over few bytes, so that many meet; now and then one is the beginning of another. */
static struct str random_key(struct model *model, char bytes[KEY_MAX])
{
    static const char alphabet[] = {'\0', '\1', 'a', 'b', '\x7f', '\x80', '\xff'};
    size_t len = (size_t)(model_random(model) % 5);
    for (size_t i = 0; i < len; i++)
        bytes[i] = alphabet[model_random(model) % sizeof alphabet];
    return (struct str){bytes, len};
}

static void check_around(const struct table *table, const struct model *model, struct str key)
{
    size_t at = model_place(model, key);
    bool has = model_has(model, at, key);
    assert_entry(table_seek(table, key), model, at);
    assert_entry(table_get(table, key), model, has ? at : SIZE_MAX);
    assert_entry(table_after(table, key), model, has ? at + 1 : at);
    assert_entry(table_before(table, key), model, at > 0 ? at - 1 : SIZE_MAX);
}

static void random_operation(struct table *table, struct model *model, uint32_t number, int puts)
{
    char bytes[KEY_MAX];
    struct str key = random_key(model, bytes);
    size_t at = model_place(model, key);
    bool has = model_has(model, at, key);
    struct entry *out;
    if ((int)(model_random(model) % 100) < puts) {
        struct entry *in = entry_new(key, (struct str){(const char *)&number, sizeof number});
        assert_non_null(in);
        out = table_put(table, in);
        assert_entry(out, model, has ? at : SIZE_MAX);
        model_put(model, key, number);
    } else {
        out = table_take(table, key);
        assert_entry(out, model, has ? at : SIZE_MAX);
        if (has)
            model_take(model, at);
    }
    entry_free(out);
    check_around(table, model, random_key(model, bytes));
}

static void a_table_does_what_a_sorted_array_does(void **state)
{
    (void)state;
    struct model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct table table = {0};
        model->count = 0;
        model->random = seed;
        /* It grows, then shrinks to nothing. */
        for (uint32_t i = 0; i < 2000; i++) {
            random_operation(&table, model, i, i < 1000 ? 75 : 15);
            if (i % 100 == 0)
                assert_same(&table, model);
        }
        assert_same(&table, model);
        table_release(&table);
        assert_null(table.root);
    }
    free(model);
}

static void rising_and_falling_keys_keep_a_table_flat(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    for (int direction = 0; direction < 2; direction++) {
        struct table table = {0};
        struct arena arena;
        arena_init(&arena);
        for (int i = 0; i < COUNT; i++) {
            struct buf key;
            buf_init(&key, &arena, 16);
            key_int(&key, direction == 0 ? i : -i);
            assert_null(table_put(&table, entry_new(buf_str(&key), STR(""))));
        }
        assert_int_equal(table.count, COUNT);
        /* An AVL tree is at most 1.44 times as deep as the best one. */
        assert_in_range(check_heights(table.root), 14, 21);
        table_release(&table);
        arena_release(&arena);
    }
}

static void what_was_taken_out_can_be_put_back(void **state)
{
    (void)state;
    struct table table = {0};
    table_put(&table, entry_new(STR("a"), STR("1")));
    struct entry *first = table_put(&table, entry_new(STR("a"), STR("2")));
    assert_str_equal(entry_value(first), STR("1"));
    struct entry *second = table_put(&table, first);
    assert_str_equal(entry_value(second), STR("2"));
    assert_str_equal(entry_value(table_get(&table, STR("a"))), STR("1"));
    entry_free(second);
    first = table_take(&table, STR("a"));
    assert_null(table_take(&table, STR("a")));
    assert_null(table_get(&table, STR("a")));
    assert_null(table_put(&table, first));
    assert_int_equal(table.count, 1);
    table_release(&table);
}

/* ---- keys and values ---- */

static struct str int_key(struct arena *arena, int64_t value)
{
    struct buf key;
    buf_init(&key, arena, 16);
    key_int(&key, value);
    return buf_str(&key);
}

static void numbers_sort_as_they_count(void **state)
{
    static const int64_t numbers[] = {INT64_MIN, -256, -255, -1, 0, 1, 255, 256, INT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct str key = int_key(*state, numbers[i]);
        struct reader reader = reader_of(key);
        assert_true(read_key_int(&reader) == numbers[i]);
        assert_false(reader.bad);
        if (i > 0)
            assert_true(str_cmp(int_key(*state, numbers[i - 1]), key) < 0);
    }
}

static void texts_in_keys_sort_as_texts_whatever_follows(void **state)
{
    static const struct str texts[] = {
        STR_INIT(""),   STR_INIT("\0"), STR_INIT("\0\0"),   STR_INIT("\0\1"),
        STR_INIT("\1"), STR_INIT("a"),  STR_INIT("a\0"),    STR_INIT("a\1"),
        STR_INIT("ab"), STR_INIT("b"),  STR_INIT("\xff\0"), STR_INIT("\xff\xff"),
    };
    for (size_t i = 1; i < sizeof texts / sizeof texts[0]; i++) {
        struct buf smaller;
        struct buf larger;
        buf_init(&smaller, *state, 16);
        buf_init(&larger, *state, 16);
        assert_true(str_cmp(texts[i - 1], texts[i]) < 0);
        key_text(&smaller, texts[i - 1]);
        key_int(&smaller, INT64_MAX);
        key_text(&larger, texts[i]);
        key_int(&larger, INT64_MIN);
        assert_true(str_cmp(buf_str(&smaller), buf_str(&larger)) < 0);
    }
}

static void the_job_itself_sorts_before_its_steps(void **state)
{
    static const uint32_t steps[] = {STEP_NONE, 0, 1, 255, 256, 9999};
    struct str last = {NULL, 0};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct buf key;
        buf_init(&key, *state, 16);
        key_step(&key, steps[i]);
        struct reader reader = reader_of(buf_str(&key));
        assert_int_equal(read_key_step(&reader), steps[i]);
        if (i > 0)
            assert_true(str_cmp(last, buf_str(&key)) < 0);
        last = buf_str(&key);
    }
}

static void values_come_back_and_absent_is_not_empty(void **state)
{
    static const int64_t numbers[] = {0, 1, -1, 63, 64, -64, -65, INT64_MAX, INT64_MIN};
    struct buf value;
    buf_init(&value, *state, 16);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        value_int(&value, numbers[i]);
    value_text(&value, (struct str){NULL, 0});
    value_text(&value, STR(""));
    value_text(&value, STR("a\0b"));
    struct reader reader = reader_of(buf_str(&value));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        assert_true(read_int(&reader) == numbers[i]);
    assert_false(str_is_set(read_text(&reader)));
    struct str empty = read_text(&reader);
    assert_true(str_is_set(empty) && empty.len == 0);
    assert_str_equal(read_text(&reader), STR("a\0b"));
    assert_false(reader.bad);
    assert_ptr_equal(reader.at, reader.end);
    read_int(&reader);
    assert_true(reader.bad);
}

static void a_value_that_was_cut_short_is_seen_as_bad(void **state)
{
    struct buf value;
    buf_init(&value, *state, 16);
    value_int(&value, INT64_MAX);
    value_text(&value, STR("text"));
    for (size_t len = 0; len < value.len; len++) {
        struct str cut = exact((struct str){value.at, len});
        struct reader reader = reader_of(cut);
        read_int(&reader);
        read_text(&reader);
        assert_true(reader.bad);
        exact_free(cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_does_what_a_sorted_array_does),
        cmocka_unit_test(rising_and_falling_keys_keep_a_table_flat),
        cmocka_unit_test(what_was_taken_out_can_be_put_back),
        WITH_ARENA(numbers_sort_as_they_count),
        WITH_ARENA(texts_in_keys_sort_as_texts_whatever_follows),
        WITH_ARENA(the_job_itself_sorts_before_its_steps),
        WITH_ARENA(values_come_back_and_absent_is_not_empty),
        WITH_ARENA(a_value_that_was_cut_short_is_seen_as_bad),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
