/* Equality of JSON values by what they mean.
 *
 * Both texts are walked side by side. When the keys of two objects come in the same order, which is
 * what one program writes twice, nothing is looked up; else the members of one object go into a
 * map. Each value is compared once a level: the cost is at most the length of the texts times the
 * depth of their nesting, which json_check limits. */
#include "base/json.h"
#include "base/map.h"

/* A decimal number as 0.DIGITS * 10^exponent; no digits: zero. */
struct decimal {
    bool negative;
    struct str whole; /* digits before the point, without leading zeros, */
    struct str part;  /* and those behind it, where there are any */
    int64_t exponent;
};

enum { EXPONENT_DIGITS_MAX = 9 };

static struct str digits_at(const char **at, const char *end)
{
    const char *start = *at;
    while (*at < end && **at >= '0' && **at <= '9')
        (*at)++;
    return (struct str){start, (size_t)(*at - start)};
}

/* False: its exponent is too long to be worked with. */
static bool decimal_read(struct str raw, struct decimal *ret)
{
    const char *at = raw.at;
    const char *end = raw.at + raw.len;
    *ret = (struct decimal){.negative = at < end && *at == '-'};
    at += ret->negative ? 1 : 0;
    ret->whole = digits_at(&at, end);
    if (at < end && *at == '.') {
        at++;
        ret->part = digits_at(&at, end);
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        bool minus = at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+') ? 1 : 0;
        struct str digits = digits_at(&at, end);
        while (digits.len > 1 && digits.at[0] == '0')
            digits = (struct str){digits.at + 1, digits.len - 1};
        if (digits.len > EXPONENT_DIGITS_MAX)
            return false;
        for (size_t i = 0; i < digits.len; i++)
            ret->exponent = ret->exponent * 10 + (digits.at[i] - '0');
        ret->exponent = minus ? -ret->exponent : ret->exponent;
    }
    return true;
}

static size_t decimal_len(const struct decimal *number)
{
    return number->whole.len + number->part.len;
}

static char decimal_digit(const struct decimal *number, size_t index)
{
    if (index < number->whole.len)
        return number->whole.at[index];
    index -= number->whole.len;
    return index < number->part.len ? number->part.at[index] : '0';
}

/* Where the first digit that is not zero stands; the number of digits when all are. */
static size_t decimal_first(const struct decimal *number)
{
    size_t first = 0;
    while (first < decimal_len(number) && decimal_digit(number, first) == '0')
        first++;
    return first;
}

static bool numbers_equal(struct str a, struct str b)
{
    struct decimal left;
    struct decimal right;
    if (!decimal_read(a, &left) || !decimal_read(b, &right))
        return str_eq(a, b);
    size_t at = decimal_first(&left);
    size_t bt = decimal_first(&right);
    bool zero = at == decimal_len(&left);
    if (zero || bt == decimal_len(&right))
        return zero && bt == decimal_len(&right);
    int64_t scale_a = left.exponent + (int64_t)left.whole.len - (int64_t)at;
    int64_t scale_b = right.exponent + (int64_t)right.whole.len - (int64_t)bt;
    if (left.negative != right.negative || scale_a != scale_b)
        return false;
    while (at < decimal_len(&left) || bt < decimal_len(&right))
        if (decimal_digit(&left, at++) != decimal_digit(&right, bt++))
            return false;
    return true;
}

static enum error_code values_equal(struct str a, struct str b, uint64_t seed, struct arena *arena,
                                    bool *ret);

static enum error_code strings_equal(struct str a, struct str b, struct arena *arena, bool *ret)
{
    struct str left;
    struct str right;
    *ret = str_eq(a, b);
    if (*ret)
        return ERR_OK;
    if (!json_string(a, arena, &left) || !json_string(b, arena, &right))
        return ERR_NO_MEMORY;
    *ret = str_eq(left, right);
    return ERR_OK;
}

static enum error_code arrays_equal(struct str a, struct str b, uint64_t seed, struct arena *arena,
                                    bool *ret)
{
    struct json_iter left;
    struct json_iter right;
    struct str x;
    struct str y;
    enum error_code code = ERR_OK;
    *ret = json_count(a) == json_count(b);
    (void)json_array_begin(&left, a);
    (void)json_array_begin(&right, b);
    while (code == ERR_OK && *ret && json_array_next(&left, &x) && json_array_next(&right, &y))
        code = values_equal(x, y, seed, arena, ret);
    return code;
}

