/* A client of 'pawl bench': one thread that submits jobs, or claims them and says what came of
 * them. Requests are made once where they are always the same. Answers are searched rather than
 * parsed, as nothing in our own jobs looks like what is searched for: what the client costs should
 * not be what is measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"

static const struct {
    const char *name;
    cli_call call;
    const char *of; /* what the token is */
} ops[] = {
    [BENCH_HEARTBEAT] = {"heartbeat", pawl_heartbeat, "token"},
    [BENCH_COMPLETE] = {"complete", pawl_complete, "token"},
    [BENCH_FINISH] = {"complete", pawl_complete, "token"},
    [BENCH_EFFECT_BEGIN] = {"effect_begin", pawl_effect_begin, "token"},
    [BENCH_EFFECT_COMMIT] = {"effect_commit", pawl_effect_commit, "token"},
    [BENCH_WAIT] = {"wait", pawl_wait, "token"},
    [BENCH_GET] = {"get", pawl_get, "id"},
};

bool client_init(struct client *client, struct run *run, const struct role *role)
{
    *client = (struct client){.run = run, .role = role};
    client->tokens = calloc(BENCH_BATCH_MAX, sizeof *client->tokens);
    return client->tokens != NULL;
}

void client_release(struct client *client)
{
    draft_free(&client->submit);
    draft_free(&client->claim);
    draft_free(&client->request);
    pawl_free(client->answer);
    free(client->tokens);
    free(client->latencies);
}

void client_fail(struct client *client, const struct pawl_error *error)
{
    struct run *run = client->run;
    (void)pthread_mutex_lock(&run->mutex);
    if (run->error.code == PAWL_OK)
        run->error = *error;
    (void)pthread_mutex_unlock(&run->mutex);
    atomic_store(&run->stop, true);
}

static bool fail_with(struct client *client, enum pawl_code code, const char *message)
{
    struct pawl_error error = {.code = code};
    (void)snprintf(error.message, sizeof error.message, "%s", message);
    client_fail(client, &error);
    return false;
}

static bool no_memory(struct client *client)
{
    return fail_with(client, PAWL_NO_MEMORY, "out of memory");
}

void client_did(struct client *client, long long count)
{
    client->last_ns = bench_now_ns();
    (void)atomic_fetch_add(&client->run->finished, count);
}

/* ---- jobs ---- */

static void add_job(struct draft *draft, const struct site *site)
{
    const char *payload = site->bench->payload;
    draft_print(draft, "{\"kind\":\"" BENCH_KIND "\",\"queue\":\"%s\"%s%s}", site->queue,
                payload != NULL ? ",\"payload\":" : "", payload != NULL ? payload : "");
}

bool client_submit_text(struct client *client, const char *request, long long count)
{
    struct pawl_error error;
    char *answer;
    if (pawl_submit(client->pawl, request, &answer, &error) != PAWL_OK) {
        client_fail(client, &error);
        return false;
    }
    pawl_free(answer);
    (void)atomic_fetch_add(&client->run->submitted, count);
    return true;
}

bool client_submit(struct client *client, long long count)
{
    struct draft *draft = &client->submit;
    const struct site *site = client->run->site;
    if (client->submit_count != count) {
        draft->len = 0;
        if (client->run->batch > 1)
            draft_text(draft, "{\"jobs\":[");
        for (long long i = 0; i < count; i++) {
            if (i > 0)
                draft_text(draft, ",");
            add_job(draft, site);
        }
        if (client->run->batch > 1)
            draft_text(draft, "]}");
        if (draft->failed)
            return no_memory(client);
        client->submit_count = count;
    }
    return client_submit_text(client, draft->at, count);
}

/* The member of a payload that says when its job was made. */
#define MADE_AT "\"bench_ns\":"

bool client_submit_now(struct client *client)
{
    const struct site *site = client->run->site;
    struct draft *draft = &client->request;
    const char *payload = site->bench->payload;
    int pad = payload != NULL ? (int)strlen(payload) - 2 - (int)strlen("{" MADE_AT "}") - 26 : 0;
    draft->len = 0;
    draft_print(draft,
                "{\"kind\":\"" BENCH_KIND "\",\"queue\":\"%s\",\"payload\":{" MADE_AT
                "%lld,\"pad\":\"%.*s\"}}",
                site->queue, bench_now_ns(), pad > 0 ? pad : 0, pad > 0 ? payload + 1 : "");
    return draft->failed ? no_memory(client) : client_submit_text(client, draft->at, 1);
}

/* ---- work ---- */

bool client_ask(struct client *client, cli_call call, const char *request)
{
    struct pawl_error error;
    pawl_free(client->answer);
    client->answer = NULL;
    client->token_count = 0;
    if (call(client->pawl, request, &client->answer, &error) == PAWL_OK)
        return true;
    client_fail(client, &error);
    return false;
}

bool client_find(struct client *client, const char *name)
{
    const char *at = client->answer;
    client->token_count = 0;
    while ((at = strstr(at, name)) != NULL) {
        at += strlen(name);
        at += strspn(at, " :");
        const char *end = *at == '"' ? strchr(at + 1, '"') : NULL;
        if (end == NULL || client->token_count == BENCH_BATCH_MAX)
            return fail_with(client, PAWL_UNAVAILABLE, "unexpected response");
        client->tokens[client->token_count++] = (struct token){at, (size_t)(end + 1 - at)};
        at = end;
    }
    return true;
}

