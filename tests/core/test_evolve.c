/* The fold: damaged and hostile events end in corrupt and never in a crash; what decide is given it
 * never changes; and a slice of a plan gives what the whole gives. */
#include "base/times.h"
#include "scenario.h"

/* The next event of the job, as a store could hand it over. */
static struct event next_event(const struct world *w, enum event_type type)
{
    return (struct event){
        .job_id = w->slice.job.id,
        .version = w->slice.job.version + 1,
        .at = w->now,
        .type = type,
    };
}

/* Folds into a copy; the world stays as it was. */
static enum error_code fold(struct world *w, const struct event *event, struct job_slice *ret)
{
    w->err = (struct err){0};
    assert_int_equal(job_slice_copy(&w->slice, &w->arena, ret), ERR_OK);
    return job_evolve(ret, event, &w->arena, &w->err);
}

#define corrupt(w, event, text) corrupt_(w, event, text, __FILE__, __LINE__)
static void corrupt_(struct world *w, const struct event *event, const char *text, const char *file,
                     int line)
{
    struct job_slice slice;
    enum error_code code = fold(w, event, &slice);
    if (code != ERR_CORRUPT || strcmp(w->err.detail, text) != 0) {
        print_error("%s: %s\n", error_info(code)->name, w->err.detail);
        _fail(file, line);
    }
}

/* ---- damaged streams ---- */

static void an_event_that_is_not_the_next_is_corrupt(void **state)
{
    struct world *w = *state;
    running(w);
    struct event event = next_event(w, EVENT_JOB_COMPLETED);
    event.version = 3;
    corrupt(w, &event, "event 3 follows event 3");
    event.version = 5;
    corrupt(w, &event, "event 5 follows event 3");
    event.version = INT64_MIN;
    corrupt(w, &event, "event -9223372036854775808 follows event 3");
}

static void an_effect_that_is_not_there_is_corrupt(void **state)
{
    struct world *w = *state;
    running(w);
    struct event event = next_event(w, EVENT_TOOL_RETURNED);
    event.data.key = STR("mail");
    corrupt(w, &event, "event 4 (tool_returned) refers to effect \"mail\", which does not exist");
    event.data.key = absent;
    corrupt(w, &event, "event 4 (tool_returned) refers to effect \"\", which does not exist");
    event.type = EVENT_TOOL_CALLED;
    corrupt(w, &event, "event 4 (tool_called) refers to effect \"\", which does not exist");
    event.data.key = STR("mail");
    event.data.step = STR("a");
    corrupt(w, &event, "event 4 (tool_called) refers to step \"a\", which does not exist");
}

static void a_stored_signal_that_is_not_there_is_corrupt(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, signal_of(w, "other", "1"));
    struct event event = next_event(w, EVENT_WAIT_COMPLETED);
    event.data.outcome = OUTCOME_SIGNAL;
    event.data.correlation_key = STR("k");
    event.data.signal_version = 3;
    corrupt(w, &event,
            "event 5 (wait_completed) refers to a stored signal with the key \"k\", which does not "
            "exist");
}

static void a_signal_taken_twice_is_counted_once(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, signal_of(w, "k", "1"));
    do_ok(w, wait_for(w, "k", 0));
    struct event event = next_event(w, EVENT_WAIT_COMPLETED);
    event.data.outcome = OUTCOME_SIGNAL;
    event.data.correlation_key = STR("k");
    event.data.signal_version = 4;
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.job.stored_signals, 0);
}

static void a_doubt_about_an_effect_that_is_not_there_is_corrupt(void **state)
{
    struct world *w = *state;
    running(w);
    struct event event = next_event(w, EVENT_JOB_WAITING);
    event.data.effect = STR("mail");
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    event = next_event(w, EVENT_WAIT_COMPLETED);
    event.version++;
    event.data.resolution = RESOLVE_DONE;
    assert_int_equal(job_evolve(&slice, &event, &w->arena, &w->err), ERR_CORRUPT);
    assert_string_equal(
        w->err.detail,
        "event 5 (wait_completed) refers to the effect \"mail\", which does not exist");
}

