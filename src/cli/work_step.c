#include "cli/work_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/result.h"

/* Adds a member of a claim, if it is there. */
static void put_member(struct pawl_object *object, const char *key, struct pawl_json value)
{
    char *text = value.at != NULL ? strndup(value.at, value.len) : NULL;
    if (text != NULL)
        pawl_object_json(object, key, text);
    free(text);
}

char *step_input(const struct pawl_task *task, bool judge)
{
    if (task->step == NULL)
        return strdup(task->payload);
    struct pawl_json claim = pawl_json_read(task->claim);
    struct pawl_object *object = pawl_object_new();
    pawl_object_json(object, "payload", task->payload);
    put_member(object, "inputs", pawl_json_get(claim, "inputs"));
    put_member(object, "answer", pawl_json_get(claim, "answer"));
    if (judge)
        put_member(object, "result", pawl_json_get(claim, "step.result"));
    const char *text = object != NULL ? pawl_object_str(object) : NULL;
    char *input = text != NULL ? strdup(text) : NULL;
    pawl_object_free(object);
    return input;
}

enum pawl_code step_verdict(const struct pawl_task *task, const char *output, size_t len,
                            struct pawl_error *error)
{
    static const char *const members[] = {"decision", "reason", "result", "question"};
    char *said = result_json(output, len, false);
    struct pawl_json verdict = pawl_json_read(said);
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_text(request, "id", task->job_id);
    pawl_object_text(request, "step", task->step);
    pawl_object_text(request, "token", task->token);
    if (pawl_json_type(verdict) != 'o')
        put_member(request, "decision", verdict);
    for (size_t i = 0; pawl_json_type(verdict) == 'o' && i < sizeof members / sizeof *members; i++)
        put_member(request, members[i], pawl_json_get(verdict, members[i]));
    const char *text = said != NULL && request != NULL ? pawl_object_str(request) : NULL;
    enum pawl_code code = PAWL_NO_MEMORY;
    if (text == NULL)
        (void)snprintf(error->message, sizeof error->message, "out of memory");
    else
        code = pawl_verdict(task->pawl, text, &answer, error);
    if (code == PAWL_OK)
        pawl_free(answer);
    pawl_object_free(request);
    free(said);
    return code;
}
