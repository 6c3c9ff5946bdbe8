/* Streams that were once written, in tests/fixtures, must be readable, clean and fold to the same
 * state for ever.
 *
 * A file has a line for the job and a line for each event, as JSON. They are never changed. After a
 * change that adds something to histories, `PAWL_WRITE_FIXTURES=1 build/tests/core_test_fixtures`
 * adds a set of new files under the name of the version; the old ones stay.
 * PAWL_WRITE_FIXTURES=effects adds a life with everything that effects can do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "pawl.h"
#include "random_commands.h"
#include "scenario.h"

enum { FIXTURES_WRITTEN = 12, EVENTS_LEAST = 14, FIXTURE_BYTES_MAX = 1024 * 1024 };

/* The lines of a file. */
struct job_line {
    uint8_t id[16];
    uint8_t salt[SALT_LEN];
    struct str status;
    int64_t version;
    int64_t attempt;
    int64_t epoch;
    int64_t failures;
    uint8_t head[HASH_LEN];
};

struct event_line {
    int64_t version;
    int64_t at;
    struct str type;
    struct str actor;
    struct str correlation_id;
    struct str cause;
    struct str payload;
    uint8_t digest[HASH_LEN];
    uint8_t hash[HASH_LEN];
};

static const struct record_field job_line_fields[] = {
    RECORD_FIELD(struct job_line, id, "id", HEX),
    RECORD_FIELD(struct job_line, salt, "salt", HEX),
    RECORD_FIELD(struct job_line, status, "status", NAME),
    RECORD_FIELD(struct job_line, version, "version", INT),
    RECORD_FIELD(struct job_line, attempt, "attempt", INT),
    RECORD_FIELD(struct job_line, epoch, "epoch", INT),
    RECORD_FIELD(struct job_line, failures, "failures", INT),
    RECORD_FIELD(struct job_line, head, "head", HEX),
};
static const struct record_type job_line_record = {job_line_fields, sizeof job_line_fields /
                                                                        sizeof job_line_fields[0]};

static const struct record_field event_line_fields[] = {
    RECORD_FIELD(struct event_line, version, "version", INT),
    RECORD_FIELD(struct event_line, at, "at", INT),
    RECORD_FIELD(struct event_line, type, "type", NAME),
    RECORD_FIELD(struct event_line, actor, "actor", NAME),
    RECORD_FIELD(struct event_line, correlation_id, "correlation_id", NAME),
    RECORD_FIELD(struct event_line, cause, "cause", NAME),
    RECORD_FIELD(struct event_line, payload, "payload", TEXT),
    RECORD_FIELD(struct event_line, digest, "digest", HEX),
    RECORD_FIELD(struct event_line, hash, "hash", HEX),
};
static const struct record_type event_line_record = {
    event_line_fields, sizeof event_line_fields / sizeof event_line_fields[0]};

/* ---- writing ---- */

static void add_line(struct buf *buf, const struct record_type *type, const void *line)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    record_write(type, line, RECORD_ALL, &writer);
    json_end_object(&writer);
    buf_add_char(buf, '\n');
}

static struct job_line line_of_job(const struct job *job)
{
    struct job_line line = {
        .status = job_status_name(job->status),
        .version = job->version,
        .attempt = job->attempt,
        .epoch = job->epoch,
        .failures = job->failures,
    };
    memcpy(line.id, job->id.bytes, sizeof line.id);
    memcpy(line.salt, job->salt, SALT_LEN);
    memcpy(line.head, job->head, HASH_LEN);
    return line;
}

static struct event_line line_of_event(const struct event *event)
{
    struct event_line line = {
        .version = event->version,
        .at = event->at,
        .type = event_name(event),
        .actor = event->actor,
        .correlation_id = event->correlation_id,
        .cause = event->cause_text,
        .payload = event->payload,
    };
    memcpy(line.digest, event->digest, HASH_LEN);
    memcpy(line.hash, event->hash, HASH_LEN);
    return line;
}

static void write_fixture(struct world *world, const char *name)
{
    char path[512];
    struct buf buf;
    struct job_line job = line_of_job(&world->slice.job);
    buf_init(&buf, &world->arena, 4096);
    add_line(&buf, &job_line_record, &job);
    for (size_t i = 0; i < world->log_count; i++) {
        struct event_line line = line_of_event(&world->log[i]);
        if (event_type_class(world->log[i].type) != EVENT_CLASS_TELEMETRY)
            add_line(&buf, &event_line_record, &line);
    }
    (void)snprintf(path, sizeof path, "%s/%s-%s.jsonl", PAWL_FIXTURES, PAWL_VERSION, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(buf.at, 1, buf.len, file), buf.len);
    assert_int_equal(fclose(file), 0);
}

static void write_fixtures(void)
{
    struct world world;
    struct random_stats stats = {0};
    int written = 0;
    world_init(&world, 1);
    for (uint64_t seed = 1; written < FIXTURES_WRITTEN; seed++) {
        assert_null(random_run(&world, seed, written % 2 == 1, &stats));
        if (world.slice.job.version >= EVENTS_LEAST) {
            char name[16];
            (void)snprintf(name, sizeof name, "%02d", ++written);
            write_fixture(&world, name);
        }
    }
    world_release(&world);
}

/* Begun with a policy and a fingerprint, aborted, failed on record, followed by a begin, a wait and
 * the end. */
