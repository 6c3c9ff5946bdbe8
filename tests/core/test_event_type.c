/* Event types: their numbers and names are in people's databases for ever, so all are typed here
 * once more by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/event.h"
#include "core/event_type.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct {
    int number;
    enum event_class class;
    const char *name;
} types[] = {
    {1, EVENT_CLASS_STATE, "job_created"},
    {2, EVENT_CLASS_STATE, "job_queued"},
    {3, EVENT_CLASS_STATE, "job_requeued"},
    {4, EVENT_CLASS_STATE, "job_leased"},
    {5, EVENT_CLASS_STATE, "job_running"},
    {6, EVENT_CLASS_STATE, "job_waiting"},
    {7, EVENT_CLASS_STATE, "wait_completed"},
    {8, EVENT_CLASS_STATE, "job_completed"},
    {9, EVENT_CLASS_STATE, "job_failed"},
    {10, EVENT_CLASS_STATE, "job_cancelled"},
    {11, EVENT_CLASS_STATE, "job_dead_lettered"},
    {20, EVENT_CLASS_FACT, "signal_received"},
    {21, EVENT_CLASS_FACT, "job_cancel_requested"},
    {22, EVENT_CLASS_FACT, "tool_called"},
    {23, EVENT_CLASS_FACT, "tool_returned"},
    {24, EVENT_CLASS_FACT, "plan_generated"},
    {25, EVENT_CLASS_FACT, "tool_aborted"},
    {26, EVENT_CLASS_FACT, "job_repinned"},
    {30, EVENT_CLASS_STEP, "step_pending"},
    {31, EVENT_CLASS_STEP, "step_waiting_deps"},
    {32, EVENT_CLASS_STEP, "step_leased"},
    {33, EVENT_CLASS_STEP, "step_running"},
    {34, EVENT_CLASS_STEP, "step_succeeded"},
    {35, EVENT_CLASS_STEP, "step_failed_retryable"},
    {36, EVENT_CLASS_STEP, "step_retrying"},
    {37, EVENT_CLASS_STEP, "step_failed_resource"},
    {38, EVENT_CLASS_STEP, "step_switching_resource"},
    {39, EVENT_CLASS_STEP, "step_failed_fatal"},
    {40, EVENT_CLASS_STEP, "step_failed"},
    {41, EVENT_CLASS_STEP, "step_needs_user"},
    {42, EVENT_CLASS_STEP, "step_lease_timeout"},
    {43, EVENT_CLASS_FACT, "step_finished"},
    {44, EVENT_CLASS_FACT, "step_judging"},
    {50, EVENT_CLASS_APPENDED, "node_started"},
    {51, EVENT_CLASS_APPENDED, "node_finished"},
    {52, EVENT_CLASS_APPENDED, "job_compensated"},
    {60, EVENT_CLASS_TELEMETRY, "job_heartbeat"},
    {61, EVENT_CLASS_TELEMETRY, "job_lease_renewed"},
};

/* Looks up a copy that ends where its last byte does, so that reading further is seen. */
static enum event_type parse(const char *text)
{
    struct str name = str_from(text);
    char *block = malloc(name.len + 1);
    assert_non_null(block);
    char *copy = block + 1; /* a block of 0 bytes might be none at all */
    memcpy(copy, name.at, name.len);
    enum event_type type = event_type_parse((struct str){copy, name.len});
    free(block);
    return type;
}

static void every_type_keeps_its_number_name_and_class(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        enum event_type type = (enum event_type)types[i].number;
        assert_int_equal(parse(types[i].name), type);
        assert_true(str_eq(event_type_name(type), str_from(types[i].name)));
        assert_int_equal(event_type_class(type), types[i].class);
    }
}

static void no_type_is_missing_from_the_list_above(void **state)
{
    (void)state;
    size_t listed = 0;
#define EVENT(symbol, number, name, class_, fields) listed++;
#include "core/event.def"
    assert_int_equal(listed, COUNT(types) + 1); /* and CUSTOM, which has no name */
}

