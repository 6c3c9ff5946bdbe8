#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/text.h"
#include "cli/when.h"

enum { DRAIN_MS_DEFAULT = 30 * 1000 };

/* A line on stderr: text on a terminal, JSON elsewhere. */
static void say(void *arg, const char *text)
{
    const bool *terminal = arg;
    if (*terminal) {
        char *visible = text_visible(text, strlen(text));
        if (visible != NULL)
            fprintf(stderr, "%s\n", visible);
        free(visible);
        return;
    }
    char at[WHEN_LEN_MAX];
    struct pawl_object *line = pawl_object_new();
    when_write(when_now(), at);
    pawl_object_text(line, "at", at);
    pawl_object_text(line, "message", text);
    const char *written = pawl_object_str(line);
    if (written != NULL)
        fprintf(stderr, "%s\n", written);
    pawl_object_free(line);
}

/* What a flag says, else a setting, else NULL. */
static const char *flag_or_setting(const struct args *args, const char *flag, const char *setting)
{
    const char *said = cli_value(args, flag);
    if (said != NULL)
        return said;
    const char *value = getenv(setting);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* Starts it, with a new store when there is none. */
static enum cli_exit start(const struct args *args, struct pawl_server_options *options,
                           struct pawl_server **ret)
{
    struct pawl_error error = {0};
    const char *url = cli_store_url(args);
    enum pawl_code code = pawl_server_start(url, options, ret, &error);
    if (code == PAWL_NOT_FOUND) {
        options->create = 1;
        code = pawl_server_start(url, options, ret, &error);
        char *shown = cli_url_text(url);
        if (code == PAWL_OK)
            cli_remark("created %s", shown != NULL ? shown : "the store");
        free(shown);
    }
    return code == PAWL_OK ? CLI_DONE : cli_failed(args->verb, &error);
}

static void our_signals(sigset_t *ret)
{
    (void)sigemptyset(ret);
    (void)sigaddset(ret, SIGTERM);
    (void)sigaddset(ret, SIGINT);
    (void)sigaddset(ret, SIGHUP);
}

/* Waits until somebody wants the server to end. */
static void await_end(const sigset_t *ours, bool *terminal)
{
    int signal = 0;
    while (sigwait(ours, &signal) != 0 || signal == SIGHUP)
        if (signal == SIGHUP)
            say(terminal, "SIGHUP: there are no settings to read again");
}

static enum cli_exit run(const struct args *args)
{
    bool terminal = isatty(STDERR_FILENO) == 1;
    long long drain_ms = DRAIN_MS_DEFAULT;
    long long threads = 0;
    struct pawl_server *server;
    struct pawl_server_options wanted = {
        .listen = flag_or_setting(args, "--listen", "PAWL_LISTEN"),
        .certificate = flag_or_setting(args, "--certificate", "PAWL_CERTIFICATE"),
        .key = flag_or_setting(args, "--key", "PAWL_KEY"),
        .token = getenv("PAWL_TOKEN"),
        .log = say,
        .log_arg = &terminal,
    };
    if (wanted.token != NULL && *wanted.token == '\0')
        wanted.token = NULL;
    enum cli_exit code = cli_duration(args, "--drain", &drain_ms);
    if (code == CLI_DONE)
        code = cli_number(args, "--threads", 1, 64, &threads);
    if (code != CLI_DONE)
        return code;
    wanted.threads = (int)threads;

    /* The threads of the server inherit this: signals are for the wait below. */
    sigset_t ours;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    our_signals(&ours);
    (void)pthread_sigmask(SIG_BLOCK, &ours, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    code = start(args, &wanted, &server);
    if (code != CLI_DONE)
        return code;
    char line[256];
    char *shown = cli_url_text(cli_store_url(args));
    (void)snprintf(line, sizeof line, "serving %.150s on port %d%s", shown != NULL ? shown : "",
                   pawl_server_port(server), wanted.certificate != NULL ? " with TLS" : "");
    free(shown);
    say(&terminal, line);

    await_end(&ours, &terminal);
    say(&terminal, "ending: what was begun is finished; a second signal ends at once");
    /* From here on the second one ends the process as signals do. What was acknowledged stays. */
    (void)pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
    pawl_server_stop(server, drain_ms > 600 * 1000 ? 600 * 1000 : (int)drain_ms);
    return CLI_DONE;
}

static const struct option options[] = {
    {.name = "--listen", .value = "ADDR:PORT", .text = "where to listen (127.0.0.1:7295)"},
    {.name = "--certificate", .value = "FILE", .text = "a PEM certificate: serve with TLS"},
    {.name = "--key", .value = "FILE", .text = "its PEM key"},
    {.name = "--threads", .value = "N", .text = "threads that talk with clients"},
    {.name = "--drain", .value = "D", .text = "how long to finish what was begun (30s)"},
    {0},
};

const struct verb verb_serve = {
    .name = "serve",
    .summary = "serve a store over HTTP",
    .about =
        "Serves the store over HTTP: jobs, workers, streams of events. /openapi.json lists the\n"
        "routes, /healthz and /readyz tell how it is. A store that is not there is made.\n"
        "\n"
        "On an address of this machine alone (127.0.0.1, ::1) no token is asked for, but web\n"
        "pages of others and forwarded requests are refused. On any other address clients need\n"
        "a token: PAWL_TOKEN in the server's environment is one that may do everything.\n"
        "\n"
        "SIGTERM and SIGINT: no more connections and claims are taken and what was begun is\n"
        "finished. A second signal ends at once. Nothing that was acknowledged is lost.\n",
    .options = options,
    .examples = "  pawl serve\n"
                "  pawl serve --store postgres://db/pawl --listen 0.0.0.0:7295 \\\n"
                "      --certificate cert.pem --key key.pem\n",
    .takes = TAKES_STORE,
    .run = run,
};
