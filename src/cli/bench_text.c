/* Texts that grow, payloads and clocks of 'pawl bench'. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/bench.h"

static bool make_room(struct draft *draft, size_t len)
{
    if (draft->cap - draft->len > len)
        return true;
    size_t cap = (draft->len + len + 1) * 2;
    char *at = cap > len ? realloc(draft->at, cap) : NULL;
    if (at == NULL) {
        draft->failed = true;
        return false;
    }
    draft->at = at;
    draft->cap = cap;
    return true;
}

void draft_add(struct draft *draft, const char *text, size_t len)
{
    if (!make_room(draft, len))
        return;
    memcpy(draft->at + draft->len, text, len);
    draft->len += len;
    draft->at[draft->len] = '\0';
}

void draft_text(struct draft *draft, const char *text)
{
    draft_add(draft, text, strlen(text));
}

void draft_print(struct draft *draft, const char *format, ...)
{
    va_list arguments;
    va_list again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    if (len < 0)
        draft->failed = true;
    else if (make_room(draft, (size_t)len)) {
        (void)vsnprintf(draft->at + draft->len, draft->cap - draft->len, format, again);
        draft->len += (size_t)len;
    }
    va_end(again);
    va_end(arguments);
}

void draft_free(struct draft *draft)
{
    free(draft->at);
    *draft = (struct draft){0};
}

char *bench_payload(long long bytes)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t len = (size_t)bytes;
    char *payload = malloc(len + 1);
    uint64_t state = 88172645463325252U;
    if (payload == NULL)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        payload[i] = letters[state >> 58];
    }
    payload[len] = '\0';
    if (len == 1) {
        payload[0] = '1';
    } else if (len > 1) {
        payload[0] = '"';
        payload[len - 1] = '"';
    }
    return payload;
}

static long long nanoseconds(struct timespec at)
{
    return (long long)at.tv_sec * 1000000000 + at.tv_nsec;
}

long long bench_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return nanoseconds(now);
}

void bench_sleep_until(long long at_ns)
{
    struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = (long)(at_ns % 1000000000)};
    int woken;
    do
        woken = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    while (woken == EINTR);
}

double bench_own_cpu(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)nanoseconds(now) / 1e9;
}
