#include "cli/yaml_reader.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/duration.h"

bool yaml_complain(const char *path, size_t line, struct complaint *why, const char *format, ...)
{
    char text[768];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)complain(why, "%.200s, line %zu: %s", path, line, text);
    return false;
}

bool yaml_no_memory(const struct yaml_reader *reader)
{
    (void)complain(reader->why, "out of memory");
    return false;
}

/* ---- one event after the other ---- */

bool yaml_begin(struct yaml_reader *reader, const char *path, const char *text, size_t len,
                struct complaint *why)
{
    *reader = (struct yaml_reader){.path = path, .why = why};
    if (yaml_parser_initialize(&reader->parser) != 1)
        return yaml_no_memory(reader);
    yaml_parser_set_input_string(&reader->parser, (const unsigned char *)text, len);
    return true;
}

void yaml_end(struct yaml_reader *reader)
{
    if (reader->has_event)
        yaml_event_delete(&reader->event);
    yaml_parser_delete(&reader->parser);
}

size_t yaml_line(const struct yaml_reader *reader)
{
    return reader->event.start_mark.line + 1;
}

const char *yaml_scalar(const struct yaml_reader *reader)
{
    return (const char *)reader->event.data.scalar.value;
}

static bool cannot_parse(struct yaml_reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return yaml_no_memory(reader);
    const char *problem = parser->problem != NULL ? parser->problem : "it is not readable";
    if (parser->error == YAML_READER_ERROR)
        return complain(reader->why, "%.200s is not UTF-8 text, at byte %zu: %s", reader->path,
                        parser->problem_offset, problem);
    /* As in `store: memory:`. */
    bool colon = strstr(problem, "mapping values are not allowed") != NULL;
    return yaml_complain(
        reader->path, parser->problem_mark.line + 1, reader->why, "invalid YAML: %s%s", problem,
        colon ? "; quote a string that ends with a colon or contains \": \", like \"memory:\""
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

bool yaml_next(struct yaml_reader *reader)
{
    if (reader->has_event)
        yaml_event_delete(&reader->event);
    reader->has_event = yaml_parser_parse(&reader->parser, &reader->event) == 1;
    if (!reader->has_event)
        return cannot_parse(reader);
    if (reader->event.type == YAML_ALIAS_EVENT || is_marked(&reader->event))
        return YAML_WRONG(reader, "anchors (&), aliases (*) and tags (!) are not supported");
    if (reader->event.type == YAML_SCALAR_EVENT &&
        strlen(yaml_scalar(reader)) != reader->event.data.scalar.length)
        return YAML_WRONG(reader, "a string contains a zero byte");
    return true;
}

bool yaml_begin_document(struct yaml_reader *reader, bool *ret_empty)
{
    *ret_empty = true;
    bool good = yaml_next(reader) && yaml_next(reader); /* the stream, then a document or its end */
    if (!good || reader->event.type == YAML_STREAM_END_EVENT)
        return good;
    good = yaml_next(reader);
    *ret_empty =
        good && reader->event.type == YAML_SCALAR_EVENT && yaml_scalar_type(reader) == YAML_IS_NULL;
    return good;
}

bool yaml_end_document(struct yaml_reader *reader)
{
    if (reader->event.type == YAML_STREAM_END_EVENT)
        return true;
    if (!yaml_next(reader) || !yaml_next(reader))
        return false;
    return reader->event.type == YAML_STREAM_END_EVENT ||
           YAML_WRONG(reader, "only one YAML document is allowed");
}

/* ---- what a scalar is ---- */

static const char *digits(const char *at)
{
    return at + strspn(at, "0123456789");
}

/* The end of an exponent that begins at `at`, which may be none; NULL: it is broken. */
static const char *exponent(const char *at)
{
    if (*at != 'e' && *at != 'E')
        return at;
    at++;
    at += *at == '+' || *at == '-';
    const char *end = digits(at);
    return end > at ? end : NULL;
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
    end = exponent(end);
    return end != NULL && *end == '\0';
}

/* A number to YAML, but not to JSON: 007, +1, .5, 5., 0x1F, 0o17, .inf, .nan. */
static bool is_doubtful(const char *text)
{
    const char *at = text + (*text == '-' || *text == '+');
    if (strcasecmp(at, ".inf") == 0 || strcasecmp(at, ".nan") == 0)
        return true;
    if (at[0] == '0' && (at[1] == 'x' || at[1] == 'o') && at[2] != '\0')
        return at[2 + strspn(at + 2, "0123456789abcdefABCDEF")] == '\0';
    const char *whole = digits(at);
    const char *end = *whole == '.' ? digits(whole + 1) : whole;
    if (whole == at && end <= whole + 1)
        return false;
    end = exponent(end);
    return end != NULL && *end == '\0' && !is_number(text);
}

static bool is_any(const char *text, const char *a, const char *b, const char *c)
{
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || strcmp(text, c) == 0;
}

static bool is_true(const char *text)
{
    return is_any(text, "true", "True", "TRUE");
}

enum yaml_type yaml_scalar_type(const struct yaml_reader *reader)
{
    const char *text = yaml_scalar(reader);
    if (reader->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return YAML_IS_TEXT;
    if (*text == '\0' || strcmp(text, "~") == 0 || is_any(text, "null", "Null", "NULL"))
        return YAML_IS_NULL;
    if (is_true(text) || is_any(text, "false", "False", "FALSE"))
        return YAML_IS_BOOL;
    return is_number(text) ? YAML_IS_NUMBER : YAML_IS_TEXT;
}

/* ---- names ---- */

bool yaml_names_add(struct yaml_reader *reader, struct yaml_names *names, const char *text,
                    size_t line)
{
    /* Doubles whenever the count is a power of two. */
    if ((names->count & (names->count - 1)) == 0) {
        size_t cap = names->count == 0 ? 1 : names->count * 2;
        struct yaml_name *more = realloc(names->names, cap * sizeof *more);
        if (more == NULL)
            return yaml_no_memory(reader);
        names->names = more;
    }
    struct yaml_name *name = &names->names[names->count];
    *name = (struct yaml_name){.text = strdup(text), .line = line};
    if (name->text == NULL)
        return yaml_no_memory(reader);
    names->count++;
    return true;
}

static int by_text(const void *a, const void *b)
{
    const struct yaml_name *left = a;
    const struct yaml_name *right = b;
    int order = strcmp(left->text, right->text);
    if (order != 0)
        return order;
    return left->line < right->line ? -1 : left->line > right->line;
}

bool yaml_names_check(struct yaml_reader *reader, struct yaml_names *names)
{
    if (names->count > 1)
        qsort(names->names, names->count, sizeof *names->names, by_text);
    for (size_t i = 1; i < names->count; i++)
        if (strcmp(names->names[i - 1].text, names->names[i].text) == 0)
            return yaml_complain(reader->path, names->names[i].line, reader->why,
                                 "duplicate key '%.100s'", names->names[i].text);
    return true;
}

void yaml_names_free(struct yaml_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i].text);
    free(names->names);
    *names = (struct yaml_names){0};
}

/* ---- JSON ---- */

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

/* Whether the latest event is a text that means a duration. */
static bool is_duration(const struct yaml_reader *reader, enum yaml_durations durations,
                        long long *ret_ms)
{
    return durations == YAML_DURATIONS_IN_MS && reader->event.type == YAML_SCALAR_EVENT &&
           yaml_scalar_type(reader) == YAML_IS_TEXT && duration_parse(yaml_scalar(reader), ret_ms);
}

static bool write_scalar(struct yaml_reader *reader, enum yaml_durations durations, FILE *out)
{
    long long ms;
    const char *text = yaml_scalar(reader);
    enum yaml_type type = yaml_scalar_type(reader);
    bool plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (plain && type == YAML_IS_TEXT && is_doubtful(text))
        return YAML_WRONG(reader,
                          "'%.100s' is ambiguous in YAML: write the number as in JSON, or quote it",
                          text);
    if (is_duration(reader, durations, &ms))
        fprintf(out, "%lld", ms);
    else if (type == YAML_IS_NULL)
        fputs("null", out);
    else if (type == YAML_IS_BOOL)
        fputs(is_true(text) ? "true" : "false", out);
    else if (type == YAML_IS_TEXT)
        write_text(out, text);
    else
        fputs(text, out);
    return true;
}

char *yaml_take_key(struct yaml_reader *reader, enum yaml_durations durations)
{
    static const char suffix[] = "_ms";
    long long ms;
    if (reader->event.type != YAML_SCALAR_EVENT) {
        (void)YAML_WRONG(reader, "keys must be plain words");
        return NULL;
    }
    size_t len = strlen(yaml_scalar(reader));
    char *key = malloc(len + sizeof suffix);
    if (key == NULL) {
        (void)yaml_no_memory(reader);
        return NULL;
    }
    memcpy(key, yaml_scalar(reader), len + 1);
    if (!yaml_next(reader)) {
        free(key);
        return NULL;
    }
    if (is_duration(reader, durations, &ms))
        memcpy(key + len, suffix, sizeof suffix);
    return key;
}

// NOLINTNEXTLINE(misc-no-recursion): to depth_max
static bool write_mapping(struct yaml_reader *reader, enum yaml_durations durations, int depth_max,
                          FILE *out)
{
    struct yaml_names names = {0};
    bool good = true;
    fputc('{', out);
    while (good && (good = yaml_next(reader)) && reader->event.type != YAML_MAPPING_END_EVENT) {
        size_t line = yaml_line(reader);
        char *key = yaml_take_key(reader, durations);
        good = key != NULL && yaml_names_add(reader, &names, key, line);
        if (good) {
            fputs(names.count > 1 ? "," : "", out);
            write_text(out, key);
            fputc(':', out);
            good = yaml_write(reader, durations, depth_max - 1, out);
        }
        free(key);
    }
    fputc('}', out);
    good = good && yaml_names_check(reader, &names);
    yaml_names_free(&names);
    return good;
}

// NOLINTNEXTLINE(misc-no-recursion): to depth_max
static bool write_sequence(struct yaml_reader *reader, enum yaml_durations durations, int depth_max,
                           FILE *out)
{
    bool good = true;
    size_t count = 0;
    fputc('[', out);
    while (good && (good = yaml_next(reader)) && reader->event.type != YAML_SEQUENCE_END_EVENT) {
        fputs(count++ > 0 ? "," : "", out);
        good = yaml_write(reader, durations, depth_max - 1, out);
    }
    fputc(']', out);
    return good;
}

// NOLINTNEXTLINE(misc-no-recursion): to depth_max
bool yaml_write(struct yaml_reader *reader, enum yaml_durations durations, int depth_max, FILE *out)
{
    switch (reader->event.type) {
    case YAML_MAPPING_START_EVENT:
    case YAML_SEQUENCE_START_EVENT:
        if (depth_max <= 0)
            return YAML_WRONG(reader, "nested too deep");
        return reader->event.type == YAML_MAPPING_START_EVENT
                   ? write_mapping(reader, durations, depth_max, out)
                   : write_sequence(reader, durations, depth_max, out);
    default:
        return write_scalar(reader, durations, out);
    }
}