static void a_doubt_of_a_step_about_an_effect_that_is_not_there_is_corrupt(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    struct event event = next_event(w, EVENT_STEP_NEEDS_USER);
    event.data.step = STR("a");
    event.data.effect = STR("mail");
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    event = next_event(w, EVENT_SIGNAL_RECEIVED);
    event.version++;
    event.data.step = STR("a");
    event.data.resolution = RESOLVE_FAIL;
    assert_int_equal(job_evolve(&slice, &event, &w->arena, &w->err), ERR_CORRUPT);
    assert_string_equal(
        w->err.detail,
        "event 4 (signal_received) refers to the effect \"mail\", which does not exist");
}

static void a_step_that_is_not_there_is_corrupt(void **state)
{
    struct world *w = *state;
    static const enum event_type types[] = {EVENT_STEP_RUNNING, EVENT_STEP_FINISHED,
                                            EVENT_STEP_JUDGING, EVENT_SIGNAL_RECEIVED,
                                            EVENT_JOB_HEARTBEAT};
    for (int with_plan = 0; with_plan < 2; with_plan++) {
        world_clear(w, 1);
        if (with_plan)
            planned(w, "[{'id':'a'}]");
        else
            submitted(w);
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            struct event event = next_event(w, types[i]);
            struct buf text;
            event.data.step = STR("zz");
            buf_init(&text, &w->arena, 128);
            buf_addf(&text, "event %d (%.*s) refers to step \"zz\", which does not exist",
                     with_plan ? 3 : 2, STR_ARG(event_type_name(types[i])));
            buf_add_char(&text, '\0');
            corrupt(w, &event, text.at);
        }
        struct event nameless = next_event(w, EVENT_STEP_RUNNING);
        corrupt(w, &nameless,
                with_plan ? "event 3 (step_running) refers to step \"\", which does not exist"
                          : "event 2 (step_running) refers to step \"\", which does not exist");
    }
}

static void a_heartbeat_without_a_lease_is_corrupt(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    struct event event = next_event(w, EVENT_JOB_HEARTBEAT);
    corrupt(w, &event, "a heartbeat without a live lease");
    event = next_event(w, EVENT_JOB_LEASE_RENEWED);
    event.data.step = STR("a");
    corrupt(w, &event, "a heartbeat without a live lease");
}

static void children_that_are_not_there_are_corrupt(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    struct event event = next_event(w, EVENT_STEP_SUCCEEDED);
    event.data.step = STR("a");
    struct job_slice slice;
    assert_int_equal(job_slice_copy(&w->slice, &w->arena, &slice), ERR_OK);
    slice.step_count = 1; /* the child was not loaded */
    assert_int_equal(job_evolve(&slice, &event, &w->arena, &w->err), ERR_CORRUPT);
    assert_string_equal(
        w->err.detail,
        "event 4 (step_succeeded) refers to a child of step \"a\", which does not exist");

    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, complete_with(w, "1"));
    event = next_event(w, EVENT_PLAN_GENERATED);
    assert_int_equal(job_slice_copy(&w->slice, &w->arena, &slice), ERR_OK);
    slice.step_count = 1;
    assert_int_equal(job_evolve(&slice, &event, &w->arena, &w->err), ERR_CORRUPT);
    assert_string_equal(
        w->err.detail,
        "event 8 (plan_generated) refers to a child of step \"a\", which does not exist");
}

/* What an event says happened, legal or not: judging is verify's work. */
static void illegal_events_are_folded_as_they_are(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, complete_with(w, "1"));
    struct event event = next_event(w, EVENT_JOB_RUNNING);
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.job.status, JOB_RUNNING);
    assert_int_equal(slice.job.attempt, 2);
    event = next_event(w, EVENT_JOB_QUEUED);
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.job.status, JOB_QUEUED);
    event = next_event(w, EVENT_UNKNOWN);
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.job.status, JOB_COMPLETED);
    assert_int_equal(slice.job.version, 5);
}

