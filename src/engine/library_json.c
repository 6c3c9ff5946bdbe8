/* The JSON of pawl.h: values as views of a text, and objects that are being made. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/utf8.h"
#include "pawl.h"

static const struct pawl_json none = {NULL, 0};

/* A view as base wants it; callers may have made theirs by hand. */
static struct str view(struct pawl_json value)
{
    return value.at == NULL ? (struct str){NULL, 0} : json_trim((struct str){value.at, value.len});
}

static struct pawl_json from_view(struct str value)
{
    return (struct pawl_json){value.at, value.len};
}

char *pawl_copy(const char *text)
{
    if (text == NULL)
        return NULL;
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

/* ---- reading ---- */

struct pawl_json pawl_json_read(const char *text)
{
    struct str given = str_from(text);
    struct arena arena;
    if (!str_is_set(given))
        return none;
    arena_init(&arena);
    enum error_code code = json_check_answer(given, "the text", &arena, NULL);
    arena_release(&arena);
    return code == ERR_OK ? from_view(json_trim(given)) : none;
}

enum pawl_code pawl_json_check(const char *text, struct pawl_error *error)
{
    struct str given = str_from(text);
    struct arena arena;
    struct err err = {0};
    arena_init(&arena);
    enum error_code code = json_check_answer(given, "JSON", &arena, &err);
    arena_release(&arena);
    if (code != ERR_OK && error != NULL) {
        /* Anyone who asks knows what the text is. */
        const char *detail = err.detail;
        if (strncmp(detail, "JSON: ", strlen("JSON: ")) == 0)
            detail += strlen("JSON: ");
        *error = (struct pawl_error){.code = (enum pawl_code)code};
        (void)snprintf(error->message, sizeof error->message, "%s", detail);
    }
    return (enum pawl_code)code;
}

/* Whether the raw string is `text`. Decoded only where there is something to decode. */
static bool string_is(struct str raw, struct str text)
{
    if (raw.len < 2 || raw.at[0] != '"')
        return false;
    if (memchr(raw.at, '\\', raw.len) == NULL)
        return str_eq((struct str){raw.at + 1, raw.len - 2}, text);
    struct arena arena;
    struct str decoded;
    arena_init(&arena);
    bool same = json_string(raw, &arena, &decoded) && str_eq(decoded, text);
    arena_release(&arena);
    return same;
}

static struct str find_member(struct str object, struct str name)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    if (json_object_begin(&iter, object))
        while (json_object_next(&iter, &key, &value))
            if (string_is(key, name))
                return value;
    return (struct str){NULL, 0};
}

static struct str find_element(struct str array, struct str place)
{
    struct json_iter iter;
    struct str value;
    int64_t left;
    if (json_int64(place, &left) && left >= 0 && json_array_begin(&iter, array))
        while (json_array_next(&iter, &value))
            if (left-- == 0)
                return value;
    return (struct str){NULL, 0};
}

struct pawl_json pawl_json_get(struct pawl_json value, const char *path)
{
    struct str at = view(value);
    const char *part = path == NULL ? "" : path;
    while (at.len > 0 && *part != '\0') {
        struct str name = {part, strcspn(part, ".")};
        at = at.at[0] == '[' ? find_element(at, name) : find_member(at, name);
        part += name.len;
        if (*part != '.')
            break;
        part++;
        /* A path that ends in a dot ends in a member without a name. */
        if (*part == '\0')
            at = find_member(at, STR(""));
    }
    return json_type(at) == JSON_NULL || at.len == 0 ? none : from_view(at);
}

int pawl_json_next(struct pawl_json list, struct pawl_json *item, struct pawl_json *key)
{
    assert(item != NULL);
    struct str all = view(list);
    struct str name = {NULL, 0};
    struct str value = {NULL, 0};
    struct json_iter iter;
    bool is_object = json_object_begin(&iter, all);
    bool found = is_object || json_array_begin(&iter, all);
    if (found && item->at != NULL) {
        /* The walk goes on behind the last one, which must be of this list. */
        uintptr_t start = (uintptr_t)all.at;
        uintptr_t last = (uintptr_t)item->at;
        found = last > start && last - start < all.len && item->len < all.len - (last - start);
        if (found)
            iter = (struct json_iter){item->at + item->len, all.at + all.len, false};
    }
    found = found &&
            (is_object ? json_object_next(&iter, &name, &value) : json_array_next(&iter, &value));
    *item = found ? from_view(value) : none;
    if (key != NULL)
        *key = found && is_object ? from_view(name) : none;
    return found;
}

char pawl_json_type(struct pawl_json value)
{
    struct str at = view(value);
    switch (json_type(at)) {
    case JSON_OBJECT:
        return 'o';
    case JSON_ARRAY:
        return 'a';
    case JSON_STRING:
        return 's';
    case JSON_NUMBER:
        return 'n';
    case JSON_NULL:
        return '0';
    case JSON_BOOL:
        return *str_start(at);
    case JSON_INVALID:
        break;
    }
    return 0;
}

