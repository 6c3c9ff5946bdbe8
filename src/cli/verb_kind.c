#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/filter.h"
#include "cli/job_view.h"
#include "cli/screen.h"

static const struct {
    const char *name;
    const char *key;
} durations[] = {
    {"--lease-ttl", "lease_ttl_ms"},       {"--heartbeat", "heartbeat_ms"},
    {"--timeout", "timeout_ms"},           {"--retention", "retention_ms"},
    {"--cancel-grace", "cancel_grace_ms"},
};

enum { DURATION_COUNT = sizeof durations / sizeof durations[0] };

/* Adds null for what --unset names, as options are named or as fields are. */
static enum cli_exit put_unset(const struct args *args, struct pawl_object *request)
{
    for (size_t i = 0; i < cli_count(args, "--unset"); i++) {
        const char *name = cli_value_at(args, "--unset", i);
        bool pin = strcmp(name, "pin") == 0;
        const char *key = strcmp(name, "retry") == 0 ? "retry" : pin ? "pin" : NULL;
        const char *option = pin ? "--pin" : "--retry";
        for (size_t k = 0; k < DURATION_COUNT && key == NULL; k++)
            if (strcmp(name, durations[k].name + 2) == 0 || strcmp(name, durations[k].key) == 0) {
                key = durations[k].key;
                option = durations[k].name;
            }
        if (key == NULL)
            return cli_usage(args->verb,
                             "unknown setting '%s'; valid: lease-ttl, heartbeat, timeout, "
                             "retention, cancel-grace, retry, pin",
                             name);
        if (cli_has(args, option))
            return cli_usage(args->verb, "%s cannot be both set and unset", option);
        pawl_object_json(request, key, "null");
    }
    return CLI_DONE;
}

static enum cli_exit put_settings(const struct args *args, struct pawl_object *request)
{
    enum cli_exit code = CLI_DONE;
    for (size_t i = 0; i < DURATION_COUNT && code == CLI_DONE; i++)
        code = cli_put_duration(args, durations[i].name, request, durations[i].key);
    long long retention_ms = 1;
    if (code == CLI_DONE)
        code = cli_duration(args, "--retention", &retention_ms);
    /* For the library that is the same as nothing at all. */
    if (code == CLI_DONE && retention_ms == 0)
        code = cli_usage(args->verb, "--retention must be greater than 0 (default: 7 days)");
    if (cli_has(args, "--pin"))
        pawl_object_json(request, "pin", "true");
    if (code == CLI_DONE)
        code = retry_put(args, request);
    return code == CLI_DONE ? put_unset(args, request) : code;
}

static void print_settings(struct pawl_json settings)
{
    print_field("kind", pawl_json_get(settings, "kind"));
    print_field_duration("lease ttl", pawl_json_get(settings, "lease_ttl_ms"));
    print_field_duration("heartbeat", pawl_json_get(settings, "heartbeat_ms"));
    print_field_duration("timeout", pawl_json_get(settings, "timeout_ms"));
    print_field_duration("retention", pawl_json_get(settings, "retention_ms"));
    print_field_duration("cancel grace", pawl_json_get(settings, "cancel_grace_ms"));
    retry_print(pawl_json_get(settings, "retry"));
    bool pin = pawl_json_true(pawl_json_get(settings, "pin")) != 0;
    if (pin)
        puts("pin: jobs are bound to the code version of their first claim");
    for (size_t i = 0; i < DURATION_COUNT; i++)
        if (pawl_json_get(settings, durations[i].key).at != NULL)
            return;
    if (pawl_json_get(settings, "retry").at == NULL && !pin)
        puts("No settings.");
}

static const struct column columns[] = {
    {.title = "KIND", .gives_way = true},        {.title = "VERSION", .right = true},
    {.title = "LEASE TTL MS", .right = true},    {.title = "TIMEOUT MS", .right = true},
    {.title = "MAX ATTEMPTS", .right = true},    {.title = "RETENTION MS", .right = true},
    {.title = "CANCEL GRACE MS", .right = true},
};

static enum cli_exit run_ls(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_int(request, "limit", 500);
    enum cli_exit code = cli_ask_once(args, pawl_kinds, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
        pawl_free(answer);
        return CLI_DONE;
    }
    struct table *table = table_new(columns, sizeof columns / sizeof columns[0]);
    struct pawl_json kinds = pawl_json_get(pawl_json_read(answer), "kinds");
    struct pawl_json kind = {NULL, 0};
    while (pawl_json_next(kinds, &kind, NULL) != 0) {
        table_value(table, pawl_json_get(kind, "kind"));
        table_value(table, pawl_json_get(kind, "version"));
        table_value(table, pawl_json_get(kind, "lease_ttl_ms"));
        table_value(table, pawl_json_get(kind, "timeout_ms"));
        table_value(table, pawl_json_get(kind, "retry.max_attempts"));
        table_value(table, pawl_json_get(kind, "retention_ms"));
        table_value(table, pawl_json_get(kind, "cancel_grace_ms"));
    }
    code = table_finish(args->verb, table, "No kind has settings.");
    pawl_free(answer);
    return code;
}

static const struct column version_columns[] = {
    {.title = "CODE VERSION", .gives_way = true},
    {.title = "LIVE JOBS", .right = true},
};

static enum cli_exit run_versions(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_text(request, "kind", cli_word(args, 1));
    enum cli_exit code = cli_ask_once(args, pawl_kind_versions, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
        pawl_free(answer);
        return CLI_DONE;
    }
    struct table *table = table_new(version_columns, 2);
    struct pawl_json response = pawl_json_read(answer);
    struct pawl_json versions = pawl_json_get(response, "versions");
    struct pawl_json version = {NULL, 0};
    while (pawl_json_next(versions, &version, NULL) != 0) {
        table_value(table, pawl_json_get(version, "code_version"));
        table_value(table, pawl_json_get(version, "jobs"));
    }
    code = table_finish(args->verb, table, "It has no live jobs.");
    if (pawl_json_true(pawl_json_get(response, "more")) != 0)
        puts("There are more: not all jobs were counted.");
    pawl_free(answer);
    return code;
}

