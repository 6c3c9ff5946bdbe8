/* Which store a verb works on, how it is opened, and how it is asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/screen.h"
#include "cli/text.h"

/* Of the environment; NULL: it is not there, or empty. */
static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

const char *cli_store_url(const struct args *args)
{
    const char *said = cli_value(args, "--store");
    if (said != NULL)
        return said;
    const char *url = setting("PAWL_STORE");
    return url != NULL ? url : "sqlite:pawl.db";
}

/* Takes the passwords out of keywords: password=VALUE or password = 'VALUE'. */
static void hide_keywords(char *text)
{
    for (char *at = strstr(text, "password"); at != NULL; at = strstr(at, "password")) {
        at += strlen("password");
        at += strspn(at, " ");
        if (*at != '=')
            continue;
        at++;
        char *end = at + strspn(at, " ");
        char stop = *end == '\'' ? '\'' : ' ';
        for (end += stop == '\''; *end != '\0' && *end != stop; end++)
            end += *end == '\\' && end[1] != '\0';
        end += *end == '\'';
        memmove(at, end, strlen(end) + 1);
    }
}

char *cli_url_text(const char *url)
{
    char *text = text_visible(url, strlen(url));
    if (text == NULL)
        return NULL;
    /* user:password@host, and password=... behind the question mark. */
    char *host = strstr(text, "://");
    if (host == NULL && strncmp(text, "sqlite:", strlen("sqlite:")) != 0)
        hide_keywords(text);
    if (host == NULL)
        return text;
    host += 3;
    char *end = host + strcspn(host, "/?");
    char *at = end;
    while (at > host && *at != '@')
        at--;
    char *colon = memchr(host, ':', (size_t)(end - host));
    if (*at == '@' && colon != NULL && colon < at)
        memmove(colon, at, strlen(at) + 1);
    char *password = strstr(text, "password=");
    if (password != NULL) {
        char *value = password + strlen("password=");
        memmove(value, value + strcspn(value, "&"), strlen(value + strcspn(value, "&")) + 1);
    }
    return text;
}

