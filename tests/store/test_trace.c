/* The tracing wrapper: it changes nothing, and tells every call. */
#include <pthread.h>

#include "store/conformance.h"
#include "store/memory/memory_store.h"
#include "store/trace.h"

/* What was told, line by line, without the time it took and with J for ids of jobs. */
struct told {
    pthread_mutex_t lock;
    char text[16 * 1024];
    size_t len;
    size_t lines;
};

static bool is_id(struct str rest)
{
    struct uuid id;
    return rest.len >= UUID_TEXT_LEN && uuid_parse((struct str){rest.at, UUID_TEXT_LEN}, &id);
}

static void tell(struct told *told, struct str line)
{
    size_t end = line.len;
    while (end > 0 && line.at[end - 1] != ',')
        end--;
    end = end > 0 ? end - 1 : line.len; /* the time is not told */
    for (size_t i = 0; i < end && told->len < sizeof told->text - 8; i++) {
        bool id = is_id((struct str){line.at + i, line.len - i});
        told->text[told->len++] = id ? 'J' : line.at[i];
        i += id ? UUID_TEXT_LEN - 1 : 0;
    }
    if (told->len < sizeof told->text - 8) {
        told->text[told->len++] = '\n';
        told->text[told->len] = '\0';
    }
}

static void note(void *arg, struct str line)
{
    struct told *told = arg;
    pthread_mutex_lock(&told->lock);
    told->lines++;
    if (line.len <= STORE_TRACE_LINE_MAX)
        tell(told, line);
    pthread_mutex_unlock(&told->lock);
}

static enum error_code open_traced(void *arg, const struct store_options *options,
                                   struct store **ret, struct err *err)
{
    struct store *inner;
    enum error_code code = memory_store_open(options, &inner, err);
    return code != ERR_OK ? code : store_trace(inner, note, arg, ret, err);
}

static void discard_traced(void *arg)
{
    struct told *told = arg;
    told->len = 0;
    told->text[0] = '\0';
}

static struct told *told_by(struct trial *t)
{
    struct told *told = t->factory->arg;
    return told;
}

/* What has been told since the last time. */
#define assert_told(t, expected)                                                                   \
    do {                                                                                           \
        assert_string_equal(told_by(t)->text, expected);                                           \
        discard_traced(told_by(t));                                                                \
    } while (0)

static void a_command_is_told_call_by_call(void **state)
{
    struct trial *t = *state;
    submit(t, "a");
    assert_told(t, "#1 begin writing: ok\n"
                   "#1 load job J: ok, 0 jobs\n"
                   "#1 write job J created job_created: ok\n"
                   "#1 commit: ok\n"
                   "#2 begin reading: ok\n"
                   "#2 load job J: ok, 1 jobs\n"
                   "#2 load_parts job J: ok, 0 parts\n"
                   "#2 rollback: ok\n");
}

static void finding_work_is_told(void **state)
{
    struct trial *t = *state;
    submit_plan(t, "a", "[{'id':'x'},{'id':'y'}]");
    discard_traced(told_by(t));
    struct store_txn *txn = begin_empty(t, NULL);
    uint32_t count;
    ok(t, store_promote(txn, 5, &count, &t->w.err));
    search_all(t, txn, 2);
    rollback(t, txn);
    assert_told(t, "#3 begin writing: ok\n"
                   "#3 load: ok\n"
                   "#3 promote at most 5: ok, 0 promoted\n"
                   "#3 lanes after 0: ok, 1 lanes\n"
                   "#3 candidates 2 of 1 lanes in 1 groups: ok, 2 found\n"
                   "#3 rollback: ok\n");
}

static void names_are_told_and_many_are_counted(void **state)
{
    struct trial *t = *state;
    struct store_key key = {.queue = STR("q"), .key = STR("order 7")};
    struct store_request request = {.scope = STR("ann POST /jobs"), .key = STR("k")};
    struct store_resource resources[5] = {{.id = STR("r1")},
                                          {.id = STR("r2")},
                                          {.id = STR("r3")},
                                          {.id = STR("r4")},
                                          {.id = STR("r5")}};
    struct store_load load = {.keys = &key,
                              .key_count = 1,
                              .requests = &request,
                              .request_count = 1,
                              .resources = resources,
                              .resource_count = 5};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    rollback(t, txn);
    assert_told(t, "#1 begin reading: ok\n"
                   "#1 load key q/order 7 request ann POST /jobs/k resource r1 resource r2 "
                   "resource r3 and 2 more: ok\n"
                   "#1 rollback: ok\n");
}

static void an_error_is_told_with_its_detail(void **state)
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
    struct store_txn *txn = begin_empty(t, NULL);
    discard_traced(told_by(t));
    assert_int_equal(write_one(t, txn, &change), ERR_VERSION_MISMATCH);
    rollback(t, txn);
    assert_told(t, "#3 write job J created job_created: version_mismatch (job J has an event of "
                   "version 1 already)\n"
                   "#3 rollback: ok\n");
}

