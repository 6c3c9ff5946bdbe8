/* Events: sealed and opened again, bound by hashes, and what a stream of them says. */
#include <openssl/evp.h>

#include "scenario.h"

static const uint8_t zero_hash[HASH_LEN];
static const uint8_t salt[SALT_LEN] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

/* ---- round trips ---- */

static const struct {
    enum event_type type;
    const char *name;
} all_types[] = {
#define EVENT(symbol, number, name, class_, fields) {EVENT_##symbol, name},
#include "core/event.def"
};

static const char *const field_names[] = {
#define EVENT_FIELD(symbol, member, text, kind, names) text,
#include "core/event.def"
};

#define FILL_NAME(member, number) data.member = str_from("name-" #member);
#define FILL_TEXT(member, number) data.member = str_from("line 1\nof \"" #member "\"");
#define FILL_JSON(member, number) data.member = str_from("{\"" #member "\": [1.10, null]}");
#define FILL_INT(member, number) data.member = 1000 + (number);
#define FILL_TIME(member, number) data.member = WORLD_START_MS + (number);
#define FILL_BOOL(member, number) data.member = true;
#define FILL_HEX(member, number) memset(data.member, 0xa0 + (number) % 16, sizeof data.member);
#define FILL_ENUM(member, number) data.member = 1 + (number) % 2;

/* Every field set, each to a value of its own. */
static struct event_data full_data(void)
{
    struct event_data data = {0};
#define EVENT_FIELD(symbol, member, text, kind, names) FILL_##kind(member, EVENT_FIELD_##symbol)
#include "core/event.def"
    return data;
}

#define SAME_NAME(member) assert_str(back->member, expected->member);
#define SAME_TEXT(member) assert_str(back->member, expected->member);
#define SAME_JSON(member) assert_str(back->member, expected->member);
#define SAME_INT(member) assert_int_equal(back->member, expected->member);
#define SAME_TIME(member) assert_int_equal(back->member, expected->member);
#define SAME_BOOL(member) assert_int_equal(back->member, expected->member);
#define SAME_ENUM(member) assert_int_equal(back->member, expected->member);
#define SAME_HEX(member) assert_memory_equal(back->member, expected->member, sizeof back->member);

/* The fields of `fields` are as expected and all others are empty. */
static void assert_data(const struct event_data *back, const struct event_data *full,
                        uint64_t fields)
{
    static const struct event_data empty;
    const struct event_data *expected;
#define EVENT_FIELD(symbol, member, text, kind, names)                                             \
    expected = (fields >> EVENT_FIELD_##symbol) & 1 ? full : &empty;                               \
    SAME_##kind(member)
#include "core/event.def"
}

/* The event with only what a store keeps of it, opened. */
static struct event reopened(struct world *w, const struct event *sealed)
{
    struct event event = {
        .job_id = sealed->job_id,
        .version = sealed->version,
        .at = sealed->at,
        .type = sealed->type,
        .type_name = sealed->type_name,
        .cause_text = sealed->cause_text,
        .payload = sealed->payload,
    };
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_OK);
    return event;
}

static void seal(struct world *w, struct event *event)
{
    assert_int_equal(event_seal(event, zero_hash, salt, &w->arena, &w->err), ERR_OK);
}

static void every_type_comes_back_with_every_field_it_may_carry(void **state)
{
    struct world *w = *state;
    const struct event_data full = full_data();
    for (size_t i = 0; i < sizeof all_types / sizeof all_types[0]; i++) {
        struct event event = {.type = all_types[i].type, .version = 7, .at = 9, .data = full};
        uint64_t fields = event_type_fields(event.type);
        if (event_type_class(event.type) == EVENT_CLASS_APPENDED ||
            event.type == EVENT_PLAN_GENERATED)
            continue;
        seal(w, &event);
        struct event back = reopened(w, &event);
        assert_data(&back.data, &full, fields);
        if (fields != 0)
            assert_non_null(memchr(event.payload.at, '{', event.payload.len));
    }
}

