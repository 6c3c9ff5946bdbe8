/* The scenarios of 'pawl bench': who does what, how often, and what of it counts. */
#include <stdio.h>
#include <string.h>

#include "cli/bench.h"

enum {
    JOBS_BATCHED = 20 * 1000, /* in a run, unless somebody says otherwise */
    JOBS_SINGLE = 5 * 1000,
    LATENCY_S = 5, /* jobs for so long at the given rate */
    BATCH_DEFAULT = 100,
    FILL_BATCH = 500, /* of jobs that are there before a run */
    FILL_CLIENTS = 4,
    FILL_PATIENCE = 10, /* times the limit of a run */
    IDLE_WAIT_MS = 100, /* a claim waits so long; at the end of a run that is lost time */
    PLAN_STEPS_A_CALL = 2000,
    PRODUCER_RATE = 1000, /* jobs a second that one can submit with ease */
    JOBS_MIXED = 100 * 1000,
    TRIAL_ROLES_MAX = 2 + BACKGROUND_ROLES,
};

/* One case of a scenario: what is repeated. */
struct trial {
    struct site *site;
    struct site own; /* when it has one for itself */
    struct row *row;
    long long jobs;
    long long goal;
    long long batch;
    long long window;
    struct role roles[TRIAL_ROLES_MAX];
    size_t role_count;
    const char *status; /* of jobs that show how many events there were; NULL: there are none */
    const char *status_before; /* of those jobs, when a run begins */
    double units_a_job;
    double events_before; /* in a job's history, when a run begins */

    /* Gets ready for one run, which is not measured; NULL: there is nothing to do. */
    enum cli_exit (*prepare)(struct trial *trial);
};

static long long jobs_of(const struct bench *bench, long long batch)
{
    if (bench->jobs > 0)
        return bench->jobs;
    return batch > 1 ? JOBS_BATCHED : JOBS_SINGLE;
}

/* So many jobs in a call, or as many as a call can take. */
static long long fitting(const struct bench *bench, long long wanted)
{
    long long most = BENCH_CALL_BYTES_MAX / (bench->payload_bytes + 1);
    return wanted < most ? wanted : most;
}

static long long batch_of(const struct bench *bench)
{
    return bench->batch > 0 ? bench->batch : fitting(bench, BATCH_DEFAULT);
}

/* ---- what clients do ---- */

static void produce(struct client *client)
{
    long long count;
    while ((count = run_take(client->run, client->run->batch)) > 0)
        if (!client_submit(client, count))
            return;
}

static void produce_and_count(struct client *client)
{
    long long count;
    while ((count = run_take(client->run, client->run->batch)) > 0) {
        if (!client_submit(client, count))
            return;
        client_did(client, count);
    }
}

/* Takes what there is, and ends when there is no more. */
static void drain(struct client *client)
{
    const struct run *run = client->run;
    while (!run_is_over(run) && client_claim(client, run->batch, 0) && client->token_count > 0 &&
           client_complete(client))
        client_did(client, client->token_count);
}

/* Takes what comes. */
static void consume(struct client *client)
{
    const struct run *run = client->run;
    while (!run_is_over(run) && client_claim(client, run->batch, IDLE_WAIT_MS) &&
           client_complete(client))
        if (client->token_count > 0)
            client_did(client, client->token_count);
}

static void consume_steps(struct client *client)
{
    const struct run *run = client->run;
    while (!run_is_over(run) && client_claim_steps(client, run->batch, IDLE_WAIT_MS) &&
           client_complete(client))
        if (client->token_count > 0)
            client_did(client, client->token_count);
}

/* Submits at the given rate, whatever becomes of it. */
static void produce_at_rate(struct client *client)
{
    const struct run *run = client->run;
    double every_ns = 1e9 / (double)run->site->bench->rate;
    long long turn = client->number;
    while (run_take(client->run, 1) > 0) {
        bench_sleep_until(run->start_ns + (long long)((double)turn * every_ns));
        if (!client_submit_now(client))
            return;
        turn += client->role->count;
    }
}

