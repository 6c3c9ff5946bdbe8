#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/filter.h"
#include "cli/plan_file.h"
#include "cli/screen.h"
#include "cli/when.h"

enum { WAIT_MS = 20000, PRIORITY_MAX = 1000000 };

/* Whether a label's key, of that length, is given before place `at`. */
static bool label_known(const struct args *args, size_t at, const char *key, size_t len)
{
    for (size_t i = 0; i < at; i++)
        if (strncmp(cli_value_at(args, "--label", i), key, len + 1) == 0)
            return true;
    return false;
}

static enum cli_exit put_labels(const struct args *args, struct pawl_object *request)
{
    size_t count = cli_count(args, "--label");
    if (count == 0)
        return CLI_DONE;
    struct pawl_object *labels = pawl_object_new();
    enum cli_exit code = CLI_DONE;
    for (size_t i = 0; i < count && code == CLI_DONE; i++) {
        const char *said = cli_value_at(args, "--label", i);
        size_t len = strcspn(said, ":");
        char *key = strndup(said, len);
        if (key == NULL)
            code = cli_no_memory(args->verb);
        else if (len == 0 || said[len] == '\0')
            code = cli_usage(args->verb, "invalid label '%s'; write KEY:VALUE", said);
        else if (label_known(args, i, said, len))
            code = cli_usage(args->verb, "duplicate label '%s'", key);
        else
            pawl_object_text(labels, key, said + len + 1);
        free(key);
    }
    const char *text = labels != NULL ? pawl_object_str(labels) : NULL;
    if (code == CLI_DONE && text == NULL)
        code = cli_no_memory(args->verb);
    if (code == CLI_DONE)
        pawl_object_json(request, "labels", text);
    pawl_object_free(labels);
    return code;
}

static enum cli_exit put_capabilities(const struct args *args, struct pawl_object *request)
{
    size_t count = cli_count(args, "--capability");
    if (count == 0)
        return CLI_DONE;
    const char **values = calloc(count, sizeof *values);
    if (values == NULL)
        return cli_no_memory(args->verb);
    for (size_t i = 0; i < count; i++)
        values[i] = cli_value_at(args, "--capability", i);
    pawl_object_list(request, "capabilities", values, count);
    free(values);
    return CLI_DONE;
}

static enum cli_exit put_plan(const struct args *args, struct pawl_object *request)
{
    const char *said = cli_value(args, "--plan");
    char *plan;
    enum cli_exit code = said != NULL ? plan_input(args, "--plan", said, &plan) : CLI_DONE;
    if (said == NULL || code != CLI_DONE)
        return code;
    pawl_object_json(request, "plan", plan);
    free(plan);
    return CLI_DONE;
}

static enum cli_exit put_times(const struct args *args, struct pawl_object *request)
{
    static const struct {
        const char *name;
        const char *key;
    } durations[] = {
        {"--delay", "delay_ms"},         {"--timeout", "timeout_ms"},
        {"--expires", "expires_ms"},     {"--deadline", "deadline_ms"},
        {"--lease-ttl", "lease_ttl_ms"}, {"--heartbeat", "heartbeat_ms"},
    };
    enum cli_exit code = CLI_DONE;
    for (size_t i = 0; i < sizeof durations / sizeof durations[0] && code == CLI_DONE; i++)
        code = cli_put_duration(args, durations[i].name, request, durations[i].key);
    if (code == CLI_DONE && cli_has(args, "--delay") && cli_has(args, "--run-at"))
        code = cli_usage(args->verb, "--delay and --run-at exclude each other");
    cli_put_text(args, "--run-at", request, "run_at");
    return code;
}

/* What is not said is that of the job which this one is submitted from: 'pawl work' tells its
 * command. An empty option means none. */
static void put_inherited(const struct args *args, const char *option, const char *setting,
                          struct pawl_object *request, const char *key)
{
    const char *value = cli_has(args, option) ? cli_value(args, option) : getenv(setting);
    if (value != NULL && *value != '\0')
        pawl_object_text(request, key, value);
}

