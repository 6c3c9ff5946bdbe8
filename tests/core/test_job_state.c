/* Jobs and their parts as texts, and back. */
#include "core/job_state.h"

#include "../base/starve.h"
#include "core/plan.h"
#include "scenario.h"

/* Everything that JSON must escape, and what it need not. */
static const char hostile[] = "\"\\/\b\f\n\r\t\x01\x1f\x7f' <\xc3\xa9\xe5\xb7\xa5\xf0\x9f\x90\x8d>";
static const char name[] = "a \"name\\\" of 工作";

static void write_job(const struct job *job, struct buf *buf)
{
    job_state_write(job, STATE_JSON, buf);
}

static void write_effect(const struct effect *effect, struct buf *buf)
{
    effect_state_write(effect, STATE_JSON, buf);
}

static void pack_job(const struct job *job, struct buf *buf)
{
    job_state_write(job, STATE_PACKED, buf);
}

static void pack_effect(const struct effect *effect, struct buf *buf)
{
    effect_state_write(effect, STATE_PACKED, buf);
}

#define TEXT_OF(function, type, write)                                                             \
    static struct str function(struct world *w, const type *part)                                  \
    {                                                                                              \
        struct buf buf;                                                                            \
        buf_init(&buf, &w->arena, 16);                                                             \
        write(part, &buf);                                                                         \
        assert_false(buf.failed);                                                                  \
        return buf_str(&buf);                                                                      \
    }

TEXT_OF(job_text, struct job, write_job)
TEXT_OF(effect_text, struct effect, write_effect)
TEXT_OF(packed_job, struct job, pack_job)
TEXT_OF(packed_effect, struct effect, pack_effect)
TEXT_OF(plan_text, struct step, step_plan_write)
TEXT_OF(step_text, struct step, step_state_write)
TEXT_OF(resource_text, struct resource, resource_state_write)
TEXT_OF(kind_text, struct kind_settings, kind_settings_write)

/* ---- parts with every member set ---- */

static struct lease full_lease(void)
{
    struct lease lease = {
        .live = true,
        .ended_by = COMMAND_RELEASE,
        .worker_id = str_from(name),
        .resource_id = STR("r1"),
        .lease_ttl_ms = 1,
        .heartbeat_ms = 2,
        .beat_at = WORLD_START_MS + 3,
        .expires_at = WORLD_START_MS + 4,
        .timeout_at = WORLD_START_MS + 5,
    };
    memset(lease.token_hash, 0xa5, sizeof lease.token_hash);
    return lease;
}

static struct wait full_wait(void)
{
    return (struct wait){
        .type = WAIT_HUMAN,
        .correlation_key = str_from(name),
        .since = WORLD_START_MS + 6,
        .until = WORLD_START_MS + 7,
        .prompt = str_from(hostile),
        .choices = STR("[ \"yes\" , \"no\" ]"),
        .assignee = STR("bob"),
        .effect = STR("mail"),
    };
}

static struct job full_job(void)
{
    struct job job = {
        .status = JOB_WAITING,
        .version = 11,
        .attempt = 12,
        .epoch = 13,
        .failures = 14,
        .run_at = WORLD_START_MS + 15,
        .created_at = WORLD_START_MS + 16,
        .updated_at = WORLD_START_MS + 17,
        .spec = {.kind = STR("mail"), .queue = STR("q")},
        .lease = full_lease(),
        .wait = full_wait(),
        .resume = {.outcome = OUTCOME_SIGNAL, .correlation_key = STR("k"), .payload = STR("1.10")},
        .dead_letter = {DEAD_TIMEOUT, STAGE_EXEC, STR("{\"class\":\"timeout\"}"), 18, STR("w1"),
                        WORLD_START_MS + 19, WORLD_START_MS + 20},
        .result = STR("{ \"n\" : 1e5 }"),
        .error = STR("{}"),
        .progress = STR("\"\\u0041\""),
        .cursor = STR("page=2"),
        .cancel_requested = true,
        .cancel_reason = str_from(hostile),
        .cancel_at = WORLD_START_MS + 21,
        .effects_from = 22,
        .open_effects = 23,
        .stored_signals = 24,
        .plan_version = 25,
        .step_attempt_base = 26,
        .replan = true,
        .replan_reason = STR(""),
        .steps = {27, 28, 29, 30, 31, 32, 33},
        .final_steps = 34,
    };
    memset(job.id.bytes, 1, sizeof job.id.bytes);
    memset(job.head, 2, sizeof job.head);
    memset(job.salt, 3, sizeof job.salt);
    return job;
}

