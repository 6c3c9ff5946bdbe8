/* What plans cost: a step of a plan of 10,000 takes as much work as one of a plan of 100, whatever
 * the plan's shape, and nothing is done twice. On every store, through pawl.h.
 *
 * Work is the processor time of this process, in which the engine runs and, but for PostgreSQL's,
 * the store. Time goes by in fits on a busy machine, so that the best of several tries counts. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/library_case.h"

enum { STEPS_MAX = 10 * 1000, WIDTH = 1000, AT_ONCE_MAX = 999, PLANS_MAX = 50, TRIES_MAX = 10 };

static const double ratio_max = 1.3;

static int64_t work_us(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- plans of a shape --------------------------------------------------------------------- */

/* A plan as JSON, with room to grow. */
struct text {
    char *at;
    size_t len;
    size_t cap;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    if (text->cap - text->len < 256) {
        text->cap = text->cap * 2 + 1024;
        text->at = realloc(text->at, text->cap);
        assert_non_null(text->at);
    }
    va_start(arguments, format);
    int len = vsnprintf(text->at + text->len, text->cap - text->len, format, arguments);
    va_end(arguments);
    assert_in_range(len, 0, 255);
    text->len += (size_t)len;
}

/* Each step after the one before it. */
static void add_chain(struct text *text, int count)
{
    add(text, "{\"id\":\"s0\",\"kind\":\"k\"}");
    for (int i = 1; i < count; i++)
        add(text, ",{\"id\":\"s%d\",\"kind\":\"k\",\"deps\":[\"s%d\"]}", i, i - 1);
}

/* Fans of at most WIDTH, the last step of each the first of the next: one, those that depend on it,
 * and one that depends on all of those. */
static void add_fans(struct text *text, int count)
{
    int first = 0;
    add(text, "{\"id\":\"s0\",\"kind\":\"k\"}");
    while (first < count - 1) {
        int last = first + WIDTH < count - 1 ? first + WIDTH : count - 1;
        for (int i = first + 1; i < last; i++)
            add(text, ",{\"id\":\"s%d\",\"kind\":\"k\",\"deps\":[\"s%d\"]}", i, first);
        add(text, ",{\"id\":\"s%d\",\"kind\":\"k\",\"deps\":[", last);
        for (int i = first + 1; i < last; i++)
            add(text, "%s\"s%d\"", i > first + 1 ? "," : "", i);
        add(text, "%s]}", last == first + 1 ? "\"s0\"" : "");
        first = last;
    }
}

typedef void (*shape_fn)(struct text *text, int count);

/* Submits a plan; returns the job's id, which is to be freed. */
static char *submit_plan(struct pawl *pawl, shape_fn shape, int count)
{
    struct text text = {0};
    struct pawl_error error = {0};
    char *answer = NULL;
    add(&text, "{\"kind\":\"crew\",\"plan\":{\"steps\":[");
    shape(&text, count);
    add(&text, "]}}");
    if (pawl_submit(pawl, text.at, &answer, &error) != PAWL_OK)
        fail_msg("%s", error.message);
    char *id = pawl_json_text(pawl_json_get(pawl_json_read(answer), "id"));
    pawl_free(answer);
    free(text.at);
    return id;
}

/* ---- working through them ----------------------------------------------------------------- */

/* A worker on resource "r": what it holds, as operations that complete it. */
struct hand {
    struct pawl *pawl;
    struct text done;
    int held;
};

/* Takes what the last operation of the batch has claimed, and sees that the others went well. */
static void take(struct hand *hand, const char *answer)
{
    struct pawl_json results = pawl_json_get(pawl_json_read(answer), "results");
    struct pawl_json result = {0};
    struct pawl_json claim = {0};
    struct pawl_json claims = {0};
    while (pawl_json_next(results, &result, NULL)) {
        if (pawl_json_int(pawl_json_get(result, "status"), -1) != 200)
            fail_msg("not all went well: %.500s", answer);
        claims = pawl_json_get(result, "body.claims");
    }
    hand->held = 0;
    hand->done.len = 0;
    while (pawl_json_next(claims, &claim, NULL)) {
        char *token = pawl_json_text(pawl_json_get(claim, "lease.token"));
        add(&hand->done, "{\"op\":\"complete\",\"token\":\"%s\",\"result\":1},", token);
        pawl_free(token);
        hand->held++;
    }
}

