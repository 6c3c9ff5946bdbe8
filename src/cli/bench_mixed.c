/* What 'pawl bench mixed' does beside lives at full rate: chores of other workers and of people who
 * look, each at a rate of its own. How long one takes is counted from when it was to begin, so that
 * a server that is late for one is late for those behind it too. What they make is in queues beside
 * that of the lives. */
#include <stdio.h>

#include "cli/bench.h"

enum {
    CLIENTS_MOST = 32, /* of a chore */
    A_CLIENT = 10,     /* turns a second */
    BEAT_EVERY_S = 5,  /* a lease is renewed as often, within its 30 s */
    STEPS = 3,         /* of a plan */
    PAGE = 50,         /* jobs in a list */
    CLAIM_WAIT_MS = 30 * 1000,
    LOOK_NS = 20 * 1000 * 1000, /* how often it is looked whether the run is over */
};

struct chore {
    const char *name;
    const char *what; /* that it takes long for */
    size_t rate;      /* where struct beside has it */
    bool is_alone;    /* each client has a queue of its own, so that it claims what it has made */
    void (*prepare)(struct client *client);
    bool (*turn)(struct client *client, long long from_ns);
    void (*finish)(struct client *client);
};

/* ---- what they have in common ---- */

static long long rate_of(const struct bench *bench, const struct chore *chore)
{
    return *(const long long *)((const char *)&bench->beside + chore->rate);
}

static bool fails(struct client *client, const char *why)
{
    struct pawl_error error = {.code = PAWL_UNAVAILABLE};
    (void)snprintf(error.message, sizeof error.message, "%s", why);
    client_fail(client, &error);
    return false;
}

/* Which of the queues the client uses. */
static long long queue_of(const struct client *client)
{
    const struct chore *chore = client->role->arg;
    return chore->is_alone ? client->number : 0;
}

/* Asks with the name of the client's queue between two parts of a request. */
static bool ask_own(struct client *client, cli_call call, const char *before, const char *after)
{
    struct draft *request = &client->request;
    request->len = 0;
    draft_print(request, "{%s\"%s" BENCH_BESIDE "%lld\"%s}", before, client->run->site->queue,
                queue_of(client), after);
    return request->failed ? fails(client, "there is not enough memory")
                           : client_ask(client, call, request->at);
}

static bool submit_own(struct client *client, const char *more)
{
    return ask_own(client, pawl_submit, "\"kind\":\"" BENCH_KIND "\",\"queue\":", more);
}

/* Claims one, of jobs or of steps, and has its token. */
static bool claim_own(struct client *client, cli_call call, const char *more)
{
    char after[160];
    (void)snprintf(after, sizeof after, "],\"worker_id\":\"bench-%lld\",\"wait_ms\":%d%s",
                   client->number, CLAIM_WAIT_MS, more);
    return ask_own(client, call, "\"queues\":[", after) && client_find(client, "\"token\"") &&
           (client->token_count > 0 || fails(client, "a job that was just made is not there"));
}

/* The text at a path of the last answer, to be freed; NULL: the run was told. */
static char *answered(struct client *client, const char *path)
{
    char *text = pawl_json_text(pawl_json_get(pawl_json_read(client->answer), path));
    if (text == NULL)
        (void)fails(client, "a call was not answered as Pawl does");
    return text;
}

/* So many jobs that are alike. */
static bool submit_many(struct client *client, long long count, const char *more)
{
    struct draft *request = &client->request;
    request->len = 0;
    draft_text(request, "{\"jobs\":[");
    for (long long i = 0; i < count; i++)
        draft_print(request,
                    "%s{\"kind\":\"" BENCH_KIND "\",\"queue\":\"%s" BENCH_BESIDE "%lld\"%s}",
                    i > 0 ? "," : "", client->run->site->queue, queue_of(client), more);
    draft_text(request, "]}");
    return request->failed ? fails(client, "there is not enough memory")
                           : client_ask(client, pawl_submit, request->at);
}

/* Says something of the next of those that were found, and notes how long that took. */
static bool say_of_next(struct client *client, enum bench_op op, long long from_ns)
{
    size_t at = client->latency_count % (size_t)client->token_count;
    return client_say_one(client, op, &client->tokens[at], "") &&
           client_note_latency(client, from_ns, bench_now_ns());
}

