/* Which steps of a plan run, and in which order: what becomes ready is released once, whoever ends
 * at the same moment; and random plans run as a simple scheduler says. On every store, through
 * pawl.h.
 *
 * TORTURE=1: 10,000 races on each store instead of 300, and 1,000 plans instead of 100. */
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/library_case.h"

static int many(int few, int torture)
{
    return getenv("TORTURE") != NULL ? torture : few;
}

static void put_resource(struct talk *t)
{
    does(t, pawl_resource_put, "{\"id\":\"r\",\"slots\":1000,\"ttl_ms\":3600000}");
}

/* ---- two that end at the same moment ------------------------------------------------------ */

enum { ROUND = 100 }; /* races at a time */

/* One of the two, with a parent of each race. */
struct runner {
    struct pawl *pawl;
    pthread_barrier_t *start;
    const char *tokens[ROUND];
    int count;
    int failed;
};

static void *run_races(void *argument)
{
    struct runner *runner = argument;
    for (int i = 0; i < runner->count; i++) {
        char request[256];
        char *answer = NULL;
        (void)snprintf(request, sizeof request, "{\"token\":\"%s\",\"result\":%d}",
                       runner->tokens[i], i);
        (void)pthread_barrier_wait(runner->start);
        runner->failed += pawl_complete(runner->pawl, request, &answer, NULL) != PAWL_OK;
        pawl_free(answer);
    }
    return NULL;
}

/* Submits plans in which "c" waits for "a" and "b", and gives each runner one of these. */
static void line_up(struct library_case *c, struct runner runners[2], int count)
{
    struct talk *t = &c->talk;
    static const char *const job = "{\"kind\":\"race\",\"plan\":{\"steps\":[{\"id\":\"a\"},"
                                   "{\"id\":\"b\"},{\"id\":\"c\",\"deps\":[\"a\",\"b\"]}]}}";
    const char *jobs = job;
    for (int i = 1; i < count; i++)
        jobs = phrase(t, "%s,%s", jobs, job);
    does(t, pawl_submit, "{\"jobs\":[%s]}", jobs);
    does(t, pawl_claim_steps,
         "{\"worker_id\":\"w\",\"resource_id\":\"r\",\"max\":1000,\"lease_ttl_ms\":3600000}");
    for (int i = 0; i < 2 * count; i++) {
        const char *step = text_at(t, phrase(t, "claims.%d.step.id", i));
        struct runner *runner = &runners[strcmp(step, "b") == 0];
        assert_in_range(runner->count, 0, count - 1);
        runner->tokens[runner->count++] = text_at(t, phrase(t, "claims.%d.lease.token", i));
    }
    assert_string_equal(text_at(t, phrase(t, "claims.%d.step.id", 2 * count)), "");
}

/* Everything that was released is the third step of each race, once, with what both came to. */
static void released_once(struct library_case *c, int count)
{
    struct talk *t = &c->talk;
    const char *claim = "{\"worker_id\":\"w\",\"resource_id\":\"r\",\"max\":1000}";
    does(t, pawl_claim_steps, "%s", claim);
    const char *answer = t->answer;
    const char *done = "";
    for (int i = 0; i < count; i++) {
        t->answer = answer;
        says_text(t, phrase(t, "claims.%d.step.id", i), "c");
        const char *a = text_at(t, phrase(t, "claims.%d.inputs.a", i));
        const char *b = text_at(t, phrase(t, "claims.%d.inputs.b", i));
        assert_true(*a != '\0' && *b != '\0');
        done = phrase(t, "%s%s{\"op\":\"complete\",\"token\":\"%s\"}", done, i > 0 ? "," : "",
                      text_at(t, phrase(t, "claims.%d.lease.token", i)));
    }
    says_text(t, phrase(t, "claims.%d.step.id", count), "");
    does(t, pawl_claim_steps, "%s", claim);
    says_text(t, "claims", "[]");
    does(t, pawl_batch, "{\"ops\":[%s]}", done);
    does(t, pawl_list, "{\"status\":\"running,queued,waiting,failed\"}");
    says_text(t, "jobs", "[]");
}

