#include "cli/bulk.h"

#include <stdio.h>
#include <time.h>

#include "cli/progress.h"
#include "cli/screen.h"
#include "cli/when.h"

enum { PAGE = 500 };

struct counts {
    long long matched;
    long long done;
    long long refused;
};

static void print_counts(const struct args *args, const char *past, const struct counts *counts)
{
    bool dry = cli_has(args, "--dry-run");
    long long done = dry ? counts->matched - counts->refused : counts->done;
    if (cli_has(args, "--json"))
        printf("{\"matched\":%lld,\"done\":%lld,\"refused\":%lld}\n", counts->matched, counts->done,
               counts->refused);
    else if (counts->refused > 0)
        printf("%lld %s%s, %lld refused\n", done, dry ? "would be " : "", past, counts->refused);
    else
        printf("%lld %s%s\n", done, dry ? "would be " : "", past);
}

/* Nothing of what was asked for could be done. */
static bool all_refused(const struct counts *counts)
{
    return counts->matched > 0 && counts->refused == counts->matched;
}

/* One page. *cursor is where it starts, and then where the next one does; NULL: none. */
static enum cli_exit run_page(const struct args *args, struct pawl *pawl, const struct bulk *bulk,
                              long long rate, bool dry, char **cursor, struct counts *counts)
{
    struct pawl_object *request = bulk->request(args, bulk->arg);
    /* With a rate a page is a second's work, so that the bar moves. The library keeps to the rate
     * within a page, and keep_rate from one to the next. */
    pawl_object_int(request, "limit", rate > 0 && rate < PAGE && !dry ? rate : PAGE);
    if (rate > 0)
        pawl_object_int(request, "rate_per_s", rate);
    if (dry)
        pawl_object_flag(request, "dry_run", 1);
    pawl_object_text(request, "cursor", *cursor);

    char *text;
    enum cli_exit code = cli_ask(args, pawl, bulk->call, request, &text);
    if (code != CLI_DONE)
        return code;
    struct pawl_json answer = pawl_json_read(text);
    struct pawl_json next = pawl_json_get(answer, "next_cursor");
    counts->matched += pawl_json_int(pawl_json_get(answer, "matched"), 0);
    counts->done += pawl_json_int(pawl_json_get(answer, "done"), 0);
    counts->refused += pawl_json_int(pawl_json_get(answer, "refused"), 0);
    pawl_free(*cursor);
    *cursor = next.at != NULL ? pawl_json_text(next) : NULL;
    if (next.at != NULL && *cursor == NULL)
        code = cli_no_memory(args->verb);
    pawl_free(text);
    return code;
}

/* Waits until so many jobs are not too many since the start. */
static void keep_rate(long long rate, long long matched, long long started)
{
    long long early = started + matched * 1000 / rate - when_now();
    /* A clock that was set back must not stop us. */
    if (early <= 0 || early > 2000)
        return;
    struct timespec nap = {.tv_sec = early / 1000, .tv_nsec = early % 1000 * 1000 * 1000};
    (void)nanosleep(&nap, NULL);
}

enum cli_exit bulk_count(const struct args *args, struct pawl *pawl, const struct bulk *bulk,
                         long long *ret_count)
{
    struct counts counts = {0};
    char *cursor = NULL;
    enum cli_exit code;
    do
        code = run_page(args, pawl, bulk, 0, true, &cursor, &counts);
    while (code == CLI_DONE && cursor != NULL);
    pawl_free(cursor);
    if (code == CLI_DONE)
        *ret_count = counts.matched - counts.refused;
    return code;
}

enum cli_exit bulk_run(const struct args *args, struct pawl *pawl, const struct bulk *bulk)
{
    enum { RATE_MAX = 1000000 };
    struct counts counts = {0};
    long long rate = 0;
    char *cursor = NULL;
    enum cli_exit code = cli_number(args, "--rate", 1, RATE_MAX, &rate);
    if (code != CLI_DONE)
        return code;

    bool dry = cli_has(args, "--dry-run");
    long long started = when_now();
    struct progress progress = progress_begin(bulk->past, 0);
    do {
        code = run_page(args, pawl, bulk, rate, dry, &cursor, &counts);
        progress_show(&progress, counts.done);
        if (code == CLI_DONE && cursor != NULL && rate > 0 && !dry)
            keep_rate(rate, counts.matched, started);
    } while (code == CLI_DONE && cursor != NULL);
    progress_end(&progress);
    pawl_free(cursor);

    if (code == CLI_DONE)
        print_counts(args, bulk->past, &counts);
    else if (counts.done > 0)
        cli_complain(args->verb, "%lld were %s before the error", counts.done, bulk->past);
    if (code == CLI_DONE && all_refused(&counts)) {
        cli_complain(args->verb, "none of the matching jobs can be %s in its current state",
                     bulk->past);
        return CLI_FAILED;
    }
    return code;
}

static void print_one(const char *answer)
{
    struct pawl_json job = pawl_json_read(answer);
    print_value(pawl_json_get(job, "id"));
    fputs(": ", stdout);
    print_value(pawl_json_get(job, "status"));
    if (pawl_json_true(pawl_json_get(job, "cancel_requested")) != 0 &&
        pawl_json_get(job, "lease").at != NULL)
        fputs(", worker asked to stop", stdout);
    fputc('\n', stdout);
}

enum cli_exit each_run(const struct args *args, struct pawl *pawl, size_t first, cli_call call,
                       void (*put)(const struct args *args, struct pawl_object *request))
{
    enum cli_exit result = CLI_DONE;
    for (size_t i = first; i < args->word_count; i++) {
        struct pawl_object *request = pawl_object_new();
        pawl_object_text(request, "id", args->words[i]);
        put(args, request);
        char *answer;
        enum cli_exit code = cli_ask(args, pawl, call, request, &answer);
        if (code != CLI_DONE) {
            result = result == CLI_DONE ? code : result;
            continue;
        }
        if (cli_has(args, "--json"))
            print_answer(answer);
        else
            print_one(answer);
        pawl_free(answer);
    }
    return result;
}
