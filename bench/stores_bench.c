/* How many events a second each store commits, beside the bare database that changes the same rows.
 *
 *   stores_bench [--json] [--rounds N] [--store NAME] [--batch N] [--claim N] [--only NAME]
 *
 * Whole lives of jobs (bench/lives.h), `batch` jobs in each commit, by
 *
 *   bare    the database by hand, with rows decided beforehand (memory: decide and seal, no store)
 *   rows    the same a statement a row instead of an array a column (PostgreSQL)
 *   store   the store's verbs, with events and rows decided beforehand
 *   engine  batch_run: decide, seal, store
 *
 * Every round has all of them, each on a database of its own, in turns, so that what else the
 * machine does falls on all; a percentage is the median over the rounds of the ratio within a
 * round. At the end the databases must be the same, row for row. scripts/bench-stores runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contenders.h"
#include "store/test_stores.h"

enum { ROUNDS_MIN = 5, ROUNDS_MAX = 101, BATCHES = 4 };

enum who { WHO_BARE, WHO_ROWS, WHO_STORE, WHO_ENGINE, WHO_COUNT };

static const char *const who_names[WHO_COUNT] = {"bare", "rows", "store", "engine"};

/* Enough jobs for a round of a good part of a second. */
static const struct {
    uint32_t batch;
    uint32_t jobs;
    uint32_t memory_jobs;
} sizes[BATCHES] = {{1, 150, 5000}, {10, 1000, 10000}, {100, 5000, 10000}, {1000, 10000, 10000}};

struct settings {
    bool json;
    uint32_t rounds;
    int store;      /* enum test_store; -1: all */
    uint32_t batch; /* 0: all */
    uint32_t claim; /* 0: a claim takes the whole batch */
    int only;       /* enum who; -1: all */
};

struct measured {
    double rate[WHO_COUNT][ROUNDS_MAX]; /* events a second */
    bool present[WHO_COUNT];
};

struct rival {
    struct contender *contender;
    char url[1024];
    uint64_t batches; /* so far */
};

/* ---- one batch size on one store ---- */

