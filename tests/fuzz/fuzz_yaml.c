/* libFuzzer target: YAML as plans are written in it, on any bytes. What is taken becomes JSON
 * that jansson takes, in which nothing is said twice. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/yaml_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH_MAX = 60 };

static void fail(const char *problem, const char *text)
{
    (void)fprintf(stderr, "%s: %s\n", problem, text);
    abort();
}

/* jansson has no numbers beyond its own, which is no mistake of ours. */
static void check(const char *json, size_t len)
{
    json_error_t error;
    json_t *value = json_loadb(json, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (value == NULL && json_error_code(&error) != json_error_numeric_overflow)
        fail(error.text, json);
    json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct yaml_reader reader;
    struct complaint why = {.text = ""};
    char *json = NULL;
    size_t len = 0;
    bool empty = false;
    FILE *out = open_memstream(&json, &len);
    if (out == NULL || size > 16384 || memchr(data, '\0', size) != NULL ||
        !yaml_begin(&reader, "plan.yaml", (const char *)data, size, &why)) {
        if (out != NULL)
            (void)fclose(out);
        free(json);
        return 0;
    }
    bool good = yaml_begin_document(&reader, &empty) && !empty &&
                yaml_write(&reader, YAML_DURATIONS_IN_MS, DEPTH_MAX, out) &&
                yaml_end_document(&reader);
    yaml_end(&reader);
    (void)fclose(out);
    if (good)
        check(json, len);
    else if (!empty && why.text[0] == '\0')
        fail("a refusal without a reason", "");
    free(json);
    return 0;
}
