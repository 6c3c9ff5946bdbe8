/* The log: which lines there are, what is in them and what never is, and that nobody waits for
 * whoever writes them. */
#include "server/log.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/times.h"
#include "engine/desk.h"
#include "server/log_events.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define SECRET "sesame"

enum { CLOSE_MS = 20 * 1000 };

/* ---- whoever writes ---- */

struct paper {
    char text[64 * 1024];
    size_t len;
    size_t lines;
    int64_t last_at;       /* when what the last line tells happened */
    pthread_mutex_t *door; /* NULL: it is open */
    atomic_int came;       /* to the door */
};

/* Every line begins with when it happened. What follows it, with a brace. */
static const char *without_time(const char *line, int64_t *ret_at)
{
    static const char begin[] = "{\"at\":\"";
    size_t len = sizeof begin - 1;
    assert_memory_equal(line, begin, len);
    assert_true(time_parse((struct str){line + len, TIME_TEXT_LEN}, ret_at));
    assert_memory_equal(line + len + TIME_TEXT_LEN, "\",", 2);
    return line + len + TIME_TEXT_LEN + 2;
}

static void write_down(void *arg, const char *line)
{
    struct paper *paper = arg;
    (void)atomic_fetch_add(&paper->came, 1);
    if (paper->door != NULL) {
        pthread_mutex_lock(paper->door);
        pthread_mutex_unlock(paper->door);
    }
    int len = snprintf(paper->text + paper->len, sizeof paper->text - paper->len, "{%s\n",
                       without_time(line, &paper->last_at));
    assert_true(len > 0 && (size_t)len < sizeof paper->text - paper->len);
    paper->len += (size_t)len;
    paper->lines++;
}

static struct log *open_log(struct paper *paper, enum log_level level)
{
    const struct log_options options = {.level = level, .write = write_down, .arg = paper};
    struct log *log = log_open(&options);
    assert_non_null(log);
    return log;
}

/* ---- lines ---- */

static void a_line_is_one_json_object_whatever_is_in_it(void **state)
{
    static struct paper paper;
    struct log_line line;
    struct log *log = open_log(&paper, LOG_DEBUG);
    (void)state;
    paper = (struct paper){.len = 0};
    assert_true(log_begin(log, LOG_WARN, STR("it_happened"), NULL, &line));
    log_text(&line, STR("name"), STR("a\"b\\c\nd\x1b[31m\x7f"));
    log_text(&line, STR("absent"), (struct str){NULL, 0});
    log_text(&line, STR("no_utf8"), STR("\xff\xfe"));
    log_int(&line, STR("n"), -7);
    log_end(&line);
    log_fact(log, LOG_ERROR, STR("store_away"), STR("the store is unavailable"));
    log_close(log, CLOSE_MS);
    assert_string_equal(paper.text, "{\"level\":\"warn\",\"event\":\"it_happened\",\"name\":"
                                    "\"a\\\"b\\\\c\\nd\\u001b[31m\x7f\",\"n\":-7}\n"
                                    "{\"level\":\"error\",\"event\":\"store_away\",\"message\":"
                                    "\"the store is unavailable\"}\n");
}

static void lines_that_nobody_wants_are_not_made(void **state)
{
    static struct paper paper;
    struct log_line line;
    (void)state;
    paper = (struct paper){.len = 0};
    assert_false(log_wants(NULL, LOG_ERROR));
    log_fact(NULL, LOG_ERROR, STR("a"), STR("b"));
    struct log *log = open_log(&paper, LOG_WARN);
    assert_false(log_begin(log, LOG_INFO, STR("a"), NULL, &line));
    assert_true(log_wants(log, LOG_ERROR));
    log_set_level(log, LOG_INFO);
    assert_true(log_wants(log, LOG_INFO));
    log_fact(log, LOG_INFO, STR("a"), STR("b"));
    log_set_level(log, LOG_ERROR);
    log_fact(log, LOG_WARN, STR("c"), STR("d"));
    log_close(log, CLOSE_MS);
    assert_string_equal(paper.text, "{\"level\":\"info\",\"event\":\"a\",\"message\":\"b\"}\n");
}

