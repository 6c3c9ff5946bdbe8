#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/progress.h"

enum {
    BATCH_JOBS_MAX = 100,
    BATCH_BYTES = 4 * 1024 * 1024,     /* a longer line goes alone, */
    LINE_BYTES_MAX = 64 * 1024 * 1024, /* up to this: as much as the library exports */
    LINE_BYTES = 64 * 1024,
};

/* Lines on their way into the store. */
struct batch {
    char *request; /* {"jobs":[..., without its end */
    size_t len;
    size_t cap;
    int count;
    long long lines[BATCH_JOBS_MAX]; /* where each of them is in the file */
    char *ids[BATCH_JOBS_MAX];
};

struct import {
    const struct args *args;
    const char *name; /* of the file, for people */
    FILE *file;
    char *line;
    size_t line_cap;
    long long line_number;
    struct batch batch;
    struct pawl *pawl; /* NULL: not opened yet */
    struct progress progress;
    long long imported;
    long long present;
};

/* ---- reading ---- */

static bool reserve(char **text, size_t *cap, size_t len)
{
    size_t wanted = *cap < LINE_BYTES ? LINE_BYTES : *cap;
    while (wanted < len)
        wanted *= 2;
    if (wanted == *cap)
        return true;
    char *more = realloc(*text, wanted);
    if (more == NULL)
        return false;
    *text = more;
    *cap = wanted;
    return true;
}

static enum cli_exit wrong_line(const struct import *import, const char *what)
{
    cli_complain(import->args->verb, "line %lld: %s", import->line_number, what);
    return CLI_FAILED;
}

/* Reads the next line. *ret_len is -1 at the end. */
static enum cli_exit read_line(struct import *import, long long *ret_len)
{
    size_t len = 0;
    bool any = false;
    int c;
    assert(import->file != NULL);
    import->line_number++;
    while ((c = getc_unlocked(import->file)) != EOF && c != '\n') {
        any = true;
        if (len == LINE_BYTES_MAX)
            return wrong_line(import, "the line is longer than any exported job");
        if (len + 2 > import->line_cap && !reserve(&import->line, &import->line_cap, len + 2))
            return cli_no_memory(import->args->verb);
        import->line[len++] = (char)c;
    }
    if (c == EOF && ferror(import->file) != 0) {
        cli_complain(import->args->verb, "cannot read %s: %s", import->name, strerror(errno));
        return CLI_FAILED;
    }
    if (len > 0)
        import->line[len] = '\0';
    *ret_len = c == EOF && !any ? -1 : (long long)len;
    return CLI_DONE;
}

/* ---- writing ---- */

static void batch_clear(struct batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        pawl_free(batch->ids[i]);
    batch->count = 0;
    batch->len = 0;
}

static bool batch_put(struct batch *batch, const char *text, size_t len)
{
    if (!reserve(&batch->request, &batch->cap, batch->len + len + 1))
        return false;
    memcpy(batch->request + batch->len, text, len);
    batch->len += len;
    batch->request[batch->len] = '\0';
    return true;
}

/* The place in a request that is named at the start of a text: "jobs[7]". -1: none. */
static int place_at(const char *text, const char **ret_end)
{
    static const char start[] = "jobs[";
    char *end;
    if (strncmp(text, start, sizeof start - 1) != 0)
        return -1;
    long place = strtol(text + sizeof start - 1, &end, 10);
    if (*end != ']' || place < 0 || place >= BATCH_JOBS_MAX)
        return -1;
    *ret_end = end + 1;
    return (int)place;
}

/* Says what the library refused. It counts the jobs of a request, people the lines of a file. */
static enum cli_exit refuse(const struct import *import, const struct pawl_error *error)
{
    struct pawl_error said = {.code = error->code};
    const char *from = error->message;
    size_t len = 0;
    while (*from != '\0' && len + 1 < sizeof said.message) {
        int place = place_at(from, &from);
        if (place >= 0 && place < import->batch.count)
            len += (size_t)snprintf(said.message + len, sizeof said.message - len, "line %lld",
                                    import->batch.lines[place]);
        else
            said.message[len++] = *from++;
    }
    enum cli_exit code = cli_failed(import->args->verb, &said);
    return code == CLI_USAGE ? CLI_FAILED : code; /* it is the file that is wrong */
}

