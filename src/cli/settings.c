#include "cli/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/config.h"
#include "cli/duration.h"
#include "cli/yaml_reader.h"

enum { NOW = false, RESTART = true };

const struct setting settings_list[SETTING_COUNT] = {
#define SETTING(id, type, key, flag, variable, value, min, max, change, otherwise, text)           \
    [SETTING_##id] = {SETTING_IS_##type, key, flag, variable, value, min, max, change},
#include "cli/settings.def"
#undef SETTING
};

bool complain(struct complaint *complaint, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(complaint->text, sizeof complaint->text, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- values ---- */

static bool parse_number(const struct setting *setting, const char *name, const char *said,
                         long long *ret, struct complaint *why)
{
    char *end;
    errno = 0;
    long long number = strtoll(said, &end, 10);
    bool digits = *said != '\0' && strspn(said, "0123456789") == strlen(said);
    if (!digits || errno != 0 || number < setting->min || number > setting->max)
        return complain(why, "%s must be a whole number from %lld to %lld, not '%.100s'", name,
                        setting->min, setting->max, said);
    *ret = number;
    return true;
}

static bool parse_duration(const struct setting *setting, const char *name, const char *said,
                           long long *ret, struct complaint *why)
{
    char min[DURATION_LEN_MAX];
    char max[DURATION_LEN_MAX];
    if (!duration_parse(said, ret))
        return complain(why, "%s must be a duration like 30s, 1h30m or 500ms, not '%.100s'", name,
                        said);
    duration_write(setting->min, min);
    duration_write(setting->max, max);
    if (*ret < setting->min || *ret > setting->max)
        return complain(why, "%s must be from %s to %s, not %.100s", name, min, max, said);
    return true;
}

static bool parse_switch(const char *name, const char *said, long long *ret, struct complaint *why)
{
    bool on = strcmp(said, "true") == 0 || strcmp(said, "1") == 0;
    if (!on && strcmp(said, "false") != 0 && strcmp(said, "0") != 0)
        return complain(why, "%s must be true or false, not '%.100s'", name, said);
    *ret = on;
    return true;
}

/* *ret is which of the words it is. */
static bool parse_choice(const struct setting *setting, const char *name, const char *said,
                         long long *ret, struct complaint *why)
{
    const char *words = setting->value;
    size_t left = strlen(words);
    const char *word;
    size_t len;
    for (*ret = 0; choice_next(&words, &left, &word, &len); ++*ret)
        if (strlen(said) == len && strncmp(said, word, len) == 0)
            return true;
    return complain(why, "%s must be one of %s, not '%.100s'", name, setting->value, said);
}

bool setting_parse(const struct setting *setting, const char *name, const char *said,
                   long long *ret, struct complaint *why)
{
    *ret = 0;
    switch (setting->type) {
    case SETTING_IS_NUMBER:
        return parse_number(setting, name, said, ret, why);
    case SETTING_IS_DURATION:
        return parse_duration(setting, name, said, ret, why);
    case SETTING_IS_SWITCH:
        return parse_switch(name, said, ret, why);
    case SETTING_IS_CHOICE:
        return parse_choice(setting, name, said, ret, why);
    case SETTING_IS_TEXT:
    case SETTING_IS_KINDS:
        break;
    }
    return true;
}

/* What a flag says, else the environment; NULL: neither. `ret_name` is how to call it. */
static const char *said_outside(const struct args *args, const struct setting *setting,
                                const char **ret_name)
{
    *ret_name = setting->flag;
    if (*setting->flag != '\0' && cli_has(args, setting->flag))
        return setting->type == SETTING_IS_SWITCH ? "true" : cli_value(args, setting->flag);
    *ret_name = setting->variable;
    const char *said = *setting->variable != '\0' ? getenv(setting->variable) : NULL;
    return said != NULL && *said != '\0' ? said : NULL;
}

static bool take(const struct args *args, const struct config *config, enum setting_name name,
                 struct settings *settings, struct complaint *why)
{
    const struct setting *setting = &settings_list[name];
    const char *called;
    const char *said = said_outside(args, setting, &called);
    if (said == NULL) {
        said = config->texts[name];
        called = setting->key;
    }
    if (said == NULL)
        return true;
    if (!setting_parse(setting, called, said, &settings->numbers[name], why))
        return false;
    settings->texts[name] = strdup(said);
    return settings->texts[name] != NULL || complain(why, "out of memory");
}

/* ---- which store ---- */

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Two ways to say the same must not contradict each other, so only one may be there. */
static bool check_config(const struct config *config, struct complaint *why)
{
    static const enum setting_name jobstore[] = {SETTING_JOBSTORE_TYPE, SETTING_JOBSTORE_DSN,
                                                 SETTING_JOBSTORE_LEASE_DURATION};
    const char *type = config->texts[SETTING_JOBSTORE_TYPE];
    const char *dsn = config->texts[SETTING_JOBSTORE_DSN];
    size_t line = 0;
    for (size_t i = 0; i < sizeof jobstore / sizeof jobstore[0] && line == 0; i++)
        line = config->lines[jobstore[i]];
    if (line == 0)
        return true;
    if (config->texts[SETTING_STORE] != NULL)
        return yaml_complain(config->path, line, why,
                             "store (line %zu) and jobstore exclude each other: remove one",
                             config->lines[SETTING_STORE]);
    if (config->texts[SETTING_LEASE_DURATION] != NULL &&
        config->texts[SETTING_JOBSTORE_LEASE_DURATION] != NULL)
        return yaml_complain(
            config->path, config->lines[SETTING_JOBSTORE_LEASE_DURATION], why,
            "lease_duration (line %zu) and jobstore.lease_duration exclude each other: remove one",
            config->lines[SETTING_LEASE_DURATION]);
    if (type == NULL)
        return yaml_complain(config->path, line, why,
                             "jobstore.type is required: memory, sqlite or postgres");
    line = config->lines[SETTING_JOBSTORE_TYPE];
    if (strcmp(type, "postgres") == 0 && dsn == NULL)
        return yaml_complain(config->path, line, why,
                             "jobstore.dsn is required for postgres, for example "
                             "postgres://pawl@db.example.org/pawl");
    if (strcmp(type, "memory") == 0 && dsn != NULL)
        return yaml_complain(config->path, config->lines[SETTING_JOBSTORE_DSN], why,
                             "jobstore.dsn is for sqlite and postgres, not for memory");
    if (strcmp(type, "postgres") == 0 && dsn != NULL && !starts_with(dsn, "postgres://") &&
        !starts_with(dsn, "postgresql://") &&
        dsn[strspn(dsn, "abcdefghijklmnopqrstuvwxyz_ ")] != '=')
        return yaml_complain(config->path, config->lines[SETTING_JOBSTORE_DSN], why,
                             "jobstore.dsn must start with postgres:// or be keywords like host=db "
                             "dbname=pawl when the type is postgres");
    return true;
}

/* The URL that jobstore means; NULL: it says nothing. To be freed. */
static char *jobstore_url(const struct settings *settings)
{
    const char *type = settings->texts[SETTING_JOBSTORE_TYPE];
    const char *dsn = settings->texts[SETTING_JOBSTORE_DSN];
    if (type == NULL)
        return strdup("sqlite:pawl.db");
    if (strcmp(type, "memory") == 0)
        return strdup("memory:");
    if (strcmp(type, "postgres") == 0)
        return strdup(dsn);
    if (dsn == NULL)
        dsn = "pawl.db";
    size_t size = strlen(dsn) + sizeof "sqlite:";
    char *url = malloc(size);
    if (url != NULL)
        (void)snprintf(url, size, "%s%s", starts_with(dsn, "sqlite:") ? "" : "sqlite:", dsn);
    return url;
}

/* ---- kinds ---- */

/* A request for pawl_kind_set, of all members or of one. To be freed; NULL: no memory, or a name
 * that cannot be one. */
static char *kind_request(const struct config_kind *kind, size_t from, size_t count)
{
    struct pawl_object *object = pawl_object_new();
    pawl_object_text(object, "kind", kind->name);
    for (size_t i = from; i < from + count; i++)
        pawl_object_json(object, kind->members[i].name, kind->members[i].json);
    const char *text = pawl_object_str(object);
    char *copy = text != NULL ? strdup(text) : NULL;
    pawl_object_free(object);
    return copy;
}

static bool is_taken(struct pawl *pawl, const char *request, struct pawl_error *error)
{
    char *answer;
    if (request == NULL || pawl_kind_set(pawl, request, &answer, error) != PAWL_OK)
        return false;
    pawl_free(answer);
    return true;
}

/* Says what the library has against a kind, at the line of the member that it refuses by itself. */
static bool refuse_kind(const struct config *config, struct pawl *pawl,
                        const struct config_kind *kind, struct pawl_error *error,
                        struct complaint *why)
{
    size_t line = kind->line;
    bool found = false;
    for (size_t i = 0; i < kind->member_count && !found; i++) {
        char *request = kind_request(kind, i, 1);
        found = !is_taken(pawl, request, error);
        if (found)
            line = kind->members[i].line;
        free(request);
    }
    return yaml_complain(config->path, line, why, "kinds.%s: %s", kind->name, error->message);
}

/* Has the library check all kinds, on a store in memory, and joins them. */
static bool take_kinds(const struct config *config, struct settings *settings,
                       struct complaint *why)
{
    struct pawl_error error = {0};
    struct pawl *pawl;
    size_t len = 0;
    bool good = true;
    if (config->kind_count == 0)
        return true;
    if (pawl_open("memory:", NULL, &pawl, &error) != PAWL_OK)
        return complain(why, "%s", error.message);
    FILE *out = open_memstream(&settings->kinds, &len);
    for (size_t i = 0; out != NULL && good && i < config->kind_count; i++) {
        const struct config_kind *kind = &config->kinds[i];
        char *request = kind_request(kind, 0, kind->member_count);
        good = is_taken(pawl, request, &error) || refuse_kind(config, pawl, kind, &error, why);
        if (good)
            fprintf(out, "%s%s", i == 0 ? "[" : ",", request);
        free(request);
    }
    pawl_close(pawl);
    if (out == NULL)
        return complain(why, "out of memory");
    fputc(']', out);
    return fclose(out) == 0 ? good : complain(why, "out of memory");
}

/* ---- all of them ---- */

static bool take_all(const struct args *args, const struct config *config,
                     struct settings *settings, struct complaint *why)
{
    for (int i = 0; i < SETTING_COUNT; i++)
        if (!take(args, config, (enum setting_name)i, settings, why))
            return false;
    if (settings->texts[SETTING_LEASE_DURATION] == NULL)
        settings->numbers[SETTING_LEASE_DURATION] =
            settings->numbers[SETTING_JOBSTORE_LEASE_DURATION];
    settings->url = settings->texts[SETTING_STORE] != NULL ? strdup(settings->texts[SETTING_STORE])
                                                           : jobstore_url(settings);
    if (settings->url == NULL)
        return complain(why, "out of memory");
    return take_kinds(config, settings, why);
}

bool settings_read(const struct args *args, struct settings *ret, struct complaint *why)
{
    struct settings settings = {0};
    struct config config = {0};
    const char *called;
    const char *path = said_outside(args, &settings_list[SETTING_CONFIG], &called);
    if (path != NULL && !config_read(path, &config, why))
        return false;
    bool good = check_config(&config, why) && take_all(args, &config, &settings, why);
    config_free(&config);
    if (good)
        *ret = settings;
    else
        settings_free(&settings);
    return good;
}

void settings_free(struct settings *settings)
{
    for (int i = 0; i < SETTING_COUNT; i++)
        free(settings->texts[i]);
    free(settings->url);
    free(settings->kinds);
    *settings = (struct settings){0};
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool settings_differ(const struct settings *before, const struct settings *after,
                     enum setting_name name)
{
    switch (name) {
    case SETTING_STORE:
        return !same_text(before->url, after->url);
    case SETTING_KINDS:
        return !same_text(before->kinds, after->kinds);
    case SETTING_JOBSTORE_TYPE:
    case SETTING_JOBSTORE_DSN:
    case SETTING_JOBSTORE_LEASE_DURATION:
        return false; /* seen in what they mean: store, lease_duration */
    default:
        break;
    }
    return settings_list[name].type == SETTING_IS_TEXT ||
                   settings_list[name].type == SETTING_IS_CHOICE
               ? !same_text(before->texts[name], after->texts[name])
               : before->numbers[name] != after->numbers[name];
}
