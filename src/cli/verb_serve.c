#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/notify.h"
#include "cli/serve_log.h"
#include "cli/settings.h"

enum { DRAIN_MS_DEFAULT = 30 * 1000, FILES_MAX = 65536 };

/* A line of our own in the log. */
static void say(struct serve_log *log, const char *event, const char *text)
{
    serve_log_say(log, PAWL_LOG_INFO, event, text);
}

/* The same as of printf. */
static void sayf(struct serve_log *log, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void sayf(struct serve_log *log, const char *event, const char *format, ...)
{
    char line[1200];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    say(log, event, line);
}

/* ---- settings ---- */

/* The word was checked when the settings were read. */
static enum pawl_log_level log_level_of(const char *word)
{
    static const char *const words[] = {[PAWL_LOG_ERROR] = "error",
                                        [PAWL_LOG_WARN] = "warn",
                                        [PAWL_LOG_INFO] = "info",
                                        [PAWL_LOG_DEBUG] = "debug"};
    for (int i = PAWL_LOG_ERROR; word != NULL && i <= PAWL_LOG_DEBUG; i++)
        if (strcmp(word, words[i]) == 0)
            return (enum pawl_log_level)i;
    return PAWL_LOG_INFO;
}

static struct pawl_server_options options_of(const struct settings *settings, struct serve_log *log)
{
    const long long *numbers = settings->numbers;
    return (struct pawl_server_options){
        .listen = settings->texts[SETTING_LISTEN],
        .certificate = settings->texts[SETTING_CERTIFICATE],
        .key = settings->texts[SETTING_KEY],
        .token = settings->texts[SETTING_TOKEN],
        .threads = (int)numbers[SETTING_THREADS],
        .connections_max = (int)numbers[SETTING_CONNECTIONS],
        .connections_per_client_max = (int)numbers[SETTING_CONNECTIONS_PER_CLIENT],
        .lease_ttl_ms = numbers[SETTING_LEASE_DURATION],
        .cancel_grace_ms = numbers[SETTING_CANCEL_GRACE],
        .require_tokens = numbers[SETTING_REQUIRE_TOKENS] != 0,
        .backup_dir = settings->texts[SETTING_BACKUP_DIR],
        .rate_per_s = (int)numbers[SETTING_RATE_PER_S],
        .manual_clock = settings->texts[SETTING_CLOCK] != NULL &&
                        strcmp(settings->texts[SETTING_CLOCK], "manual") == 0,
        .kinds = settings->kinds,
        .log = serve_log_line,
        .log_arg = log,
        .log_level = log_level_of(settings->texts[SETTING_LOG]),
        .otlp_endpoint = settings->texts[SETTING_OTLP_ENDPOINT],
        .otlp_traces_endpoint = settings->texts[SETTING_OTLP_TRACES_ENDPOINT],
        .otlp_headers = settings->texts[SETTING_OTLP_HEADERS],
        .otlp_ca_file = settings->texts[SETTING_OTLP_CERTIFICATE],
        .service_name = settings->texts[SETTING_SERVICE_NAME],
    };
}

/* TLS cannot be switched on or off while connections are open. */
static bool needs_restart(const struct settings *before, const struct settings *after,
                          enum setting_name name)
{
    bool is_tls = name == SETTING_CERTIFICATE || name == SETTING_KEY;
    return settings_list[name].needs_restart ||
           (is_tls && (before->texts[name] == NULL) != (after->texts[name] == NULL));
}

/* Says what has changed. */
static void say_changes(const struct settings *before, const struct settings *after,
                        struct serve_log *log)
{
    int changes = 0;
    for (int i = 0; i < SETTING_COUNT; i++) {
        enum setting_name name = (enum setting_name)i;
        const struct setting *setting = &settings_list[name];
        if (!settings_differ(before, after, name))
            continue;
        changes++;
        sayf(log, "settings_read", "%s changed%s",
             *setting->key != '\0' ? setting->key : setting->variable,
             needs_restart(before, after, name) ? "; restart the server to apply it" : "");
    }
    if (after->texts[SETTING_CERTIFICATE] != NULL && before->texts[SETTING_CERTIFICATE] != NULL)
        say(log, "settings_read", "certificate and key reloaded");
    else if (changes == 0)
        say(log, "settings_read", "no settings changed");
}

/* What needs a restart stays as it was said at the start, so that every reload says it again. */
static void keep_old(struct settings *before, struct settings *after)
{
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (!needs_restart(before, after, (enum setting_name)i))
            continue;
        char *text = after->texts[i];
        after->texts[i] = before->texts[i];
        before->texts[i] = text;
        after->numbers[i] = before->numbers[i];
    }
    char *url = after->url;
    after->url = before->url;
    before->url = url;
}

