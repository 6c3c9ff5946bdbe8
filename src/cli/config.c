#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/yaml_reader.h"

enum { DEPTH_MAX = 8, KEY_LEN_MAX = 128 };

/* ---- settings ---- */

/* The setting of that key; SETTING_COUNT: none. *ret_is_level: there are keys below it. */
static enum setting_name find(const char *key, bool *ret_is_level)
{
    size_t len = strlen(key);
    *ret_is_level = false;
    for (int i = 0; i < SETTING_COUNT; i++) {
        const char *known = settings_list[i].key;
        if (*known != '\0' && strcmp(known, key) == 0)
            return (enum setting_name)i;
        if (strncmp(known, key, len) == 0 && known[len] == '.')
            *ret_is_level = true;
    }
    return SETTING_COUNT;
}

static bool unknown_key(struct yaml_reader *reader, const char *key)
{
    const char *words[SETTING_COUNT];
    size_t count = 0;
    for (int i = 0; i < SETTING_COUNT; i++)
        if (*settings_list[i].key != '\0')
            words[count++] = settings_list[i].key;
    const char *nearest = nearest_word(key, words, count);
    if (nearest != NULL)
        return YAML_WRONG(reader, "unknown setting '%.100s'. Did you mean '%s'?", key, nearest);
    return YAML_WRONG(reader, "unknown setting '%.100s'", key);
}

/* Whether the scalar is of the type that the setting has, before it is read. */
static bool check_type(struct yaml_reader *reader, const char *key, enum setting_type type)
{
    static const char *const wanted[] = {
        [SETTING_IS_TEXT] = "a text",
        [SETTING_IS_NUMBER] = "a whole number",
        [SETTING_IS_DURATION] = "a duration like 30s",
        [SETTING_IS_SWITCH] = "true or false",
        [SETTING_IS_CHOICE] = "a word",
        [SETTING_IS_KINDS] = "a list of kinds",
    };
    enum yaml_type is = yaml_scalar_type(reader);
    bool right = type == SETTING_IS_NUMBER   ? is == YAML_IS_NUMBER
                 : type == SETTING_IS_SWITCH ? is == YAML_IS_BOOL
                                             : is == YAML_IS_TEXT;
    if (right && *yaml_scalar(reader) != '\0')
        return true;
    if (is == YAML_IS_NULL || *yaml_scalar(reader) == '\0')
        return YAML_WRONG(reader, "%s has no value; expected %s", key, wanted[type]);
    return YAML_WRONG(reader, "%s must be %s, not %s%.100s%s", key, wanted[type],
                      is == YAML_IS_TEXT ? "'" : "", yaml_scalar(reader),
                      is == YAML_IS_TEXT ? "'" : "");
}

static bool take_setting(struct yaml_reader *reader, struct config *config, const char *key,
                         enum setting_name name)
{
    const struct setting *setting = &settings_list[name];
    struct complaint wrong;
    long long number;
    if (reader->event.type == YAML_SEQUENCE_START_EVENT)
        return YAML_WRONG(reader, "%s must not be a list; quote a string that starts with [", key);
    if (reader->event.type != YAML_SCALAR_EVENT)
        return YAML_WRONG(reader, "%s takes a single value, not nested keys", key);
    if (!check_type(reader, key, setting->type))
        return false;
    if (!setting_parse(setting, key, yaml_scalar(reader), &number, &wrong))
        return YAML_WRONG(reader, "%s", wrong.text);
    config->lines[name] = yaml_line(reader);
    config->texts[name] = strdup(yaml_scalar(reader));
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): no key comes twice, and config_free frees it
    return config->texts[name] != NULL || yaml_no_memory(reader);
}

/* Reads a key, which the latest event is. False: invalid, or too long. */
static bool take_key(struct yaml_reader *reader, char ret[KEY_LEN_MAX + 1])
{
    if (reader->event.type != YAML_SCALAR_EVENT)
        return YAML_WRONG(reader, "keys must be plain words");
    if (strlen(yaml_scalar(reader)) > KEY_LEN_MAX)
        return YAML_WRONG(reader, "key too long: '%.40s...'", yaml_scalar(reader));
    (void)snprintf(ret, KEY_LEN_MAX + 1, "%s", yaml_scalar(reader));
    return true;
}

