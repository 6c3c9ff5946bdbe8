#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yaml.h>

#include "cli/duration.h"

enum { DEPTH_MAX = 8, KEY_LEN_MAX = 128 };

bool config_complain(const char *path, size_t line, struct complaint *why, const char *format, ...)
{
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return complain(why, "%.200s, line %zu: %s", path, line, text);
}

/* ---- one event after the other ---- */

struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the latest; there is one when has_event */
    bool has_event;
    struct config *config;
    struct complaint *why;
};

/* The line of the latest event, counted from 1. */
static size_t line_of(const struct reader *reader)
{
    return reader->event.start_mark.line + 1;
}

#define WRONG(reader, ...)                                                                         \
    config_complain((reader)->config->path, line_of(reader), (reader)->why, __VA_ARGS__)

static bool no_memory(struct reader *reader)
{
    return complain(reader->why, "there is not enough memory");
}

static bool cannot_parse(struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory(reader);
    const char *problem = parser->problem != NULL ? parser->problem : "it cannot be read";
    if (parser->error == YAML_READER_ERROR)
        return complain(reader->why, "%.200s is not UTF-8 text, at byte %zu: %s",
                        reader->config->path, parser->problem_offset, problem);
    /* As in `store: memory:`. */
    bool colon = strstr(problem, "mapping values are not allowed") != NULL;
    return config_complain(reader->config->path, parser->problem_mark.line + 1, reader->why,
                           "this is not YAML: %s%s", problem,
                           colon ? "; a text with a colon at its end, or with a colon and a space, "
                                   "goes into quotes: \"memory:\""
                                 : "");
}

/* Whether the node that begins has an anchor or a tag. "!" is what a quoted text has. */
static bool is_marked(const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL;
    const yaml_char_t *tag = NULL;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    }
    return anchor != NULL || tag != NULL;
}

static bool next(struct reader *reader)
{
    if (reader->has_event)
        yaml_event_delete(&reader->event);
    reader->has_event = yaml_parser_parse(&reader->parser, &reader->event) == 1;
    if (!reader->has_event)
        return cannot_parse(reader);
    if (reader->event.type == YAML_ALIAS_EVENT || is_marked(&reader->event))
        return WRONG(reader,
                     "anchors (&), aliases (*) and tags (!) are not used here: write it out");
    if (reader->event.type == YAML_SCALAR_EVENT &&
        strlen((const char *)reader->event.data.scalar.value) != reader->event.data.scalar.length)
        return WRONG(reader, "there is a zero byte in a text");
    return true;
}

static const char *scalar(const struct reader *reader)
{
    return (const char *)reader->event.data.scalar.value;
}

/* ---- what a scalar is ---- */

enum scalar_type { IS_NULL, IS_BOOL, IS_NUMBER, IS_TEXT };

static const char *digits(const char *at)
{
    return at + strspn(at, "0123456789");
}

/* As JSON writes them. */
static bool is_number(const char *text)
{
    const char *at = text + (*text == '-');
    const char *end = digits(at);
    if (end == at || (*at == '0' && end > at + 1))
        return false;
    if (*end == '.') {
        at = end + 1;
        end = digits(at);
        if (end == at)
            return false;
    }
    return *end == '\0';
}