static bool claim(struct client *client, cli_call call, const char *more, long long most,
                  long long wait_ms)
{
    struct draft *draft = &client->claim;
    const struct site *site = client->run->site;
    if (client->claim_max != most || client->claim_wait_ms != wait_ms) {
        draft->len = 0;
        draft_print(draft,
                    "{\"worker_id\":\"bench-%lld\",\"max\":%lld,\"wait_ms\":%lld%s,"
                    "\"kinds\":[\"" BENCH_KIND "\"],\"queues\":[\"%s\"",
                    client->number, most, wait_ms, more, site->queue);
        /* All that is in the way is where it looks. */
        if (site->bench->mix)
            draft_print(draft, ",\"%s" BENCH_PAUSED "\"", site->queue);
        draft_text(draft, "]}");
        if (draft->failed)
            return no_memory(client);
        client->claim_max = most;
        client->claim_wait_ms = wait_ms;
    }
    return client_ask(client, call, draft->at) && client_find(client, "\"token\"");
}

bool client_claim(struct client *client, long long most, long long wait_ms)
{
    return claim(client, pawl_claim, "", most, wait_ms);
}

bool client_claim_steps(struct client *client, long long most, long long wait_ms)
{
    char more[96];
    /* The resource has the queue's name. */
    (void)snprintf(more, sizeof more, ",\"resource_id\":\"%s\"", client->run->site->queue);
    return claim(client, pawl_claim_steps, more, most, wait_ms);
}

bool client_note_latency(struct client *client, long long from_ns, long long to_ns)
{
    if (client->latency_count == client->latency_cap) {
        size_t cap = client->latency_cap == 0 ? 1024 : client->latency_cap * 2;
        double *more = realloc(client->latencies, cap * sizeof *more);
        if (more == NULL)
            return no_memory(client);
        client->latencies = more;
        client->latency_cap = cap;
    }
    client->latencies[client->latency_count++] = (double)(to_ns - from_ns) / 1e6;
    return true;
}

bool client_note_latencies(struct client *client, long long now_ns)
{
    const char *at = client->answer;
    while ((at = strstr(at, MADE_AT)) != NULL) {
        at += strlen(MADE_AT);
        if (!client_note_latency(client, strtoll(at, NULL, 10), now_ns))
            return false;
    }
    return true;
}

static long long count_of(const char *text, const char *what)
{
    long long count = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        count++;
    return count;
}

/* Jobs that have completed, by what was answered. */
static void count_completed(struct client *client, const char *answer)
{
    (void)atomic_fetch_add(&client->run->completed, count_of(answer, "\"status\":\"completed\""));
}

/* Whether all entries of a batch went well. */
static bool check_batch(struct client *client, const char *answer, long long count)
{
    struct pawl_json result = {NULL, 0};
    if (count_of(answer, "{\"status\":200,") == count)
        return true;
    struct pawl_json list = pawl_json_get(pawl_json_read(answer), "results");
    char *why = NULL;
    while (why == NULL && pawl_json_next(list, &result, NULL) != 0)
        if (pawl_json_int(pawl_json_get(result, "status"), 0) != 200)
            why = pawl_json_text(pawl_json_get(result, "body.detail"));
    (void)fail_with(client, PAWL_INVALID_TRANSITION,
                    why != NULL && *why != '\0' ? why : "unexpected response to a batch");
    pawl_free(why);
    return false;
}

bool client_say_one(struct client *client, enum bench_op op, const struct token *token,
                    const char *more)
{
    struct draft *draft = &client->request;
    struct pawl_error error;
    char *answer;
    draft->len = 0;
    draft_print(draft, "{\"%s\":", ops[op].of);
    draft_add(draft, token->at, token->len);
    draft_text(draft, more);
    draft_text(draft, "}");
    if (draft->failed)
        return no_memory(client);
    if (ops[op].call(client->pawl, draft->at, &answer, &error) != PAWL_OK) {
        client_fail(client, &error);
        return false;
    }
    if (op == BENCH_COMPLETE)
        count_completed(client, answer);
    pawl_free(answer);
    return true;
}

bool client_say(struct client *client, enum bench_op op, const char *more)
{
    struct draft *draft = &client->request;
    struct pawl_error error;
    char *answer;
    if (client->token_count == 0)
        return true;
    if (client->run->batch == 1)
        return client_say_one(client, op, &client->tokens[0], more);
    draft->len = 0;
    draft_text(draft, "{\"ops\":[");
    for (long long i = 0; i < client->token_count; i++) {
        draft_text(draft, i > 0 ? ",{\"op\":\"" : "{\"op\":\"");
        draft_text(draft, ops[op].name);
        draft_text(draft, "\",\"token\":");
        draft_add(draft, client->tokens[i].at, client->tokens[i].len);
        draft_text(draft, more);
        draft_text(draft, "}");
    }
    draft_text(draft, "]}");
    if (draft->failed)
        return no_memory(client);
    if (pawl_batch(client->pawl, draft->at, &answer, &error) != PAWL_OK) {
        client_fail(client, &error);
        return false;
    }
    bool well = check_batch(client, answer, client->token_count);
    if (op == BENCH_COMPLETE)
        count_completed(client, answer);
    pawl_free(answer);
    return well;
}

bool client_complete(struct client *client)
{
    return client_say(client, BENCH_COMPLETE, "");
}