static void a_stream_may_begin_with_any_state_event(void **state)
{
    struct world *w = *state;
    static const enum event_type types[] = {EVENT_JOB_QUEUED, EVENT_JOB_REQUEUED};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct event event = next_event(w, types[i]);
        struct job_slice slice;
        assert_int_equal(fold(w, &event, &slice), ERR_OK);
        assert_int_equal(slice.job.status, JOB_QUEUED);
        assert_int_equal(slice.job.epoch, 1);
        assert_int_equal(slice.job.created_at, w->now);
    }
}

static void an_effect_called_again_after_it_returned_is_open_again(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, commit_of(w, "mail", "2"));
    struct event event = next_event(w, EVENT_TOOL_RETURNED);
    event.data.key = STR("mail");
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.job.open_effects, 0); /* a second return closes nothing */
    event = next_event(w, EVENT_TOOL_CALLED);
    event.data.key = STR("mail");
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.job.open_effects, 1);
}

static void an_effect_that_returned_is_not_closed_again_by_a_word(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, commit_of(w, "mail", "2"));
    struct event event = next_event(w, EVENT_JOB_WAITING);
    event.data.effect = STR("mail");
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    event = next_event(w, EVENT_WAIT_COMPLETED);
    event.version++;
    event.data.resolution = RESOLVE_DONE;
    assert_int_equal(job_evolve(&slice, &event, &w->arena, &w->err), ERR_OK);
    assert_int_equal(slice.job.open_effects, 0);
    assert_text(slice.effects[0].result, "2");
}

/* A damaged count: what is closed was not counted. */
static void open_effects_are_never_fewer_than_none(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "mail", "1"));
    w->slice.job.open_effects = 0;
    struct event event = next_event(w, EVENT_TOOL_RETURNED);
    event.data.key = STR("mail");
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.job.open_effects, 0);

    event = next_event(w, EVENT_JOB_WAITING);
    event.data.effect = STR("mail");
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    event = next_event(w, EVENT_WAIT_COMPLETED);
    event.version++;
    event.data.resolution = RESOLVE_DONE;
    assert_int_equal(job_evolve(&slice, &event, &w->arena, &w->err), ERR_OK);
    assert_int_equal(slice.job.open_effects, 0);
    assert_true(slice.effects[0].returned);
}

static void a_resource_is_lost_once_however_often_it_is_named(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    struct event event = next_event(w, EVENT_STEP_FAILED_RESOURCE);
    event.data.step = STR("a");
    event.data.resource_id = STR("r1");
    struct job_slice slice;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.steps[0].avoided_count, 1);
    event.data.resource_id = absent;
    assert_int_equal(fold(w, &event, &slice), ERR_OK);
    assert_int_equal(slice.steps[0].avoided_count, 1);
}

/* ---- hostile streams ---- */

static struct str any_name(struct world *w)
{
    static const char *const names[] = {NULL, "", "a", "b", "gate", "k", "mail", "zz"};
    return str_from(names[world_random(w) % (sizeof names / sizeof names[0])]);
}

static int64_t any_number(struct world *w)
{
    static const int64_t numbers[] = {0, 1, 2, 3, -1, 100, INT64_MAX, INT64_MIN, WORLD_START_MS};
    return numbers[world_random(w) % (sizeof numbers / sizeof numbers[0])];
}

/* Times are checked when an event is opened. */
static int64_t any_time(struct world *w)
{
    static const int64_t times[] = {0, 1, WORLD_START_MS, WORLD_START_MS + 1, TIME_MAX_MS};
    return times[world_random(w) % (sizeof times / sizeof times[0])];
}

static enum event_type any_type(struct world *w)
{
    for (;;) {
        enum event_type type = (enum event_type)(1 + world_random(w) % EVENT_JOB_LEASE_RENEWED);
        static const bool known[EVENT_JOB_LEASE_RENEWED + 1] = {
#define EVENT(symbol, number, name, class_, fields) [number] = true,
#include "core/event.def"
        };
        if (known[type])
            return type;
    }
}

