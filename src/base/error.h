/* Error codes, and the detail that goes with one.
 *
 * Functions that can fail because of the world return an enum error_code and write what was wrong,
 * with what value, and what to do, into the caller's struct err. Outputs are untouched on failure.
 */
#ifndef PAWL_BASE_ERROR_H
#define PAWL_BASE_ERROR_H

#include "base/str.h"

enum error_code {
#define ERROR(symbol, number, name, http, exit, title) ERR_##symbol = (number),
#include "base/error.def"
#undef ERROR
};

struct err {
    enum error_code code;
    char detail[480]; /* NUL-terminated, valid UTF-8, no control characters */
};

/* What the .def file says of one code. */
struct error_info {
    enum error_code code;
    const char *name;
    int http_status;
    int exit_code;
    const char *title;
};

/* The entry of a code; never NULL for a code of the list. */
const struct error_info *error_info(enum error_code code);

/* Sets code and detail, and returns the code, so that a caller can `return err_set(...)`. Values of
 * the request may go in raw: bytes that are not printable UTF-8 come out as '?'. `err` may be NULL.
 */
enum error_code err_set(struct err *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
