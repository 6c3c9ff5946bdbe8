#include "core/plan.h"

#include <stdio.h>

#include "../base/starve.h"
#include "base/buf.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { SEED = 7 };

static enum error_code read_plan(struct str json, struct arena *arena, struct plan *plan,
                                 struct err *err)
{
    assert_int_equal(json_check(json, PLAN_BYTES_MAX, "the test's own text", arena, err), ERR_OK);
    return plan_read(json, RECORD_REQUEST, SEED, arena, plan, err);
}

/* What is stored is read back as the same plan, without any default of the day. */
static void stored_and_read_again(const struct plan *plan, struct arena *arena)
{
    struct plan again;
    struct err err;
    if (plan_read(plan->source, RECORD_STORED, SEED, arena, &again, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(again.count, plan->count);
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct step *step = &again.steps[i];
        assert_null(
            record_differs(&step_spec_record, &plan->steps[i].spec, &step->spec, RECORD_ALL));
        assert_int_equal(step->child_count, plan->steps[i].child_count);
        assert_int_equal(step->open_deps, plan->steps[i].open_deps);
    }
    assert_true(str_eq(again.source, plan->source));
}

static struct plan plan_of(struct str json, struct arena *arena)
{
    struct plan plan;
    struct err err;
    if (read_plan(json, arena, &plan, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    stored_and_read_again(&plan, arena);
    return plan;
}

static void refused_with(struct str json, struct arena *arena, const char *detail)
{
    struct plan plan = {.count = 99};
    struct err err = {0};
    assert_int_equal(read_plan(json, arena, &plan, &err), ERR_UNPROCESSABLE_PLAN);
    assert_int_equal(err.code, ERR_UNPROCESSABLE_PLAN);
    if (strstr(err.detail, detail) == NULL)
        fail_msg("%.200s gives: %s", json.at, err.detail);
    assert_int_equal(plan.count, 99);
    assert_int_equal(plan_read(json, RECORD_REQUEST, SEED, arena, &plan, NULL),
                     ERR_UNPROCESSABLE_PLAN);
}

static void refused(const char *json, struct arena *arena, const char *detail)
{
    refused_with(str_from(json), arena, detail);
}

/* ---- what is read ---- */

static void a_step_with_an_id_alone_gets_the_defaults(void **state)
{
    struct plan plan = plan_of(STR(" [ {\"id\":\"a\"} ] "), *state);
    struct retry_policy policy = retry_policy_for_steps();
    assert_int_equal(plan.count, 1);
    const struct step *step = &plan.steps[0];
    assert_int_equal(step->ordinal, 0);
    assert_int_equal(step->state, STEP_PENDING);
    assert_str_equal(step->spec.id, STR("a"));
    assert_false(str_is_set(step->spec.kind));
    assert_null(record_differs(&retry_policy_record, &step->spec.retry, &policy, RECORD_ALL));
    assert_int_equal(step->spec.on_failure, ON_FAILURE_FAIL);
    assert_false(step->spec.critic);
    assert_int_equal(step->open_deps, 0);
    assert_int_equal(step->child_count, 0);
    assert_int_equal(step->attempt, 0);
}

static void every_field_of_the_contract_is_read(void **state)
{
    struct plan plan =
        plan_of(STR("[{\"id\":\"a\"},{\"id\":\"b\",\"kind\":\"scrape\",\"deps\":[\"a\"],"
                    "\"payload\":{\"n\": 1.10},\"capabilities\":[\"gpu\"],\"selector\":\"zone=eu\","
                    "\"avoid\":[\"r1\"],\"retry\":{\"max_attempts\":2},\"timeout_ms\":5000,"
                    "\"critic\":true,\"on_failure\":\"continue\"}]"),
                *state);
    const struct step_spec *spec = &plan.steps[1].spec;
    assert_str_equal(spec->kind, STR("scrape"));
    assert_str_equal(spec->deps, STR("[\"a\"]"));
    assert_str_equal(spec->payload, STR("{\"n\": 1.10}"));
    assert_str_equal(spec->capabilities, STR("[\"gpu\"]"));
    assert_str_equal(spec->selector, STR("zone=eu"));
    assert_str_equal(spec->avoid, STR("[\"r1\"]"));
    assert_int_equal(spec->retry.max_attempts, 2);
    assert_int_equal(spec->retry.initial_ms, 1000);
    assert_int_equal(spec->timeout_ms, 5000);
    assert_true(spec->critic);
    assert_int_equal(spec->on_failure, ON_FAILURE_CONTINUE);
    assert_int_equal(plan.steps[1].open_deps, 1);
    assert_int_equal(plan.steps[0].child_count, 1);
    assert_int_equal(plan.steps[0].children[0], 1);
}

static void a_dependency_may_come_later_and_be_escaped(void **state)
{
    struct plan plan = plan_of(STR("[{\"id\":\"a\",\"deps\":[\"\\u0062\",\"c\"]},{\"id\":\"b\"},"
                                   "{\"id\":\"\\u0063\",\"deps\":[\"b\"]},"
                                   "{\"id\":\"d\",\"deps\":[]}]"),
                               *state);
    assert_int_equal(plan.steps[0].open_deps, 2);
    assert_int_equal(plan.steps[1].child_count, 2);
    assert_int_equal(plan.steps[1].children[0], 0);
    assert_int_equal(plan.steps[1].children[1], 2);
    assert_int_equal(plan.steps[2].open_deps, 1);
    assert_int_equal(plan.steps[2].children[0], 0);
    assert_int_equal(plan.steps[3].open_deps, 0);
    assert_int_equal(plan.steps[3].child_count, 0);
}

static void the_seed_changes_nothing(void **state)
{
    struct str json = STR("[{\"id\":\"a\",\"deps\":[\"b\"]},{\"id\":\"b\"}]");
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct plan plan;
        assert_int_equal(plan_read(json, RECORD_REQUEST, seed, *state, &plan, NULL), ERR_OK);
        assert_int_equal(plan.steps[1].children[0], 0);
    }
}

/* ---- what is refused ---- */

static void a_plan_needs_steps(void **state)
{
    refused("{}", *state, "steps must be an array");
    refused("7", *state, "steps must be an array");
    refused("[]", *state, "a plan needs at least one step");
    refused("[1]", *state, "steps[0]: the object must be an object, not 1");
    refused("[{}]", *state, "steps[0]: id is required");
    refused("[{\"id\":\"a\"},{\"kind\":\"x\"}]", *state, "steps[1]: id is required");
}

static void wrong_and_unknown_fields_name_the_step(void **state)
{
    static const struct {
        const char *field;
        const char *detail;
    } cases[] = {
        {"\"colour\":1", "step \"a\": unknown field \"colour\""},
        {"\"kind\":\"\"", "step \"a\": kind must not be empty"},
        {"\"deps\":\"b\"", "step \"a\": deps must be an array, not \"b\""},
        {"\"timeout_ms\":0", "step \"a\": timeout_ms must be a whole number from 1 to"},
        {"\"critic\":1", "step \"a\": critic must be true or false, not 1"},
        {"\"on_failure\":\"stop\"",
         "step \"a\": on_failure must be one of fail, continue, not \"stop\""},
        {"\"retry\":{\"factor\":0.5}",
         "step \"a\": retry.factor must be a number with at most 3 decimals, from 1 to 100, not"},
        {"\"retry\":{\"initial_ms\":40000}",
         "step \"a\": retry.initial_ms must be at most max_ms, but 40000 is more than 30000"},
        {"\"retry\":{\"on_exhausted\":\"fail\"}",
         "step \"a\": retry.on_exhausted is for jobs; a step has on_failure"},
        {"\"retry\":{\"on_permanent\":\"fail\"}",
         "step \"a\": retry.on_permanent is for jobs; a step has on_failure"},
        {"\"capabilities\":[1]", "step \"a\": capabilities[0] must be a string, not 1"},
        {"\"avoid\":[\"r\",\"r\"]", "step \"a\": avoid[1] has the duplicate entry \"r\""},
        {"\"selector\":\"zone=\\u00e4\"", "step \"a\": selector \"zone=ä\": byte 5: "},
        {"\"selector\":7", "step \"a\": selector must be a string, not 7"},
        {"\"wait\":[]", "step \"a\": wait must be an object, not an array"},
        {"\"wait\":{}", "step \"a\": wait: type is required"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        (void)snprintf(json, sizeof json, "[{\"id\":\"a\",%s}]", cases[i].field);
        refused(json, *state, cases[i].detail);
    }
    refused("[{\"colour\":1,\"id\":\"a\"}]", *state, "steps[0]: unknown field \"colour\"");
}

static void an_id_is_a_name(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("[{\"id\":\""));
    for (int i = 0; i < 128; i++)
        buf_add_char(&buf, 'i');
    buf_add(&buf, STR("\"}]"));
    (void)plan_of(buf_str(&buf), *state);
    buf.len -= 3;
    buf_add(&buf, STR("i\"}]"));
    refused_with(buf_str(&buf), *state, "steps[0]: id must be at most 128 bytes long, not 129");
    refused("[{\"id\":\"\"}]", *state, "steps[0]: id must not be empty");
    refused("[{\"id\":\"a\\u001fb\"}]", *state, "steps[0]: id must not contain control characters");
    refused("[{\"id\":1}]", *state, "steps[0]: id must be a string, not 1");
}

static void an_id_twice_is_refused_with_both_places(void **state)
{
    refused("[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"\\u0061\"}]", *state,
            "duplicate step id \"a\" in steps[0] and steps[2]");
}

static void bad_dependencies_are_refused(void **state)
{
    refused("[{\"id\":\"a\",\"deps\":[\"x\"]}]", *state,
            "step \"a\" depends on \"x\", which is not a step of this plan");
    refused("[{\"id\":\"a\",\"deps\":[\"a\"]}]", *state, "step \"a\" depends on itself");
    refused("[{\"id\":\"a\"},{\"id\":\"b\",\"deps\":[\"a\",\"a\"]}]", *state,
            "step \"b\" has the duplicate dependency \"a\"");
    refused("[{\"id\":\"a\"},{\"id\":\"b\",\"deps\":[null]}]", *state,
            "step \"b\": a dependency must be a string, not null");
}

static void a_steps_payload_is_limited_in_bytes(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, PAYLOAD_BYTES_MAX + 64);
    buf_add(&buf, STR("[{\"id\":\"a\",\"payload\":\""));
    for (int i = 2; i < PAYLOAD_BYTES_MAX; i++)
        buf_add_char(&buf, 'x');
    buf_add(&buf, STR("\"}]"));
    assert_int_equal(plan_of(buf_str(&buf), *state).steps[0].spec.payload.len, PAYLOAD_BYTES_MAX);
    buf.len -= 3;
    buf_add(&buf, STR("x\"}]"));
    refused_with(buf_str(&buf), *state,
                 "step \"a\": payload must be at most 1048576 bytes long, not 1048577");
}

static void damaged_text_is_refused_without_reading_past_it(void **state)
{
    static const char *const texts[] = {
        "[",
        "[{",
        "[{\"id\":\"a\"}",
        "[{\"id\":\"a\"},",
        "[{\"id\":\"a\"} {\"id\":\"b\"}]",
        "[{\"id\":\"a\\q\"}]",
        "[{\"id\":\"a\",\"deps\":[\"\\q\"]}]",
        "[{\"id\":\"a\",\"deps\":[\"b\" \"c\"]},{\"id\":\"b\"}]",
        "[{\"id\":\"a\",\"wait\":{\"type\":\"human\",\"choices\":[\"a\" 1]}}]",
        "",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct str text = exact(str_from(texts[i]));
        struct plan plan;
        struct err err = {0};
        assert_int_equal(plan_read(text, RECORD_REQUEST, SEED, *state, &plan, &err),
                         ERR_UNPROCESSABLE_PLAN);
        assert_int_equal(err.code, ERR_UNPROCESSABLE_PLAN);
        exact_free(text);
    }
}

/* ---- cycles ---- */

static void a_cycle_is_shown(void **state)
{
    refused("[{\"id\":\"a\",\"deps\":[\"b\"]},{\"id\":\"b\",\"deps\":[\"c\"]},"
            "{\"id\":\"c\",\"deps\":[\"a\"]}]",
            *state, "the plan has a dependency cycle: a → b → c → a");
    refused("[{\"id\":\"x\",\"deps\":[\"y\"]},{\"id\":\"y\",\"deps\":[\"x\"]}]", *state,
            "dependency cycle: x → y → x");
}

static void steps_behind_a_cycle_are_not_shown_as_part_of_it(void **state)
{
    refused("[{\"id\":\"tail\",\"deps\":[\"root\",\"c\"]},{\"id\":\"root\"},"
            "{\"id\":\"b\",\"deps\":[\"root\",\"c\"]},{\"id\":\"c\",\"deps\":[\"root\",\"b\"]}]",
            *state, "dependency cycle: b → c → b");
}

static void a_long_cycle_is_cut(void **state)
{
    enum { STEPS = 10000 };
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add_char(&buf, '[');
    for (int i = 0; i < STEPS; i++) {
        buf_addf(&buf, "%s{\"id\":\"step-%d\",\"deps\":[\"step-%d\"]}", i == 0 ? "" : ",", i,
                 (i + 1) % STEPS);
    }
    buf_add_char(&buf, ']');
    refused_with(buf_str(&buf), *state, "cycle: step-0 → step-1 → step-2 → ");
    refused_with(buf_str(&buf), *state, " → … (99");
    refused_with(buf_str(&buf), *state, " more) → step-0");
}

static void long_ids_in_a_cycle_leave_the_message_whole(void **state)
{
    struct buf buf;
    struct err err;
    struct plan plan;
    char id[129] = {0};
    buf_init(&buf, *state, 0);
    buf_add_char(&buf, '[');
    for (int i = 0; i < 5; i++) {
        memset(id, 'a' + i, 128);
        buf_addf(&buf, "%s{\"id\":\"%s\",", i == 0 ? "" : ",", id);
        memset(id, 'a' + (i + 1) % 5, 128);
        buf_addf(&buf, "\"deps\":[\"%s\"]}", id);
    }
    buf_add_char(&buf, ']');
    assert_int_equal(read_plan(buf_str(&buf), *state, &plan, &err), ERR_UNPROCESSABLE_PLAN);
    assert_non_null(strstr(err.detail, "aaa → … (4 more) → aaa"));
    assert_int_equal(err.detail[strlen(err.detail) - 1], 'a');
}

/* ---- large plans ---- */

static void a_chain_of_10000_steps_is_taken_and_one_more_is_not(void **state)
{
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("[{\"id\":\"s0\"}"));
    for (int i = 1; i < 10000; i++)
        buf_addf(&buf, ",{\"id\":\"s%d\",\"deps\":[\"s%d\"]}", i, i - 1);
    buf_add_char(&buf, ']');
    struct plan plan = plan_of(buf_str(&buf), *state);
    assert_int_equal(plan.count, 10000);
    for (uint32_t i = 0; i < plan.count; i++) {
        assert_int_equal(plan.steps[i].ordinal, i);
        assert_int_equal(plan.steps[i].open_deps, i == 0 ? 0 : 1);
        assert_int_equal(plan.steps[i].child_count, i == 9999 ? 0 : 1);
        assert_true(i == 9999 || plan.steps[i].children[0] == i + 1);
    }
    buf.len--;
    buf_add(&buf, STR(",{\"id\":\"more\"}]"));
    refused_with(buf_str(&buf), *state, "a plan may have at most 10000 steps");
}