/* ---- kinds ---- */

/* Makes room for one more. NULL: no memory. */
static void *grow(void *list, size_t count, size_t size)
{
    /* Doubles whenever the count is a power of two. */
    return (count & (count - 1)) == 0 ? realloc(list, (count == 0 ? 1 : count * 2) * size) : list;
}

/* One member of a kind: its key is the latest event. */
static bool take_member(struct yaml_reader *reader, struct config_kind *kind)
{
    size_t len = 0;
    struct config_member member = {.line = yaml_line(reader)};
    member.name = yaml_take_key(reader, YAML_DURATIONS_IN_MS);
    if (member.name == NULL)
        return false;
    FILE *out = open_memstream(&member.json, &len);
    bool good = out != NULL ? yaml_write(reader, YAML_DURATIONS_IN_MS, DEPTH_MAX, out)
                            : yaml_no_memory(reader);
    if (out != NULL && fclose(out) != 0)
        good = good && yaml_no_memory(reader);
    for (size_t i = 0; good && i < kind->member_count; i++)
        if (strcmp(kind->members[i].name, member.name) == 0)
            good = yaml_complain(reader->path, member.line, reader->why,
                                 "kinds.%s: duplicate key '%.100s'", kind->name, member.name);
    struct config_member *more =
        good ? grow(kind->members, kind->member_count, sizeof *more) : NULL;
    if (more == NULL) {
        free(member.name);
        free(member.json);
        return good ? yaml_no_memory(reader) : false;
    }
    kind->members = more;
    more[kind->member_count++] = member;
    return true;
}

/* One kind: its name is the latest event. */
static bool take_kind(struct yaml_reader *reader, struct config *config)
{
    char name[KEY_LEN_MAX + 1];
    if (!take_key(reader, name))
        return false;
    for (size_t i = 0; i < config->kind_count; i++)
        if (strcmp(config->kinds[i].name, name) == 0)
            return YAML_WRONG(reader, "kinds: duplicate kind '%s'", name);
    if (config->kind_count == CONFIG_KINDS_MAX)
        return YAML_WRONG(reader, "kinds: more than %d kinds", CONFIG_KINDS_MAX);
    struct config_kind *more = grow(config->kinds, config->kind_count, sizeof *more);
    if (more == NULL)
        return yaml_no_memory(reader);
    config->kinds = more;
    struct config_kind *kind = &more[config->kind_count];
    *kind = (struct config_kind){.name = strdup(name), .line = yaml_line(reader)};
    if (kind->name == NULL)
        return yaml_no_memory(reader);
    config->kind_count++;
    if (!yaml_next(reader))
        return false;
    /* Nothing behind its name: nothing is set, and everything as Pawl has it. */
    if (reader->event.type == YAML_SCALAR_EVENT && yaml_scalar_type(reader) == YAML_IS_NULL)
        return true;
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return YAML_WRONG(reader, "kinds.%s must contain settings, for example lease_ttl_ms: 60000",
                          name);
    while (yaml_next(reader)) {
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (!take_member(reader, kind))
            return false;
    }
    return false;
}

static bool take_kinds(struct yaml_reader *reader, struct config *config)
{
    if (reader->event.type == YAML_SCALAR_EVENT && yaml_scalar_type(reader) == YAML_IS_NULL)
        return true;
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return YAML_WRONG(reader, "kinds must contain the names of kinds");
    while (yaml_next(reader)) {
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (!take_kind(reader, config))
            return false;
    }
    return false;
}

/* ---- all of it ---- */