/* Completes what it holds and claims as much as there is, up to `max`, in one commit. */
static void work(struct hand *hand, int max)
{
    struct text request = {0};
    struct pawl_error error = {0};
    char *answer = NULL;
    request.cap = hand->done.len + 512;
    request.at = malloc(request.cap);
    assert_non_null(request.at);
    int len = snprintf(request.at, request.cap,
                       "{\"ops\":[%.*s{\"op\":\"claim_steps\",\"worker_id\":\"w\","
                       "\"resource_id\":\"r\",\"max\":%d}]}",
                       (int)hand->done.len, hand->done.len > 0 ? hand->done.at : "", max);
    assert_in_range(len, 1, (int)request.cap - 1);
    if (pawl_batch(hand->pawl, request.at, &answer, &error) != PAWL_OK)
        fail_msg("%s", error.message);
    take(hand, answer);
    pawl_free(answer);
    free(request.at);
}

/* The work of a step, in ns, in `plans` plans of `count` steps each, from submit to the end. */
static double work_of(struct library_case *c, shape_fn shape, int count, int plans, int max)
{
    struct hand hand = {.pawl = c->talk.pawl};
    char *ids[PLANS_MAX];
    int64_t before = work_us();
    assert_in_range(plans, 1, PLANS_MAX);
    for (int i = 0; i < plans; i++) {
        int done = 0;
        ids[i] = submit_plan(hand.pawl, shape, count);
        /* What a batch releases can be claimed in the next one. */
        for (int idle = 0; idle<2; idle = hand.held> 0 ? 0 : idle + 1) {
            done += hand.held;
            work(&hand, max);
        }
        assert_int_equal(done, count);
    }
    int64_t took = work_us() - before;
    for (int i = 0; i < plans; i++) {
        assert_string_equal(status_of(&c->talk, ids[i]), "completed");
        pawl_free(ids[i]);
    }
    free(hand.done.at);
    return (double)took * 1000 / ((double)plans * count);
}

/* One shape at several sizes. */
struct course {
    shape_fn shape;
    int max; /* steps claimed at once */
    int sizes[3];
    int plans[3]; /* how many of each, so that all take their time */
    bool on_disk; /* the longest also on SQLite */
};

/* Compares plans of a size with those of another, until they cost the same or patience is over. */
static void costs_as_much(struct library_case *c, const struct course *course)
{
    double best[3] = {0};
    double worst = 0;
    /* What is written to a disk takes its time; and PostgreSQL does most of the work itself. */
    bool whole = c->sort == TEST_MEMORY || (c->sort == TEST_SQLITE && course->on_disk) ||
                 getenv("TORTURE") != NULL;
    int count = whole ? 3 : 2;
    does(&c->talk, pawl_resource_put, "{\"id\":\"r\",\"slots\":1000,\"ttl_ms\":3600000}");
    /* Sizes are compared within a try: machines become faster and slower by half. */
    for (int try = 0; try < TRIES_MAX && (try == 0 || worst > ratio_max); try++) {
        double most = 0;
        for (int i = 0; i < count; i++) {
            best[i] = work_of(c, course->shape, course->sizes[i], course->plans[i], course->max);
            most = best[i] / best[0] > most ? best[i] / best[0] : most;
        }
        worst = try == 0 || most < worst ? most : worst;
    }
    for (int i = 0; i < count; i++)
        print_message("# %.1f us a step of a plan of %d\n", best[i] / 1000, course->sizes[i]);
    if (worst > ratio_max)
        fail_msg("a step of a larger plan costs %.2f times as much", worst);
}

static void a_step_of_a_long_chain_costs_as_much_as_one_of_a_short(void **state)
{
    static const struct course course = {add_chain, 1, {100, 1000, STEPS_MAX}, {5, 1, 1}, false};
    costs_as_much(*state, &course);
}

/* 10,000 steps are ten fans, one after the other. A step that waits for a thousand others is read
 * whenever one of those ends, which must not mean that its thousand names are. */
static void a_step_of_a_wide_fan_costs_as_much_as_one_of_a_narrow(void **state)
{
    static const struct course course = {add_fans, 1, {100, 1000, STEPS_MAX}, {5, 1, 1}, false};
    costs_as_much(*state, &course);
}

static void steps_claimed_by_the_thousand_cost_no_more_each(void **state)
{
    static const struct course course = {
        add_fans, AT_ONCE_MAX, {100, 1000, STEPS_MAX}, {20, 2, 1}, true};
    costs_as_much(*state, &course);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_EVERY_STORE_TICKING(a_step_of_a_long_chain_costs_as_much_as_one_of_a_short),
        ON_EVERY_STORE_TICKING(a_step_of_a_wide_fan_costs_as_much_as_one_of_a_narrow),
        ON_EVERY_STORE_TICKING(steps_claimed_by_the_thousand_cost_no_more_each),
    };
    return cmocka_run_group_tests(tests, NULL, cases_over);
}