static void consume_and_look(struct client *client)
{
    const struct run *run = client->run;
    while (!run_is_over(run) && client_claim(client, run->batch, IDLE_WAIT_MS)) {
        if (client->token_count == 0)
            continue;
        if (!client_note_latencies(client, bench_now_ns()) || !client_complete(client))
            return;
        client_did(client, client->token_count);
    }
}

/* Never more of them on the way than the run has room for: as callers do who wait for what comes of
 * theirs. */
static void produce_into_window(struct client *client)
{
    struct run *run = client->run;
    long long count;
    while ((count = run_take(run, run->batch)) > 0)
        if (!run_enter(run, count) || !client_submit(client, count))
            return;
}

static bool do_effects(struct client *client, int count)
{
    char more[96];
    if (!client_say(client, BENCH_EFFECT_BEGIN, ",\"key\":\"e1\""))
        return false;
    for (int i = 1; i <= count; i++) {
        if (i < count)
            (void)snprintf(more, sizeof more,
                           ",\"key\":\"e%d\",\"result\":%d,\"next\":{\"key\":\"e%d\"}", i, i,
                           i + 1);
        else
            (void)snprintf(more, sizeof more, ",\"key\":\"e%d\",\"result\":%d", i, i);
        if (!client_say(client, BENCH_EFFECT_COMMIT, more))
            return false;
    }
    return true;
}

static void consume_with_effects(struct client *client)
{
    struct run *run = client->run;
    const int *effects = client->role->arg;
    while (!run_is_over(run) && client_claim(client, run->batch, IDLE_WAIT_MS)) {
        if (client->token_count == 0)
            continue;
        if (!do_effects(client, *effects) || !client_complete(client))
            return;
        client_did(client, client->token_count);
        run_leave(run, client->token_count);
    }
}

/* Runs two effects of that share of the claimed jobs. */
static bool do_some_effects(struct client *client)
{
    long long all = client->token_count;
    const long long *percent = client->role->arg;
    client->share += all * *percent;
    client->token_count = client->share / 100;
    client->share %= 100;
    long long from_ns = bench_now_ns();
    bool well = client->token_count == 0 ||
                (do_effects(client, 2) && client_note_latency(client, from_ns, bench_now_ns()));
    client->token_count = all;
    return well;
}

static void consume_mixed(struct client *client)
{
    struct run *run = client->run;
    while (!run_is_over(run) && client_claim(client, run->batch, IDLE_WAIT_MS)) {
        if (client->token_count == 0)
            continue;
        if (!do_some_effects(client) || !client_complete(client))
            return;
        client_did(client, client->token_count);
        run_leave(run, client->token_count);
    }
}

static void take_leases(struct client *client)
{
    (void)client_claim(client, client->run->batch, 0);
}

static void renew_leases(struct client *client)
{
    while (client->token_count > 0 && run_take(client->run, client->token_count) > 0) {
        if (!client_say(client, BENCH_HEARTBEAT, ""))
            return;
        client_did(client, client->token_count);
    }
}

static void end_leases(struct client *client)
{
    (void)client_complete(client);
}

/* ---- filling ---- */

/* Jobs that are there before a run, made as fast as that goes. */
static enum cli_exit fill_with(struct site *site, long long count, const struct role *role,
                               long long batch)
{
    struct bench *bench = site->bench;
    struct measure measure;
    struct run run = {
        .site = site,
        .what = "initial jobs",
        .jobs = count,
        .goal = count,
        .batch = batch,
        .limit_ms = bench->limit_ms * FILL_PATIENCE,
    };
    if (count <= 0)
        return CLI_DONE;
    enum cli_exit code = run_do(&run, role, 1, &measure);
    if (code == CLI_DONE && measure.count < count) {
        cli_complain(bench->args->verb, "%lld jobs could not be submitted within %lld s", count,
                     run.limit_ms / 1000);
        return CLI_FAILED;
    }
    return code;
}