static void write_effects(void)
{
    struct world world;
    struct world *w = &world;
    world_init(w, 1);
    running(w);
    struct command begin = begin_of(w, "model", "{'prompt':'hello'}");
    begin.effect_begin.in_doubt = DOUBT_RETRY;
    begin.effect_begin.fingerprint =
        STR("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    do_ok(w, begin);
    do_ok(w, abort_of(w, "model", "{'message':'429','details':{'after':3}}"));
    do_ok(w, begin);
    w->now += 30000;
    do_ok(w, expire_of(1));
    w->now += 60000;
    do_ok(w, claim_by("w2", true));
    do_ok(w, with_token(begin, w->token));
    struct command commit = commit_of(w, "model", "'Dear Ada'");
    commit.effect_commit.then = THEN_BEGIN;
    commit.effect_commit.begin.key = STR("charge");
    commit.effect_commit.begin.in_doubt = DOUBT_ASK;
    do_ok(w, commit);
    commit = commit_of(w, "charge", NULL);
    commit.effect_commit.error = js(w, "{'message':'declined'}");
    commit.effect_commit.then = THEN_WAIT;
    commit.effect_commit.wait = wait_for(w, "card", 0).wait;
    do_ok(w, commit);
    do_ok(w, signal_of(w, "card", "{'number':'new'}"));
    do_ok(w, claim_by("w3", true));
    do_ok(w, begin_of(w, "charge again", "{'number':'new'}"));
    commit = commit_of(w, "charge again", "{'receipt':17}");
    commit.effect_commit.then = THEN_COMPLETE;
    commit.effect_commit.complete_result = js(w, "{'paid':true}");
    do_ok(w, commit);
    write_fixture(w, "effects");
    world_release(w);
}

/* ---- reading ---- */

static void read_line(struct str text, const struct record_type *type, struct arena *arena,
                      void *line)
{
    struct err err;
    assert_int_equal(json_check(text, FIXTURE_BYTES_MAX, "line", arena, &err), ERR_OK);
    assert_int_equal(record_read(type, text, RECORD_ALL, RECORD_STORED, "line", arena, line, &err),
                     ERR_OK);
}

static struct event event_of(struct str text, struct uuid id, struct arena *arena)
{
    struct event_line line = {0};
    struct err err;
    read_line(text, &event_line_record, arena, &line);
    struct event event = {
        .job_id = id,
        .version = line.version,
        .at = line.at,
        .type = event_type_parse(line.type),
        .type_name = line.type,
        .actor = line.actor,
        .correlation_id = line.correlation_id,
        .cause_text = line.cause,
        .payload = line.payload,
    };
    memcpy(event.digest, line.digest, HASH_LEN);
    memcpy(event.hash, line.hash, HASH_LEN);
    assert_int_equal(event_open(&event, 1, arena, &err), ERR_OK);
    return event;
}

static void check_state(const struct job *job, const struct job_line *line)
{
    assert_memory_equal(job->head, line->head, HASH_LEN);
    assert_true(str_eq(job_status_name(job->status), line->status));
    assert_int_equal(job->version, line->version);
    assert_int_equal(job->attempt, line->attempt);
    assert_int_equal(job->epoch, line->epoch);
    assert_int_equal(job->failures, line->failures);
}

/* The next line of `text`, without its end; false when there is none. */
static bool next_line(struct str *text, struct str *ret)
{
    const char *end = text->len == 0 ? NULL : memchr(text->at, '\n', text->len);
    if (end == NULL)
        return false;
    *ret = (struct str){text->at, (size_t)(end - text->at)};
    *text = (struct str){end + 1, text->len - ret->len - 1};
    return true;
}

static void check_history(const struct verify_input *input, struct arena *arena)
{
    struct verify_report report;
    struct err err;
    assert_int_equal(job_verify(input, arena, &report, &err), ERR_OK);
    for (uint32_t i = 0; i < report.violation_count; i++)
        print_error("version %lld: %.*s\n", (long long)report.violations[i].version,
                    STR_ARG(report.violations[i].detail));
    assert_int_equal(report.violation_count, 0);
}

static void check_fixture(struct str text, struct arena *arena)
{
    enum { EVENTS_MAX = 1000 };
    struct job_line job = {0};
    struct event *events = arena_zalloc(arena, EVENTS_MAX, sizeof *events);
    struct job_slice slice;
    struct str line = {NULL, 0};
    struct err err;
    size_t count = 0;
    assert_true(next_line(&text, &line));
    read_line(line, &job_line_record, arena, &job);
    struct verify_input input = {.events = events, .salt = job.salt};
    memcpy(input.id.bytes, job.id, sizeof job.id);
    job_slice_init(&slice, input.id, 1);
    while (next_line(&text, &line)) {
        assert_true(count < EVENTS_MAX);
        events[count] = event_of(line, input.id, arena);
        assert_int_equal(job_evolve(&slice, &events[count++], arena, &err), ERR_OK);
    }
    input.count = count;
    check_history(&input, arena);
    check_state(&slice.job, &job);
}

static void streams_of_every_version_replay_for_ever(void **state)
{
    (void)state;
    DIR *directory = opendir(PAWL_FIXTURES);
    struct arena arena;
    int checked = 0;
    arena_init(&arena);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[512];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", PAWL_FIXTURES, entry->d_name);
        FILE *file = fopen(path, "r");
        char *text = arena_alloc(&arena, FIXTURE_BYTES_MAX);
        assert_true(file != NULL && text != NULL);
        size_t len = fread(text, 1, FIXTURE_BYTES_MAX, file);
        (void)fclose(file);
        check_fixture((struct str){text, len}, &arena);
        arena_clear(&arena);
        checked++;
    }
    (void)closedir(directory);
    arena_release(&arena);
    assert_true(checked >= FIXTURES_WRITTEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_of_every_version_replay_for_ever),
    };
    const char *wanted = getenv("PAWL_WRITE_FIXTURES");
    if (wanted != NULL && strcmp(wanted, "effects") == 0)
        write_effects();
    else if (wanted != NULL)
        write_fixtures();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
