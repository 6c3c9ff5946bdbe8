/* A durable agent: drafts a post, asks a person, publishes it.
 *
 *     agent sqlite:pawl.db submit "a topic"    prints the id of the new job
 *     agent sqlite:pawl.db work                works until nothing can be done now
 *
 * The handler runs from the top whenever the job goes on: after a crash, and after the person has
 * answered, which may be on another machine days later. What must not happen twice is an effect:
 * it is run once, and every later run gets what it gave the first time. */
#include <pawl.h>
#include <stdio.h>
#include <string.h>

/* What the agent does in the world; the text that it gives is JSON. */
typedef char *(*tool)(const char *input, const char *idempotency_key);

static char *draft(const char *topic, const char *idempotency_key)
{
    (void)idempotency_key;
    char text[256];
    printf("thinking about %.100s\n", topic); /* a model would be asked here */
    snprintf(text, sizeof text, "{\"title\": \"All about it\", \"topic\": %.100s}", topic);
    return pawl_copy(text);
}

static char *publish(const char *post, const char *idempotency_key)
{
    /* Services that take a key of the caller's can be called again without harm. */
    printf("publishing %.200s (key %.8s...)\n", post, idempotency_key);
    return pawl_copy("{\"url\": \"https://example.org/post/1\"}");
}

/* Runs a tool, unless it is on record that it was run. NULL: it cannot be said, and the job has
 * failed or asks a person, as its in_doubt policy says; or the store is out of reach. */
static char *effect(const struct pawl_task *task, const char *key, const char *input, tool run)
{
    struct pawl_error error;
    char *answer = NULL;
    char *result = NULL;
    struct pawl_object *begin = pawl_object_new();
    struct pawl_object *commit = pawl_object_new();
    pawl_object_text(begin, "token", task->token);
    pawl_object_text(begin, "key", key);
    pawl_object_json(begin, "input", input);
    if (pawl_effect_begin(task->pawl, pawl_object_str(begin), &answer, &error) != PAWL_OK) {
        fprintf(stderr, "agent: %s\n", error.message);
        goto out;
    }

    struct pawl_json begun = pawl_json_read(answer);
    if (pawl_json_is(pawl_json_get(begun, "status"), "recorded"))
        result = pawl_json_text(pawl_json_get(begun, "result"));
    if (!pawl_json_is(pawl_json_get(begun, "status"), "execute"))
        goto out;

    char *idempotency_key = pawl_json_text(pawl_json_get(begun, "idempotency_key"));
    result = run(input, idempotency_key);
    pawl_free(idempotency_key);
    pawl_free(answer);
    answer = NULL;
    pawl_object_text(commit, "token", task->token);
    pawl_object_text(commit, "key", key);
    pawl_object_json(commit, "result", result);
    if (pawl_effect_commit(task->pawl, pawl_object_str(commit), &answer, &error) != PAWL_OK) {
        fprintf(stderr, "agent: %s\n", error.message);
        pawl_free(result);
        result = NULL;
    }
out:
    pawl_free(answer);
    pawl_object_free(commit);
    pawl_object_free(begin);
    return result;
}

/* Gives the job up until a person has answered; nothing runs and no lease is held meanwhile. */
static void ask(const struct pawl_task *task, struct pawl_outcome *outcome)
{
    struct pawl_error error;
    char *answer = NULL;
    struct pawl_object *wait = pawl_object_new();
    pawl_object_text(wait, "token", task->token);
    pawl_object_text(wait, "type", "human");
    pawl_object_text(wait, "correlation_key", "approval");
    pawl_object_text(wait, "prompt", "Shall this post be published?");
    outcome->how = PAWL_ENDED;
    if (pawl_wait(task->pawl, pawl_object_str(wait), &answer, &error) != PAWL_OK) {
        outcome->how = PAWL_FAIL;
        snprintf(outcome->message, sizeof outcome->message, "%s", error.message);
    }
    pawl_free(answer);
    pawl_object_free(wait);
}

static void write_post(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    (void)arg;
    char *post = effect(task, "draft", task->payload, draft);
    if (post == NULL) {
        outcome->how = PAWL_FAIL;
        snprintf(outcome->message, sizeof outcome->message, "there is no draft");
        return;
    }

    struct pawl_json resume = pawl_json_get(pawl_json_read(task->claim), "resume");
    if (!pawl_json_is(pawl_json_get(resume, "correlation_key"), "approval"))
        ask(task, outcome);
    else if (!pawl_json_true(pawl_json_get(resume, "payload.approved")))
        outcome->result = pawl_copy("{\"published\": false}");
    else if ((outcome->result = effect(task, "publish", post, publish)) == NULL)
        outcome->how = PAWL_FAIL;
    pawl_free(post);
}

static enum pawl_code submit(struct pawl *pawl, const char *topic, struct pawl_error *error)
{
    char *answer = NULL;
    struct pawl_object *job = pawl_object_new();
    pawl_object_text(job, "kind", "post");
    pawl_object_text(job, "payload", topic); /* a text is JSON too */
    enum pawl_code code = pawl_submit(pawl, pawl_object_str(job), &answer, error);
    if (code == PAWL_OK) {
        char *id = pawl_json_text(pawl_json_get(pawl_json_read(answer), "id"));
        printf("%s\n", id);
        pawl_free(id);
    }
    pawl_free(answer);
    pawl_object_free(job);
    return code;
}

int main(int argc, char **argv)
{
    struct pawl *pawl;
    struct pawl_worker *worker;
    struct pawl_error error;
    struct pawl_options open = {.actor = "agent", .create = 1};
    static const char *const kinds[] = {"post"};
    struct pawl_worker_options options = {
        .kinds = kinds, .kind_count = 1, .drain = 1, .handler = write_post};
    int submits = argc == 4 && strcmp(argv[2], "submit") == 0;
    if (!submits && !(argc == 3 && strcmp(argv[2], "work") == 0)) {
        fprintf(stderr, "usage: agent STORE submit TOPIC | agent STORE work\n");
        return 2;
    }

    enum pawl_code code = pawl_open(argv[1], &open, &pawl, &error);
    if (code == PAWL_OK) {
        if (submits)
            code = submit(pawl, argv[3], &error);
        else if ((code = pawl_worker_start(pawl, &options, &worker, &error)) == PAWL_OK)
            code = pawl_worker_join(worker, NULL, &error);
        pawl_close(pawl);
    }
    if (code != PAWL_OK)
        fprintf(stderr, "agent: %s\n", error.message);
    return code == PAWL_OK ? 0 : 1;
}
