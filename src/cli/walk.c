#include "cli/walk.h"

#include <stdio.h>

enum { PAGE = 500 };

enum cli_exit walk_check(const struct args *args)
{
    int ways = (args->word_count > 0) + cli_has(args, "--all") + cli_has(args, "--filter");
    if (ways == 0)
        return cli_usage(args->verb, "missing jobs: give ID..., --filter KEY=VALUE or --all");
    if (ways > 1)
        return cli_usage(args->verb, "give job IDs, --filter or --all, only one of them");
    struct pawl_object *filter = NULL;
    enum cli_exit code = filter_read(args, &filter);
    pawl_object_free(filter);
    return code;
}

/* How many there are, for the bar; 0: that is not known. */
static long long count_all(const struct walk *walk)
{
    char *text;
    long long total = 0;
    if (!cli_has(walk->args, "--all") || pawl_stats(walk->pawl, NULL, &text, NULL) != PAWL_OK)
        return 0;
    struct pawl_json counts = pawl_json_get(pawl_json_read(text), "jobs");
    struct pawl_json count = {NULL, 0};
    while (pawl_json_next(counts, &count, NULL) != 0)
        total += pawl_json_int(count, 0);
    pawl_free(text);
    return total;
}

static enum cli_exit visit(struct walk *walk, const char *id)
{
    enum cli_exit code = walk->visit(walk, id);
    walk->count++;
    progress_show(&walk->progress, walk->count);
    return code;
}

static enum cli_exit visit_page(struct walk *walk, struct pawl_json jobs)
{
    struct pawl_json job = {NULL, 0};
    enum cli_exit code = CLI_DONE;
    while (code == CLI_DONE && pawl_json_next(jobs, &job, NULL) != 0) {
        char *id = pawl_json_text(pawl_json_get(job, "id"));
        code = id != NULL ? visit(walk, id) : cli_no_memory(walk->args->verb);
        pawl_free(id);
    }
    return code;
}

/* A page. *cursor is where it starts. */
static enum cli_exit ask_page(const struct walk *walk, const char *cursor, int limit,
                              char **ret_answer, struct pawl_error *error)
{
    struct pawl_object *request;
    enum cli_exit code = filter_read(walk->args, &request);
    *error = (struct pawl_error){0};
    if (code != CLI_DONE)
        return code;
    pawl_object_int(request, "limit", limit);
    pawl_object_text(request, "cursor", cursor);
    const char *text = request != NULL ? pawl_object_str(request) : NULL;
    if (text == NULL)
        code = cli_no_memory(walk->args->verb);
    else if (pawl_list(walk->pawl, text, ret_answer, error) != PAWL_OK)
        code = CLI_FAILED;
    pawl_object_free(request);
    return code;
}

static enum cli_exit no_page(struct walk *walk, const struct pawl_error *error)
{
    progress_clear(&walk->progress);
    if (error->code == PAWL_OK)
        return CLI_FAILED; /* which was said */
    enum cli_exit code = cli_failed(walk->args->verb, error);
    if (error->code == PAWL_CORRUPT)
        cli_complain(walk->args->verb,
                     "%lld jobs were %s before the error; the rest could not be listed",
                     walk->count, walk->past);
    return code;
}

/* *cursor is where the page starts, and then where the next one does; NULL: none. */
static enum cli_exit run_page(struct walk *walk, int *limit, char **cursor)
{
    struct pawl_error error = {0};
    char *text = NULL;
    enum cli_exit code = ask_page(walk, *cursor, *limit, &text, &error);
    /* One that cannot be read spoils its page: go as far as it. */
    while (code != CLI_DONE && error.code == PAWL_CORRUPT && *limit > 1) {
        *limit /= 2;
        code = ask_page(walk, *cursor, *limit, &text, &error);
    }
    if (code != CLI_DONE)
        return code == CLI_FAILED ? no_page(walk, &error) : code;
    struct pawl_json answer = pawl_json_read(text);
    struct pawl_json next = pawl_json_get(answer, "next_cursor");
    pawl_free(*cursor);
    *cursor = next.at != NULL ? pawl_json_text(next) : NULL;
    if (next.at != NULL && *cursor == NULL)
        code = cli_no_memory(walk->args->verb);
    if (code == CLI_DONE)
        code = visit_page(walk, pawl_json_get(answer, "jobs"));
    pawl_free(text);
    return code;
}

enum cli_exit walk_run(struct walk *walk)
{
    const struct args *args = walk->args;
    enum cli_exit code = CLI_DONE;
    char *cursor = NULL;
    int limit = PAGE;
    walk->named = args->word_count > 0;
    walk->progress = progress_begin(walk->past, walk->named ? (long long)args->word_count : 0);
    walk->progress.visible = walk->progress.visible && !walk->silent;
    if (walk->progress.visible && !walk->named)
        walk->progress.total = count_all(walk);
    for (size_t i = 0; i < args->word_count && code == CLI_DONE; i++)
        code = visit(walk, args->words[i]);
    while (!walk->named && code == CLI_DONE) {
        code = run_page(walk, &limit, &cursor);
        if (cursor == NULL)
            break;
    }
    pawl_free(cursor);
    progress_end(&walk->progress);
    return code;
}
