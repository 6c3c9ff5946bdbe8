/* The background load of 'pawl bench mixed': operations of other workers and of readers, each at
 * its own rate. Latency counts from the scheduled start of an operation, not from the call, so that
 * a stalled server also delays the operations scheduled meanwhile. Jobs of the background load are
 * in queues of their own. */
#include <stdio.h>

#include "cli/bench.h"

enum {
    CLIENTS_MAX = 32, /* per operation */
    CLIENT_RATE = 10, /* operations per second that one client is given */
    BEAT_EVERY_S = 5, /* each lease is renewed this often; it lasts 30 s */
    STEPS = 3,        /* of a plan */
    PAGE = 50,        /* jobs in a list */
    CLAIM_WAIT_MS = 30 * 1000,
    LOOK_NS = 20 * 1000 * 1000, /* how often a sleeping client checks for the end of the run */
};

struct operation {
    const char *name;
    const char *what; /* what its latency measures */
    size_t rate;      /* offset in struct background */
    bool is_alone;    /* each client has its own queue, so that it claims its own jobs */
    void (*prepare)(struct client *client);
    bool (*run_once)(struct client *client, long long from_ns);
    void (*finish)(struct client *client);
};

/* ---- shared by all operations ---- */

static long long rate_of(const struct bench *bench, const struct operation *operation)
{
    return *(const long long *)((const char *)&bench->background + operation->rate);
}

static bool fails(struct client *client, const char *why)
{
    struct pawl_error error = {.code = PAWL_UNAVAILABLE};
    (void)snprintf(error.message, sizeof error.message, "%s", why);
    client_fail(client, &error);
    return false;
}

/* The number of the queue that the client uses. */
static long long queue_of(const struct client *client)
{
    const struct operation *operation = client->role->arg;
    return operation->is_alone ? client->number : 0;
}

/* Makes a call whose request has the name of the client's queue between two parts. */
static bool ask_own(struct client *client, cli_call call, const char *before, const char *after)
{
    struct draft *request = &client->request;
    request->len = 0;
    draft_print(request, "{%s\"%s" BENCH_BACKGROUND "%lld\"%s}", before, client->run->site->queue,
                queue_of(client), after);
    return request->failed ? fails(client, "out of memory") : client_ask(client, call, request->at);
}

static bool submit_own(struct client *client, const char *more)
{
    return ask_own(client, pawl_submit, "\"kind\":\"" BENCH_KIND "\",\"queue\":", more);
}

/* Claims jobs or steps of the client's queue. */
static bool claim_own(struct client *client, cli_call call, const char *more)
{
    char after[160];
    (void)snprintf(after, sizeof after, "],\"worker_id\":\"bench-%lld\",\"wait_ms\":%d%s",
                   client->number, CLAIM_WAIT_MS, more);
    return ask_own(client, call, "\"queues\":[", after) && client_find(client, "\"token\"") &&
           (client->token_count > 0 ||
            fails(client, "a job that was just submitted could not be claimed"));
}

/* The text at a path of the last response, to be freed; NULL: it is missing, and the run fails. */
static char *response_text(struct client *client, const char *path)
{
    char *text = pawl_json_text(pawl_json_get(pawl_json_read(client->answer), path));
    if (text == NULL)
        (void)fails(client, "unexpected response");
    return text;
}

/* Submits that many equal jobs. */
static bool submit_many(struct client *client, long long count, const char *more)
{
    struct draft *request = &client->request;
    request->len = 0;
    draft_text(request, "{\"jobs\":[");
    for (long long i = 0; i < count; i++)
        draft_print(request,
                    "%s{\"kind\":\"" BENCH_KIND "\",\"queue\":\"%s" BENCH_BACKGROUND "%lld\"%s}",
                    i > 0 ? "," : "", client->run->site->queue, queue_of(client), more);
    draft_text(request, "]}");
    return request->failed ? fails(client, "out of memory")
                           : client_ask(client, pawl_submit, request->at);
}

