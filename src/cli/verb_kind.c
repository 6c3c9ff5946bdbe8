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
    {"--lease-ttl", "lease_ttl_ms"},
    {"--heartbeat", "heartbeat_ms"},
    {"--timeout", "timeout_ms"},
    {"--retention", "retention_ms"},
};

enum { DURATION_COUNT = sizeof durations / sizeof durations[0] };

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
    return code == CLI_DONE ? retry_put(args, request) : code;
}

static void print_settings(struct pawl_json settings)
{
    print_field("kind", pawl_json_get(settings, "kind"));
    print_field_duration("lease ttl", pawl_json_get(settings, "lease_ttl_ms"));
    print_field_duration("heartbeat", pawl_json_get(settings, "heartbeat_ms"));
    print_field_duration("timeout", pawl_json_get(settings, "timeout_ms"));
    print_field_duration("retention", pawl_json_get(settings, "retention_ms"));
    retry_print(pawl_json_get(settings, "retry"));
    for (size_t i = 0; i < DURATION_COUNT; i++)
        if (pawl_json_get(settings, durations[i].key).at != NULL)
            return;
    if (pawl_json_get(settings, "retry").at == NULL)
        puts("It has no settings of its own.");
}

static enum cli_exit run(const struct args *args)
{
    bool set = strcmp(cli_word(args, 0), "set") == 0;
    if (!set && args->given_count > (size_t)cli_has(args, "--store") + cli_has(args, "--json"))
        return cli_usage(args->verb, "settings go with 'pawl kind set'");
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
    code = cli_ask_once(args, set ? pawl_kind_set : pawl_kind_get, request, &answer);
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
    RETRY_OPTIONS,
    {0},
};

const struct verb verb_kind = {
    .name = "kind",
    .summary = "defaults for jobs of a kind: set, show",
    .arguments = "set|show KIND",
    .about =
        "Sets or shows the defaults that jobs of a kind get when they are submitted. set puts\n"
        "all of them in place of those there were: what is not said goes back to Pawl's own.\n",
    .options = options,
    .examples = "  pawl kind set email --lease-ttl 2m --max-attempts 5\n"
                "  pawl kind show email\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