static struct step full_step(struct str *avoided, uint32_t *children)
{
    avoided[0] = str_from(name);
    avoided[1] = STR("r2");
    children[0] = 0;
    children[1] = PLAN_STEPS_MAX - 1;
    return (struct step){
        .ordinal = 7,
        .state = STEP_NEEDS_USER,
        .spec = {.id = str_from(name),
                 .kind = STR("k"),
                 .deps = STR("[\"x\"]"),
                 .payload = STR("{ }"),
                 .capabilities = STR("[\"gpu\"]"),
                 .selector = STR("zone=a"),
                 .avoid = STR("[\"r9\"]"),
                 .retry = {.max_attempts = 3},
                 .timeout_ms = 4,
                 .critic = true,
                 .on_failure = ON_FAILURE_CONTINUE,
                 .wait = STR("{\"type\":\"timer\",\"delay_ms\":5}")},
        .children = children,
        .child_count = 2,
        .open_deps = 1,
        .attempt = 2,
        .failures = 3,
        .not_before = WORLD_START_MS + 4,
        .open_effects = 5,
        .lease = full_lease(),
        .avoided = avoided,
        .avoided_count = 2,
        .question = full_wait(),
        .default_answer = STR("\"no\""),
        .answered = true,
        .answer = STR("[0]"),
        .answered_by = STR("bob"),
        .held = true,
        .verdict = VERDICT_RETRY,
        .result = STR("false"),
        .error = STR("{}"),
        .progress = STR("1"),
        .cursor = str_from(hostile),
    };
}

static struct resource full_resource(struct str *capabilities, struct label *labels)
{
    capabilities[0] = STR("gpu");
    capabilities[1] = str_from(name);
    labels[0] = (struct label){STR("zone"), STR("")};
    labels[1] = (struct label){str_from(name), STR("a\\\"b")};
    return (struct resource){.id = str_from(name),
                             .capabilities = {capabilities, 2},
                             .queues = {capabilities, 2},
                             .shared = true,
                             .owned = true,
                             .labels = labels,
                             .label_count = 2,
                             .slots = 3,
                             .used = 2,
                             .expires_at = WORLD_START_MS,
                             .draining = true};
}

/* ---- there and back ---- */

static void the_state_of_a_new_job_is_short(void **state)
{
    struct world *w = *state;
    submitted(w);
    assert_str(job_text(w, &w->slice.job),
               js(w, "{'epoch':1,'run_at':'2026-01-01T00:00:00.000Z'}"));
}

/* What stores keep in columns is as it is in `job`. */
static struct job_slice without_state(const struct job *job)
{
    struct job_slice slice = {.job = {.id = job->id,
                                      .status = job->status,
                                      .version = job->version,
                                      .failures = job->failures,
                                      .created_at = job->created_at,
                                      .updated_at = job->updated_at,
                                      .spec = job->spec,
                                      .cursor = job->cursor}};
    memcpy(slice.job.head, job->head, HASH_LEN);
    memcpy(slice.job.salt, job->salt, SALT_LEN);
    return slice;
}

static void every_member_of_a_job_comes_back(void **state)
{
    struct world *w = *state;
    struct job_slice slice = {.job = full_job()};
    struct job_slice read = without_state(&slice.job);
    struct str text = job_text(w, &slice.job);
    assert_int_equal(json_check(text, text.len, "state", &w->arena, &w->err), ERR_OK);
    assert_int_equal(job_state_read(text, &w->arena, &read.job, &w->err), ERR_OK);
    assert_str(world_row(w, &read), world_row(w, &slice));

    struct job_slice unpacked = without_state(&slice.job);
    struct str packed = packed_job(w, &slice.job);
    assert_true(packed.len * 2 < text.len);
    assert_int_equal(job_state_read(packed, &w->arena, &unpacked.job, &w->err), ERR_OK);
    assert_str(world_row(w, &unpacked), world_row(w, &slice));
}

/* Stored bytes are for ever: places of fields must not change. */
static void packed_states_stay_as_they_are(void **state)
{
    struct world *w = *state;
    struct job job = {.attempt = 1, .epoch = -1, .run_at = 300, .replan = true, .final_steps = 5};
    job.lease.worker_id = STR("w");
    static const char bytes[] = "\x01\x28\x02\x2c\x01\x34\xd8\x04\x3b\x09\x01w\xff\x7a\x9c\x0a";
    assert_str(packed_job(w, &job), ((struct str){bytes, sizeof bytes - 1}));
    struct effect effect = {.step = STR("s"), .key = STR("k"), .attempt = 2, .aborted = true};
    static const char other[] = "\x01\x0c\x04\x36";
    assert_str(packed_effect(w, &effect), ((struct str){other, sizeof other - 1}));
}