static enum cli_exit send_batch(struct import *import)
{
    struct batch *batch = &import->batch;
    struct pawl_error error = {0};
    enum cli_exit code = CLI_DONE;
    char *text = NULL;
    if (batch->count == 0)
        return CLI_DONE;
    if (!batch_put(batch, "]}", 2))
        return cli_no_memory(import->args->verb);
    if (import->pawl == NULL)
        code = cli_open_for(import->args, pawl_import, batch->request, &import->pawl, &error);
    if (code != CLI_DONE)
        return code;
    if (import->pawl == NULL ||
        pawl_import(import->pawl, batch->request, &text, &error) != PAWL_OK) {
        progress_clear(&import->progress);
        return refuse(import, &error);
    }
    struct pawl_json answer = pawl_json_read(text);
    import->imported += pawl_json_int(pawl_json_get(answer, "imported"), 0);
    import->present += pawl_json_int(pawl_json_get(answer, "present"), 0);
    pawl_free(text);
    batch_clear(batch);
    progress_show(&import->progress, import->imported + import->present);
    return CLI_DONE;
}

static bool is_in(const struct batch *batch, const char *id)
{
    for (int i = 0; i < batch->count; i++)
        if (strcmp(batch->ids[i], id) == 0)
            return true;
    return false;
}

static enum cli_exit add(struct import *import, size_t len)
{
    struct batch *batch = &import->batch;
    struct pawl_json job = pawl_json_read(import->line);
    enum cli_exit code = CLI_DONE;
    if (strlen(import->line) != len || pawl_json_type(job) != 'o')
        return wrong_line(import, "this is not an exported job; is the file truncated?");
    char *id = pawl_json_text(pawl_json_get(job, "id"));
    /* One that comes twice is found present the second time, wherever it stands. */
    if (id == NULL)
        code = cli_no_memory(import->args->verb);
    else if (batch->count == BATCH_JOBS_MAX || batch->len + len > BATCH_BYTES || is_in(batch, id))
        code = send_batch(import);
    const char *begin = batch->count == 0 ? "{\"jobs\":[" : ",";
    if (code == CLI_DONE &&
        (!batch_put(batch, begin, strlen(begin)) || !batch_put(batch, import->line, len)))
        code = cli_no_memory(import->args->verb);
    if (code != CLI_DONE) {
        pawl_free(id);
        return code;
    }
    batch->lines[batch->count] = import->line_number;
    batch->ids[batch->count++] = id;
    return CLI_DONE;
}

static bool is_blank(const char *line, size_t len)
{
    return len == 0 || strspn(line, " \t\r") == len;
}

static enum cli_exit import_all(struct import *import)
{
    long long len = 0;
    enum cli_exit code = CLI_DONE;
    while (code == CLI_DONE && len >= 0) {
        code = read_line(import, &len);
        if (code == CLI_DONE && len >= 0 && !is_blank(import->line, (size_t)len))
            code = add(import, (size_t)len);
    }
    return code == CLI_DONE ? send_batch(import) : code;
}

static void print_counts(const struct import *import)
{
    if (cli_has(import->args, "--json"))
        printf("{\"imported\":%lld,\"present\":%lld}\n", import->imported, import->present);
    else
        printf("%lld imported, %lld already present\n", import->imported, import->present);
}

static enum cli_exit open_input(const struct args *args, struct import *import)
{
    const char *said = cli_word(args, 0);
    if (said == NULL && isatty(STDIN_FILENO) == 1)
        return cli_usage(args->verb, "missing input: FILE, or - for stdin");
    if (said == NULL || strcmp(said, "-") == 0) {
        import->name = "stdin";
        import->file = stdin;
        return CLI_DONE;
    }
    import->name = said;
    import->file = fopen(said, "rb");
    if (import->file != NULL)
        return CLI_DONE;
    cli_complain(args->verb, "cannot read %s: %s", said, strerror(errno));
    return CLI_FAILED;
}

static enum cli_exit run(const struct args *args)
{
    struct import import = {.args = args, .progress = progress_begin("imported", 0)};
    enum cli_exit code = open_input(args, &import);
    if (code != CLI_DONE)
        return code;
    code = import_all(&import);
    progress_end(&import.progress);
    if (code == CLI_DONE)
        print_counts(&import);
    else if (code != CLI_OUT_OF_REACH)
        cli_complain(args->verb, "%s: nothing from line %lld on was imported", import.name,
                     import.batch.count > 0 ? import.batch.lines[0] : import.line_number);
    batch_clear(&import.batch);
    free(import.batch.request);
    free(import.line);
    if (import.file != stdin)
        fclose(import.file);
    pawl_close(import.pawl);
    return code;
}

const struct verb verb_import = {
    .name = "import",
    .summary = "import exported jobs",
    .arguments = "[FILE]",
    .about =
        "Imports jobs with their histories, as written by 'pawl export', from a file or from\n"
        "stdin (- or no file). Creates the store if it does not exist. Every history is verified\n"
        "before it is imported. Jobs that already exist with the same history are skipped. The\n"
        "import stops at the first invalid line; after a correction it can be run again.\n",
    .examples = "  pawl import jobs.ndjson\n"
                "  pawl export --all | pawl import --store postgres://db/pawl\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
