#include "cli/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen.h"

/* What a person is asked. */
struct question {
    struct pawl_json choices; /* texts; none: any answer will do */
    bool in_doubt;            /* it is about an effect: retry, done or fail, and nothing else */
    bool of_step;             /* a step gets the answer itself, a job also whether it was yes */
};

static const char *who(const struct args *args)
{
    const char *said = cli_value(args, "--by");
    return said != NULL ? said : cli_user();
}

/* The choices for people: "now, tonight". */
static void choices_text(struct pawl_json choices, char *ret, size_t size)
{
    struct pawl_json choice = {NULL, 0};
    size_t len = 0;
    ret[0] = '\0';
    while (pawl_json_next(choices, &choice, NULL) != 0 && len < size) {
        char *text = pawl_json_text(choice);
        (void)snprintf(ret + len, size - len, "%s%s", len > 0 ? ", " : "",
                       text != NULL ? text : "?");
        len += strlen(ret + len);
        pawl_free(text);
    }
}

/* The choice that was said, as it stands in the list; none: it is not there. */
static struct pawl_json find_choice(struct pawl_json choices, const char *said)
{
    struct pawl_json choice = {NULL, 0};
    while (pawl_json_next(choices, &choice, NULL) != 0)
        if (pawl_json_is(choice, said) != 0 ||
            (strlen(said) == choice.len && memcmp(said, choice.at, choice.len) == 0))
            return choice;
    return (struct pawl_json){NULL, 0};
}

/* The answer as JSON: one of the choices where there are some, else itself if it is JSON, else a
 * text. To be freed; NULL: there is none. */
static enum cli_exit read_answer(const struct args *args, const struct question *question,
                                 char **ret)
{
    const char *said = cli_value(args, "--answer");
    *ret = NULL;
    if (said == NULL)
        return CLI_DONE;
    if (question->choices.at != NULL) {
        char choices[512];
        struct pawl_json choice = find_choice(question->choices, said);
        choices_text(question->choices, choices, sizeof choices);
        if (choice.at == NULL)
            return cli_usage(args->verb, "'%s' is none of the choices: %s", said, choices);
        *ret = strndup(choice.at, choice.len);
    } else if (pawl_json_read(said).at != NULL) {
        *ret = strdup(said);
    } else {
        /* An object with one member is the shortest way to a JSON string. */
        struct pawl_object *object = pawl_object_new();
        pawl_object_text(object, "a", said);
        struct pawl_json text = pawl_json_get(pawl_json_read(pawl_object_str(object)), "a");
        *ret = text.at != NULL ? strndup(text.at, text.len) : NULL;
        pawl_object_free(object);
    }
    return *ret != NULL ? CLI_DONE : cli_no_memory(args->verb);
}

/* Whether more, or something else, must be said. */
static enum cli_exit check_answer(const struct args *args, bool approved,
                                  const struct question *question)
{
    const char *said = cli_value(args, "--answer");
    char choices[512];
    if (question->in_doubt && approved && said == NULL)
        return cli_usage(args->verb, "an effect is in doubt: say --answer retry or --answer done");
    if (question->in_doubt && !approved && said != NULL && strcmp(said, "fail") != 0)
        return cli_usage(args->verb, "reject gives the effect up; 'pawl approve' takes retry and "
                                     "done");
    if (said != NULL || question->in_doubt || question->choices.at == NULL ||
        (!approved && !question->of_step))
        return CLI_DONE;
    choices_text(question->choices, choices, sizeof choices);
    return cli_usage(args->verb, "there are choices: say --answer and one of: %s", choices);
}

/* Adds what the question gets: of a job in doubt {"decision"}, of any other job {"approved",
 * "answer"?, "by"?}, of a step the answer. */
static enum cli_exit put_verdict(const struct args *args, bool approved,
                                 const struct question *question, struct pawl_object *request)
{
    char *answer;
    enum cli_exit code = check_answer(args, approved, question);
    if (code == CLI_DONE)
        code = read_answer(args, question, &answer);
    if (code != CLI_DONE)
        return code;
    struct pawl_object *payload = pawl_object_new();
    const char *otherwise = question->in_doubt ? "\"fail\""
                            : approved         ? "{\"approved\":true}"
                                               : "{\"approved\":false}";
    if (question->in_doubt) {
        pawl_object_json(payload, "decision", answer != NULL ? answer : otherwise);
    } else {
        pawl_object_flag(payload, "approved", approved);
        pawl_object_json(payload, "answer", answer);
        pawl_object_text(payload, "by", who(args));
    }
    const char *text = payload != NULL ? pawl_object_str(payload) : NULL;
    if (text == NULL)
        code = cli_no_memory(args->verb);
    else if (question->of_step)
        pawl_object_json(request, "answer", answer != NULL ? answer : otherwise);
    else
        pawl_object_json(request, "payload", text);
    pawl_object_free(payload);
    free(answer);
    return code;
}

