#include "cli/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen.h"

/* What a person is asked. */
struct question {
    struct pawl_json choices; /* texts; none: any answer will do */
    bool in_doubt;            /* it is about an effect: retry, done or fail, and nothing else */
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

/* The choice that was said, as it is in the list; none: it is not there. */
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
 * text. To be freed; NULL: none. */
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
            return cli_usage(args->verb, "'%s' is not one of the choices: %s", said, choices);
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

/* What was said about an effect in doubt must be enough to go on with. */
static enum cli_exit check_doubt(const struct args *args, bool approved)
{
    const char *said = cli_value(args, "--answer");
    bool done = said != NULL && strcmp(said, "done") == 0;
    if (approved && said == NULL)
        return cli_usage(args->verb, "an effect is in doubt: use --answer retry or --answer done");
    if (!approved && said != NULL && strcmp(said, "fail") != 0)
        return cli_usage(args->verb,
                         "reject fails the effect; 'pawl approve' takes retry and done");
    if (done && cli_value(args, "--result") == NULL)
        return cli_usage(args->verb, "--answer done requires --result: the result of the effect as "
                                     "JSON; null if it has none");
    return CLI_DONE;
}

/* Whether more, or something else, must be said. */
static enum cli_exit check_answer(const struct args *args, bool approved,
                                  const struct question *question)
{
    const char *said = cli_value(args, "--answer");
    char choices[512];
    if (question->in_doubt)
        return check_doubt(args, approved);
    if (cli_value(args, "--result") != NULL)
        return cli_usage(args->verb, "--result is for --answer done of an effect in doubt");
    if (question->choices.at == NULL)
        return approved || said == NULL
                   ? CLI_DONE
                   : cli_usage(args->verb,
                               "reject answers {\"approved\": false}; use --comment to add a text");
    if (said != NULL)
        return CLI_DONE;
    choices_text(question->choices, choices, sizeof choices);
    return cli_usage(args->verb,
                     "the question has choices: use pawl approve ID --answer with one of: %s",
                     choices);
}

/* Adds the answer, the name and the comment: a choice, what was said, or whether it is yes. */
static enum cli_exit put_verdict(const struct args *args, bool approved,
                                 const struct question *question, struct pawl_object *request)
{
    char *answer = NULL;
    char *result = NULL;
    enum cli_exit code = check_answer(args, approved, question);
    if (code == CLI_DONE)
        code = read_answer(args, question, &answer);
    if (code == CLI_DONE)
        code = cli_json_option(args, "--result", &result);
    if (code == CLI_DONE) {
        const char *otherwise = question->in_doubt ? "\"fail\""
                                : approved         ? "{\"approved\":true}"
                                                   : "{\"approved\":false}";
        pawl_object_json(request, "answer", answer != NULL ? answer : otherwise);
        pawl_object_json(request, "result", result);
        pawl_object_text(request, "by", who(args));
        cli_put_text(args, "--comment", request, "comment");
    }
    free(answer);
    free(result);
    return code;
}

static struct question question_of(struct pawl_json wait)
{
    return (struct question){
        .choices = pawl_json_get(wait, "choices"),
        .in_doubt = pawl_json_get(wait, "effect").at != NULL,
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
    struct question question = question_of(pawl_json_get(step, "question"));
    struct pawl_object *request = about_job(args);
    pawl_object_text(request, "step", cli_word(args, 1));
    long long attempt = pawl_json_int(pawl_json_get(step, "attempt"), -1);
    if (attempt >= 0)
        pawl_object_int(request, "attempt", attempt);
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
        cli_complain(
            args->verb,
            "the questions are those of its steps: 'pawl inbox' lists them; use pawl %s ID STEP",
            args->verb->name);
    else if (type != NULL && *type != '\0')
        cli_complain(args->verb, "the job has no open question: it waits for a %s", type);
    else
        cli_complain(args->verb, "the job has no open question: it is %s",
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
    struct question question = question_of(wait);
    char *key = pawl_json_text(pawl_json_get(wait, "correlation_key"));
    struct pawl_object *request = about_job(args);
    if (pawl_json_is(pawl_json_get(wait, "type"), "human") == 0)
        code = not_asking(args, job);
    else if (key == NULL || request == NULL)
        code = cli_no_memory(args->verb);
    else
        code = put_verdict(args, approved, &question, request);
    if (code == CLI_DONE) {
        /* Only to the question that was looked at: the job may ask another one by now. */
        pawl_object_text(request, "correlation_key", key);
        pawl_object_int(request, "attempt", pawl_json_int(pawl_json_get(job, "attempt"), 0));
        code = cli_ask(args, pawl, pawl_answer_job, request, ret_answer);
    } else {
        pawl_object_free(request);
    }
    pawl_free(key);
    pawl_free(text);
    return code;
}

/* An answer is not called approved: it may be no. */
static void print_said(const char *said)
{
    fputs("answered ", stdout);
    print_text(said);
    fputc('\n', stdout);
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
        const char *said = cli_value(args, "--answer");
        if (cli_has(args, "--json"))
            print_answer(answer);
        else if (said != NULL)
            print_said(said);
        else
            puts(approved ? "approved" : "rejected");
        pawl_free(answer);
    }
    pawl_close(pawl);
    return code;
}
