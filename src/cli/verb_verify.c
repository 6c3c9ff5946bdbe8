#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/screen.h"
#include "cli/walk.h"

/* What has come out so far. */
struct findings {
    long long verified;
    long long broken;
    long long partial;
    char *reports; /* with --json: what will be printed, with those of the broken ones */
    size_t reports_len;
    FILE *reports_to;
    enum cli_exit code; /* of the first job that could not be looked at */
};

/* "event 3 breaks the rule digest: ...". */
static void print_violation(struct pawl_json violation)
{
    long long version = pawl_json_int(pawl_json_get(violation, "version"), 0);
    if (version > 0)
        printf("event %lld violates the rule ", version);
    else
        fputs("the stored row violates the rule ", stdout);
    print_value(pawl_json_get(violation, "rule"));
    fputs(": ", stdout);
    print_value(pawl_json_get(violation, "detail"));
    fputc('\n', stdout);
}

/* The first violation of a broken job, on a line. */
static void print_broken(const char *id, struct pawl_json report)
{
    struct pawl_json violations = pawl_json_get(report, "violations");
    struct pawl_json violation = {NULL, 0};
    long long count = 0;
    while (pawl_json_next(violations, &violation, NULL) != 0)
        count++;
    printf("%s: ", id);
    if (count > 1)
        printf("%lld violations, first: ", count);
    print_violation(pawl_json_get(violations, "0"));
}

static void print_report(const char *id, struct pawl_json report)
{
    bool ok = pawl_json_true(pawl_json_get(report, "ok")) != 0;
    bool partial = pawl_json_true(pawl_json_get(report, "partial")) != 0;
    struct pawl_json violations = pawl_json_get(report, "violations");
    struct pawl_json violation = {NULL, 0};
    print_field_text("id", id);
    print_field_text("history", !ok       ? "broken"
                                : partial ? "valid as far as can be checked: payloads erased"
                                          : "holds");
    if (pawl_json_get(report, "status").at != NULL)
        print_field_status("status", pawl_json_get(report, "status"));
    print_field("version", pawl_json_get(report, "version"));
    print_field("chain head", pawl_json_get(report, "chain_head"));
    while (pawl_json_next(violations, &violation, NULL) != 0) {
        fputs("  ", stdout);
        print_violation(violation);
    }
}

/* The report as the library gave it, with the job's id in front. To be freed; NULL: no memory. */
static char *with_id(const char *id, struct pawl_json report)
{
    size_t size = strlen(id) + report.len + sizeof "{\"id\":\"\",";
    char *text = malloc(size);
    if (text != NULL)
        snprintf(text, size, "{\"id\":\"%s\",%.*s", id, (int)(report.len - 1), report.at + 1);
    return text;
}

static enum cli_exit write_report(const struct walk *walk, const char *id, struct pawl_json report)
{
    struct findings *findings = walk->arg;
    char *text = with_id(id, report);
    if (text == NULL)
        return cli_no_memory(walk->args->verb);
    if (walk->named)
        print_answer(text);
    else
        fprintf(findings->reports_to, "%s%s", findings->broken > 1 ? "," : "", text);
    free(text);
    return CLI_DONE;
}

static enum cli_exit take_report(struct walk *walk, const char *id, struct pawl_json report)
{
    struct findings *findings = walk->arg;
    bool ok = pawl_json_true(pawl_json_get(report, "ok")) != 0;
    findings->verified++;
    findings->partial += pawl_json_true(pawl_json_get(report, "partial")) != 0;
    findings->broken += !ok;
    if (ok && !walk->named)
        return CLI_DONE;
    progress_clear(&walk->progress);
    if (cli_has(walk->args, "--json"))
        return write_report(walk, id, report);
    if (walk->named) {
        fputs(walk->count > 0 ? "\n" : "", stdout);
        print_report(id, report);
    } else {
        print_broken(id, report);
    }
    return CLI_DONE;
}

/* What the library could not even read is reported like anything else that it finds. */
static enum cli_exit take_unreadable(struct walk *walk, const char *id, const char *message)
{
    struct pawl_object *report = pawl_object_new();
    struct pawl_object *violation = pawl_object_new();
    char list[4 * sizeof((struct pawl_error *)NULL)->message];
    pawl_object_text(violation, "rule", "readable");
    pawl_object_int(violation, "version", 0);
    pawl_object_text(violation, "detail", message);
    const char *text = violation != NULL ? pawl_object_str(violation) : NULL;
    snprintf(list, sizeof list, "[%s]", text != NULL ? text : "");
    pawl_object_flag(report, "ok", 0);
    pawl_object_json(report, "violations", list);
    text = report != NULL ? pawl_object_str(report) : NULL;
    enum cli_exit code = text != NULL ? take_report(walk, id, pawl_json_read(text))
                                      : cli_no_memory(walk->args->verb);
    pawl_object_free(violation);
    pawl_object_free(report);
    return code;
}

