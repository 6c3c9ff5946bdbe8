#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/result.h"

/* A request with the lease that we were given; NULL if missing, which was said. */
static struct pawl_object *request_new(const struct args *args)
{
    const char *token = getenv("PAWL_LEASE");
    if (token == NULL || *token == '\0') {
        (void)cli_usage(args->verb,
                        "PAWL_LEASE is not set: run this from a command of 'pawl work'");
        return NULL;
    }
    struct pawl_object *request = pawl_object_new();
    if (request == NULL)
        (void)cli_no_memory(args->verb);
    pawl_object_text(request, "token", token);
    return request;
}

/* Says that options are of no use here. */
static enum cli_exit refuse(const struct args *args, const char *const *names)
{
    for (; *names != NULL; names++)
        if (cli_has(args, *names))
            return cli_usage(args->verb, "%s is not an option of '%s'", *names, cli_word(args, 0));
    return CLI_DONE;
}

/* Options of effects and of dead letters, which have nothing to do with anything else. */
#define EFFECT_OPTIONS "--in-doubt", "--abort-exit", "--record-exit"
#define LETTER_OPTIONS "--stage", "--message"

/* ---- progress ----------------------------------------------------------------------------- */

static enum cli_exit progress(const struct args *args)
{
    static const char *const others[] = {"--timeout", "--type",    "--prompt",     "--park",
                                         "--delay",   "--choice",  "--assignee",   "--input",
                                         "--reason",  "--default", EFFECT_OPTIONS, LETTER_OPTIONS,
                                         NULL};
    char *json = NULL;
    char *answer;
    enum cli_exit code = refuse(args, others);
    if (code == CLI_DONE && args->command != NULL)
        code = cli_usage(args->verb, "progress takes no command");
    if (code == CLI_DONE)
        code = cli_json_input(args, "the progress", cli_word(args, 1), &json);
    if (code != CLI_DONE)
        return code;
    struct pawl_object *request = request_new(args);
    if (request == NULL) {
        free(json);
        return CLI_USAGE;
    }
    pawl_object_json(request, "progress", json);
    cli_put_text(args, "--cursor", request, "cursor");
    free(json);
    code = cli_ask_once(args, pawl_heartbeat, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (pawl_json_true(pawl_json_get(pawl_json_read(answer), "cancel_requested")))
        cli_remark("pawl lease: cancellation requested; this program should end soon");
    pawl_free(answer);
    return CLI_DONE;
}

/* ---- wait --------------------------------------------------------------------------------- */

static void put_choices(const struct args *args, struct pawl_object *request)
{
    size_t count = cli_count(args, "--choice");
    const char **choices = calloc(count + 1, sizeof *choices);
    if (choices == NULL || count == 0) {
        free(choices);
        return;
    }
    for (size_t i = 0; i < count; i++)
        choices[i] = cli_value_at(args, "--choice", i);
    pawl_object_list(request, "choices", choices, count);
    free(choices);
}

/* What counts when nobody answers in time: JSON, or else a text. Without memory the request is
 * without it, and fails as a whole. */
static void put_default(const struct args *args, struct pawl_object *request)
{
    const char *said = cli_value(args, "--default");
    char *answer = said != NULL ? result_json(said, strlen(said), false) : NULL;
    pawl_object_json(request, "default_answer", answer);
    free(answer);
}

static enum cli_exit wait_request(const struct args *args, struct pawl_object *request)
{
    const char *type = cli_value(args, "--type");
    if (type == NULL)
        type = cli_has(args, "--delay")                                       ? "timer"
               : cli_has(args, "--prompt") || cli_count(args, "--choice") > 0 ? "human"
                                                                              : "signal";
    if (cli_has(args, "--delay") && strcmp(type, "timer") != 0)
        return cli_usage(args->verb, "--delay is for --type timer, not %s", type);
    pawl_object_text(request, "type", type);
    pawl_object_text(request, "correlation_key", cli_word(args, 1));
    cli_put_text(args, "--prompt", request, "prompt");
    cli_put_text(args, "--assignee", request, "assignee");
    put_choices(args, request);
    put_default(args, request);
    if (cli_has(args, "--park"))
        pawl_object_flag(request, "park", 1);
    enum cli_exit code = cli_put_duration(args, "--timeout", request, "timeout_ms");
    if (code == CLI_DONE)
        code = cli_put_duration(args, "--delay", request, "delay_ms");
    return code;
}

static enum cli_exit wait_for(const struct args *args)
{
    static const char *const others[] = {"--input",      "--cursor",     "--reason",
                                         EFFECT_OPTIONS, LETTER_OPTIONS, NULL};
    char *answer;
    enum cli_exit code = refuse(args, others);
    if (code == CLI_DONE && args->command != NULL)
        code = cli_usage(args->verb, "wait takes no command");
    if (code == CLI_DONE && getenv("PAWL_STEP") != NULL)
        code = cli_usage(
            args->verb,
            "a step cannot wait; ask a person with 'pawl lease verdict needs_user --prompt TEXT'");
    if (code != CLI_DONE)
        return code;
    struct pawl_object *request = request_new(args);
    if (request == NULL)
        return CLI_USAGE;
    code = wait_request(args, request);
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    code = cli_ask_once(args, pawl_wait, request, &answer);
    if (code != CLI_DONE)
        return code;