static struct event any_event(struct world *w, const struct job_slice *slice,
                              const struct plan *plan)
{
    struct event event = next_event(w, any_type(w));
    struct event_data *data = &event.data;
    event.version = slice->job.version + (world_random(w) % 50 != 0);
    event.at = any_time(w);
    event.cause.command = (enum command_type)(world_random(w) % 25);
    data->step = any_name(w);
    data->worker_id = any_name(w);
    data->resource_id = any_name(w);
    data->attempt = any_number(w);
    data->expires_at = any_time(w);
    data->failures = any_number(w);
    data->not_before = any_time(w);
    data->last_lease_expires_at = any_time(w);
    data->epoch = any_number(w);
    data->fresh = world_random(w) % 2;
    data->wait_type = (enum wait_type)(world_random(w) % 7);
    data->correlation_key = any_name(w);
    data->until = any_time(w);
    data->parked = world_random(w) % 2;
    data->outcome = (enum outcome)(world_random(w) % 4);
    data->signal_version = world_random(w) % 2 ? 0 : any_number(w);
    data->effect = any_name(w);
    data->resolution = (enum resolution)(world_random(w) % 4);
    data->key = any_name(w);
    data->verdict = (enum verdict)(world_random(w) % 6);
    data->plan_version = any_number(w);
    data->result = world_random(w) % 2 ? STR("1") : absent;
    data->plan = world_random(w) % 3 == 0 ? plan : NULL;
    return event;
}

static void a_hostile_stream_is_folded_or_refused_and_never_crashes(void **state)
{
    struct world *w = *state;
    struct plan plan;
    int folded = 0;
    int refused_count = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        world_clear(w, seed);
        planned(w, "[{'id':'a'},{'id':'b','deps':['a']},{'id':'gate','deps':['a'],"
                   "'wait':{'type':'signal','correlation_key':'k'}}]");
        struct str other = js(w, "[{'id':'b'},{'id':'zz','deps':['b']}]");
        assert_int_equal(plan_read(other, RECORD_REQUEST, seed, &w->arena, &plan, &w->err), ERR_OK);
        struct job_slice slice = w->slice;
        for (int i = 0; i < 100; i++) {
            struct event event = any_event(w, &slice, &plan);
            struct job_slice after;
            assert_int_equal(job_slice_copy(&slice, &w->arena, &after), ERR_OK);
            enum error_code code = job_evolve(&after, &event, &w->arena, &w->err);
            assert_true(code == ERR_OK || code == ERR_CORRUPT);
            if (code == ERR_OK)
                slice = after;
            folded += code == ERR_OK;
            refused_count += code != ERR_OK;
        }
        (void)world_row(w, &slice);
    }
    assert_true(folded > 1000);
    assert_true(refused_count > 1000);
}

/* ---- what decide is given it never changes ---- */

/* Every byte that a slice holds or points to, but for texts, which are constants. */
static struct str slice_bytes(struct world *w, const struct job_slice *slice)
{
    struct buf buf;
    buf_init(&buf, &w->arena, 64 * 1024);
    buf_add(&buf, (struct str){(const char *)slice, sizeof *slice});
    buf_add(&buf, (struct str){(const char *)slice->effects,
                               slice->effect_count * sizeof *slice->effects});
    buf_add(&buf, (struct str){(const char *)slice->signals,
                               slice->signal_count * sizeof *slice->signals});
    buf_add(&buf,
            (struct str){(const char *)slice->steps, slice->step_count * sizeof *slice->steps});
    for (uint32_t i = 0; i < slice->step_count; i++) {
        const struct step *step = &slice->steps[i];
        buf_add(&buf, (struct str){(const char *)step->children,
                                   step->child_count * sizeof *step->children});
        buf_add(&buf, (struct str){(const char *)step->avoided,
                                   step->avoided_count * sizeof *step->avoided});
    }
    assert_false(buf.failed);
    return buf_str(&buf);
}

/* Decides without carrying out; the slice that was given must be what it was, byte for byte. */
static enum error_code decide_aside(struct world *w, const struct command *command)
{
    struct str before = slice_bytes(w, &w->slice);
    struct context context = {.now = w->now, .kind = &w->kind, .arena = &w->arena};
    struct decision decision;
    enum error_code code = job_decide(&w->slice, command, &context, &decision, &w->err);
    struct str after = slice_bytes(w, &w->slice);
    assert_int_equal(before.len, after.len);
    assert_memory_equal(before.at, after.at, before.len);
    return code;
}

