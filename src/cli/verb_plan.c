#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plan_file.h"
#include "cli/plan_view.h"
#include "cli/screen.h"

/* ---- check ---- */

static void print_good(const char *path, struct pawl_json answer)
{
    long long steps = pawl_json_int(pawl_json_get(answer, "steps"), 0);
    print_text(path);
    printf(": a plan of %lld step%s, valid\n", steps, steps == 1 ? "" : "s");
}

static void complain_of(const struct args *args, const char *path, struct pawl_json answer)
{
    struct pawl_json problems = pawl_json_get(answer, "problems");
    struct pawl_json problem = {NULL, 0};
    while (pawl_json_next(problems, &problem, NULL) != 0) {
        char *message = pawl_json_text(pawl_json_get(problem, "message"));
        cli_complain(args->verb, "%s: %s", path, message != NULL ? message : "?");
        pawl_free(message);
    }
    if (pawl_json_true(pawl_json_get(answer, "more")) != 0)
        cli_complain(args->verb, "%s: more errors follow", path);
}

static enum cli_exit check_one(const struct args *args, const char *path)
{
    char *plan;
    char *answer;
    struct pawl_error error = {0};
    enum cli_exit code = plan_file(args, path, &plan);
    if (code != CLI_DONE)
        return code;
    if (pawl_plan_check(plan, &answer, &error) != PAWL_OK) {
        free(plan);
        return cli_failed(args->verb, &error);
    }
    struct pawl_json value = pawl_json_read(answer);
    bool good = pawl_json_true(pawl_json_get(value, "ok")) != 0;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else if (good)
        print_good(path, value);
    else
        complain_of(args, path, value);
    pawl_free(answer);
    free(plan);
    return good ? CLI_DONE : CLI_USAGE;
}

static enum cli_exit run_check(const struct args *args)
{
    enum cli_exit result = CLI_DONE;
    for (size_t i = 1; i < args->word_count; i++) {
        enum cli_exit code = check_one(args, args->words[i]);
        result = result == CLI_DONE ? code : result;
    }
    return result;
}

/* ---- show, diff, add ---- */

static struct pawl_object *about_job(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", cli_word(args, 1));
    return request;
}

static enum cli_exit run_show(const struct args *args)
{
    char *answer;
    enum cli_exit code = cli_ask_once(args, pawl_steps, about_job(args), &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else
        code = plan_print(args->verb, pawl_json_read(answer));
    pawl_free(answer);
    return code;
}

static enum cli_exit run_diff(const struct args *args)
{
    enum { VERSION_MAX = 1000 * 1000 * 1000 };
    char *answer;
    struct pawl_object *request = about_job(args);
    enum cli_exit code = cli_put_number(args, "--from", 0, VERSION_MAX, request, "from");
    if (code == CLI_DONE)
        code = cli_put_number(args, "--to", 1, VERSION_MAX, request, "to");
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    code = cli_ask_once(args, pawl_plan_diff, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else
        plan_diff_print(pawl_json_read(answer));
    pawl_free(answer);
    return CLI_DONE;
}

/* The steps of a plan that is well formed as a file; the library has the last word on them. */
static enum cli_exit put_steps(const struct args *args, const char *plan,
                               struct pawl_object *request)
{
    struct pawl_json value = pawl_json_read(plan);
    struct pawl_json steps = pawl_json_get(value, "steps");
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    if (steps.at == NULL)
        return cli_usage(args->verb, "a plan must be {\"steps\": [...]} or the list itself");
    while (pawl_json_next(value, &item, &key) != 0) {
        char *name = pawl_json_text(key);
        bool known = name != NULL && strcmp(name, "steps") == 0;
        if (!known)
            (void)cli_usage(args->verb, "the plan has an unknown field %s",
                            name != NULL ? name : "?");
        pawl_free(name);
        if (!known)
            return CLI_USAGE;
    }
    char *text = strndup(steps.at, steps.len);
    pawl_object_json(request, "steps", text);
    free(text);
    return CLI_DONE;
}

static enum cli_exit run_add(const struct args *args)
{
    char *plan;
    char *answer;
    enum cli_exit code = plan_file(args, cli_word(args, 2), &plan);
    if (code != CLI_DONE)
        return code;
    struct pawl_object *request = about_job(args);
    cli_put_text(args, "--reason", request, "reason");
    code = put_steps(args, plan, request);
    free(plan);
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    code = cli_ask_once(args, pawl_plan, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else
        printf("plan version %lld\n",
               pawl_json_int(pawl_json_get(pawl_json_read(answer), "plan.version"), 0));
    pawl_free(answer);
    return CLI_DONE;
}

/* ---- the verb ---- */

/* Says what goes with what. */
static enum cli_exit check(const struct args *args, const char *action)
{
    bool add = strcmp(action, "add") == 0;
    if (add && args->word_count != 3)
        return cli_usage(args->verb, "add requires the ID of a job and the FILE of a plan");
    if (!add && strcmp(action, "check") != 0 && args->word_count != 2)
        return cli_usage(args->verb, "%s requires the ID of one job", action);
    if (!add && cli_has(args, "--reason"))
        return cli_usage(args->verb, "--reason is for add");
    if (strcmp(action, "diff") != 0 && (cli_has(args, "--from") || cli_has(args, "--to")))
        return cli_usage(args->verb, "--from and --to are for diff");
    return CLI_DONE;
}

static enum cli_exit run(const struct args *args)
{
    const char *action = cli_word(args, 0);
    enum cli_exit code = check(args, action);
    if (code == CLI_DONE && strcmp(action, "check") != 0)
        code = cli_expand_id(args, 1);
    if (code != CLI_DONE)
        return code;
    if (strcmp(action, "check") == 0)
        return run_check(args);
    if (strcmp(action, "show") == 0)
        return run_show(args);
    return strcmp(action, "diff") == 0 ? run_diff(args) : run_add(args);
}

static const struct option options[] = {
    {.name = "--from", .value = "N", .field = "from", .text = "diff: the older version"},
    {.name = "--to",
     .value = "N",
     .field = "to",
     .text = "diff: the newer version (default: the latest)"},
    {.name = "--reason",
     .value = "TEXT",
     .field = "reason",
     .text = "add: reason, recorded in the history"},
    {0},
};

const struct verb verb_plan = {
    .name = "plan",
    .summary = "work with plans: check, show, diff, add",
    .arguments = "check|show|diff|add FILE|ID [FILE...]",
    .about =
        "check FILE...   validates plans and lists every error by step; exit code 2 on errors.\n"
        "                Needs no store\n"
        "show ID         shows the steps of a job as a tree, each below the dependency that it\n"
        "                waited for longest, with states, times and the critical path: the\n"
        "                longest chain of dependent steps (marked with *)\n"
        "diff ID         shows the changes between two versions of the plan: + added,\n"
        "                - removed, ~ changed, and which results were kept\n"
        "add ID FILE     adds a plan to the job, or a new version where one is requested\n"
        "\n"
        "A plan is JSON or YAML: {\"steps\": [...]}, or the list itself. - is stdin.\n",
    .options = options,
    .examples = "  pawl plan check plan.yaml\n"
                "  pawl submit research --plan @plan.yaml\n"
                "  pawl plan show 0190163d-8694-739b-aea5-966c26f8ad91\n"
                "  pawl plan diff 0190163d-8694-739b-aea5-966c26f8ad91 --from 1 --to 3\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