/* C's texts end at NUL. So that nothing is cut off unseen, one inside becomes the character that
 * stands for what cannot be shown. */
static char *copy_text(struct str text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t zeros = 0;
    for (size_t i = 0; i < text.len; i++)
        zeros += text.at[i] == '\0';
    char *copy = malloc(text.len + zeros * 2 + 1);
    if (copy == NULL)
        return NULL;
    char *out = copy;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != '\0') {
            *out++ = text.at[i];
            continue;
        }
        memcpy(out, replacement, 3);
        out += 3;
    }
    *out = '\0';
    return copy;
}

char *pawl_json_text(struct pawl_json value)
{
    struct str at = view(value);
    struct str text = at;
    struct arena arena;
    char *copy = NULL;
    if (!str_is_set(at))
        return copy_text(STR(""));
    arena_init(&arena);
    bool sound = json_type(at) == JSON_STRING &&
                 json_check(at, SIZE_MAX, "the text", &arena, NULL) == ERR_OK;
    if (!sound || json_string(at, &arena, &text))
        copy = copy_text(text);
    arena_release(&arena);
    return copy;
}

long long pawl_json_int(struct pawl_json value, long long otherwise)
{
    int64_t number;
    return json_int64(view(value), &number) ? number : otherwise;
}

int pawl_json_true(struct pawl_json value)
{
    return str_eq(view(value), STR("true"));
}

int pawl_json_is(struct pawl_json value, const char *text)
{
    return text != NULL && string_is(view(value), str_from(text));
}

/* ---- writing ---- */

struct pawl_object {
    struct arena arena;
    struct buf buf; /* all but the closing brace */
    struct json_writer writer;
    bool failed;
};

struct pawl_object *pawl_object_new(void)
{
    struct pawl_object *object = malloc(sizeof *object);
    if (object == NULL)
        return NULL;
    object->failed = false;
    arena_init(&object->arena);
    buf_init(&object->buf, &object->arena, 256);
    json_writer_init(&object->writer, &object->buf);
    json_begin_object(&object->writer);
    return object;
}

void pawl_object_free(struct pawl_object *object)
{
    if (object == NULL)
        return;
    arena_release(&object->arena);
    free(object);
}

/* A text that may be written; what is not UTF-8 spoils the object. */
static bool check_text(struct pawl_object *object, const char *text)
{
    if (!utf8_valid(str_from(text)))
        object->failed = true;
    return !object->failed;
}

/* Writes the name of the next member; false when there is no sense in going on. Names may come from
 * users (of labels, for example), so that they are escaped as any text. */
static bool put_key(struct pawl_object *object, const char *key)
{
    if (object == NULL || object->failed)
        return false;
    if (key == NULL)
        object->failed = true;
    if (key == NULL || !check_text(object, key))
        return false;
    json_put_string(&object->writer, str_from(key));
    buf_add_char(&object->buf, ':');
    object->writer.after_key = true;
    return true;
}

void pawl_object_text(struct pawl_object *object, const char *key, const char *value)
{
    if (object == NULL || value == NULL || !check_text(object, value) || !put_key(object, key))
        return;
    json_put_string(&object->writer, str_from(value));
}

void pawl_object_int(struct pawl_object *object, const char *key, long long value)
{
    if (put_key(object, key))
        json_put_int(&object->writer, value);
}

void pawl_object_flag(struct pawl_object *object, const char *key, int value)
{
    if (put_key(object, key))
        json_put_bool(&object->writer, value != 0);
}

void pawl_object_json(struct pawl_object *object, const char *key, const char *value)
{
    if (object == NULL || value == NULL)
        return;
    struct pawl_json checked = pawl_json_read(value);
    if (checked.at == NULL)
        object->failed = true;
    if (put_key(object, key))
        json_put_raw(&object->writer, view(checked));
}

void pawl_object_list(struct pawl_object *object, const char *key, const char *const *values,
                      size_t count)
{
    if (object == NULL || values == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        if (values[i] != NULL && !check_text(object, values[i]))
            return;
    if (!put_key(object, key))
        return;
    json_begin_array(&object->writer);
    for (size_t i = 0; i < count; i++)
        if (values[i] != NULL)
            json_put_string(&object->writer, str_from(values[i]));
    json_end_array(&object->writer);
}

const char *pawl_object_str(struct pawl_object *object)
{
    if (object == NULL || object->failed)
        return NULL;
    /* What closes it is not counted, so that more can be added. */
    char *end = buf_reserve(&object->buf, 2);
    if (end == NULL || object->buf.failed)
        return NULL;
    end[0] = '}';
    end[1] = '\0';
    return object->buf.at;
}