static void a_payload_names_its_fields_in_the_order_of_the_list(void **state)
{
    struct world *w = *state;
    for (size_t i = 0; i < sizeof all_types / sizeof all_types[0]; i++) {
        struct event event = {.type = all_types[i].type, .version = 7, .data = full_data()};
        if (event_type_class(event.type) == EVENT_CLASS_APPENDED)
            continue;
        seal(w, &event);
        struct json_iter iter;
        struct str key;
        struct str value;
        if (event_type_fields(event.type) == 0) {
            assert_text(event.payload, NULL); /* "{}" is not stored */
            continue;
        }
        assert_int_equal(json_check(event.payload, 65536, "payload", &w->arena, &w->err), ERR_OK);
        assert_true(json_object_begin(&iter, event.payload));
        for (size_t f = 0; f < EVENT_FIELD_COUNT; f++) {
            if (((event_type_fields(event.type) >> f) & 1) == 0)
                continue;
            assert_true(json_object_next(&iter, &key, &value));
            assert_true(json_key_is(key, str_from(field_names[f])));
        }
        assert_false(json_object_next(&iter, &key, &value));
    }
}

static void a_created_event_carries_the_whole_spec(void **state)
{
    struct world *w = *state;
    struct spec spec = world_spec();
    spec.payload = js(w, "{'a': 1.10}");
    spec.priority = -5;
    spec.run_at = WORLD_START_MS;
    spec.idempotency_key = STR("once");
    spec.lease_ttl_ms = 1000;
    spec.heartbeat_ms = 500;
    spec.timeout_ms = 9000;
    spec.in_doubt = DOUBT_ASK;
    spec.capabilities = js(w, "['gpu']");
    spec.correlation_id = STR("c");
    spec.traceparent = STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    spec.labels = js(w, "{'team':'x'}");
    spec.agent_id = STR("agent");
    spec.goal = STR("do \"it\"");
    struct event event = {.type = EVENT_JOB_CREATED, .version = 1, .data.spec = &spec};
    seal(w, &event);
    struct event back = reopened(w, &event);
    assert_null(record_differs(&spec_record, &spec, back.data.spec, RECORD_ALL));
}

static void a_plan_comes_back_with_its_steps(void **state)
{
    struct world *w = *state;
    struct event event = {.type = EVENT_PLAN_GENERATED, .version = 2};
    struct plan plan;
    struct str steps = js(w, "[{'id':'a'},{'id':'b','deps':['a']}]");
    assert_int_equal(plan_read(steps, RECORD_REQUEST, 1, &w->arena, &plan, &w->err), ERR_OK);
    event.data.plan_version = 3;
    event.data.fresh = true;
    event.data.reason = STR("better");
    event.data.steps = plan.source;
    seal(w, &event);
    struct event back = reopened(w, &event);
    assert_int_equal(back.data.plan_version, 3);
    assert_true(back.data.fresh);
    assert_int_equal(back.data.plan->count, 2);
    assert_int_equal(back.data.plan->steps[0].child_count, 1);
    assert_str(back.data.steps, event.data.steps);
    event.data.steps = absent; /* the plan there is starts again */
    seal(w, &event);
    assert_null(reopened(w, &event).data.plan);
}

static void an_appended_event_keeps_the_payload_it_came_with(void **state)
{
    struct world *w = *state;
    struct event event = {.type = EVENT_CUSTOM,
                          .type_name = STR("a.b"),
                          .payload = STR("[ 1.10 ]"),
                          .data = full_data()};
    seal(w, &event);
    assert_text(event.payload, "[ 1.10 ]");
    assert_text(event_name(&event), "a.b");
    struct event back = reopened(w, &event);
    assert_data(&back.data, &event.data, 0);
}

static void a_redacted_event_opens_empty(void **state)
{
    struct world *w = *state;
    struct event event = {.type = EVENT_JOB_FAILED, .version = 4, .data = full_data()};
    event.cause = (struct cause){.command = COMMAND_FAIL, .attempt = 2};
    seal(w, &event);
    uint8_t hash[HASH_LEN];
    event.payload = absent;
    event.redacted = true;
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_OK);
    assert_data(&event.data, &event.data, 0);
    assert_int_equal(event.cause.attempt, 2);
    event_hash(&event, zero_hash, hash); /* the digest stays, so the chain holds */
    assert_memory_equal(hash, event.hash, HASH_LEN);
}

static void unknown_fields_of_a_newer_version_are_left_alone(void **state)
{
    struct world *w = *state;
    struct event event = {.type = EVENT_JOB_FAILED,
                          .payload = js(w, "{'reason':'x','colour':'red','failures':2}")};
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_OK);
    assert_text(event.data.reason, "x");
    assert_int_equal(event.data.failures, 2);
}

