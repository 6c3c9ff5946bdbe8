/* Several threads: waiting for locks, seeing one moment, watching, and a small claim storm.
 *
 * Threads besides the test's own assert nothing; they note codes, which the test looks at. */
#include <pthread.h>
#include <time.h>

#include "core/retention.h"
#include "store/conformance.h"

/* ---- a thread that does one command on a job ---- */

struct actor {
    struct trial *t;
    struct uuid id;
    enum command_type type; /* CANCEL (hard), or CLAIM */
    pthread_t thread;
    enum error_code code;
    enum error_code refusal; /* of decide */
    int64_t version_seen;
    atomic_bool done;
};

static enum error_code write_of_actor(struct store_txn *txn, const struct job_slice *before,
                                      const struct decision *decision, struct arena *arena,
                                      struct err *err)
{
    struct store_job_write job = {
        .after = &decision->after,
        .events = decision->events,
        .event_count = decision->count,
        .changed = decision->after.job.changed,
        .purge_at = job_purge_at(&decision->after.job, NULL),
    };
    enum error_code code = schedule_entry_of_job(&before->job, arena, &job.was, err);
    if (code == ERR_OK)
        code = schedule_entry_of_job(&decision->after.job, arena, &job.now, err);
    struct store_write write = {.jobs = &job, .job_count = 1};
    return code != ERR_OK ? code : store_write(txn, &write, err);
}

static enum error_code decide_of_actor(struct actor *actor, const struct job_slice *slice,
                                       struct arena *arena, struct decision *ret)
{
    struct context context = {.now = actor->t->now, .random = 1, .arena = arena};
    struct command command = cancel_by(CANCEL_HARD, "by the other");
    struct err err;
    if (actor->type == COMMAND_CLAIM)
        command = claim_by("w2", true);
    memset(context.secret, 3, sizeof context.secret);
    enum error_code code = job_decide(slice, &command, &context, ret, &err);
    return code != ERR_OK ? code : decision_seal(ret, slice->job.head, arena, &err);
}

