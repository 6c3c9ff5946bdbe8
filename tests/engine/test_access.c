/* Who may do what: every verb with every scope, and with jobs of its own and of another queue, on
 * every store; and the verbs of access tokens. */
#include <pthread.h>
#include <time.h>

#include "base/json.h"
#include "engine/access.h"
#include "engine/office.h"

enum {
    R = ACCESS_READ,
    S = ACCESS_SUBMIT,
    W = ACCESS_WORK,
    A = ACCESS_ADMIN,
    N = ACCESS_ANSWER,
};

static struct str own_name[] = {STR_INIT("own")};
static const struct names own_queues = {own_name, 1};

/* ---- jobs of a queue ---------------------------------------------------------------------- */

struct jobs {
    const char *queue;
    const char *queued;
    const char *dead;
    const char *running;
    const char *token; /* of the running one */
    const char *plan;
    const char *step_token;
};

/* What only a reader may see. */
#define SECRETS                                                                                    \
    ",'payload':'secret','labels':{'a':'secret'},'goal':'secret','agent_id':'secret',"             \
    "'correlation_id':'secret'"

static const char *submitted(struct office *office, const char *queue, const char *more)
{
    well(office, VERB_submit, "{'kind':'k','queue':'%s'" SECRETS "%s}", queue, more);
    return said(office, "id");
}

static struct jobs fill(struct office *office, const char *queue)
{
    struct jobs jobs = {.queue = queue};
    jobs.running = submitted(office, queue, "");
    well(office, VERB_claim, "{'worker_id':'w','queues':['%s']}", queue);
    jobs.token = said(office, "claims.0.lease.token");
    well(office, VERB_resource_put, "{'id':'r-%s','slots':9,'queues':['%s']}", queue, queue);
    well(office, VERB_worker_put, "{'id':'w-%s','queues':['%s']}", queue, queue);
    jobs.plan = submitted(
        office, queue,
        ",'plan':{'steps':[{'id':'a','payload':'secret'},{'id':'b','payload':'secret'}]}");
    well(office, VERB_claim_steps, "{'worker_id':'w','queues':['%s'],'resource_id':'r-%s'}", queue,
         queue);
    jobs.step_token = said(office, "claims.0.lease.token");
    jobs.dead = submitted(office, queue, "");
    well(office, VERB_dead_letter, "{'id':'%s','reason_code':'timeout'}", jobs.dead);
    jobs.queued = submitted(office, queue, "");
    return jobs;
}

/* ---- every verb --------------------------------------------------------------------------- */

/* What each verb is asked, and what is put in for @: the id of a job that is (q)ueued, (d)ead, has
 * a (p)lan; the (t)oken of a lease; the name of the (Q)ueue, which also its (r)esource has and its
 * worker, whose (n)ames are unknown to others. And which scopes, besides admin, may ask it; and
 * whether one who is limited to a queue may. */
struct query {
    enum verb_name verb;
    char what;
    const char *request;
    uint32_t scopes;
    enum { BY_QUEUE, FOR_ALL, NEVER_LIMITED } queues;
};

