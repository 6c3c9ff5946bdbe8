/* What is special to the memory store: running out of memory anywhere leaves no trace, and waiting
 * for a turn ends. */
#include <pthread.h>

#include "store/conformance.h"
#include "store/memory/memory_store.h"

/* ---- a malloc that fails when told ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARVING 0
static long mallocs_left;
#else
#define STARVING 1
static long mallocs_left = -1; /* below 0: as many as there are */

void *__libc_malloc(size_t size);               /* NOLINT: glibc's own */
void *__libc_calloc(size_t count, size_t size); /* NOLINT */
void *__libc_realloc(void *at, size_t size);    /* NOLINT */

static bool may_allocate(void)
{
    if (mallocs_left < 0)
        return true;
    if (mallocs_left == 0)
        return false;
    mallocs_left--;
    return true;
}

void *malloc(size_t size)
{
    return may_allocate() ? __libc_malloc(size) : NULL;
}

void *calloc(size_t count, size_t size)
{
    return may_allocate() ? __libc_calloc(count, size) : NULL;
}

void *realloc(void *at, size_t size)
{
    return may_allocate() ? __libc_realloc(at, size) : NULL;
}
#endif

static enum error_code open_memory(void *arg, const struct store_options *options,
                                   struct store **ret, struct err *err)
{
    (void)arg;
    struct store_options impatient = *options;
    impatient.timeout_ms = 30;
    return memory_store_open(&impatient, ret, err);
}

static void discard_memory(void *arg)
{
    (void)arg;
}

/* Calls `attempt` with 0 pieces of memory to be had, then with 1, 2, ... until it succeeds, and
 * proves each time that nothing has changed. Returns how often it failed. */
static int starve(struct trial *t, enum error_code (*attempt)(struct trial *t, void *arg),
                  void *arg)
{
    const char *before = everything(t);
    int failed = 0;
    for (;; failed++) {
        mallocs_left = failed;
        enum error_code code = attempt(t, arg);
        mallocs_left = -1;
        if (code == ERR_OK)
            return failed;
        assert_int_equal(code, ERR_NO_MEMORY);
        assert_string_equal(everything(t), before);
    }
}

/* A transaction that writes what `arg` says, and says nothing itself. */
static enum error_code write_attempt(struct trial *t, void *arg)
{
    struct store_txn *txn;
    enum store_outcome outcome;
    struct err err;
    enum error_code code = store_begin(t->store, STORE_WRITE, &txn, &err);
    if (code != ERR_OK)
        return code;
    code = store_write(txn, arg, &err);
    if (code == ERR_OK)
        return store_commit(txn, &outcome, &err);
    store_rollback(txn);
    return code;
}

static void a_write_that_runs_out_of_memory_leaves_no_trace(void **state)
{
    struct trial *t = *state;
    if (!STARVING)
        skip();
    put_resource(t, "r1", at(500));
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z','deps':['x']}]");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    struct job_slice slice = whole(t, id);
    struct command complete = complete_with(&t->w, "{'r':1}");
    struct change change;
    ok(t, decide(t, &slice, &complete, &change));
    struct store_job_write job = write_of(t, &change);
    job.purge_at = at(9999);
    struct request_record record = {.scope = STR("s"), .key = STR("k"), .answer = STR("{}")};
    struct resource resource = {.id = STR("r1"), .slots = 2, .expires_at = at(700)};
    struct store_kind kind = {STR("mail"), {.retention_ms = 5}};
    struct store_queue queue = {STR("default"), true};
    struct store_write write = {
        .jobs = &job,
        .job_count = 1,
        .requests = &record,
        .request_count = 1,
        .resources = &resource,
        .resource_count = 1,
        .kinds = &kind,
        .kind_count = 1,
        .queues = &queue,
        .queue_count = 1,
    };
    assert_true(starve(t, write_attempt, &write) > 15);
    struct job_slice read = whole(t, id);
    assert_same_row(t, &read, &change.after);
}

static void a_purge_that_runs_out_of_memory_leaves_no_trace(void **state)
{
    struct trial *t = *state;
    if (!STARVING)
        skip();
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'}]");
    act(t, id, signal_of(&t->w, "k", NULL));
    act(t, id, cancel_by(CANCEL_HARD, "no"));
    struct store_write write = {.purged = &id, .purged_count = 1};
    assert_true(starve(t, write_attempt, &write) > 3);
    assert_int_equal(whole(t, id).job.status, JOB_NONE);
}

static enum error_code claim_attempt(struct trial *t, void *arg)
{
    (void)arg;
    struct store_txn *txn;
    struct arena arena;
    struct err err;
    uint32_t lane = 1;
    uint32_t end = 1;
    uint32_t promoted;
    struct store_search search = {&lane, &end, 1, 3, NULL, 0, false, 0};
    enum error_code code = store_begin(t->store, STORE_WRITE, &txn, &err);
    if (code != ERR_OK)
        return code;
    arena_init(&arena);
    code = store_promote(txn, 10, &promoted, &err);
    if (code == ERR_OK)
        code = store_candidates(txn, &search, 1, &arena, &err);
    arena_release(&arena);
    store_rollback(txn);
    return code;
}

static void a_search_that_runs_out_of_memory_leaves_no_trace(void **state)
{
    struct trial *t = *state;
    if (!STARVING)
        skip();
    submit(t, "a");
    struct spec spec = world_spec();
    spec.run_at = at(5);
    submit_spec(t, "b", spec);
    advance(t, 5);
    assert_true(starve(t, claim_attempt, NULL) > 3);
}