static enum cli_exit fill(struct site *site, long long count)
{
    struct role role = {.work = produce_and_count, .count = FILL_CLIENTS};
    return fill_with(site, count, &role, fitting(site->bench, FILL_BATCH));
}

static enum cli_exit fill_jobs(struct trial *trial)
{
    return fill(trial->site, trial->jobs);
}

/* ---- repeating ---- */

/* NULL: there are too many, which was said. */
static struct row *new_row(struct bench *bench, const char *scenario, const char *unit)
{
    if (bench->row_count == BENCH_ROWS_MAX) {
        cli_complain(bench->args->verb, "more than %d results", BENCH_ROWS_MAX);
        return NULL;
    }
    struct row *row = &bench->rows[bench->row_count++];
    *row = (struct row){.scenario = scenario, .unit = unit, .waiting = -1, .bytes = -1};
    return row;
}

static enum cli_exit note_events(const struct trial *trial, struct measure *measure)
{
    double after = 0;
    measure->events = -1;
    if (trial->status == NULL)
        return CLI_DONE;
    enum cli_exit code = site_events(trial->site, trial->status, trial->jobs, &after);
    if (code == CLI_DONE)
        measure->events = (after - trial->events_before) / trial->units_a_job;
    return code;
}

static enum cli_exit try_once(struct trial *trial, const char *what, struct measure *ret)
{
    struct run run = {
        .site = trial->site,
        .what = what,
        .jobs = trial->jobs,
        .goal = trial->goal,
        .batch = trial->batch,
        .window = trial->window,
        .limit_ms = trial->site->bench->limit_ms,
    };
    enum cli_exit code = trial->prepare != NULL ? trial->prepare(trial) : CLI_DONE;
    if (code == CLI_DONE && trial->prepare != NULL && trial->status != NULL)
        code = site_events(trial->site, trial->status_before, trial->jobs, &trial->events_before);
    if (code == CLI_DONE)
        code = run_do(&run, trial->roles, trial->role_count, ret);
    if (code == CLI_DONE)
        code = note_events(trial, ret);
    return code;
}

static enum cli_exit repeat(struct trial *trial)
{
    const struct bench *bench = trial->site->bench;
    struct row *row = trial->row;
    long long runs = bench->warm_up + bench->repeat;
    char what[192];
    for (long long i = 0; i < runs; i++) {
        struct measure measure;
        (void)snprintf(what, sizeof what, "%s: %s, %s%srun %lld of %lld", row->scenario, row->unit,
                       row->label, row->label[0] != '\0' ? ", " : "", i + 1, runs);
        enum cli_exit code = try_once(trial, what, &measure);
        if (code != CLI_DONE)
            return code;
        if (i >= bench->warm_up)
            row->runs[row->count++] = measure;
    }
    return CLI_DONE;
}

/* Closes the site, and notes what a job takes on disk there. */
static enum cli_exit close_and_weigh(const struct trial *trial, enum cli_exit result)
{
    enum cli_exit code = site_close(trial->site, &trial->row->bytes);
    return result == CLI_DONE ? code : result;
}

/* Repeats a trial on a site of its own. */
static enum cli_exit run_trial(struct bench *bench, struct trial *trial)
{
    enum cli_exit code = site_open(bench, &trial->own);
    if (code != CLI_DONE)
        return code;
    trial->site = &trial->own;
    return close_and_weigh(trial, repeat(trial));
}

/* What most of them have in common. */
static enum cli_exit begin_trial(struct bench *bench, const char *scenario, const char *unit,
                                 struct trial *ret)
{
    long long batch = batch_of(bench);
    long long jobs = jobs_of(bench, batch);
    *ret = (struct trial){
        .row = new_row(bench, scenario, unit),
        .jobs = jobs,
        .goal = jobs,
        .batch = batch,
        .role_count = 1,
        .status = "completed",
        .status_before = "queued",
        .units_a_job = 1,
    };
    return ret->row != NULL ? CLI_DONE : CLI_FAILED;
}