static const struct query questions[] = {
    {VERB_submit, 'Q', "{'kind':'k','queue':'@'}", S, BY_QUEUE},
    {VERB_list, 'Q', "{'queue':'@'}", R, BY_QUEUE},
    {VERB_bulk, 'Q', "{'action':'cancel','filter':{'queue':'@','kind':'none'}}", 0, BY_QUEUE},
    {VERB_get, 'q', "{'id':'@'}", R | S, BY_QUEUE},
    {VERB_events, 'q', "{'id':'@'}", R, BY_QUEUE},
    {VERB_append, 'q', "{'id':'@','expected_version':1,'events':[{'type':'my.note'}]}", 0,
     BY_QUEUE},
    {VERB_signal, 'q', "{'id':'@','correlation_key':'c'}", S | N, BY_QUEUE},
    {VERB_verify, 'q', "{'id':'@'}", R, BY_QUEUE},
    {VERB_explain, 'q', "{'id':'@'}", R, BY_QUEUE},
    {VERB_export, 'q', "{'id':'@'}", R, BY_QUEUE},
    {VERB_plan_diff, 'p', "{'id':'@'}", R, BY_QUEUE},
    {VERB_steps, 'p', "{'id':'@'}", R, BY_QUEUE},
    {VERB_plan, 'p', "{'id':'@','steps':[{'id':'z'}]}", S | W, BY_QUEUE},
    {VERB_verdict, 'p', "{'id':'@','step':'b','decision':'accept'}", 0, BY_QUEUE},
    {VERB_answer, 'p', "{'id':'@','step':'b','answer':1}", N, BY_QUEUE},
    {VERB_answer_job, 'q', "{'id':'@','answer':1}", N, BY_QUEUE},
    {VERB_inbox, '-', "{}", R, FOR_ALL},
    {VERB_claim, 'Q', "{'worker_id':'w','queues':['@'],'kinds':['none']}", W, BY_QUEUE},
    {VERB_claim_steps, 'Q', "{'worker_id':'w','queues':['@'],'judge':true}", W, BY_QUEUE},
    {VERB_start, 't', "{'token':'@'}", W, BY_QUEUE},
    {VERB_heartbeat, 't', "{'token':'@'}", W, BY_QUEUE},
    {VERB_effect_begin, 't', "{'token':'@','key':'e'}", W, BY_QUEUE},
    {VERB_effect_commit, 't', "{'token':'@','key':'e'}", W, BY_QUEUE},
    {VERB_effects, 't', "{'token':'@'}", W, BY_QUEUE},
    {VERB_effect_abort, 't', "{'token':'@','key':'e','error':{'message':'m'}}", W, BY_QUEUE},
    {VERB_wait, 't', "{'token':'@','type':'signal','correlation_key':'c'}", W, BY_QUEUE},
    {VERB_complete, 't', "{'token':'@'}", W, BY_QUEUE},
    {VERB_fail, 't', "{'token':'@','error':{'message':'no'}}", W, BY_QUEUE},
    {VERB_release, 't', "{'token':'@'}", W, BY_QUEUE},
    {VERB_cancelled, 't', "{'token':'@'}", W, BY_QUEUE},
    {VERB_abandon, 't', "{'token':'@','reason_code':'timeout'}", W, BY_QUEUE},
    {VERB_batch, '-', "{'ops':[{'op':'none'}]}", S | W | N, FOR_ALL},
    {VERB_resources, '-', "{}", R | W, FOR_ALL},
    {VERB_resource_put, 'r', "{'id':'r-@','slots':9}", W, BY_QUEUE},
    {VERB_resource_get, 'n', "{'id':'r-@'}", R | W, BY_QUEUE},
    {VERB_resource_delete, 'n', "{'id':'r-@'}", W, BY_QUEUE},
    {VERB_dead_letters, 'Q', "{'queue':'@'}", R, BY_QUEUE},
    {VERB_dead_letter_groups, 'Q', "{'queue':'@'}", R, BY_QUEUE},
    {VERB_redrive, 'd', "{'id':'@'}", 0, BY_QUEUE},
    {VERB_dead_letter, 'q', "{'id':'@','reason_code':'timeout'}", 0, BY_QUEUE},
    {VERB_requeue, 'q', "{'id':'@'}", 0, BY_QUEUE},
    {VERB_run_now, 'q', "{'id':'@'}", 0, BY_QUEUE},
    {VERB_cancel, 'q', "{'id':'@'}", S, BY_QUEUE},
    {VERB_redact, 'q', "{'id':'@'}", 0, BY_QUEUE},
    {VERB_drop, 'd', "{'id':'@'}", 0, BY_QUEUE},
    {VERB_queues, '-', "{}", R, FOR_ALL},
    {VERB_pause, 'Q', "{'queue':'@'}", 0, BY_QUEUE},
    {VERB_resume, 'Q', "{'queue':'@'}", 0, BY_QUEUE},
    {VERB_kinds, '-', "{}", R, FOR_ALL},
    {VERB_kind_set, '-', "{'kind':'k'}", 0, NEVER_LIMITED},
    {VERB_kind_patch, '-', "{'kind':'k'}", 0, NEVER_LIMITED},
    {VERB_kind_get, '-', "{'kind':'k'}", R, FOR_ALL},
    {VERB_workers, '-', "{}", R, FOR_ALL},
    {VERB_worker_put, 'Q', "{'id':'w','queues':['@']}", W, BY_QUEUE},
    {VERB_worker_delete, 'n', "{'id':'w-@'}", W, BY_QUEUE},
    {VERB_stats, '-', "{}", R, FOR_ALL},
    {VERB_feed, '-', "{}", R, FOR_ALL},
    {VERB_import, '-', "{'jobs':[]}", 0, FOR_ALL},
    {VERB_backup, '-', "{}", 0, NEVER_LIMITED},
    {VERB_doctor, '-', "{}", 0, NEVER_LIMITED},
    {VERB_token_create, '-', "{'name':'n','scopes':['read']}", 0, NEVER_LIMITED},
    {VERB_token_list, '-', "{}", 0, NEVER_LIMITED},
    {VERB_token_revoke, '-', "{'id':'01900000-0000-7000-8000-000000000000'}", 0, NEVER_LIMITED},
};

enum { QUESTIONS = sizeof questions / sizeof questions[0] };

static const char *meant(const struct query *question, const struct jobs *jobs)
{
    switch (question->what) {
    case 'q':
        return jobs->queued;
    case 'd':
        return jobs->dead;
    case 'p':
        return jobs->plan;
    case 't':
        return jobs->token;
    default:
        return jobs->queue;
    }
}

static void put_question(struct office *office, const struct query *question,
                         const struct jobs *jobs)
{
    const char *at = strchr(question->request, '@');
    if (at == NULL)
        ask(office, question->verb, "%s", question->request);
    else
        ask(office, question->verb, "%.*s%s%s", (int)(at - question->request), question->request,
            meant(question, jobs), at + 1);
}

/* A job that there is not, and the token of a lease on it. */
static const char unknown_id[] = "01900000-0000-7000-8000-000000000000";
static const char unknown_token[] =
    "01900000000070008000000000000000.1.00000000000000000000000000000000";

/* Whether the question names a job, by its id or by the token of a lease on it. */
static bool names_job(const struct query *question)
{
    return strchr("qdpt", question->what) != NULL;
}

static void ask_with_every_scope(struct office *office)
{
    for (uint32_t scopes = 1; scopes <= N; scopes <<= 1) {
        limit(office, 0, NULL);
        struct jobs jobs = fill(office, scopes == R   ? "one"
                                        : scopes == S ? "two"
                                        : scopes == W ? "three"
                                        : scopes == A ? "four"
                                                      : "five");
        for (int i = 0; i < QUESTIONS; i++) {
            const struct query *question = &questions[i];
            bool allowed = (scopes & (question->scopes | A)) != 0;
            limit(office, scopes, NULL);
            put_question(office, question, &jobs);
            if ((office->code != ERR_FORBIDDEN) != allowed)
                fail_msg("%.*s with the scope %.*s: %s", STR_ARG(verb_text(question->verb)),
                         STR_ARG(access_scope_name((enum access_scope)scopes)),
                         office->code == ERR_OK ? "allowed" : office->err.detail);
        }
    }
}

