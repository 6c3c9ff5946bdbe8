/* The functions of pawl.h that need no store, as a program that links the library sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pawl.h"

static void the_library_is_of_the_version_of_its_header(void **state)
{
    (void)state;
    assert_string_equal(pawl_version(), PAWL_VERSION);
}

static void a_machine_comes_as_text_that_the_caller_frees(void **state)
{
    (void)state;
    char *text = NULL;
    assert_int_equal(pawl_machine(PAWL_MACHINE_JOB, PAWL_FORMAT_TSV, &text), PAWL_OK);
    assert_int_equal(strncmp(text, "none\tjob_created\tqueued\n", 24), 0);
    pawl_free(text);

    assert_int_equal(pawl_machine(PAWL_MACHINE_STEP, PAWL_FORMAT_TSV, &text), PAWL_OK);
    assert_int_equal(strncmp(text, "pending\twaiting_deps\n", 21), 0);
    pawl_free(text);
}

static void each_format_gives_another_text(void **state)
{
    (void)state;
    static const struct {
        enum pawl_machine_format format;
        const char *start;
    } formats[] = {
        {PAWL_FORMAT_TABLE, "state "},
        {PAWL_FORMAT_MERMAID, "stateDiagram-v2\n"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        for (int kind = PAWL_MACHINE_JOB; kind <= PAWL_MACHINE_STEP; kind++) {
            char *text = NULL;
            assert_int_equal(pawl_machine((enum pawl_machine_kind)kind, formats[i].format, &text),
                             PAWL_OK);
            assert_int_equal(strncmp(text, formats[i].start, strlen(formats[i].start)), 0);
            pawl_free(text);
        }
    }
}

static void an_unknown_machine_or_format_is_refused_and_gives_nothing(void **state)
{
    (void)state;
    char untouched[] = "untouched";
    char *text = untouched;
    assert_int_equal(pawl_machine((enum pawl_machine_kind)0, PAWL_FORMAT_TSV, &text),
                     PAWL_BAD_REQUEST);
    assert_int_equal(pawl_machine((enum pawl_machine_kind)3, PAWL_FORMAT_TSV, &text),
                     PAWL_BAD_REQUEST);
    assert_int_equal(pawl_machine(PAWL_MACHINE_JOB, (enum pawl_machine_format)0, &text),
                     PAWL_BAD_REQUEST);
    assert_int_equal(pawl_machine(PAWL_MACHINE_JOB, (enum pawl_machine_format)4, &text),
                     PAWL_BAD_REQUEST);
    assert_ptr_equal(text, untouched);
}

static void every_code_has_words_and_so_has_one_that_is_not_known(void **state)
{
    (void)state;
    assert_string_equal(pawl_code_text(PAWL_OK), "Done");
    assert_string_equal(pawl_code_text(PAWL_NO_MEMORY), "Out of memory");
    for (int code = PAWL_OK; code <= PAWL_FEED_RESET; code++)
        assert_string_not_equal(pawl_code_text((enum pawl_code)code), "Unknown error");
    assert_string_equal(pawl_code_text((enum pawl_code)(PAWL_FEED_RESET + 1)), "Unknown error");
}

static void freeing_nothing_is_allowed(void **state)
{
    (void)state;
    pawl_free(NULL);
}

static void nothing_in_place_of_something_is_refused(void **state)
{
    (void)state;
    struct pawl *pawl = NULL;
    struct pawl_error error = {0};
    char *answer = NULL;
    assert_int_equal(pawl_open(NULL, NULL, &pawl, &error), PAWL_BAD_REQUEST);
    assert_non_null(strstr(error.message, "pawl_open requires a URL"));
    assert_int_equal(pawl_open("memory:", NULL, NULL, NULL), PAWL_BAD_REQUEST);
    assert_null(pawl);
    assert_int_equal(pawl_submit(NULL, "{}", &answer, &error), PAWL_BAD_REQUEST);
    assert_non_null(strstr(error.message, "pawl_submit requires"));
    assert_int_equal(pawl_open("memory:", NULL, &pawl, &error), PAWL_OK);
    assert_int_equal(pawl_list(pawl, NULL, NULL, &error), PAWL_BAD_REQUEST);
    pawl_close(pawl);
    pawl_interrupt(NULL);
    struct pawl_migration migration;
    assert_int_equal(pawl_migrate(NULL, &migration, &error), PAWL_BAD_REQUEST);
    assert_int_equal(pawl_migrate("memory:", NULL, &error), PAWL_BAD_REQUEST);
    assert_int_equal(pawl_machine(PAWL_MACHINE_JOB, PAWL_FORMAT_TSV, NULL), PAWL_BAD_REQUEST);
}

/* Asks and prints the answer into `ret`. */
static enum pawl_code say(struct pawl *pawl,
                          enum pawl_code (*verb)(struct pawl *, const char *, char **,
                                                 struct pawl_error *),
                          const char *request, char ret[16384])
{
    struct pawl_error error = {0};
    char *answer = NULL;
    enum pawl_code code = verb(pawl, request, &answer, &error);
    (void)snprintf(ret, 16384, "%s", answer == NULL ? error.message : answer);
    pawl_free(answer);
    return code;
}

