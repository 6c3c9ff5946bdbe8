#include "cli/when.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/duration.h"

long long when_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* `count` digits of a text as a number; -1 when they are none. */
static int digits(const char *text, int count)
{
    int number = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

/* Whether a text looks like its pattern, in which 0 is any digit. */
static bool looks_like(const char *text, const char *pattern)
{
    for (; *pattern != '\0'; pattern++, text++)
        if (*pattern == '0' ? *text < '0' || *text > '9' : *text != *pattern)
            return false;
    return true;
}

/* Days from 1970-01-01 to a day of the Gregorian calendar. Years start in March here, so that the
 * day that some years have more is their last. */
static long long days_from(int year, int month, int day)
{
    long long y = month > 2 ? year : year - 1;
    long long m = (month + 9) % 12;
    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 306 + 5) / 10 + day - 1 - 719468;
}

bool when_parse(const char *text, long long *ret_ms)
{
    if (!looks_like(text, "0000-00-00T00:00:00"))
        return false;
    int month = digits(text + 5, 2);
    int day = digits(text + 8, 2);
    int hour = digits(text + 11, 2);
    int minute = digits(text + 14, 2);
    int second = digits(text + 17, 2);
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60)
        return false;

    int fraction = 0;
    int places = 0;
    const char *at = text + 19;
    if (*at == '.')
        for (at++; *at >= '0' && *at <= '9'; at++)
            if (places < 3) {
                fraction = fraction * 10 + (*at - '0');
                places++;
            }
    for (; places < 3; places++)
        fraction *= 10;
    if (strcmp(at, "Z") != 0)
        return false;

    long long days = days_from(digits(text, 4), month, day);
    *ret_ms = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + fraction;
    return true;
}

void when_write(long long ms, char ret[WHEN_LEN_MAX])
{
    long long fraction = (ms % 1000 + 1000) % 1000;
    time_t seconds = (time_t)((ms - fraction) / 1000);
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL) {
        snprintf(ret, WHEN_LEN_MAX, "%lld ms", ms);
        return;
    }
    char date[WHEN_LEN_MAX - 8];
    if (strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        date[0] = '\0';
    snprintf(ret, WHEN_LEN_MAX, "%s.%03lldZ", date, fraction);
}

void when_relative(long long ms, long long now_ms, char ret[WHEN_LEN_MAX])
{
    char duration[DURATION_LEN_MAX];
    long long away = ms > now_ms ? ms - now_ms : now_ms - ms;
    duration_write(away, duration);
    if (away < 1000)
        snprintf(ret, WHEN_LEN_MAX, "now");
    else if (ms > now_ms)
        snprintf(ret, WHEN_LEN_MAX, "in %s", duration);
    else
        snprintf(ret, WHEN_LEN_MAX, "%s ago", duration);
}