static void a_verb_takes_its_scopes_and_no_other(void **state)
{
    (void)state;
    at_every_office(ask_with_every_scope);
}

/* A caller over HTTP knows no other name of a verb. */
static void a_refusal_names_the_route_and_the_scopes(void **state)
{
    static const char *const routes[VERB_COUNT] = {
#define VERB(name, method, path, ...)                                                              \
    [VERB_##name] = #method " " path " requires a token with the scope ",
#include "engine/verbs.def"
#undef VERB
    };
    (void)state;
    for (int verb = 0; verb < VERB_COUNT; verb++)
        for (uint32_t scopes = 1; scopes <= N; scopes <<= 1) {
            struct err err = {0};
            if (access_check_scopes(scopes, (enum verb_name)verb, &err) == ERR_FORBIDDEN)
                assert_memory_equal(err.detail, routes[verb], strlen(routes[verb]));
        }
    struct err err = {0};
    (void)access_check_scopes(R, VERB_claim_steps, &err);
    assert_string_equal(err.detail, "POST /v1/steps/claims requires a token with the scope work");
}

static void look_for_secrets(struct office *office)
{
    static const uint32_t without_read[] = {S, W, S | W};
    for (size_t k = 0; k < sizeof without_read / sizeof without_read[0]; k++) {
        limit(office, 0, NULL);
        struct jobs jobs = fill(office, k == 0 ? "one" : k == 1 ? "two" : "three");
        for (int i = 0; i < QUESTIONS; i++) {
            limit(office, without_read[k], NULL);
            put_question(office, &questions[i], &jobs);
            if (strstr(office->answer, "secret") != NULL ||
                strstr(office->err.detail, "secret") != NULL)
                fail_msg("%.*s: %s%s", STR_ARG(verb_text(questions[i].verb)), office->answer,
                         office->err.detail);
        }
        limit(office, S, NULL);
        well(office, VERB_get, "{'id':'%s'}", jobs.queued);
        assert_string_equal(said(office, "id"), jobs.queued);
        assert_string_not_equal(said(office, "version"), "");
        assert_string_equal(said(office, "kind"), "");
        limit(office, R, NULL);
        well(office, VERB_get, "{'id':'%s'}", jobs.queued);
        assert_non_null(strstr(office->answer, "secret"));
    }
    limit(office, S, NULL);
    well(office, VERB_submit, "{'kind':'k','queue':'q','idempotency_key':'i'" SECRETS "}");
    assert_null(strstr(office->answer, "secret"));
    well(office, VERB_submit, "{'kind':'k','queue':'q','idempotency_key':'i'" SECRETS "}");
    assert_string_equal(said(office, "duplicate"), "true");
    assert_null(strstr(office->answer, "secret"));
}

static void a_response_shows_no_more_than_the_scopes_may_read(void **state)
{
    (void)state;
    at_every_office(look_for_secrets);
}

static const char *asking(struct office *office, const char *type)
{
    limit(office, 0, NULL);
    const char *id = submitted(office, "q", "");
    well(office, VERB_claim, "{'worker_id':'w','queues':['q']}");
    well(office, VERB_wait, "{'token':'%s','type':'%s','correlation_key':'c'}",
         said(office, "claims.0.lease.token"), type);
    return id;
}

static void answer_with_every_scope(struct office *office)
{
    static const uint32_t without[] = {S, S | W, S | R, S | W | R};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        const char *id = asking(office, "human");
        limit(office, without[i], NULL);
        ask(office, VERB_signal, "{'id':'%s','correlation_key':'c','payload':true}", id);
        assert_int_equal(office->code, ERR_FORBIDDEN);
        assert_non_null(strstr(office->err.detail, "scope answer"));
        limit(office, 0, NULL);
        well(office, VERB_get, "{'id':'%s'}", id);
        assert_string_equal(said(office, "status"), "waiting");
        limit(office, N, NULL);
        well(office, VERB_signal, "{'id':'%s','correlation_key':'c','payload':true}", id);
        assert_string_equal(said(office, "signal"), "delivered");
        id = asking(office, "signal");
        limit(office, without[i], NULL);
        well(office, VERB_signal, "{'id':'%s','correlation_key':'c'}", id);
        /* Nor in advance. */
        limit(office, 0, NULL);
        id = submitted(office, "q", "");
        limit(office, without[i], NULL);
        well(office, VERB_signal, "{'id':'%s','correlation_key':'c','payload':true}", id);
        assert_string_equal(said(office, "signal"), "stored");
        limit(office, 0, NULL);
        well(office, VERB_claim, "{'worker_id':'w','queues':['q']}");
        well(office, VERB_wait, "{'token':'%s','type':'human','correlation_key':'c'}",
             said(office, "claims.0.lease.token"));
        assert_string_equal(said(office, "status"), "waiting");
        well(office, VERB_verify, "{'id':'%s'}", id);
        assert_string_equal(said(office, "ok"), "true");
        well(office, VERB_cancel, "{'id':'%s','mode':'hard'}", id);
    }
}

static void a_question_to_a_person_takes_the_scope_answer(void **state)
{
    (void)state;
    at_every_office(answer_with_every_scope);
}

/* Version and status of all jobs, to see that nothing has happened. */
static const char *everything(struct office *office)
{
    limit(office, 0, NULL);
    well(office, VERB_list, "{'include':'payload,result'}");
    return office->answer;
}