static void packed_states_of_newer_versions_are_read(void **state)
{
    struct world *w = *state;
    /* Places 60 to 62: a number, bytes, a flag; a record with a number in it. */
    static const char bytes[] = "\x01\x28\x02\xef\x00\x02\xff\xf0\x07\xf5\x02xy\xfa";
    struct job job = {0};
    struct str packed = {bytes, sizeof bytes - 1};
    assert_int_equal(job_state_read(packed, &w->arena, &job, &w->err), ERR_OK);
    assert_int_equal(job.attempt, 1);
}

/* Cut short or with a byte changed it is told as damaged or read as something else; nothing
 * outside of it is read (the sanitizers look). */
static void damaged_packed_states_are_told(void **state)
{
    struct world *w = *state;
    struct job full = full_job();
    struct str packed = packed_job(w, &full);
    uint32_t corrupt = 0;
    for (size_t len = 1; len < packed.len; len++) {
        struct job job = {0};
        char *bytes = arena_alloc(&w->arena, len);
        memcpy(bytes, packed.at, len);
        corrupt +=
            job_state_read((struct str){bytes, len}, &w->arena, &job, &w->err) == ERR_CORRUPT;
    }
    assert_true(corrupt * 4 > packed.len * 3);
    for (size_t i = 0; i < packed.len; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct job job = {0};
            char *bytes = arena_alloc(&w->arena, packed.len);
            memcpy(bytes, packed.at, packed.len);
            bytes[i] = (char)(bytes[i] ^ (1 << bit));
            enum error_code code =
                job_state_read((struct str){bytes, packed.len}, &w->arena, &job, &w->err);
            assert_true(code == ERR_OK || code == ERR_CORRUPT);
        }
    struct job job = {0};
    assert_int_equal(job_state_read(STR("\x01\x28"), &w->arena, &job, &w->err), ERR_CORRUPT);
    assert_text(str_from(w->err.detail),
                "the state of a job cannot be read: its bytes are damaged");
    /* Records in what is unknown end at the first: damage must not lead deeper and deeper. */
    assert_int_equal(job_state_read(STR("\x01\xef\xef\xff\xff"), &w->arena, &job, &w->err),
                     ERR_CORRUPT);
}

static void what_stores_keep_elsewhere_is_left_alone(void **state)
{
    struct world *w = *state;
    struct job job = full_job();
    struct str text = js(w, "{'id':'00','status':3,'version':99,'failures':99,'cursor':'x',"
                            "'created_at':'x','updated_at':1,'spec':1,'head':'','salt':2,"
                            "'attempt':7,'a newer member':{}}");
    assert_int_equal(job_state_read(text, &w->arena, &job, &w->err), ERR_OK);
    assert_int_equal(job.attempt, 7);
    job.attempt = 12;
    struct job_slice read = {.job = job};
    struct job_slice full = {.job = full_job()};
    assert_str(world_row(w, &read), world_row(w, &full));
}

static void a_spec_comes_from_the_first_event(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.kind = str_from(name);
    spec.payload = js(w, "{'to' : 1.10}");
    spec.capabilities = js(w, "[ 'a' ]");
    spec.labels = js(w, "{'k':'v'}");
    spec.goal = str_from("a \"goal\"\n");
    spec.priority = -3;
    spec.in_doubt = DOUBT_ASK;
    struct command submit = by_user(COMMAND_SUBMIT);
    submit.submit.spec = &spec;
    do_ok(w, submit);
    struct job_slice read = w->slice;
    read.job.spec = (struct spec){0};
    assert_int_equal(job_spec_read(w->log[0].payload, &w->arena, &read.job.spec, &w->err), ERR_OK);
    assert_str(world_row(w, &read), world_row(w, &w->slice));
    assert_int_equal(job_spec_read(absent, &w->arena, &read.job.spec, &w->err), ERR_OK);
    assert_str(world_row(w, &read), world_row(w, &w->slice));
}

