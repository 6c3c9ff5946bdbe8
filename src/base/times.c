#include "base/times.h"

#include <assert.h>
#include <stddef.h>

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)
#define DURATION_MAX_MS (36525 * DAY_MS) /* 100 years of 365.25 days */

struct date {
    int64_t year;
    int64_t month; /* 1 to 12 */
    int64_t day;   /* 1 to 31 */
};

/* Both conversions count years from March, so that the leap day is the last of its year, in eras of
 * 400 years = 146,097 days. The days from 0000-03-01 to 1970-01-01 are 719,468. */
static int64_t days_from_date(struct date date)
{
    assert(date.month >= 1 && date.month <= 12);
    int64_t year = date.month <= 2 ? date.year + 399 : date.year + 400; /* never below 0 */
    int64_t era = year / 400;
    int64_t year_of_era = year % 400;
    int64_t month = (date.month + 9) % 12;
    int64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (era - 1) * 146097 + day_of_era - 719468;
}

static struct date date_from_days(int64_t days)
{
    assert(days >= 0);
    int64_t shifted = days + 719468;
    int64_t era = shifted / 146097;
    int64_t day_of_era = shifted % 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    struct date date;
    date.day = day_of_year - (153 * month + 2) / 5 + 1;
    date.month = month < 10 ? month + 3 : month - 9;
    date.year = era * 400 + year_of_era + (date.month <= 2 ? 1 : 0);
    return date;
}