static void ask_about_both_queues(struct office *office)
{
    struct jobs foreign = fill(office, "foreign");
    struct jobs own = fill(office, "own");
    const char *before = everything(office);
    for (int i = 0; i < QUESTIONS; i++) {
        const struct query *question = &questions[i];
        limit(office, 0, &own_queues);
        put_question(office, question, &foreign);
        bool allowed = question->queues == FOR_ALL;
        bool refused = names_job(question) || question->what == 'n'
                           ? office->code == ERR_NOT_FOUND || office->code == ERR_STALE_LEASE
                           : office->code == ERR_FORBIDDEN;
        if (refused == allowed)
            fail_msg("%.*s in another queue: %s", STR_ARG(verb_text(question->verb)),
                     office->code == ERR_OK ? "allowed" : office->err.detail);
        assert_null(strstr(office->err.detail, "\"own\""));
    }
    assert_string_equal(everything(office), before);
    for (int i = 0; i < QUESTIONS; i++) {
        const struct query *question = &questions[i];
        limit(office, 0, &own_queues);
        put_question(office, question, &own);
        if ((office->code == ERR_FORBIDDEN) != (question->queues == NEVER_LIMITED))
            fail_msg("%.*s in its own queue: %s", STR_ARG(verb_text(question->verb)),
                     office->code == ERR_OK ? "allowed" : office->err.detail);
    }
}

static void a_verb_does_not_reach_jobs_of_other_queues(void **state)
{
    (void)state;
    at_every_office(ask_about_both_queues);
}

/* The text without the id or token that stands in it. */
static const char *without(struct office *office, const char *text, const char *name)
{
    const char *at = strstr(text, name);
    struct buf buf;
    buf_init(&buf, &office->arena, 256);
    if (at == NULL)
        return text;
    buf_add(&buf, (struct str){text, (size_t)(at - text)});
    buf_add(&buf, str_from(at + strlen(name)));
    buf_add_char(&buf, '\0');
    return buf.at;
}

static const char *refusal_of(struct office *office, const struct query *question,
                              const struct jobs *jobs)
{
    const char *token_job = jobs->running;
    put_question(office, question, jobs);
    const char *detail = without(office, office->err.detail, meant(question, jobs));
    return without(office, detail, token_job);
}

static void ask_about_unknown_ids(struct office *office)
{
    struct jobs foreign = fill(office, "foreign");
    const struct jobs unknown = {.queue = "foreign",
                                 .queued = unknown_id,
                                 .dead = unknown_id,
                                 .running = unknown_id,
                                 .plan = unknown_id,
                                 .token = unknown_token};
    for (int i = 0; i < QUESTIONS; i++) {
        if (!names_job(&questions[i]))
            continue;
        limit(office, 0, &own_queues);
        const char *foreign_detail = refusal_of(office, &questions[i], &foreign);
        enum error_code foreign_code = office->code;
        const char *unknown_detail = refusal_of(office, &questions[i], &unknown);
        if (office->code != foreign_code || strcmp(foreign_detail, unknown_detail) != 0)
            fail_msg("%.*s: \"%s\" and \"%s\"", STR_ARG(verb_text(questions[i].verb)),
                     foreign_detail, unknown_detail);
    }
}

static void an_id_of_another_queue_is_answered_as_an_unknown_one(void **state)
{
    (void)state;
    at_every_office(ask_about_unknown_ids);
}

/* ---- workers ------------------------------------------------------------------------------ */