/* The mapping that begins with the latest event; `level` is "" or "jobstore.". */
// NOLINTNEXTLINE(misc-no-recursion): one level
static bool take_settings(struct yaml_reader *reader, struct config *config, const char *level,
                          struct yaml_names *seen)
{
    char word[KEY_LEN_MAX + 1];
    char key[2 * KEY_LEN_MAX + 2];
    bool is_level;
    while (yaml_next(reader)) {
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (!take_key(reader, word))
            return false;
        (void)snprintf(key, sizeof key, "%s%s", level, word);
        enum setting_name name = find(key, &is_level);
        if (name == SETTING_COUNT && (!is_level || *level != '\0'))
            return unknown_key(reader, key);
        if (!yaml_names_add(reader, seen, key, yaml_line(reader)) ||
            !yaml_names_check(reader, seen) || !yaml_next(reader))
            return false;
        bool good;
        if (name == SETTING_KINDS) {
            good = take_kinds(reader, config);
        } else if (name != SETTING_COUNT) {
            good = take_setting(reader, config, key, name);
        } else if (reader->event.type != YAML_MAPPING_START_EVENT) {
            good = YAML_WRONG(reader, "%s must contain settings", key);
        } else {
            (void)snprintf(key + strlen(key), 2, ".");
            good = take_settings(reader, config, key, seen);
        }
        if (!good)
            return false;
    }
    return false;
}

/* The document, if there is one, and nothing behind it. */
static bool take_document(struct yaml_reader *reader, struct config *config)
{
    struct yaml_names seen = {0};
    bool empty;
    bool good = yaml_begin_document(reader, &empty);
    if (good && !empty)
        good = reader->event.type == YAML_MAPPING_START_EVENT
                   ? take_settings(reader, config, "", &seen)
                   : YAML_WRONG(reader, "write settings as 'key: value'");
    yaml_names_free(&seen);
    return good && yaml_end_document(reader);
}

/* Opens it, unless it is not a regular file: a pipe in its place would keep the server waiting,
 * deaf to every signal. NULL: errno says why. */
static FILE *open_file(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool good = fd >= 0 && fstat(fd, &status) == 0;
    if (good && !S_ISREG(status.st_mode)) {
        errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        good = false;
    }
    FILE *file = good ? fdopen(fd, "r") : NULL;
    if (file == NULL && fd >= 0) {
        int why = errno;
        (void)close(fd);
        errno = why;
    }
    return file;
}

/* All of the file. NULL: it was said why. */
static char *read_file(const char *path, size_t *ret_len, struct complaint *why)
{
    FILE *file = open_file(path);
    char *text = file != NULL ? malloc(CONFIG_BYTES_MAX + 1) : NULL;
    size_t len = text != NULL ? fread(text, 1, CONFIG_BYTES_MAX + 1, file) : 0;
    bool failed = text == NULL || ferror(file) != 0;
    if (file == NULL && errno == EINVAL)
        complain(why, "cannot read %.200s: not a file", path);
    else if (failed)
        complain(why, "cannot read %.200s: %s", path, strerror(errno));
    else if (len > CONFIG_BYTES_MAX)
        complain(why, "%.200s is too large: the limit is %d bytes", path, CONFIG_BYTES_MAX);
    else if (len == 0) /* somebody may be writing it: that must not take all settings back */
        complain(why, "%.200s is empty", path);
    if (file != NULL)
        (void)fclose(file);
    if (failed || len == 0 || len > CONFIG_BYTES_MAX) {
        free(text);
        return NULL;
    }
    *ret_len = len;
    return text;
}

bool config_read(const char *path, struct config *ret, struct complaint *why)
{
    struct config config = {.path = path};
    struct yaml_reader reader;
    size_t len = 0;
    char *text = read_file(path, &len, why);
    if (text == NULL)
        return false;
    bool good = yaml_begin(&reader, path, text, len, why);
    if (good) {
        good = take_document(&reader, &config);
        yaml_end(&reader);
    }
    free(text);
    if (good)
        *ret = config;
    else
        config_free(&config);
    return good;
}

void config_free(struct config *config)
{
    for (int i = 0; i < SETTING_COUNT; i++)
        free(config->texts[i]);
    for (size_t i = 0; i < config->kind_count; i++) {
        struct config_kind *kind = &config->kinds[i];
        for (size_t k = 0; k < kind->member_count; k++) {
            free(kind->members[k].name);
            free(kind->members[k].json);
        }
        free(kind->members);
        free(kind->name);
    }
    free(config->kinds);
    *config = (struct config){0};
}