static void refuse(struct serve_log *log, const char *why)
{
    char line[1200];
    (void)snprintf(line, sizeof line, "SIGHUP: %s; settings unchanged", why);
    serve_log_say(log, PAWL_LOG_WARN, "settings_refused", line);
}

/* Reads the settings again. When something is wrong with them everything stays as it is. */
static void reload(const struct args *args, struct pawl_server *server, struct settings *settings,
                   struct serve_log *log)
{
    struct complaint why;
    struct pawl_error error = {0};
    struct settings fresh;
    if (!settings_read(args, &fresh, &why)) {
        refuse(log, why.text);
        return;
    }
    struct pawl_server_options wanted = options_of(&fresh, log);
    if (pawl_server_reload(server, &wanted, &error) != PAWL_OK) {
        refuse(log, error.message);
        settings_free(&fresh);
        return;
    }
    log->level = wanted.log_level;
    say(log, "settings_read", "SIGHUP: settings reloaded");
    say_changes(settings, &fresh, log);
    keep_old(settings, &fresh);
    settings_free(settings);
    *settings = fresh;
}

/* ---- from start to end ---- */

/* Where it listens, without the port, which the system may have chosen. */
static void address_of(const char *listen, char *ret, size_t size)
{
    const char *address = listen == NULL ? "127.0.0.1" : listen;
    const char *colon = strrchr(address, ':');
    size_t len = colon == NULL ? strlen(address) : (size_t)(colon - address);
    (void)snprintf(ret, size, "%.*s", (int)(len < size ? len : size - 1), address);
}

/* Starts it, with a new store if the file does not exist. */
static enum cli_exit start(const struct args *args, const struct settings *settings,
                           struct serve_log *log, struct pawl_server **ret)
{
    struct pawl_error error = {0};
    struct pawl_server_options wanted = options_of(settings, log);
    enum pawl_code code = pawl_server_start(settings->url, &wanted, ret, &error);
    char *shown = cli_url_text(settings->url);
    char address[256];
    address_of(wanted.listen, address, sizeof address);
    if (code == PAWL_NOT_FOUND) {
        wanted.create = 1;
        code = pawl_server_start(settings->url, &wanted, ret, &error);
        if (code == PAWL_OK)
            cli_remark("created %s", shown != NULL ? shown : "the store");
    }
    if (code == PAWL_OK)
        serve_log_started(log, shown != NULL ? shown : "", address, pawl_server_port(*ret),
                          wanted.certificate != NULL);
    free(shown);
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
static void await_end(const struct args *args, const sigset_t *ours, struct pawl_server *server,
                      struct settings *settings, struct serve_log *log)
{
    int signal = 0;
    while (sigwait(ours, &signal) != 0 || signal == SIGHUP)
        if (signal == SIGHUP) {
            notify_reloading();
            reload(args, server, settings, log);
            notify_ready();
        }
}

/* Connections are files, of which a shell often allows 1,024 though the system would allow more. */
static void allow_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= FILES_MAX)
        return;
    files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

/* Ends the server. Signals are not held back any more: a second one ends the process, as signals
 * do. What was acknowledged stays. */
