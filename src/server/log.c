#include "server/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/times.h"
#include "base/utf8.h"
#include "server/backlog.h"
#include "server/pool.h"

enum {
    BACKLOG_DEFAULT = 1024 * 1024,
    LINE_BYTES = 1024,
    GATHER_LINES = 256, /* or so long: the writer is not woken for every line */
    GATHER_MS = 10,
};

struct log {
    struct log_options options;
    _Atomic(enum log_level) level;
    struct backlog *backlog;
    unsigned long writer;
    pthread_mutex_t lock;   /* of what follows */
    pthread_cond_t changed; /* the writer has ended */
    bool ended;
    bool abandoned; /* nobody waits for the writer any more: it frees everything when it comes back
                     */
};

static struct str level_name(enum log_level level)
{
    static const struct str names[] = {
        [LOG_NONE] = STR_INIT("none"),   [LOG_ERROR] = STR_INIT("error"),
        [LOG_WARN] = STR_INIT("warn"),   [LOG_INFO] = STR_INIT("info"),
        [LOG_DEBUG] = STR_INIT("debug"),
    };
    return names[level];
}

/* ---- lines ---- */

bool log_wants(const struct log *log, enum log_level level)
{
    return log != NULL && level <= atomic_load_explicit(&log->level, memory_order_relaxed);
}

void log_set_level(struct log *log, enum log_level level)
{
    if (log != NULL)
        atomic_store(&log->level, level);
}

uint64_t log_dropped(struct log *log)
{
    return log == NULL ? 0 : backlog_dropped(log->backlog);
}

static void begin(struct log_line *line, enum log_level level, struct str event,
                  struct arena *arena)
{
    char at[TIME_TEXT_LEN];
    time_format(clock_wall_ms(), at);
    buf_init(&line->text, arena, LINE_BYTES);
    json_writer_init(&line->writer, &line->text);
    json_begin_object(&line->writer);
    log_text(line, STR("at"), (struct str){at, sizeof at});
    log_text(line, STR("level"), level_name(level));
    log_text(line, STR("event"), event);
}

bool log_begin(struct log *log, enum log_level level, struct str event, struct arena *arena,
               struct log_line *line)
{
    if (!log_wants(log, level))
        return false;
    line->log = log;
    arena_init(&line->own);
    if (arena != NULL)
        arena_clear(arena);
    begin(line, level, event, arena != NULL ? arena : &line->own);
    return true;
}

void log_text(struct log_line *line, struct str key, struct str value)
{
    if (!str_is_set(value) || !utf8_valid(value))
        return;
    json_key(&line->writer, key);
    json_put_string(&line->writer, value);
}

void log_int(struct log_line *line, struct str key, int64_t value)
{
    json_key(&line->writer, key);
    json_put_int(&line->writer, value);
}

void log_id(struct log_line *line, struct str key, struct uuid id)
{
    char text[UUID_TEXT_LEN];
    uuid_format(id, text);
    log_text(line, key, (struct str){text, sizeof text});
}

void log_hex(struct log_line *line, struct str key, const uint8_t *bytes, size_t len)
{
    json_key(&line->writer, key);
    json_put_hex(&line->writer, bytes, len);
}

void log_end(struct log_line *line)
{
    json_end_object(&line->writer);
    buf_add_char(&line->text, '\0');
    struct str text = buf_str(&line->text);
    if (!line->text.failed)
        (void)backlog_put(line->log->backlog, &text, 1);
    arena_release(&line->own);
}

void log_fact(struct log *log, enum log_level level, struct str event, struct str message)
{
    struct log_line line;
    if (!log_begin(log, level, event, NULL, &line))
        return;
    log_text(&line, STR("message"), message);
    log_end(&line);
}

/* ---- the thread that hands them out ---- */

static void tell_dropped(const struct log *log, uint64_t count)
{
    struct arena arena;
    struct log_line line;
    arena_init(&arena);
    begin(&line, LOG_WARN, STR("log_lines_dropped"), &arena);
    log_int(&line, STR("count"), (int64_t)count);
    json_end_object(&line.writer);
    buf_add_char(&line.text, '\0');
    if (!line.text.failed)
        log->options.write(log->options.arg, line.text.at);
    arena_release(&arena);
}

static void free_all(struct log *log)
{
    (void)pthread_cond_destroy(&log->changed);
    (void)pthread_mutex_destroy(&log->lock);
    backlog_free(log->backlog);
    free(log);
}

static bool is_abandoned(struct log *log)
{
    pthread_mutex_lock(&log->lock);
    bool abandoned = log->abandoned;
    pthread_mutex_unlock(&log->lock);
    return abandoned;
}

/* Hands out a batch; an abandoned log writes nothing more. */
static void hand_out(struct log *log, struct backlog_batch *batch)
{
    struct str line;
    while (!is_abandoned(log) && backlog_next(batch, &line))
        log->options.write(log->options.arg, line.at);
    /* They were the ones after these. */
    if (batch->dropped > 0 && !is_abandoned(log))
        tell_dropped(log, batch->dropped);
}

static void *run(void *arg)
{
    struct log *log = arg;
    struct backlog_batch batch;
    do {
        backlog_take(log->backlog, GATHER_MS, &batch);
        hand_out(log, &batch);
    } while (!batch.closed);
    pthread_mutex_lock(&log->lock);
    bool abandoned = log->abandoned;
    log->ended = true;
    pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->lock);
    if (abandoned)
        free_all(log);
    return NULL;
}

struct log *log_open(const struct log_options *options)
{
    struct log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return NULL;
    log->options = *options;
    atomic_store(&log->level, options->level);
    if (!condition_init(&log->changed)) {
        free(log);
        return NULL;
    }
    (void)pthread_mutex_init(&log->lock, NULL);
    log->backlog = backlog_new(
        options->backlog_bytes > 0 ? options->backlog_bytes : BACKLOG_DEFAULT, GATHER_LINES);
    if (log->backlog == NULL || !pool_start_thread(run, log, &log->writer)) {
        free_all(log);
        return NULL;
    }
    return log;
}

void log_close(struct log *log, int64_t wait_ms)
{
    if (log == NULL)
        return;
    struct timespec until = condition_deadline(wait_ms);
    int result = 0;
    backlog_close(log->backlog);
    pthread_mutex_lock(&log->lock);
    while (!log->ended && result != ETIMEDOUT)
        result = pthread_cond_timedwait(&log->changed, &log->lock, &until);
    bool ended = log->ended;
    log->abandoned = !ended;
    if (!ended)
        (void)pthread_detach(log->writer);
    pthread_mutex_unlock(&log->lock);
    if (!ended)
        return;
    (void)pthread_join(log->writer, NULL);
    free_all(log);
}
