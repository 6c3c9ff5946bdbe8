#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/screen.h"

/* The name of a member for people: without quotes, with spaces. */
static void name_text(struct pawl_json key, char *ret, size_t size)
{
    char *text = pawl_json_text(key);
    snprintf(ret, size, "%s", text != NULL ? text : "?");
    for (char *c = ret; *c != '\0'; c++)
        if (*c == '_')
            *c = ' ';
    pawl_free(text);
}

static void print_members(struct pawl_json object, const char *indent)
{
    struct pawl_json item = {NULL, 0};
    struct pawl_json key;
    while (pawl_json_next(object, &item, &key) != 0) {
        char name[64];
        char field[80];
        name_text(key, name, sizeof name);
        snprintf(field, sizeof field, "%s%s", indent, name);
        size_t len = strlen(name);
        if (pawl_json_type(item) == 'o' && *indent == '\0') {
            print_text(name);
            puts(":");
            print_members(item, "  ");
        } else if (len > 3 && strcmp(name + len - 3, " at") == 0) {
            print_field_time(field, pawl_json_get(item, ""));
        } else {
            print_field(field, item);
        }
    }
}

static enum cli_exit run(const struct args *args)
{
    char *answer;
    enum cli_exit code = cli_ask_once(args, pawl_stats, pawl_object_new(), &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else
        print_members(pawl_json_read(answer), "");
    pawl_free(answer);
    return CLI_DONE;
}

const struct verb verb_stats = {
    .name = "stats",
    .summary = "how many jobs there are, by status, and how much waits",
    .about = "Prints counts over the whole store.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
