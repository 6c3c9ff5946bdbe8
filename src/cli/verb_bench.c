#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "cli/bench.h"

enum {
    CLIENTS_DEFAULT = 4,
    PAYLOAD_DEFAULT = 200,
    PAYLOAD_MAX = 1024 * 1024,
    RATE_DEFAULT = 100,
    RATE_MAX = 100 * 1000,
    REPEAT_DEFAULT = 3,
    STEPS_DEFAULT = 10,
    HEARTBEATS_DEFAULT = 200,
    WAITS_DEFAULT = 10,
    PLANS_DEFAULT = 5,
    LISTS_DEFAULT = 20,
    GETS_DEFAULT = 50,
    EFFECTS_DEFAULT = 10,
    LIMIT_S_DEFAULT = 60,
    LIMIT_S_MAX = 24 * 60 * 60,
    JOBS_MAX = 100 * 1000 * 1000,
};

/* Numbers of jobs that are to wait, in rising order. */
static enum cli_exit read_levels(struct bench *bench)
{
    static const long long defaults[] = {10 * 1000, 100 * 1000};
    const struct args *args = bench->args;
    size_t count = cli_count(args, "--waiting");
    if (count > BENCH_LEVELS_MAX)
        return cli_usage(args->verb, "--waiting takes at most %d values", BENCH_LEVELS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *said = cli_value_at(args, "--waiting", i);
        char *end;
        long long level = strtoll(said, &end, 10);
        if (said[0] < '0' || said[0] > '9' || *end != '\0' || level > JOBS_MAX)
            return cli_usage(args->verb, "--waiting must be whole numbers from 0 to %d, not '%s'",
                             JOBS_MAX, said);
        if (i > 0 && level <= bench->levels[i - 1])
            return cli_usage(args->verb,
                             "--waiting must be in ascending order, but %lld follows %lld", level,
                             bench->levels[i - 1]);
        bench->levels[i] = level;
    }
    bench->level_count = count;
    if (count == 0) {
        memcpy(bench->levels, defaults, sizeof defaults);
        bench->level_count = sizeof defaults / sizeof defaults[0];
    }
    return CLI_DONE;
}

static enum cli_exit read_settings(const struct args *args, struct bench *ret)
{
    long long limit_s = LIMIT_S_DEFAULT;
    *ret = (struct bench){
        .args = args,
        .clients = CLIENTS_DEFAULT,
        .payload_bytes = PAYLOAD_DEFAULT,
        .rate = RATE_DEFAULT,
        .repeat = REPEAT_DEFAULT,
        .warm_up = 1,
        .steps = STEPS_DEFAULT,
        .serve = cli_has(args, "--serve"),
        .keep = cli_has(args, "--keep"),
        .mix = cli_has(args, "--mix"),
        .background = {.heartbeats = HEARTBEATS_DEFAULT,
                       .waits = WAITS_DEFAULT,
                       .plans = PLANS_DEFAULT,
                       .lists = LISTS_DEFAULT,
                       .gets = GETS_DEFAULT,
                       .effects = EFFECTS_DEFAULT},
        .syncs = -1,
    };
    const struct {
        const char *name;
        long long min;
        long long max;
        long long *ret;
    } numbers[] = {
        {"--jobs", 1, JOBS_MAX, &ret->jobs},
        {"--batch", 1, BENCH_BATCH_MAX, &ret->batch},
        {"--clients", 1, BENCH_CLIENTS_MAX, &ret->clients},
        {"--payload", 0, PAYLOAD_MAX, &ret->payload_bytes},
        {"--rate", 1, RATE_MAX, &ret->rate},
        {"--polls", 0, BENCH_POLLS_MAX, &ret->polls},
        {"--steps", 1, BENCH_STEPS_MAX, &ret->steps},
        {"--heartbeats", 0, BENCH_BACKGROUND_MAX, &ret->background.heartbeats},
        {"--waits", 0, BENCH_BACKGROUND_MAX, &ret->background.waits},
        {"--plans", 0, BENCH_BACKGROUND_MAX, &ret->background.plans},
        {"--lists", 0, BENCH_BACKGROUND_MAX, &ret->background.lists},
        {"--gets", 0, BENCH_BACKGROUND_MAX, &ret->background.gets},
        {"--effects", 0, 100, &ret->background.effects},
        {"--repeat", 1, BENCH_REPEATS_MAX, &ret->repeat},
        {"--warm-up", 0, BENCH_REPEATS_MAX, &ret->warm_up},
        {"--seconds", 1, LIMIT_S_MAX, &limit_s},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        enum cli_exit code =
            cli_number(args, numbers[i].name, numbers[i].min, numbers[i].max, numbers[i].ret);
        if (code != CLI_DONE)
            return code;
    }
    ret->limit_ms = limit_s * 1000;
    const char *queue = cli_value(args, "--queue");
    if (queue != NULL && strlen(queue) >= sizeof ret->queue)
        return cli_usage(args->verb, "--queue must be at most %zu bytes long",
                         sizeof ret->queue - 1);
    if (queue != NULL)
        (void)snprintf(ret->queue, sizeof ret->queue, "%s", queue);
    if (ret->batch * ret->payload_bytes > BENCH_CALL_BYTES_MAX)
        return cli_usage(args->verb,
                         "%lld payloads of %lld bytes exceed the limit of one call: use a smaller "
                         "--batch or --payload",
                         ret->batch, ret->payload_bytes);
    return read_levels(ret);
}

