/* A producer: submits a letter for each name that it is given.
 *
 *     producer sqlite:pawl.db ada grace
 *
 * Each job has an idempotency key, so that a producer that is run again, after a crash or because
 * nobody knows whether it has done its work, adds nothing twice. */
#include <pawl.h>
#include <stdio.h>

static int failed(const struct pawl_error *error)
{
    fprintf(stderr, "producer: %s\n", error->message);
    return 1;
}

static int submit(struct pawl *pawl, const char *name)
{
    char key[128];
    struct pawl_error error;
    struct pawl_object *payload = pawl_object_new();
    struct pawl_object *job = pawl_object_new();
    char *answer = NULL;
    int code = 0;

    snprintf(key, sizeof key, "letter-to-%.100s", name);
    pawl_object_text(payload, "to", name);
    pawl_object_text(job, "kind", "letter");
    pawl_object_text(job, "idempotency_key", key);
    pawl_object_json(job, "payload", pawl_object_str(payload));
    if (pawl_object_str(job) == NULL) {
        fprintf(stderr, "producer: '%s' is not UTF-8, or there is no memory\n", name);
        code = 1;
    } else if (pawl_submit(pawl, pawl_object_str(job), &answer, &error) != PAWL_OK) {
        code = failed(&error);
    } else {
        struct pawl_json made = pawl_json_read(answer);
        char *id = pawl_json_text(pawl_json_get(made, "id"));
        int known = pawl_json_true(pawl_json_get(made, "duplicate"));
        printf("%s %s\n", id, known ? "was there already" : "submitted");
        pawl_free(id);
    }
    pawl_free(answer);
    pawl_object_free(job);
    pawl_object_free(payload);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: producer STORE NAME...\n");
        return 2;
    }

    struct pawl *pawl;
    struct pawl_error error;
    struct pawl_options options = {.actor = "producer", .create = 1};
    if (pawl_open(argv[1], &options, &pawl, &error) != PAWL_OK)
        return failed(&error);
    int code = 0;
    for (int i = 2; i < argc && code == 0; i++)
        code = submit(pawl, argv[i]);
    pawl_close(pawl);
    return code;
}