static void meet_workers(struct office *office)
{
    well(office, VERB_worker_put, "{'id':'all'}");
    well(office, VERB_worker_put, "{'id':'both','queues':['own','foreign'],'ttl_ms':1000}");
    well(office, VERB_worker_put, "{'id':'theirs','queues':['foreign']}");
    well(office, VERB_worker_put, "{'id':'ours','queues':['own'],'code_version':'v1'}");
    well(office, VERB_submit, "{'kind':'k','queue':'foreign'}");
    well(office, VERB_submit, "{'kind':'k','queue':'own'}");
    well(office, VERB_claim, "{'worker_id':'ours','max':2}");
    limit(office, W | R, &own_queues);
    well(office, VERB_workers, "{}");
    assert_string_equal(said(office, "workers.0.worker_id"), "ours");
    assert_string_equal(said(office, "workers.0.leases"), "1"); /* not the one of another queue */
    assert_string_equal(said(office, "workers.0.code_version"), "v1");
    assert_string_equal(said(office, "workers.1"), "");
    static const char *const others[] = {"all", "both", "theirs"};
    for (int i = 0; i < 3; i++) {
        ask(office, VERB_worker_delete, "{'id':'%s'}", others[i]);
        assert_int_equal(office->code, ERR_NOT_FOUND);
        ask(office, VERB_worker_put, "{'id':'%s'}", others[i]);
        assert_int_equal(office->code, ERR_FORBIDDEN);
        assert_null(strstr(office->err.detail, "foreign"));
    }
    ask(office, VERB_worker_put, "{'id':'new','queues':['own','foreign']}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    /* Without queues it is for those of the token. */
    well(office, VERB_worker_put, "{'id':'new'}");
    assert_string_equal(said(office, "queues"), "[\"own\"]");
    well(office, VERB_worker_put, "{'id':'ours','slots':2}");
    well(office, VERB_worker_delete, "{'id':'ours'}");
    limit(office, 0, NULL);
    well(office, VERB_workers, "{}");
    assert_string_equal(said(office, "workers.0.worker_id"), "all");
    assert_string_equal(said(office, "workers.0.queues"), "[]");
    assert_string_equal(said(office, "workers.1.worker_id"), "both");
    assert_string_equal(said(office, "workers.2.worker_id"), "new");
    assert_string_equal(said(office, "workers.3.worker_id"), "ours");
    assert_string_equal(said(office, "workers.3.registered"), "false"); /* it has leases */
    assert_string_equal(said(office, "workers.3.leases"), "2");
    assert_string_equal(said(office, "workers.4.worker_id"), "theirs");
}

static void a_token_sees_and_changes_workers_of_its_own_queues_alone(void **state)
{
    (void)state;
    at_every_office(meet_workers);
}

static void claim_as_another(struct office *office)
{
    well(office, VERB_worker_put, "{'id':'theirs','queues':['foreign'],'ttl_ms':60000}");
    const char *until = said(office, "registered_until");
    limit(office, W | R | S, &own_queues);
    well(office, VERB_claim, "{'worker_id':'theirs','wait_ms':0}");
    /* A wait is as good as time that has passed. */
    well(office, VERB_submit, "{'kind':'k','queue':'own'}");
    well(office, VERB_claim, "{'worker_id':'theirs','wait_ms':55000}");
    assert_string_not_equal(said(office, "claims.0.lease.token"), "");
    limit(office, 0, NULL);
    well(office, VERB_workers, "{}");
    assert_string_equal(said(office, "workers.0.registered_until"), until);
    well(office, VERB_submit, "{'kind':'k','queue':'foreign'}");
    well(office, VERB_claim, "{'worker_id':'theirs','queues':['foreign'],'wait_ms':55000}");
    well(office, VERB_workers, "{}");
    assert_string_not_equal(said(office, "workers.0.registered_until"), until);
}

static void claims_of_another_token_under_its_name_do_not_renew_a_worker(void **state)
{
    (void)state;
    at_every_office(claim_as_another);
}

/* ---- what is shown and taken -------------------------------------------------------------- */

static void rest(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void look_around(struct office *office)
{
    static const enum verb_name verbs[] = {VERB_list,  VERB_dead_letters, VERB_queues,
                                           VERB_stats, VERB_feed,         VERB_inbox};
    fill(office, "foreign");
    well(office, VERB_submit, "{'kind':'k','queue':'foreign'}");
    well(office, VERB_claim, "{'worker_id':'w','queues':['foreign']}");
    well(office, VERB_wait,
         "{'token':'%s','type':'human','correlation_key':'c','prompt':'foreign?'}",
         said(office, "claims.0.lease.token"));
    well(office, VERB_pause, "{'queue':'foreign'}");
    limit(office, 0, &own_queues);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        well(office, verbs[i], "{}");
        if (strstr(office->answer, "foreign") != NULL || strstr(office->answer, "job_") != NULL)
            fail_msg("%.*s: %s", STR_ARG(verb_text(verbs[i])), office->answer);
    }
    well(office, VERB_stats, "{}");
    assert_string_equal(said(office, "jobs.queued"), "0");
    assert_string_equal(said(office, "jobs.waiting"), "0");
    assert_string_equal(said(office, "leases"), "");
    limit(office, 0, NULL);
    const char *id = submitted(office, "own", "");
    limit(office, 0, &own_queues);
    well(office, VERB_list, "{}");
    assert_string_equal(said(office, "jobs.0.id"), id);
    assert_string_equal(said(office, "jobs.1"), "");
    /* PostgreSQL holds the feed back while any older transaction of the server is open. */
    for (int i = 0; i < 1000; i++) {
        well(office, VERB_feed, "{'limit':1}");
        if (strcmp(said(office, "events.0.job_id"), "") != 0)
            break;
        rest();
    }
    assert_string_equal(said(office, "events.0.job_id"), id);
    well(office, VERB_queues, "{}");
    assert_string_equal(said(office, "queues.0.queue"), "own");
    assert_string_equal(said(office, "queues.1"), "");
}

static void nothing_of_other_queues_is_shown(void **state)
{
    (void)state;
    at_every_office(look_around);
}

static void claim_all(struct office *office)
{
    limit(office, 0, NULL);
    submitted(office, "foreign", "");
    const char *id = submitted(office, "own", "");
    limit(office, W, &own_queues);
    well(office, VERB_claim, "{'worker_id':'w','max':10}");
    assert_string_equal(said(office, "claims.0.job.id"), id);
    assert_string_equal(said(office, "claims.1"), "");
    ask(office, VERB_claim, "{'worker_id':'w','queues':['own','foreign']}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    well(office, VERB_claim, "{'worker_id':'w','wait_ms':50}");
    assert_string_equal(said(office, "claims.0"), "");
}

static void a_claim_takes_all_that_it_may_and_no_more(void **state)
{
    (void)state;
    at_every_office(claim_all);
}

/* A claim that waits, on a thread of its own. */
struct waiter {
    struct office *office;
    struct arena arena;
    struct buf answer;
    const struct names *queues;
    enum error_code code;
};

static void *wait_for_work(void *arg)
{
    struct waiter *waiter = arg;
    struct err err = {0};
    struct verb_call call = {
        .engine = waiter->office->engine,
        .arena = &waiter->arena,
        .name = VERB_claim,
        .request = STR("{\"worker_id\":\"w\",\"wait_ms\":20000}"),
        .queues = waiter->queues,
    };
    waiter->code = verb_respond(&call, &waiter->answer, &err);
    return NULL;
}

/* The limited one waits first, so that a wake which is lost on it would be seen. */
static void wait_side_by_side(struct office *office)
{
    struct waiter waiters[] = {{.office = office, .queues = &own_queues}, {.office = office}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        struct timespec nap = {.tv_nsec = 100 * 1000 * 1000};
        arena_init(&waiters[i].arena);
        buf_init(&waiters[i].answer, &waiters[i].arena, 1024);
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_work, &waiters[i]), 0);
        (void)nanosleep(&nap, NULL);
    }
    const char *foreign = submitted(office, "foreign", "");
    assert_int_equal(pthread_join(threads[1], NULL), 0);
    assert_int_equal(waiters[1].code, ERR_OK);
    buf_add_char(&waiters[1].answer, '\0');
    assert_non_null(strstr(waiters[1].answer.at, foreign));
    const char *own = submitted(office, "own", "");
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    buf_add_char(&waiters[0].answer, '\0');
    assert_non_null(strstr(waiters[0].answer.at, own));
    for (int i = 0; i < 2; i++)
        arena_release(&waiters[i].arena);
}

