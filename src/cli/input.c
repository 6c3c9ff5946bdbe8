/* JSON that a verb is given: as an argument, in a file, or on stdin. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* More than any request may have, so that the library is the one to say that it is too large. */
enum { INPUT_BYTES_MAX = 16 * 1024 * 1024 };

/* Reads all of a file into memory. NULL: errno says why. */
static char *read_all(FILE *file, size_t *ret_len)
{
    size_t cap = 64 * 1024;
    size_t len = 0;
    char *text = malloc(cap);
    while (text != NULL) {
        len += fread(text + len, 1, cap - len - 1, file);
        if (len < cap - 1)
            break;
        char *more = cap < INPUT_BYTES_MAX ? realloc(text, cap * 2) : NULL;
        if (more == NULL) {
            errno = cap < INPUT_BYTES_MAX ? ENOMEM : EFBIG;
            free(text);
            return NULL;
        }
        text = more;
        cap *= 2;
    }
    if (text == NULL)
        return NULL;
    if (ferror(file) != 0) {
        int error = errno;
        free(text);
        errno = error;
        return NULL;
    }
    text[len] = '\0';
    *ret_len = len;
    return text;
}

enum cli_exit cli_read_file(const struct args *args, const char *path, char **ret_text)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    size_t len = 0;
    char *text = file != NULL ? read_all(file, &len) : NULL;
    int error = errno;
    if (file != NULL && !is_stdin)
        fclose(file);
    if (text == NULL) {
        cli_complain(args->verb, "cannot read %s: %s", is_stdin ? "stdin" : path, strerror(error));
        return CLI_FAILED;
    }
    if (strlen(text) != len) {
        free(text);
        return cli_usage(args->verb, "%s is not text: it contains a zero byte",
                         is_stdin ? "stdin" : path);
    }
    *ret_text = text;
    return CLI_DONE;
}

/* Says what is wrong with it. */
static enum cli_exit not_json(const struct args *args, const char *what, const char *said,
                              bool elsewhere, const struct pawl_error *error)
{
    if (error->code != PAWL_BAD_REQUEST)
        return cli_no_memory(args->verb);
    if (elsewhere)
        return cli_usage(args->verb, "%s: the content of %s is not valid JSON: %s", what,
                         said[0] == '@' ? said + 1 : "stdin", error->message);
    return cli_usage(
        args->verb,
        "%s is not valid JSON: %.100s (%s; write a string as '\"text\"' and a file as @FILE)", what,
        said, error->message);
}

enum cli_exit cli_json_input(const struct args *args, const char *what, const char *said,
                             char **ret_json)
{
    char *text = NULL;
    bool elsewhere = said[0] == '@' || strcmp(said, "-") == 0;
    if (elsewhere) {
        enum cli_exit code = cli_read_file(args, said[0] == '@' ? said + 1 : said, &text);
        if (code != CLI_DONE)
            return code;
    } else {
        text = strdup(said);
        if (text == NULL)
            return cli_no_memory(args->verb);
    }
    assert(text != NULL);
    struct pawl_error error = {0};
    struct pawl_json value = {NULL, 0};
    if (pawl_json_check(text, &error) == PAWL_OK)
        value = pawl_json_read(text);
    if (value.at == NULL) {
        free(text);
        return not_json(args, what, said, elsewhere, &error);
    }
    memmove(text, value.at, value.len);
    text[value.len] = '\0';
    *ret_json = text;
    return CLI_DONE;
}

enum cli_exit cli_json_option(const struct args *args, const char *name, char **ret_json)
{
    const char *said = cli_value(args, name);
    if (said == NULL) {
        *ret_json = NULL;
        return CLI_DONE;
    }
    return cli_json_input(args, name, said, ret_json);
}