static void no_command_on_a_job_changes_what_it_was_given(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, signal_of(w, "k", "1"));
    struct command commands[] = {
        complete_with(w, "1"),         fail_as(w, CLASS_TRANSIENT),
        by_worker(w, COMMAND_RELEASE), by_worker(w, COMMAND_HEARTBEAT),
        wait_for(w, "k", 0),           begin_of(w, "mail", "1"),
        begin_of(w, "mail", "2"),      begin_of(w, "next", "2"),
        commit_of(w, "mail", "2"),     signal_of(w, "k", "2"),
        cancel_by(CANCEL_SOFT, ""),    cancel_by(CANCEL_HARD, ""),
        requeue_by("", false),         expire_of(1),
        claim_by("w2", true),          plan_of(w, "[{'id':'a'}]"),
        by_engine(COMMAND_WAKE),       by_engine(COMMAND_CANCEL_DUE),
    };
    int accepted = 0;
    int refused_count = 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        enum error_code code = decide_aside(w, &commands[i]);
        accepted += code == ERR_OK;
        refused_count += code != ERR_OK;
    }
    assert_int_equal(accepted, 9);
    assert_int_equal(refused_count, 9);
    story(w, "job_created job_leased job_running tool_called signal_received");
}

static void no_command_on_a_plan_changes_what_it_was_given(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']},{'id':'c'},{'id':'d'},"
               "{'id':'gate','deps':['a'],'wait':{'type':'signal','correlation_key':'k'}}]");
    do_ok(w, step_claim_of(w, "c", "r1", true));
    do_ok(w, fail_as(w, CLASS_RESOURCE));
    do_ok(w, step_claim_of(w, "d", "r1", true));
    do_ok(w, verdict_on("d", VERDICT_NEEDS_USER));
    do_ok(w, step_claim_of(w, "a", "r1", true));
    do_ok(w, begin_of(w, "mail", "1"));
    do_ok(w, commit_of(w, "mail", "1"));
    struct command commands[] = {
        complete_with(w, "1"),
        fail_as(w, CLASS_TRANSIENT),
        fail_as(w, CLASS_RESOURCE),
        fail_as(w, CLASS_PERMANENT),
        by_worker(w, COMMAND_RELEASE),
        by_worker(w, COMMAND_HEARTBEAT),
        begin_of(w, "next", "2"),
        step_claim_of(w, "c", "r2", true),
        answer_of(w, "d", "1"),
        signal_of(w, "d", "1"),
        verdict_on("a", VERDICT_REPLAN),
        verdict_on("a", VERDICT_NEEDS_USER),
        cancel_by(CANCEL_HARD, ""),
        step_claim_of(w, "c", "r1", true),
        step_claim_of(w, "b", "r1", true),
        plan_of(w, "[{'id':'a'}]"),
        requeue_by("", false),
        on_step(expire_of(1), "a"),
        on_step(by_engine(COMMAND_WAKE), "d"),
    };
    int accepted = 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        accepted += decide_aside(w, &commands[i]) == ERR_OK;
    assert_int_equal(accepted, 13);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    struct command requeue = requeue_by("", true);
    assert_int_equal(decide_aside(w, &requeue), ERR_OK);
    assert_null(world_check(w));
}

static void an_index_of_many_effects_is_copied_with_them(void **state)
{
    struct world *w = *state;
    running(w);
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                       "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct command more = begin_of(w, "more", "1");
        assert_int_equal(decide_aside(w, &more), ERR_OK);
        do_ok(w, begin_of(w, keys[i], "1"));
        assert_null(job_effect(&w->slice, STR("more")));
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_text(job_effect(&w->slice, str_from(keys[i]))->key, keys[i]);
    assert_null(job_effect(&w->slice, STR("z")));
    assert_null(world_check(w));
}

/* ---- a slice of a plan ---- */