const char *cli_user(void)
{
    enum { LEN_MAX = 64 };
    const char *user = getenv("USER");
    if (user == NULL || user[0] == '\0' || strlen(user) > LEN_MAX)
        return NULL;
    for (const char *c = user; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~')
            return NULL;
    return user;
}

/* How long to try. */
static enum cli_exit read_patience(const struct args *args, int *ret_ms)
{
    enum { LONGEST_MS = 24 * 60 * 60 * 1000 };
    const char *said = setting("PAWL_PATIENCE");
    long long ms = 10 * 1000;
    if (said != NULL && (!duration_parse(said, &ms) || ms < 1 || ms > LONGEST_MS))
        return cli_usage(args->verb,
                         "PAWL_PATIENCE must be a duration from 1ms to 24h, like 30s, not '%s'",
                         said);
    *ret_ms = (int)ms;
    return CLI_DONE;
}

/* Whether a store in memory takes the request. */
static bool rehearse(cli_call call, const char *request, struct pawl_error *refusal)
{
    struct pawl *pawl;
    char *answer;
    if (pawl_open("memory:", NULL, &pawl, refusal) != PAWL_OK)
        return false;
    bool taken = call(pawl, request, &answer, refusal) == PAWL_OK;
    if (taken)
        pawl_free(answer);
    pawl_close(pawl);
    return taken;
}

/* What to do when there is no store. */
struct creation {
    bool wanted;
    cli_call call; /* NULL: nothing is to be tried first */
    const char *request;
    struct pawl_error *refusal;
};

static enum cli_exit make_store(const struct args *args, const struct creation *creation,
                                struct pawl_options *options, struct pawl **ret_pawl)
{
    const char *url = cli_store_url(args);
    struct pawl_error error = {0};
    enum cli_exit result = CLI_DONE;
    if (creation->call != NULL && !rehearse(creation->call, creation->request, creation->refusal)) {
        *ret_pawl = NULL;
        return CLI_DONE;
    }
    char *shown = cli_url_text(url);
    options->create = 1;
    if (!creation->wanted) {
        cli_complain(args->verb,
                     "no store at %s; 'pawl serve', 'pawl submit' and 'pawl work --create' "
                     "create one, --store names another",
                     shown != NULL ? shown : "that address");
        result = CLI_OUT_OF_REACH;
    } else if (pawl_open(url, options, ret_pawl, &error) == PAWL_OK) {
        cli_remark("created %s", shown != NULL ? shown : "the store");
    } else {
        result = cli_failed(args->verb, &error);
    }
    free(shown);
    return result;
}

static enum cli_exit open_store(const struct args *args, const struct creation *creation,
                                struct pawl **ret_pawl)
{
    struct pawl_error error = {0};
    char actor[80];
    const char *user = cli_user();
    snprintf(actor, sizeof actor, "cli%s%s", user != NULL ? ":" : "", user != NULL ? user : "");
    struct pawl_options options = {
        .actor = actor, .token = setting("PAWL_TOKEN"), .ca_file = setting("PAWL_CA_FILE")};
    enum cli_exit result = read_patience(args, &options.patience_ms);
    if (result != CLI_DONE)
        return result;
    enum pawl_code code = pawl_open(cli_store_url(args), &options, ret_pawl, &error);
    if (code == PAWL_OK)
        return CLI_DONE;
    return code == PAWL_NOT_FOUND ? make_store(args, creation, &options, ret_pawl)
                                  : cli_failed(args->verb, &error);
}

enum cli_exit cli_open(const struct args *args, bool create, struct pawl **ret_pawl)
{
    const struct creation creation = {.wanted = create};
    return open_store(args, &creation, ret_pawl);
}

enum cli_exit cli_open_for(const struct args *args, cli_call call, const char *request,
                           struct pawl **ret_pawl, struct pawl_error *refusal)
{
    const struct creation creation = {
        .wanted = true, .call = call, .request = request, .refusal = refusal};
    return open_store(args, &creation, ret_pawl);
}

enum cli_exit cli_ask(const struct args *args, struct pawl *pawl, cli_call call,
                      struct pawl_object *request, char **ret_answer)
{
    struct pawl_error error = {0};
    enum cli_exit result = CLI_DONE;
    const char *text = request != NULL ? pawl_object_str(request) : NULL;
    if (text == NULL)
        result = cli_no_memory(args->verb);
    else if (call(pawl, text, ret_answer, &error) != PAWL_OK)
        result = cli_failed(args->verb, &error);
    pawl_object_free(request);
    return result;
}

enum cli_exit cli_do_one(const struct args *args, struct pawl *pawl, cli_call call, const char *id,
                         const char *done)
{
    struct pawl_object *request = pawl_object_new();
    char *answer = NULL;
    pawl_object_text(request, "id", id);
    enum cli_exit code = cli_ask(args, pawl, call, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        print_value(pawl_json_get(pawl_json_read(answer), "id"));
        printf(": %s\n", done);
    }
    pawl_free(answer);
    return CLI_DONE;
}

enum cli_exit cli_ask_once(const struct args *args, cli_call call, struct pawl_object *request,
                           char **ret_answer)
{
    struct pawl *pawl;
    enum cli_exit result = cli_open(args, false, &pawl);
    if (result != CLI_DONE) {
        pawl_object_free(request);
        return result;
    }
    result = cli_ask(args, pawl, call, request, ret_answer);
    pawl_close(pawl);
    return result;
}

bool cli_has_ended(const char *status)
{
    char *machine;
    if (pawl_machine(PAWL_MACHINE_JOB, PAWL_FORMAT_MERMAID, &machine) != PAWL_OK)
        return false;
    /* In the diagram the states in which a job ends lead to the black dot. */
    char line[64];
    snprintf(line, sizeof line, "    %s --> [*]\n", status);
    bool ended = strstr(machine, line) != NULL;
    pawl_free(machine);
    return ended;
}
