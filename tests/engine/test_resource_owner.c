/* Resources belong to queues: every verb that touches one, asked by its owner, by a token of
 * another queue, by one of all queues and by an admin, on every store. */
#include "engine/engine.h"
#include "engine/office.h"

enum { R = ACCESS_READ, W = ACCESS_WORK, A = ACCESS_ADMIN };

static struct str q1_name[] = {STR_INIT("q1")};
static struct str q2_name[] = {STR_INIT("q2")};
static struct str both_names[] = {STR_INIT("q1"), STR_INIT("q2")};
static const struct names q1 = {q1_name, 1};
static const struct names q2 = {q2_name, 1};
static const struct names both = {both_names, 2};

static void submit_plan(struct office *office, const char *queue)
{
    limit(office, 0, NULL);
    well(office, VERB_submit, "{'kind':'k','queue':'%s','plan':{'steps':[{'id':'a'},{'id':'b'}]}}",
         queue);
}

/* A resource of q1 that has a step of q1; returns the token of its lease. */
static const char *resource_in_use(struct office *office, const char *id)
{
    submit_plan(office, "q1");
    limit(office, W, &q1);
    well(office, VERB_resource_put, "{'id':'%s','slots':9,'capabilities':['gpu']}", id);
    assert_string_equal(said(office, "queues.0"), "q1");
    assert_string_equal(said(office, "queues.1"), "");
    assert_string_equal(said(office, "shared"), "false");
    well(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'%s'}", id);
    return said(office, "claims.0.lease.token");
}

/* The resource as an admin sees it. */
static const char *whole(struct office *office, const char *id)
{
    uint32_t scopes = office->scopes;
    const struct names *queues = office->queues;
    limit(office, A, NULL);
    well(office, VERB_resource_get, "{'id':'%s'}", id);
    limit(office, scopes, queues);
    return office->answer;
}

/* ---- of another queue --------------------------------------------------------------------- */