static void two_parents_that_end_at_the_same_moment_release_the_child_once(void **state)
{
    struct library_case *c = *state;
    int left = many(300, 10 * 1000);
    struct pawl *other = c->sort == TEST_MEMORY ? c->talk.pawl : case_open(c, false);
    put_resource(&c->talk);
    while (left > 0) {
        int count = left < ROUND ? left : ROUND;
        pthread_barrier_t start;
        assert_int_equal(pthread_barrier_init(&start, NULL, 2), 0);
        struct runner runners[2] = {{.pawl = c->talk.pawl, .start = &start},
                                    {.pawl = other, .start = &start}};
        line_up(c, runners, count);
        in_threads(2, run_races, runners, sizeof runners[0]);
        assert_int_equal(runners[0].failed + runners[1].failed, 0);
        released_once(c, count);
        (void)pthread_barrier_destroy(&start);
        talk_release(&c->talk);
        talk_init(&c->talk, c->talk.pawl);
        left -= count;
    }
    if (other != c->talk.pawl)
        pawl_close(other);
}

/* ---- random plans ------------------------------------------------------------------------- */

enum { STEPS_MAX = 24, BYTES_MAX = 16 * 1024 };

/* What becomes of a step whenever it runs. */
enum fate { SUCCEEDS, RETRIES, FAILS, FATE_COUNT };

struct graph {
    int count;
    bool needs[STEPS_MAX][STEPS_MAX]; /* [step][what it depends on] */
    enum fate fates[STEPS_MAX];
    char id[64];
    /* What has happened. */
    int runs[STEPS_MAX];
    bool done[STEPS_MAX];
    int order; /* how many runs there were */
};

/* Edges go from earlier steps to later ones; which stands where in the plan is another matter. */
static void draw(struct graph *graph, uint64_t *seed)
{
    *graph = (struct graph){.count = 1 + (int)dice(seed, STEPS_MAX)};
    uint32_t density = 1 + dice(seed, 6);
    for (int i = 0; i < graph->count; i++) {
        uint32_t fate = dice(seed, 10);
        graph->fates[i] = fate == 0 ? FAILS : fate < 3 ? RETRIES : SUCCEEDS;
        for (int k = 0; k < i; k++)
            graph->needs[i][k] = dice(seed, density + 2) == 0;
    }
}

static void submit_graph(struct talk *t, struct graph *graph, uint64_t *seed)
{
    char text[BYTES_MAX];
    int places[STEPS_MAX];
    int len = 0;
    for (int i = 0; i < graph->count; i++) {
        int other = (int)dice(seed, (uint32_t)i + 1);
        places[i] = places[other];
        places[other] = i;
    }
    for (int i = 0; i < graph->count; i++) {
        int step = places[i];
        len += snprintf(text + len, sizeof text - (size_t)len,
                        "%s{\"id\":\"%d\",\"on_failure\":\"continue\","
                        "\"retry\":{\"initial_ms\":0},\"deps\":[",
                        i > 0 ? "," : "", step);
        bool first = true;
        for (int k = 0; k < graph->count; k++) {
            if (!graph->needs[step][k])
                continue;
            len += snprintf(text + len, sizeof text - (size_t)len, "%s\"%d\"", first ? "" : ",", k);
            first = false;
        }
        len += snprintf(text + len, sizeof text - (size_t)len, "]}");
        assert_in_range(len, 1, BYTES_MAX - 256);
    }
    does(t, pawl_submit, "{\"kind\":\"graph\",\"plan\":{\"steps\":[%s]}}", text);
    (void)snprintf(graph->id, sizeof graph->id, "%s", text_at(t, "id"));
}

/* The simple scheduler: which steps run at all. */
static void reference(const struct graph *graph, bool ret_runs[STEPS_MAX], bool *ret_failed)
{
    bool done[STEPS_MAX] = {false};
    *ret_failed = false;
    for (int i = 0; i < graph->count; i++) {
        ret_runs[i] = true;
        for (int k = 0; k < i; k++)
            ret_runs[i] = ret_runs[i] && (!graph->needs[i][k] || done[k]);
        done[i] = ret_runs[i] && graph->fates[i] != FAILS;
        *ret_failed = *ret_failed || !done[i];
    }
}