static void the_seeds_names_of_events_are_read_and_never_written(void **state)
{
    (void)state;
    static const struct {
        const char *alias;
        const char *name;
    } aliases[] = {
        {"job_claimed", "job_leased"},
        {"job_started", "job_running"},
        {"job_succeeded", "job_completed"},
        {"tool_invocation_started", "tool_called"},
        {"tool_invocation_finished", "tool_returned"},
    };
    for (size_t i = 0; i < COUNT(aliases); i++) {
        enum event_type type = parse(aliases[i].alias);
        assert_int_not_equal(type, EVENT_UNKNOWN);
        assert_true(str_eq(event_type_name(type), str_from(aliases[i].name)));
    }
}

static void a_name_with_a_dot_is_a_custom_type(void **state)
{
    (void)state;
    assert_int_equal(parse("billing.invoice_sent"), EVENT_CUSTOM);
    assert_int_equal(parse("job_created.again"), EVENT_CUSTOM);
    assert_int_equal(parse("."), EVENT_CUSTOM);
    assert_int_equal(parse("job.failed"), EVENT_CUSTOM);
}

static void any_other_name_is_unknown(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "a",
        "job",
        "job_",
        "job_create",
        "job_createdx",
        "xjob_created",
        "Job_Created",
        "job_failex",
        "xob_failed",
        "JOB_FAILED",
        "step_runnin",
        "step_runningg",
        "created",
        "tool_invocation_",
        "job created",
        "none",
    };
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(parse(names[i]), EVENT_UNKNOWN);
    assert_int_equal(event_type_parse((struct str){NULL, 0}), EVENT_UNKNOWN);
}

static void one_wrong_byte_makes_a_name_unknown(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        char name[64];
        size_t len = strlen(types[i].name);
        for (size_t at = 0; at < len; at++) {
            snprintf(name, sizeof name, "%s", types[i].name);
            name[at] = '~';
            assert_int_equal(parse(name), EVENT_UNKNOWN);
        }
        snprintf(name, sizeof name, "%s", types[i].name);
        name[len - 1] = '\0';
        assert_int_not_equal(parse(name), types[i].number);
    }
}

/* A length is kept in one byte: a name that is 256 bytes longer must not look as long as another.
 */
static void a_very_long_name_is_not_mistaken_for_a_short_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        char name[512] = "";
        size_t len = strlen(types[i].name);
        memset(name, 'x', 256 + len);
        memcpy(name, types[i].name, len);
        assert_int_equal(parse(name), EVENT_UNKNOWN);
        memcpy(name + 256, types[i].name, len);
        assert_int_equal(parse(name), EVENT_UNKNOWN);
        name[200] = '.';
        assert_int_equal(parse(name), EVENT_CUSTOM);
    }
    char name[256];
    memset(name, 'x', 255);
    name[255] = '\0';
    assert_int_equal(parse(name), EVENT_UNKNOWN);
}

static void custom_and_unknown_types_have_no_name_of_their_own_and_move_nothing(void **state)
{
    (void)state;
    assert_true(str_eq(event_type_name(EVENT_CUSTOM), STR("")));
    assert_true(str_eq(event_type_name(EVENT_UNKNOWN), STR("")));
    assert_int_equal(event_type_class(EVENT_CUSTOM), EVENT_CLASS_APPENDED);
    assert_int_equal(event_type_class(EVENT_UNKNOWN), EVENT_CLASS_APPENDED);
    assert_int_equal(event_type_fields(EVENT_CUSTOM), 0);
    assert_int_equal(event_type_fields(EVENT_UNKNOWN), 0);
}

static uint64_t bit(enum event_field field)
{
    return UINT64_C(1) << field;
}

