/* libFuzzer target: json_check and the readers against jansson, on any bytes. */
#include <stdio.h>
#include <stdlib.h>

#include "../base/json_compare.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes the strings of a checked value again and reads them back. */
static bool survives_writing(struct str value, struct arena *arena)
{
    struct str text;
    struct str again;
    if (!json_string(value, arena, &text))
        return true;
    struct buf buf;
    struct json_writer writer;
    buf_init(&buf, arena, 0);
    json_writer_init(&writer, &buf);
    json_put_string(&writer, text);
    return json_check(buf_str(&buf), SIZE_MAX, "written", arena, NULL) == ERR_OK &&
           json_string(buf_str(&buf), arena, &again) && str_eq(text, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena);
    struct str text = {size == 0 ? "" : (const char *)data, size};
    enum json_verdict verdict = JSON_VERDICTS;
    const char *difference = json_compare(text, &arena, &verdict);
    if (difference == NULL && !survives_writing(json_trim(text), &arena))
        difference = "a string changes when it is written";
    if (difference != NULL) {
        (void)fprintf(stderr, "%s\n", difference);
        abort();
    }
    arena_release(&arena);
    return 0;
}
