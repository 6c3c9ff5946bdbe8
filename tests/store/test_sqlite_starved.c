/* The SQLite store when memory runs out, at every place where it may: the caller is told, nothing
 * has changed, and the store goes on. */
#include "store/conformance.h"
#include "store/sqlite_place.h"

/* ---- a malloc that fails when told ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARVING 0
static long mallocs_left;
static bool fails_once;
#else
#define STARVING 1
static long mallocs_left = -1; /* below 0: as many as there are */
static bool fails_once;        /* and then gives again */

void *__libc_malloc(size_t size);               /* NOLINT: glibc's own */
void *__libc_calloc(size_t count, size_t size); /* NOLINT */
void *__libc_realloc(void *at, size_t size);    /* NOLINT */

static bool may_allocate(void)
{
    if (mallocs_left < 0)
        return true;
    if (mallocs_left == 0) {
        mallocs_left = fails_once ? -1 : 0;
        return false;
    }
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

enum { MALLOCS_MAX = 100 * 1000 };

/* How much memory to give next: in small steps at first, and in larger ones, of a length that is
 * not always the same, where there is much. */
static long more(long mallocs)
{
    return mallocs + 1 + mallocs / 40;
}

/* ---- opening ---- */

static enum error_code open_starved(const struct place *place, long mallocs, struct store **ret,
                                    struct err *err)
{
    struct store_options options = {.create = true};
    mallocs_left = mallocs;
    enum error_code code = sqlite_store_open(str_from(place->path), &options, ret, err);
    mallocs_left = -1;
    return code;
}

static void open_until_it_works(struct place *place, bool once, const char *files)
{
    struct store *store = NULL;
    struct err err;
    long mallocs = 0;
    fails_once = once;
    for (; open_starved(place, mallocs, &store, &err) != ERR_OK; mallocs = more(mallocs)) {
        assert_true(mallocs < MALLOCS_MAX);
        if (err.code != ERR_NO_MEMORY)
            fail_msg("%s", err.detail);
        if (files != NULL)
            assert_string_equal(files_in(place), files);
    }
    assert_true(once || mallocs > 50);
    pause_ok(store, "mail");
    store_close(store);
}

static void opening_without_memory_leaves_nothing_behind(void **state)
{
    struct place *place = *state;
    if (!STARVING)
        skip();
    open_until_it_works(place, false, "");
    open_until_it_works(place, false, NULL);
    assert_int_equal(unlink(place->path) | unlink(beside(place, ".lock")), 0);
    open_until_it_works(place, true, "");
    open_until_it_works(place, true, NULL);
}

/* ---- verbs ---- */

static enum error_code open_place(void *arg, const struct store_options *options,
                                  struct store **ret, struct err *err)
{
    struct place *place = arg;
    return sqlite_store_open(str_from(place->path), options, ret, err);
}

static void discard_place(void *arg)
{
    (void)arg;
}

/* Calls `attempt` with 0 pieces of memory to be had, then with more and more until it succeeds, and
 * proves that nothing has changed. */
static void starve(struct trial *t, enum error_code (*attempt)(struct trial *t, void *arg),
                   void *arg)
{
    const char *before = everything(t);
    long mallocs = 0;
    for (int tries = 0;; tries++, mallocs = more(mallocs)) {
        assert_true(mallocs < MALLOCS_MAX);
        mallocs_left = mallocs;
        enum error_code code = attempt(t, arg);
        mallocs_left = -1;
        if (code == ERR_OK)
            return;
        assert_int_equal(code, ERR_NO_MEMORY);
        if (tries % 4 == 0) /* which takes long */
            assert_string_equal(everything(t), before);
    }
}

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

/* Everything that can be read of a job. */
static enum error_code read_attempt(struct trial *t, void *arg)
{
    struct arena arena;
    struct store_txn *txn;
    struct store_job job = {.id = *(struct uuid *)arg};
    struct store_load load = {.jobs = &job, .job_count = 1};
    struct store_parts parts = {
        .job = job.id, .all_steps = true, .all_effects = true, .all_signals = true};
    struct store_filter filter = {.statuses = 1U << JOB_RUNNING | 1U << JOB_QUEUED, .limit = 10};
    struct store_job *jobs;
    struct event *events;
    struct store_fed *fed;
    struct store_lane *lanes;
    struct store_due *due;
    struct store_queue_count *queued;
    struct store_worker *holders;
    struct resource *known;
    uint32_t count;
    int64_t now;
    int64_t next;
    struct err err;
    enum error_code code = store_begin(t->store, STORE_READ, &txn, &err);
    if (code != ERR_OK)
        return code;
    arena_init(&arena);
    code = store_load(txn, &load, &arena, &err);
    if (code == ERR_OK)
        code = store_load_parts(txn, &parts, 1, &arena, &err);
    if (code == ERR_OK)
        code = store_list(txn, &filter, &arena, &jobs, &count, &err);
    if (code == ERR_OK)
        code = store_events(
            txn,
            &(struct store_stream){.job = job.id, .after = 0, .limit = 100, .telemetry = false},
            &arena, &events, &count, &err);
    if (code == ERR_OK)
        code = store_feed(txn, (struct store_position){0}, 100, &arena, &fed, &count, &err);
    if (code == ERR_OK)
        code = store_lanes(txn, 0, &arena, &lanes, &count, &err);
    if (code == ERR_OK)
        code = store_queues(txn, &arena, &queued, &count, &err);
    if (code == ERR_OK)
        code = store_workers(txn, NULL, &arena, &holders, &count, &err);
    if (code == ERR_OK)
        code = store_resources(txn, &arena, &known, &count, &err);
    store_rollback(txn);
    if (code == ERR_OK)
        code = store_due(t->store, 10, &arena, &due, &count, &now, &next, &err);
    arena_release(&arena);
    return code;
}

/* A copy that nobody needs. */
static enum error_code copy_attempt(struct trial *t, void *arg)
{
    const struct place *place = t->factory->arg;
    const char *path = beside(place, ".copy");
    int64_t bytes;
    struct err err;
    (void)arg;
    (void)unlink(path);
    return store_backup(t->store, str_from(path), &bytes, &err);
}

/* A claim that is given back. */
static enum error_code claim_attempt(struct trial *t, void *arg)
{
    struct arena arena;
    struct store_txn *txn;
    static const uint32_t lanes[] = {1, 2, 3};
    static const uint32_t ends[] = {1, 3};
    struct store_search search = {.lanes = lanes, .group_ends = ends, .group_count = 2, .max = 4};
    uint32_t count;
    struct err err;
    (void)arg;
    enum error_code code = store_begin(t->store, STORE_WRITE, &txn, &err);
    if (code != ERR_OK)
        return code;
    arena_init(&arena);
    code = store_promote(txn, 10, &count, &err);
    if (code == ERR_OK)
        code = store_candidates(txn, &search, 1, &arena, &err);
    store_rollback(txn);
    arena_release(&arena);
    return code;
}

static void try_all(struct trial *t, struct uuid id, struct store_write *write)
{
    starve(t, read_attempt, &id);
    starve(t, claim_attempt, NULL);
    starve(t, copy_attempt, NULL);
    starve(t, write_attempt, write);
}

/* A write with as much in it as there is room for. */
static void verbs_without_memory_fail_and_change_nothing(void **state)
{
    struct place *place = *state;
    struct store_factory factory = {
        .name = "sqlite", .open = open_place, .discard = discard_place, .arg = place};
    void *trial = &factory;
    if (!STARVING)
        skip();
    assert_int_equal(trial_setup(&trial), 0);
    struct trial *t = trial;
    put_resource(t, "r1", at(500));
    struct uuid id = submit_plan(t, "a", "[{'id':'x'},{'id':'y'},{'id':'z','deps':['x']}]");
    (void)submit(t, "b");
    assert_string_equal(claim_next(t, "r1"), "a.0");
    for (int once = 0; once < 2; once++) {
        struct job_slice slice = whole(t, id);
        struct command complete = complete_with(&t->w, "{'r':1}");
        struct change change;
        if (once == 1)
            assert_string_equal(claim_next(t, "r1"), "a.1");
        slice = whole(t, id);
        ok(t, decide(t, &slice, &complete, &change));
        struct store_job_write job = write_of(t, &change);
        struct request_record record = {.scope = STR("s"), .key = STR("k"), .answer = STR("{}")};
        struct store_kind kind = {STR("mail"), {.retention_ms = 5}};
        struct store_queue queue = {STR("default"), true};
        struct store_write write = {.jobs = &job,
                                    .job_count = 1,
                                    .requests = &record,
                                    .request_count = 1,
                                    .kinds = &kind,
                                    .kind_count = 1,
                                    .queues = &queue,
                                    .queue_count = 1};
        fails_once = once == 1;
        try_all(t, id, &write);
        fails_once = false;
        assert_null(strstr(files_in(place), "unfinished"));
    }
    assert_int_equal(trial_teardown(&trial), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_PLACE(opening_without_memory_leaves_nothing_behind),
        IN_PLACE(verbs_without_memory_fail_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
