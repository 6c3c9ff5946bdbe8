/* A watcher: prints every event of all jobs, and goes on as they happen.
 *
 *     watcher sqlite:pawl.db               from the beginning on, until it is ended
 *     watcher sqlite:pawl.db 17-3          from that position on
 *     watcher sqlite:pawl.db 17-3 --end    the same, but ends when there are no more
 *
 * The position stands first in each line. Whoever comes back with the last one that it has seen
 * misses nothing and gets nothing twice; 0-0 is the beginning. */
#include <pawl.h>
#include <stdio.h>
#include <string.h>

static void print_event(struct pawl_json event)
{
    char *position = pawl_json_text(pawl_json_get(event, "position"));
    char *at = pawl_json_text(pawl_json_get(event, "at"));
    char *job = pawl_json_text(pawl_json_get(event, "job_id"));
    char *type = pawl_json_text(pawl_json_get(event, "type"));
    printf("%s %s %s %s\n", position, at, job, type);
    pawl_free(type);
    pawl_free(job);
    pawl_free(at);
    pawl_free(position);
}

/* Prints what comes after *after, and moves that on. The number of events; -1: it failed. */
static int read_feed(struct pawl *pawl, char **after, int wait_ms)
{
    char *answer;
    struct pawl_error error;
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "after", *after);
    pawl_object_int(request, "wait_ms", wait_ms);
    enum pawl_code code = pawl_feed(pawl, pawl_object_str(request), &answer, &error);
    pawl_object_free(request);
    if (code != PAWL_OK) {
        fprintf(stderr, "watcher: %s\n", error.message);
        return -1;
    }

    int count = 0;
    struct pawl_json feed = pawl_json_read(answer);
    struct pawl_json events = pawl_json_get(feed, "events");
    struct pawl_json event = {0};
    while (pawl_json_next(events, &event, NULL)) {
        print_event(event);
        count++;
    }
    fflush(stdout);
    pawl_free(*after);
    *after = pawl_json_text(pawl_json_get(feed, "next"));
    pawl_free(answer);
    return count;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: watcher STORE [POSITION [--end]]\n");
        return 2;
    }

    struct pawl *pawl;
    struct pawl_error error;
    if (pawl_open(argv[1], NULL, &pawl, &error) != PAWL_OK) {
        fprintf(stderr, "watcher: %s\n", error.message);
        return 1;
    }
    char *after = argc > 2 ? pawl_copy(argv[2]) : NULL;
    int ends = argc > 3 && strcmp(argv[3], "--end") == 0;
    int count;
    do
        count = read_feed(pawl, &after, ends ? 0 : 10 * 1000);
    while (count >= 0 && !(ends && count == 0));
    pawl_free(after);
    pawl_close(pawl);
    return count < 0 ? 1 : 0;
}