static void a_writer_that_stalls_holds_nobody_up_and_costs_lines(void **state)
{
    enum { LINES = 1000 };
    static struct paper paper;
    pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
    const struct log_options options = {
        .level = LOG_INFO, .write = write_down, .arg = &paper, .backlog_bytes = 4096};
    (void)state;
    paper = (struct paper){.door = &door};
    struct log *log = log_open(&options);
    assert_non_null(log);
    pthread_mutex_lock(&door);
    for (int i = 0; i < LINES; i++)
        log_fact(log, LOG_INFO, STR("one"), STR("of many"));
    pthread_mutex_unlock(&door);
    log_close(log, CLOSE_MS);
    /* Twice when the writer began late: what was dropped before it did, and after. */
    static const char words[] = "log_lines_dropped\",\"count\":";
    long count = 0;
    long told = 0;
    for (const char *at = strstr(paper.text, words); at != NULL; at = strstr(at + 1, words)) {
        count += strtol(at + strlen(words), NULL, 10);
        told++;
    }
    assert_true(told == 1 || told == 2);
    assert_true(count > LINES / 2);
    assert_int_equal((long)paper.lines - told + count, LINES);
}

static void a_line_says_when_it_happened_and_not_when_it_was_written(void **state)
{
    static struct paper paper;
    pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
    (void)state;
    paper = (struct paper){.door = &door};
    struct log *log = open_log(&paper, LOG_INFO);
    pthread_mutex_lock(&door);
    int64_t before = clock_wall_ms();
    log_fact(log, LOG_INFO, STR("first"), STR("is held up"));
    log_fact(log, LOG_INFO, STR("second"), STR("waits behind it"));
    int64_t after = clock_wall_ms();
    while (clock_wall_ms() < after + 20)
        clock_pause(1);
    pthread_mutex_unlock(&door);
    log_close(log, CLOSE_MS);
    assert_int_equal(paper.lines, 2);
    assert_in_range(paper.last_at, before, after);
}

static int count_threads(void)
{
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    assert_non_null(threads);
    while (readdir(threads) != NULL)
        count++;
    (void)closedir(threads);
    return count;
}

static void a_writer_that_never_comes_back_does_not_keep_the_log_open(void **state)
{
    static struct paper paper;
    static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
    (void)state;
    paper = (struct paper){.door = &door};
    int threads = count_threads();
    struct log *log = open_log(&paper, LOG_INFO);
    pthread_mutex_lock(&door);
    log_fact(log, LOG_INFO, STR("first"), STR("is held up"));
    while (atomic_load(&paper.came) == 0)
        clock_pause(1);
    log_fact(log, LOG_INFO, STR("second"), STR("is never told"));
    int64_t start = clock_monotonic_ms();
    log_close(log, 50);
    assert_in_range(clock_monotonic_ms() - start, 50, CLOSE_MS);
    pthread_mutex_unlock(&door);
    while (count_threads() > threads)
        clock_pause(1);
    assert_int_equal(atomic_load(&paper.came), 1);
}

/* ---- what the engine does ---- */

struct notes {
    struct log_events events;
    struct paper paper;
};

static void committed(void *arg, const struct batch_report *report)
{
    struct notes *notes = ((struct desk *)arg)->notes;
    if (notes != NULL)
        log_committed(&notes->events, report);
}

static void failed(void *arg, enum error_code code)
{
    struct notes *notes = ((struct desk *)arg)->notes;
    log_failed(&notes->events, code);
}

static void shed(void *arg)
{
    struct notes *notes = ((struct desk *)arg)->notes;
    log_shed(&notes->events);
}

static const struct observer watcher = {.committed = committed, .failed = failed, .shed = shed};

static void begin(struct desk *desk, struct notes *notes, enum log_level level)
{
    memset(notes, 0, sizeof *notes);
    log_events_init(&notes->events, open_log(&notes->paper, level));
    desk->notes = notes;
}

/* Ends it, and puts ID where `id` was. */
static const char *lines_of(struct desk *desk, struct notes *notes, const char *id)
{
    struct buf text;
    log_close(notes->events.log, CLOSE_MS);
    log_events_release(&notes->events);
    desk->notes = NULL;
    buf_init(&text, &desk->arena, notes->paper.len + 1);
    const char *rest = notes->paper.text;
    for (const char *at = strstr(rest, id); at != NULL; at = strstr(rest, id)) {
        buf_add(&text, (struct str){rest, (size_t)(at - rest)});
        buf_add(&text, STR("ID"));
        rest = at + strlen(id);
    }
    buf_add(&text, str_from(rest));
    buf_add_char(&text, '\0');
    assert_false(text.failed);
    assert_null(strstr(text.at, SECRET));
    return text.at;
}