static void a_damaged_payload_is_corrupt_and_says_where(void **state)
{
    struct world *w = *state;
    struct event event = {
        .type = EVENT_JOB_FAILED, .version = 9, .payload = js(w, "{'failures':'many'}")};
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_CORRUPT);
    assert_string_equal(w->err.detail,
                        "event 9 (job_failed) is damaged: payload: failures must be a whole "
                        "number from 0 up, not \"many\"");
    event = (struct event){.type = EVENT_JOB_CREATED, .version = 1, .payload = STR("[]")};
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_CORRUPT);
    assert_string_equal(
        w->err.detail,
        "event 1 (job_created) is damaged: job_created must be an object, not an array");
    event = (struct event){.type = EVENT_PLAN_GENERATED,
                           .version = 2,
                           .payload = js(w, "{'plan_version':1,'steps':[]}")};
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_CORRUPT);
    assert_string_equal(w->err.detail,
                        "event 2 (plan_generated) is damaged: a plan needs at least one step");
}

/* ---- causes ---- */

static void causes_come_back_as_they_were(void **state)
{
    struct world *w = *state;
    static const struct {
        enum command_type command;
        const char *step;
        int64_t attempt;
        const char *text;
    } causes[] = {
        {COMMAND_SUBMIT, NULL, 0, "submit"},
        {COMMAND_COMPLETE, NULL, 3, "complete#3"},
        {COMMAND_COMPLETE, "fetch", 2, "complete:fetch#2"},
        {COMMAND_VERDICT, "fetch", 0, "verdict:fetch"},
        {COMMAND_COMPLETE, "a#b", 2, "complete:a#b#2"},
        {COMMAND_VERDICT, "a#7", 0, "verdict:a#7#0"},
        {COMMAND_STEP_CLAIM, "#", 0, "step_claim:##0"},
        {COMMAND_WAKE, "a:b", 0, "wake:a:b"},
        {COMMAND_FAIL, ":#:", INT64_MAX, "fail::#:#9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        struct event event = {.type = EVENT_JOB_COMPLETED};
        event.cause = (struct cause){.command = causes[i].command,
                                     .step = str_from(causes[i].step),
                                     .attempt = causes[i].attempt};
        seal(w, &event);
        assert_text(event.cause_text, causes[i].text);
        struct event back = reopened(w, &event);
        assert_int_equal(back.cause.command, causes[i].command);
        assert_text(back.cause.step, causes[i].step);
        assert_int_equal(back.cause.attempt, causes[i].attempt);
    }
}

static void a_cause_that_is_not_understood_names_no_command(void **state)
{
    struct world *w = *state;
    static const char *const texts[] = {NULL, "", "#", ":", "#3", ":a#3", "complet", "completed#"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct event event = {.type = EVENT_JOB_COMPLETED, .cause_text = str_from(texts[i])};
        assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_OK);
        assert_true(event.cause.command == COMMAND_NONE || i == 7);
    }
    struct event event = {.type = EVENT_JOB_COMPLETED, .cause_text = STR("complete:a#x")};
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_OK);
    assert_int_equal(event.cause.attempt, 0);
    event.cause_text = STR("complete#x#3"); /* no step stands before the '#' */
    assert_int_equal(event_open(&event, 1, &w->arena, &w->err), ERR_OK);
    assert_text(event.cause.step, NULL);
}

/* ---- the chain ---- */

struct bytes {
    uint8_t at[512];
    size_t len;
};

static void put(struct bytes *bytes, const void *at, size_t len)
{
    assert_true(bytes->len + len <= sizeof bytes->at);
    memcpy(bytes->at + bytes->len, at, len);
    bytes->len += len;
}

/* A field: four bytes of length, big-endian, and its bytes. */
static void put_field(struct bytes *bytes, const void *at, size_t len)
{
    const uint8_t length[4] = {0, 0, (uint8_t)(len >> 8), (uint8_t)len};
    put(bytes, length, sizeof length);
    put(bytes, at, len);
}

static void sha256(const struct bytes *bytes, uint8_t ret[HASH_LEN])
{
    unsigned int len = 0;
    assert_int_equal(EVP_Digest(bytes->at, bytes->len, ret, &len, EVP_sha256(), NULL), 1);
    assert_int_equal(len, HASH_LEN);
}

