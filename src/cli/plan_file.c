#include "cli/plan_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/yaml_reader.h"

/* As deep as JSON may be. */
enum { DEPTH_MAX = 64 };

static bool ends_with(const char *path, const char *end)
{
    size_t len = strlen(path);
    return len >= strlen(end) && strcmp(path + len - strlen(end), end) == 0;
}

/* Whether a text that is not JSON was meant as YAML: its name says so, or it does not begin as
 * JSON does. */
static bool is_yaml(const char *path, const char *text)
{
    if (ends_with(path, ".yaml") || ends_with(path, ".yml"))
        return true;
    char first = text[strspn(text, " \t\r\n")];
    return !ends_with(path, ".json") && first != '{' && first != '[';
}

static bool write_document(struct yaml_reader *reader, FILE *out)
{
    bool empty;
    if (!yaml_begin_document(reader, &empty))
        return false;
    if (empty)
        return complain(reader->why, "%.200s is empty", reader->path);
    return yaml_write(reader, YAML_AS_IT_IS, DEPTH_MAX, out) && yaml_end_document(reader);
}

/* The text as JSON, to be freed. NULL: it is not YAML, and it was said why. */
static char *from_yaml(const char *path, const char *text, struct complaint *why)
{
    struct yaml_reader reader;
    char *json = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&json, &len);
    bool good = out != NULL ? yaml_begin(&reader, path, text, strlen(text), why)
                            : complain(why, "out of memory");
    if (good) {
        good = write_document(&reader, out);
        yaml_end(&reader);
    }
    if (out != NULL && fclose(out) != 0)
        good = good && complain(why, "out of memory");
    if (!good) {
        free(json);
        return NULL;
    }
    return json;
}

/* Says what is wrong with it, after `what` where that says more than the path. */
static enum cli_exit refuse(const struct args *args, const char *what, const char *text)
{
    return cli_usage(args->verb, "%s%s%s", what != NULL ? what : "", what != NULL ? ": " : "",
                     text);
}

/* Makes JSON of what was read, which is freed. */
static enum cli_exit convert(const struct args *args, const char *what, const char *path,
                             char *text, char **ret_json)
{
    struct pawl_error error = {0};
    struct complaint why = {{0}};
    enum pawl_code code = pawl_json_check(text, &error);
    if (code == PAWL_OK) {
        *ret_json = text;
        return CLI_DONE;
    }
    if (code != PAWL_BAD_REQUEST || !is_yaml(path, text)) {
        free(text);
        (void)complain(&why, "%.200s is not valid JSON: %s", path, error.message);
        return code == PAWL_BAD_REQUEST ? refuse(args, what, why.text) : cli_no_memory(args->verb);
    }
    char *json = from_yaml(path, text, &why);
    free(text);
    if (json == NULL)
        return refuse(args, what, why.text);
    /* What YAML lets pass and JSON does not: it is deeper, or too large. */
    if (pawl_json_check(json, &error) != PAWL_OK) {
        free(json);
        (void)complain(&why, "%.200s: %s", path, error.message);
        return refuse(args, what, why.text);
    }
    *ret_json = json;
    return CLI_DONE;
}

/* A list becomes the steps of a plan. Takes the JSON, and gives back JSON, to be freed. */
static enum cli_exit complete(const struct args *args, char *json, char **ret_plan)
{
    if (pawl_json_type(pawl_json_read(json)) != 'a') {
        *ret_plan = json;
        return CLI_DONE;
    }
    struct pawl_object *whole = pawl_object_new();
    pawl_object_json(whole, "steps", json);
    const char *text = whole != NULL ? pawl_object_str(whole) : NULL;
    char *plan = text != NULL ? strdup(text) : NULL;
    pawl_object_free(whole);
    free(json);
    *ret_plan = plan;
    return plan != NULL ? CLI_DONE : cli_no_memory(args->verb);
}

static enum cli_exit read_plan(const struct args *args, const char *what, const char *path,
                               char **ret_plan)
{
    char *text;
    char *json = NULL;
    enum cli_exit code = cli_read_file(args, path, &text);
    if (code == CLI_DONE)
        code = convert(args, what, strcmp(path, "-") == 0 ? "stdin" : path, text, &json);
    return code == CLI_DONE ? complete(args, json, ret_plan) : code;
}

enum cli_exit plan_input(const struct args *args, const char *what, const char *said,
                         char **ret_plan)
{
    char *json;
    if (said[0] == '@' || strcmp(said, "-") == 0)
        return read_plan(args, what, said[0] == '@' ? said + 1 : said, ret_plan);
    enum cli_exit code = cli_json_input(args, what, said, &json);
    return code == CLI_DONE ? complete(args, json, ret_plan) : code;
}

enum cli_exit plan_file(const struct args *args, const char *path, char **ret_plan)
{
    return read_plan(args, NULL, path[0] == '@' ? path + 1 : path, ret_plan);
}