/* ---- heartbeats: of leases that are held for long ---- */

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

/* ---- waits: a job waits, is sent a signal, and goes on ---- */

static bool wait_and_go_on(struct client *client, long long from_ns)
{
    (void)from_ns;
    if (!submit_own(client, ""))
        return false;
    char *id = answered(client, "id");
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

/* ---- plans: a chain of steps, from submit to the end ---- */

/* What the steps run on has the name of the queue. */
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
    (void)snprintf(resource, sizeof resource, ",\"resource_id\":\"%s" BENCH_BESIDE "%lld\"",
                   client->run->site->queue, queue_of(client));
    bool well = submit_own(client, plan);
    for (int i = 0; i < STEPS && well; i++)
        well = claim_own(client, pawl_claim_steps, resource) &&
               client_say_one(client, BENCH_FINISH, &client->tokens[0], "");
    return well && client_note_latency(client, from_ns, bench_now_ns());
}

/* ---- reads: of the lives that go on ---- */

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

/* Some that nobody takes. */
static void make_some(struct client *client)
{
    if (submit_many(client, PAGE, ",\"delay_ms\":86400000"))
        (void)client_find(client, "\"id\"");
}

static bool get_one(struct client *client, long long from_ns)
{
    return say_of_next(client, BENCH_GET, from_ns);
}

/* ---- all of them ---- */

static const struct chore chores[BESIDE_ROLES] = {
    {.name = "heartbeats",
     .what = "a heartbeat",
     .rate = offsetof(struct beside, heartbeats),
     .prepare = take_long_leases,
     .turn = renew_one,
     .finish = end_long_leases},
    {.name = "waits",
     .what = "from a signal to the next claim",
     .rate = offsetof(struct beside, waits),
     .is_alone = true,
     .turn = wait_and_go_on},
    {.name = "plans",
     .what = "a plan of 3 steps, from submit to its end",
     .rate = offsetof(struct beside, plans),
     .is_alone = true,
     .prepare = put_own_resource,
     .turn = walk_plan,
     .finish = delete_own_resource},
    {.name = "lists",
     .what = "a list of 50 jobs",
     .rate = offsetof(struct beside, lists),
     .turn = list_some},
    {.name = "gets",
     .what = "a job by its id",
     .rate = offsetof(struct beside, gets),
     .prepare = make_some,
     .turn = get_one},
};

/* Waits for the time of a turn; false: the run is over before. */
static bool await_turn(const struct client *client, long long at_ns)
{
    long long now_ns;
    while (!run_is_over(client->run) && (now_ns = bench_now_ns()) < at_ns)
        bench_sleep_until(at_ns - now_ns < LOOK_NS ? at_ns : now_ns + LOOK_NS);
    return !run_is_over(client->run);
}

/* One turn after the other, one at least. */
static void do_chore(struct client *client)
{
    const struct role *role = client->role;
    const struct chore *chore = role->arg;
    double every_ns = 1e9 / (double)rate_of(client->run->site->bench, chore);
    long long turn = client->number % role->count;
    bool going = true;
    for (long long first = turn; going; turn += role->count) {
        long long at_ns = client->run->start_ns + (long long)((double)turn * every_ns);
        going = await_turn(client, at_ns);
        if (!going && turn != first)
            return;
        if (!chore->turn(client, going ? at_ns : bench_now_ns()))
            return;
    }
}

size_t beside_roles(const struct bench *bench, struct role ret[BESIDE_ROLES])
{
    size_t count = 0;
    for (size_t i = 0; i < BESIDE_ROLES; i++) {
        long long rate = rate_of(bench, &chores[i]);
        long long clients = (rate + A_CLIENT - 1) / A_CLIENT;
        if (rate > 0)
            ret[count++] = (struct role){
                .prepare = chores[i].prepare,
                .work = do_chore,
                .finish = chores[i].finish,
                .count = clients < CLIENTS_MOST ? clients : CLIENTS_MOST,
                .arg = &chores[i],
            };
    }
    return count;
}

void beside_describe(const struct bench *bench, const struct role *role, struct row *row)
{
    const struct chore *chore = role->arg;
    row->unit = chore->name;
    row->what = chore->what;
    (void)snprintf(row->label, sizeof row->label, "%lld %s/s", rate_of(bench, chore), chore->name);
}