/* Makes one call about the next token and records its latency. */
static bool say_of_next(struct client *client, enum bench_op op, long long from_ns)
{
    size_t at = client->latency_count % (size_t)client->token_count;
    return client_say_one(client, op, &client->tokens[at], "") &&
           client_note_latency(client, from_ns, bench_now_ns());
}

/* ---- heartbeats of long leases ---- */

static void take_long_leases(struct client *client)
{
    char most[32];
    long long count = BEAT_EVERY_S * rate_of(client->run->site->bench, client->role->arg);
    count = (count + client->role->count - 1) / client->role->count;
    count = count > BENCH_BATCH_MAX ? BENCH_BATCH_MAX : count;
    (void)snprintf(most, sizeof most, ",\"max\":%lld", count);
    if (submit_many(client, count, ""))
        (void)claim_own(client, pawl_claim, most);
}

static bool renew_one(struct client *client, long long from_ns)
{
    return say_of_next(client, BENCH_HEARTBEAT, from_ns);
}

static void end_long_leases(struct client *client)
{
    for (long long i = 0; i < client->token_count; i++)
        if (!client_say_one(client, BENCH_FINISH, &client->tokens[i], ""))
            return;
}

/* ---- waits: a job waits, gets a signal and is claimed again ---- */

static bool wait_and_go_on(struct client *client, long long from_ns)
{
    (void)from_ns;
    if (!submit_own(client, ""))
        return false;
    char *id = response_text(client, "id");
    bool well = id != NULL && claim_own(client, pawl_claim, "") &&
                client_say_one(client, BENCH_WAIT, &client->tokens[0],
                               ",\"type\":\"signal\",\"correlation_key\":\"go\"");
    long long sent_ns = bench_now_ns();
    if (well) {
        client->request.len = 0;
        draft_print(&client->request, "{\"id\":\"%s\",\"correlation_key\":\"go\",\"payload\":1}",
                    id);
        well = !client->request.failed && client_ask(client, pawl_signal, client->request.at) &&
               claim_own(client, pawl_claim, "") &&
               client_note_latency(client, sent_ns, bench_now_ns()) &&
               client_say_one(client, BENCH_FINISH, &client->tokens[0], "");
    }
    pawl_free(id);
    return well;
}

/* ---- plans: a chain of steps, from submit to completion ---- */

/* The resource of the steps has the name of the queue. */
static void put_own_resource(struct client *client)
{
    (void)ask_own(client, pawl_resource_put, "\"id\":", ",\"slots\":10,\"ttl_ms\":3600000");
}

static void delete_own_resource(struct client *client)
{
    (void)ask_own(client, pawl_resource_delete, "\"id\":", "");
}

static bool walk_plan(struct client *client, long long from_ns)
{
    static const char plan[] =
        ",\"plan\":{\"steps\":[{\"id\":\"a\",\"kind\":\"" BENCH_KIND
        "\"},{\"id\":\"b\",\"kind\":\"" BENCH_KIND
        "\",\"deps\":[\"a\"]},{\"id\":\"c\",\"kind\":\"" BENCH_KIND "\",\"deps\":[\"b\"]}]}";
    char resource[160];
    (void)snprintf(resource, sizeof resource, ",\"resource_id\":\"%s" BENCH_BACKGROUND "%lld\"",
                   client->run->site->queue, queue_of(client));
    bool well = submit_own(client, plan);
    for (int i = 0; i < STEPS && well; i++)
        well = claim_own(client, pawl_claim_steps, resource) &&
               client_say_one(client, BENCH_FINISH, &client->tokens[0], "");
    return well && client_note_latency(client, from_ns, bench_now_ns());
}

/* ---- reads ---- */