static enum cli_exit put_all(const struct args *args, struct pawl_object *request)
{
    char *payload = NULL;
    pawl_object_text(request, "kind", cli_word(args, 0));
    cli_put_text(args, "--queue", request, "queue");
    cli_put_text(args, "--key", request, "idempotency_key");
    cli_put_text(args, "--fingerprint", request, "fingerprint");
    cli_put_text(args, "--agent", request, "agent_id");
    cli_put_text(args, "--goal", request, "goal");
    put_inherited(args, "--correlation", "PAWL_CORRELATION_ID", request, "correlation_id");
    put_inherited(args, "--traceparent", "PAWL_TRACEPARENT", request, "traceparent");
    cli_put_text(args, "--in-doubt", request, "in_doubt");
    enum cli_exit code =
        cli_put_number(args, "--priority", -PRIORITY_MAX, PRIORITY_MAX, request, "priority");
    if (code == CLI_DONE)
        code = put_times(args, request);
    if (code == CLI_DONE)
        code = put_labels(args, request);
    if (code == CLI_DONE)
        code = put_capabilities(args, request);
    if (code == CLI_DONE)
        code = retry_put(args, request);
    if (code == CLI_DONE)
        code = cli_json_option(args, "--payload", &payload);
    if (code == CLI_DONE) {
        pawl_object_json(request, "payload", payload);
        code = put_plan(args, request);
    }
    free(payload);
    return code;
}

/* ---- waiting ---- */

/* Asks for the job until it has ended. */
static enum cli_exit wait_for(const struct args *args, struct pawl *pawl, const char *id,
                              char **ret_job)
{
    for (;;) {
        char *job;
        struct pawl_object *request = pawl_object_new();
        pawl_object_text(request, "id", id);
        pawl_object_int(request, "wait_ms", WAIT_MS);
        enum cli_exit code = cli_ask(args, pawl, pawl_get, request, &job);
        if (code != CLI_DONE)
            return code;
        char *status = pawl_json_text(pawl_json_get(pawl_json_read(job), "status"));
        bool ended = status != NULL && cli_has_ended(status);
        pawl_free(status);
        if (ended) {
            *ret_job = job;
            return CLI_DONE;
        }
        pawl_free(job);
    }
}

/* Prints what came of it. */
static enum cli_exit print_end(const struct args *args, const char *text)
{
    struct pawl_json job = pawl_json_read(text);
    struct pawl_json result = pawl_json_get(job, "result");
    bool completed = pawl_json_is(pawl_json_get(job, "status"), "completed") != 0;
    if (cli_has(args, "--json"))
        print_answer(text);
    else if (completed && result.at != NULL)
        print_json(result);
    else if (completed && pawl_json_get(job, "kind").at != NULL)
        puts("null");
    else if (completed)
        cli_remark(
            "the job has completed; reading its result requires a token with the scope read");
    if (completed)
        return CLI_DONE;

    char *status = pawl_json_text(pawl_json_get(job, "status"));
    char *message = pawl_json_text(pawl_json_get(job, "error.message"));
    bool said = message != NULL && *message != '\0';
    cli_complain(args->verb, "the job did not complete; it is %s%s%s",
                 status != NULL ? status : "lost", said ? ": " : "", said ? message : "");
    pawl_free(status);
    pawl_free(message);
    return CLI_FAILED;
}

static enum cli_exit print_submitted(const struct args *args, const char *answer)
{
    struct pawl_json job = pawl_json_read(answer);
    if (cli_has(args, "--json")) {
        print_answer(answer);
        return CLI_DONE;
    }
    if (pawl_json_true(pawl_json_get(job, "duplicate")) != 0)
        cli_remark("a job with this key already exists");
    print_value(pawl_json_get(job, "id"));
    fputc('\n', stdout);
    return CLI_DONE;
}

