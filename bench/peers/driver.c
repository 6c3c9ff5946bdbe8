#include "driver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

_Noreturn void drive_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void *drive_alloc(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);
    if (memory == NULL)
        drive_die("out of memory");
    return memory;
}

double drive_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void drive_sleep_until(double moment)
{
    double wait = moment - drive_now();
    if (wait <= 0)
        return;
    struct timespec span = {.tv_sec = (time_t)wait};
    span.tv_nsec = (long)((wait - (double)span.tv_sec) * 1e9);
    nanosleep(&span, NULL);
}

uint64_t drive_share(uint64_t total, uint32_t part, uint32_t parts)
{
    return total / parts + (part < total % parts ? 1 : 0);
}

static double cpu_us(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e6 +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

static uint64_t number(const char *name, const char *text, uint64_t max)
{
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || value > max)
        drive_die("%s %s: a number up to %llu is needed", name, text, (unsigned long long)max);
    return value;
}

void drive_parse(int argc, char **argv, struct drive *ret_drive)
{
    struct drive drive = {
        .operation = "enqueue", .jobs = 1, .clients = 1, .producers = 1, .batch = 1, .rate = 100};
    uint64_t seconds = 60;

    for (int i = 1; i < argc; i += 2) {
        const char *name = argv[i];
        const char *value = argv[i + 1];
        if (value == NULL)
            drive_die("%s needs a value", name);
        if (strcmp(name, "--operation") == 0)
            drive.operation = value;
        else if (strcmp(name, "--target") == 0)
            drive.target = value;
        else if (strcmp(name, "--jobs") == 0)
            drive.jobs = number(name, value, 100000000);
        else if (strcmp(name, "--waiting") == 0)
            drive.waiting = number(name, value, 100000000);
        else if (strcmp(name, "--clients") == 0)
            drive.clients = (uint32_t)number(name, value, DRIVE_CLIENTS_MAX);
        else if (strcmp(name, "--producers") == 0)
            drive.producers = (uint32_t)number(name, value, DRIVE_CLIENTS_MAX);
        else if (strcmp(name, "--batch") == 0)
            drive.batch = (uint32_t)number(name, value, DRIVE_BATCH_MAX);
        else if (strcmp(name, "--rate") == 0)
            drive.rate = (uint32_t)number(name, value, 1000000);
        else if (strcmp(name, "--seconds") == 0)
            seconds = number(name, value, 3600);
        else
            drive_die("there is no option %s", name);
    }
    if (drive.target == NULL || drive.jobs == 0 || drive.clients == 0 || drive.producers == 0 ||
        drive.batch == 0 || drive.rate == 0)
        drive_die("--target is needed, and counts are at least 1");

    /* {"data":"xxx…"}, as the other clients send it. */
    memset(drive.payload, 'x', DRIVE_PAYLOAD_BYTES);
    memcpy(drive.payload, "{\"data\":\"", 9);
    memcpy(drive.payload + DRIVE_PAYLOAD_BYTES - 2, "\"}", 2);
    alarm((unsigned)seconds);
    *ret_drive = drive;
}

bool drive_is(const struct drive *drive, const char *operation)
{
    return strcmp(drive->operation, operation) == 0;
}

static void say(const char *line)
{
    puts(line);
    fflush(stdout);
}

void drive_begin(struct drive *drive)
{
    say("begin");
    drive->cpu_started = cpu_us();
    drive->started = drive_now();
}

void drive_end(struct drive *drive)
{
    drive->seconds = drive_now() - drive->started;
    drive->cpu_us = cpu_us() - drive->cpu_started;
    say("end");
}

void drive_tell(const struct drive *drive, uint64_t jobs, uint64_t left)
{
    printf("{\"jobs\":%llu,\"seconds\":%.6f,\"client_cpu_us\":%.0f,\"left\":%llu}\n",
           (unsigned long long)jobs, drive->seconds, drive->cpu_us, (unsigned long long)left);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void drive_tell_latencies(const struct drive *drive, double *ms, uint64_t count, uint64_t left)
{
    if (count == 0)
        drive_die("no job was started");
    qsort(ms, count, sizeof *ms, compare);
    printf("{\"jobs\":%llu,\"seconds\":%.6f,\"client_cpu_us\":%.0f,\"left\":%llu,"
           "\"p50_ms\":%.4f,\"p99_ms\":%.4f}\n",
           (unsigned long long)count, drive->seconds, drive->cpu_us, (unsigned long long)left,
           ms[(count - 1) / 2], ms[(count - 1) * 99 / 100]);
}
