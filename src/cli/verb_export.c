#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/walk.h"

/* Where the jobs go. */
struct output {
    const char *path; /* NULL: stdout */
    char *part;       /* the file that becomes `path` when it is complete; NULL: it is written as
                         it is, since it is no file */
    FILE *file;
    long long exported;
    long long failed;
};

static enum cli_exit cannot_write(const struct args *args, const char *path)
{
    cli_complain(args->verb, "cannot write %s: %s", path, strerror(errno));
    return CLI_FAILED;
}

/* A file takes its name only when all is in it: what was interrupted cannot be mistaken for it. */
static enum cli_exit open_output(const struct args *args, struct output *output)
{
    struct stat status;
    const char *said = cli_value(args, "--output");
    output->file = stdout;
    if (said == NULL || strcmp(said, "-") == 0)
        return CLI_DONE;
    output->path = said;
    if (stat(said, &status) != 0 || S_ISREG(status.st_mode)) {
        size_t size = strlen(said) + sizeof ".part";
        output->part = malloc(size);
        if (output->part == NULL)
            return cli_no_memory(args->verb);
        snprintf(output->part, size, "%s.part", said);
    }
    output->file = fopen(output->part != NULL ? output->part : said, "wb");
    return output->file != NULL ? CLI_DONE : cannot_write(args, said);
}

/* Ends the file, whatever has come of it. */
static enum cli_exit close_output(const struct args *args, struct output *output, bool complete)
{
    enum cli_exit code = CLI_DONE;
    if (output->path == NULL)
        return CLI_DONE;
    bool whole = fflush(output->file) == 0 && ferror(output->file) == 0 &&
                 (output->part == NULL || fsync(fileno(output->file)) == 0);
    if (complete && !whole)
        code = cannot_write(args, output->path);
    if (fclose(output->file) != 0 && complete && whole)
        code = cannot_write(args, output->path);
    if (output->part == NULL)
        return code;
    if (!complete || code != CLI_DONE)
        (void)remove(output->part);
    else if (rename(output->part, output->path) != 0)
        code = cannot_write(args, output->path);
    return code;
}

/* On one line, whatever white space callers have put between values. */
static void write_line(FILE *file, const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\r\n");
        fwrite(text, 1, len, file);
        text += len;
        if (*text != '\0') {
            fputc(' ', file);
            text++;
        }
    }
    fputc('\n', file);
}

static enum cli_exit take(struct walk *walk, const char *answer)
{
    struct output *output = walk->arg;
    if (output->file == stdout)
        print_answer(answer);
    else
        write_line(output->file, answer);
    if (ferror(output->file) != 0)
        return cannot_write(walk->args, output->path != NULL ? output->path : "stdout");
    output->exported++;
    return CLI_DONE;
}

/* One that cannot be exported does not keep the others back, but is not forgotten either. */
static enum cli_exit take_failure(struct walk *walk, const char *id, const struct pawl_error *error)
{
    struct output *output = walk->arg;
    if (error->code == PAWL_NOT_FOUND && !walk->named)
        return CLI_DONE;
    if (error->code != PAWL_CORRUPT && error->code != PAWL_PAYLOAD_TOO_LARGE)
        return cli_failed(walk->args->verb, error);
    progress_clear(&walk->progress);
    cli_complain(walk->args->verb, "%s: %s", id, error->message);
    output->failed++;
    return CLI_DONE;
}

static enum cli_exit export_one(struct walk *walk, const char *id)
{
    struct pawl_object *request = pawl_object_new();
    struct pawl_error error = {0};
    char *answer;
    enum cli_exit code = CLI_DONE;
    pawl_object_text(request, "id", id);
    const char *text = request != NULL ? pawl_object_str(request) : NULL;
    if (text == NULL) {
        code = cli_no_memory(walk->args->verb);
    } else if (pawl_export(walk->pawl, text, &answer, &error) != PAWL_OK) {
        code = take_failure(walk, id, &error);
    } else {
        code = take(walk, answer);
        pawl_free(answer);
    }
    pawl_object_free(request);
    return code;
}

static void print_counts(const struct args *args, const struct output *output)
{
    const char *plural = output->exported == 1 ? "" : "s";
    if (output->path == NULL) {
        if (isatty(STDERR_FILENO) == 1 && !screen_is_terminal())
            cli_remark("%lld job%s exported", output->exported, plural);
    } else if (cli_has(args, "--json")) {
        printf("{\"exported\":%lld,\"failed\":%lld}\n", output->exported, output->failed);
    } else {
        printf("%lld job%s exported to ", output->exported, plural);
        print_text(output->path);
        fputc('\n', stdout);
    }
}

static enum cli_exit run(const struct args *args)
{
    struct output output = {0};
    struct walk walk = {.args = args, .past = "exported", .visit = export_one, .arg = &output};
    enum cli_exit code = walk_check(args);
    if (code == CLI_DONE)
        code = cli_open(args, false, &walk.pawl);
    if (code != CLI_DONE)
        return code;
    code = open_output(args, &output);
    if (code == CLI_DONE) {
        /* What goes to a terminal is progress enough. */
        walk.silent = output.path == NULL && screen_is_terminal();
        code = walk_run(&walk);
        enum cli_exit closed = close_output(args, &output, code == CLI_DONE);
        code = code == CLI_DONE ? closed : code;
    }
    if (code == CLI_DONE)
        print_counts(args, &output);
    if (code == CLI_DONE && output.failed > 0) {
        cli_complain(args->verb, "%lld jobs could not be exported", output.failed);
        code = CLI_FAILED;
    }
    free(output.part);
    pawl_close(walk.pawl);
    return code;
}

static const struct option options[] = {
    WALK_OPTIONS,
    {.name = "--output",
     .value = "FILE",
     .text = "output file, overwritten if it exists (default: stdout)",
     .letter = 'o'},
    {0},
};

const struct verb verb_export = {
    .name = "export",
    .summary = "export jobs with their histories",
    .arguments = "[ID...]",
    .about =
        "Writes jobs with their complete histories, one JSON line per job. 'pawl import' reads\n"
        "them into another store. Jobs with erased payloads are written as they are. The jobs\n"
        "also stay in this store: stop its workers first, or a job may run in both stores.\n"
        "\n" FILTER_ABOUT,
    .options = options,
    .examples = "  pawl export --all --output jobs.ndjson\n"
                "  pawl export --filter kind=email | pawl import - --store postgres://db/pawl\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