    /* A wait that was answered before it began leads back to the queue. Either way the lease is
     * over. */
    char *status = pawl_json_text(pawl_json_get(pawl_json_read(answer), "status"));
    if (pawl_json_is(pawl_json_get(pawl_json_read(answer), "status"), "queued"))
        cli_remark("pawl lease: the signal is already stored, so the job continues at once; this "
                   "program should end now");
    else
        cli_remark("pawl lease: the job is %s now; this program should end",
                   status != NULL ? status : "waiting");
    pawl_free(status);
    pawl_free(answer);
    return CLI_DONE;
}

/* ---- verdict ------------------------------------------------------------------------------ */

/* What a person is asked, and what happens when nobody answers in time. */
static enum cli_exit put_question(const struct args *args, struct pawl_object *request)
{
    struct pawl_object *question = pawl_object_new();
    cli_put_text(args, "--prompt", question, "prompt");
    cli_put_text(args, "--assignee", question, "assignee");
    put_choices(args, question);
    enum cli_exit code = cli_put_duration(args, "--timeout", question, "timeout_ms");
    if (code == CLI_DONE)
        put_default(args, question);
    const char *text = question != NULL ? pawl_object_str(question) : NULL;
    if (code == CLI_DONE && text == NULL)
        code = cli_no_memory(args->verb);
    if (code == CLI_DONE)
        pawl_object_json(request, "question", text);
    pawl_object_free(question);
    return code;
}

static enum cli_exit verdict_request(const struct args *args, struct pawl_object *request)
{
    static const char *const of_questions[] = {"--prompt",  "--choice",  "--assignee",
                                               "--timeout", "--default", NULL};
    bool asks = strcmp(cli_word(args, 1), "needs_user") == 0;
    enum cli_exit code = asks ? put_question(args, request) : CLI_DONE;
    for (int i = 0; !asks && of_questions[i] != NULL && code == CLI_DONE; i++)
        if (cli_count(args, of_questions[i]) > 0)
            code = cli_usage(args->verb, "%s is for needs_user", of_questions[i]);
    pawl_object_text(request, "id", getenv("PAWL_JOB_ID"));
    pawl_object_text(request, "step", getenv("PAWL_STEP"));
    pawl_object_text(request, "decision", cli_word(args, 1));
    cli_put_text(args, "--reason", request, "reason");
    return code;
}

static enum cli_exit verdict(const struct args *args)
{
    static const char *const others[] = {"--input", "--cursor",     "--type", "--park",
                                         "--delay", LETTER_OPTIONS, NULL};
    char *answer;
    enum cli_exit code = refuse(args, others);
    if (code == CLI_DONE && args->command != NULL)
        code = cli_usage(args->verb, "verdict takes no command");
    if (code == CLI_DONE && (getenv("PAWL_STEP") == NULL || getenv("PAWL_JOB_ID") == NULL))
        code = cli_usage(args->verb, "PAWL_STEP is not set: a verdict is for a step of a plan");
    if (code != CLI_DONE)
        return code;
    struct pawl_object *request = request_new(args);
    if (request == NULL)
        return CLI_USAGE;
    code = verdict_request(args, request);
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    code = cli_ask_once(args, pawl_verdict, request, &answer);
    if (code != CLI_DONE)
        return code;
    cli_remark("pawl lease: the step is no longer leased; this program should end");
    pawl_free(answer);
    return CLI_DONE;
}

/* ---- effect ------------------------------------------------------------------------------- */

/* Prints a result as the command has printed it. */
static enum cli_exit print_result(const struct args *args, struct pawl_json result)
{
    char *text = pawl_json_text(result);
    if (text == NULL)
        return cli_no_memory(args->verb);
    if (*text != '\0')
        printf("%s\n", text);
    pawl_free(text);
    return CLI_DONE;
}

/* Runs the command. Its exit code is ours when it fails. */
static int execute(const struct args *args, const char *path, const char *idempotency_key,
                   struct child_end *ret)
{
    const char *const pairs[] = {"PAWL_IDEMPOTENCY_KEY", idempotency_key, NULL};
    char **environment = child_environment(pairs);
    if (environment == NULL)
        return (int)cli_no_memory(args->verb);
    struct child_task child = {
        .path = path,
        .argv = args->command,
        .environment = environment,
        .output_max = RESULT_BYTES_MAX + 1,
        .grace_ms = 2000,
    };
    int why = child_run(&child, ret);
    free(environment);
    if (why != 0) {
        cli_complain(args->verb, "cannot run the command '%s': %s", args->command[0],
                     strerror(why));
        return CLI_FAILED;
    }
    if (ret->output_cut) {
        cli_complain(
            args->verb,
            "the output of the command exceeds 1 MiB, the limit of a result; nothing was recorded");
        return CLI_FAILED;
    }
    return ret->signal != 0 ? 128 + ret->signal : ret->code;
}

static enum cli_exit commit(const struct args *args, struct pawl *pawl, const struct child_end *end)
{
    char *json = result_json(end->output, end->output_len, true);
    if (json == NULL)
        return cli_no_memory(args->verb);
    struct pawl_object *request = request_new(args);
    char *answer;
    enum cli_exit code = CLI_USAGE;
    if (request != NULL) {
        pawl_object_text(request, "key", cli_word(args, 1));
        pawl_object_json(request, "result", json);
        code = cli_ask(args, pawl, pawl_effect_commit, request, &answer);
    }
    if (code == CLI_DONE) {
        /* Only what is recorded is shown, so that anyone who reads on has what a later attempt will
         * have. */
        struct pawl_json result = pawl_json_read(json);
        if (pawl_json_is(result, "") || strcmp(json, "null") != 0)
            code = print_result(args, result);
        pawl_free(answer);
    }
    free(json);
    return code;
}

/* Tells how a command that failed ended: with commit, a failure that is recorded; with abort, that
 * the effect certainly did not happen. Its exit code is ours in any case. */
static int tell_failure(const struct args *args, struct pawl *pawl, cli_call call, int code)
{
    char message[256];
    char details[32];
    char *answer = NULL;
    struct pawl_object *error = pawl_object_new();
    struct pawl_object *request = request_new(args);
    (void)snprintf(message, sizeof message, "the command '%.128s' ended with exit code %d",
                   args->command[0], code);
    (void)snprintf(details, sizeof details, "{\"exit\":%d}", code);
    pawl_object_text(error, "message", message);
    pawl_object_json(error, "details", details);
    pawl_object_text(request, "key", cli_word(args, 1));
    pawl_object_json(request, "error", error != NULL ? pawl_object_str(error) : NULL);
    enum cli_exit told = request != NULL ? cli_ask(args, pawl, call, request, &answer) : CLI_USAGE;
    if (told == CLI_DONE)
        pawl_free(answer);
    pawl_object_free(error);
    return told == CLI_DONE ? code : (int)told;
}

/* Whether an option that lists exit codes has this one. */
static bool has_exit(const struct args *args, const char *option, int code)
{
    for (size_t i = 0; i < cli_count(args, option); i++)
        if (strtol(cli_value_at(args, option, i), NULL, 10) == code)
            return true;
    return false;
}

static enum cli_exit check_exits(const struct args *args, const char *option)
{
    for (size_t i = 0; i < cli_count(args, option); i++) {
        const char *value = cli_value_at(args, option, i);
        char *end;
        long code = strtol(value, &end, 10);
        if (*value == '\0' || *end != '\0' || code < 1 || code > 255)
            return cli_usage(args->verb, "%s requires exit codes from 1 to 255, not '%s'", option,
                             value);
    }
    return CLI_DONE;
}

/* A failure that is on record: its exit code was kept with it. */
static int fail_again(const struct args *args, struct pawl_json error)
{
    char *message = pawl_json_text(pawl_json_get(error, "message"));
    long long code =
        pawl_json_int(pawl_json_get(pawl_json_get(error, "details"), "exit"), CLI_FAILED);
    cli_complain(args->verb, "effect '%s' failed earlier, as recorded: %s", cli_word(args, 1),
                 message != NULL ? message : "");
    pawl_free(message);
    return code >= 1 && code <= 255 ? (int)code : CLI_FAILED;
}

/* Asks whether to run it; the request is freed. An effect that is not what it was in an earlier
 * attempt stays so: then the exit code is one after which 'pawl work' does not try again. */
static int begin(const struct args *args, struct pawl *pawl, struct pawl_object *request,
                 char **ret_answer)
{
    struct pawl_error error = {0};
    const char *text = pawl_object_str(request);
    int code = CLI_DONE;
    if (text == NULL)
        code = (int)cli_no_memory(args->verb);
    else if (pawl_effect_begin(pawl, text, ret_answer, &error) != PAWL_OK)
        code = (int)cli_failed(args->verb, &error);
    if (error.code == PAWL_REPLAY_MISMATCH) {
        cli_remark("An effect must have the same input in every attempt; use a different key for a "
                   "different effect.");
        code = EXIT_PERMANENT;
    }
    pawl_object_free(request);
    return code;
}

/* What to do, as the store says. */
static int effect_with(const struct args *args, struct pawl *pawl, const char *path,
                       struct pawl_json begun)
{
    struct pawl_json status = pawl_json_get(begun, "status");
    const char *key = cli_word(args, 1);
    if (pawl_json_is(status, "recorded") && pawl_json_get(begun, "error").at != NULL)
        return fail_again(args, pawl_json_get(begun, "error"));
    if (pawl_json_is(status, "recorded"))
        return (int)print_result(args, pawl_json_get(begun, "result"));
    if (!pawl_json_is(status, "execute")) {
        cli_complain(args->verb,
                     "effect '%s' is in doubt: an earlier attempt started it, and it is unknown",
                     key);
        cli_remark("whether it happened. It is not run again: the job has failed or needs input");
        cli_remark(
            "('pawl inbox'). This program should end. Where running an effect twice does no");
        cli_remark("harm, submit jobs with --in-doubt retry.");
        return CLI_CONFLICT;
    }