/* event.h's words, done by hand. */
static void the_hash_is_what_the_header_says_it_is(void **state)
{
    struct world *w = *state;
    struct event event = {
        .job_id = {{0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d,
                    0x0e, 0x0f, 0x10}},
        .version = 0x0102,
        .at = WORLD_START_MS,
        .type = EVENT_JOB_COMPLETED,
        .actor = STR("w1"),
        .correlation_id = STR("order-7"),
        .cause = {.command = COMMAND_COMPLETE, .attempt = 3},
    };
    event.data.result = STR("{\"n\": 1.10}");
    uint8_t previous[HASH_LEN];
    memset(previous, 0xab, sizeof previous);
    assert_int_equal(event_seal(&event, previous, salt, &w->arena, &w->err), ERR_OK);

    static const char payload[] = "{\"result\":{\"n\": 1.10}}";
    static const uint8_t version[8] = {0, 0, 0, 0, 0, 0, 1, 2};
    static const uint8_t at[8] = {0x00, 0x00, 0x01, 0x9b, 0x76, 0xda, 0xa8, 0x00};
    uint8_t expected[HASH_LEN];
    struct bytes digest = {.len = 0};
    put(&digest, salt, sizeof salt);
    put(&digest, payload, sizeof payload - 1);
    sha256(&digest, expected);
    assert_memory_equal(event.digest, expected, HASH_LEN);

    struct bytes hash = {.len = 0};
    put(&hash, previous, sizeof previous);
    put_field(&hash, event.job_id.bytes, 16);
    put_field(&hash, version, sizeof version);
    put_field(&hash, "job_completed", 13);
    put_field(&hash, at, sizeof at);
    put_field(&hash, "w1", 2);
    put_field(&hash, "complete#3", 10);
    put_field(&hash, "order-7", 7);
    put_field(&hash, expected, HASH_LEN);
    sha256(&hash, expected);
    assert_memory_equal(event.hash, expected, HASH_LEN);

    struct uuid id = event_id(&event);
    assert_memory_equal(id.bytes, expected, 6);
    assert_int_equal(id.bytes[6] >> 4, 8); /* a UUID of version 8 */
    assert_int_equal(id.bytes[8] >> 6, 2);
}