static enum error_code run_actor(struct actor *actor, struct arena *arena)
{
    struct store_job job = {.id = actor->id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_txn *txn;
    struct err err;
    enum error_code code = store_begin(actor->t->store, STORE_WRITE, &txn, &err);
    if (code != ERR_OK)
        return code;
    code = store_load(txn, &load, arena, &err);
    if (code == ERR_OK) {
        struct decision decision;
        actor->version_seen = job.slice.job.version;
        actor->refusal = decide_of_actor(actor, &job.slice, arena, &decision);
        if (actor->refusal == ERR_OK)
            code = write_of_actor(txn, &job.slice, &decision, arena, &err);
    }
    if (code != ERR_OK || actor->refusal != ERR_OK) {
        store_rollback(txn);
        return code;
    }
    enum store_outcome outcome;
    return store_commit(txn, &outcome, &err);
}

static void *actor_main(void *arg)
{
    struct actor *actor = arg;
    struct arena arena;
    arena_init(&arena);
    actor->code = run_actor(actor, &arena);
    arena_release(&arena);
    actor->done = true;
    return NULL;
}

static void start(struct actor *actor)
{
    assert_int_equal(pthread_create(&actor->thread, NULL, actor_main, actor), 0);
}

static void finish(struct actor *actor)
{
    assert_int_equal(pthread_join(actor->thread, NULL), 0);
    assert_int_equal(actor->code, ERR_OK);
}

/* Long enough that a thread which does not wait would be done. Only its passing too early is seen.
 */
static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- locks ---- */

static void a_second_load_of_a_job_waits_and_then_sees_what_the_first_did(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct actor other = {.t = t, .id = id, .type = COMMAND_CANCEL};
    start(&other);
    struct command claim = claim_by("w1", true);
    struct change change;
    ok(t, decide(t, &slice, &claim, &change));
    pause_ms(50);
    assert_false(other.done);
    ok(t, write_one(t, txn, &change));
    pause_ms(20);
    assert_false(other.done);
    commit(t, txn);
    finish(&other);
    assert_int_equal(other.version_seen, 3);
    assert_string_equal(stream(t, id), "job_created job_leased job_running job_cancelled");
}

static void a_second_load_of_a_job_goes_on_after_a_rollback(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct store_txn *txn = begin(t, STORE_WRITE);
    load_whole(t, txn, id);
    struct actor other = {.t = t, .id = id, .type = COMMAND_CANCEL};
    start(&other);
    pause_ms(20);
    assert_false(other.done);
    rollback(t, txn);
    finish(&other);
    assert_int_equal(other.version_seen, 1);
    assert_string_equal(stream(t, id), "job_created job_cancelled");
}

/* Loads one key, request or resource by itself in another thread. */
struct locker {
    struct trial *t;
    struct store_load load;
    pthread_t thread;
    enum error_code code;
    atomic_bool done;
};

static void *locker_main(void *arg)
{
    struct locker *locker = arg;
    struct arena arena;
    struct store_txn *txn;
    struct err err;
    arena_init(&arena);
    locker->code = store_begin(locker->t->store, STORE_WRITE, &txn, &err);
    if (locker->code == ERR_OK) {
        locker->code = store_load(txn, &locker->load, &arena, &err);
        store_rollback(txn);
    }
    arena_release(&arena);
    locker->done = true;
    return NULL;
}

static void assert_excludes(struct trial *t, const struct store_load *mine,
                            const struct store_load *theirs)
{
    struct store_load load = *mine;
    struct locker locker = {.t = t, .load = *theirs};
    struct store_txn *txn = begin(t, STORE_WRITE);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    assert_int_equal(pthread_create(&locker.thread, NULL, locker_main, &locker), 0);
    pause_ms(50);
    bool early = locker.done;
    rollback(t, txn);
    pthread_join(locker.thread, NULL);
    assert_false(early);
    assert_int_equal(locker.code, ERR_OK);
}

static void names_are_locked_whether_or_not_anything_has_them(void **state)
{
    struct trial *t = *state;
    struct store_key keys[] = {{.queue = STR("q"), .key = STR("k")},
                               {.queue = STR("q"), .key = STR("k")}};
    assert_excludes(t, &(struct store_load){.keys = &keys[0], .key_count = 1},
                    &(struct store_load){.keys = &keys[1], .key_count = 1});
    struct store_request requests[] = {{.scope = STR("s"), .key = STR("k")},
                                       {.scope = STR("s"), .key = STR("k")}};
    assert_excludes(t, &(struct store_load){.requests = &requests[0], .request_count = 1},
                    &(struct store_load){.requests = &requests[1], .request_count = 1});
    put_resource(t, "r1", at(1000));
    struct store_resource resources[] = {{.id = STR("r1")}, {.id = STR("r1")}};
    assert_excludes(t, &(struct store_load){.resources = &resources[0], .resource_count = 1},
                    &(struct store_load){.resources = &resources[1], .resource_count = 1});
}

static void work_that_another_transaction_is_busy_with_is_passed_over(void **state)
{
    struct trial *t = *state;
    if (t->factory->one_writer)
        skip(); /* others wait for their turn instead */
    struct uuid a = submit(t, "a");
    submit(t, "b");
    submit(t, "c");
    struct store_txn *first = begin_empty(t, NULL);
    struct store_search search = search_all(t, first, 1);
    assert_true(uuid_eq(search.found[0].slice.job.id, a));
    struct store_txn *second = begin_empty(t, NULL);
    search = search_all(t, second, 10);
    assert_int_equal(search.found_count, 2);
    assert_string_equal(name_of(t, search.found[0].slice.job.id, STEP_NONE), "b");
    rollback(t, second);
    rollback(t, first);
    assert_string_equal(ready(t), "a b c");
}

static void a_search_that_finds_only_what_is_locked_says_how_much(void **state)
{
    struct trial *t = *state;
    if (t->factory->one_writer)
        skip();
    submit(t, "a");
    submit(t, "b");
    struct store_txn *first = begin_empty(t, NULL);
    assert_int_equal(search_all(t, first, 10).found_count, 2);
    struct store_txn *second = begin_empty(t, NULL);
    struct store_search search = search_all(t, second, 10);
    assert_int_equal(search.found_count, 0);
    assert_int_equal(search.skipped_locked, 2);
    rollback(t, second);
    rollback(t, first);
    assert_string_equal(ready(t), "a b");
}

/* A job that somebody has loaded, as for a cancel, may be about to leave its lane. */
static void a_job_that_another_transaction_has_loaded_is_not_given_out(void **state)
{
    struct trial *t = *state;
    if (t->factory->one_writer)
        skip();
    struct uuid a = submit(t, "a");
    submit(t, "b");
    struct store_txn *first = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, first, a);
    struct store_txn *second = begin_empty(t, NULL);
    struct store_search search = search_all(t, second, 10);
    assert_int_equal(search.found_count, 1);
    assert_string_equal(name_of(t, search.found[0].slice.job.id, STEP_NONE), "b");
    rollback(t, second);
    struct change change;
    struct command cancel = cancel_by(CANCEL_HARD, "no");
    ok(t, decide(t, &slice, &cancel, &change));
    ok(t, write_one(t, first, &change));
    commit(t, first);
    assert_string_equal(ready(t), "b");
}