static enum cli_exit take_failure(struct walk *walk, const char *id, const struct pawl_error *error)
{
    struct findings *findings = walk->arg;
    if (error->code == PAWL_CORRUPT)
        return take_unreadable(walk, id, error->message);
    if (error->code == PAWL_NOT_FOUND && !walk->named)
        return CLI_DONE;
    progress_clear(&walk->progress);
    enum cli_exit code = cli_failed(walk->args->verb, error);
    bool one = error->code == PAWL_NOT_FOUND || error->code == PAWL_BAD_REQUEST;
    if (one && findings->code == CLI_DONE)
        findings->code = code;
    return one ? CLI_DONE : code;
}

static enum cli_exit verify_one(struct walk *walk, const char *id)
{
    struct pawl_object *request = pawl_object_new();
    struct pawl_error error = {0};
    char *answer;
    enum cli_exit code = CLI_DONE;
    pawl_object_text(request, "id", id);
    const char *text = request != NULL ? pawl_object_str(request) : NULL;
    if (text == NULL) {
        code = cli_no_memory(walk->args->verb);
    } else if (pawl_verify(walk->pawl, text, &answer, &error) != PAWL_OK) {
        code = take_failure(walk, id, &error);
    } else {
        code = take_report(walk, id, pawl_json_read(answer));
        pawl_free(answer);
    }
    pawl_object_free(request);
    return code;
}

static void print_summary(const struct findings *findings)
{
    printf("%lld job%s verified, %lld with violations, %lld partly (redacted)\n",
           findings->verified, findings->verified == 1 ? "" : "s", findings->broken,
           findings->partial);
}

/* The same and all reports, as JSON. */
static enum cli_exit print_findings(const struct args *args, struct findings *findings)
{
    FILE *to = findings->reports_to;
    fprintf(to, "],\"verified\":%lld,\"broken\":%lld,\"partial\":%lld}", findings->verified,
            findings->broken, findings->partial);
    if (fflush(to) != 0 || ferror(to) != 0)
        return cli_no_memory(args->verb);
    print_answer(findings->reports);
    return CLI_DONE;
}

static enum cli_exit verify(const struct args *args, struct pawl *pawl, struct findings *findings)
{
    struct walk walk = {
        .args = args, .pawl = pawl, .past = "verified", .visit = verify_one, .arg = findings};
    fputs("{\"jobs\":[", findings->reports_to);
    enum cli_exit code = walk_run(&walk);
    if (code == CLI_DONE && !walk.named && cli_has(args, "--json"))
        code = print_findings(args, findings);
    else if (code == CLI_DONE && !walk.named)
        print_summary(findings);
    if (code == CLI_DONE)
        code = findings->broken > 0 ? CLI_FAILED : findings->code;
    return code;
}

static enum cli_exit run(const struct args *args)
{
    struct findings findings = {0};
    struct pawl *pawl;
    enum cli_exit code = walk_check(args);
    if (code == CLI_DONE)
        code = cli_open(args, false, &pawl);
    if (code != CLI_DONE)
        return code;
    findings.reports_to = open_memstream(&findings.reports, &findings.reports_len);
    if (findings.reports_to == NULL) {
        code = cli_no_memory(args->verb);
    } else {
        code = verify(args, pawl, &findings);
        fclose(findings.reports_to);
        free(findings.reports);
    }
    pawl_close(pawl);
    return code;
}

static const struct option options[] = {
    WALK_OPTIONS,
    {0},
};

const struct verb verb_verify = {
    .name = "verify",
    .summary = "verify the histories of jobs",
    .arguments = "[ID...]",
    .about =
        "Verifies complete histories: transitions, hash chain, leases, attempts, effects, and\n"
        "whether the job matches its events. For jobs with erased payloads it verifies what\n"
        "remains. If a violation is found, the exit code is 1.\n"
        "\n" FILTER_ABOUT,
    .options = options,
    .examples = "  pawl verify 0190163d-8694-739b-aea5-966c26f8ad91\n"
                "  pawl verify --all\n"
                "  pawl verify --filter created_after=1d --json\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
