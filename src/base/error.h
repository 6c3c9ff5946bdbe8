/* Error codes, and the detail that goes with one.
 *
 * Functions that can fail because of the world return an enum error_code and write what was wrong,
 * with what value, and what to do, into the caller's struct err. Outputs are untouched on failure.
 */
#ifndef PAWL_BASE_ERROR_H
#define PAWL_BASE_ERROR_H

#include <stdint.h>

#include "base/str.h"

enum error_code {
#define ERROR(symbol, number, name, http, exit, title) ERR_##symbol = (number),
#include "base/error.def"
#undef ERROR
};

struct err {
    enum error_code code;
    char cursor[64];  /* ERR_FEED_RESET: the position to go on from, NUL-terminated */
    char detail[480]; /* NUL-terminated, valid UTF-8, no control characters */
    /* ERR_BATCH_REFUSED: the operation that was refused. */
    struct {
        uint32_t index;
        enum error_code code;
        uint32_t detail_at; /* where its own detail begins in `detail` */
    } part;
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

/* Sets code and detail. `err` may be NULL. Values of the request may go in raw: bytes that are not
 * printable UTF-8 come out as '?'. */
void err_write(struct err *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* err_write, with the code as its value: `return err_set(err, ERR_NOT_FOUND, "there is no job %s",
 * id)`. A macro, so that anyone who reads the caller, compilers and analyzers included, sees which
 * code comes back. */
#define err_set(err, code, ...) (err_write((err), (code), __VA_ARGS__), (enum error_code)(code))

#endif