static enum cli_exit submit(const struct args *args, struct pawl *pawl, struct pawl_object *request)
{
    char *answer;
    enum cli_exit code = cli_ask(args, pawl, pawl_submit, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (!cli_has(args, "--wait")) {
        code = print_submitted(args, answer);
        pawl_free(answer);
        return code;
    }
    char *end = NULL;
    char *id = pawl_json_text(pawl_json_get(pawl_json_read(answer), "id"));
    if (id == NULL)
        code = cli_no_memory(args->verb);
    else
        cli_remark("submitted %s", id);
    if (code == CLI_DONE)
        code = wait_for(args, pawl, id, &end);
    if (code == CLI_DONE)
        code = print_end(args, end);
    pawl_free(end);
    pawl_free(id);
    pawl_free(answer);
    return code;
}

static enum cli_exit run(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    struct pawl_error refusal = {0};
    struct pawl *pawl = NULL;
    enum cli_exit code = request != NULL ? put_all(args, request) : cli_no_memory(args->verb);
    const char *text = code == CLI_DONE ? pawl_object_str(request) : NULL;
    if (code == CLI_DONE && text == NULL)
        code = cli_no_memory(args->verb);
    if (code == CLI_DONE)
        code = cli_open_for(args, pawl_submit, text, &pawl, &refusal);
    if (code == CLI_DONE && pawl == NULL)
        code = cli_failed(args->verb, &refusal);
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    if (strncmp(cli_store_url(args), "memory:", strlen("memory:")) == 0)
        cli_remark("the store is in memory: the job is lost when this program ends");
    code = submit(args, pawl, request);
    pawl_close(pawl);
    return code;
}

static const struct option options[] = {
    {.name = "--payload",
     .value = "JSON",
     .field = "payload",
     .text = "payload for the worker: JSON, @FILE or - (stdin)"},
    {.name = "--queue", .value = "Q", .field = "queue", .text = "the queue (default: default)"},
    {.name = "--priority",
     .value = "N",
     .field = "priority",
     .text = "higher runs first (default: 0)"},
    {.name = "--delay",
     .value = "D",
     .field = "delay_ms",
     .text = "delay before the job can start: 30s, 1h30m, 2d"},
    {.name = "--run-at",
     .value = "TIME",
     .field = "run_at",
     .text = "earliest start time, in RFC 3339"},
    {.name = "--key",
     .value = "K",
     .field = "idempotency_key",
     .text = "idempotency key: a repeated key returns the existing job"},
    {.name = "--fingerprint",
     .value = "HEX",
     .field = "fingerprint",
     .text = "64 hex digits, compared instead of the payload when the key is reused"},
    {.name = "--agent", .value = "A", .field = "agent_id", .text = "the agent that owns the job"},
    {.name = "--goal", .value = "G", .field = "goal", .text = "the goal of the job"},
    {.name = "--correlation",
     .value = "C",
     .field = "correlation_id",
     .text = "your own id to find the job by (default: PAWL_CORRELATION_ID)"},
    {.name = "--label",
     .value = "K:V",
     .field = "labels",
     .text = "a label",
     .times = OPTION_REPEATED},
    {.name = "--capability",
     .value = "NAME",
     .field = "capabilities",
     .text = "capability that the worker must have",
     .times = OPTION_REPEATED},
    {.name = "--timeout", .value = "D", .field = "timeout_ms", .text = "timeout of an attempt"},
    {.name = "--expires",
     .value = "D",
     .field = "expires_ms",
     .text = "cancel the job if it has not started after this time"},
    {.name = "--deadline",
     .value = "D",
     .field = "deadline_ms",
     .text = "deadline, including retries and waits"},
    {.name = "--lease-ttl",
     .value = "D",
     .field = "lease_ttl_ms",
     .text = "lease duration without a heartbeat"},
    {.name = "--heartbeat",
     .value = "D",
     .field = "heartbeat_ms",
     .text = "heartbeat interval of the worker"},
    RETRY_OPTIONS,
    {.name = "--in-doubt",
     .value = "fail|retry|ask",
     .field = "in_doubt",
     .text = "policy for effects in doubt"},
    {.name = "--traceparent",
     .value = "T",
     .field = "traceparent",
     .text = "W3C traceparent of the job"},
    {.name = "--plan",
     .value = "JSON",
     .field = "plan",
     .text = "plan: JSON, @FILE (JSON or YAML) or -"},
    {.name = "--wait", .text = "wait until the job ends and print its result"},
    {0},
};

const struct verb verb_submit = {
    .name = "submit",
    .summary = "submit a job",
    .arguments = "KIND",
    .about =
        "Submits a job and prints its id. Creates the store if it does not exist. With --wait it\n"
        "waits until the job ends and prints its result as JSON; if the job did not complete, the\n"
        "exit code is 1.\n",
    .options = options,
    .examples = "  pawl submit email --payload '{\"to\": \"ada@example.org\"}'\n"
                "  pawl submit report --delay 1h --key report-2030-01-31 --payload @report.json\n"
                "  pawl submit add --payload '[1, 2]' --wait\n"
                "  pawl submit research --plan @plan.yaml\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
