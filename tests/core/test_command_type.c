/* Commands: an event's cause starts with a command's name, so names and numbers are for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/command_type.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* In the order of their numbers, from 1. */
static const struct {
    const char *name;
    enum command_by by;
} commands[] = {
    {"submit", COMMAND_BY_CALLER},       {"claim", COMMAND_BY_CALLER},
    {"start", COMMAND_BY_WORKER},        {"heartbeat", COMMAND_BY_WORKER},
    {"complete", COMMAND_BY_WORKER},     {"fail", COMMAND_BY_WORKER},
    {"release", COMMAND_BY_WORKER},      {"wait", COMMAND_BY_WORKER},
    {"cancelled", COMMAND_BY_WORKER},    {"abandon", COMMAND_BY_WORKER},
    {"effect_begin", COMMAND_BY_WORKER}, {"effect_commit", COMMAND_BY_WORKER},
    {"append", COMMAND_BY_WORKER},       {"signal", COMMAND_BY_CALLER},
    {"cancel", COMMAND_BY_CALLER},       {"dead_letter", COMMAND_BY_CALLER},
    {"requeue", COMMAND_BY_CALLER},      {"plan", COMMAND_BY_CALLER},
    {"step_claim", COMMAND_BY_CALLER},   {"verdict", COMMAND_BY_WORKER},
    {"answer", COMMAND_BY_CALLER},       {"expire", COMMAND_BY_ENGINE},
    {"wake", COMMAND_BY_ENGINE},         {"cancel_due", COMMAND_BY_ENGINE},
    {"effect_abort", COMMAND_BY_WORKER}, {"lifetime", COMMAND_BY_ENGINE},
    {"run", COMMAND_BY_CALLER},          {"repin", COMMAND_BY_CALLER},
};

static void every_command_keeps_its_number_name_and_giver(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        enum command_type type = (enum command_type)(i + 1);
        assert_true(str_eq(command_type_name(type), str_from(commands[i].name)));
        assert_int_equal(command_type_parse(str_from(commands[i].name)), type);
        assert_int_equal(command_type_by(type), commands[i].by);
    }
}

static void no_command_is_missing_from_the_list_above(void **state)
{
    (void)state;
    size_t listed = 0;
#define COMMAND(symbol, number, name, by) listed++;
#include "core/command.def"
#undef COMMAND
    assert_int_equal(listed, COUNT(commands));
}

static void what_is_no_command_is_read_as_none(void **state)
{
    (void)state;
    static const char *const names[] = {"", "Submit", "submi", "submit ", "submits", "start#3"};
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(command_type_parse(str_from(names[i])), COMMAND_NONE);
    assert_int_equal(command_type_parse((struct str){NULL, 0}), COMMAND_NONE);
    assert_true(str_eq(command_type_name(COMMAND_NONE), STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_keeps_its_number_name_and_giver),
        cmocka_unit_test(no_command_is_missing_from_the_list_above),
        cmocka_unit_test(what_is_no_command_is_read_as_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