/* The step and its children only, as a store loads them. */
static struct job_slice sliced(struct world *w, const char *id)
{
    struct job_slice slice = w->slice;
    const struct step *step = step_named(w, id);
    slice.steps = arena_zalloc(&w->arena, 1 + step->child_count, sizeof *slice.steps);
    slice.steps[0] = *step;
    for (uint32_t i = 0; i < step->child_count; i++)
        slice.steps[1 + i] = *job_step_at(&w->slice, step->children[i]);
    slice.step_count = 1 + step->child_count;
    slice.step_index = (struct map){0};
    return slice;
}

static void a_slice_of_a_plan_gives_what_the_whole_gives(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'x'},{'id':'y'},{'id':'a'},{'id':'b','deps':['a','x']},"
               "{'id':'gate','deps':['a'],'wait':{'type':'timer','delay_ms':9}},"
               "{'id':'z','deps':['b']}]");
    do_ok(w, step_claim_of(w, "a", "r1", true));
    struct command command = complete_with(w, "1");
    struct context context = {.now = w->now, .kind = &w->kind, .arena = &w->arena};
    struct decision whole;
    struct decision part;
    struct job_slice slice = sliced(w, "a");
    assert_int_equal(job_decide(&w->slice, &command, &context, &whole, &w->err), ERR_OK);
    assert_int_equal(job_decide(&slice, &command, &context, &part, &w->err), ERR_OK);
    assert_int_equal(part.count, whole.count);
    assert_int_equal(part.count, 4);
    for (uint32_t i = 0; i < part.count; i++) {
        assert_int_equal(part.events[i].type, whole.events[i].type);
        assert_str(part.events[i].data.step, whole.events[i].data.step);
    }
    for (uint32_t i = 0; i < part.after.step_count; i++)
        assert_int_equal(job_step(&whole.after, part.after.steps[i].spec.id)->state,
                         part.after.steps[i].state);
    whole.after.step_count = 0;
    part.after.step_count = 0;
    assert_str(world_row(w, &part.after), world_row(w, &whole.after));
    do_ok(w, command);
    assert_null(world_check(w));
}

static void a_step_that_is_not_loaded_is_not_found(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b'}]");
    struct job_slice slice = sliced(w, "b");
    assert_null(job_step(&slice, STR("a")));
    assert_non_null(job_step(&slice, STR("b")));
    assert_null(job_step_at(&slice, 0));
    assert_ptr_equal(job_step_at(&slice, 1), &slice.steps[0]);
    assert_null(job_step_at(&slice, 7));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(an_event_that_is_not_the_next_is_corrupt),
        SCENARIO(an_effect_that_is_not_there_is_corrupt),
        SCENARIO(a_stored_signal_that_is_not_there_is_corrupt),
        SCENARIO(a_signal_taken_twice_is_counted_once),
        SCENARIO(a_doubt_about_an_effect_that_is_not_there_is_corrupt),
        SCENARIO(a_doubt_of_a_step_about_an_effect_that_is_not_there_is_corrupt),
        SCENARIO(a_step_that_is_not_there_is_corrupt),
        SCENARIO(a_heartbeat_without_a_lease_is_corrupt),
        SCENARIO(children_that_are_not_there_are_corrupt),
        SCENARIO(illegal_events_are_folded_as_they_are),
        SCENARIO(a_stream_may_begin_with_any_state_event),
        SCENARIO(an_effect_called_again_after_it_returned_is_open_again),
        SCENARIO(an_effect_that_returned_is_not_closed_again_by_a_word),
        SCENARIO(open_effects_are_never_fewer_than_none),
        SCENARIO(a_resource_is_lost_once_however_often_it_is_named),
        SCENARIO(a_hostile_stream_is_folded_or_refused_and_never_crashes),
        SCENARIO(no_command_on_a_job_changes_what_it_was_given),
        SCENARIO(no_command_on_a_plan_changes_what_it_was_given),
        SCENARIO(an_index_of_many_effects_is_copied_with_them),
        SCENARIO(a_slice_of_a_plan_gives_what_the_whole_gives),
        SCENARIO(a_step_that_is_not_loaded_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
