#include "cli/result.h"

#include <stdlib.h>
#include <string.h>

#include "cli/text.h"
#include "pawl.h"

char *result_clean(const char *bytes, size_t len)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    char *clean = malloc(len * (sizeof replacement - 1) + 1);
    size_t at = 0;
    if (clean == NULL)
        return NULL;
    while (len > 0) {
        size_t width;
        long character = text_character(bytes, len, &width);
        if (character > 0) {
            memcpy(clean + at, bytes, width);
            at += width;
        } else {
            memcpy(clean + at, replacement, sizeof replacement - 1);
            at += sizeof replacement - 1;
        }
        bytes += width;
        len -= width;
    }
    clean[at] = '\0';
    return clean;
}

/* A text as a JSON string. */
static char *quote(const char *text)
{
    struct pawl_object *object = pawl_object_new();
    pawl_object_text(object, "text", text);
    const char *written = pawl_object_str(object);
    char *quoted = NULL;
    if (written != NULL) {
        struct pawl_json value = pawl_json_get(pawl_json_read(written), "text");
        quoted = value.at != NULL ? strndup(value.at, value.len) : NULL;
    }
    pawl_object_free(object);
    return quoted;
}

char *result_json(const char *bytes, size_t len, bool reversible)
{
    if (len > 0 && bytes[len - 1] == '\n')
        len--;
    if (len > 0 && bytes[len - 1] == '\r')
        len--;
    if (len == 0)
        return strdup("null");

    char *text = strndup(bytes, len);
    if (text == NULL)
        return NULL;
    struct pawl_json value = {0};
    if (strlen(text) == len)
        value = pawl_json_read(text);
    if (value.at != NULL && !(reversible && pawl_json_type(value) == 's')) {
        memmove(text, value.at, value.len);
        text[value.len] = '\0';
        return text;
    }
    free(text);

    char *clean = result_clean(bytes, len);
    char *quoted = clean != NULL ? quote(clean) : NULL;
    free(clean);
    return quoted;
}