static void a_value_may_be_64_levels_deep_wherever_it_stands(void **state)
{
    enum { DEPTH = 64 };
    static char request[16384];
    static char answer[16384];
    char deep[2 * DEPTH + 1];
    struct pawl *pawl;
    struct pawl *other;
    (void)state;
    memset(deep, '[', DEPTH);
    memset(deep + DEPTH, ']', DEPTH);
    deep[2 * DEPTH] = '\0';
    assert_int_equal(pawl_open("memory:", NULL, &pawl, NULL), PAWL_OK);
    assert_int_equal(pawl_open("memory:", NULL, &other, NULL), PAWL_OK);

    (void)snprintf(request, sizeof request,
                   "{\"kind\":\"a\",\"payload\":%s,\"retry\":{\"initial_ms\":0}}", deep);
    assert_int_equal(say(pawl, pawl_submit, request, answer), PAWL_OK);
    char *id = pawl_json_text(pawl_json_get(pawl_json_read(answer), "id"));
    static const char claim[] = "{\"worker_id\":\"w\",\"kinds\":[\"a\"]}";
    for (int i = 0; i < 2; i++) {
        assert_int_equal(say(pawl, pawl_claim, claim, answer), PAWL_OK);
        assert_non_null(strstr(answer, deep));
        char *token = pawl_json_text(pawl_json_get(pawl_json_read(answer), "claims.0.lease.token"));
        (void)snprintf(request, sizeof request, "{\"token\":\"%s\",\"progress\":%s}", token, deep);
        assert_int_equal(say(pawl, pawl_heartbeat, request, answer), PAWL_OK);
        if (i == 0)
            (void)snprintf(request, sizeof request,
                           "{\"token\":\"%s\",\"error\":{\"class\":\"transient\",\"message\":\"m\","
                           "\"details\":%s}}",
                           token, deep);
        else
            (void)snprintf(request, sizeof request, "{\"token\":\"%s\",\"result\":%s}", token,
                           deep);
        if (say(pawl, i == 0 ? pawl_fail : pawl_complete, request, answer) != PAWL_OK)
            fail_msg("%s", answer);
        pawl_free(token);
    }
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
    assert_int_equal(say(pawl, pawl_events, request, answer), PAWL_OK);
    assert_non_null(pawl_json_read(answer).at);
    assert_int_equal(say(pawl, pawl_export, request, answer), PAWL_OK);
    (void)snprintf(request, sizeof request, "{\"jobs\":[%.16000s]}", answer);
    if (say(other, pawl_import, request, answer) != PAWL_OK)
        fail_msg("%s", answer);
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
    assert_int_equal(say(other, pawl_get, request, answer), PAWL_OK);
    assert_non_null(strstr(answer, deep));

    (void)snprintf(request, sizeof request, "{\"kind\":\"a\",\"payload\":[%s]}", deep);
    assert_int_equal(say(pawl, pawl_submit, request, answer), PAWL_BAD_REQUEST);
    assert_non_null(strstr(answer, "deeper than 64 levels"));
    pawl_free(id);
    pawl_close(pawl);
    pawl_close(other);
}