static void a_type_may_carry_the_fields_that_are_listed_for_it(void **state)
{
    (void)state;
    assert_int_equal(event_type_fields(EVENT_JOB_CREATED), 0);
    assert_int_equal(event_type_fields(EVENT_JOB_QUEUED), bit(EVENT_FIELD_REASON));
    assert_int_equal(event_type_fields(EVENT_JOB_COMPLETED),
                     bit(EVENT_FIELD_RESULT) | bit(EVENT_FIELD_PROGRESS) | bit(EVENT_FIELD_CURSOR));
    assert_int_equal(event_type_fields(EVENT_JOB_LEASED),
                     bit(EVENT_FIELD_WORKER_ID) | bit(EVENT_FIELD_ATTEMPT) |
                         bit(EVENT_FIELD_TOKEN_HASH) | bit(EVENT_FIELD_LEASE_TTL_MS) |
                         bit(EVENT_FIELD_HEARTBEAT_MS) | bit(EVENT_FIELD_EXPIRES_AT) |
                         bit(EVENT_FIELD_TIMEOUT_AT) | bit(EVENT_FIELD_PIN));
}

static void every_field_is_carried_by_some_type(void **state)
{
    (void)state;
    uint64_t all = 0;
    for (size_t i = 0; i < COUNT(types); i++)
        all |= event_type_fields((enum event_type)types[i].number);
    assert_int_equal(all, EVENT_FIELD_COUNT == 64 ? UINT64_MAX : bit(EVENT_FIELD_COUNT) - 1);
}

static bool is_among(enum event_type type, const enum event_type *some, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (some[i] == type)
            return true;
    return false;
}

static void these_types_begin_a_lease_and_these_end_it(void **state)
{
    static const enum event_type begins[] = {EVENT_JOB_LEASED, EVENT_STEP_LEASED,
                                             EVENT_STEP_RUNNING, EVENT_STEP_JUDGING};
    static const enum event_type ends[] = {
        EVENT_JOB_REQUEUED,         EVENT_JOB_WAITING,       EVENT_WAIT_COMPLETED,
        EVENT_JOB_COMPLETED,        EVENT_JOB_FAILED,        EVENT_JOB_CANCELLED,
        EVENT_JOB_DEAD_LETTERED,    EVENT_STEP_SUCCEEDED,    EVENT_STEP_FAILED_RETRYABLE,
        EVENT_STEP_FAILED_RESOURCE, EVENT_STEP_FAILED_FATAL, EVENT_STEP_NEEDS_USER,
        EVENT_STEP_LEASE_TIMEOUT,   EVENT_STEP_FINISHED,
    };
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        enum event_type type = (enum event_type)types[i].number;
        assert_int_equal(event_type_begins_lease(type), is_among(type, begins, COUNT(begins)));
        assert_int_equal(event_type_ends_lease(type), is_among(type, ends, COUNT(ends)));
    }
    assert_false(event_type_begins_lease(EVENT_UNKNOWN));
    assert_false(event_type_ends_lease(EVENT_UNKNOWN));
}

static void every_event_of_a_step_says_which_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        if (strncmp(types[i].name, "step_", 5) == 0)
            assert_true(
                (event_type_fields((enum event_type)types[i].number) & bit(EVENT_FIELD_STEP)) != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_keeps_its_number_name_and_class),
        cmocka_unit_test(no_type_is_missing_from_the_list_above),
        cmocka_unit_test(the_seeds_names_of_events_are_read_and_never_written),
        cmocka_unit_test(a_name_with_a_dot_is_a_custom_type),
        cmocka_unit_test(any_other_name_is_unknown),
        cmocka_unit_test(one_wrong_byte_makes_a_name_unknown),
        cmocka_unit_test(a_very_long_name_is_not_mistaken_for_a_short_one),
        cmocka_unit_test(custom_and_unknown_types_have_no_name_of_their_own_and_move_nothing),
        cmocka_unit_test(a_type_may_carry_the_fields_that_are_listed_for_it),
        cmocka_unit_test(every_field_is_carried_by_some_type),
        cmocka_unit_test(these_types_begin_a_lease_and_these_end_it),
        cmocka_unit_test(every_event_of_a_step_says_which_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