static void a_thousand_wide_fan_out_and_fan_in_is_taken(void **state)
{
    struct buf deps;
    struct buf buf;
    buf_init(&deps, *state, 16384);
    buf_init(&buf, *state, 65536);
    buf_add(&buf, STR("[{\"id\":\"first\"}"));
    for (int i = 0; i < 1000; i++) {
        buf_addf(&buf, ",{\"id\":\"m%d\",\"deps\":[\"first\"]}", i);
        buf_addf(&deps, "%s\"m%d\"", i == 0 ? "" : ",", i);
    }
    buf_add(&buf, STR(",{\"id\":\"last\",\"deps\":["));
    buf_add(&buf, buf_str(&deps));
    buf_add(&buf, STR("]}]"));
    struct plan plan = plan_of(buf_str(&buf), *state);
    assert_int_equal(plan.count, 1002);
    assert_int_equal(plan.steps[0].child_count, 1000);
    assert_int_equal(plan.steps[1001].open_deps, 1000);
    for (uint32_t i = 1; i <= 1000; i++) {
        assert_int_equal(plan.steps[0].children[i - 1], i);
        assert_int_equal(plan.steps[i].child_count, 1);
        assert_int_equal(plan.steps[i].children[0], 1001);
    }
}

/* Layer two depends on all of layer one: wide × wide edges. */
static struct str two_layers(int wide, int second, struct arena *arena)
{
    struct buf deps;
    struct buf buf;
    buf_init(&deps, arena, 16384);
    buf_init(&buf, arena, 8 * 1024 * 1024);
    for (int i = 0; i < wide; i++) {
        buf_addf(&deps, "%s\"%d\"", i == 0 ? "" : ",", i);
        buf_addf(&buf, "%s{\"id\":\"%d\"}", i == 0 ? "[" : ",", i);
    }
    for (int i = 0; i < second; i++) {
        buf_addf(&buf, ",{\"id\":\"x%d\",\"deps\":[", i);
        buf_add(&buf, buf_str(&deps));
        buf_add(&buf, STR("]}"));
    }
    buf_add_char(&buf, ']');
    return buf_str(&buf);
}