/* Signals are for the one who watches a run: whatever was begun is cleaned up then. And each client
 * of a server takes some files. */
static void make_ready(struct bench *bench)
{
    struct rlimit files;
    (void)sigemptyset(&bench->signals);
    (void)sigaddset(&bench->signals, SIGINT);
    (void)sigaddset(&bench->signals, SIGTERM);
    (void)sigaddset(&bench->signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &bench->signals, NULL);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    /* Threads inherit this: who submits at a rate does so in time. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
}

/* Whether a scenario is to be run: when none is named, all are. */
static bool is_wanted(const struct args *args, const char *name)
{
    for (size_t i = 0; i < args->word_count; i++)
        if (strcmp(args->words[i], name) == 0)
            return true;
    return args->word_count == 0;
}

static enum cli_exit run_scenarios(struct bench *bench)
{
    const char *at = BENCH_SCENARIOS;
    size_t left = strlen(at);
    const char *word;
    size_t len;
    enum cli_exit code = CLI_DONE;
    while (code == CLI_DONE && choice_next(&at, &left, &word, &len)) {
        char *name = strndup(word, len);
        if (name == NULL)
            return cli_no_memory(bench->args->verb);
        if (is_wanted(bench->args, name))
            code = scenario_run(bench, name);
        free(name);
    }
    return code;
}

static enum cli_exit run(const struct args *args)
{
    struct bench bench;
    enum cli_exit code = read_settings(args, &bench);
    if (code != CLI_DONE)
        return code;
    bench.rows = calloc(BENCH_ROWS_MAX, sizeof *bench.rows);
    if (bench.payload_bytes > 0)
        bench.payload = bench_payload(bench.payload_bytes);
    if (bench.rows == NULL || (bench.payload_bytes > 0 && bench.payload == NULL)) {
        code = cli_no_memory(args->verb);
    } else {
        if (bench.queue[0] == '\0')
            bench_name_queue(&bench);
        make_ready(&bench);
        code = run_scenarios(&bench);
    }
    if (code == CLI_DONE)
        code = report_print(&bench);
    free(bench.payload);
    free(bench.rows);
    return code;
}

static const struct option options[] = {
    {.name = "--store",
     .value = "URL",
     .text = "the store or server (default: PAWL_STORE, then a temporary SQLite file)"},
    {.name = "--serve", .text = "start a server for the store and use it over HTTP"},
    {.name = "--jobs",
     .value = "N",
     .text = "jobs per run (default: 20000; 5000 with --batch 1; mixed 100000)"},
    {.name = "--batch", .value = "N", .text = "jobs per call (default: 100; latency 1)"},
    {.name = "--clients",
     .value = "N",
     .text = "producers and workers, one thread each (default: 4)"},
    {.name = "--payload", .value = "BYTES", .text = "payload bytes per job (default: 200)"},
    {.name = "--rate", .value = "N", .text = "latency: jobs per second (default: 100)"},
    {.name = "--polls", .value = "N", .text = "latency: other waiting claims (default: 0)"},
    {.name = "--waiting",
     .value = "N",
     .text = "backlog: waiting jobs, ascending (default: 10000 100000)",
     .times = OPTION_MANY},
    {.name = "--mix",
     .text = "backlog: waiting jobs are of other kinds, scheduled, or in a paused queue"},
    {.name = "--queue", .value = "QUEUE", .text = "queue of the jobs (default: a new one)"},
    {.name = "--steps", .value = "N", .text = "plans: steps per plan (default: 10)"},
    {.name = "--heartbeats",
     .value = "N",
     .text = "mixed: heartbeats of other leases per second (default: 200)"},
    {.name = "--waits",
     .value = "N",
     .text = "mixed: jobs per second that wait for a signal (default: 10)"},
    {.name = "--plans",
     .value = "N",
     .text = "mixed: plans of three steps per second (default: 5)"},
    {.name = "--lists", .value = "N", .text = "mixed: lists of 50 jobs per second (default: 20)"},
    {.name = "--gets", .value = "N", .text = "mixed: reads of one job per second (default: 50)"},
    {.name = "--effects",
     .value = "PERCENT",
     .text = "mixed: percentage of jobs with two effects (default: 10)"},
    {.name = "--repeat", .value = "N", .text = "measured runs (default: 3)"},
    {.name = "--warm-up", .value = "N", .text = "warm-up runs (default: 1)"},
    {.name = "--seconds", .value = "N", .text = "time limit per run in seconds (default: 60)"},
    {.name = "--keep", .text = "keep the jobs and the temporary file"},
    {0},
};

const struct verb verb_bench = {
    .name = "bench",
    .summary = "measure the throughput and latency of a store or server",
    .arguments = "[" BENCH_SCENARIOS "...]",
    .about =
        "Measures a store, or a server with --store http://... or --serve: throughput, processor\n"
        "time per job in the client and the server, events per second, and for SQLite the bytes\n"
        "on disk. Every number is the median of several runs; LEAST and MOST show the spread. A\n"
        "run that exceeds its time limit is cut off and counted up to that point.\n"
        "\n"
        "  submit      producers only\n"
        "  drain       workers only: claim and complete existing jobs\n"
        "  work        producers and workers at the same time\n"
        "  latency     queue latency at a given rate: P50, P95 and P99\n"
        "  backlog     work while other jobs wait, for backlogs of increasing size\n"
        "  effects     jobs with 1 and with 4 effects\n"
        "  heartbeats  lease renewals\n"
        "  plans       steps of chains and of fan-outs\n"
        "  mixed       work with and without background load: heartbeats, effects, waits,\n"
        "              plans and reads at given rates, with the latency of each\n"
        "\n"
        "Without a name all are run. The jobs go into a separate queue, and remaining jobs are\n"
        "cancelled at the end; other jobs in the store are not touched. The number of completed\n"
        "jobs is checked in the store; if it differs from the workers' count, the exit code is 1.\n"
        "CPU US is the processor time per unit of this process in microseconds, SERVER US that of\n"
        "the server. PostgreSQL's own processes are in neither.\n",
    .options = options,
    .examples = "  pawl bench\n"
                "  pawl bench drain work --batch 1000 --clients 2\n"
                "  pawl bench submit drain --serve --batch 1 --clients 64\n"
                "  pawl bench latency --store http://127.0.0.1:7295 --rate 100 --polls 1000\n"
                "  pawl bench mixed --serve --heartbeats 200 --lists 20 --effects 10\n"
                "  pawl bench backlog --waiting 10000 1000000 --store postgres://db/pawl\n",
    .takes = TAKES_JSON,
    .run = run,
};