static enum scalar_type scalar_type(const struct reader *reader)
{
    const char *text = scalar(reader);
    if (reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return IS_TEXT;
    if (*text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)
        return IS_NULL;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return IS_BOOL;
    return is_number(text) ? IS_NUMBER : IS_TEXT;
}

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

static bool unknown_key(struct reader *reader, const char *key)
{
    const char *words[SETTING_COUNT];
    size_t count = 0;
    for (int i = 0; i < SETTING_COUNT; i++)
        if (*settings_list[i].key != '\0')
            words[count++] = settings_list[i].key;
    const char *nearest = nearest_word(key, words, count);
    if (nearest != NULL)
        return WRONG(reader, "there is no setting '%.100s'; the nearest is '%s'", key, nearest);
    return WRONG(reader, "there is no setting '%.100s'", key);
}

/* Whether the scalar is of the type that the setting has, before it is read. */
static bool check_type(struct reader *reader, const char *key, enum setting_type type)
{
    static const char *const wanted[] = {
        [SETTING_IS_TEXT] = "a text",
        [SETTING_IS_NUMBER] = "a whole number",
        [SETTING_IS_DURATION] = "a duration like 30s",
        [SETTING_IS_SWITCH] = "true or false",
        [SETTING_IS_CHOICE] = "a word",
        [SETTING_IS_KINDS] = "a list of kinds",
    };
    enum scalar_type is = scalar_type(reader);
    bool right = type == SETTING_IS_NUMBER   ? is == IS_NUMBER
                 : type == SETTING_IS_SWITCH ? is == IS_BOOL
                                             : is == IS_TEXT;
    if (right && *scalar(reader) != '\0')
        return true;
    if (is == IS_NULL || *scalar(reader) == '\0')
        return WRONG(reader, "%s has no value: it must be %s", key, wanted[type]);
    return WRONG(reader, "%s must be %s, not %s%.100s%s", key, wanted[type],
                 is == IS_TEXT ? "'" : "", scalar(reader), is == IS_TEXT ? "'" : "");
}

static bool take_setting(struct reader *reader, const char *key, enum setting_name name)
{
    struct config *config = reader->config;
    const struct setting *setting = &settings_list[name];
    struct complaint wrong;
    long long number;
    if (reader->event.type == YAML_SEQUENCE_START_EVENT)
        return WRONG(reader, "%s must not be a list; a text that begins with [ is put in quotes",
                     key);
    if (reader->event.type != YAML_SCALAR_EVENT)
        return WRONG(reader, "%s has one value, and nothing below it", key);
    if (!check_type(reader, key, setting->type))
        return false;
    if (!setting_parse(setting, key, scalar(reader), &number, &wrong))
        return WRONG(reader, "%s", wrong.text);
    config->lines[name] = line_of(reader);
    config->texts[name] = strdup(scalar(reader));
    return config->texts[name] != NULL || no_memory(reader);
}

/* Reads a key, which the latest event is. False: it is none, or too long. */
static bool take_key(struct reader *reader, char ret[KEY_LEN_MAX + 1])
{
    if (reader->event.type != YAML_SCALAR_EVENT)
        return WRONG(reader, "a key must be a word");
    if (strlen(scalar(reader)) > KEY_LEN_MAX)
        return WRONG(reader, "a key is too long: '%.40s...'", scalar(reader));
    (void)snprintf(ret, KEY_LEN_MAX + 1, "%s", scalar(reader));
    return true;
}

/* ---- kinds ---- */

/* Makes room for one more. NULL: no memory. */
static void *grow(void *list, size_t count, size_t size)
{
    /* Doubles whenever the count is a power of two. */
    return (count & (count - 1)) == 0 ? realloc(list, (count == 0 ? 1 : count * 2) * size) : list;
}

static void write_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const char *at = text; *at != '\0'; at++)
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if ((unsigned char)*at < 0x20)
            fprintf(out, "\\u%04x", (unsigned)*at);
        else
            fputc(*at, out);
    fputc('"', out);
}

/* Writes the scalar as JSON, under its key: `timeout: 30s` is "timeout_ms": 30000. */
static void write_scalar(struct reader *reader, FILE *out, char key[KEY_LEN_MAX + 1])
{
    long long ms;
    enum scalar_type type = scalar_type(reader);
    size_t len = strlen(key);
    if (type == IS_TEXT && len + 3 <= KEY_LEN_MAX && duration_parse(scalar(reader), &ms)) {
        (void)snprintf(key + len, KEY_LEN_MAX + 1 - len, "_ms");
        fprintf(out, "%lld", ms);
    } else if (type == IS_NULL) {
        fputs("null", out);
    } else if (type == IS_TEXT) {
        write_text(out, scalar(reader));
    } else {
        fputs(scalar(reader), out);
    }
}

static bool write_value(struct reader *reader, FILE *out, char key[KEY_LEN_MAX + 1], int depth);

/* The names that a mapping has, to find those that come twice. */
struct seen {
    char **names;
    size_t count;
};

static void seen_free(struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        free(seen->names[i]);
    free(seen->names);
}