static struct contender *open_rival(enum test_store store, enum who who, const char *url,
                                    uint32_t claim_max)
{
    if (who == WHO_STORE)
        return contend_store(url, claim_max);
    if (who == WHO_ENGINE)
        return contend_engine(url, claim_max);
    if (store == TEST_MEMORY)
        return who == WHO_BARE ? contend_nobody() : NULL;
    if (store == TEST_SQLITE)
        return who == WHO_BARE ? contend_bare_sqlite(url) : NULL;
    return contend_bare_postgres(url, who == WHO_ROWS);
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Events a second in one round of one rival. */
static double run_round(struct rival *rival, struct lives *lives, uint32_t batch, uint32_t jobs)
{
    double seconds = 0;
    rival->contender->settle(rival->contender);
    for (uint32_t done = 0; done < jobs; done += batch) {
        lives_plan(lives, ++rival->batches, batch);
        rival->contender->prepare(rival->contender, lives);
        double start = now_s();
        rival->contender->run(rival->contender, lives);
        seconds += now_s() - start;
    }
    return (double)jobs * LIFE_EVENTS / seconds;
}

static void check_same(enum test_store store, const struct rival *rivals, uint64_t events)
{
    const char *urls[WHO_COUNT];
    uint32_t count = 0;
    for (int who = 0; who < WHO_COUNT; who++)
        if (rivals[who].url[0] != '\0')
            urls[count++] = rivals[who].url;
    if (store == TEST_MEMORY || count == 0)
        return;
    uint64_t found =
        store == TEST_SQLITE ? sqlite_check_same(urls, count) : postgres_check_same(urls, count);
    bench_check(found == events, "there are %llu events, not %llu", (unsigned long long)found,
                (unsigned long long)events);
}

/* The first round warms up and is not counted. */
static void measure(const struct settings *settings, enum test_store store, uint32_t batch,
                    uint32_t jobs, struct measured *ret)
{
    struct test_stores stores;
    struct rival rivals[WHO_COUNT] = {{0}};
    struct lives lives;
    *ret = (struct measured){0};
    test_stores_init(&stores);
    lives_init(&lives);
    for (int who = 0; who < WHO_COUNT; who++) {
        struct rival *rival = &rivals[who];
        if (who == WHO_ROWS && store != TEST_POSTGRES)
            continue;
        if (settings->only >= 0 && settings->only != who)
            continue;
        (void)snprintf(rival->url, sizeof rival->url, "%s", test_stores_fresh(&stores, store));
        rival->contender = open_rival(store, (enum who)who, rival->url,
                                      settings->claim == 0 ? batch : settings->claim);
        ret->present[who] = true;
    }
    for (uint32_t round = 0; round <= settings->rounds; round++)
        for (uint32_t turn = 0; turn < WHO_COUNT; turn++) {
            uint32_t who = (turn + round) % WHO_COUNT;
            if (!ret->present[who])
                continue;
            double rate = run_round(&rivals[who], &lives, batch, jobs);
            if (round > 0)
                ret->rate[who][round - 1] = rate;
        }
    for (int who = 0; who < WHO_COUNT; who++)
        if (ret->present[who])
            rivals[who].contender->close(rivals[who].contender);
    check_same(store, rivals, (uint64_t)jobs * LIFE_EVENTS * (settings->rounds + 1));
    lives_release(&lives);
    test_stores_release(&stores);
}

/* ---- figures ---- */

static int by_size(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

static double median(const double *values, uint32_t count)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, by_size);
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double ratio(const struct measured *measured, enum who who, uint32_t rounds)
{
    double ratios[ROUNDS_MAX];
    for (uint32_t i = 0; i < rounds; i++)
        ratios[i] = measured->rate[who][i] / measured->rate[WHO_BARE][i];
    return median(ratios, rounds);
}

/* With a comma for the thousands. */
static const char *grouped(double rate, char ret[32])
{
    unsigned long value = (unsigned long)(rate + 0.5);
    if (value >= 1000000)
        (void)snprintf(ret, 32, "%lu,%03lu,%03lu", value / 1000000, value / 1000 % 1000,
                       value % 1000);
    else if (value >= 1000)
        (void)snprintf(ret, 32, "%lu,%03lu", value / 1000, value % 1000);
    else
        (void)snprintf(ret, 32, "%lu", value);
    return ret;
}

static void print_head(const struct settings *settings)
{
    printf(
        "Events committed per second. A job's life has 4 events in 3 commits, and a payload of\n"
        "200 bytes; `batch` jobs go into a commit. Medians of %u rounds; percentages are of the\n"
        "bare database, which changes the same rows, within the same round.\n\n",
        settings->rounds);
    printf("%-9s %6s %11s %16s %18s %18s\n", "store", "batch", "bare", "bare by row", "store only",
           "engine and store");
}

static void print_figure(const struct measured *measured, enum who who, uint32_t rounds, int width)
{
    char text[64];
    char number[32];
    if (!measured->present[who]) {
        printf(" %*s", width, "");
        return;
    }
    const char *rate = grouped(median(measured->rate[who], rounds), number);
    if (who == WHO_BARE || !measured->present[WHO_BARE])
        (void)snprintf(text, sizeof text, "%s", rate);
    else
        (void)snprintf(text, sizeof text, "%s %4.0f %%", rate, 100 * ratio(measured, who, rounds));
    printf(" %*s", width, text);
}

static void print_row(enum test_store store, uint32_t batch, const struct measured *measured,
                      uint32_t rounds)
{
    static const int widths[WHO_COUNT] = {11, 16, 18, 18};
    printf("%-9s %6u", test_store_names[store], batch);
    for (int who = 0; who < WHO_COUNT; who++)
        print_figure(measured, (enum who)who, rounds, widths[who]);
    printf("\n");
    (void)fflush(stdout);
}

static void print_json(enum test_store store, uint32_t batch, const struct measured *measured,
                       uint32_t rounds, bool first)
{
    printf("%s\n  {\"store\": \"%s\", \"batch\": %u, \"rounds\": %u", first ? "[" : ",",
           test_store_names[store], batch, rounds);
    for (int who = 0; who < WHO_COUNT; who++) {
        if (!measured->present[who])
            continue;
        printf(", \"%s_events_per_s\": %.0f", who_names[who], median(measured->rate[who], rounds));
        if (who != WHO_BARE && measured->present[WHO_BARE])
            printf(", \"%s_ratio\": %.3f", who_names[who], ratio(measured, (enum who)who, rounds));
    }
    printf("}");
    (void)fflush(stdout);
}

/* ---- the command line ---- */

static _Noreturn void usage(void)
{
    (void)fputs("usage: stores_bench [--json] [--rounds N] [--store memory|sqlite|postgres]\n"
                "                    [--batch 1|10|100|1000] [--claim N]\n"
                "                    [--only bare|rows|store|engine]\n",
                stderr);
    exit(2);
}

static int find_name(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    usage();
}

static uint32_t read_number(const char *text, uint32_t min, uint32_t max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < min || value > max)
        usage();
    return (uint32_t)value;
}

static struct settings read_settings(int argc, char **argv)
{
    struct settings settings = {.rounds = ROUNDS_MIN, .store = -1, .only = -1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            settings.json = true;
            continue;
        }
        if (i + 1 == argc)
            usage();
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--rounds") == 0)
            settings.rounds = read_number(value, 1, ROUNDS_MAX);
        else if (strcmp(argv[i], "--store") == 0)
            settings.store = find_name(value, test_store_names, TEST_STORE_COUNT);
        else if (strcmp(argv[i], "--batch") == 0)
            settings.batch = read_number(value, 1, 1000);
        else if (strcmp(argv[i], "--claim") == 0)
            settings.claim = read_number(value, 1, 1000);
        else if (strcmp(argv[i], "--only") == 0)
            settings.only = find_name(value, who_names, WHO_COUNT);
        else
            usage();
        i++;
    }
    return settings;
}

int main(int argc, char **argv)
{
    struct settings settings = read_settings(argc, argv);
    bool first = true;
    if (!settings.json)
        print_head(&settings);
    for (int store = 0; store < TEST_STORE_COUNT; store++)
        for (int i = 0; i < BATCHES; i++) {
            struct measured measured;
            if (settings.store >= 0 && settings.store != store)
                continue;
            if (settings.batch != 0 && settings.batch != sizes[i].batch)
                continue;
            measure(&settings, (enum test_store)store, sizes[i].batch,
                    store == TEST_MEMORY ? sizes[i].memory_jobs : sizes[i].jobs, &measured);
            if (settings.json)
                print_json((enum test_store)store, sizes[i].batch, &measured, settings.rounds,
                           first);
            else
                print_row((enum test_store)store, sizes[i].batch, &measured, settings.rounds);
            first = false;
        }
    if (settings.json)
        printf("%s\n", first ? "[]" : "\n]");
    return 0;
}