static void end(struct pawl_server *server, const struct settings *settings, struct serve_log *log)
{
    long long delay_ms = settings->numbers[SETTING_DRAIN_DELAY];
    pawl_server_retire(server);
    if (delay_ms > 0) {
        struct timespec left = {.tv_sec = (time_t)(delay_ms / 1000),
                                .tv_nsec = (long)(delay_ms % 1000) * 1000 * 1000};
        sayf(log, "server_retired",
             "drain delay: serving for another %lld ms while /readyz returns 503", delay_ms);
        int slept;
        do
            slept = nanosleep(&left, &left);
        while (slept != 0 && errno == EINTR);
    }
    say(log, "server_ending",
        "shutting down: finishing open requests; a second signal exits at once");
    pawl_server_stop(server, settings->texts[SETTING_DRAIN] == NULL
                                 ? DRAIN_MS_DEFAULT
                                 : (int)settings->numbers[SETTING_DRAIN]);
}

static enum cli_exit serve(const struct args *args, struct settings *settings)
{
    /* A line that stderr does not take may be under way until the process ends. */
    static struct serve_log log = {.lock = PTHREAD_MUTEX_INITIALIZER};
    log.terminal = isatty(STDERR_FILENO) == 1;
    log.level = log_level_of(settings->texts[SETTING_LOG]);
    struct pawl_server *server;
    /* The threads of the server inherit this: signals are for the wait below. */
    sigset_t ours;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    our_signals(&ours);
    (void)pthread_sigmask(SIG_BLOCK, &ours, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    allow_files();
    enum cli_exit code = start(args, settings, &log, &server);
    if (code != CLI_DONE)
        return code;
    notify_ready();
    await_end(args, &ours, server, settings, &log);
    notify_stopping();
    /* There is nothing to read again any more. */
    (void)sigdelset(&ours, SIGHUP);
    (void)pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
    end(server, settings, &log);
    return CLI_DONE;
}

static enum cli_exit run(const struct args *args)
{
    struct complaint why;
    struct settings settings;
    if (!settings_read(args, &settings, &why)) {
        cli_complain(args->verb, "%s", why.text);
        return CLI_USAGE;
    }
    enum cli_exit code = serve(args, &settings);
    settings_free(&settings);
    return code;
}

/* A switch has nothing behind it. */
#define SHOWN_TEXT(value) value
#define SHOWN_NUMBER(value) value
#define SHOWN_DURATION(value) value
#define SHOWN_CHOICE(value) value
#define SHOWN_SWITCH(value) NULL

static const struct option options[] = {
#define SETTING(id, type, key, flag, variable, shown, min, max, change, otherwise, words)          \
    {.name = flag, .value = SHOWN_##type(shown), .text = words " (" otherwise ")"},
#define UNFLAGGED(...)
#include "cli/settings.def"
#undef SETTING
    {0},
};

const struct verb verb_serve = {
    .name = "serve",
    .summary = "serve a store over HTTP",
    .about =
        "Serves the store over HTTP: API, workers, event streams and the dashboard. /openapi.json\n"
        "lists the routes; /healthz and /readyz report the health. Creates the store if it does\n"
        "not exist.\n"
        "\n"
        "On a loopback address (127.0.0.1, ::1) no token is required, but pages of other sites\n"
        "and forwarded requests are rejected. On any other address clients need a token:\n"
        "PAWL_TOKEN in the server's environment is an admin token.\n"
        "\n"
        "Each setting can also be set in the environment (PAWL_LISTEN for --listen) or in the\n"
        "--config file (listen: ...). Precedence, highest first: command line, environment, file.\n"
        "\n"
        "SIGHUP reloads the settings and the certificate; some settings need a restart. SIGTERM\n"
        "and SIGINT shut down gracefully: /readyz returns 503, requests are served for\n"
        "--drain-delay, then no new connections and claims are accepted and open requests are\n"
        "finished. A second signal exits at once. Acknowledged writes are never lost.\n",
    .options = options,
    .examples = "  pawl serve\n"
                "  pawl serve --config /etc/pawl/pawl.yaml\n"
                "  pawl serve --store postgres://db/pawl --listen 0.0.0.0:7295 \\\n"
                "      --certificate cert.pem --key key.pem\n",
    .run = run,
};
