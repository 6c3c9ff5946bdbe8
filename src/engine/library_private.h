/* What the functions of pawl.h share: how an error becomes a public one. */
#ifndef PAWL_ENGINE_LIBRARY_PRIVATE_H
#define PAWL_ENGINE_LIBRARY_PRIVATE_H

#include <stdio.h>

#include "base/error.h"
#include "pawl.h"

/* Tells the caller what went wrong; the codes have the same numbers on both sides. */
static inline enum pawl_code library_fail(enum error_code code, const struct err *err,
                                          struct pawl_error *error)
{
    if (error != NULL) {
        error->code = (enum pawl_code)code;
        (void)snprintf(error->message, sizeof error->message, "%s", err->detail);
    }
    return (enum pawl_code)code;
}

#endif