static void a_million_dependencies_are_taken_and_one_more_is_not(void **state)
{
    struct plan plan = plan_of(two_layers(1000, 1000, *state), *state);
    assert_int_equal(plan.steps[0].child_count, 1000);
    assert_int_equal(plan.steps[1999].open_deps, 1000);
    assert_int_equal(plan.steps[999].children[999], 1999);
    refused_with(two_layers(1000, 1001, *state), *state,
                 "a plan may have at most 1000000 dependencies in all");
}

/* ---- random graphs against a naive reference ---- */

enum { GRAPH_MAX = 40 };

struct graph {
    uint32_t count;
    bool depends[GRAPH_MAX][GRAPH_MAX]; /* [step][on] */
};

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Edges go against a random order, so there is no cycle, unless a few more are thrown in anywhere.
 */
static struct graph random_graph(uint64_t *seed, bool anywhere)
{
    struct graph graph = {.count = 1 + (uint32_t)(draw(seed) % GRAPH_MAX)};
    uint32_t order[GRAPH_MAX] = {0};
    for (uint32_t i = 0; i < graph.count; i++) {
        uint32_t at = (uint32_t)(draw(seed) % (i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    uint64_t density = 1 + draw(seed) % 10;
    for (uint32_t i = 0; i < graph.count; i++)
        for (uint32_t j = 0; j < i; j++)
            graph.depends[order[i]][order[j]] = draw(seed) % 12 < density;
    for (int i = 0; anywhere && i < 2; i++) {
        uint32_t from = (uint32_t)(draw(seed) % graph.count);
        uint32_t to = (uint32_t)(draw(seed) % graph.count);
        graph.depends[from][to] = from != to;
    }
    return graph;
}

static struct str graph_json(const struct graph *graph, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, 0);
    for (uint32_t i = 0; i < graph->count; i++) {
        buf_addf(&buf, "%s{\"deps\":[", i == 0 ? "[" : ",");
        const char *comma = "";
        for (uint32_t j = 0; j < graph->count; j++) {
            if (graph->depends[i][j]) {
                buf_addf(&buf, "%s\"n%u\"", comma, j);
                comma = ",";
            }
        }
        buf_addf(&buf, "],\"id\":\"n%u\"}", i);
    }
    buf_add_char(&buf, ']');
    return buf_str(&buf);
}

/* By transitive closure: a step that depends on itself in the end is in a cycle. */
static bool has_cycle(const struct graph *graph)
{
    struct graph closure = *graph;
    for (uint32_t k = 0; k < graph->count; k++) {
        for (uint32_t i = 0; i < graph->count; i++)
            for (uint32_t j = 0; closure.depends[i][k] && j < graph->count; j++)
                closure.depends[i][j] = closure.depends[i][j] || closure.depends[k][j];
    }
    for (uint32_t i = 0; i < graph->count; i++)
        if (closure.depends[i][i])
            return true;
    return false;
}

static void plan_is_graph(const struct plan *plan, const struct graph *graph)
{
    assert_int_equal(plan->count, graph->count);
    for (uint32_t i = 0; i < graph->count; i++) {
        uint32_t children = 0;
        int64_t deps = 0;
        for (uint32_t j = 0; j < graph->count; j++) {
            deps += graph->depends[i][j] ? 1 : 0;
            if (graph->depends[j][i]) {
                assert_true(children < plan->steps[i].child_count);
                assert_int_equal(plan->steps[i].children[children], j);
                children++;
            }
        }
        assert_int_equal(plan->steps[i].child_count, children);
        assert_int_equal(plan->steps[i].open_deps, deps);
    }
}

/* Each arrow that the message shows must be an edge of the graph, and the last step the first. */
static void shown_cycle_is_real(const struct graph *graph, const char *detail)
{
    const char *at = strstr(detail, "cycle: n");
    assert_non_null(at);
    at += strlen("cycle: n");
    char *end;
    unsigned long first = strtoul(at, &end, 10);
    unsigned long step = first;
    int arrows = 0;
    while (strncmp(end, " → n", strlen(" → n")) == 0) {
        unsigned long next = strtoul(end + strlen(" → n"), &end, 10);
        assert_true(next < graph->count);
        assert_true(graph->depends[step][next]);
        step = next;
        arrows++;
    }
    assert_true(arrows >= 2);
    assert_true(*end == '\0' || strncmp(end, " → …", strlen(" → …")) == 0);
    assert_true(*end != '\0' || step == first);
}

/* ---- all that is wrong ---- */

static struct plan_problems problems_of(struct str steps, struct arena *arena)
{
    struct plan_problems problems;
    struct err err;
    struct buf plan;
    buf_init(&plan, arena, steps.len + 16);
    buf_add(&plan, STR("{\"steps\":"));
    buf_add(&plan, steps);
    buf_add_char(&plan, '}');
    assert_int_equal(plan_check(buf_str(&plan), SEED, arena, &problems, &err), ERR_OK);
    return problems;
}

static void everything_that_is_wrong_is_told(void **state)
{
    static const struct {
        uint32_t ordinal;
        const char *message;
    } expected[] = {
        {0, "step \"a\": unknown field \"colour\""},
        {0, "step \"a\": timeout_ms must be"},
        {0, "step \"a\": retry.max_attempts must be"},
        {1, "step \"b\": selector \"a in (b\""},
        {2, "steps[2]: id is required"},
        {3, "duplicate step id \"a\" in steps[0] and steps[3]"},
        {4, "step \"w\": a wait step is not run by a worker and takes no critic"},
        {4, "step \"w\": wait: choices must have"},
        {5, "steps[5]: "},
        {1, "step \"b\" depends on \"zz\", which is not a step"},
        {1, "step \"b\" depends on itself"},
        {6, "a dependency cycle: c → d → c"},
        {8, "a dependency cycle: e → f → e"},
    };
    struct plan_problems problems = problems_of(
        STR("[{\"colour\":1,\"timeout_ms\":-3,\"retry\":{\"max_attempts\":0},\"id\":\"a\"},"
            "{\"id\":\"b\",\"deps\":[\"a\",\"zz\",\"b\"],\"selector\":\"a in (b\"},"
            "{\"kind\":\"k\"},{\"id\":\"a\"},"
            "{\"id\":\"w\",\"critic\":true,\"wait\":{\"type\":\"human\",\"choices\":[]}},"
            "17,{\"id\":\"c\",\"deps\":[\"d\"]},{\"id\":\"d\",\"deps\":[\"c\"]},"
            "{\"id\":\"e\",\"deps\":[\"f\"]},{\"id\":\"f\",\"deps\":[\"e\"]}]"),
        *state);
    for (uint32_t i = 0; i < problems.count && i < COUNT(expected); i++) {
        assert_int_equal(problems.at[i].ordinal, expected[i].ordinal);
        struct str message = problems.at[i].message;
        char text[512];
        (void)snprintf(text, sizeof text, "%.*s", STR_ARG(message));
        if (strstr(text, expected[i].message) == NULL)
            fail_msg("%.*s, not %s", STR_ARG(message), expected[i].message);
    }
    assert_int_equal(problems.count, COUNT(expected));
    assert_int_equal(problems.step_count, 10);
    assert_false(problems.more);
}

static void a_plan_that_is_none_has_one_problem(void **state)
{
    static const char *const plans[] = {
        "[]", "17", "{}", "{\"steps\":[]}", "{\"steps\":7}", "{\"steps\":[{\"id\":\"a\"}],\"x\":1}",
    };
    for (size_t i = 0; i < COUNT(plans); i++) {
        struct plan_problems problems;
        assert_int_equal(plan_check(str_from(plans[i]), SEED, *state, &problems, NULL), ERR_OK);
        assert_int_equal(problems.count, 1);
        assert_int_equal(problems.at[0].ordinal, PLAN_NO_STEP);
    }
    assert_int_equal(problems_of(STR("[{\"id\":\"a\"}]"), *state).count, 0);
}

static void at_most_1000_problems_are_told(void **state)
{
    struct buf steps;
    buf_init(&steps, *state, 64 * 1024);
    buf_add_char(&steps, '[');
    for (int i = 0; i < PLAN_PROBLEMS_MAX + 1; i++)
        buf_addf(&steps, "%s{\"id\":\"s%d\",\"deps\":[\"x\"]}", i > 0 ? "," : "", i);
    buf_add_char(&steps, ']');
    struct plan_problems problems = problems_of(buf_str(&steps), *state);
    assert_int_equal(problems.count, PLAN_PROBLEMS_MAX);
    assert_true(problems.more);
}

static void random_graphs_are_read_as_a_naive_reader_does(void **state)
{
    uint64_t seed = 20261115;
    int cycles = 0;
    for (int i = 0; i < 400; i++) {
        arena_clear(*state);
        struct graph graph = random_graph(&seed, i % 2 == 1);
        struct str json = graph_json(&graph, *state);
        struct plan plan;
        struct err err;
        enum error_code code = read_plan(json, *state, &plan, &err);
        assert_int_equal(problems_of(json, *state).count > 0, has_cycle(&graph));
        if (has_cycle(&graph)) {
            cycles++;
            assert_int_equal(code, ERR_UNPROCESSABLE_PLAN);
            shown_cycle_is_real(&graph, err.detail);
        } else {
            assert_int_equal(code, ERR_OK);
            plan_is_graph(&plan, &graph);
        }
    }
    assert_in_range(cycles, 50, 199);
}

/* ---- wait steps ---- */

static void a_wait_step_is_not_for_workers(void **state)
{
    static const struct {
        const char *field;
        const char *detail;
    } cases[] = {
        {"\"capabilities\":[]", "step \"a\": a wait step is not run by a worker and takes no cap"},
        {"\"selector\":\"x\"", "step \"a\": a wait step is not run by a worker and takes no sel"},
        {"\"avoid\":[\"x\"]", "step \"a\": a wait step is not run by a worker and takes no avoid"},
        {"\"critic\":true", "step \"a\": a wait step is not run by a worker and takes no critic"},
        {"\"timeout_ms\":1", "step \"a\": a wait step is not run by a worker and takes no timeout"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        (void)snprintf(json, sizeof json, "[{\"id\":\"a\",\"wait\":{\"type\":\"human\"},%s}]",
                       cases[i].field);
        refused(json, *state, cases[i].detail);
    }
    struct plan plan = plan_of(STR("[{\"id\":\"a\",\"wait\":{\"type\":\"human\"},\"critic\":false,"
                                   "\"kind\":\"k\",\"payload\":1}]"),
                               *state);
    assert_str_equal(plan.steps[0].spec.wait, STR("{\"type\":\"human\"}"));
}

static struct wait_spec wait_of(const char *json, struct arena *arena)
{
    struct wait_spec wait;
    struct err err;
    if (wait_spec_read(str_from(json), RECORD_REQUEST, arena, &wait, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    return wait;
}

static void what_a_step_waits_for_is_read(void **state)
{
    struct wait_spec wait =
        wait_of("{\"type\":\"human\",\"correlation_key\":\"k\",\"timeout_ms\":316224000000,"
                "\"prompt\":\"sure?\",\"choices\":[\"yes\",\"n\\u006f\"],\"assignee\":\"ann\","
                "\"default_answer\":\"no\"}",
                *state);
    assert_int_equal(wait.type, WAIT_HUMAN);
    assert_str_equal(wait.correlation_key, STR("k"));
    assert_int_equal(wait.timeout_ms, INT64_C(316224000000));
    assert_str_equal(wait.prompt, STR("sure?"));
    assert_str_equal(wait.choices, STR("[\"yes\",\"n\\u006f\"]"));
    assert_str_equal(wait.assignee, STR("ann"));
    assert_str_equal(wait.default_answer, STR("\"no\""));
    assert_int_equal(wait_of("{\"type\":\"human\"}", *state).correlation_key.len, 0);
    assert_int_equal(wait_of("{\"type\":\"timer\",\"delay_ms\":5}", *state).delay_ms, 5);
    assert_int_equal(
        wait_of("{\"type\":\"timer\",\"until\":\"1970-01-01T00:00:01Z\"}", *state).until, 1000);
    assert_int_equal(wait_of("{\"type\":\"signal\",\"correlation_key\":\"k\"}", *state).type,
                     WAIT_SIGNAL);
    assert_int_equal(wait_of("{\"type\":\"webhook\",\"correlation_key\":\"k\"}", *state).type,
                     WAIT_WEBHOOK);
    /* Without choices any answer will do. */
    assert_str_equal(
        wait_of("{\"type\":\"human\",\"default_answer\":{\"x\":1}}", *state).default_answer,
        STR("{\"x\":1}"));
}

static void a_wait_that_makes_no_sense_is_refused(void **state)
{
    static const struct {
        const char *json;
        const char *detail;
    } cases[] = {
        {"{}", "wait: type is required: webhook, human, timer or signal"},
        {"{\"type\":\"steps\"}",
         "wait: type must be one of webhook, human, timer, signal, not \"steps\""},
        {"{\"type\":\"replan\"}", "wait: type must be one of webhook, human, timer, signal"},
        {"{\"type\":\"timer\"}", "wait: a timer requires delay_ms or until"},
        {"{\"type\":\"timer\",\"correlation_key\":\"k\"}",
         "wait: a timer requires delay_ms or until"},
        {"{\"type\":\"timer\",\"delay_ms\":0}", "wait: delay_ms must be a whole number from 1 to"},
        {"{\"type\":\"timer\",\"delay_ms\":1,\"until\":\"2026-01-01T00:00:00Z\"}",
         "wait: a timer takes delay_ms or until, not both"},
        {"{\"type\":\"timer\",\"delay_ms\":1,\"timeout_ms\":2}",
         "wait: a timer takes no timeout_ms"},
        {"{\"type\":\"signal\"}", "wait: correlation_key is required"},
        {"{\"type\":\"webhook\"}", "wait: correlation_key is required"},
        {"{\"type\":\"signal\",\"correlation_key\":\"k\",\"delay_ms\":1}",
         "wait: delay_ms and until are for timers; use timeout_ms"},
        {"{\"type\":\"human\",\"until\":\"2026-01-01T00:00:00Z\"}",
         "wait: delay_ms and until are for timers; use timeout_ms"},
        {"{\"type\":\"human\",\"timeout_ms\":316224000001}",
         "wait: timeout_ms must be a whole number from 1 to 316224000000, not 316224000001"},
        {"{\"type\":\"human\",\"choices\":[]}",
         "wait: choices must have from 1 to 50 entries, not 0"},
        {"{\"type\":\"human\",\"choices\":[\"a\",1]}", "wait: a choice must be a string, not 1"},
        {"{\"type\":\"human\",\"choices\":[\"a\",\"b\",\"a\"]}", "wait: duplicate choice \"a\""},
        {"{\"type\":\"human\",\"choices\":\"a\"}", "wait: choices must be an array, not \"a\""},
        {"{\"type\":\"human\",\"choices\":[\"a\",\"b\"],\"default_answer\":\"c\"}",
         "wait: default_answer \"c\" is not one of the choices"},
        {"{\"type\":\"human\",\"choices\":[\"1\"],\"default_answer\":1}",
         "wait: default_answer must be a string, not 1"},
        {"{\"type\":\"human\",\"colour\":1}", "wait: unknown field \"colour\""},
        {"[]", "wait must be an object, not an array"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct wait_spec wait = {.delay_ms = 99};
        struct err err = {0};
        assert_int_equal(
            wait_spec_read(str_from(cases[i].json), RECORD_REQUEST, *state, &wait, &err),
            ERR_UNPROCESSABLE_PLAN);
        assert_int_equal(err.code, ERR_UNPROCESSABLE_PLAN);
        if (strstr(err.detail, cases[i].detail) == NULL)
            fail_msg("%s gives: %s", cases[i].json, err.detail);
        assert_int_equal(wait.delay_ms, 99);
        assert_int_equal(
            wait_spec_read(str_from(cases[i].json), RECORD_REQUEST, *state, &wait, NULL),
            ERR_UNPROCESSABLE_PLAN);
    }
}

static void at_most_50_choices_are_offered(void **state)
{
    struct buf buf;
    struct wait_spec wait;
    struct err err;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("{\"type\":\"human\",\"choices\":[\"0\""));
    for (int i = 1; i < 50; i++)
        buf_addf(&buf, ",\"%d\"", i);
    buf_add(&buf, STR("]}"));
    assert_int_equal(wait_spec_read(buf_str(&buf), RECORD_REQUEST, *state, &wait, &err), ERR_OK);
    buf.len -= 2;
    buf_add(&buf, STR(",\"50\"]}"));
    assert_int_equal(wait_spec_read(buf_str(&buf), RECORD_REQUEST, *state, &wait, &err),
                     ERR_UNPROCESSABLE_PLAN);
    assert_string_equal(err.detail, "wait: choices must have from 1 to 50 entries, not 51");
}

/* ---- verdicts ---- */

static void each_verdict_leads_to_its_state(void **state)
{
    (void)state;
    assert_int_equal(decide_next_state(VERDICT_ACCEPT, 9, 3), STEP_SUCCEEDED);
    assert_int_equal(decide_next_state(VERDICT_RETRY, 0, 3), STEP_FAILED_RETRYABLE);
    assert_int_equal(decide_next_state(VERDICT_RETRY, 2, 3), STEP_FAILED_RETRYABLE);
    assert_int_equal(decide_next_state(VERDICT_RETRY, 3, 3), STEP_FAILED_FATAL);
    assert_int_equal(decide_next_state(VERDICT_RETRY, 4, 3), STEP_FAILED_FATAL);
    assert_int_equal(decide_next_state(VERDICT_RETRY, 0, 0), STEP_FAILED_FATAL);
    assert_int_equal(decide_next_state(VERDICT_SWITCH_RESOURCE, 9, 3), STEP_FAILED_RESOURCE);
    assert_int_equal(decide_next_state(VERDICT_REPLAN, 0, 3), STEP_FAILED_FATAL);
    assert_int_equal(decide_next_state(VERDICT_NEEDS_USER, 9, 3), STEP_NEEDS_USER);
    assert_int_equal(decide_next_state(VERDICT_NONE, 0, 3), STEP_FAILED_FATAL);
    assert_int_equal(decide_next_state((enum verdict)77, 0, 3), STEP_FAILED_FATAL);
}

/* ---- memory ---- */

static bool read_in(struct arena *arena, void *data)
{
    struct plan plan;
    return plan_read(*(struct str *)data, RECORD_REQUEST, SEED, arena, &plan, NULL) !=
           ERR_NO_MEMORY;
}

static bool check_in(struct arena *arena, void *data)
{
    struct plan_problems problems;
    return plan_check(*(struct str *)data, SEED, arena, &problems, NULL) != ERR_NO_MEMORY;
}

static void without_memory_it_fails_as_no_memory(void **state)
{
    struct str bad = STR("{\"steps\":[{\"id\":\"a\",\"deps\":[\"b\",\"c\"],\"x\":1},{\"id\":\"b\","
                         "\"deps\":[\"a\"]}]}");
    struct str good = STR("[{\"id\":\"\\u0061\",\"capabilities\":[\"g\\u0070u\"],\"avoid\":[\"r\"],"
                          "\"selector\":\"a=b\"},{\"id\":\"b\",\"deps\":[\"\\u0061\"]},"
                          "{\"id\":\"w\",\"wait\":{\"type\":\"human\",\"choices\":[\"\\u0061\"],"
                          "\"default_answer\":\"\\u0061\"}}]");
    struct str cycle = STR("[{\"id\":\"a\",\"deps\":[\"b\"]},{\"id\":\"b\",\"deps\":[\"a\"]}]");
    (void)state;
    if (!STARVING)
        skip();
    assert_true(starve(read_in, &good) >= 12);
    assert_true(starve(check_in, &bad) >= 12);
    assert_true(starve(read_in, &cycle) >= 8);
}

static void a_stored_plan_may_have_fields_of_a_newer_version(void **state)
{
    struct plan plan;
    struct err err;
    struct str json = STR("[{\"id\":\"a\",\"colour\":\"red\",\"on_failure\":\"fail\",\"retry\":"
                          "{\"max_attempts\":2,\"strategy\":\"fixed\",\"factor\":1,\"max_ms\":5,"
                          "\"jitter\":\"none\",\"shade\":1}}]");
    assert_int_equal(plan_read(json, RECORD_REQUEST, SEED, *state, &plan, &err),
                     ERR_UNPROCESSABLE_PLAN);
    assert_int_equal(plan_read(json, RECORD_STORED, SEED, *state, &plan, &err), ERR_OK);
    assert_int_equal(plan.steps[0].spec.retry.max_attempts, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(a_step_with_an_id_alone_gets_the_defaults),
        WITH_ARENA(every_field_of_the_contract_is_read),
        WITH_ARENA(a_dependency_may_come_later_and_be_escaped),
        WITH_ARENA(the_seed_changes_nothing),
        WITH_ARENA(a_plan_needs_steps),
        WITH_ARENA(a_stored_plan_may_have_fields_of_a_newer_version),
        WITH_ARENA(wrong_and_unknown_fields_name_the_step),
        WITH_ARENA(an_id_is_a_name),
        WITH_ARENA(an_id_twice_is_refused_with_both_places),
        WITH_ARENA(bad_dependencies_are_refused),
        WITH_ARENA(a_steps_payload_is_limited_in_bytes),
        WITH_ARENA(damaged_text_is_refused_without_reading_past_it),
        WITH_ARENA(a_cycle_is_shown),
        WITH_ARENA(steps_behind_a_cycle_are_not_shown_as_part_of_it),
        WITH_ARENA(a_long_cycle_is_cut),
        WITH_ARENA(long_ids_in_a_cycle_leave_the_message_whole),
        WITH_ARENA(a_chain_of_10000_steps_is_taken_and_one_more_is_not),
        WITH_ARENA(a_thousand_wide_fan_out_and_fan_in_is_taken),
        WITH_ARENA(a_million_dependencies_are_taken_and_one_more_is_not),
        WITH_ARENA(everything_that_is_wrong_is_told),
        WITH_ARENA(a_plan_that_is_none_has_one_problem),
        WITH_ARENA(at_most_1000_problems_are_told),
        WITH_ARENA(random_graphs_are_read_as_a_naive_reader_does),
        WITH_ARENA(a_wait_step_is_not_for_workers),
        WITH_ARENA(what_a_step_waits_for_is_read),
        WITH_ARENA(a_wait_that_makes_no_sense_is_refused),
        WITH_ARENA(at_most_50_choices_are_offered),
        WITH_ARENA(each_verdict_leads_to_its_state),
        WITH_ARENA(without_memory_it_fails_as_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
