/* The log: one line for each fact, with the ids of what it is about, and never a payload, a result,
 * a message of a worker or a secret.
 *
 * A line is a JSON object: {"at", "level", "event", ...}, where `at` is when it happened, by this
 * machine's clock. Anyone who has a fact puts it into a bounded backlog and goes on; a thread of
 * the log hands the lines out, one after the other. Lines that there was no room for are dropped,
 * and a line says how many. */
#ifndef PAWL_SERVER_LOG_H
#define PAWL_SERVER_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "base/uuid.h"

struct log;

enum log_level { LOG_NONE, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log_options {
    enum log_level level; /* lines up to this are wanted */
    void (*write)(void *arg, const char *line);
    void *arg;
    size_t backlog_bytes; /* of lines that wait; 0: 1 MiB */
};

/* NULL: no memory, or no thread. */
struct log *log_open(const struct log_options *options);

/* Hands out what is waiting, within `wait_ms`, and ends. A writer that has not come back by then is
 * left alone: it gets no more lines. NULL does nothing. */
void log_close(struct log *log, int64_t wait_ms);

/* Lines up to this are wanted from now on. */
void log_set_level(struct log *log, enum log_level level);

/* How many lines were dropped; 0 for NULL. */
uint64_t log_dropped(struct log *log);

/* Whether a line of that level is wanted. A log that is NULL wants none. */
bool log_wants(const struct log *log, enum log_level level);

/* A line that is being made, on one thread. */
struct log_line {
    struct log *log;
    struct arena own;
    struct buf text;
    struct json_writer writer;
};

/* Begins a line; false: nobody wants it, and then log_end must not be called. `arena` is where it
 * is made, and is cleared; NULL: one of its own. */
bool log_begin(struct log *log, enum log_level level, struct str event, struct arena *arena,
               struct log_line *line);

/* Members. What is absent is left out; text that is not UTF-8 is left out too. */
void log_text(struct log_line *line, struct str key, struct str value);
void log_int(struct log_line *line, struct str key, int64_t value);
void log_id(struct log_line *line, struct str key, struct uuid id);
void log_hex(struct log_line *line, struct str key, const uint8_t *bytes, size_t len);

/* Hands it over. */
void log_end(struct log_line *line);

/* A fact with nothing but a text to it. */
void log_fact(struct log *log, enum log_level level, struct str event, struct str message);

#endif