static void every_member_of_an_effect_comes_back_with_its_name(void **state)
{
    struct world *w = *state;
    struct effect effect = {.step = STR("a"),
                            .key = str_from(name),
                            .version = 1,
                            .attempt = 2,
                            .epoch = 3,
                            .returned = true,
                            .resolution = RESOLVE_DONE,
                            .resolved_epoch = 4,
                            .result = STR("[ ]"),
                            .fingerprint = STR("00ff"),
                            .in_doubt = DOUBT_ASK,
                            .aborted = true,
                            .ended_at = 17,
                            .error = STR("{\"message\":\"429\"}")};
    memset(effect.input_hash, 0x5a, sizeof effect.input_hash);
    effect.name = effect_name(effect.step, effect.key, &w->arena);
    struct effect read = {.step = effect.step, .key = effect.key, .version = 1};
    assert_int_equal(effect_state_read(effect_text(w, &effect), &w->arena, &read, &w->err), ERR_OK);
    struct job_slice one = {.effects = &effect, .effect_count = 1};
    struct job_slice other = {.effects = &read, .effect_count = 1};
    assert_str(world_row(w, &other), world_row(w, &one));
    assert_str(read.name, effect.name);
    struct effect unpacked = {.step = effect.step, .key = effect.key, .version = 1};
    assert_int_equal(effect_state_read(packed_effect(w, &effect), &w->arena, &unpacked, &w->err),
                     ERR_OK);
    struct job_slice third = {.effects = &unpacked, .effect_count = 1};
    assert_str(world_row(w, &third), world_row(w, &one));
    struct effect own = {.key = STR("mail"), .version = 1};
    assert_int_equal(effect_state_read(STR("{}"), &w->arena, &own, &w->err), ERR_OK);
    assert_text(own.name, "mail");
    assert_str(effect_text(w, &own), STR("{}"));
}

static void every_member_of_a_step_comes_back(void **state)
{
    struct world *w = *state;
    struct str avoided[2];
    uint32_t children[2];
    struct step step = full_step(avoided, children);
    struct step read = {.ordinal = 7};
    assert_int_equal(step_plan_read(plan_text(w, &step), &w->arena, &read, &w->err), ERR_OK);
    assert_int_equal(step_state_read(step_text(w, &step), &w->arena, &read, &w->err), ERR_OK);
    struct job_slice one = {.steps = &step, .step_count = 1};
    struct job_slice other = {.steps = &read, .step_count = 1};
    assert_str(world_row(w, &other), world_row(w, &one));
    assert_int_equal(read.child_count, 2);
    assert_memory_equal(read.children, children, sizeof children);
}

