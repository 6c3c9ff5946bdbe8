/* How the command line says that something is wrong, or worth knowing: on stderr, in one line. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/text.h"

/* What is said may quote anything: arguments, files, what a server answered. */
static void say(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

static void say(const char *format, va_list arguments)
{
    char said[2048];
    vsnprintf(said, sizeof said, format, arguments);
    char *visible = text_visible(said, strlen(said));
    fputs(visible != NULL ? visible : "out of memory", stderr);
    fputc('\n', stderr);
    free(visible);
}

void cli_complain(const struct verb *verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "pawl %s: ", verb->name);
    say(format, arguments);
    va_end(arguments);
}

void cli_remark(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

enum cli_exit cli_usage(const struct verb *verb, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "pawl %s: ", verb->name);
    say(format, arguments);
    fprintf(stderr, "Run 'pawl help %s' for usage.\n", verb->name);
    va_end(arguments);
    return CLI_USAGE;
}

static enum cli_exit exit_of(enum pawl_code code)
{
    switch (code) {
    case PAWL_OK:
        return CLI_DONE;
    case PAWL_BAD_REQUEST:
    case PAWL_UNKNOWN_FIELD:
    case PAWL_PAYLOAD_TOO_LARGE:
    case PAWL_UNSUPPORTED_MEDIA_TYPE:
    case PAWL_UNPROCESSABLE_PLAN:
        return CLI_USAGE;
    case PAWL_NOT_FOUND:
        return CLI_NOT_FOUND;
    case PAWL_STALE_LEASE:
    case PAWL_VERSION_MISMATCH:
    case PAWL_INVALID_TRANSITION:
    case PAWL_WRONG_CORRELATION_KEY:
    case PAWL_REPLAY_MISMATCH:
    case PAWL_IDEMPOTENCY_MISMATCH:
        return CLI_CONFLICT;
    case PAWL_UNAVAILABLE:
        return CLI_OUT_OF_REACH;
    default:
        return CLI_FAILED;
    }
}

/* ---- what the library says, in the words of the command line ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The bytes of a name, one of those that | divides, with which the text starts; 0: it does not. */
static size_t name_at(const char *names, const char *text)
{
    while (*names != '\0') {
        size_t len = strcspn(names, "|");
        const char *end = text + len;
        if (strncmp(text, names, len) == 0 && !is_word(*end) && (*end != '.' || !is_word(end[1])))
            return len;
        names += len + (names[len] == '|');
    }
    return 0;
}

/* The option whose field the text starts with; NULL: none. */
static const struct option *option_at(const struct verb *verb, const char *text, bool first,
                                      size_t *ret_len)
{
    for (const struct option *o = verb->options; o != NULL && o->name != NULL; o++) {
        size_t len = o->field != NULL ? name_at(o->field, text) : 0;
        /* What might be any English word is one, unless the message begins with it. */
        if (len == 0 || (!first && strcspn(text, "_.:") >= len))
            continue;
        *ret_len = len;
        return o;
    }
    return NULL;
}

/* Reads `before` and the number of milliseconds behind it, as a duration; *at moves past both. */
static bool take_duration(const char **at, const char *before, char ret[DURATION_LEN_MAX])
{
    size_t len = strlen(before);
    char *end;
    if (strncmp(*at, before, len) != 0)
        return false;
    long long ms = strtoll(*at + len, &end, 10);
    if (end == *at + len)
        return false;
    duration_write(ms, ret);
    *at = end;
    return true;
}

/* The library tells durations as numbers of milliseconds: in its bounds, which begin a message, and
 * when it compares two, which ends one. */
static bool reword_bounds(const struct option *option, const char *rest, char *ret, size_t size)
{
    char min[DURATION_LEN_MAX];
    char max[DURATION_LEN_MAX];
    char said[DURATION_LEN_MAX];
    if (!take_duration(&rest, " must be a whole number from ", min) ||
        !take_duration(&rest, " to ", max) || !take_duration(&rest, ", not ", said))
        return false;
    snprintf(ret, size, "%s must be from %s to %s, not %s", option->name, min, max, said);
    return true;
}

