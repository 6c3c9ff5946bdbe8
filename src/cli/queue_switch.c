#include "cli/queue_switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen.h"

/* The names of the queues that hold jobs or are paused. */
struct known {
    char **names;
    size_t count;
};

static void known_release(struct known *known)
{
    for (size_t i = 0; i < known->count; i++)
        pawl_free(known->names[i]);
    free(known->names);
}

static enum cli_exit known_add(const struct args *args, struct pawl_json queues,
                               struct known *known)
{
    struct pawl_json queue = {NULL, 0};
    while (pawl_json_next(queues, &queue, NULL) != 0) {
        char **grown = realloc(known->names, (known->count + 1) * sizeof *grown);
        if (grown == NULL)
            return cli_no_memory(args->verb);
        known->names = grown;
        known->names[known->count] = pawl_json_text(pawl_json_get(queue, "queue"));
        if (known->names[known->count] == NULL)
            return cli_no_memory(args->verb);
        known->count++;
    }
    return CLI_DONE;
}

/* Reads them all, page by page. */
static enum cli_exit known_read(const struct args *args, struct pawl *pawl, struct known *ret)
{
    char *cursor = NULL;
    enum cli_exit code = CLI_DONE;
    *ret = (struct known){0};
    do {
        struct pawl_object *request = pawl_object_new();
        char *answer;
        pawl_object_text(request, "cursor", cursor);
        code = cli_ask(args, pawl, pawl_queues, request, &answer);
        pawl_free(cursor);
        cursor = NULL;
        if (code != CLI_DONE)
            break;
        struct pawl_json page = pawl_json_read(answer);
        struct pawl_json next = pawl_json_get(page, "next_cursor");
        code = known_add(args, pawl_json_get(page, "queues"), ret);
        cursor = code == CLI_DONE && next.at != NULL ? pawl_json_text(next) : NULL;
        pawl_free(answer);
    } while (cursor != NULL);
    return code;
}

/* A name that was mistyped would be switched without any effect, and without a complaint. */
static enum cli_exit check_known(const struct args *args, const struct known *known,
                                 const char *name, bool can_create)
{
    for (size_t i = 0; i < known->count; i++)
        if (strcmp(known->names[i], name) == 0)
            return CLI_DONE;
    const char *nearest = nearest_word(name, (const char *const *)known->names, known->count);
    if (nearest != NULL)
        cli_complain(args->verb, "unknown queue '%s'. Did you mean '%s'?", name, nearest);
    else
        cli_complain(args->verb, "unknown queue '%s'", name);
    if (can_create)
        cli_remark("--create pauses a queue before its first job.");
    return CLI_NOT_FOUND;
}

static enum cli_exit switch_one(const struct args *args, struct pawl *pawl, cli_call call,
                                const char *queue, const char *past)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_text(request, "queue", queue);
    enum cli_exit code = cli_ask(args, pawl, call, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        print_text(queue);
        printf(": %s\n", past);
    }
    pawl_free(answer);
    return CLI_DONE;
}

enum cli_exit queue_switch(const struct args *args, const struct queue_switch *how)
{
    struct pawl *pawl;
    struct known known = {0};
    bool any = how->can_create && cli_has(args, "--create");
    enum cli_exit result = cli_open(args, false, &pawl);
    if (result != CLI_DONE)
        return result;
    if (!any)
        result = known_read(args, pawl, &known);
    bool read = result == CLI_DONE;
    for (size_t i = 0; i < args->word_count && read; i++) {
        const char *queue = args->words[i];
        enum cli_exit code = any ? CLI_DONE : check_known(args, &known, queue, how->can_create);
        if (code == CLI_DONE)
            code = switch_one(args, pawl, how->call, queue, how->past);
        result = result == CLI_DONE ? code : result;
    }
    known_release(&known);
    pawl_close(pawl);
    return result;
}
