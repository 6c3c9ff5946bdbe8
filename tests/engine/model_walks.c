/* Replays walks of the model (model/job.pml) on every store: each call that the model's server was
 * given is made, must be answered as there, and must leave the job as there: the same status, the
 * same attempt, as many failures. And every history holds.
 *
 * usage: engine_model_walks < WALKS      (tests/model/test_walks.sh makes them)
 *
 * A line is a call: its name, the attempt whose token it shows, the answer (ok, stale, or ended:
 * the job takes no signal any more), and then the job's status, attempt and failures. "walk" begins
 * the next walk, with a job of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/desk.h"

enum { CALLS_MAX = 200 * 1000, WORD_MAX = 16, ATTEMPTS_MAX = 16, LEASE_MS = 2000 };

struct call_line {
    char call[WORD_MAX];
    char answer[WORD_MAX];
    char status[WORD_MAX];
    int token;
    int attempt;
    int failures;
};

static struct {
    struct call_line *at;
    int count;
    int walks;
} lines;

/* One walk under way. */
struct walk {
    struct desk *desk;
    int number;
    const char *id;
    const char *tokens[ATTEMPTS_MAX]; /* by attempt */
};

static void read_lines(void)
{
    char line[256];
    lines.at = calloc(CALLS_MAX, sizeof *lines.at);
    assert_non_null(lines.at);
    while (lines.count < CALLS_MAX && fgets(line, sizeof line, stdin) != NULL) {
        struct call_line *call = &lines.at[lines.count++];
        char token[WORD_MAX];
        char attempt[WORD_MAX];
        char failures[WORD_MAX];
        int found = sscanf(line, "%15s %15s %15s %15s %15s %15s", call->call, token, call->answer,
                           call->status, attempt, failures);
        bool begins = strcmp(call->call, "walk") == 0;
        lines.walks += begins;
        if (begins)
            continue;
        if (found != 6)
            fail_msg("this is no call: %s", line);
        call->token = (int)strtol(token, NULL, 10);
        call->attempt = (int)strtol(attempt, NULL, 10);
        call->failures = (int)strtol(failures, NULL, 10);
    }
}

static void begin(struct walk *walk)
{
    struct desk *desk = walk->desk;
    *walk = (struct walk){.desk = desk, .number = walk->number + 1};
}

static void submit(struct walk *walk)
{
    well(
        walk->desk, VERB_submit,
        "{\"kind\":\"k\",\"queue\":\"walk-%d\",\"idempotency_key\":\"walk-%d\",\"lease_ttl_ms\":%d,"
        "\"retry\":{\"max_attempts\":3,\"initial_ms\":1,\"max_ms\":1,\"jitter\":\"none\"}}",
        walk->number, walk->number, LEASE_MS);
    const char *id = said(walk->desk, "id");
    if (walk->id != NULL)
        assert_string_equal(id, walk->id);
    walk->id = id;
}

static void claim(struct walk *walk, int attempt)
{
    let_time_pass(walk->desk, 10); /* a pause before the next attempt is over */
    well(walk->desk, VERB_claim, "{\"worker_id\":\"w\",\"queues\":[\"walk-%d\"]}", walk->number);
    says(walk->desk, "claims.0.job.id", walk->id);
    assert_true(attempt > 0 && attempt < ATTEMPTS_MAX);
    walk->tokens[attempt] = said(walk->desk, "claims.0.lease.token");
}

static enum error_code show(struct walk *walk, enum verb_name verb, int attempt, const char *rest)
{
    char request[512];
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\"%s}", walk->tokens[attempt], rest);
    ask(walk->desk, verb, request);
    return walk->desk->code;
}

static enum error_code replay(struct walk *walk, const struct call_line *line)
{
    if (strcmp(line->call, "submit") == 0)
        submit(walk);
    else if (strcmp(line->call, "claim") == 0)
        claim(walk, line->token);
    else if (strcmp(line->call, "expire") == 0)
        let_time_pass(walk->desk, LEASE_MS + 1);
    else if (strcmp(line->call, "complete") == 0)
        return show(walk, VERB_complete, line->token, "");
    else if (strcmp(line->call, "fail") == 0)
        return show(walk, VERB_fail, line->token, ",\"error\":{\"message\":\"no\"}");
    else if (strcmp(line->call, "wait") == 0)
        return show(walk, VERB_wait, line->token,
                    ",\"type\":\"signal\",\"correlation_key\":\"key\"");
    else if (strcmp(line->call, "signal") == 0) {
        char request[256];
        (void)snprintf(request, sizeof request,
                       "{\"id\":\"%s\",\"correlation_key\":\"key\",\"signal_id\":\"one\"}",
                       walk->id);
        ask(walk->desk, VERB_signal, request);
        return walk->desk->code;
    } else
        fail_msg("the model has a call that is not known here: %s", line->call);
    return ERR_OK;
}

static enum error_code code_of(const char *answer)
{
    if (strcmp(answer, "stale") == 0)
        return ERR_STALE_LEASE;
    return strcmp(answer, "ended") == 0 ? ERR_INVALID_TRANSITION : ERR_OK;
}

static void check(struct walk *walk, const struct call_line *line, enum error_code code)
{
    char number[16];
    if (code != code_of(line->answer))
        fail_msg("walk %d: %s %d was answered with %s", walk->number, line->call, line->token,
                 walk->desk->err.detail);
    well(walk->desk, VERB_get, "{\"id\":\"%s\"}", walk->id);
    if (strcmp(said(walk->desk, "status"), line->status) != 0)
        fail_msg("walk %d: after %s %d the job is %s, in the model %s", walk->number, line->call,
                 line->token, said(walk->desk, "status"), line->status);
    (void)snprintf(number, sizeof number, "%d", line->attempt);
    says(walk->desk, "attempt", number);
    (void)snprintf(number, sizeof number, "%d", line->failures);
    says(walk->desk, "failures", number);
}

static void end(struct walk *walk)
{
    if (walk->id == NULL)
        return;
    well(walk->desk, VERB_verify, "{\"id\":\"%s\"}", walk->id);
    says(walk->desk, "ok", "true");
}

static void replay_all(struct desk *desk)
{
    struct walk walk = {.desk = desk};
    for (int i = 0; i < lines.count; i++) {
        const struct call_line *line = &lines.at[i];
        if (strcmp(line->call, "walk") == 0) {
            end(&walk);
            begin(&walk);
            continue;
        }
        check(&walk, line, replay(&walk, line));
    }
    end(&walk);
}

static void walks_of_the_model_are_walks_of_every_store(void **state)
{
    (void)state;
    read_lines();
    assert_true(lines.walks > 0);
    at_every_desk(replay_all);
    print_message("%d walks, %d calls, on each store as in the model\n", lines.walks,
                  lines.count - lines.walks);
    free(lines.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_of_the_model_are_walks_of_every_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
