/* What a program says of its job: by its exit code, and by what it has printed, as a JSON value and
 * back. */
#ifndef PAWL_CLI_RESULT_H
#define PAWL_CLI_RESULT_H

#include <stdbool.h>
#include <stddef.h>

enum { RESULT_BYTES_MAX = 1024 * 1024 };

/* Exit codes that mean something to 'pawl work': not to be tried again, or not here. */
enum {
    EXIT_VALIDATION = 65, /* EX_DATAERR of sysexits.h */
    EXIT_RESOURCE = 69,   /* EX_UNAVAILABLE: of a step, to be tried on another resource */
    EXIT_PERMANENT = 77,  /* EX_NOPERM */
};

/* A copy of a text in which everything that is not UTF-8, and each NUL, is replaced by U+FFFD. To
 * be freed; NULL: no memory. */
char *result_clean(const char *bytes, size_t len);

/* What was printed, without the line end behind it: as it is where it is JSON, else as a string.
 * With `reversible` a JSON string counts as text too: then pawl_json_text gives back what was
 * printed. Nothing at all is null. To be freed; NULL: no memory. */
char *result_json(const char *bytes, size_t len, bool reversible);

#endif