static int64_t days_in_month(int64_t year, int64_t month)
{
    static const int8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    assert(month >= 1 && month <= 12);
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

static void put_two(char *at, uint32_t value)
{
    assert(value < 100);
    at[0] = (char)('0' + value / 10);
    at[1] = (char)('0' + value % 10);
}

void time_format(int64_t time_ms, char ret[TIME_TEXT_LEN])
{
    assert(time_ms >= 0);
    assert(time_ms <= TIME_MAX_MS);
    struct date date = date_from_days(time_ms / DAY_MS);
    uint32_t rest = (uint32_t)(time_ms % DAY_MS);
    uint32_t seconds = rest / SECOND_MS;
    uint32_t millis = rest % SECOND_MS;
    memcpy(ret, "0000-00-00T00:00:00.000Z", TIME_TEXT_LEN);
    put_two(ret, (uint32_t)date.year / 100);
    put_two(ret + 2, (uint32_t)date.year % 100);
    put_two(ret + 5, (uint32_t)date.month);
    put_two(ret + 8, (uint32_t)date.day);
    put_two(ret + 11, seconds / 3600);
    put_two(ret + 14, seconds / 60 % 60);
    put_two(ret + 17, seconds % 60);
    put_two(ret + 20, millis / 10);
    ret[22] = (char)('0' + millis % 10);
}

/* Text being read. Each take_ function moves `at` past what it read, or returns false. */
struct reader {
    const char *at;
    const char *end;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool take_char(struct reader *reader, char wanted)
{
    if (reader->at == reader->end || *reader->at != wanted)
        return false;
    reader->at++;
    return true;
}

/* Exactly `count` digits whose number is in min..max. */
static bool take_number(struct reader *reader, int count, int64_t min, int64_t max, int64_t *ret)
{
    int64_t number = 0;
    if (reader->end - reader->at < count)
        return false;
    for (int i = 0; i < count; i++) {
        if (!is_digit(reader->at[i]))
            return false;
        number = number * 10 + (reader->at[i] - '0');
    }
    reader->at += count;
    *ret = number;
    return number >= min && number <= max;
}

/* An optional fraction of a second; digits after the third are read and dropped. */
static bool take_fraction(struct reader *reader, int64_t *ret_ms)
{
    *ret_ms = 0;
    if (!take_char(reader, '.'))
        return true;
    int64_t unit_ms = 100;
    const char *first = reader->at;
    while (reader->at < reader->end && is_digit(*reader->at)) {
        *ret_ms += (*reader->at - '0') * unit_ms;
        unit_ms /= 10;
        reader->at++;
    }
    return reader->at > first;
}

/* Z, z, or the distance from UTC, which is to be taken off the time. */
static bool take_offset(struct reader *reader, int64_t *ret_ms)
{
    *ret_ms = 0;
    if (take_char(reader, 'Z') || take_char(reader, 'z'))
        return true;
    int64_t sign = take_char(reader, '-') ? -1 : 1;
    if (sign == 1 && !take_char(reader, '+'))
        return false;
    int64_t hours;
    int64_t minutes;
    if (!take_number(reader, 2, 0, 23, &hours) || !take_char(reader, ':') ||
        !take_number(reader, 2, 0, 59, &minutes))
        return false;
    *ret_ms = sign * (hours * HOUR_MS + minutes * MINUTE_MS);
    return true;
}

static bool take_date(struct reader *reader, struct date *ret)
{
    return take_number(reader, 4, 0, 9999, &ret->year) && take_char(reader, '-') &&
           take_number(reader, 2, 1, 12, &ret->month) && take_char(reader, '-') &&
           take_number(reader, 2, 1, days_in_month(ret->year, ret->month), &ret->day);
}

bool time_parse(struct str text, int64_t *ret_ms)
{
    assert(ret_ms != NULL);
    if (text.len == 0)
        return false;
    struct reader reader = {text.at, text.at + text.len};
    struct date date;
    int64_t hour;
    int64_t minute;
    int64_t second;
    int64_t fraction_ms;
    int64_t offset_ms;
    if (!take_date(&reader, &date) || !(take_char(&reader, 'T') || take_char(&reader, 't')) ||
        !take_number(&reader, 2, 0, 23, &hour) || !take_char(&reader, ':') ||
        !take_number(&reader, 2, 0, 59, &minute) || !take_char(&reader, ':') ||
        !take_number(&reader, 2, 0, 59, &second) || !take_fraction(&reader, &fraction_ms) ||
        !take_offset(&reader, &offset_ms) || reader.at != reader.end)
        return false;
    int64_t time_ms = days_from_date(date) * DAY_MS + hour * HOUR_MS + minute * MINUTE_MS +
                      second * SECOND_MS + fraction_ms - offset_ms;
    if (time_ms < 0 || time_ms > TIME_MAX_MS)
        return false;
    *ret_ms = time_ms;
    return true;
}

/* A whole number of any length; false if missing or past every duration. */
static bool take_amount(struct reader *reader, int64_t *ret)
{
    const char *first = reader->at;
    int64_t amount = 0;
    while (reader->at < reader->end && is_digit(*reader->at)) {
        amount = amount * 10 + (*reader->at - '0');
        if (amount > DURATION_MAX_MS)
            return false;
        reader->at++;
    }
    *ret = amount;
    return reader->at > first;
}

bool duration_parse(struct str text, int64_t *ret_ms)
{
    static const struct {
        char name[3];
        int64_t ms;
    } units[] = {{"d", DAY_MS}, {"h", HOUR_MS}, {"m", MINUTE_MS}, {"s", SECOND_MS}, {"ms", 1}};
    enum { UNITS = sizeof units / sizeof units[0] };

    assert(ret_ms != NULL);
    if (text.len == 0)
        return false;
    struct reader reader = {text.at, text.at + text.len};
    int64_t total_ms = 0;
    size_t unit = 0; /* the largest that may still come */
    while (reader.at < reader.end) {
        int64_t amount;
        if (!take_amount(&reader, &amount))
            return false;
        const char *name = reader.at;
        while (reader.at < reader.end && !is_digit(*reader.at))
            reader.at++;
        struct str wanted = {name, (size_t)(reader.at - name)};
        while (unit < UNITS && !str_eq(wanted, str_from(units[unit].name)))
            unit++;
        if (unit == UNITS || amount > (DURATION_MAX_MS - total_ms) / units[unit].ms)
            return false;
        total_ms += amount * units[unit].ms;
        unit++;
    }
    *ret_ms = total_ms;
    return true;
}
