#include <stdio.h>

#include "cli/cli.h"
#include "cli/screen.h"

static void print_check(struct pawl_json check)
{
    bool ok = pawl_json_true(pawl_json_get(check, "ok")) != 0;
    const char *colour =
        screen_has_colours() ? screen_status_colour(ok ? "completed" : "failed") : "";
    char *name = pawl_json_text(pawl_json_get(check, "name"));
    printf("%s%-6s%s", colour, ok ? "ok" : "WRONG", *colour != '\0' ? SCREEN_PLAIN : "");
    printf("%-10s", name != NULL ? name : "?");
    print_value(pawl_json_get(check, "detail"));
    fputc('\n', stdout);
    pawl_free(name);
}

static enum cli_exit run(const struct args *args)
{
    char *text;
    enum cli_exit code = cli_ask_once(args, pawl_doctor, pawl_object_new(), &text);
    if (code != CLI_DONE)
        return code;
    struct pawl_json answer = pawl_json_read(text);
    struct pawl_json check = {NULL, 0};
    if (cli_has(args, "--json"))
        print_answer(text);
    else
        while (pawl_json_next(pawl_json_get(answer, "checks"), &check, NULL) != 0)
            print_check(check);
    if (pawl_json_true(pawl_json_get(answer, "ok")) == 0)
        code = CLI_FAILED;
    pawl_free(text);
    return code;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "check the store, its clock, its disk and its limits",
    .about =
        "Checks a store: whether it responds and how fast, its schema and clock, overdue timers,\n"
        "free disk space, limits and versions. If a check fails, the exit code is 1 and its line\n"
        "says what to do.\n",
    .examples = "  pawl doctor\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