static struct question question_of(struct pawl_json wait, bool of_step)
{
    return (struct question){
        .choices = pawl_json_get(wait, "choices"),
        .in_doubt = pawl_json_get(wait, "effect").at != NULL,
        .of_step = of_step,
    };
}

/* A request about the job that was named. */
static struct pawl_object *about_job(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", cli_word(args, 0));
    return request;
}

/* ---- a step ---- */

static struct pawl_json step_of(struct pawl_json answer, const char *id)
{
    struct pawl_json steps = pawl_json_get(answer, "steps");
    struct pawl_json step = {NULL, 0};
    while (pawl_json_next(steps, &step, NULL) != 0)
        if (pawl_json_is(pawl_json_get(step, "id"), id) != 0)
            return step;
    return (struct pawl_json){NULL, 0};
}

/* A step that is not there, or does not ask, is the library's to refuse. */
static enum cli_exit answer_step(const struct args *args, struct pawl *pawl, bool approved,
                                 char **ret_answer)
{
    char *text;
    enum cli_exit code = cli_ask(args, pawl, pawl_steps, about_job(args), &text);
    if (code != CLI_DONE)
        return code;
    struct pawl_json step = step_of(pawl_json_read(text), cli_word(args, 1));
    struct question question = question_of(pawl_json_get(step, "question"), true);
    struct pawl_object *request = about_job(args);
    pawl_object_text(request, "step", cli_word(args, 1));
    long long attempt = pawl_json_int(pawl_json_get(step, "attempt"), -1);
    if (attempt >= 0)
        pawl_object_int(request, "attempt", attempt);
    pawl_object_text(request, "by", who(args));
    code = put_verdict(args, approved, &question, request);
    if (code == CLI_DONE)
        code = cli_ask(args, pawl, pawl_answer, request, ret_answer);
    else
        pawl_object_free(request);
    pawl_free(text);
    return code;
}

/* ---- a job ---- */

/* Says why a job cannot be answered. */
static enum cli_exit not_asking(const struct args *args, struct pawl_json job)
{
    char *status = pawl_json_text(pawl_json_get(job, "status"));
    char *type = pawl_json_text(pawl_json_get(job, "wait.type"));
    if (type != NULL && strcmp(type, "steps") == 0)
        cli_complain(args->verb,
                     "its steps ask, not the job: 'pawl inbox' names them; then pawl %s "
                     "ID STEP",
                     args->verb->name);
    else if (type != NULL && *type != '\0')
        cli_complain(args->verb, "the job does not ask a person, it waits for a %s", type);
    else
        cli_complain(args->verb, "the job does not ask a person: it is %s",
                     status != NULL ? status : "lost");
    pawl_free(status);
    pawl_free(type);
    return CLI_CONFLICT;
}

static enum cli_exit answer_job(const struct args *args, struct pawl *pawl, bool approved,
                                char **ret_answer)
{
    char *text;
    enum cli_exit code = cli_ask(args, pawl, pawl_get, about_job(args), &text);
    if (code != CLI_DONE)
        return code;

    struct pawl_json job = pawl_json_read(text);
    struct pawl_json wait = pawl_json_get(job, "wait");
    struct question question = question_of(wait, false);
    char *key = pawl_json_text(pawl_json_get(wait, "correlation_key"));
    struct pawl_object *request = about_job(args);
    if (pawl_json_is(pawl_json_get(wait, "type"), "human") == 0)
        code = not_asking(args, job);
    else if (key == NULL || request == NULL)
        code = cli_no_memory(args->verb);
    else
        code = put_verdict(args, approved, &question, request);
    if (code == CLI_DONE) {
        pawl_object_text(request, "correlation_key", key);
        code = cli_ask(args, pawl, pawl_signal, request, ret_answer);
    } else {
        pawl_object_free(request);
    }
    pawl_free(key);
    pawl_free(text);
    return code;
}

enum cli_exit verdict_run(const struct args *args, bool approved)
{
    struct pawl *pawl;
    char *answer;
    enum cli_exit code = cli_open(args, false, &pawl);
    if (code != CLI_DONE)
        return code;
    code = cli_word(args, 1) != NULL ? answer_step(args, pawl, approved, &answer)
                                     : answer_job(args, pawl, approved, &answer);
    if (code == CLI_DONE) {
        if (cli_has(args, "--json"))
            print_answer(answer);
        else
            puts(approved ? "approved" : "rejected");
        pawl_free(answer);
    }
    pawl_close(pawl);
    return code;
}
