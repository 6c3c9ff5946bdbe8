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
        const char *key = strcmp(name, "retry") == 0 ? "retry" : NULL;
        const char *option = "--retry";
        for (size_t k = 0; k < DURATION_COUNT && key == NULL; k++)
            if (strcmp(name, durations[k].name + 2) == 0 || strcmp(name, durations[k].key) == 0) {
                key = durations[k].key;
                option = durations[k].name;
            }
        if (key == NULL)
            return cli_usage(args->verb,
                             "unknown setting '%s'; valid: lease-ttl, heartbeat, timeout, "
                             "retention, cancel-grace, retry",
                             name);
        if (cli_has(args, option))
            return cli_usage(args->verb, "%s is both set and unset", option);
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
        code = cli_usage(args->verb, "--retention must be more than 0; without it ended jobs are "
                                     "kept for 7 days");
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
    for (size_t i = 0; i < DURATION_COUNT; i++)
        if (pawl_json_get(settings, durations[i].key).at != NULL)
            return;
    if (pawl_json_get(settings, "retry").at == NULL)
        puts("It has no settings of its own.");
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
    code = table_finish(args->verb, table, "No kind has settings of its own.");
    pawl_free(answer);
    return code;
}

static enum cli_exit run(const struct args *args)
{
    bool set = strcmp(cli_word(args, 0), "set") == 0;
    bool ls = strcmp(cli_word(args, 0), "ls") == 0;
    if (ls == (args->word_count > 1))
        return cli_usage(args->verb, ls ? "ls takes no KIND" : "KIND is missing");
    if (!set && args->given_count > (size_t)cli_has(args, "--store") + cli_has(args, "--json"))
        return cli_usage(args->verb, "settings go with 'pawl kind set'");
    if (ls)
        return run_ls(args);
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
     .text = "how long a lease lasts without a heartbeat"},
    {.name = "--heartbeat",
     .value = "D",
     .field = "heartbeat_ms",
     .text = "how often workers beat"},
    {.name = "--timeout",
     .value = "D",
     .field = "timeout_ms",
     .text = "the longest that an attempt may take"},
    {.name = "--retention",
     .value = "D",
     .field = "retention_ms",
     .text = "how long ended jobs are kept"},
    {.name = "--cancel-grace",
     .value = "D",
     .field = "cancel_grace_ms",
     .text = "how long workers have to end after a soft cancel"},
    RETRY_OPTIONS,
    {.name = "--unset",
     .value = "NAME",
     .text = "set: back to Pawl's own: lease-ttl, ..., or retry",
     .times = OPTION_REPEATED},
    {0},
};

const struct verb verb_kind = {
    .name = "kind",
    .summary = "defaults for jobs of a kind: set, show, ls",
    .arguments = "set|show|ls [KIND]",
    .about =
        "Sets or shows the defaults that jobs of a kind get when they are submitted. set changes\n"
        "what is named and leaves the rest; --unset NAME goes back to Pawl's own. ls lists the\n"
        "kinds that have settings.\n",
    .options = options,
    .examples = "  pawl kind set email --lease-ttl 2m --max-attempts 5\n"
                "  pawl kind set email --unset timeout\n"
                "  pawl kind show email\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
