/* The functions of pawl.h that need no store, as a program that links the library sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
    assert_string_equal(pawl_code_text(PAWL_NO_MEMORY), "There is not enough memory");
    for (int code = PAWL_OK; code <= PAWL_CORRUPT; code++)
        assert_string_not_equal(pawl_code_text((enum pawl_code)code), "Unknown error");
    assert_string_equal(pawl_code_text((enum pawl_code)(PAWL_CORRUPT + 1)), "Unknown error");
}

static void freeing_nothing_is_allowed(void **state)
{
    (void)state;
    pawl_free(NULL);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