/* Exactly these, one after the other. */
static void lines_are(const char *lines, const char *const *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(lines, expected[i], strlen(expected[i])) != 0)
            fail_msg("%s is not found here: %.400s", expected[i], lines);
        lines += strlen(expected[i]);
    }
    assert_string_equal(lines, "");
}

static const char *claim(struct desk *desk)
{
    (void)well(desk, VERB_claim, "{\"worker_id\":\"w\"}");
    return said(desk, "claims.0.lease.token");
}

#define LINE(level, event, version)                                                                \
    "{\"level\":\"" level "\",\"event\":\"" event "\",\"job_id\":\"ID\",\"version\":" #version     \
    ",\"kind\":\"mail\",\"queue\":\"q\""
#define HOLDER(attempt) ",\"attempt\":" #attempt ",\"worker_id\":\"w\""
#define ENDING ",\"correlation_id\":\"c1\",\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\"}\n"

static void fail_and_die(struct desk *desk)
{
    static struct notes notes;
    begin(desk, &notes, LOG_INFO);
    (void)well(desk, VERB_submit,
               "{\"kind\":\"mail\",\"queue\":\"q\",\"correlation_id\":\"c1\",\"payload\":\"" SECRET
               "\",\"lease_ttl_ms\":1000,\"retry\":{\"max_attempts\":2,\"initial_ms\":1},"
               "\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"}");
    const char *id = said(desk, "id");
    const char *token = claim(desk);
    (void)well(desk, VERB_heartbeat, "{\"token\":\"%s\",\"progress\":\"" SECRET "\"}", token);
    (void)well(desk, VERB_fail,
               "{\"token\":\"%s\",\"error\":{\"message\":\"" SECRET "\",\"details\":\"" SECRET
               "\"}}",
               token);
    let_time_pass(desk, 1000);
    (void)claim(desk);
    let_time_pass(desk, 5000);
    (void)well(desk, VERB_requeue, "{\"id\":\"%s\",\"reason\":\"" SECRET "\"}", id);
    (void)well(desk, VERB_cancel, "{\"id\":\"%s\",\"reason\":\"" SECRET "\"}", id);
    static const char *const expected[] = {
        LINE("info", "job_requeued", 4) HOLDER(1) ",\"error_class\":\"transient\"",
        ",\"failures\":1,\"cause\":\"fail\",\"actor\":\"w\"" ENDING,
        LINE("warn", "job_dead_lettered", 7) HOLDER(2) ",\"reason\":\"exhausted_retries\"",
        ",\"error_class\":\"timeout\",\"failures\":2,\"cause\":\"expire\",\"actor\":"
        "\"pawl\"" ENDING,
        LINE("info", "job_requeued", 8) ",\"attempt\":2",
        ",\"cause\":\"requeue\",\"actor\":\"ann\"" ENDING,
        LINE("info", "job_cancelled", 9) ",\"attempt\":2",
        ",\"cause\":\"cancel\",\"actor\":\"ann\"" ENDING,
    };
    lines_are(lines_of(desk, &notes, id), expected, COUNT(expected));
}

static void a_known_life_gives_exactly_these_lines(void **state)
{
    (void)state;
    at_every_watched_desk(fail_and_die, &watcher);
}

