/* Claims that wait while 'pawl bench' measures others: workers of a queue that has no work. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench.h"

enum {
    POLLS_A_HANDLE = 40, /* as many waits as a connection pool takes with ease */
    STACK_BYTES = 256 * 1024,
    WAIT_MS = 20 * 1000,
    SETTLE_MS = 300,
};

struct poll {
    struct polls *polls;
    struct pawl *pawl;
    pthread_t thread;
};

struct polls {
    struct site *site;
    char request[160];
    struct pawl **handles;
    long long handle_count;
    struct poll *at;
    long long count; /* that run */
    atomic_llong begun;
    atomic_bool stop;
};

static void *poll_on(void *arg)
{
    const struct poll *poll = arg;
    struct polls *polls = poll->polls;
    char *answer;
    (void)atomic_fetch_add(&polls->begun, 1);
    while (!atomic_load(&polls->stop)) {
        if (pawl_claim(poll->pawl, polls->request, &answer, NULL) != PAWL_OK)
            return NULL;
        pawl_free(answer);
    }
    return NULL;
}

static bool open_handles(struct polls *polls, long long wanted, struct pawl_error *error)
{
    for (; polls->handle_count < wanted; polls->handle_count++) {
        struct pawl *pawl = site_handle(polls->site, error);
        if (pawl == NULL)
            return false;
        polls->handles[polls->handle_count] = pawl;
    }
    return true;
}

static bool start_threads(struct polls *polls, long long wanted)
{
    pthread_attr_t attributes;
    bool well = pthread_attr_init(&attributes) == 0;
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (; polls->count < wanted && well; polls->count += well) {
        struct poll *poll = &polls->at[polls->count];
        *poll = (struct poll){polls, polls->handles[polls->count % polls->handle_count], 0};
        well = pthread_create(&poll->thread, &attributes, poll_on, poll) == 0;
    }
    (void)pthread_attr_destroy(&attributes);
    return well;
}

enum cli_exit polls_start(struct site *site, long long count, struct polls **ret)
{
    const struct verb *verb = site->bench->args->verb;
    struct pawl_error error = {0};
    long long handles = site->is_server ? (count + POLLS_A_HANDLE - 1) / POLLS_A_HANDLE : 1;
    struct polls *polls = calloc(1, sizeof *polls);
    if (polls == NULL)
        return cli_no_memory(verb);
    polls->site = site;
    polls->handles = calloc((size_t)handles, sizeof(struct pawl *));
    polls->at = calloc((size_t)count, sizeof *polls->at);
    (void)snprintf(polls->request, sizeof polls->request,
                   "{\"worker_id\":\"bench-poll\",\"queues\":[\"%s-idle\"],\"wait_ms\":%d}",
                   site->queue, WAIT_MS);
    enum cli_exit code = CLI_DONE;
    if (polls->handles == NULL || polls->at == NULL)
        code = cli_no_memory(verb);
    else if (!open_handles(polls, handles, &error))
        code = cli_failed(verb, &error);
    else if (!start_threads(polls, count)) {
        cli_complain(verb, "%lld polls are too many; at most %lld threads are available", count,
                     polls->count);
        code = CLI_FAILED;
    }
    if (code != CLI_DONE) {
        polls_stop(polls);
        return code;
    }
    while (atomic_load(&polls->begun) < count)
        bench_sleep_until(bench_now_ns() + 1000000);
    /* That they have begun to call does not say that they are there. */
    bench_sleep_until(bench_now_ns() + SETTLE_MS * 1000000LL);
    *ret = polls;
    return CLI_DONE;
}

void polls_stop(struct polls *polls)
{
    if (polls == NULL)
        return;
    atomic_store(&polls->stop, true);
    for (long long i = 0; i < polls->handle_count; i++)
        pawl_interrupt(polls->handles[i]);
    for (long long i = 0; i < polls->count; i++)
        (void)pthread_join(polls->at[i].thread, NULL);
    for (long long i = 0; i < polls->handle_count; i++)
        site_drop_handle(polls->site, polls->handles[i]);
    free(polls->handles);
    free(polls->at);
    free(polls);
}