static void reword_order(char *message, size_t size)
{
    char more[DURATION_LEN_MAX];
    char less[DURATION_LEN_MAX];
    char *but = strstr(message, ", but ");
    const char *at = but;
    if (but != NULL && take_duration(&at, ", but ", more) &&
        take_duration(&at, " is more than ", less))
        snprintf(but, size - (size_t)(but - message), ", but %s is more than %s", more, less);
}

static bool is_duration(const struct option *option)
{
    return option != NULL && option->value != NULL && strcmp(option->value, "D") == 0;
}

/* Writes a message with the names of options in place of those of fields; what is in quotes is
 * somebody's text. A verb's own name is left out, since it is in front of all that we say. */
static void reword(const struct verb *verb, const char *message, char *ret, size_t size)
{
    size_t len = strlen(verb->name);
    size_t used = 0;
    bool quoted = false;
    bool duration = false;
    if (strncmp(message, verb->name, len) == 0 && strncmp(message + len, ": ", 2) == 0)
        message += len + 2;
    for (const char *at = message; *at != '\0' && used + 1 < size;) {
        bool start = !quoted && (at == message || (!is_word(at[-1]) && at[-1] != '.'));
        const struct option *option = start ? option_at(verb, at, at == message, &len) : NULL;
        duration = duration || (at == message && is_duration(option));
        if (duration && at == message && reword_bounds(option, at + len, ret, size))
            return;
        if (option != NULL) {
            snprintf(ret + used, size - used, "%s", option->name);
            used += strlen(ret + used);
            at += len;
            continue;
        }
        quoted = quoted != (*at == '"');
        ret[used++] = *at++;
    }
    ret[used] = '\0';
    if (duration)
        reword_order(ret, size);
}

/* What a refusal is about: a route ("POST /v1/jobs"), or, of an older server, a verb. */
static size_t subject_of(const char *message)
{
    size_t len = strcspn(message, " ");
    bool route = len > 0 && strspn(message, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == len &&
                 message[len] == ' ' && message[len + 1] == '/';
    return route ? len + 1 + strcspn(message + len + 1, " ") : len;
}

/* A server speaks of headers and of routes; here a token comes from PAWL_TOKEN, and the user knows
 * the command that was typed. */
static void reword_refusal(const struct pawl_error *error, char *ret, size_t size)
{
    static const char needs[] = " requires a token";
    static const char all[] = " concerns all queues";
    const char *token = getenv("PAWL_TOKEN");
    const char *rest = error->message + subject_of(error->message);
    if (error->code == PAWL_UNAUTHORIZED)
        snprintf(ret, size, "%s",
                 token != NULL && *token != '\0' ? "the server rejected the token in PAWL_TOKEN"
                                                 : "the server requires a token: set PAWL_TOKEN");
    else if (strncmp(rest, needs, strlen(needs)) == 0 || strncmp(rest, all, strlen(all)) == 0)
        snprintf(ret, size, "this%s", rest);
    else
        snprintf(ret, size, "%s", error->message);
}

enum cli_exit cli_failed(const struct verb *verb, const struct pawl_error *error)
{
    char message[2 * sizeof error->message];
    /* What is in a plan did not come from options. */
    if (error->code == PAWL_UNPROCESSABLE_PLAN)
        snprintf(message, sizeof message, "%s", error->message);
    else if (error->code == PAWL_UNAUTHORIZED || error->code == PAWL_FORBIDDEN)
        reword_refusal(error, message, sizeof message);
    else
        reword(verb, error->message, message, sizeof message);
    cli_complain(verb, "%s", message[0] != '\0' ? message : pawl_code_text(error->code));
    return exit_of(error->code);
}

enum cli_exit cli_no_memory(const struct verb *verb)
{
    cli_complain(verb, "out of memory");
    return CLI_FAILED;
}