/* ---- what readers see ---- */

static void nothing_is_seen_before_it_is_committed(void **state)
{
    struct trial *t = *state;
    if (t->factory->one_at_a_time)
        skip(); /* nobody can look */
    struct uuid id = submit(t, "a");
    struct store_txn *txn = begin(t, STORE_WRITE);
    struct job_slice slice = load_whole(t, txn, id);
    struct command claim = claim_by("w1", true);
    struct change change;
    ok(t, decide(t, &slice, &claim, &change));
    ok(t, write_one(t, txn, &change));
    assert_int_equal(whole(t, id).job.version, 1);
    assert_string_equal(stream(t, id), "job_created");
    commit(t, txn);
    assert_int_equal(whole(t, id).job.version, 3);
}

static void a_reader_sees_one_moment_while_others_commit(void **state)
{
    struct trial *t = *state;
    if (t->factory->one_at_a_time)
        skip();
    struct uuid a = submit(t, "a");
    settle_feed(t);
    struct store_txn *reader = begin(t, STORE_READ);
    struct job_slice before = load_whole(t, reader, a);
    assert_int_equal(before.job.version, 1);
    act(t, a, claim_by("w1", true));
    submit(t, "b");
    struct store_job *jobs;
    struct event *events;
    struct store_fed *fed;
    uint32_t count;
    ok(t, store_list(reader, &(struct store_filter){.limit = 10}, &t->w.arena, &jobs, &count,
                     &t->w.err));
    assert_int_equal(count, 1);
    assert_int_equal(jobs[0].slice.job.version, 1);
    ok(t, store_events(
              reader, &(struct store_stream){.job = a, .after = 0, .limit = 10, .telemetry = false},
              &t->w.arena, &events, &count, &t->w.err));
    assert_int_equal(count, 1);
    ok(t, store_feed(reader, (struct store_position){0}, 10, &t->w.arena, &fed, &count, &t->w.err));
    assert_int_equal(count, 1);
    rollback(t, reader);
    assert_int_equal(whole(t, a).job.version, 3);
}

/* What was committed before is in its rows here, since submit has read it. */
static void a_reader_waits_for_no_writer(void **state)
{
    struct trial *t = *state;
    if (t->factory->one_at_a_time)
        skip();
    struct uuid id = submit(t, "a");
    struct store_txn *txn = begin(t, STORE_WRITE);
    load_whole(t, txn, id);
    assert_int_equal(whole(t, id).job.version, 1);
    rollback(t, txn);
}

/* ---- watching ---- */

struct watcher {
    struct trial *t;
    uint64_t seen;
    int64_t wait_ms;
    pthread_t thread;
    enum error_code code;
    uint64_t now_seen;
    atomic_bool done;
};

static void *watcher_main(void *arg)
{
    struct watcher *watcher = arg;
    struct err err;
    watcher->code =
        store_watch(watcher->t->store, watcher->seen, watcher->wait_ms, &watcher->now_seen, &err);
    watcher->done = true;
    return NULL;
}

/* A number that is up to date: nothing comes any more. */
static uint64_t settled(struct trial *t)
{
    uint64_t seen = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t before = seen;
        ok(t, store_watch(t->store, seen, 100, &seen, &t->w.err));
        if (seen == before && i > 0)
            break;
    }
    return seen;
}

static void a_watch_ends_by_itself_when_nothing_happens(void **state)
{
    struct trial *t = *state;
    submit(t, "a");
    uint64_t seen = settled(t);
    uint64_t after = seen;
    ok(t, store_watch(t->store, seen, 30, &after, &t->w.err));
    ok(t, store_watch(t->store, seen, 0, &after, &t->w.err));
}

