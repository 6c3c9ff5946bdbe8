/* The lines that a server says on stderr: JSON, one object a line, for programs; text for people on
 * a terminal. What comes from elsewhere never reaches a terminal as it is. */
#ifndef PAWL_CLI_SERVE_LOG_H
#define PAWL_CLI_SERVE_LOG_H

#include <pthread.h>
#include <stdbool.h>

#include "pawl.h"

struct serve_log {
    bool terminal;             /* stderr is one */
    enum pawl_log_level level; /* of the lines of our own */
    pthread_mutex_t lock;      /* somebody writes */
};

/* A line of the library: the log callback of struct pawl_server_options. `arg` is a struct
 * serve_log. From any thread. */
void serve_log_line(void *arg, const char *json);

/* A line of our own. Lost when nobody reads stderr: then the server must go on, and end. */
void serve_log_say(struct serve_log *log, enum pawl_log_level level, const char *event,
                   const char *message);

/* Says that the server is there: with its URL on a terminal, else with "url" and "port" too.
 * `address` is without the port; "": all addresses. */
void serve_log_started(struct serve_log *log, const char *store, const char *address, int port,
                       bool tls);

/* Writes a line as text for people, without a newline: "12:30:01 warn  job_failed  job=... ". To be
 * freed; NULL: no memory, or no line. */
char *serve_log_text(const char *json);

#endif