/* ---- the scenarios ---- */

static enum cli_exit run_submit(struct bench *bench)
{
    struct trial trial;
    enum cli_exit code = begin_trial(bench, "submit", "jobs", &trial);
    trial.status = "queued";
    trial.roles[0] = (struct role){.work = produce_and_count, .count = bench->clients};
    return code == CLI_DONE ? run_trial(bench, &trial) : code;
}

static enum cli_exit run_drain(struct bench *bench)
{
    struct trial trial;
    enum cli_exit code = begin_trial(bench, "drain", "jobs", &trial);
    trial.prepare = fill_jobs;
    trial.roles[0] = (struct role){.work = drain, .count = bench->clients};
    return code == CLI_DONE ? run_trial(bench, &trial) : code;
}

static void set_work_roles(const struct bench *bench, struct trial *trial)
{
    trial->role_count = 2;
    trial->roles[0] = (struct role){.work = produce, .count = bench->clients};
    trial->roles[1] = (struct role){.work = consume, .count = bench->clients};
}

static enum cli_exit run_work(struct bench *bench)
{
    struct trial trial;
    enum cli_exit code = begin_trial(bench, "work", "jobs", &trial);
    set_work_roles(bench, &trial);
    return code == CLI_DONE ? run_trial(bench, &trial) : code;
}

static enum cli_exit run_latency(struct bench *bench)
{
    struct trial trial;
    struct polls *polls = NULL;
    enum cli_exit code = begin_trial(bench, "latency", "jobs", &trial);
    if (code == CLI_DONE)
        code = site_open(bench, &trial.own);
    if (code != CLI_DONE)
        return code;
    trial.site = &trial.own;
    trial.batch = bench->batch > 0 ? bench->batch : 1;
    trial.jobs = bench->jobs > 0 ? bench->jobs : bench->rate * LATENCY_S;
    trial.goal = trial.jobs;
    trial.role_count = 2;
    /* Enough of them, so that one that has to wait holds up nobody. */
    long long producers = 1 + bench->rate / PRODUCER_RATE;
    if (producers < bench->clients)
        producers = bench->clients;
    trial.roles[0] = (struct role){.work = produce_at_rate, .count = producers};
    trial.roles[1] = (struct role){.work = consume_and_look, .count = bench->clients};
    trial.row->what = "queue latency";
    (void)snprintf(trial.row->label, sizeof trial.row->label, "%lld/s, %lld polls", bench->rate,
                   bench->polls);
    if (bench->polls > 0)
        code = polls_start(trial.site, bench->polls, &polls);
    if (code == CLI_DONE)
        code = repeat(&trial);
    polls_stop(polls);
    return close_and_weigh(&trial, code);
}

/* Until so many wait. Work that may be taken is replaced by what takes its place; what may not be
 * stays, so that of it only what is more than before has to be made. */
static enum cli_exit fill_to(struct site *site, long long before, long long level)
{
    struct role obstacles = {.work = mix_produce, .count = FILL_CLIENTS};
    struct tally tally;
    if (site->bench->mix)
        return fill_with(site, level - before, &obstacles, fitting(site->bench, FILL_BATCH));
    enum cli_exit code = site_tally(site, &tally);
    return code == CLI_DONE ? fill(site, level - tally.depth) : code;
}

/* Jobs come and go while others wait; the rate with the fewest is what the others are held to. */
static enum cli_exit run_backlog(struct bench *bench)
{
    struct site site;
    enum cli_exit code = site_open(bench, &site);
    if (code != CLI_DONE)
        return code;
    if (bench->mix)
        code = mix_pause(&site, true);
    for (size_t i = 0; i < bench->level_count && code == CLI_DONE; i++) {
        struct trial trial;
        code = begin_trial(bench, "backlog", "jobs", &trial);
        if (code == CLI_DONE)
            code = fill_to(&site, i > 0 ? bench->levels[i - 1] : 0, bench->levels[i]);
        if (code != CLI_DONE)
            break;
        trial.site = &site;
        set_work_roles(bench, &trial);
        trial.row->waiting = bench->levels[i];
        (void)snprintf(trial.row->label, sizeof trial.row->label, "%lld %s", bench->levels[i],
                       bench->mix ? "not claimable" : "waiting");
        code = repeat(&trial);
    }
    enum cli_exit closed = site_close(&site, NULL);
    return code == CLI_DONE ? closed : code;
}

