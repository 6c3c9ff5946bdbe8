#include "cli/filter.h"

#include <stdio.h>
#include <string.h>

#include "cli/duration.h"
#include "cli/when.h"

static const struct {
    const char *said;
    const char *key;
} filters[] = {
    {"status", "status"},
    {"kind", "kind"},
    {"queue", "queue"},
    {"agent", "agent_id"},
    {"correlation", "correlation_id"},
    {"label", "label"},
    {"created_after", "created_after"},
};

enum { FILTER_COUNT = sizeof filters / sizeof filters[0] };

static enum cli_exit unknown(const struct args *args, const char *said)
{
    const char *words[FILTER_COUNT];
    for (size_t i = 0; i < FILTER_COUNT; i++)
        words[i] = filters[i].said;
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(said, "="), said);
    const char *nearest = key[0] != '\0' ? nearest_word(key, words, FILTER_COUNT) : NULL;
    if (nearest != NULL)
        return cli_usage(args->verb, "unknown filter '%s'. Did you mean '%s'?", key, nearest);
    return cli_usage(
        args->verb,
        "unknown filter '%s'; valid: status, kind, queue, agent, correlation, label, created_after",
        key);
}

enum cli_exit filter_put_time(const struct args *args, const char *what, const char *said,
                              struct pawl_object *request, const char *key)
{
    long long ms;
    if (said == NULL)
        return CLI_DONE;
    if (duration_parse(said, &ms)) {
        char text[WHEN_LEN_MAX];
        when_write(when_now() - ms, text);
        pawl_object_text(request, key, text);
    } else if (when_parse(said, &ms)) {
        pawl_object_text(request, key, said);
    } else {
        return cli_usage(args->verb,
                         "%s must be a time like 2030-01-31T12:00:00Z, or a duration like 1h (that "
                         "long ago), not '%s'",
                         what, said);
    }
    return CLI_DONE;
}

static enum cli_exit put_filter(const struct args *args, const char *said,
                                struct pawl_object *filter, unsigned *seen)
{
    size_t len = strcspn(said, "=");
    for (size_t i = 0; i < FILTER_COUNT; i++) {
        if (strlen(filters[i].said) != len || strncmp(filters[i].said, said, len) != 0)
            continue;
        if (said[len] == '\0' || said[len + 1] == '\0')
            return cli_usage(args->verb, "--filter %s requires a value: --filter %s=VALUE",
                             filters[i].said, filters[i].said);
        if ((*seen & 1U << i) != 0)
            return cli_usage(args->verb, "--filter %s may be given only once", filters[i].said);
        *seen |= 1U << i;
        if (strcmp(filters[i].key, "created_after") == 0)
            return filter_put_time(args, "created_after", said + len + 1, filter, "created_after");
        pawl_object_text(filter, filters[i].key, said + len + 1);
        return CLI_DONE;
    }
    return unknown(args, said);
}

enum cli_exit filter_read(const struct args *args, struct pawl_object **ret_filter)
{
    struct pawl_object *filter = pawl_object_new();
    size_t count = cli_count(args, "--filter");
    unsigned seen = 0;
    for (size_t i = 0; i < count; i++) {
        enum cli_exit code = put_filter(args, cli_value_at(args, "--filter", i), filter, &seen);
        if (code != CLI_DONE) {
            pawl_object_free(filter);
            return code;
        }
    }
    *ret_filter = filter;
    return CLI_DONE;
}

enum cli_exit retry_put(const struct args *args, struct pawl_object *request)
{
    static const char *const names[] = {"--max-attempts", "--strategy", "--initial-delay",
                                        "--max-delay",    "--jitter",   "--on-exhausted",
                                        "--on-permanent"};
    bool any = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        any = any || cli_has(args, names[i]);
    if (!any)
        return CLI_DONE;

    struct pawl_object *retry = pawl_object_new();
    cli_put_text(args, "--strategy", retry, "strategy");
    cli_put_text(args, "--jitter", retry, "jitter");
    cli_put_text(args, "--on-exhausted", retry, "on_exhausted");
    cli_put_text(args, "--on-permanent", retry, "on_permanent");
    enum cli_exit code = cli_put_number(args, "--max-attempts", 1, 1000000, retry, "max_attempts");
    if (code == CLI_DONE)
        code = cli_put_duration(args, "--initial-delay", retry, "initial_ms");
    if (code == CLI_DONE)
        code = cli_put_duration(args, "--max-delay", retry, "max_ms");
    const char *text = retry != NULL ? pawl_object_str(retry) : NULL;
    if (code == CLI_DONE && text == NULL)
        code = cli_no_memory(args->verb);
    if (code == CLI_DONE)
        pawl_object_json(request, "retry", text);
    pawl_object_free(retry);
    return code;
}