static void reading_and_watching_are_told(void **state)
{
    struct trial *t = *state;
    struct store_job *jobs;
    struct event *events;
    struct store_fed *fed;
    struct store_lease *leases;
    struct store_queue_count *queued;
    struct store_worker *holders;
    struct resource *known;
    struct store_due *list;
    uint32_t count;
    int64_t bytes;
    int64_t now;
    int64_t next;
    uint64_t seen;
    struct store_filter filter = {.kind = STR("mail"), .statuses = 2, .limit = 1};
    struct store_txn *txn = begin(t, STORE_READ);
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    ok(t, store_events(
              txn,
              &(struct store_stream){.job = new_id(t), .after = 3, .limit = 1, .telemetry = false},
              &t->w.arena, &events, &count, &t->w.err));
    ok(t, store_feed(txn, (struct store_position){0}, 1, &t->w.arena, &fed, &count, &t->w.err));
    ok(t, store_leases_on(txn, STR("r1"), &t->w.arena, &leases, &count, &t->w.err));
    filter = (struct store_filter){.asking = true, .limit = 1};
    ok(t, store_list(txn, &filter, &t->w.arena, &jobs, &count, &t->w.err));
    ok(t, store_queues(txn, &t->w.arena, &queued, &count, &t->w.err));
    ok(t, store_workers(txn, NULL, &t->w.arena, &holders, &count, &t->w.err));
    int64_t steps[STEP_STATE_COUNT];
    ok(t, store_step_counts(txn, steps, &t->w.err));
    ok(t, store_resources(txn, &t->w.arena, &known, &count, &t->w.err));
    rollback(t, txn);
    ok(t, store_due(t->store, 9, &t->w.arena, &list, &count, &now, &next, &t->w.err));
    ok(t, store_watch(t->store, 7, 1, &seen, &t->w.err));
    ok(t, store_sweep(t->store, 0, 8, &count, &t->w.err));
    struct store_attendance attendance = {.trusted = 1};
    ok(t, store_attend(t->store, &attendance, &t->w.err));
    assert_int_equal(store_backup(t->store, STR("x.db"), &bytes, &t->w.err), ERR_BAD_REQUEST);
    assert_told(t, "#1 begin reading: ok\n"
                   "#1 list kind mail statuses 0x2: ok, 0 jobs\n"
                   "#1 events job J after 3: ok, 0 events\n"
                   "#1 feed after 0.0: ok, 0 events\n"
                   "#1 leases_on r1: ok, 0 leases\n"
                   "#1 list asking: ok, 0 jobs\n"
                   "#1 queues: ok, 0 counts\n"
                   "#1 workers: ok, 0 workers\n"
                   "#1 step_counts: ok, 13 counts\n"
                   "#1 resources: ok, 0 resources\n"
                   "#1 rollback: ok\n"
                   "due at most 9: ok, 0 due\n"
                   "watch for 1 ms: ok\n"
                   "sweep at most 8: ok, 0 swept\n"
                   "attend: ok, 1 noted\n"
                   "backup to x.db: bad_request (a store in memory has no file to copy: use `pawl "
                   "export` to keep jobs, or a store at sqlite:PATH)\n");
}

static void a_long_line_is_cut(void **state)
{
    struct trial *t = *state;
    struct store_resource resources[3] = {
        {.id = filled(t, 'a', 600)}, {.id = filled(t, 'b', 600)}, {.id = filled(t, 'c', 600)}};
    struct store_key keys[3] = {{.queue = filled(t, 'a', 600), .key = filled(t, 'a', 600)},
                                {.queue = filled(t, 'b', 600), .key = filled(t, 'b', 600)},
                                {.queue = filled(t, 'c', 600), .key = filled(t, 'c', 600)}};
    struct store_load load = {
        .keys = keys, .key_count = 3, .resources = resources, .resource_count = 3};
    struct store_txn *txn = begin(t, STORE_READ);
    discard_traced(told_by(t));
    ok(t, store_load(txn, &load, &t->w.arena, &t->w.err));
    assert_in_range(told_by(t)->len, 900, STORE_TRACE_LINE_MAX);
    rollback(t, txn);
}

int main(void)
{
    static struct told told = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct store_factory factory = {
        .name = "trace",
        .one_at_a_time = true,
        .one_writer = true,
        .open = open_traced,
        .discard = discard_traced,
        .arg = &told,
    };
    struct CMUnitTest tests[] = {
        TRIAL(a_command_is_told_call_by_call),      TRIAL(finding_work_is_told),
        TRIAL(names_are_told_and_many_are_counted), TRIAL(an_error_is_told_with_its_detail),
        TRIAL(reading_and_watching_are_told),       TRIAL(a_long_line_is_cut),
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
        tests[i].initial_state = (void *)(uintptr_t)&factory;
    int failed = cmocka_run_group_tests_name("trace", tests, NULL, NULL);
    /* And it must be as good a store as the one that it wraps. */
    failed += conformance_run(&factory);
    return failed + (told.lines == 0);
}