static void a_step_that_has_not_begun_is_short(void **state)
{
    struct world *w = *state;
    planned(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    assert_str(step_text(w, step_named(w, "a")), STR("{\"state\":0}"));
    struct str text = plan_text(w, step_named(w, "a"));
    assert_true(text.len > 16);
    assert_memory_equal(text.at, "{\"children\":[1],", 16);
}

static void children_in_a_row_are_kept_as_its_ends(void **state)
{
    struct world *w = *state;
    uint32_t children[] = {1, 2, 3, 5, 6, 7, 8, 12, 20, 21, 22, 23, 24};
    struct step step = {.spec.id = STR("a"), .children = children};
    struct step read = {0};
    struct err err;
    struct buf text;
    step.child_count = sizeof children / sizeof children[0];
    buf_init(&text, &w->arena, 64);
    step_plan_write(&step, &text);
    struct str head = STR("{\"children\":[1,2,3,\"5-8\",12,\"20-24\"],");
    assert_memory_equal(text.at, head.at, head.len);
    assert_int_equal(step_plan_read(buf_str(&text), &w->arena, &read, &err), ERR_OK);
    assert_int_equal(read.child_count, step.child_count);
    assert_memory_equal(read.children, children, sizeof children);
}

static void a_plan_of_many_children_comes_back(void **state)
{
    struct world *w = *state;
    struct step step = {.spec = {.id = STR("a")}, .child_count = PLAN_STEPS_MAX};
    step.children = arena_zalloc(&w->arena, PLAN_STEPS_MAX + 1, sizeof *step.children);
    for (uint32_t i = 0; i < PLAN_STEPS_MAX; i++)
        step.children[i] = PLAN_STEPS_MAX - 1 - i;
    struct step read = {0};
    assert_int_equal(step_plan_read(plan_text(w, &step), &w->arena, &read, &w->err), ERR_OK);
    assert_int_equal(read.child_count, PLAN_STEPS_MAX);
    assert_memory_equal(read.children, step.children, PLAN_STEPS_MAX * sizeof *step.children);
    step.child_count++;
    assert_int_equal(step_plan_read(plan_text(w, &step), &w->arena, &read, &w->err), ERR_CORRUPT);
}

/* As a step that many must come before is written, and as it was written once. */
static void a_step_with_many_dependencies_comes_back(void **state)
{
    struct world *w = *state;
    struct buf deps;
    struct step read = {0};
    buf_init(&deps, &w->arena, 0);
    for (int i = 0; i < 100; i++)
        buf_addf(&deps, "%c\"s%d\"", i == 0 ? '[' : ',', i);
    buf_add_char(&deps, ']');
    struct step step = {
        .spec = {.id = STR("a"), .deps = buf_str(&deps), .payload = STR("{\"deps\":[]}")}};
    struct str text = plan_text(w, &step);
    assert_memory_equal(text.at, "{\"children\":[],\"deps_bytes\":", 28);
    assert_int_equal(step_plan_read(text, &w->arena, &read, &w->err), ERR_OK);
    assert_str(read.spec.deps, step.spec.deps);
    assert_str(read.spec.payload, step.spec.payload);
    assert_str(plan_text(w, &read), text);
    struct step before = {0};
    struct buf old;
    buf_init(&old, &w->arena, 0);
    buf_add(&old, STR("{\"children\":[],\"spec\":{\"id\":\"a\",\"deps\":"));
    buf_add(&old, step.spec.deps);
    buf_add(&old, STR(",\"payload\":1}}"));
    assert_int_equal(step_plan_read(buf_str(&old), &w->arena, &before, &w->err), ERR_OK);
    assert_str(before.spec.deps, step.spec.deps);
}

static void every_member_of_a_resource_comes_back_but_what_it_holds(void **state)
{
    struct world *w = *state;
    struct str capabilities[2];
    struct label labels[2];
    struct resource resource = full_resource(capabilities, labels);
    struct resource read = {0};
    struct str text = resource_text(w, &resource);
    assert_int_equal(json_check(text, text.len, "resource", &w->arena, &w->err), ERR_OK);
    assert_int_equal(resource_state_read(text, &w->arena, &read, &w->err), ERR_OK);
    assert_str(resource_text(w, &read), text);
    assert_int_equal(read.used, 0);
    assert_text(read.id, name);
    assert_int_equal(read.capabilities.count, 2);
    assert_int_equal(read.label_count, 2);
    assert_str(read.labels[0].value, STR(""));
    assert_text(read.labels[1].key, name);
    assert_true(read.draining);
    assert_int_equal(read.queues.count, 2);
    assert_text(read.queues.at[1], name);
    assert_true(read.shared && read.owned);
    struct resource bare = {.id = STR("r1"), .slots = 1, .expires_at = 1};
    read = (struct resource){0};
    assert_int_equal(resource_state_read(resource_text(w, &bare), &w->arena, &read, &w->err),
                     ERR_OK);
    assert_int_equal(read.label_count, 0);
    assert_int_equal(read.capabilities.count, 0);
    assert_true(read.queues.count == 0 && !read.shared && !read.owned);
}

static void the_settings_of_a_kind_come_back(void **state)
{
    struct world *w = *state;
    struct kind_settings kind = {.lease_ttl_ms = 1,
                                 .heartbeat_ms = 2,
                                 .timeout_ms = 3,
                                 .retry = retry_policy_for_jobs(),
                                 .retention_ms = 4,
                                 .cancel_grace_ms = 5};
    struct kind_settings read = {0};
    struct str text = kind_text(w, &kind);
    assert_int_equal(kind_settings_read(text, &w->arena, &read, &w->err), ERR_OK);
    assert_str(kind_text(w, &read), text);
    assert_int_equal(read.lease_ttl_ms, 1);
    assert_int_equal(read.retention_ms, 4);
    assert_int_equal(read.retry.max_attempts, kind.retry.max_attempts);
}

/* ---- damage ---- */

typedef enum error_code (*reader)(struct str json, struct arena *arena, struct err *err);

static enum error_code read_job(struct str json, struct arena *arena, struct err *err)
{
    struct job job = {0};
    return job_state_read(json, arena, &job, err);
}

static enum error_code read_spec(struct str json, struct arena *arena, struct err *err)
{
    struct spec spec = {0};
    return job_spec_read(json, arena, &spec, err);
}

static enum error_code read_effect(struct str json, struct arena *arena, struct err *err)
{
    struct effect effect = {.step = STR("a"), .key = STR("mail")};
    return effect_state_read(json, arena, &effect, err);
}

static enum error_code read_plan(struct str json, struct arena *arena, struct err *err)
{
    struct step step = {0};
    return step_plan_read(json, arena, &step, err);
}

static enum error_code read_step(struct str json, struct arena *arena, struct err *err)
{
    struct step step = {0};
    return step_state_read(json, arena, &step, err);
}

static enum error_code read_resource(struct str json, struct arena *arena, struct err *err)
{
    struct resource resource = {0};
    return resource_state_read(json, arena, &resource, err);
}

static enum error_code read_kind(struct str json, struct arena *arena, struct err *err)
{
    struct kind_settings kind = {0};
    return kind_settings_read(json, arena, &kind, err);
}

enum { READERS = 7 };
static const reader readers[READERS] = {read_job,  read_spec,     read_effect, read_plan,
                                        read_step, read_resource, read_kind};

static const struct str reader_names[READERS] = {
    STR_INIT("the state of a job"),     STR_INIT("the spec of a job"),
    STR_INIT("the state of an effect"), STR_INIT("the plan of a step"),
    STR_INIT("the state of a step"),    STR_INIT("a resource"),
    STR_INIT("the settings of a kind")};

#define NAME_OF_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* A good text for each reader, with everything in it. */
static void good_texts(struct world *w, struct str ret[READERS])
{
    struct str avoided[2];
    uint32_t children[2];
    struct str capabilities[2];
    struct label labels[2];
    struct job job = full_job();
    struct step step = full_step(avoided, children);
    struct str deps =
        arena_copy(&w->arena, STR("[\"" NAME_OF_64 NAME_OF_64 "\",\"" NAME_OF_64 NAME_OF_64 "\"]"));
    step.spec.deps = deps;
    struct resource resource = full_resource(capabilities, labels);
    struct kind_settings kind = {.lease_ttl_ms = 1,
                                 .heartbeat_ms = 2,
                                 .timeout_ms = 3,
                                 .retry = retry_policy_for_jobs(),
                                 .retention_ms = 4,
                                 .cancel_grace_ms = 5};
    struct effect effect = {.returned = true, .result = STR("[1]"), .attempt = 3};
    ret[0] = job_text(w, &job);
    ret[1] = js(w, "{'kind':'\\u0041','queue':'q\\u0042','payload':[1],'retry':{'max_attempts':3},"
                   "'run_at':'2026-01-01T00:00:00.000Z','in_doubt':'ask','labels':{'a':'b'}}");
    ret[2] = effect_text(w, &effect);
    ret[3] = plan_text(w, &step);
    ret[4] = step_text(w, &step);
    ret[5] = resource_text(w, &resource);
    ret[6] = kind_text(w, &kind);
}

static void text_that_is_cut_off_is_corrupt(void **state)
{
    struct world *w = *state;
    struct str texts[READERS];
    good_texts(w, texts);
    for (int i = 0; i < READERS; i++) {
        if (readers[i](texts[i], &w->arena, &w->err) != ERR_OK)
            fail_msg("%s", w->err.detail);
        for (size_t len = 0; len < texts[i].len; len++) {
            struct str cut = exact((struct str){texts[i].at, len});
            struct err err = {0};
            assert_int_equal(readers[i](cut, &w->arena, &err), ERR_CORRUPT);
            assert_int_equal(err.code, ERR_CORRUPT);
            assert_int_equal(readers[i](cut, &w->arena, NULL), ERR_CORRUPT);
            exact_free(cut);
        }
    }
}

static void text_with_a_wrong_byte_is_read_or_corrupt(void **state)
{
    struct world *w = *state;
    static const char bytes[] = "\"[]{},:\\x9n- \x80";
    struct str texts[READERS];
    good_texts(w, texts);
    for (int i = 0; i < READERS; i++) {
        struct str bad = exact(texts[i]);
        char *at = (char *)(uintptr_t)bad.at;
        for (size_t place = 0; place < bad.len; place++) {
            char good = at[place];
            for (size_t k = 0; k < sizeof bytes - 1; k++) {
                struct arena arena;
                arena_init(&arena);
                at[place] = bytes[k];
                enum error_code code = readers[i](bad, &arena, &w->err);
                assert_true(code == ERR_OK || code == ERR_CORRUPT);
                arena_release(&arena);
            }
            at[place] = good;
        }
        exact_free(bad);
    }
}

static void a_text_of_another_type_is_corrupt_and_says_what_it_should_be(void **state)
{
    struct world *w = *state;
    static const char *const texts[] = {"[]", "null", "1", "\"\"", "x", " "};
    for (int i = 0; i < READERS; i++) {
        for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
            struct err err = {0};
            assert_int_equal(readers[i](str_from(texts[k]), &w->arena, &err), ERR_CORRUPT);
            assert_true(strlen(err.detail) > reader_names[i].len);
            assert_memory_equal(err.detail, reader_names[i].at, reader_names[i].len);
        }
    }
    struct err err = {0};
    (void)read_job(js(w, "{'lease':{'beat_at':7}}"), &w->arena, &err);
    assert_string_equal(err.detail, "the state of a job cannot be read: lease.beat_at must be a "
                                    "time such as \"2026-11-15T19:53:15.042Z\", not 7");
}

