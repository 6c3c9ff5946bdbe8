/* The functions of pawl.h that need no store: they turn the library's own types into the public
 * ones, and copy what outlives the call out of its arena. */
#include "pawl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "core/machine.h"

/* pawl.h cannot include error.def, so the compiler compares the two lists instead. */
#define ERROR(symbol, number, name, http, exit, title)                                             \
    _Static_assert((int)PAWL_##symbol == (int)ERR_##symbol, "pawl.h and error.def agree");
#include "base/error.def"
#undef ERROR

const char *pawl_version(void)
{
    return PAWL_VERSION;
}

const char *pawl_code_text(enum pawl_code code)
{
    switch (code) {
#define ERROR(symbol, number, name, http, exit, title)                                             \
    case PAWL_##symbol:                                                                            \
        return title;
#include "base/error.def"
#undef ERROR
    }
    return "Unknown error";
}

void pawl_free(void *memory)
{
    free(memory);
}

/* What is in `buf` as a string of its own, for the caller to free. */
static enum pawl_code copy_out(const struct buf *buf, char **ret_text)
{
    if (buf->failed)
        return PAWL_NO_MEMORY;

    struct str text = buf_str(buf);
    assert(memchr(text.at, '\0', text.len) == NULL);
    char *copy = malloc(text.len + 1);
    if (copy == NULL)
        return PAWL_NO_MEMORY;

    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    *ret_text = copy;
    return PAWL_OK;
}

static bool format_from_public(enum pawl_machine_format format, enum machine_format *ret)
{
    switch (format) {
    case PAWL_FORMAT_TABLE:
        *ret = MACHINE_TABLE;
        return true;
    case PAWL_FORMAT_TSV:
        *ret = MACHINE_TSV;
        return true;
    case PAWL_FORMAT_MERMAID:
        *ret = MACHINE_MERMAID;
        return true;
    }
    return false;
}

enum pawl_code pawl_machine(enum pawl_machine_kind which, enum pawl_machine_format format,
                            char **ret_text)
{
    enum machine_format core_format;
    if (!format_from_public(format, &core_format))
        return PAWL_BAD_REQUEST;
    if (ret_text == NULL)
        return PAWL_BAD_REQUEST;
    if (which != PAWL_MACHINE_JOB && which != PAWL_MACHINE_STEP)
        return PAWL_BAD_REQUEST;

    struct arena arena;
    struct buf buf;
    arena_init(&arena);
    buf_init(&buf, &arena, 4096);
    if (which == PAWL_MACHINE_JOB)
        job_machine_write(core_format, &buf);
    else
        step_machine_write(core_format, &buf);

    enum pawl_code code = copy_out(&buf, ret_text);
    arena_release(&arena);
    return code;
}