static enum cli_exit run_effects(struct bench *bench)
{
    static const int counts[] = {1, 4};
    enum cli_exit code = CLI_DONE;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && code == CLI_DONE; i++) {
        struct trial trial;
        code = begin_trial(bench, "effects", "jobs", &trial);
        if (code != CLI_DONE)
            return code;
        trial.window = bench->clients * trial.batch;
        trial.role_count = 2;
        trial.roles[0] = (struct role){.work = produce_into_window, .count = bench->clients};
        trial.roles[1] =
            (struct role){.work = consume_with_effects, .count = bench->clients, .arg = &counts[i]};
        (void)snprintf(trial.row->label, sizeof trial.row->label, "%d effect%s", counts[i],
                       counts[i] == 1 ? "" : "s");
        code = run_trial(bench, &trial);
    }
    return code;
}

/* As many leases as all clients say at once. */
static enum cli_exit fill_leases(struct trial *trial)
{
    return fill(trial->site, trial->site->bench->clients * trial->batch);
}

static enum cli_exit run_heartbeats(struct bench *bench)
{
    struct trial trial;
    enum cli_exit code = begin_trial(bench, "heartbeats", "renewals", &trial);
    trial.prepare = fill_leases;
    trial.status = NULL;
    trial.roles[0] = (struct role){.prepare = take_leases,
                                   .work = renew_leases,
                                   .finish = end_leases,
                                   .count = bench->clients};
    if (code == CLI_DONE)
        code = run_trial(bench, &trial);
    if (code == CLI_DONE)
        trial.row->bytes = -1; /* how often a lease was renewed says nothing about its job */
    return code;
}

/* ---- lives under background load ---- */

/* Lives alone, lives under background load, and the latencies of that load. */
struct mixed {
    struct trial alone;
    struct trial loaded;
    struct measure measures[1 + BACKGROUND_ROLES];
    struct row *rows[1 + BACKGROUND_ROLES];
    size_t count;
};

static enum cli_exit begin_lives(struct bench *bench, const char *label, const long long *percent,
                                 struct trial *ret)
{
    enum cli_exit code = begin_trial(bench, "mixed", "jobs", ret);
    if (code != CLI_DONE)
        return code;
    ret->jobs = bench->jobs > 0 ? bench->jobs : JOBS_MIXED;
    ret->goal = ret->jobs;
    ret->window = 2 * bench->clients * ret->batch;
    ret->role_count = 2;
    ret->roles[0] = (struct role){.work = produce_into_window, .count = bench->clients};
    ret->roles[1] = (struct role){.work = consume_mixed, .count = bench->clients, .arg = percent};
    (void)snprintf(ret->row->label, sizeof ret->row->label, "%s", label);
    return CLI_DONE;
}

/* Adds a row for the latencies of a role. */
static enum cli_exit add_apart(struct bench *bench, struct mixed *mixed, struct role *role)
{
    struct row *row = new_row(bench, "mixed", "");
    if (row == NULL)
        return CLI_FAILED;
    role->apart = &mixed->measures[mixed->count];
    mixed->rows[mixed->count++] = row;
    return CLI_DONE;
}