static void a_limited_claim_that_waits_is_woken_by_its_own_work(void **state)
{
    (void)state;
    at_every_office(wait_side_by_side);
}

static void read_a_long_feed(struct office *office)
{
    struct buf request;
    buf_init(&request, &office->arena, 8192);
    buf_add(&request, STR("{\"jobs\":["));
    for (int i = 0; i < 60; i++)
        buf_addf(&request, "%s{\"kind\":\"k\",\"queue\":\"foreign\"}", i == 0 ? "" : ",");
    buf_add(&request, STR("]}"));
    buf_add_char(&request, '\0');
    ask(office, VERB_submit, "%s", request.at);
    went_well(office);
    const char *id = submitted(office, "own", "");
    limit(office, R, &own_queues);
    const char *after = "0-0";
    bool seen = false;
    int calls = 0;
    while (!seen && ++calls < 1000) {
        well(office, VERB_feed, "{'limit':2,'after':'%s'}", after);
        seen = strcmp(said(office, "events.0.job_id"), id) == 0;
        assert_true(seen || strcmp(said(office, "events.0"), "") == 0);
        after = said(office, "next");
        if (!seen)
            rest();
    }
    assert_true(seen);
    assert_true(calls > 1);
}

static void a_limited_feed_goes_on_behind_what_it_does_not_show(void **state)
{
    (void)state;
    at_every_office(read_a_long_feed);
}