static bool list_some(struct client *client, long long from_ns)
{
    static const char *const filters[] = {"", ",\"status\":\"completed\"",
                                          ",\"status\":\"queued\""};
    struct draft *request = &client->request;
    request->len = 0;
    draft_print(request, "{\"queue\":\"%s\",\"limit\":%d%s}", client->run->site->queue, PAGE,
                filters[client->latency_count % (sizeof filters / sizeof filters[0])]);
    return !request->failed && client_ask(client, pawl_list, request->at) &&
           client_note_latency(client, from_ns, bench_now_ns());
}

/* Jobs that no worker may claim today. */
static void make_some(struct client *client)
{
    if (submit_many(client, PAGE, ",\"delay_ms\":86400000") && client_find(client, "\"id\"") &&
        client->token_count == 0)
        (void)fails(client, "unexpected response");
}

static bool get_one(struct client *client, long long from_ns)
{
    return say_of_next(client, BENCH_GET, from_ns);
}

/* ---- all operations ---- */

static const struct operation operations[BACKGROUND_ROLES] = {
    {.name = "heartbeats",
     .what = "a heartbeat",
     .rate = offsetof(struct background, heartbeats),
     .prepare = take_long_leases,
     .run_once = renew_one,
     .finish = end_long_leases},
    {.name = "waits",
     .what = "from signal to next claim",
     .rate = offsetof(struct background, waits),
     .is_alone = true,
     .run_once = wait_and_go_on},
    {.name = "plans",
     .what = "a plan of 3 steps, from submit to completion",
     .rate = offsetof(struct background, plans),
     .is_alone = true,
     .prepare = put_own_resource,
     .run_once = walk_plan,
     .finish = delete_own_resource},
    {.name = "lists",
     .what = "a list of 50 jobs",
     .rate = offsetof(struct background, lists),
     .run_once = list_some},
    {.name = "gets",
     .what = "a job by its id",
     .rate = offsetof(struct background, gets),
     .prepare = make_some,
     .run_once = get_one},
};

/* Waits for the scheduled start of an operation; false: the run is over first. */
static bool await_start(const struct client *client, long long at_ns)
{
    long long now_ns;
    while (!run_is_over(client->run) && (now_ns = bench_now_ns()) < at_ns)
        bench_sleep_until(at_ns - now_ns < LOOK_NS ? at_ns : now_ns + LOOK_NS);
    return !run_is_over(client->run);
}

/* At its rate until the run is over, but at least once. */
static void repeat_operation(struct client *client)
{
    const struct role *role = client->role;
    const struct operation *operation = role->arg;
    double every_ns = 1e9 / (double)rate_of(client->run->site->bench, operation);
    long long turn = client->number % role->count;
    bool going = true;
    for (long long first = turn; going; turn += role->count) {
        long long at_ns = client->run->start_ns + (long long)((double)turn * every_ns);
        going = await_start(client, at_ns);
        if (!going && turn != first)
            return;
        if (!operation->run_once(client, going ? at_ns : bench_now_ns()))
            return;
    }
}

size_t background_roles(const struct bench *bench, struct role ret[BACKGROUND_ROLES])
{
    size_t count = 0;
    for (size_t i = 0; i < BACKGROUND_ROLES; i++) {
        long long rate = rate_of(bench, &operations[i]);
        long long clients = (rate + CLIENT_RATE - 1) / CLIENT_RATE;
        if (rate <= 0)
            continue;
        ret[count] = (struct role){
            .prepare = operations[i].prepare,
            .work = repeat_operation,
            .finish = operations[i].finish,
            .count = clients < CLIENTS_MAX ? clients : CLIENTS_MAX,
            .arg = &operations[i],
        };
        count++;
    }
    return count;
}

void background_describe(const struct bench *bench, const struct role *role, struct row *row)
{
    const struct operation *operation = role->arg;
    row->unit = operation->name;
    row->what = operation->what;
    (void)snprintf(row->label, sizeof row->label, "%lld %s/s", rate_of(bench, operation),
                   operation->name);
}