/* Pins all live jobs of the kind that are pinned, page by page. */
static enum cli_exit run_repin(const struct args *args)
{
    long long done = 0;
    char *cursor = NULL;
    enum cli_exit code = CLI_DONE;
    if (!cli_has(args, "--to"))
        return cli_usage(args->verb, "say which version jobs are pinned to: --to V");
    do {
        struct pawl_object *filter = pawl_object_new();
        struct pawl_object *request = pawl_object_new();
        char *answer;
        pawl_object_text(filter, "kind", cli_word(args, 1));
        pawl_object_text(request, "action", "repin");
        pawl_object_text(request, "to", cli_value(args, "--to"));
        if (cli_has(args, "--from"))
            pawl_object_text(request, "from", cli_value(args, "--from"));
        if (cursor != NULL)
            pawl_object_text(request, "cursor", cursor);
        pawl_object_json(request, "filter", pawl_object_str(filter));
        pawl_object_free(filter);
        pawl_free(cursor);
        cursor = NULL;
        code = cli_ask_once(args, pawl_bulk, request, &answer);
        if (code != CLI_DONE)
            return code;
        done += pawl_json_int(pawl_json_get(pawl_json_read(answer), "done"), 0);
        struct pawl_json next = pawl_json_get(pawl_json_read(answer), "next_cursor");
        cursor = next.at != NULL ? pawl_json_text(next) : NULL;
        pawl_free(answer);
    } while (cursor != NULL);
    if (cli_has(args, "--json"))
        printf("{\"done\":%lld}\n", done);
    else
        printf("pinned %lld job%s to %s\n", done, done == 1 ? "" : "s", cli_value(args, "--to"));
    return code;
}

/* Options that do not go with the word. NULL: all do. */
static const char *misplaced(const struct args *args, bool set, bool repin)
{
    size_t common = (size_t)cli_has(args, "--store") + cli_has(args, "--json");
    size_t pins = (size_t)cli_has(args, "--to") + cli_has(args, "--from");
    if (!repin && pins > 0)
        return "--to and --from go with 'pawl kind repin'";
    if (!set && args->given_count > common + pins)
        return "settings go with 'pawl kind set'";
    return NULL;
}

static enum cli_exit run(const struct args *args)
{
    bool set = strcmp(cli_word(args, 0), "set") == 0;
    bool ls = strcmp(cli_word(args, 0), "ls") == 0;
    bool repin = strcmp(cli_word(args, 0), "repin") == 0;
    if (ls == (args->word_count > 1))
        return cli_usage(args->verb, ls ? "ls takes no KIND" : "KIND is required");
    const char *wrong = misplaced(args, set, repin);
    if (wrong != NULL)
        return cli_usage(args->verb, "%s", wrong);
    if (ls)
        return run_ls(args);
    if (repin)
        return run_repin(args);
    if (strcmp(cli_word(args, 0), "versions") == 0)
        return run_versions(args);
    struct pawl_object *request = pawl_object_new();
    if (request == NULL)
        return cli_no_memory(args->verb);
    pawl_object_text(request, "kind", cli_word(args, 1));
    enum cli_exit code = put_settings(args, request);
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    char *answer;
    code = cli_ask_once(args, set ? pawl_kind_patch : pawl_kind_get, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else
        print_settings(pawl_json_read(answer));
    pawl_free(answer);
    return CLI_DONE;
}

static const struct option options[] = {
    {.name = "--lease-ttl",
     .value = "D",
     .field = "lease_ttl_ms",
     .text = "lease duration without a heartbeat"},
    {.name = "--heartbeat",
     .value = "D",
     .field = "heartbeat_ms",
     .text = "heartbeat interval of workers"},
    {.name = "--timeout", .value = "D", .field = "timeout_ms", .text = "timeout of an attempt"},
    {.name = "--retention",
     .value = "D",
     .field = "retention_ms",
     .text = "retention of ended jobs"},
    {.name = "--cancel-grace",
     .value = "D",
     .field = "cancel_grace_ms",
     .text = "grace period after a soft cancel"},
    {.name = "--pin", .text = "bind jobs to the code version of their first claim"},
    RETRY_OPTIONS,
    {.name = "--unset",
     .value = "NAME",
     .text = "set: reset to the default: lease-ttl, ..., or retry",
     .times = OPTION_REPEATED},
    {.name = "--to", .value = "V", .text = "repin: the code version to pin jobs to"},
    {.name = "--from", .value = "V", .text = "repin: only jobs that are pinned to this one"},
    {0},
};

const struct verb verb_kind = {
    .name = "kind",
    .summary = "manage the defaults and code versions of a kind",
    .arguments = "set|show|ls|versions|repin [KIND]",
    .about =
        "Sets or shows the defaults for new jobs of a kind. set changes only the given settings;\n"
        "--unset NAME restores a default. ls lists the kinds with settings.\n"
        "\n"
        "With --pin a job stays with the code version that claimed it first (pawl work\n"
        "--code-version V): workers of other versions do not get it. versions counts live jobs by\n"
        "version; repin moves pinned jobs to another version.\n",
    .options = options,
    .examples = "  pawl kind set email --lease-ttl 2m --max-attempts 5\n"
                "  pawl kind set email --unset timeout\n"
                "  pawl kind show email\n"
                "  pawl kind set agent --pin\n"
                "  pawl kind repin agent --from v41 --to v42\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