/* The members of an object by their decoded keys. */
struct members {
    struct map index;
    struct str *values;
};

static enum error_code members_read(struct str object, size_t count, uint64_t seed,
                                    struct arena *arena, struct members *ret)
{
    struct json_iter iter;
    struct str raw;
    struct str value;
    uint32_t place = 0;
    ret->values = arena_zalloc(arena, count, sizeof *ret->values);
    map_init(&ret->index, arena, (uint32_t)count, seed);
    (void)json_object_begin(&iter, object);
    while (ret->values != NULL && place < count && json_object_next(&iter, &raw, &value)) {
        struct str key;
        uint32_t found;
        if (!json_string(raw, arena, &key) || map_put(&ret->index, key, place, &found) != ERR_OK)
            return ERR_NO_MEMORY;
        ret->values[place++] = value;
    }
    return ret->values == NULL ? ERR_NO_MEMORY : ERR_OK;
}

static enum error_code reordered_equal(struct str a, struct str b, size_t count, uint64_t seed,
                                       struct arena *arena, bool *ret)
{
    struct members members;
    struct json_iter iter;
    struct str raw;
    struct str value;
    enum error_code code = members_read(a, count, seed, arena, &members);
    *ret = true;
    (void)json_object_begin(&iter, b);
    while (code == ERR_OK && *ret && json_object_next(&iter, &raw, &value)) {
        struct str key;
        if (!json_string(raw, arena, &key))
            return ERR_NO_MEMORY;
        uint32_t place = map_get(&members.index, key);
        *ret = place != MAP_NONE;
        if (*ret)
            code = values_equal(members.values[place], value, seed, arena, ret);
    }
    return code;
}

/* Whether two objects have the same keys in the same order. No value is looked at, so that each is
 * compared once, whatever the order turns out to be. */
static enum error_code keys_equal(struct str a, struct str b, struct arena *arena, bool *ret)
{
    struct json_iter left;
    struct json_iter right;
    struct str key_a;
    struct str key_b;
    struct str value;
    enum error_code code = ERR_OK;
    *ret = true;
    (void)json_object_begin(&left, a);
    (void)json_object_begin(&right, b);
    while (code == ERR_OK && *ret && json_object_next(&left, &key_a, &value) &&
           json_object_next(&right, &key_b, &value))
        code = strings_equal(key_a, key_b, arena, ret);
    return code;
}

static enum error_code objects_equal(struct str a, struct str b, uint64_t seed, struct arena *arena,
                                     bool *ret)
{
    size_t count = json_count(a);
    struct json_iter left;
    struct json_iter right;
    struct str key;
    struct str x;
    struct str y;
    bool in_order = false;
    *ret = count == json_count(b) && count < UINT32_MAX;
    if (!*ret)
        return ERR_OK;
    enum error_code code = keys_equal(a, b, arena, &in_order);
    if (code == ERR_OK && !in_order)
        return reordered_equal(a, b, count, seed, arena, ret);
    (void)json_object_begin(&left, a);
    (void)json_object_begin(&right, b);
    while (code == ERR_OK && *ret && json_object_next(&left, &key, &x) &&
           json_object_next(&right, &key, &y))
        code = values_equal(x, y, seed, arena, ret);
    return code;
}

static enum error_code values_equal(struct str a, struct str b, uint64_t seed, struct arena *arena,
                                    bool *ret)
{
    enum json_type type = json_type(a);
    *ret = type == json_type(b);
    if (!*ret)
        return ERR_OK;
    switch (type) {
    case JSON_OBJECT:
        return objects_equal(a, b, seed, arena, ret);
    case JSON_ARRAY:
        return arrays_equal(a, b, seed, arena, ret);
    case JSON_STRING:
        return strings_equal(a, b, arena, ret);
    case JSON_NUMBER:
        *ret = numbers_equal(a, b);
        return ERR_OK;
    default:
        *ret = str_eq(a, b);
        return ERR_OK;
    }
}

enum error_code json_alike(struct str a, struct str b, uint64_t seed, struct arena *arena,
                           bool *ret)
{
    struct str left = json_trim(a);
    struct str right = json_trim(b);
    *ret = str_eq(left, right);
    return *ret ? ERR_OK : values_equal(left, right, seed, arena, ret);
}