static struct graph *graph_of(struct graph *graphs, int count, const char *id)
{
    for (int i = 0; i < count; i++)
        if (strcmp(graphs[i].id, id) == 0)
            return &graphs[i];
    return NULL;
}

/* No two steps of any two plans come to the same. */
static int result_of(const struct graph *graphs, const struct graph *graph, int step)
{
    return (int)(graph - graphs) * STEPS_MAX + step;
}

/* Runs the step of a claim, which must be ready. */
static void run_step(struct talk *t, struct graph *graphs, int count, struct pawl_json claim)
{
    char *id = pawl_json_text(pawl_json_get(claim, "job_id"));
    char *name = pawl_json_text(pawl_json_get(claim, "step.id"));
    char *token = pawl_json_text(pawl_json_get(claim, "lease.token"));
    struct graph *graph = graph_of(graphs, count, id);
    int step = (int)strtol(name, NULL, 10);
    assert_non_null(graph);
    assert_in_range(step, 0, graph->count - 1);
    for (int k = 0; k < graph->count; k++) {
        struct pawl_json input = pawl_json_get(claim, phrase(t, "inputs.%d", k));
        assert_int_equal(pawl_json_int(input, -1),
                         graph->needs[step][k] ? result_of(graphs, graph, k) : -1);
        if (graph->needs[step][k] && !graph->done[k])
            fail_msg("step %d of job %s runs before step %d has ended", step, id, k);
    }
    bool again = graph->runs[step]++ == 0 && graph->fates[step] == RETRIES;
    graph->order++;
    if (again || graph->fates[step] == FAILS) {
        does(t, pawl_fail, "{\"token\":\"%s\",\"error\":{\"class\":\"%s\",\"message\":\"no\"}}",
             token, again ? "transient" : "permanent");
    } else {
        does(t, pawl_complete, "{\"token\":\"%s\",\"result\":%d}", token,
             result_of(graphs, graph, step));
        graph->done[step] = true;
    }
    pawl_free(id);
    pawl_free(name);
    pawl_free(token);
}

static void ran_as_it_should(struct talk *t, const struct graph *graph)
{
    bool runs[STEPS_MAX];
    bool failed;
    reference(graph, runs, &failed);
    for (int i = 0; i < graph->count; i++) {
        int expected = !runs[i] ? 0 : graph->fates[i] == RETRIES ? 2 : 1;
        if (graph->runs[i] != expected)
            fail_msg("step %d of job %s has run %d times and not %d", i, graph->id, graph->runs[i],
                     expected);
    }
    assert_string_equal(status_of(t, graph->id), failed ? "failed" : "completed");
    does(t, pawl_verify, "{\"id\":\"%s\"}", graph->id);
    says_text(t, "ok", "true");
}

static void random_plans_run_as_a_simple_scheduler_says(void **state)
{
    struct library_case *c = *state;
    struct talk *t = &c->talk;
    enum { AT_ONCE = 20 };
    static struct graph graphs[AT_ONCE];
    uint64_t seed = 7;
    put_resource(t);
    for (int left = many(100, 1000); left > 0; left -= AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            draw(&graphs[i], &seed);
            submit_graph(t, &graphs[i], &seed);
        }
        /* What a step that failed gave back may be there a moment later. */
        for (int idle = 0; idle < 2;) {
            does(t, pawl_claim_steps,
                 "{\"worker_id\":\"w\",\"resource_id\":\"r\",\"max\":%u,\"wait_ms\":%d}",
                 1 + dice(&seed, 40), idle * 50);
            struct pawl_json claims = pawl_json_get(pawl_json_read(t->answer), "claims");
            struct pawl_json claim = {0};
            idle++;
            while (pawl_json_next(claims, &claim, NULL)) {
                run_step(t, graphs, AT_ONCE, claim);
                idle = 0;
            }
        }
        for (int i = 0; i < AT_ONCE; i++)
            ran_as_it_should(t, &graphs[i]);
        talk_release(t);
        talk_init(t, t->pawl);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE_TICKING(two_parents_that_end_at_the_same_moment_release_the_child_once),
        ON_EVERY_STORE_TICKING(random_plans_run_as_a_simple_scheduler_says),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