static void a_watch_wakes_when_another_thread_commits(void **state)
{
    struct trial *t = *state;
    struct watcher watcher = {.t = t, .seen = settled(t), .wait_ms = 20 * 1000};
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(pthread_create(&watcher.thread, NULL, watcher_main, &watcher), 0);
    pause_ms(20);
    submit(t, "a");
    pthread_join(watcher.thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_int_equal(watcher.code, ERR_OK);
    assert_true(watcher.now_seen != watcher.seen);
    assert_true(after.tv_sec - before.tv_sec < 15);
}

static void a_watch_comes_back_at_once_when_something_was_committed_before(void **state)
{
    struct trial *t = *state;
    uint64_t seen = settled(t);
    submit(t, "a");
    struct timespec before;
    struct timespec after;
    uint64_t next = seen;
    clock_gettime(CLOCK_MONOTONIC, &before);
    ok(t, store_watch(t->store, seen, 20 * 1000, &next, &t->w.err));
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(next != seen);
    assert_true(after.tv_sec - before.tv_sec < 15);
}

/* ---- a small storm ---- */

enum { STORM_THREADS = 8, STORM_JOBS = 40 };

struct claimer_thread {
    struct trial *t;
    pthread_t thread;
    uint32_t *lanes;
    uint32_t lane_count;
    uint8_t secret;
    struct uuid got[STORM_JOBS];
    uint32_t got_count;
    enum error_code code;
    struct err err;
};

/* Claims one job; false when there was none. */
static bool storm_claim(struct claimer_thread *me, struct arena *arena)
{
    struct store_txn *txn;
    struct store_load load = {0};
    struct store_search search = {me->lanes, &me->lane_count, 1, 1, NULL, 0, false, 0};
    me->code = store_begin(me->t->store, STORE_WRITE, &txn, &me->err);
    if (me->code != ERR_OK)
        return false;
    me->code = store_load(txn, &load, arena, &me->err);
    if (me->code == ERR_OK)
        me->code = store_candidates(txn, &search, 1, arena, &me->err);
    if (me->code != ERR_OK || search.found_count == 0) {
        store_rollback(txn);
        return false;
    }
    struct job_slice *slice = &search.found[0].slice;
    struct context context = {.now = load.now, .arena = arena};
    struct command command = claim_by("w1", true);
    struct decision decision;
    memset(context.secret, me->secret, sizeof context.secret);
    me->code = job_decide(slice, &command, &context, &decision, &me->err);
    if (me->code == ERR_OK)
        me->code = decision_seal(&decision, slice->job.head, arena, &me->err);
    struct store_job_write job = {.after = &decision.after,
                                  .events = decision.events,
                                  .event_count = decision.count,
                                  .changed = decision.after.job.changed};
    if (me->code == ERR_OK)
        me->code = schedule_entry_of_job(&decision.after.job, arena, &job.now, &me->err);
    struct store_write write = {.jobs = &job, .job_count = 1};
    if (me->code == ERR_OK)
        me->code = store_write(txn, &write, &me->err);
    if (me->code != ERR_OK) {
        store_rollback(txn);
        return false;
    }
    enum store_outcome outcome;
    me->code = store_commit(txn, &outcome, &me->err);
    if (me->code != ERR_OK || me->got_count == STORM_JOBS)
        return false;
    me->got[me->got_count++] = slice->job.id;
    return true;
}

static void *storm_main(void *arg)
{
    struct claimer_thread *me = arg;
    struct arena arena;
    arena_init(&arena);
    while (storm_claim(me, &arena))
        arena_clear(&arena);
    arena_release(&arena);
    return NULL;
}

static void a_storm_of_claims_gives_every_job_out_once(void **state)
{
    struct trial *t = *state;
    for (int i = 0; i < STORM_JOBS; i++)
        submit(t, numbered(&t->w, "j", i));
    uint32_t lane = 1;
    static struct claimer_thread threads[STORM_THREADS];
    for (int i = 0; i < STORM_THREADS; i++) {
        threads[i] = (struct claimer_thread){
            .t = t, .lanes = &lane, .lane_count = 1, .secret = (uint8_t)(i + 1)};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, storm_main, &threads[i]), 0);
    }
    uint32_t total = 0;
    for (int i = 0; i < STORM_THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        total += threads[i].got_count;
        if (threads[i].code != ERR_OK)
            fail_msg("%s", threads[i].err.detail);
    }
    /* Where claims pass over each other the last may find nothing while others are at it. */
    while (*claim_next(t, NULL) != '\0')
        total++;
    assert_int_equal(total, STORM_JOBS);
    for (int i = 0; i < STORM_JOBS; i++) {
        assert_string_equal(stream(t, t->ids[i]), "job_created job_leased job_running");
        assert_int_equal(whole(t, t->ids[i]).job.attempt, 1);
    }
}