static void submit_many(struct office *office)
{
    limit(office, S, &own_queues);
    ask(office, VERB_submit, "{'jobs':[{'kind':'k','queue':'own'},{'kind':'k'}]}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    assert_non_null(strstr(office->err.detail, "jobs[1]"));
    limit(office, R, &own_queues);
    well(office, VERB_list, "{}");
    assert_string_equal(said(office, "jobs.0"), "");
}

static void one_job_for_another_queue_makes_none_of_many(void **state)
{
    (void)state;
    at_every_office(submit_many);
}

static void run_batch(struct office *office)
{
    struct jobs foreign = fill(office, "foreign");
    struct jobs own = fill(office, "own");
    limit(office, W, &own_queues);
    well(office, VERB_batch,
         "{'ops':[{'op':'submit','kind':'k','queue':'own'},{'op':'heartbeat','token':'%s'},"
         "{'op':'heartbeat','token':'%s'},{'op':'requeue','id':'%s'},"
         "{'op':'token_create','name':'x','scopes':['admin']}]}",
         foreign.token, own.token, own.dead);
    assert_string_equal(said(office, "results.0.status"), "403");
    assert_string_equal(said(office, "results.1.status"), "409");
    assert_string_equal(said(office, "results.2.status"), "200");
    assert_string_equal(said(office, "results.3.status"), "403");
    assert_string_equal(said(office, "results.4.status"), "403");
    limit(office, A, &own_queues);
    well(office, VERB_batch, "{'ops':[{'op':'token_create','name':'x','scopes':['admin']}]}");
    assert_string_equal(said(office, "results.0.status"), "403");
}

static void entries_of_a_batch_are_checked_one_by_one(void **state)
{
    (void)state;
    at_every_office(run_batch);
}

static void do_in_bulk(struct office *office)
{
    struct jobs foreign = fill(office, "foreign");
    struct jobs own = fill(office, "own");
    limit(office, A, &own_queues);
    well(office, VERB_bulk, "{'action':'cancel','filter':{'status':'queued'}}");
    assert_string_equal(said(office, "done"), "1");
    well(office, VERB_redrive, "{}");
    assert_string_equal(said(office, "done"), "1");
    limit(office, 0, NULL);
    well(office, VERB_get, "{'id':'%s'}", foreign.queued);
    assert_string_equal(said(office, "status"), "queued");
    well(office, VERB_get, "{'id':'%s'}", foreign.dead);
    assert_string_equal(said(office, "status"), "dead_lettered");
    well(office, VERB_get, "{'id':'%s'}", own.queued);
    limit(office, A, &own_queues);
    well(office, VERB_drop, "{}");
    assert_string_equal(said(office, "matched"), "0");
}

static void many_jobs_at_once_are_those_of_the_queue(void **state)
{
    (void)state;
    at_every_office(do_in_bulk);
}

static void lend_a_token(struct office *office)
{
    struct jobs own = fill(office, "own");
    limit(office, W, &own_queues);
    well(office, VERB_heartbeat, "{'token':'%s'}", own.step_token);
    well(office, VERB_verdict, "{'id':'%s','step':'a','decision':'accept','token':'%s'}", own.plan,
         own.step_token);
    limit(office, 0, NULL);
    well(office, VERB_get, "{'id':'%s'}", own.running);
    const char *version = said(office, "version");
    limit(office, W, &own_queues);
    well(office, VERB_append,
         "{'id':'%s','expected_version':%s,'token':'%s','events':[{'type':'my.note'}]}",
         own.running, version, own.token);
}

static void the_holder_of_a_lease_may_append_and_judge(void **state)
{
    (void)state;
    at_every_office(lend_a_token);
}

static void move_jobs(struct office *office)
{
    struct jobs foreign = fill(office, "foreign");
    limit(office, 0, NULL);
    well(office, VERB_cancel, "{'id':'%s','mode':'hard'}", foreign.queued);
    well(office, VERB_export, "{'id':'%s'}", foreign.queued);
    const char *bundle = office->answer;
    struct buf request;
    buf_init(&request, &office->arena, 4096);
    buf_add(&request, STR("{\"jobs\":["));
    buf_add(&request, str_from(bundle));
    buf_add(&request, STR("]}"));
    struct verb_call call = {
        .engine = office->engine,
        .arena = &office->arena,
        .name = VERB_import,
        .request = buf_str(&request),
        .actor = STR("ann"),
        .queues = &own_queues,
    };
    struct buf answer;
    buf_init(&answer, &office->arena, 256);
    assert_int_equal(verb_respond(&call, &answer, &office->err), ERR_FORBIDDEN);
}

static void a_job_of_another_queue_is_not_imported(void **state)
{
    (void)state;
    at_every_office(move_jobs);
}

/* ---- tokens ------------------------------------------------------------------------------- */

static struct store_tokens found(struct office *office, const char *text)
{
    uint8_t hash[HASH_LEN];
    struct store_tokens wanted = {.hash = hash};
    struct store_txn *txn;
    access_hash(str_from(text), hash);
    assert_int_equal(store_begin(engine_store(office->engine), STORE_READ, &txn, NULL), ERR_OK);
    assert_int_equal(store_tokens(txn, &wanted, &office->arena, NULL), ERR_OK);
    store_rollback(txn);
    wanted.hash = NULL;
    return wanted;
}

static void make_and_revoke(struct office *office)
{
    well(office, VERB_token_create,
         "{'name':'ci','scopes':['work','read'],'queues':['b','a'],'ttl_ms':60000}");
    const char *token = said(office, "token");
    const char *id = said(office, "id");
    assert_true(access_text_is_valid(str_from(token)));
    assert_string_equal(said(office, "scopes"), "[\"read\",\"work\"]");
    assert_string_equal(said(office, "queues"), "[\"a\",\"b\"]");
    struct store_tokens kept = found(office, token);
    assert_int_equal(kept.count, 1);
    assert_int_equal(kept.at[0].scopes, R | W);
    assert_true(kept.at[0].expires_at == kept.at[0].created_at + 60000);
    assert_true(access_is_live(&kept.at[0], kept.now));
    assert_false(access_is_live(&kept.at[0], kept.at[0].expires_at));
    well(office, VERB_token_list, "{}");
    assert_null(strstr(office->answer, token));
    assert_string_equal(said(office, "tokens.0.id"), id);
    assert_string_equal(said(office, "tokens.0.name"), "ci");
    assert_string_equal(said(office, "tokens.0.revoked_at"), "");
    well(office, VERB_token_revoke, "{'id':'%s'}", id);
    assert_string_equal(said(office, "name"), "ci");
    const char *when = said(office, "revoked_at");
    assert_true(strlen(when) > 0);
    well(office, VERB_token_revoke, "{'id':'%s'}", id);
    assert_string_equal(said(office, "revoked_at"), when);
    kept = found(office, token);
    assert_int_equal(kept.count, 1);
    assert_false(access_is_live(&kept.at[0], kept.now));
}

static void a_token_is_made_listed_and_revoked(void **state)
{
    (void)state;
    at_every_office(make_and_revoke);
}

/* Tokens as the store has them, but for those that were made by a verb. */
static void put_tokens(struct office *office, struct access_token *tokens, uint32_t count)
{
    struct store_txn *txn;
    struct store_load load = {0};
    enum store_outcome outcome;
    struct store_write write = {.tokens = tokens, .token_count = count};
    assert_int_equal(store_begin(engine_store(office->engine), STORE_WRITE, &txn, NULL), ERR_OK);
    assert_int_equal(store_load(txn, &load, &office->arena, NULL), ERR_OK);
    assert_int_equal(store_write(txn, &write, NULL), ERR_OK);
    assert_int_equal(store_commit(txn, &outcome, NULL), ERR_OK);
}

static void make_too_many(struct office *office)
{
    enum { COUNT = ACCESS_LIVE_MAX + 1 };
    static struct access_token tokens[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        tokens[i] = (struct access_token){.name = STR("n"), .scopes = R, .created_at = 1000};
        memcpy(tokens[i].id.bytes, &i, sizeof i);
        memcpy(tokens[i].hash, &i, sizeof i);
    }
    tokens[0].expires_at = 2000; /* long ago */
    put_tokens(office, tokens, COUNT);
    ask(office, VERB_token_create, "{'name':'n','scopes':['read']}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    assert_non_null(strstr(office->err.detail, "1000 tokens"));
    char id[UUID_TEXT_LEN + 1] = "";
    uuid_format(tokens[1].id, id);
    well(office, VERB_token_revoke, "{'id':'%s'}", id);
    well(office, VERB_token_create, "{'name':'last','scopes':['read']}");
    assert_int_equal(found(office, said(office, "token")).count, 1);
    ask(office, VERB_token_create, "{'name':'n','scopes':['read']}");
    assert_int_equal(office->code, ERR_FORBIDDEN);
    /* The one that was revoked can still be looked up, the old one not. */
    well(office, VERB_token_list, "{}");
    assert_non_null(strstr(office->answer, id));
    uuid_format(tokens[0].id, id);
    assert_null(strstr(office->answer, id));
}

static void there_is_a_bound_on_tokens_and_old_ones_are_cleared_away(void **state)
{
    (void)state;
    at_every_office(make_too_many);
}

static void make_wrong_ones(struct office *office)
{
    static const struct {
        enum verb_name verb;
        const char *request;
        enum error_code code;
        const char *words;
    } wrong[] = {
        {VERB_token_create, "{'scopes':['read']}", ERR_BAD_REQUEST, "name"},
        {VERB_token_create, "{'name':'PAWL_TOKEN','scopes':['read']}", ERR_BAD_REQUEST, "reserved"},
        {VERB_claim, "{'worker_id':'token:ci'}", ERR_BAD_REQUEST, "token:"},
        {VERB_token_create, "{'name':'n'}", ERR_BAD_REQUEST, "scopes"},
        {VERB_token_create, "{'name':'n','scopes':[]}", ERR_BAD_REQUEST, "scopes"},
        {VERB_token_create, "{'name':'n','scopes':['root']}", ERR_BAD_REQUEST, "root"},
        {VERB_token_create, "{'name':'n','scopes':['read'],'queues':[]}", ERR_BAD_REQUEST, "empty"},
        {VERB_token_create, "{'name':'n','scopes':['read'],'ttl_ms':1}", ERR_BAD_REQUEST, "ttl_ms"},
        {VERB_token_create, "{'name':'n','scopes':['read'],'hash':'x'}", ERR_UNKNOWN_FIELD, "hash"},
        {VERB_token_revoke, "{}", ERR_BAD_REQUEST, "id"},
        {VERB_token_revoke, "{'id':'x'}", ERR_BAD_REQUEST, "\"x\""},
        {VERB_token_revoke, "{'id':'01900000-0000-7000-8000-000000000000'}", ERR_NOT_FOUND, "no"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ask(office, wrong[i].verb, "%s", wrong[i].request);
        assert_int_equal(office->code, wrong[i].code);
        assert_non_null(strstr(office->err.detail, wrong[i].words));
    }
    well(office, VERB_token_list, "{}");
    assert_string_equal(said(office, "tokens"), "[]");
}

static void wrong_requests_for_tokens_are_refused(void **state)
{
    (void)state;
    at_every_office(make_wrong_ones);
}

static void make_one_twice(struct office *office)
{
    office->key = "once";
    well(office, VERB_token_create, "{'name':'ci','scopes':['read']}");
    const char *id = said(office, "id");
    const char *token = said(office, "token");
    assert_true(strlen(token) == ACCESS_TEXT_LEN);
    well(office, VERB_token_create, "{'name':'ci','scopes':['read']}");
    assert_string_equal(said(office, "id"), id);
    assert_string_equal(said(office, "token"), "");
    office->key = NULL;
    well(office, VERB_token_list, "{}");
    assert_string_equal(said(office, "tokens.1"), "");
}

static void a_repeated_request_makes_no_second_token_and_does_not_show_the_first(void **state)
{
    (void)state;
    at_every_office(make_one_twice);
}

static void explain_one(struct office *office)
{
    static const struct {
        uint32_t scopes;
        const char *actions;
    } cases[] = {
        {R, "[]"},
        {R | S, "[\"signal\",\"plan\",\"cancel\"]"},
        {R | N, "[\"signal\"]"},
        {R | A, "[\"signal\",\"plan\",\"cancel\",\"dead_letter\"]"},
        {0, "[\"signal\",\"plan\",\"cancel\",\"dead_letter\"]"},
    };
    well(office, VERB_submit, "{'kind':'mail'}");
    const char *id = said(office, "id");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        office->scopes = cases[i].scopes;
        well(office, VERB_explain, "{'id':'%s'}", id);
        assert_string_equal(said(office, "actions"), cases[i].actions);
    }
}

static void explain_names_the_actions_that_the_token_may_take(void **state)
{
    (void)state;
    at_every_office(explain_one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verb_takes_its_scopes_and_no_other),
        cmocka_unit_test(a_refusal_names_the_route_and_the_scopes),
        cmocka_unit_test(a_question_to_a_person_takes_the_scope_answer),
        cmocka_unit_test(explain_names_the_actions_that_the_token_may_take),
        cmocka_unit_test(a_response_shows_no_more_than_the_scopes_may_read),
        cmocka_unit_test(a_verb_does_not_reach_jobs_of_other_queues),
        cmocka_unit_test(an_id_of_another_queue_is_answered_as_an_unknown_one),
        cmocka_unit_test(a_token_sees_and_changes_workers_of_its_own_queues_alone),
        cmocka_unit_test(claims_of_another_token_under_its_name_do_not_renew_a_worker),
        cmocka_unit_test(nothing_of_other_queues_is_shown),
        cmocka_unit_test(a_claim_takes_all_that_it_may_and_no_more),
        cmocka_unit_test(a_limited_claim_that_waits_is_woken_by_its_own_work),
        cmocka_unit_test(a_limited_feed_goes_on_behind_what_it_does_not_show),
        cmocka_unit_test(one_job_for_another_queue_makes_none_of_many),
        cmocka_unit_test(entries_of_a_batch_are_checked_one_by_one),
        cmocka_unit_test(many_jobs_at_once_are_those_of_the_queue),
        cmocka_unit_test(the_holder_of_a_lease_may_append_and_judge),
        cmocka_unit_test(a_job_of_another_queue_is_not_imported),
        cmocka_unit_test(a_token_is_made_listed_and_revoked),
        cmocka_unit_test(there_is_a_bound_on_tokens_and_old_ones_are_cleared_away),
        cmocka_unit_test(wrong_requests_for_tokens_are_refused),
        cmocka_unit_test(a_repeated_request_makes_no_second_token_and_does_not_show_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