static const struct {
    enum verb_name verb;
    const char *request;
} by_name[] = {
    {VERB_resource_get, "{'id':'%s'}"},
    {VERB_resource_delete, "{'id':'%s'}"},
    {VERB_claim_steps, "{'worker_id':'w','resource_id':'%s'}"},
    {VERB_batch, "{'ops':[{'op':'resource_delete','id':'%s'}]}"},
    {VERB_batch, "{'ops':[{'op':'claim_steps','worker_id':'w','resource_id':'%s'}]}"},
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static const char *refusal_of(struct office *office, size_t index, const char *name)
{
    char request[256];
    (void)snprintf(request, sizeof request, by_name[index].request, name);
    ask(office, by_name[index].verb, "%s", request);
    const char *text = office->code == ERR_OK ? office->answer : office->err.detail;
    /* Names of one length, so that one can be put over the other. */
    char *copy = arena_alloc(&office->arena, strlen(text) + 1);
    memcpy(copy, text, strlen(text) + 1);
    for (char *at = strstr(copy, name); at != NULL; at = strstr(at, name))
        memset(at, '@', strlen(name));
    return copy;
}
#pragma GCC diagnostic pop

static void look_for_a_foreign_one(struct office *office)
{
    static const struct {
        uint32_t scopes;
        const struct names *queues;
    } others[] = {{W, &q2}, {R | W, &q2}, {A, &q2}};
    const char *token = resource_in_use(office, "r-one");
    submit_plan(office, "q2");
    const char *before = whole(office, "r-one");
    for (size_t k = 0; k < sizeof others / sizeof others[0]; k++) {
        limit(office, others[k].scopes, others[k].queues);
        for (size_t i = 0; i < sizeof by_name / sizeof by_name[0]; i++) {
            const char *foreign = refusal_of(office, i, "r-one");
            enum error_code code = office->code;
            const char *unknown = refusal_of(office, i, "r-not");
            assert_int_equal(code, office->code);
            assert_true(code == ERR_NOT_FOUND || strstr(foreign, "\"status\":404") != NULL);
            assert_string_equal(foreign, unknown);
        }
        well(office, VERB_resources, "{}");
        assert_string_equal(said(office, "resources.0"), "");
        assert_null(strstr(office->answer, "r-one"));
    }
    assert_string_equal(whole(office, "r-one"), before);
    limit(office, W, &q1);
    well(office, VERB_heartbeat, "{'token':'%s'}", token);
    well(office, VERB_resources, "{}");
    assert_string_equal(said(office, "resources.0.id"), "r-one");
}

static void a_resource_of_other_queues_is_not_there(void **state)
{
    (void)state;
    at_every_office(look_for_a_foreign_one);
}

static void take_a_foreign_one(struct office *office)
{
    const char *token = resource_in_use(office, "r");
    limit(office, W, &q1);
    well(office, VERB_resource_put, "{'id':'idle'}");
    const char *ids[] = {"r", "idle"};
    for (int i = 0; i < 2; i++) {
        const char *before = whole(office, ids[i]);
        limit(office, W, &q2);
        ask(office, VERB_resource_put, "{'id':'%s','slots':1,'ttl_ms':1000}", ids[i]);
        assert_int_equal(office->code, ERR_FORBIDDEN);
        assert_null(strstr(office->err.detail, "q1"));
        assert_null(strstr(office->err.detail, "step"));
        limit(office, A, &q2);
        ask(office, VERB_resource_put, "{'id':'%s','queues':['q2']}", ids[i]);
        assert_int_equal(office->code, ERR_FORBIDDEN);
        limit(office, W, &q2);
        well(office, VERB_batch, "{'ops':[{'op':'resource_put','id':'%s'}]}", ids[i]);
        assert_string_equal(said(office, "results.0.status"), "403");
        ask(office, VERB_resource_delete, "{'id':'%s'}", ids[i]);
        assert_int_equal(office->code, ERR_NOT_FOUND);
        assert_string_equal(whole(office, ids[i]), before);
    }
    limit(office, W, &q1);
    well(office, VERB_heartbeat, "{'token':'%s'}", token);
    /* A name that is free again is anybody's. */
    well(office, VERB_resource_delete, "{'id':'idle'}");
    limit(office, W, &q2);
    well(office, VERB_resource_put, "{'id':'idle'}");
    assert_string_equal(said(office, "queues.0"), "q2");
    limit(office, W, &q1);
    ask(office, VERB_resource_get, "{'id':'idle'}");
    assert_int_equal(office->code, ERR_NOT_FOUND);
}

static void a_resource_of_other_queues_cannot_be_taken_over(void **state)
{
    (void)state;
    at_every_office(take_a_foreign_one);
}

/* ---- of one's own ------------------------------------------------------------------------- */

static void claim_across_queues(struct office *office)
{
    const struct names *callers[] = {NULL, &both};
    limit(office, W, &q1);
    well(office, VERB_resource_put, "{'id':'r','slots':99}");
    for (int i = 0; i < 2; i++) {
        submit_plan(office, "q2");
        limit(office, W, callers[i]);
        well(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'r','max':9}");
        assert_string_equal(said(office, "claims.0"), "");
        submit_plan(office, "q1");
        well(office, VERB_list, "{'queue':'q1','limit':1}");
        const char *id = said(office, "jobs.0.id");
        limit(office, W, callers[i]);
        well(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'r','max':9}");
        assert_string_equal(said(office, "claims.0.job_id"), id);
        assert_string_equal(said(office, "claims.1.job_id"), id);
        assert_string_equal(said(office, "claims.2"), "");
    }
    /* One of all queues takes them all. */
    limit(office, W, NULL);
    well(office, VERB_resource_put, "{'id':'all','slots':99}");
    assert_string_equal(said(office, "queues"), "[]");
    well(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'all','max':9}");
    assert_string_not_equal(said(office, "claims.3"), "");
}

static void a_resource_gets_steps_of_its_own_queues_only(void **state)
{
    (void)state;
    at_every_office(claim_across_queues);
}

static void renew_and_delete(struct office *office)
{
    const char *token = resource_in_use(office, "r");
    limit(office, W, &q1);
    well(office, VERB_resource_put, "{'id':'r','slots':7}");
    assert_string_equal(said(office, "slots"), "7");
    assert_string_equal(said(office, "used"), "1");
    /* An operator of all queues may look after it: it stays what it is. */
    limit(office, W, NULL);
    well(office, VERB_resource_put, "{'id':'r','slots':8}");
    assert_string_equal(said(office, "queues"), "[\"q1\"]");
    /* So may a token of more queues. Only when it names its queues, one of fewer is out. */
    limit(office, W, &both);
    well(office, VERB_resource_put, "{'id':'r','slots':9}");
    assert_string_equal(said(office, "queues"), "[\"q1\"]");
    well(office, VERB_resource_put, "{'id':'r','queues':['q1','q2']}");
    assert_string_equal(said(office, "queues"), "[\"q1\",\"q2\"]");
    limit(office, W, &q1);
    ask(office, VERB_resource_get, "{'id':'r'}");
    assert_int_equal(office->code, ERR_NOT_FOUND);
    limit(office, W, &both);
    well(office, VERB_resource_put, "{'id':'r','queues':['q1']}");
    assert_string_equal(said(office, "queues"), "[\"q1\"]");
    limit(office, W, &q1);
    well(office, VERB_resource_delete, "{'id':'r'}");
    assert_string_equal(said(office, "queues"), "[\"q1\"]");
    ask(office, VERB_heartbeat, "{'token':'%s'}", token);
    assert_int_equal(office->code, ERR_STALE_LEASE);
}

static void the_tokens_of_all_its_queues_renew_and_delete_a_resource(void **state)
{
    (void)state;
    at_every_office(renew_and_delete);
}

static void give_one_away(struct office *office)
{
    resource_in_use(office, "r");
    limit(office, W, NULL);
    well(office, VERB_resource_put, "{'id':'r','queues':['q2']}");
    /* The step of q1 on it is not q2's to lose. */
    limit(office, W, &q2);
    well(office, VERB_resource_get, "{'id':'r'}");
    ask(office, VERB_resource_put, "{'id':'r','ttl_ms':1000}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    ask(office, VERB_resource_delete, "{'id':'r'}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    limit(office, W, &q1);
    ask(office, VERB_resource_get, "{'id':'r'}");
    assert_int_equal(office->code, ERR_NOT_FOUND);
}

static void a_resource_that_was_given_away_keeps_the_steps_it_has(void **state)
{
    (void)state;
    at_every_office(give_one_away);
}

/* ---- shared ------------------------------------------------------------------------------- */

static void share_one(struct office *office)
{
    resource_in_use(office, "r");
    const struct {
        uint32_t scopes;
        const struct names *queues;
    } others[] = {{W, &q1}, {A, &q1}, {W, NULL}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        limit(office, others[i].scopes, others[i].queues);
        ask(office, VERB_resource_put, "{'id':'r','shared':true}");
        assert_int_equal(office->code, ERR_FORBIDDEN);
        assert_non_null(strstr(office->err.detail, "scope admin for all queues"));
        well(office, VERB_resource_put, "{'id':'r','slots':9,'shared':false}");
    }
    limit(office, A, NULL);
    well(office, VERB_resource_put, "{'id':'r','slots':9,'shared':true}");
    assert_string_equal(said(office, "shared"), "true");
    assert_string_equal(said(office, "queues"), "[]");
    /* Everybody sees and uses it, for steps of their own. */
    submit_plan(office, "q2");
    limit(office, R | W, &q2);
    well(office, VERB_resource_get, "{'id':'r'}");
    well(office, VERB_resources, "{}");
    assert_string_equal(said(office, "resources.0.id"), "r");
    well(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'r','max':9}");
    assert_string_not_equal(said(office, "claims.1"), "");
    assert_string_equal(said(office, "claims.2"), "");
    const char *token = said(office, "claims.0.lease.token");
    /* Tokens of some queues change nothing, not even those whose it was. */
    const struct names *limited[] = {&q1, &q2};
    for (int i = 0; i < 2; i++) {
        limit(office, A, limited[i]);
        ask(office, VERB_resource_put, "{'id':'r','slots':1}");
        assert_int_equal(office->code, ERR_FORBIDDEN);
        ask(office, VERB_resource_delete, "{'id':'r'}");
        assert_int_equal(office->code, ERR_FORBIDDEN);
    }
    /* A worker of all queues renews it and leaves it shared; an admin ends that. */
    limit(office, W, NULL);
    well(office, VERB_resource_put, "{'id':'r','slots':9}");
    assert_string_equal(said(office, "shared"), "true");
    ask(office, VERB_resource_put, "{'id':'r','shared':false}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    limit(office, A, NULL);
    ask(office, VERB_resource_put, "{'id':'r','shared':true,'queues':['q1']}");
    assert_int_equal(office->code, ERR_BAD_REQUEST);
    well(office, VERB_resource_put, "{'id':'r','slots':9,'shared':false,'queues':['q1']}");
    limit(office, W, &q2);
    ask(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'r'}");
    assert_int_equal(office->code, ERR_NOT_FOUND);
    well(office, VERB_heartbeat, "{'token':'%s'}", token);
}

static void a_shared_resource_is_for_everybody_and_changed_by_tokens_of_all_queues(void **state)
{
    (void)state;
    at_every_office(share_one);
}

/* ---- before resources belonged to anybody -------------------------------------------------- */

/* As 0.1.0 has left it. */
static void put_unowned(struct office *office, const char *id)
{
    struct store_txn *txn;
    struct store_load load = {0};
    struct err err = {0};
    assert_int_equal(store_begin(engine_store(office->engine), STORE_WRITE, &txn, &err), ERR_OK);
    assert_int_equal(store_load(txn, &load, &office->arena, &err), ERR_OK);
    struct resource resource = {.id = str_from(id),
                                .slots = 9,
                                .ttl_ms = 3600 * 1000,
                                .expires_at = load.now + (int64_t)3600 * 1000};
    struct store_write write = {.resources = &resource, .resource_count = 1};
    assert_int_equal(store_write(txn, &write, &err), ERR_OK);
    enum store_outcome outcome;
    assert_int_equal(store_commit(txn, &outcome, &err), ERR_OK);
}

static void adopt(struct office *office)
{
    put_unowned(office, "idle");
    put_unowned(office, "busy");
    submit_plan(office, "q1");
    limit(office, W, NULL);
    well(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'busy'}");
    const char *token = said(office, "claims.0.lease.token");
    limit(office, W, &q2);
    ask(office, VERB_resource_get, "{'id':'idle'}");
    assert_int_equal(office->code, ERR_NOT_FOUND);
    ask(office, VERB_claim_steps, "{'worker_id':'w','resource_id':'idle'}");
    assert_int_equal(office->code, ERR_NOT_FOUND);
    ask(office, VERB_resource_delete, "{'id':'idle'}");
    assert_int_equal(office->code, ERR_NOT_FOUND);
    /* Not one with steps of another queue. */
    ask(office, VERB_resource_put, "{'id':'busy'}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    well(office, VERB_resource_put, "{'id':'idle'}");
    assert_string_equal(said(office, "queues.0"), "q2");
    limit(office, W, &q1);
    ask(office, VERB_resource_put, "{'id':'idle'}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    well(office, VERB_resource_put, "{'id':'busy','slots':9}");
    assert_string_equal(said(office, "used"), "1");
    well(office, VERB_heartbeat, "{'token':'%s'}", token);
}

static void a_resource_of_before_belongs_to_the_first_that_renews_it(void **state)
{
    (void)state;
    at_every_office(adopt);
}

/* ---- imports ------------------------------------------------------------------------------ */

static char bundle[16 * 1024];

static void export_one(struct office *office)
{
    resource_in_use(office, "r");
    limit(office, A, NULL);
    well(office, VERB_list, "{}");
    well(office, VERB_export, "{'id':'%s'}", said(office, "jobs.0.id"));
    assert_true(strlen(office->answer) < sizeof bundle);
    memcpy(bundle, office->answer, strlen(office->answer) + 1);
}

static enum error_code import_one(struct office *office, const struct names *queues)
{
    struct buf request;
    struct buf answer;
    buf_init(&request, &office->arena, sizeof bundle);
    buf_addf(&request, "{\"jobs\":[%s]}", bundle);
    buf_init(&answer, &office->arena, 256);
    struct verb_call call = {
        .engine = office->engine,
        .arena = &office->arena,
        .name = VERB_import,
        .request = buf_str(&request),
        .actor = STR("ann"),
        .scopes = A,
        .queues = queues,
    };
    office->err = (struct err){0};
    return verb_respond(&call, &answer, &office->err);
}

static void import_a_lease(struct office *office)
{
    limit(office, W, &q2);
    well(office, VERB_resource_put, "{'id':'r','slots':9}");
    assert_int_equal(import_one(office, &q1), ERR_FORBIDDEN);
    assert_non_null(strstr(office->err.detail, "\"a\""));
    assert_null(strstr(office->err.detail, "q2"));
    well(office, VERB_resource_get, "{'id':'r'}");
    assert_string_equal(said(office, "used"), "0");
    assert_int_equal(import_one(office, NULL), ERR_OK);
}

static void an_import_takes_no_slot_of_the_resource_of_another(void **state)
{
    (void)state;
    at_every_office(export_one);
    at_every_office(import_a_lease);
}

/* ---- wrong requests ----------------------------------------------------------------------- */

static void name_strangely(struct office *office)
{
    static const char *const wrong[] = {
        "{'id':'r','capabilities':['gpu\\u202e']}",
        "{'id':'r','labels':{'zo\\u200bne':'eu'}}",
        "{'id':'r','labels':{'zone':'e\\ufeffu'}}",
    };
    limit(office, W, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ask(office, VERB_resource_put, "%s", wrong[i]);
        assert_int_equal(office->code, ERR_BAD_REQUEST);
        assert_non_null(strstr(office->err.detail, i == 0 ? "capabilities" : "labels"));
    }
    well(office, VERB_resources, "{}");
    assert_string_equal(said(office, "resources.0"), "");
    well(office, VERB_resource_put, "{'id':'r','labels':{'zone':'','ort':'Zürich'}}");
}

static void names_of_a_resource_have_no_characters_of_format(void **state)
{
    (void)state;
    at_every_office(name_strangely);
}

static void ask_wrongly(struct office *office)
{
    static const char *const wrong[] = {
        "{'id':'r','queues':'q1'}",          "{'id':'r','queues':[1]}",
        "{'id':'r','queues':['q1','q1']}",   "{'id':'r','queues':['']}",
        "{'id':'r','queues':['a\\u202eb']}", "{'id':'r','shared':1}",
        "{'id':'r','shared':'yes'}",
    };
    limit(office, A, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ask(office, VERB_resource_put, "%s", wrong[i]);
        if (office->code != ERR_BAD_REQUEST)
            fail_msg("%s is taken", wrong[i]);
        assert_true(strstr(office->err.detail, "queues") != NULL ||
                    strstr(office->err.detail, "shared") != NULL);
    }
    limit(office, A, &q1);
    ask(office, VERB_resource_put, "{'id':'r','queues':['q1','q2']}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    ask(office, VERB_resource_put, "{'id':'r','queues':[]}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    limit(office, A, NULL);
    well(office, VERB_resources, "{}");
    assert_string_equal(said(office, "resources.0"), "");
}

static void wrong_owners_are_refused_and_nothing_is_registered(void **state)
{
    (void)state;
    at_every_office(ask_wrongly);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resource_of_other_queues_is_not_there),
        cmocka_unit_test(a_resource_of_other_queues_cannot_be_taken_over),
        cmocka_unit_test(a_resource_gets_steps_of_its_own_queues_only),
        cmocka_unit_test(the_tokens_of_all_its_queues_renew_and_delete_a_resource),
        cmocka_unit_test(a_resource_that_was_given_away_keeps_the_steps_it_has),
        cmocka_unit_test(a_shared_resource_is_for_everybody_and_changed_by_tokens_of_all_queues),
        cmocka_unit_test(a_resource_of_before_belongs_to_the_first_that_renews_it),
        cmocka_unit_test(an_import_takes_no_slot_of_the_resource_of_another),
        cmocka_unit_test(names_of_a_resource_have_no_characters_of_format),
        cmocka_unit_test(wrong_owners_are_refused_and_nothing_is_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