static void members_that_cannot_be_are_corrupt(void **state)
{
    struct world *w = *state;
    static const struct {
        reader read;
        const char *text;
    } bad[] = {
        {read_job, "{'attempt':'1'}"},
        {read_job, "{'wait':{'type':'never'}}"},
        {read_job, "{'lease':{'token_hash':'ab'}}"},
        {read_job, "{'lease':{'worker_id':''}}"},
        {read_job, "{'attempt':99999999999999999999}"},
        {read_effect, "{'input_hash':'zz'}"},
        {read_plan, "{}"},
        {read_plan, "{'children':[0]}"},
        {read_plan, "{'children':['3-'],'spec':{'id':'a'}}"},
        {read_plan, "{'children':['3-3'],'spec':{'id':'a'}}"},
        {read_plan, "{'children':['3-2'],'spec':{'id':'a'}}"},
        {read_plan, "{'children':['3-7,9],'spec':{'id':'a'}}"},
        {read_plan, "{'children':['3-10000'],'spec':{'id':'a'}}"},
        {read_plan, "{'children':[1,'0-9999'],'spec':{'id':'a'}}"},
        {read_plan, "{'spec':{'id':'a'}}"},
        {read_plan, "{'spec':[],'children':[]}"},
        {read_plan, "{'spec':{'id':''},'children':[]}"},
        {read_plan, "{'spec':{'id':'a'},'children':{}}"},
        {read_plan, "{'spec':{'id':'a'},'children':['0']}"},
        {read_plan, "{'spec':{'id':'a'},'children':[-1]}"},
        {read_plan, "{'spec':{'id':'a'},'children':[10000]}"},
        {read_plan, "{'spec':{'id':'a'},'children':[x]}"},
        {read_plan, "{'spec':{'id':'a'},'children':[1 2]}"},
        {read_plan, "{'spec':{'id':'a'},'children':[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0 1]}"},
        {read_step, "{'state':-1}"},
        {read_step, "{'state':13}"},
        {read_step, "{'state':1000000}"},
        {read_step, "{'state':0,'avoided':{}}"},
        {read_step, "{'state':0,'avoided':[1]}"},
        {read_step, "{'state':0,'avoided':['']}"},
        {read_step, "{'state':0,'avoided':['a','a']}"},
        {read_resource, "{'id':'r','capabilities':1,'labels':[]}"},
        {read_resource, "{'id':'r','capabilities':[]}"},
        {read_resource, "{'id':'r','capabilities':[],'queues':1,'labels':[]}"},
        {read_resource, "{'id':'r','capabilities':[],'labels':{}}"},
        {read_resource, "{'id':'r','capabilities':[],'labels':['a']}"},
        {read_resource, "{'id':'r','capabilities':[],'labels':['a',1]}"},
        {read_resource, "{'id':'r','capabilities':[],'labels':['a','\\ud800']}"},
        {read_resource, "{'id':'r','capabilities':[],'labels':[x]}"},
        {read_resource, "{'id':'r','capabilities':[],'labels':['a','b','c','d','e' 'f']}"},
        {read_kind, "{'retry':1}"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct str text = exact(js(w, bad[i].text));
        struct err err = {0};
        if (bad[i].read(text, &w->arena, &err) != ERR_CORRUPT || err.code != ERR_CORRUPT)
            fail_msg("%s: %s", bad[i].text, err.detail);
        assert_int_equal(bad[i].read(text, &w->arena, NULL), ERR_CORRUPT);
        exact_free(text);
    }
    struct effect nameless = {.version = 1};
    assert_int_equal(effect_state_read(STR("{}"), &w->arena, &nameless, &w->err), ERR_CORRUPT);
    assert_int_equal(STEP_STATE_COUNT, 13);
}

static void too_many_labels_are_corrupt(void **state)
{
    struct world *w = *state;
    struct buf buf;
    buf_init(&buf, &w->arena, 256);
    buf_addf(&buf, "{\"id\":\"r\",\"capabilities\":[],\"labels\":[\"a\",\"b\"");
    for (int i = 0; i < LABELS_MAX; i++)
        buf_addf(&buf, ",\"k%d\",\"v\"", i);
    buf_addf(&buf, "]}");
    assert_int_equal(read_resource(buf_str(&buf), &w->arena, &w->err), ERR_CORRUPT);
}

/* ---- memory ---- */

struct starved {
    reader read;
    struct str text;
    enum error_code code;
    bool flaw;
};

static bool try_to_read(struct arena *arena, void *data)
{
    struct starved *starved = data;
    struct err err = {0};
    starved->code = starved->read(starved->text, arena, &err);
    starved->flaw = starved->flaw || starved->code != err.code;
    return starved->code != ERR_NO_MEMORY;
}

static void reading_survives_without_memory(void **state)
{
    struct world *w = *state;
    if (!STARVING)
        skip();
    struct str texts[READERS];
    good_texts(w, texts);
    for (int i = 0; i < READERS - 1; i++) { /* a kind has nothing that needs memory */
        struct starved starved = {.read = readers[i], .text = texts[i]};
        assert_true(starve(try_to_read, &starved) > 0);
        assert_int_equal(starved.code, ERR_OK);
        assert_false(starved.flaw);
    }
}

/* ---- redaction ---- */

static void nothing_that_was_written_in_free_form_is_left_of_a_redacted_job(void **state)
{
    struct world *w = *state;
    struct str avoided[2];
    uint32_t children[2];
    struct step step = full_step(avoided, children);
    struct str secret = STR("\"SECRET\"");
    struct effect effect = {.name = STR("e"), .key = STR("e"), .version = 1, .result = secret};
    struct signal signal = {.correlation_key = STR("k"), .payload = secret, .version = 1};
    struct job_slice slice = {.job = full_job(),
                              .effects = &effect,
                              .effect_count = 1,
                              .signals = &signal,
                              .signal_count = 1,
                              .steps = &step,
                              .step_count = 1};
    struct job *job = &slice.job;
    struct str *const texts[] = {
        &job->spec.payload,
        &job->spec.goal,
        &job->spec.labels,
        &job->wait.prompt,
        &job->wait.choices,
        &job->result,
        &job->resume.payload,
        &job->error,
        &job->progress,
        &job->cursor,
        &job->cancel_reason,
        &job->replan_reason,
        &job->dead_letter.last_error,
        &step.spec.payload,
        &step.spec.wait,
        &step.question.prompt,
        &step.question.choices,
        &step.default_answer,
        &step.answer,
        &step.result,
        &step.error,
        &step.progress,
        &step.cursor,
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        *texts[i] = secret;
    memset(effect.input_hash, 7, sizeof effect.input_hash);
    job_redact(&slice);
    struct buf text;
    buf_init(&text, &w->arena, 512);
    buf_add(&text, world_row(w, &slice));
    buf_add_char(&text, '\0');
    assert_null(strstr(text.at, "SECRET"));
    assert_null(strstr(text.at, "0707"));
    assert_null(strstr(text.at, "\"salt\""));
    assert_true(job->redacted);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_false(str_is_set(*texts[i]));
    assert_text(job->spec.kind, "mail");
    assert_text(job->spec.queue, "q");
    assert_text(step.spec.id, name);
    assert_text(effect.key, "e");
    assert_text(signal.correlation_key, "k");
}

static void a_redacted_job_is_not_run_again(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, fail_as(w, CLASS_PERMANENT));
    job_redact(&w->slice);
    refused(w, requeue_by("again", false), ERR_INVALID_TRANSITION,
            "the payloads of this job are erased, so it cannot run again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(the_state_of_a_new_job_is_short),
        SCENARIO(every_member_of_a_job_comes_back),
        SCENARIO(packed_states_stay_as_they_are),
        SCENARIO(packed_states_of_newer_versions_are_read),
        SCENARIO(damaged_packed_states_are_told),
        SCENARIO(what_stores_keep_elsewhere_is_left_alone),
        SCENARIO(a_spec_comes_from_the_first_event),
        SCENARIO(every_member_of_an_effect_comes_back_with_its_name),
        SCENARIO(every_member_of_a_step_comes_back),
        SCENARIO(a_step_that_has_not_begun_is_short),
        SCENARIO(children_in_a_row_are_kept_as_its_ends),
        SCENARIO(a_plan_of_many_children_comes_back),
        SCENARIO(a_step_with_many_dependencies_comes_back),
        SCENARIO(every_member_of_a_resource_comes_back_but_what_it_holds),
        SCENARIO(the_settings_of_a_kind_come_back),
        SCENARIO(text_that_is_cut_off_is_corrupt),
        SCENARIO(text_with_a_wrong_byte_is_read_or_corrupt),
        SCENARIO(a_text_of_another_type_is_corrupt_and_says_what_it_should_be),
        SCENARIO(members_that_cannot_be_are_corrupt),
        SCENARIO(too_many_labels_are_corrupt),
        SCENARIO(reading_survives_without_memory),
        SCENARIO(nothing_that_was_written_in_free_form_is_left_of_a_redacted_job),
        SCENARIO(a_redacted_job_is_not_run_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