static void live_quietly(struct desk *desk)
{
    static struct notes notes;
    begin(desk, &notes, LOG_INFO);
    (void)well(desk, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(desk, "id");
    (void)well(desk, VERB_complete, "{\"token\":\"%s\"}", claim(desk));
    assert_string_equal(lines_of(desk, &notes, id), "");
    begin(desk, &notes, LOG_DEBUG);
    (void)well(desk, VERB_submit, "{\"kind\":\"mail\",\"queue\":\"q\"}");
    id = said(desk, "id");
    const char *token = claim(desk);
    (void)well(desk, VERB_effect_begin, "{\"token\":\"%s\",\"key\":\"k\"}", token);
    (void)well(desk, VERB_effect_commit, "{\"token\":\"%s\",\"key\":\"k\"}", token);
    (void)well(desk, VERB_complete, "{\"token\":\"%s\"}", token);
    const char *lines = lines_of(desk, &notes, id);
    static const char *const expected[] = {
        LINE("debug", "job_created", 1) ",\"cause\":\"submit\",\"actor\":\"ann\"}\n",
        LINE("debug", "job_leased", 2) HOLDER(1) ",\"cause\":\"claim\",\"actor\":\"w\"}\n",
        LINE("debug", "job_running", 3) HOLDER(1) ",\"cause\":\"claim\",\"actor\":\"w\"}\n",
        LINE("debug", "tool_called", 4)
            HOLDER(1) ",\"key\":\"k\",\"cause\":\"effect_begin\",\"actor\":\"w\"}\n",
        LINE("debug", "tool_returned", 5)
            HOLDER(1) ",\"key\":\"k\",\"cause\":\"effect_commit\",\"actor\":\"w\"}\n",
        LINE("debug", "job_completed", 6) HOLDER(1) ",\"cause\":\"complete\",\"actor\":\"w\"}\n",
    };
    lines_are(lines, expected, COUNT(expected));
}

static void ordinary_life_is_for_debug(void **state)
{
    (void)state;
    at_every_watched_desk(live_quietly, &watcher);
}

static void operate(struct desk *desk)
{
    static struct notes notes;
    begin(desk, &notes, LOG_INFO);
    (void)well(desk, VERB_pause, "{\"queue\":\"q\"}");
    (void)well(desk, VERB_resume, "{\"queue\":\"q\"}");
    (void)well(desk, VERB_kind_set, "{\"kind\":\"mail\",\"timeout_ms\":1000}");
    (void)well(desk, VERB_token_create, "{\"name\":\"ci\",\"scopes\":[\"read\",\"work\"]}");
    const char *id = said(desk, "id");
    const char *token = said(desk, "token");
    (void)well(desk, VERB_token_revoke, "{\"id\":\"%s\"}", id);
    const char *lines = lines_of(desk, &notes, id);
    assert_null(strstr(lines, token));
    assert_string_equal(lines,
                        "{\"level\":\"info\",\"event\":\"queue_paused\",\"queue\":\"q\"}\n"
                        "{\"level\":\"info\",\"event\":\"queue_resumed\",\"queue\":\"q\"}\n"
                        "{\"level\":\"info\",\"event\":\"kind_set\",\"kind\":\"mail\"}\n"
                        "{\"level\":\"info\",\"event\":\"token_created\",\"token_id\":\"ID\","
                        "\"name\":\"ci\",\"scopes\":\"read,work\"}\n"
                        "{\"level\":\"info\",\"event\":\"token_revoked\",\"token_id\":\"ID\"}\n");
}

static void what_operators_do_is_told(void **state)
{
    (void)state;
    at_every_watched_desk(operate, &watcher);
}

static void trouble_is_told_once_and_not_every_time(void **state)
{
    static struct notes notes;
    struct desk desk = {.clock = 0};
    (void)state;
    arena_init(&desk.arena);
    begin(&desk, &notes, LOG_WARN);
    for (int i = 0; i < 100; i++) {
        watcher.failed(&desk, ERR_UNAVAILABLE);
        watcher.shed(&desk);
    }
    assert_string_equal(lines_of(&desk, &notes, "?"),
                        "{\"level\":\"warn\",\"event\":\"store_failed\",\"code\":\"unavailable\","
                        "\"count\":1}\n"
                        "{\"level\":\"warn\",\"event\":\"requests_shed\",\"count\":1}\n");
    arena_release(&desk.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_json_object_whatever_is_in_it),
        cmocka_unit_test(lines_that_nobody_wants_are_not_made),
        cmocka_unit_test(a_writer_that_stalls_holds_nobody_up_and_costs_lines),
        cmocka_unit_test(a_line_says_when_it_happened_and_not_when_it_was_written),
        cmocka_unit_test(a_writer_that_never_comes_back_does_not_keep_the_log_open),
        cmocka_unit_test(a_known_life_gives_exactly_these_lines),
        cmocka_unit_test(ordinary_life_is_for_debug),
        cmocka_unit_test(what_operators_do_is_told),
        cmocka_unit_test(trouble_is_told_once_and_not_every_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