static void an_absent_payload_and_absent_names_count_as_empty(void **state)
{
    struct world *w = *state;
    struct event event = {.version = 1, .type = EVENT_CUSTOM, .type_name = STR("a.b")};
    event.cause.command = COMMAND_APPEND;
    seal(w, &event);
    struct bytes digest = {.len = 0};
    uint8_t expected[HASH_LEN];
    put(&digest, salt, sizeof salt);
    sha256(&digest, expected);
    assert_memory_equal(event.digest, expected, HASH_LEN);

    static const uint8_t zeros[16];
    static const uint8_t one[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    struct bytes hash = {.len = 0};
    put(&hash, zero_hash, HASH_LEN);
    put_field(&hash, zeros, 16);
    put_field(&hash, one, 8);
    put_field(&hash, "a.b", 3);
    put_field(&hash, zeros, 8);
    put_field(&hash, "", 0);
    put_field(&hash, "append", 6);
    put_field(&hash, "", 0);
    put_field(&hash, expected, HASH_LEN);
    sha256(&hash, expected);
    assert_memory_equal(event.hash, expected, HASH_LEN);
}

static void every_field_moves_the_hash(void **state)
{
    (void)state;
    struct event event = {.version = 1,
                          .at = 5,
                          .type = EVENT_JOB_QUEUED,
                          .actor = STR("ab"),
                          .cause_text = STR("cd"),
                          .correlation_id = STR("ef")};
    struct event changed[9];
    for (size_t i = 0; i < 9; i++)
        changed[i] = event;
    changed[1].job_id.bytes[0] = 1;
    changed[2].version = 2;
    changed[3].at = 6;
    changed[4].type = EVENT_JOB_CREATED;
    changed[5].actor = STR("abc"); /* a byte moved from one field to the next */
    changed[5].cause_text = STR("d");
    changed[6].cause_text = STR("cde");
    changed[6].correlation_id = STR("f");
    changed[7].correlation_id = STR("eg");
    changed[8].digest[31] = 1;
    uint8_t hashes[9][HASH_LEN];
    for (size_t i = 0; i < 9; i++) {
        event_hash(&changed[i], zero_hash, hashes[i]);
        for (size_t before = 0; before < i; before++)
            assert_memory_not_equal(hashes[i], hashes[before], HASH_LEN);
    }
    uint8_t other[HASH_LEN] = {1};
    event_hash(&event, other, hashes[1]);
    assert_memory_not_equal(hashes[0], hashes[1], HASH_LEN);
}

static void each_event_is_bound_to_the_one_before(void **state)
{
    struct world *w = *state;
    running(w);
    do_ok(w, by_worker(w, COMMAND_HEARTBEAT));
    do_ok(w, complete_with(w, "1"));
    const uint8_t *previous = zero_hash;
    for (size_t i = 0; i < w->log_count; i++) {
        const struct event *event = &w->log[i];
        uint8_t hash[HASH_LEN];
        if (event_type_class(event->type) == EVENT_CLASS_TELEMETRY) {
            assert_memory_equal(event->hash, zero_hash, HASH_LEN);
            continue;
        }
        event_hash(event, previous, hash);
        assert_memory_equal(hash, event->hash, HASH_LEN);
        previous = event->hash;
    }
    assert_memory_equal(w->slice.job.head, previous, HASH_LEN);
    story(w, "job_created job_leased job_running job_completed");
}

/* ---- what a stream says ---- */

static void the_last_state_event_says_the_status_legal_or_not(void **state)
{
    (void)state;
    struct event events[] = {
        {.type = EVENT_JOB_COMPLETED},
        {.type = EVENT_JOB_CREATED},
        {.type = EVENT_JOB_WAITING, .data.parked = true},
        {.type = EVENT_TOOL_CALLED},
        {.type = EVENT_CUSTOM, .type_name = STR("a.b")},
        {.type = EVENT_UNKNOWN, .type_name = STR("what")},
        {.type = EVENT_JOB_REQUEUED, .at = 5, .data.not_before = 6},
        {.type = EVENT_JOB_REQUEUED, .at = 5, .data.not_before = 5},
        {.type = EVENT_STEP_RUNNING},
    };
    static const enum job_status expected[] = {JOB_NONE,   JOB_COMPLETED, JOB_QUEUED, JOB_PARKED,
                                               JOB_PARKED, JOB_PARKED,    JOB_PARKED, JOB_RETRYING,
                                               JOB_QUEUED, JOB_QUEUED};
    for (size_t count = 0; count <= sizeof events / sizeof events[0]; count++) {
        assert_int_equal(derive_status(events, count), expected[count]);
        assert_int_equal(is_blocked(events, count), count >= 3 && count <= 6);
    }
}

static void every_state_event_leads_somewhere_and_no_other_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof all_types / sizeof all_types[0]; i++) {
        struct event event = {.type = all_types[i].type};
        bool moves = event_type_class(event.type) == EVENT_CLASS_STATE;
        assert_int_equal(event_target(&event) != JOB_NONE, moves);
    }
    struct event waiting = {.type = EVENT_JOB_WAITING};
    assert_int_equal(event_target(&waiting), JOB_WAITING);
    assert_true(is_blocked(&waiting, 1));
    struct event completed = {.type = EVENT_JOB_COMPLETED, .data.parked = true};
    assert_int_equal(event_target(&completed), JOB_COMPLETED);
}

static void names_of_the_seeds_are_read_as_the_canonical_ones(void **state)
{
    (void)state;
    static const struct {
        const char *alias;
        enum job_status status;
    } aliases[] = {{"job_claimed", JOB_LEASED},
                   {"job_started", JOB_RUNNING},
                   {"job_succeeded", JOB_COMPLETED}};
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        struct event event = {.type = event_type_parse(str_from(aliases[i].alias))};
        assert_int_equal(derive_status(&event, 1), aliases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENARIO(every_type_comes_back_with_every_field_it_may_carry),
        SCENARIO(a_payload_names_its_fields_in_the_order_of_the_list),
        SCENARIO(a_created_event_carries_the_whole_spec),
        SCENARIO(a_plan_comes_back_with_its_steps),
        SCENARIO(an_appended_event_keeps_the_payload_it_came_with),
        SCENARIO(a_redacted_event_opens_empty),
        SCENARIO(unknown_fields_of_a_newer_version_are_left_alone),
        SCENARIO(a_damaged_payload_is_corrupt_and_says_where),
        SCENARIO(causes_come_back_as_they_were),
        SCENARIO(a_cause_that_is_not_understood_names_no_command),
        SCENARIO(the_hash_is_what_the_header_says_it_is),
        SCENARIO(an_absent_payload_and_absent_names_count_as_empty),
        SCENARIO(every_field_moves_the_hash),
        SCENARIO(each_event_is_bound_to_the_one_before),
        SCENARIO(the_last_state_event_says_the_status_legal_or_not),
        SCENARIO(every_state_event_leads_somewhere_and_no_other_does),
        SCENARIO(names_of_the_seeds_are_read_as_the_canonical_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