static bool seen_add(struct reader *reader, struct seen *seen, const char *key, size_t line)
{
    for (size_t i = 0; i < seen->count; i++)
        if (strcmp(seen->names[i], key) == 0)
            return config_complain(reader->config->path, line, reader->why,
                                   "'%.100s' is there twice", key);
    char **more = grow(seen->names, seen->count, sizeof *seen->names);
    if (more == NULL)
        return no_memory(reader);
    seen->names = more;
    more[seen->count] = strdup(key);
    return more[seen->count++] != NULL || no_memory(reader);
}

static bool write_mapping(struct reader *reader, FILE *out, int depth)
{
    struct seen seen = {0};
    bool good = true;
    fputc('{', out);
    while (good && (good = next(reader)) && reader->event.type != YAML_MAPPING_END_EVENT) {
        char key[KEY_LEN_MAX + 1];
        size_t line = line_of(reader);
        char *value = NULL;
        size_t len = 0;
        FILE *inside = open_memstream(&value, &len);
        good = inside != NULL ? take_key(reader, key) && next(reader) &&
                                    write_value(reader, inside, key, depth + 1)
                              : no_memory(reader);
        if (inside != NULL && fclose(inside) != 0)
            good = good && no_memory(reader);
        good = good && seen_add(reader, &seen, key, line);
        if (good) {
            fputs(seen.count > 1 ? "," : "", out);
            write_text(out, key);
            fprintf(out, ":%s", value);
        }
        free(value);
    }
    fputc('}', out);
    seen_free(&seen);
    return good;
}

static bool write_sequence(struct reader *reader, FILE *out, int depth)
{
    char none[KEY_LEN_MAX + 1];
    bool good = true;
    size_t count = 0;
    fputc('[', out);
    while (good && (good = next(reader)) && reader->event.type != YAML_SEQUENCE_END_EVENT) {
        fputs(count++ > 0 ? "," : "", out);
        none[0] = '\0';
        good = write_value(reader, out, none, depth + 1);
    }
    fputc(']', out);
    return good;
}

/* Writes the value that begins with the latest event. */
// NOLINTNEXTLINE(misc-no-recursion): to DEPTH_MAX
static bool write_value(struct reader *reader, FILE *out, char key[KEY_LEN_MAX + 1], int depth)
{
    if (depth > DEPTH_MAX)
        return WRONG(reader, "this is too deep: at most %d levels", DEPTH_MAX);
    if (reader->event.type == YAML_SCALAR_EVENT)
        write_scalar(reader, out, key);
    else if (reader->event.type == YAML_MAPPING_START_EVENT)
        return write_mapping(reader, out, depth);
    else if (reader->event.type == YAML_SEQUENCE_START_EVENT)
        return write_sequence(reader, out, depth);
    return true;
}

/* One member of a kind: its key is the latest event. */
static bool take_member(struct reader *reader, struct config_kind *kind)
{
    char key[KEY_LEN_MAX + 1];
    size_t len = 0;
    struct config_member member = {.line = line_of(reader)};
    FILE *out = open_memstream(&member.json, &len);
    bool good = out != NULL
                    ? take_key(reader, key) && next(reader) && write_value(reader, out, key, 1)
                    : no_memory(reader);
    if (out != NULL && fclose(out) != 0)
        good = good && no_memory(reader);
    for (size_t i = 0; good && i < kind->member_count; i++)
        if (strcmp(kind->members[i].name, key) == 0)
            good = config_complain(reader->config->path, member.line, reader->why,
                                   "kinds.%s: '%s' is there twice", kind->name, key);
    struct config_member *more =
        good ? grow(kind->members, kind->member_count, sizeof *more) : NULL;
    if (more != NULL)
        kind->members = more;
    member.name = more != NULL ? strdup(key) : NULL;
    if (more == NULL || member.name == NULL) {
        free(member.json);
        return good ? no_memory(reader) : false;
    }
    more[kind->member_count++] = member;
    return true;
}

