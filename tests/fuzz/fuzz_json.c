/* libFuzzer target: json_check and the readers against jansson, on any bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "../base/json_compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes a string, of a value or a key, again and reads it back. */
static bool string_survives(struct str raw, struct arena *arena)
{
    struct str text;
    struct str again;
    struct buf buf;
    struct json_writer writer;
    if (!json_string(raw, arena, &text))
        return false;
    buf_init(&buf, arena, 0);
    json_writer_init(&writer, &buf);
    json_put_string(&writer, text);
    return json_check(buf_str(&buf), SIZE_MAX, "written", arena, NULL) == ERR_OK &&
           json_string(buf_str(&buf), arena, &again) && str_eq(text, again);
}

/* The same for every string in a checked value, keys too; as deep as JSON_DEPTH_MAX. */
static bool survives_writing(struct str value, struct arena *arena)
{
    struct json_iter iter;
    struct str key;
    struct str inner;
    if (json_type(value) == JSON_STRING)
        return string_survives(value, arena);
    if (json_array_begin(&iter, value)) {
        while (json_array_next(&iter, &inner))
            if (!survives_writing(inner, arena))
                return false;
    } else if (json_object_begin(&iter, value)) {
        while (json_object_next(&iter, &key, &inner))
            if (!string_survives(key, arena) || !survives_writing(inner, arena))
                return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena);
    struct str text = {size == 0 ? "" : (const char *)data, size};
    enum json_verdict verdict = JSON_VERDICTS;
    const char *difference = json_compare(text, &arena, &verdict);
    if (difference == NULL && json_check(text, SIZE_MAX, "it", &arena, NULL) == ERR_OK &&
        !survives_writing(json_trim(text), &arena))
        difference = "a string changes when it is written";
    if (difference != NULL) {
        (void)fprintf(stderr, "%s\n", difference);
        abort();
    }
    arena_release(&arena);
    return 0;
}
