#include "cli/duration.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    long long ms;
};

static const struct unit units[] = {
    {"d", 24LL * 60 * 60 * 1000},
    {"h", 60LL * 60 * 1000},
    {"m", 60LL * 1000},
    {"s", 1000LL},
    {"ms", 1LL},
};

enum { UNIT_COUNT = sizeof units / sizeof units[0] };

static const long long longest_ms = 100LL * 366 * 24 * 60 * 60 * 1000;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The unit at the start of a text, not before `from`; UNIT_COUNT if missing. */
static size_t unit_at(const char *text, size_t len, size_t from)
{
    for (size_t i = from; i < UNIT_COUNT; i++)
        if (strlen(units[i].name) == len && strncmp(units[i].name, text, len) == 0)
            return i;
    return UNIT_COUNT;
}

bool duration_parse(const char *text, long long *ret_ms)
{
    long long total = 0;
    size_t next_unit = 0;
    if (*text == '\0')
        return false;
    while (*text != '\0') {
        long long number = 0;
        if (!is_digit(*text))
            return false;
        for (; is_digit(*text); text++) {
            number = number * 10 + (*text - '0');
            if (number > longest_ms)
                return false;
        }
        size_t len = strcspn(text, "0123456789");
        size_t unit = unit_at(text, len, next_unit);
        if (unit == UNIT_COUNT || number > longest_ms / units[unit].ms)
            return false;
        total += number * units[unit].ms;
        text += len;
        next_unit = unit + 1;
    }
    if (total > longest_ms)
        return false;
    *ret_ms = total;
    return true;
}

/* The greatest unit that fits, and the smallest that is shown beside it: milliseconds beside
 * seconds, and hours beside ten days, are more than anybody reads. */
static size_t unit_of(long long ms, size_t *ret_last)
{
    enum { MANY = 10 };
    size_t unit = 0;
    while (unit + 1 < UNIT_COUNT && ms < units[unit].ms)
        unit++;
    *ret_last = unit + 2 < UNIT_COUNT && ms / units[unit].ms < MANY ? unit + 1 : unit;
    return unit;
}

void duration_write(long long ms, char ret[DURATION_LEN_MAX])
{
    size_t last;
    if (ms < 0)
        ms = 0;
    (void)unit_of(ms, &last);
    long long rest = ms % units[last].ms;
    ms -= rest;
    if (rest >= units[last].ms - rest && ms <= LLONG_MAX - units[last].ms)
        ms += units[last].ms;

    /* What was rounded up may fit a greater unit. */
    size_t unit = unit_of(ms, &last);
    long long second = ms % units[unit].ms / units[last].ms;
    int len = snprintf(ret, DURATION_LEN_MAX, "%lld%s", ms / units[unit].ms, units[unit].name);
    if (second > 0 && len > 0 && len < DURATION_LEN_MAX)
        snprintf(ret + len, (size_t)(DURATION_LEN_MAX - len), " %lld%s", second, units[last].name);
}