/* One kind: its name is the latest event. */
static bool take_kind(struct reader *reader)
{
    struct config *config = reader->config;
    char name[KEY_LEN_MAX + 1];
    if (!take_key(reader, name))
        return false;
    for (size_t i = 0; i < config->kind_count; i++)
        if (strcmp(config->kinds[i].name, name) == 0)
            return WRONG(reader, "kinds: '%s' is there twice", name);
    if (config->kind_count == CONFIG_KINDS_MAX)
        return WRONG(reader, "kinds: there are over %d", CONFIG_KINDS_MAX);
    struct config_kind *more = grow(config->kinds, config->kind_count, sizeof *more);
    if (more == NULL)
        return no_memory(reader);
    config->kinds = more;
    struct config_kind *kind = &more[config->kind_count];
    *kind = (struct config_kind){.name = strdup(name), .line = line_of(reader)};
    if (kind->name == NULL)
        return no_memory(reader);
    config->kind_count++;
    if (!next(reader))
        return false;
    /* Nothing behind its name: nothing is set, and everything as Pawl has it. */
    if (reader->event.type == YAML_SCALAR_EVENT && scalar_type(reader) == IS_NULL)
        return true;
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return WRONG(reader, "kinds.%s must have settings below it, as lease_ttl_ms: 60000", name);
    while (next(reader)) {
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (!take_member(reader, kind))
            return false;
    }
    return false;
}

static bool take_kinds(struct reader *reader)
{
    if (reader->event.type == YAML_SCALAR_EVENT && scalar_type(reader) == IS_NULL)
        return true;
    if (reader->event.type != YAML_MAPPING_START_EVENT)
        return WRONG(reader, "kinds must have the names of kinds below it");
    while (next(reader)) {
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (!take_kind(reader))
            return false;
    }
    return false;
}

/* ---- all of it ---- */

/* The mapping that begins with the latest event; `level` is "" or "jobstore.". */
// NOLINTNEXTLINE(misc-no-recursion): one level
static bool take_settings(struct reader *reader, const char *level, struct seen *seen)
{
    char word[KEY_LEN_MAX + 1];
    char key[2 * KEY_LEN_MAX + 2];
    bool is_level;
    while (next(reader)) {
        if (reader->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (!take_key(reader, word))
            return false;
        (void)snprintf(key, sizeof key, "%s%s", level, word);
        enum setting_name name = find(key, &is_level);
        if (name == SETTING_COUNT && (!is_level || *level != '\0'))
            return unknown_key(reader, key);
        if (!seen_add(reader, seen, key, line_of(reader)) || !next(reader))
            return false;
        bool good;
        if (name == SETTING_KINDS) {
            good = take_kinds(reader);
        } else if (name != SETTING_COUNT) {
            good = take_setting(reader, key, name);
        } else if (reader->event.type != YAML_MAPPING_START_EVENT) {
            good = WRONG(reader, "%s must have settings below it", key);
        } else {
            (void)snprintf(key + strlen(key), 2, ".");
            good = take_settings(reader, key, seen);
        }
        if (!good)
            return false;
    }
    return false;
}

/* The document, if there is one, and nothing behind it. */
static bool take_document(struct reader *reader)
{
    struct seen seen = {0};
    bool good = next(reader) && next(reader); /* the stream, then a document or its end */
    if (!good || reader->event.type == YAML_STREAM_END_EVENT)
        return good;
    good = next(reader);
    bool empty = good && reader->event.type == YAML_SCALAR_EVENT && scalar_type(reader) == IS_NULL;
    if (good && !empty)
        good = reader->event.type == YAML_MAPPING_START_EVENT
                   ? take_settings(reader, "", &seen)
                   : WRONG(reader, "settings are written as 'key: value'");
    seen_free(&seen);
    good = good && next(reader) && next(reader);
    if (good && reader->event.type != YAML_STREAM_END_EVENT)
        good = WRONG(reader, "a second document begins here: there must be one");
    return good;
}

/* Opens it, unless it is no file at all: a pipe in its place would keep the server waiting, deaf to
 * every signal. NULL: errno says why. */
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
        complain(why, "%.200s cannot be read: it is no file", path);
    else if (failed)
        complain(why, "%.200s cannot be read: %s", path, strerror(errno));
    else if (len > CONFIG_BYTES_MAX)
        complain(why, "%.200s is too large: at most %d bytes are read", path, CONFIG_BYTES_MAX);
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
    struct reader reader = {.config = &config, .why = why};
    size_t len = 0;
    char *text = read_file(path, &len, why);
    if (text == NULL)
        return false;
    bool good = yaml_parser_initialize(&reader.parser) == 1;
    if (good) {
        yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, len);
        good = take_document(&reader);
        if (reader.has_event)
            yaml_event_delete(&reader.event);
        yaml_parser_delete(&reader.parser);
    } else {
        (void)no_memory(&reader);
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