/* ---- settings, which nobody has locked ---- */

enum { SETTERS = 4, SETTINGS = 6, SETTING_ROUNDS = 60 };

/* Sets the same queues and kinds as the others, forwards or backwards. The first two set what the
 * other takes away, the others set all. */
struct setter {
    struct trial *t;
    uint32_t number;
    pthread_t thread;
    enum error_code code;
    struct err err;
};

static enum error_code set_all(struct setter *setter)
{
    static const struct str names[SETTINGS] = {STR_INIT("a"), STR_INIT("b"), STR_INIT("c"),
                                               STR_INIT("d"), STR_INIT("e"), STR_INIT("f")};
    struct store_queue queues[SETTINGS];
    struct store_kind kinds[SETTINGS];
    for (uint32_t i = 0; i < SETTINGS; i++) {
        uint32_t at = setter->number % 2 == 0 ? i : SETTINGS - 1 - i;
        bool first_half = at < SETTINGS / 2;
        bool set = setter->number >= 2 || first_half == (setter->number == 0);
        queues[i] = (struct store_queue){.queue = names[at], .paused = set};
        kinds[i] = (struct store_kind){.kind = names[at], .settings.timeout_ms = set ? 1000 : 0};
    }
    struct store_write write = {
        .queues = queues, .queue_count = SETTINGS, .kinds = kinds, .kind_count = SETTINGS};
    struct store_txn *txn;
    enum store_outcome outcome;
    enum error_code code = store_begin(setter->t->store, STORE_WRITE, &txn, &setter->err);
    if (code != ERR_OK)
        return code;
    code = store_write(txn, &write, &setter->err);
    if (code == ERR_OK)
        return store_commit(txn, &outcome, &setter->err);
    store_rollback(txn);
    return code;
}

static void *setter_main(void *arg)
{
    struct setter *setter = arg;
    for (uint32_t round = 0; round < SETTING_ROUNDS && setter->code == ERR_OK; round++)
        setter->code = set_all(setter);
    return NULL;
}

static void settings_may_be_written_by_many_in_any_order(void **state)
{
    struct trial *t = *state;
    struct setter setters[SETTERS];
    for (uint32_t i = 0; i < SETTERS; i++) {
        setters[i] = (struct setter){.t = t, .number = i};
        assert_int_equal(pthread_create(&setters[i].thread, NULL, setter_main, &setters[i]), 0);
    }
    for (uint32_t i = 0; i < SETTERS; i++)
        assert_int_equal(pthread_join(setters[i].thread, NULL), 0);
    for (uint32_t i = 0; i < SETTERS; i++)
        if (setters[i].code != ERR_OK)
            fail_msg("%s", setters[i].err.detail);
}

struct conformance_tests conformance_threads(void)
{
    static const struct CMUnitTest tests[] = {
        TRIAL(a_second_load_of_a_job_waits_and_then_sees_what_the_first_did),
        TRIAL(a_second_load_of_a_job_goes_on_after_a_rollback),
        TRIAL(names_are_locked_whether_or_not_anything_has_them),
        TRIAL(work_that_another_transaction_is_busy_with_is_passed_over),
        TRIAL(a_search_that_finds_only_what_is_locked_says_how_much),
        TRIAL(a_job_that_another_transaction_has_loaded_is_not_given_out),
        TRIAL(nothing_is_seen_before_it_is_committed),
        TRIAL(a_reader_sees_one_moment_while_others_commit),
        TRIAL(a_reader_waits_for_no_writer),
        TRIAL(a_watch_ends_by_itself_when_nothing_happens),
        TRIAL(a_watch_wakes_when_another_thread_commits),
        TRIAL(a_watch_comes_back_at_once_when_something_was_committed_before),
        TRIAL(settings_may_be_written_by_many_in_any_order),
        TRIAL(a_storm_of_claims_gives_every_job_out_once),
    };
    return TRIALS(tests);
}