static enum error_code read_attempt(struct trial *t, void *arg)
{
    struct store_job job = {.id = *(struct uuid *)arg};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_parts parts = {
        .job = job.id, .all_steps = true, .all_effects = true, .all_signals = true};
    struct store_txn *txn;
    struct arena arena;
    struct err err;
    struct event *events;
    struct store_queue_count *queued;
    struct store_worker *holders;
    struct resource *known;
    uint32_t count;
    enum error_code code = store_begin(t->store, STORE_READ, &txn, &err);
    if (code != ERR_OK)
        return code;
    arena_init(&arena);
    code = store_load(txn, &load, &arena, &err);
    if (code == ERR_OK)
        code = store_load_parts(txn, &parts, 1, &arena, &err);
    if (code == ERR_OK)
        code = store_events(
            txn, &(struct store_stream){.job = job.id, .after = 0, .limit = 10, .telemetry = false},
            &arena, &events, &count, &err);
    if (code == ERR_OK)
        code = store_queues(txn, &arena, &queued, &count, &err);
    if (code == ERR_OK)
        code = store_workers(txn, NULL, &arena, &holders, &count, &err);
    if (code == ERR_OK)
        code = store_resources(txn, &arena, &known, &count, &err);
    arena_release(&arena);
    store_rollback(txn);
    return code;
}

static void reading_without_memory_fails_and_says_so(void **state)
{
    struct trial *t = *state;
    if (!STARVING)
        skip();
    struct spec spec = world_spec();
    spec.payload = filled(t, '1', 100 * 1000);
    struct uuid id = submit_spec(t, "a", spec);
    act(t, id, signal_of(&t->w, "k", NULL));
    act(t, id, claim_by("w1", true));
    put_resource(t, "r1", at(500));
    assert_true(starve(t, read_attempt, &id) > 3);
}

/* ---- turns ---- */

static void *begin_elsewhere(void *arg)
{
    struct trial *t = arg;
    struct store_txn *txn;
    struct err err;
    enum error_code code = store_begin(t->store, STORE_READ, &txn, &err);
    if (code == ERR_OK)
        store_rollback(txn);
    return (void *)(uintptr_t)code;
}

static void waiting_for_a_turn_ends_with_unavailable(void **state)
{
    struct trial *t = *state;
    pthread_t thread;
    void *code = NULL;
    struct store_txn *txn = begin(t, STORE_WRITE);
    assert_int_equal(pthread_create(&thread, NULL, begin_elsewhere, t), 0);
    pthread_join(thread, &code);
    assert_int_equal((uintptr_t)code, ERR_UNAVAILABLE);
    rollback(t, txn);
    assert_int_equal((uintptr_t)begin_elsewhere(t), ERR_OK);
}

static void a_transaction_that_has_failed_can_only_be_rolled_back(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct job_slice none;
    struct spec spec = world_spec();
    struct command command = by_user(COMMAND_SUBMIT);
    command.submit.spec = &spec;
    job_slice_init(&none, id, 1);
    struct change change;
    ok(t, decide(t, &none, &command, &change));
    const char *before = everything(t);
    struct store_txn *txn;
    enum store_outcome outcome = STORE_COMMITTED;
    ok(t, store_begin(t->store, STORE_WRITE, &txn, &t->w.err));
    assert_int_equal(write_one(t, txn, &change), ERR_VERSION_MISMATCH);
    uint32_t count;
    assert_int_equal(store_promote(txn, 1, &count, &t->w.err), ERR_UNAVAILABLE);
    assert_int_equal(store_commit(txn, &outcome, &t->w.err), ERR_UNAVAILABLE);
    assert_int_equal(outcome, STORE_NOT_COMMITTED);
    assert_string_equal(everything(t), before);
}

static void work_that_does_not_stand_where_it_is_to_be_taken_from_is_corrupt(void **state)
{
    struct trial *t = *state;
    struct uuid id = submit(t, "a");
    struct job_slice slice = whole(t, id);
    struct command cancel = cancel_by(CANCEL_HARD, "no");
    struct change change;
    ok(t, decide(t, &slice, &cancel, &change));
    struct store_job_write job = write_of(t, &change);
    job.was.priority = 77;
    struct store_txn *txn = begin_empty(t, NULL);
    assert_int_equal(write_job(t, txn, &job), ERR_CORRUPT);
    rollback(t, txn);
    assert_string_equal(ready(t), "a");
}

int main(void)
{
    static const struct store_factory factory = {
        .name = "memory", .open = open_memory, .discard = discard_memory};
    struct CMUnitTest tests[] = {
        TRIAL(a_write_that_runs_out_of_memory_leaves_no_trace),
        TRIAL(a_purge_that_runs_out_of_memory_leaves_no_trace),
        TRIAL(a_search_that_runs_out_of_memory_leaves_no_trace),
        TRIAL(reading_without_memory_fails_and_says_so),
        TRIAL(waiting_for_a_turn_ends_with_unavailable),
        TRIAL(a_transaction_that_has_failed_can_only_be_rolled_back),
        TRIAL(work_that_does_not_stand_where_it_is_to_be_taken_from_is_corrupt),
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tests[i].initial_state = (void *)(uintptr_t)&factory;
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