static enum cli_exit begin_mixed(struct bench *bench, struct mixed *ret)
{
    static const long long none = 0;
    struct trial *loaded = &ret->loaded;
    *ret = (struct mixed){0};
    enum cli_exit code = begin_lives(bench, "lives alone", &none, &ret->alone);
    if (code == CLI_DONE)
        code = begin_lives(bench, "lives", &bench->background.effects, loaded);
    if (code == CLI_DONE && bench->background.effects > 0) {
        code = add_apart(bench, ret, &loaded->roles[1]);
        if (code != CLI_DONE)
            return code;
        ret->rows[0]->unit = "calls";
        ret->rows[0]->what = "two effects, three calls";
        (void)snprintf(ret->rows[0]->label, sizeof ret->rows[0]->label, "effects of %lld %%",
                       bench->background.effects);
    }
    if (code != CLI_DONE)
        return code;
    loaded->row->under_load = true;
    loaded->role_count += background_roles(bench, loaded->roles + 2);
    for (size_t i = 2; i < loaded->role_count && code == CLI_DONE; i++) {
        code = add_apart(bench, ret, &loaded->roles[i]);
        if (code == CLI_DONE)
            background_describe(bench, &loaded->roles[i], ret->rows[ret->count - 1]);
    }
    return code;
}

/* One run of each. */
static enum cli_exit try_mixed(struct mixed *mixed, long long number, long long runs, bool counts)
{
    struct trial *const trials[] = {&mixed->alone, &mixed->loaded};
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        struct measure measure;
        char what[128];
        (void)snprintf(what, sizeof what, "mixed: %s, run %lld of %lld", trials[i]->row->label,
                       number, runs);
        enum cli_exit code = try_once(trials[i], what, &measure);
        if (code != CLI_DONE)
            return code;
        if (counts)
            trials[i]->row->runs[trials[i]->row->count++] = measure;
    }
    for (size_t i = 0; i < mixed->count && counts; i++)
        mixed->rows[i]->runs[mixed->rows[i]->count++] = mixed->measures[i];
    return CLI_DONE;
}

static enum cli_exit run_mixed(struct bench *bench)
{
    struct site site;
    struct mixed mixed;
    long long runs = bench->warm_up + bench->repeat;
    enum cli_exit code = begin_mixed(bench, &mixed);
    if (code == CLI_DONE)
        code = site_open(bench, &site);
    if (code != CLI_DONE)
        return code;
    mixed.alone.site = &site;
    mixed.loaded.site = &site;
    for (size_t i = 0; i < mixed.loaded.role_count; i++)
        site.background_queues += mixed.loaded.roles[i].count;
    for (long long i = 0; i < runs && code == CLI_DONE; i++)
        code = try_mixed(&mixed, i + 1, runs, i >= bench->warm_up);
    enum cli_exit closed = site_close(&site, NULL);
    return code == CLI_DONE ? closed : code;
}

/* ---- plans ---- */

enum plan_shape { PLAN_CHAIN, PLAN_FAN_OUT };

static void add_step(struct draft *draft, long long at, enum plan_shape shape, long long steps)
{
    draft_print(draft, "%s{\"id\":\"s%lld\",\"kind\":\"" BENCH_KIND "\"", at > 0 ? "," : "", at);
    if (at > 0 && shape == PLAN_CHAIN) {
        draft_print(draft, ",\"deps\":[\"s%lld\"]", at - 1);
    } else if (at > 0 && at < steps - 1) {
        draft_text(draft, ",\"deps\":[\"s0\"]");
    } else if (at > 0) {
        /* All that the first one has let go meet in the last one. */
        draft_text(draft, ",\"deps\":[");
        for (long long i = 1; i < at; i++)
            draft_print(draft, "%s\"s%lld\"", i > 1 ? "," : "", i);
        draft_text(draft, at > 1 ? "]" : "\"s0\"]");
    }
    draft_text(draft, "}");
}