static void expect_status(const char *events, const char *expected, int expected_blocked)
{
    char *status = NULL;
    int blocked = -1;
    assert_int_equal(pawl_derive_status(events, &status, NULL), PAWL_OK);
    assert_int_equal(pawl_is_blocked(events, &blocked, NULL), PAWL_OK);
    assert_string_equal(status, expected);
    assert_int_equal(blocked, expected_blocked);
    pawl_free(status);
}

static void the_last_state_event_of_a_list_gives_its_status(void **state)
{
    (void)state;
    expect_status("[]", "none", 0);
    expect_status("[{\"type\":\"job_created\"}]", "queued", 0);
    expect_status("[{\"type\":\"job_created\"},{\"type\":\"job_claimed\"}]", "leased", 0);
    expect_status("[{\"type\":\"job_started\"},{\"type\":\"node_started\"},{\"type\":\"x.y\"},"
                  "{\"type\":\"nonsense\"}]",
                  "running", 0);
    expect_status("{\"events\":[{\"type\":\"job_running\"},{\"type\":\"job_succeeded\"}]}",
                  "completed", 0);
    expect_status("[{\"type\":\"job_waiting\",\"payload\":{\"type\":\"signal\"}},"
                  "{\"type\":\"signal_received\"}]",
                  "waiting", 1);
    expect_status("[{\"type\":\"job_waiting\",\"payload\":\"{\\\"parked\\\":true}\"}]", "parked",
                  1);
    expect_status("[{\"type\":\"job_waiting\"},{\"type\":\"wait_completed\"}]", "queued", 0);
    expect_status("[{\"type\":\"job_requeued\",\"at\":\"2026-01-01T00:00:00.000Z\",\"payload\":"
                  "{\"not_before\":\"2026-01-01T00:00:01.000Z\"}}]",
                  "retrying", 0);
    /* Legal or not: nothing comes behind an end. */
    expect_status("[{\"type\":\"job_completed\"},{\"type\":\"job_running\"}]", "running", 0);
    static const char *const wrong[] = {"7",
                                        "{}",
                                        "[7]",
                                        "[{}]",
                                        "[{\"type\":7}]",
                                        "[",
                                        "",
                                        "[{\"type\":\"job_running\",\"at\":\"soon\"}]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *status = NULL;
        int blocked = -1;
        assert_int_equal(pawl_derive_status(wrong[i], &status, NULL), PAWL_BAD_REQUEST);
        assert_int_equal(pawl_is_blocked(wrong[i], &blocked, NULL), PAWL_BAD_REQUEST);
        assert_null(status);
        assert_int_equal(blocked, -1);
    }
    assert_int_equal(pawl_derive_status(NULL, NULL, NULL), PAWL_BAD_REQUEST);
    assert_int_equal(pawl_is_blocked("[]", NULL, NULL), PAWL_BAD_REQUEST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_is_of_the_version_of_its_header),
        cmocka_unit_test(a_machine_comes_as_text_that_the_caller_frees),
        cmocka_unit_test(each_format_gives_another_text),
        cmocka_unit_test(an_unknown_machine_or_format_is_refused_and_gives_nothing),
        cmocka_unit_test(every_code_has_words_and_so_has_one_that_is_not_known),
        cmocka_unit_test(freeing_nothing_is_allowed),
        cmocka_unit_test(nothing_in_place_of_something_is_refused),
        cmocka_unit_test(a_value_may_be_64_levels_deep_wherever_it_stands),
        cmocka_unit_test(the_last_state_event_of_a_list_gives_its_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
