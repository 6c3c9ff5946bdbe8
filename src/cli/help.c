/* Help and the man page, both made from the descriptions of the verbs. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

enum { OPTION_WIDTH = 22 };

/* An option as one writes it: "-f, --follow" or "--queue Q". */
static void option_text(const struct option *option, char *ret, size_t size)
{
    char letter[8] = "";
    if (option->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(ret, size, "%s%s%s%s%s", letter, option->name, option->value != NULL ? " " : "",
             option->value != NULL ? option->value : "", option->times == OPTION_MANY ? "..." : "");
}

/* What is said behind the text of an option. Dots after its value mean that it takes several, as
 * "a b", as "a,b", or each with the option again: help_overview says so. */
static const char *option_again(const struct option *option)
{
    return option->times == OPTION_REPEATED ? " (or a list: a,b)" : "";
}

static void write_options(const struct option *options)
{
    for (; options != NULL && options->name != NULL; options++) {
        char text[128];
        option_text(options, text, sizeof text);
        printf("  %-*s%s%s%s\n", OPTION_WIDTH, text,
               strlen(text) < OPTION_WIDTH ? "  "
                                           : "\n"
                                             "                          ",
               options->text, option_again(options));
    }
}

static void usage_text(const struct verb *verb, char *ret, size_t size)
{
    const char *command = (verb->takes & TAKES_COMMAND) != 0          ? " -- COMMAND..."
                          : (verb->takes & TAKES_COMMAND_OR_NOT) != 0 ? " [-- COMMAND...]"
                                                                      : "";
    char required[128] = "";
    for (const struct option *o = verb->options; o != NULL && o->name != NULL; o++) {
        size_t len = strlen(required);
        if (o->required && len + 1 < sizeof required) {
            required[len] = ' ';
            option_text(o, required + len + 1, sizeof required - len - 1);
        }
    }
    snprintf(ret, size, "pawl %s%s%s%s [OPTION]...%s", verb->name,
             verb->arguments != NULL ? " " : "", verb->arguments != NULL ? verb->arguments : "",
             required, command);
}

void help_write(const struct verb *verb)
{
    char usage[256];
    usage_text(verb, usage, sizeof usage);
    printf("usage: %s\n\n%s\n", usage, verb->about);
    write_options(verb->options);
    write_options(cli_common_options(verb));
    if (verb->examples != NULL)
        printf("\n"
               "Examples:\n"
               "\n"
               "%s",
               verb->examples);
}

void help_overview(void)
{
    fputs("Pawl runs jobs that survive crashes, retries and long waits.\n"
          "\n"
          "usage: pawl COMMAND [ARGUMENT]... [OPTION]...\n",
          stdout);
    for (size_t i = 0; i < cli_verb_count; i++)
        if (cli_verbs[i].verb == NULL)
            printf("\n%s:\n", cli_verbs[i].title);
        else
            printf("  %-11s %s\n", cli_verbs[i].verb->name, cli_verbs[i].verb->summary);
    fputs("\n"
          "Run 'pawl help COMMAND' for details.\n"
          "\n"
          "An option with several values takes them in a row (--kind a b), separated by commas\n"
          "(--kind a,b), or repeated. A job id can be shortened to its first digits, as long as\n"
          "they are unique.\n"
          "\n"
          "The store is given by --store (default: PAWL_STORE, then sqlite:pawl.db).\n"
          "\n"
          "Exit codes: 0 done, 1 the operation failed, 2 wrong usage, 3 not found,\n"
          "4 conflict, 5 store or server unavailable.\n",
          stdout);
}

/* ---- the man page ---- */

/* Text for roff: its own signs must not be taken for instructions. */
static void roff(const char *text)
{
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\'')
            fputs("\\(aq", stdout);
        else
            fputc(*text, stdout);
        line_start = *text == '\n';
    }
}

/* Paragraphs, which empty lines divide. */
static void roff_paragraphs(const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        char line[256];
        snprintf(line, sizeof line, "%.*s", (int)len, text);
        if (len == 0) {
            puts(".PP");
        } else {
            roff(line);
            fputc('\n', stdout);
        }
        text += len + (text[len] == '\n');
    }
}

static void man_options(const struct option *options)
{
    for (; options != NULL && options->name != NULL; options++) {
        char text[128];
        option_text(options, text, sizeof text);
        fputs(".TP\n.B ", stdout);
        roff(text);
        fputc('\n', stdout);
        roff(options->text);
        roff(option_again(options));
        fputc('\n', stdout);
    }
}

static void man_verb(const struct verb *verb)
{
    char usage[256];
    usage_text(verb, usage, sizeof usage);
    fputs(".SS ", stdout);
    roff(usage);
    fputc('\n', stdout);
    roff_paragraphs(verb->about);
    man_options(verb->options);
    man_options(cli_common_options(verb));
    if (verb->examples != NULL) {
        puts(".PP\n.nf\n.RS");
        roff(verb->examples);
        puts(".RE\n.fi");
    }
}

void help_man(void)
{
    printf(".TH PAWL 1 \"\" \"pawl %s\" \"User Commands\"\n", pawl_version());
    puts(".SH NAME\npawl \\- durable jobs and workflows");
    puts(".SH SYNOPSIS\n"
         ".B pawl\n"
         ".I COMMAND\n"
         "[\\fIARGUMENT\\fR]...");
    puts(".SH DESCRIPTION\nPawl runs jobs that survive crashes, retries and long waits. Every "
         "change of a job is an event in its history; acknowledged writes are never lost.");
    puts(".SH COMMANDS");
    for (size_t i = 0; i < cli_verb_count; i++)
        if (cli_verbs[i].verb != NULL)
            man_verb(cli_verbs[i].verb);
    puts(".SH EXIT STATUS\n"
         ".TP\n"
         ".B 0\n"
         "done\n"
         ".TP\n"
         ".B 1\n"
         "the operation failed\n"
         ".TP\n"
         ".B 2\n"
         "wrong usage\n"
         ".TP\n"
         ".B 3\n"
         "not found\n"
         ".TP\n"
         ".B 4\n"
         "conflict: stale lease, wrong version, illegal transition\n"
         ".TP\n"
         ".B 5\n"
         "store or server unavailable");
    puts(".SH ENVIRONMENT\n"
         ".TP\n"
         ".B PAWL_STORE\n"
         "the store if \\-\\-store is not given (default: sqlite:pawl.db)\n"
         ".TP\n"
         ".B PAWL_TOKEN\n"
         "the access token for a server; for serve, an admin token\n"
         ".TP\n"
         ".B PAWL_CA_FILE\n"
         "a PEM file of trusted CAs for https:// (default: the system's)\n"
         ".TP\n"
         ".B PAWL_PATIENCE\n"
         "how long to retry reaching the store, like 30s (default: 10s)\n"
         ".TP\n"
         ".B NO_COLOR\n"
         "disables colours if set\n"
         ".TP\n"
         ".B USER\n"
         "the actor recorded in histories");
}
