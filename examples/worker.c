/* A worker: writes the letters that the producer has asked for, four at a time.
 *
 *     worker sqlite:pawl.db            until SIGINT or SIGTERM
 *     worker sqlite:pawl.db --drain    until there is nothing left to do
 *
 * Leases are kept alive, results stored and failures retried by the library: the handler only does
 * the work. */
#include <pawl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void write_letter(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    (void)arg;
    struct pawl_json payload = pawl_json_read(task->payload);
    char *to = pawl_json_text(pawl_json_get(payload, "to"));
    if (to == NULL || *to == '\0') {
        outcome->how = PAWL_FAIL;
        outcome->error_class = "validation"; /* trying again would not help */
        snprintf(outcome->message, sizeof outcome->message, "the payload does not say to whom");
        pawl_free(to);
        return;
    }

    /* Work that takes long says how far it is, and asks now and then whether to go on. */
    for (int line = 1; line <= 3; line++) {
        char progress[64];
        snprintf(progress, sizeof progress, "{\"line\": %d, \"of\": 3}", line);
        pawl_task_progress(task, progress, NULL, NULL);
        if (pawl_task_cancelled(task) != PAWL_GO_ON) {
            outcome->how = PAWL_CANCELLED;
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    }

    if (outcome->how == PAWL_COMPLETE) {
        struct pawl_object *result = pawl_object_new();
        char text[256];
        snprintf(text, sizeof text, "Dear %.100s, all is well.", to);
        pawl_object_text(result, "letter", text);
        outcome->result = pawl_copy(pawl_object_str(result));
        pawl_object_free(result);
        printf("wrote to %s (attempt %lld)\n", to, task->attempt);
    }
    pawl_free(to);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: worker STORE [--drain]\n");
        return 2;
    }

    /* Signals are blocked everywhere and taken in one place. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    static const char *const kinds[] = {"letter"};
    struct pawl_worker_options options = {
        .kinds = kinds,
        .kind_count = 1,
        .concurrency = 4,
        .drain = argc > 2 && strcmp(argv[2], "--drain") == 0,
        .handler = write_letter,
    };
    struct pawl *pawl;
    struct pawl_worker *worker;
    struct pawl_error error;
    if (pawl_open(argv[1], NULL, &pawl, &error) != PAWL_OK ||
        pawl_worker_start(pawl, &options, &worker, &error) != PAWL_OK) {
        fprintf(stderr, "worker: %s\n", error.message);
        return 1;
    }
    while (!pawl_worker_wait(worker, 0)) {
        struct timespec moment = {.tv_nsec = 200 * 1000 * 1000};
        if (sigtimedwait(&signals, NULL, &moment) > 0)
            pawl_worker_stop(worker); /* what runs is finished first */
    }

    long long done;
    enum pawl_code code = pawl_worker_join(worker, &done, &error);
    if (code != PAWL_OK)
        fprintf(stderr, "worker: %s\n", error.message);
    printf("%lld letters\n", done);
    pawl_close(pawl);
    return code == PAWL_OK ? 0 : 1;
}