static void produce_plans(struct client *client)
{
    const struct run *run = client->run;
    const struct bench *bench = run->site->bench;
    const enum plan_shape *shape = client->role->arg;
    struct draft one = {0};
    draft_print(&one, "{\"kind\":\"" BENCH_KIND "\",\"queue\":\"%s\"%s%s,\"plan\":{\"steps\":[",
                run->site->queue, bench->payload != NULL ? ",\"payload\":" : "",
                bench->payload != NULL ? bench->payload : "");
    for (long long i = 0; i < bench->steps; i++)
        add_step(&one, i, *shape, bench->steps);
    draft_text(&one, "]}}");
    long long count;
    while (!one.failed && (count = run_take(client->run, run->batch)) > 0) {
        struct draft *request = &client->request;
        request->len = 0;
        draft_text(request, "{\"jobs\":[");
        for (long long i = 0; i < count; i++) {
            if (i > 0)
                draft_text(request, ",");
            draft_add(request, one.at, one.len);
        }
        draft_text(request, "]}");
        if (request->failed || !client_submit_text(client, request->at, count))
            break;
        client_did(client, count);
    }
    draft_free(&one);
}

static enum cli_exit fill_plans(struct trial *trial)
{
    long long steps = trial->site->bench->steps;
    long long batch = fitting(trial->site->bench, PLAN_STEPS_A_CALL / steps);
    struct role role = {.work = produce_plans, .count = FILL_CLIENTS, .arg = trial->roles[0].arg};
    if (batch > FILL_BATCH)
        batch = FILL_BATCH;
    return fill_with(trial->site, trial->jobs, &role, batch > 0 ? batch : 1);
}

/* What the steps run on; it has the queue's name. */
static enum cli_exit put_resource(struct site *site)
{
    enum { SLOTS = 100 * 1000, TTL_MS = 60 * 60 * 1000 };
    char *answer;
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", site->queue);
    pawl_object_int(request, "slots", SLOTS);
    pawl_object_int(request, "ttl_ms", TTL_MS);
    enum cli_exit code =
        cli_ask(site->bench->args, site->pawl, pawl_resource_put, request, &answer);
    if (code == CLI_DONE)
        pawl_free(answer);
    return code;
}

static void delete_resource(struct site *site)
{
    char request[96];
    char *answer;
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", site->queue);
    if (pawl_resource_delete(site->pawl, request, &answer, NULL) == PAWL_OK)
        pawl_free(answer);
}

static enum cli_exit run_plan(struct bench *bench, const enum plan_shape *shape)
{
    struct trial trial;
    enum cli_exit code = begin_trial(bench, "plans", "steps", &trial);
    if (code == CLI_DONE)
        code = site_open(bench, &trial.own);
    if (code != CLI_DONE)
        return code;
    trial.site = &trial.own;
    trial.jobs = trial.jobs > bench->steps ? trial.jobs / bench->steps : 1;
    trial.goal = trial.jobs * bench->steps;
    trial.units_a_job = (double)bench->steps;
    trial.status_before = NULL; /* whatever they are then */
    trial.prepare = fill_plans;
    trial.roles[0] = (struct role){.work = consume_steps, .count = bench->clients, .arg = shape};
    (void)snprintf(trial.row->label, sizeof trial.row->label, "%s of %lld",
                   *shape == PLAN_CHAIN ? "chain" : "fan-out", bench->steps);
    code = put_resource(trial.site);
    if (code == CLI_DONE)
        code = repeat(&trial);
    delete_resource(trial.site);
    return close_and_weigh(&trial, code);
}

static enum cli_exit run_plans(struct bench *bench)
{
    static const enum plan_shape shapes[] = {PLAN_CHAIN, PLAN_FAN_OUT};
    enum cli_exit code = run_plan(bench, &shapes[0]);
    return code == CLI_DONE ? run_plan(bench, &shapes[1]) : code;
}

enum cli_exit scenario_run(struct bench *bench, const char *name)
{
    static const struct {
        const char *name;
        enum cli_exit (*run)(struct bench *bench);
    } scenarios[] = {
        {"submit", run_submit},         {"drain", run_drain},     {"work", run_work},
        {"latency", run_latency},       {"backlog", run_backlog}, {"effects", run_effects},
        {"heartbeats", run_heartbeats}, {"plans", run_plans},     {"mixed", run_mixed},
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(name, scenarios[i].name) == 0)
            return scenarios[i].run(bench);
    return cli_usage(bench->args->verb, "unknown scenario '%s'", name);
}
