/* One run of 'pawl bench': clients that start at the same moment, how long they take, what that
 * costs, and whether the store has counted what they have. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/bench.h"
#include "cli/progress.h"

enum { STACK_BYTES = 512 * 1024, LOOK_MS = 20 };

/* The clients of a run. */
struct crew {
    struct client *at;
    long long count;   /* for which there is room */
    long long started; /* that have a thread */
};

/* ---- what clients see ---- */

bool run_is_over(const struct run *run)
{
    return atomic_load(&run->stop) || (run->goal > 0 && atomic_load(&run->finished) >= run->goal) ||
           bench_now_ns() >= run->deadline_ns;
}

long long run_take(struct run *run, long long most)
{
    if (run_is_over(run))
        return 0;
    long long before = atomic_fetch_add(&run->handed, most);
    if (before >= run->jobs)
        return 0;
    return run->jobs - before < most ? run->jobs - before : most;
}

bool run_enter(struct run *run, long long count)
{
    struct timespec until;
    long long entered = 0;
    while (entered < count && !run_is_over(run)) {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        entered += sem_timedwait(&run->room, &until) == 0;
    }
    return entered == count;
}

void run_leave(struct run *run, long long count)
{
    for (long long i = 0; i < count; i++)
        (void)sem_post(&run->room);
}

/* Waits until all are ready. */
static void await_begin(struct run *run)
{
    (void)atomic_fetch_add(&run->ready, 1);
    (void)pthread_mutex_lock(&run->mutex);
    while (!run->begun)
        (void)pthread_cond_wait(&run->begin, &run->mutex);
    (void)pthread_mutex_unlock(&run->mutex);
}

static void *be_client(void *arg)
{
    struct client *client = arg;
    struct run *run = client->run;
    struct pawl_error error = {0};
    client->pawl = site_handle(run->site, &error);
    if (client->pawl == NULL)
        client_fail(client, &error);
    else if (client->role->prepare != NULL)
        client->role->prepare(client);
    await_begin(run);
    if (!atomic_load(&run->stop))
        client->role->work(client);
    if (client->pawl != NULL && client->role->finish != NULL)
        client->role->finish(client);
    if (client->pawl != NULL)
        site_drop_handle(run->site, client->pawl);
    (void)atomic_fetch_add(&run->gone, 1);
    return NULL;
}

/* ---- what we do meanwhile ---- */

/* A short pause, or until somebody wants all of this to end. */
static void look_around(struct run *run, int pause_ms)
{
    struct bench *bench = run->site->bench;
    struct timespec pause = {.tv_nsec = pause_ms * 1000000L};
    if (sigtimedwait(&bench->signals, NULL, &pause) <= 0)
        return;
    bench->interrupted = true;
    atomic_store(&run->stop, true);
    /* The next one ends us as signals do. */
    (void)pthread_sigmask(SIG_UNBLOCK, &bench->signals, NULL);
}

static bool start_crew(struct run *run, const struct role *roles, size_t role_count,
                       struct crew *crew)
{
    pthread_attr_t attributes;
    bool well = pthread_attr_init(&attributes) == 0;
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (size_t i = 0; i < role_count; i++)
        for (long long k = 0; k < roles[i].count && well; k++) {
            struct client *client = &crew->at[crew->started];
            well = client_init(client, run, &roles[i]);
            client->number = crew->started;
            well = well && pthread_create(&client->thread, &attributes, be_client, client) == 0;
            if (!well)
                client_release(client);
            crew->started += well;
        }
    (void)pthread_attr_destroy(&attributes);
    return well;
}

static void begin(struct run *run)
{
    (void)pthread_mutex_lock(&run->mutex);
    run->start_ns = bench_now_ns();
    run->deadline_ns = run->start_ns + run->limit_ms * 1000000;
    run->begun = true;
    (void)pthread_cond_broadcast(&run->begin);
    (void)pthread_mutex_unlock(&run->mutex);
}

/* From the start to the end of all clients. */
static void watch(struct run *run, struct crew *crew, struct measure *ret)
{
    struct progress progress = progress_begin(run->what, run->goal > 0 ? run->goal : run->jobs);
    while (atomic_load(&run->ready) < crew->started)
        look_around(run, 1);
    double server_before = site_server_cpu(run->site);
    double before = bench_own_cpu();
    begin(run);
    while (atomic_load(&run->gone) < crew->started) {
        look_around(run, LOOK_MS);
        progress_show(&progress,
                      run->goal > 0 ? atomic_load(&run->finished) : atomic_load(&run->submitted));
    }
    progress_end(&progress);
    long long done_ns = bench_now_ns();
    site_settle(run->site);
    run->settling_ns = bench_now_ns() - done_ns;
    ret->client_cpu = bench_own_cpu() - before;
    double server_after = site_server_cpu(run->site);
    ret->server_cpu = server_before < 0 || server_after < 0 ? -1 : server_after - server_before;
}

/* ---- what came of it ---- */

static int by_size(const void *a, const void *b)
{
    const double *left = a;
    const double *right = b;
    return (*left > *right) - (*left < *right);
}

