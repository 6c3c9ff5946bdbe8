#include "cli/serve_log.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/text.h"
#include "cli/when.h"

enum { SAY_MS = 1000 }; /* how long a line of our own waits for stderr */

/* ---- for people ---- */

/* The names of members on a terminal, where they are shorter. */
static const char *shown_name(const char *name)
{
    static const char *const shorter[][2] = {
        {"job_id", "job"},        {"worker_id", "worker"}, {"resource_id", "resource"},
        {"error_class", "error"}, {"token_id", "token"},   {"correlation_id", "correlation"},
        {"trace_id", "trace"},
    };
    for (size_t i = 0; i < sizeof shorter / sizeof shorter[0]; i++)
        if (strcmp(name, shorter[i][0]) == 0)
            return shorter[i][1];
    return name;
}

/* A value, quoted where it would not be seen where it ends. */
static void write_value(FILE *out, struct pawl_json value)
{
    char *text = pawl_json_text(value);
    char *visible = text != NULL ? text_visible(text, strlen(text)) : NULL;
    bool plain = visible != NULL && *visible != '\0' && strpbrk(visible, " \"=") == NULL;
    if (plain)
        fputs(visible, out);
    else if (visible != NULL) {
        char *raw = text_visible_json(value.at, value.len);
        fputs(raw != NULL ? raw : "?", out);
        free(raw);
    }
    free(visible);
    pawl_free(text);
}

/* What is shown without its name, `before` in front of it. */
static void write_bare(FILE *out, const char *before, struct pawl_json value, int width)
{
    if (value.at == NULL)
        return;
    char *text = pawl_json_text(value);
    char *visible = text != NULL ? text_visible(text, strlen(text)) : NULL;
    fprintf(out, "%s%-*s", before, width, visible != NULL ? visible : "?");
    free(visible);
    pawl_free(text);
}

/* The time of day, of "2026-01-01T12:30:01.123Z". */
static void write_time(FILE *out, struct pawl_json at)
{
    char *text = pawl_json_text(at);
    char *visible = text != NULL ? text_visible(text, strlen(text)) : NULL;
    size_t date = strlen("2026-01-01T");
    fprintf(out, "%.8s ", visible != NULL && strlen(visible) > date ? visible + date : "?");
    free(visible);
    pawl_free(text);
}

static bool is_shown_first(const char *name)
{
    return strcmp(name, "at") == 0 || strcmp(name, "level") == 0 || strcmp(name, "event") == 0 ||
           strcmp(name, "message") == 0;
}

static void write_line(FILE *out, struct pawl_json line)
{
    struct pawl_json item = {0};
    struct pawl_json key;
    write_time(out, pawl_json_get(line, "at"));
    write_bare(out, "", pawl_json_get(line, "level"), 5);
    write_bare(out, "  ", pawl_json_get(line, "event"), 0);
    write_bare(out, "  ", pawl_json_get(line, "message"), 0);
    while (pawl_json_next(line, &item, &key)) {
        char *name = pawl_json_text(key);
        if (name != NULL && !is_shown_first(name)) {
            fprintf(out, "  %s=", shown_name(name));
            write_value(out, item);
        }
        pawl_free(name);
    }
}

char *serve_log_text(const char *json)
{
    struct pawl_json line = pawl_json_read(json);
    char *text = NULL;
    size_t len = 0;
    FILE *out = pawl_json_type(line) == 'o' ? open_memstream(&text, &len) : NULL;
    if (out == NULL)
        return NULL;
    write_line(out, line);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- lines ---- */

static void write_out(bool terminal, const char *json)
{
    char *text = terminal ? serve_log_text(json) : NULL;
    if (!terminal || text != NULL)
        fprintf(stderr, "%s\n", terminal ? text : json);
    free(text);
}

void serve_log_line(void *arg, const char *json)
{
    struct serve_log *log = arg;
    (void)pthread_mutex_lock(&log->lock);
    write_out(log->terminal, json);
    (void)pthread_mutex_unlock(&log->lock);
}

/* Writes it, unless stderr takes nothing for a while. */
static void write_in_time(struct serve_log *log, const char *json)
{
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SAY_MS / 1000;
    if (pthread_mutex_timedlock(&log->lock, &until) != 0)
        return;
    if (poll(&ready, 1, SAY_MS) == 1)
        write_out(log->terminal, json);
    (void)pthread_mutex_unlock(&log->lock);
}

/* `url` may be NULL. On a terminal it is part of the message. */
static void say_line(struct serve_log *log, enum pawl_log_level level, const char *event,
                     const char *message, const char *url, int port)
{
    static const char *const names[] = {[PAWL_LOG_ERROR] = "error",
                                        [PAWL_LOG_WARN] = "warn",
                                        [PAWL_LOG_INFO] = "info",
                                        [PAWL_LOG_DEBUG] = "debug"};
    char at[WHEN_LEN_MAX];
    if (level > log->level)
        return;
    struct pawl_object *line = pawl_object_new();
    when_write(when_now(), at);
    pawl_object_text(line, "at", at);
    pawl_object_text(line, "level", names[level]);
    pawl_object_text(line, "event", event);
    pawl_object_text(line, "message", message);
    if (url != NULL && !log->terminal) {
        pawl_object_text(line, "url", url);
        pawl_object_int(line, "port", port);
    }
    const char *written = pawl_object_str(line);
    if (written != NULL)
        write_in_time(log, written);
    pawl_object_free(line);
}

void serve_log_say(struct serve_log *log, enum pawl_log_level level, const char *event,
                   const char *message)
{
    say_line(log, level, event, message, NULL, 0);
}

void serve_log_started(struct serve_log *log, const char *store, const char *address, int port,
                       bool tls)
{
    /* Where it listens on every address, this machine has a name for itself. */
    bool everywhere =
        *address == '\0' || strcmp(address, "0.0.0.0") == 0 || strcmp(address, "[::]") == 0;
    char url[320];
    char message[800];
    (void)snprintf(url, sizeof url, "%s://%s:%d/", tls ? "https" : "http",
                   everywhere ? "localhost" : address, port);
    if (log->terminal)
        (void)snprintf(message, sizeof message, "serving %.150s at %s", store, url);
    else
        (void)snprintf(message, sizeof message, "serving %.150s at %s on port %d%s", store,
                       *address == '\0' ? "all addresses" : address, port, tls ? " with TLS" : "");
    say_line(log, PAWL_LOG_INFO, "server_started", message, url, port);
}
