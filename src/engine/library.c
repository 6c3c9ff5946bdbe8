/* The functions of pawl.h that need no store: they turn the library's own types into the public
 * ones, and copy what outlives the call out of its arena. */
#include "pawl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "core/machine.h"
#include "core/plan.h"
#include "engine/answer.h"
#include "engine/library_private.h"

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

static void write_problem(struct json_writer *writer, const struct plan_problem *problem)
{
    json_begin_object(writer);
    answer_text(writer, STR("step"), problem->step);
    json_key(writer, STR("index"));
    if (problem->ordinal != PLAN_NO_STEP)
        json_put_int(writer, problem->ordinal);
    else
        json_put_null(writer);
    answer_text(writer, STR("message"), problem->message);
    json_end_object(writer);
}

static void write_problems(struct buf *buf, const struct plan_problems *problems)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    answer_bool(&writer, STR("ok"), problems->count == 0);
    answer_int(&writer, STR("steps"), problems->step_count);
    json_key(&writer, STR("problems"));
    json_begin_array(&writer);
    for (uint32_t i = 0; i < problems->count; i++)
        write_problem(&writer, &problems->at[i]);
    json_end_array(&writer);
    answer_bool(&writer, STR("more"), problems->more);
    json_end_object(&writer);
}

enum pawl_code pawl_plan_check(const char *plan, char **ret_answer, struct pawl_error *error)
{
    struct str text = str_from(plan);
    struct plan_problems problems;
    struct err err = {0};
    struct arena arena;
    struct buf buf;
    uint64_t seed;
    if (plan == NULL || ret_answer == NULL)
        return PAWL_BAD_REQUEST;
    random_fill(&seed, sizeof seed);
    arena_init(&arena);
    buf_init(&buf, &arena, 4096);
    enum error_code code = json_check_request(text, SIZE_MAX, "the plan", &arena, &err);
    if (code == ERR_OK)
        code = plan_check(json_trim(text), seed, &arena, &problems, &err);
    if (code == ERR_OK)
        write_problems(&buf, &problems);
    enum pawl_code result =
        code == ERR_OK ? copy_out(&buf, ret_answer) : library_fail(code, &err, error);
    arena_release(&arena);
    return result;
}