/* Latencies of the clients whose role has this place for them. */
static bool collect_latencies(const struct crew *crew, const struct measure *apart,
                              struct measure *measure)
{
    static const int percents[] = {50, 95, 99};
    size_t count = 0;
    for (long long i = 0; i < crew->started; i++)
        if (crew->at[i].role->apart == apart)
            count += crew->at[i].latency_count;
    if (count == 0)
        return true;
    double *all = malloc(count * sizeof *all);
    if (all == NULL)
        return false;
    size_t at = 0;
    for (long long i = 0; i < crew->started; i++) {
        const struct client *client = &crew->at[i];
        if (client->role->apart != apart || client->latency_count == 0)
            continue;
        memcpy(all + at, client->latencies, client->latency_count * sizeof *all);
        at += client->latency_count;
    }
    qsort(all, count, sizeof *all, by_size);
    for (size_t i = 0; i < 3; i++) {
        size_t place = (count * (size_t)percents[i] + 99) / 100;
        measure->latency[i] = all[place > 0 ? place - 1 : 0];
    }
    measure->has_latencies = true;
    if (apart != NULL)
        measure->count = (long long)count;
    free(all);
    return true;
}

/* Ends all threads and adds up. */
static bool collect(struct run *run, struct crew *crew, const struct role *roles, size_t role_count,
                    struct measure *measure)
{
    long long last_ns = run->start_ns;
    for (long long i = 0; i < crew->started; i++) {
        (void)pthread_join(crew->at[i].thread, NULL);
        if (crew->at[i].last_ns > last_ns)
            last_ns = crew->at[i].last_ns;
    }
    measure->start = (double)run->start_ns / 1e9;
    measure->seconds = (double)(last_ns - run->start_ns + run->settling_ns) / 1e9;
    measure->count = atomic_load(&run->finished);
    bool well = collect_latencies(crew, NULL, measure);
    for (size_t i = 0; i < role_count && well; i++) {
        struct measure *apart = roles[i].apart;
        if (apart == NULL)
            continue;
        *apart = (struct measure){.start = measure->start,
                                  .seconds = measure->seconds,
                                  .events = -1,
                                  .client_cpu = -1,
                                  .server_cpu = -1};
        well = collect_latencies(crew, apart, apart);
    }
    for (long long i = 0; i < crew->started; i++)
        client_release(&crew->at[i]);
    return well;
}

/* Completions are what the store says they are. */
static enum cli_exit check_counts(struct run *run, const struct tally *before)
{
    const struct verb *verb = run->site->bench->args->verb;
    struct tally after;
    long long submitted = atomic_load(&run->submitted);
    long long completed = atomic_load(&run->completed);
    enum cli_exit code = site_tally(run->site, &after);
    if (code != CLI_DONE)
        return code;
    if (after.all - before->all == submitted && after.completed - before->completed == completed)
        return CLI_DONE;
    cli_complain(verb,
                 "%s: the store has %lld new and %lld completed jobs in queue %s, but %lld were "
                 "submitted and %lld completed",
                 run->what, after.all - before->all, after.completed - before->completed,
                 run->site->queue, submitted, completed);
    return CLI_FAILED;
}

static enum cli_exit judge(struct run *run, const struct measure *measure)
{
    const struct bench *bench = run->site->bench;
    if (bench->interrupted) {
        cli_complain(bench->args->verb, "interrupted");
        return CLI_FAILED;
    }
    if (run->error.code != PAWL_OK)
        return cli_failed(bench->args->verb, &run->error);
    if (measure->count == 0 || measure->seconds <= 0) {
        cli_complain(bench->args->verb, "%s: no progress within %lld ms", run->what, run->limit_ms);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

enum cli_exit run_do(struct run *run, const struct role *roles, size_t role_count,
                     struct measure *ret)
{
    const struct verb *verb = run->site->bench->args->verb;
    struct measure measure = {0};
    struct crew crew = {0};
    struct tally before;
    enum cli_exit code = site_tally(run->site, &before);
    if (code != CLI_DONE)
        return code;
    for (size_t i = 0; i < role_count; i++)
        crew.count += roles[i].count;
    crew.at = crew.count > 0 ? calloc((size_t)crew.count, sizeof *crew.at) : NULL;
    if (crew.at == NULL)
        return cli_no_memory(verb);
    (void)pthread_mutex_init(&run->mutex, NULL);
    (void)pthread_cond_init(&run->begin, NULL);
    (void)sem_init(&run->room, 0, (unsigned)run->window);
    bool whole = start_crew(run, roles, role_count, &crew);
    if (!whole)
        atomic_store(&run->stop, true);
    watch(run, &crew, &measure);
    if (!collect(run, &crew, roles, role_count, &measure) || !whole)
        code = cli_no_memory(verb);
    (void)sem_destroy(&run->room);
    (void)pthread_cond_destroy(&run->begin);
    (void)pthread_mutex_destroy(&run->mutex);
    free(crew.at);
    if (code == CLI_DONE)
        code = judge(run, &measure);
    if (code == CLI_DONE)
        code = check_counts(run, &before);
    if (code == CLI_DONE)
        *ret = measure;
    return code;
}