    struct child_end end = {0};
    char *idempotency_key = pawl_json_text(pawl_json_get(begun, "idempotency_key"));
    int code = idempotency_key != NULL ? execute(args, path, idempotency_key, &end)
                                       : (int)cli_no_memory(args->verb);
    bool ended = end.signal == 0 && !end.output_cut;
    if (code == 0)
        code = (int)commit(args, pawl, &end);
    else if (ended && has_exit(args, "--record-exit", code))
        code = tell_failure(args, pawl, pawl_effect_commit, code);
    else if (ended && has_exit(args, "--abort-exit", code))
        code = tell_failure(args, pawl, pawl_effect_abort, code);
    pawl_free(idempotency_key);
    free(end.output);
    return code;
}

static enum cli_exit effect(const struct args *args)
{
    static const char *const others[] = {"--timeout", "--type",    "--prompt",     "--park",
                                         "--delay",   "--choice",  "--assignee",   "--cursor",
                                         "--reason",  "--default", LETTER_OPTIONS, NULL};
    char *input = NULL;
    char *answer = NULL;
    struct pawl *pawl = NULL;
    enum cli_exit code = refuse(args, others);
    if (code == CLI_DONE && args->command == NULL)
        return cli_usage(args->verb, "missing command: -- COMMAND...");
    if (code == CLI_DONE)
        code = check_exits(args, "--abort-exit");
    if (code == CLI_DONE)
        code = check_exits(args, "--record-exit");
    if (code == CLI_DONE)
        code = cli_json_option(args, "--input", &input);
    if (code != CLI_DONE)
        return code;
    char *path = child_find(args->command[0]);
    struct pawl_object *request = NULL;
    if (path == NULL)
        code = cli_usage(args->verb, "cannot run the command '%s': %s", args->command[0],
                         errno == ENOENT ? "program not found" : strerror(errno));
    else if ((request = request_new(args)) == NULL)
        code = CLI_USAGE;
    pawl_object_text(request, "key", cli_word(args, 1));
    pawl_object_json(request, "input", input);
    cli_put_text(args, "--in-doubt", request, "in_doubt");
    free(input);
    if (code == CLI_DONE)
        code = cli_open(args, false, &pawl);
    if (code != CLI_DONE) {
        pawl_object_free(request);
        free(path);
        return code;
    }
    int end = begin(args, pawl, request, &answer);
    if (end == CLI_DONE) {
        end = effect_with(args, pawl, path, pawl_json_read(answer));
        pawl_free(answer);
    }
    pawl_close(pawl);
    free(path);
    return (enum cli_exit)end;
}

/* Says of an effect that failed in this attempt that it certainly did not happen. */
static enum cli_exit abort_effect(const struct args *args)
{
    static const char *const others[] = {"--timeout", "--type",     "--prompt",     "--park",
                                         "--delay",   "--choice",   "--input",      "--cursor",
                                         "--default", "--assignee", EFFECT_OPTIONS, LETTER_OPTIONS,
                                         NULL};
    char *answer = NULL;
    enum cli_exit code = refuse(args, others);
    if (code == CLI_DONE && args->command != NULL)
        code = cli_usage(args->verb, "abort takes no command");
    if (code == CLI_DONE && !cli_has(args, "--reason"))
        code = cli_usage(args->verb, "abort requires --reason TEXT: why the effect did not happen");
    if (code != CLI_DONE)
        return code;
    struct pawl_object *request = request_new(args);
    struct pawl_object *error = pawl_object_new();
    pawl_object_text(error, "message", cli_value(args, "--reason"));
    pawl_object_text(request, "key", cli_word(args, 1));
    pawl_object_json(request, "error", error != NULL ? pawl_object_str(error) : NULL);
    code = request != NULL ? cli_ask_once(args, pawl_effect_abort, request, &answer) : CLI_USAGE;
    if (code == CLI_DONE)
        pawl_free(answer);
    pawl_object_free(error);
    return code;
}

/* ---- dead letters ------------------------------------------------------------------------- */

static enum cli_exit dead_letter(const struct args *args)
{
    static const char *const others[] = {
        "--timeout", "--type",   "--prompt",  "--park",       "--delay",  "--choice", "--assignee",
        "--input",   "--reason", "--default", EFFECT_OPTIONS, "--cursor", NULL};
    char *answer;
    enum cli_exit code = refuse(args, others);
    if (code == CLI_DONE && args->command != NULL)
        code = cli_usage(args->verb, "dead-letter takes no command");
    if (code != CLI_DONE)
        return code;
    struct pawl_object *request = request_new(args);
    if (request == NULL)
        return CLI_USAGE;
    pawl_object_text(request, "reason_code", cli_word(args, 1));
    cli_put_text(args, "--stage", request, "stage");
    cli_put_text(args, "--message", request, "message");
    code = cli_ask_once(args, pawl_abandon, request, &answer);
    if (code != CLI_DONE)
        return code;
    cli_remark("pawl lease: the job is a dead letter now; this program should end");
    pawl_free(answer);
    return CLI_DONE;
}

/* ---- the verb ----------------------------------------------------------------------------- */

static enum cli_exit run(const struct args *args)
{
    const char *word = cli_word(args, 0);
    if (strcmp(word, "progress") == 0)
        return progress(args);
    if (strcmp(word, "verdict") == 0)
        return verdict(args);
    if (strcmp(word, "abort") == 0)
        return abort_effect(args);
    if (strcmp(word, "dead-letter") == 0)
        return dead_letter(args);
    return strcmp(word, "wait") == 0 ? wait_for(args) : effect(args);
}

static const struct option options[] = {
    {.name = "--cursor",
     .value = "TEXT",
     .text = "progress: cursor from which a later attempt continues"},
    {.name = "--timeout",
     .value = "D",
     .field = "timeout_ms|question.timeout_ms",
     .text = "wait, verdict: timeout"},
    {.name = "--type",
     .value = "signal|human|webhook|timer",
     .text = "wait: type (default: signal; human with --prompt, timer with --delay)"},
    {.name = "--delay", .value = "D", .field = "delay_ms", .text = "wait: duration of a timer"},
    {.name = "--prompt",
     .value = "TEXT",
     .field = "prompt|question.prompt",
     .text = "wait, verdict: the question for a person"},
    {.name = "--choice",
     .value = "TEXT",
     .field = "choices",
     .text = "wait, verdict: a possible answer",
     .times = OPTION_REPEATED},
    {.name = "--assignee",
     .value = "WHO",
     .field = "assignee",
     .text = "wait, verdict: the assignee"},
    {.name = "--default",
     .value = "A",
     .field = "default_answer",
     .text = "wait, verdict: the default answer after --timeout"},
    {.name = "--reason",
     .value = "TEXT",
     .field = "reason|error.message",
     .text = "verdict, abort: the reason"},
    {.name = "--stage",
     .value = "fetch|input|exec|output|commit",
     .field = "stage",
     .text = "dead-letter: the stage that failed"},
    {.name = "--message",
     .value = "TEXT",
     .field = "message",
     .text = "dead-letter: the error message"},
    {.name = "--in-doubt",
     .value = "fail|retry|ask",
     .field = "in_doubt",
     .text = "effect: policy for an effect in doubt (default: of the job)"},
    {.name = "--abort-exit",
     .value = "N",
     .text = "effect: exit codes that mean the effect did not happen",
     .times = OPTION_MANY},
    {.name = "--record-exit",
     .value = "N",
     .text = "effect: exit codes of a failure that is recorded like a result",
     .times = OPTION_MANY},
    {.name = "--park", .text = "wait: park the job, for a long wait"},
    {.name = "--input",
     .value = "JSON",
     .text = "effect: its input; a different input for the same key is rejected"},
    {0},
};

const struct verb verb_lease = {
    .name = "lease",
    .summary = "report progress, waits, effects and verdicts of a running command",
    .arguments = "progress|wait|effect|abort|verdict|dead-letter VALUE",
    .about =
        "For commands run by 'pawl work': acts on the job whose lease is in PAWL_LEASE.\n"
        "\n"
        "progress JSON   records the progress of the job, shown by 'pawl show'\n"
        "wait KEY        suspends the job until 'pawl signal ID KEY', 'pawl approve' or the\n"
        "                timeout. COMMAND must then exit. It is run again later, with the\n"
        "                reason in PAWL_RESUME: {\"correlation_key\", \"outcome\": \"signal\" or\n"
        "                \"timeout\", \"payload\"}\n"
        "effect KEY      runs the command after -- once per job and records its output. A later\n"
        "                attempt gets the recorded output instead. The command finds\n"
        "                PAWL_IDEMPOTENCY_KEY, the same in every attempt, for services that\n"
        "                accept one. If it fails, nothing is recorded and its exit code is\n"
        "                returned; --record-exit N records such a failure for later attempts;\n"
        "                --abort-exit N means that nothing happened and it may run again\n"
        "abort KEY       reports that an effect which failed in this attempt did not happen:\n"
        "                the next attempt runs it, and it is not in doubt\n"
        "verdict DECISION  ends a step without a result: retry, switch_resource, replan, or\n"
        "                needs_user, which asks a person with --prompt. COMMAND must then\n"
        "                exit. It is run again later, with the answer on stdin\n"
        "dead-letter REASON  dead-letters the job regardless of its retries: parse_error,\n"
        "                validation_failed, dependency_unavailable, timeout, exhausted_retries,\n"
        "                policy_violation, infrastructure_failure or compensation_failed.\n"
        "                COMMAND must then exit\n"
        "\n"
        "An effect that an earlier attempt started and never committed is in doubt: exit code 4.\n"
        "A different --input for the same key: exit code 77, after which 'pawl work' does not\n"
        "retry. An expired lease: exit code 4; nothing is changed.\n",
    .options = options,
    .examples =
        "  pawl lease progress '{\"done\": 3, \"of\": 10}'\n"
        "  pawl lease wait approval --prompt 'Send it?' --choice yes --choice no\n"
        "  pawl lease effect charge --input '{\"cents\": 250}' -- ./charge.sh 250\n"
        "  pawl lease effect draft --in-doubt retry --abort-exit 75 -- ./ask-model.sh\n"
        "  pawl lease abort charge --reason 'the till is closed'\n"
        "  pawl lease verdict needs_user --prompt 'Which one?' --timeout 1d --default none\n"
        "  pawl lease dead-letter parse_error --stage input --message 'line 7 is no CSV'\n",
    .takes = TAKES_STORE | TAKES_COMMAND_OR_NOT,
    .run = run,
};
