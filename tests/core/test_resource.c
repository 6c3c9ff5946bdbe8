#include "core/resource.h"

#include "../base/starve.h"
#include "base/buf.h"

/* ---- lists of names ---- */

static void an_absent_list_has_no_names(void **state)
{
    struct names names = {NULL, 9};
    struct err err;
    assert_int_equal(names_read((struct str){NULL, 0}, 3, "avoid", *state, &names, &err), ERR_OK);
    assert_int_equal(names.count, 0);
    assert_int_equal(names_read(STR(" [ ] "), 3, "avoid", *state, &names, &err), ERR_OK);
    assert_int_equal(names.count, 0);
}

static void names_are_read_in_their_order(void **state)
{
    struct names names;
    struct err err;
    assert_int_equal(
        names_read(STR("[\"gpu\", \"c\\u00e4che\" ]"), 2, "capabilities", *state, &names, &err),
        ERR_OK);
    assert_int_equal(names.count, 2);
    assert_str_equal(names.at[0], STR("gpu"));
    assert_str_equal(names.at[1], STR("cäche"));
    assert_true(names_have(&names, STR("gpu")));
    assert_false(names_have(&names, STR("gp")));
}

static void a_list_that_is_not_one_of_names_is_refused(void **state)
{
    static const struct {
        const char *json;
        const char *detail;
    } cases[] = {
        {"{}", "capabilities must be an array of strings, not \"{}\""},
        {"\"gpu\"", "capabilities must be an array of strings, not \"\"gpu\"\""},
        {"", "capabilities must be an array of strings, not \"\""},
        {"[\"a\",\"b\",\"c\",\"d\"]", "capabilities may have at most 3 entries, not 4"},
        {"[\"a\",5]", "capabilities[1] must be a string, not 5"},
        {"[[\"a\"]]", "capabilities[0] must be a string, not an array"},
        {"[\"\"]", "capabilities[0] must not be empty"},
        {"[\"a\\n\"]", "capabilities[0] must not contain control characters: \"a?\""},
        {"[\"a\",\"b\",\"a\"]", "capabilities[2] has the duplicate entry \"a\""},
        {"[\"a\",\"\\u0061\"]", "capabilities[1] has the duplicate entry \"a\""},
        {"[\"a\"", "capabilities is not valid JSON"},
        {"[\"a\"]]", "capabilities is not valid JSON"},
        {"[", "capabilities is not valid JSON"},
        {"[\"a\\q\"]", "capabilities[0]: byte "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str json = exact(str_from(cases[i].json));
        struct names names = {NULL, 9};
        struct err err = {0};
        assert_int_equal(names_read(json, 3, "capabilities", *state, &names, &err),
                         ERR_BAD_REQUEST);
        assert_int_equal(err.code, ERR_BAD_REQUEST);
        if (strncmp(err.detail, cases[i].detail, strlen(cases[i].detail)) != 0)
            fail_msg("%s gives: %s", cases[i].json, err.detail);
        assert_int_equal(names.count, 9);
        assert_int_equal(names_read(json, 3, "capabilities", *state, &names, NULL),
                         ERR_BAD_REQUEST);
        exact_free(json);
    }
}

static void covering_needs_every_name(void **state)
{
    struct names have;
    struct names need;
    struct str missing = STR("untouched");
    struct err err;
    assert_int_equal(names_read(STR("[\"a\",\"b\",\"c\"]"), 9, "have", *state, &have, &err),
                     ERR_OK);
    assert_int_equal(names_read(STR("[\"c\",\"a\"]"), 9, "need", *state, &need, &err), ERR_OK);
    assert_true(names_cover(&have, &need, &missing));
    assert_true(names_cover(&have, &(struct names){NULL, 0}, &missing));
    assert_str_equal(missing, STR("untouched"));
    assert_false(names_cover(&need, &have, &missing));
    assert_str_equal(missing, STR("b"));
    assert_false(names_cover(&(struct names){NULL, 0}, &need, NULL));
}

/* ---- labels ---- */

static void labels_are_read_in_their_order(void **state)
{
    struct label *labels = NULL;
    uint32_t count = 0;
    struct err err;
    assert_int_equal(labels_read(STR("{\"zone\":\"eu\",\"tier\\u0021\":\"\"}"), 2, "labels", *state,
                                 &labels, &count, &err),
                     ERR_OK);
    assert_int_equal(count, 2);
    assert_str_equal(labels[0].key, STR("zone"));
    assert_str_equal(labels[0].value, STR("eu"));
    assert_str_equal(labels[1].key, STR("tier!"));
    assert_int_equal(labels[1].value.len, 0);
    assert_int_equal(labels_read((struct str){NULL, 0}, 2, "labels", *state, &labels, &count, &err),
                     ERR_OK);
    assert_int_equal(count, 0);
    assert_null(labels);
}

static void labels_that_are_not_strings_are_refused(void **state)
{
    static const struct {
        const char *json;
        const char *detail;
    } cases[] = {
        {"[]", "labels must be an object of strings, not \"[]\""},
        {"{\"a\":\"\",\"b\":\"\",\"c\":\"\"}", "labels may have at most 2 entries, not 3"},
        {"{\"a\":1}", "labels[\"a\"] must be a string, not 1"},
        {"{\"a\":null}", "labels[\"a\"] must be a string, not null"},
        {"{\"\":\"x\"}", "labels: a key must not be empty"},
        {"{\"a\\u0000\":\"x\"}", "labels: a key must not contain control characters"},
        {"{\"a\":\"x\\u0000\"}", "labels[\"a\"] must not contain control characters"},
        {"{\"a\":\"x\"", "labels is not valid JSON"},
        {"{\"a\\q\":\"x\"}", "labels: a key: byte"},
        {"{\"a\":\"\\q\"}", "labels[\"a\"]: byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct label *labels = NULL;
        uint32_t count = 9;
        struct err err = {0};
        struct str json = exact(str_from(cases[i].json));
        assert_int_equal(labels_read(json, 2, "labels", *state, &labels, &count, &err),
                         ERR_BAD_REQUEST);
        if (strncmp(err.detail, cases[i].detail, strlen(cases[i].detail)) != 0)
            fail_msg("%s gives: %s", cases[i].json, err.detail);
        assert_int_equal(count, 9);
        assert_null(labels);
        assert_int_equal(labels_read(json, 2, "labels", *state, &labels, &count, NULL),
                         ERR_BAD_REQUEST);
        exact_free(json);
    }
}

static void a_labels_value_has_at_most_128_bytes(void **state)
{
    struct label *labels;
    uint32_t count;
    struct err err;
    struct buf buf;
    buf_init(&buf, *state, 0);
    buf_add(&buf, STR("{\"a\":\""));
    for (int i = 0; i < 128; i++)
        buf_add_char(&buf, 'v');
    buf_add(&buf, STR("\"}"));
    assert_int_equal(labels_read(buf_str(&buf), 2, "labels", *state, &labels, &count, &err),
                     ERR_OK);
    buf.len -= 2;
    buf_add(&buf, STR("v\"}"));
    assert_int_equal(labels_read(buf_str(&buf), 2, "labels", *state, &labels, &count, &err),
                     ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "labels[\"a\"] must be at most 128 bytes long, not 129"));
}

/* ---- which step fits where ---- */

enum { NOW = 1000000 };

static struct resource a_resource(struct arena *arena)
{
    struct resource resource = {
        .id = STR("browser-1"),
        .slots = 2,
        .used = 1,
        .expires_at = NOW + 1,
    };
    struct err err;
    assert_int_equal(names_read(STR("[\"browser\",\"gpu\"]"), 9, "capabilities", arena,
                                &resource.capabilities, &err),
                     ERR_OK);
    assert_int_equal(labels_read(STR("{\"zone\":\"eu\",\"tier\":\"spot\"}"), 9, "labels", arena,
                                 &resource.labels, &resource.label_count, &err),
                     ERR_OK);
    return resource;
}

static struct step a_step(void)
{
    return (struct step){.spec = {
                             .id = STR("fetch"),
                             .capabilities = STR("[\"gpu\"]"),
                             .selector = STR("zone=eu,!old"),
                             .avoid = STR("[\"browser-2\"]"),
                         }};
}

static void does_not_fit(const struct resource *resource, const struct step *step,
                         struct arena *arena, const char *reason)
{
    struct err err = {0};
    assert_int_equal(resource_fits(resource, step, NOW, arena, &err), ERR_INVALID_TRANSITION);
    assert_int_equal(err.code, ERR_INVALID_TRANSITION);
    assert_string_equal(err.detail, reason);
    assert_int_equal(resource_fits(resource, step, NOW, arena, NULL), ERR_INVALID_TRANSITION);
}

static void a_step_fits_where_all_it_asks_for_is_there(void **state)
{
    struct resource resource = a_resource(*state);
    struct step step = a_step();
    struct err err;
    assert_int_equal(resource_fits(&resource, &step, NOW, *state, &err), ERR_OK);
    step.avoided = (struct str[]){{"browser-3", 9}};
    step.avoided_count = 1;
    assert_int_equal(resource_fits(&resource, &step, NOW, *state, &err), ERR_OK);
}

static void a_step_that_asks_for_nothing_fits_everywhere(void **state)
{
    struct resource resource = {.id = STR("any"), .slots = 1, .expires_at = NOW + 1};
    struct step step = {.spec = {.id = STR("a")}};
    struct err err;
    assert_int_equal(resource_fits(&resource, &step, NOW, *state, &err), ERR_OK);
}

static void a_resource_that_did_not_renew_takes_nothing(void **state)
{
    struct resource resource = a_resource(*state);
    struct step step = a_step();
    resource.expires_at = NOW;
    does_not_fit(&resource, &step, *state, "resource \"browser-1\" expired 0 ms ago");
    resource.expires_at = NOW - 2500;
    does_not_fit(&resource, &step, *state, "resource \"browser-1\" expired 2500 ms ago");
}

static void a_draining_resource_takes_nothing_new(void **state)
{
    struct resource resource = a_resource(*state);
    struct step step = a_step();
    resource.draining = true;
    does_not_fit(&resource, &step, *state,
                 "resource \"browser-1\" is draining and accepts no new steps");
}

static void a_full_resource_takes_nothing_more(void **state)
{
    struct resource resource = a_resource(*state);
    struct step step = a_step();
    resource.used = 2;
    does_not_fit(&resource, &step, *state,
                 "resource \"browser-1\" has no free slot: 2 of 2 in use");
}

static void a_missing_capability_is_named(void **state)
{
    struct resource resource = a_resource(*state);
    struct step step = a_step();
    step.spec.capabilities = STR("[\"browser\",\"tpu\",\"npu\"]");
    does_not_fit(&resource, &step, *state,
                 "resource \"browser-1\" lacks the capability \"tpu\" required by step \"fetch\"");
}

static void the_label_that_does_not_match_is_shown(void **state)
{
    struct resource resource = a_resource(*state);
    struct step step = a_step();
    step.spec.selector = STR("zone=eu,tier!=spot");
    does_not_fit(&resource, &step, *state,
                 "resource \"browser-1\" does not match the selector \"zone=eu,tier!=spot\" of "
                 "step \"fetch\": its label tier is \"spot\"");
    step.spec.selector = STR("rack in (a,b)");
    does_not_fit(&resource, &step, *state,
                 "resource \"browser-1\" does not match the selector \"rack in (a,b)\" of "
                 "step \"fetch\": its label rack is missing");
}

static void an_avoided_resource_is_never_taken(void **state)
{
    struct resource resource = a_resource(*state);
    struct step step = a_step();
    step.spec.avoid = STR("[\"browser-2\",\"browser-1\"]");
    does_not_fit(&resource, &step, *state,
                 "resource \"browser-1\" is on the avoid list of step \"fetch\"");
    step.spec.avoid = (struct str){NULL, 0};
    step.avoided = (struct str[]){{"browser-3", 9}, {"browser-1", 9}};
    step.avoided_count = 2;
    does_not_fit(&resource, &step, *state,
                 "step \"fetch\" already failed on resource \"browser-1\" and avoids it");
}

static void damaged_lists_of_a_step_are_a_bad_request(void **state)
{
    struct resource resource = a_resource(*state);
    struct err err;
    struct step step = a_step();
    step.spec.capabilities = STR("[\"gpu\"");
    assert_int_equal(resource_fits(&resource, &step, NOW, *state, &err), ERR_BAD_REQUEST);
    assert_string_equal(err.detail, "capabilities is not valid JSON");
    step = a_step();
    step.spec.selector = STR("zone in");
    assert_int_equal(resource_fits(&resource, &step, NOW, *state, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "selector \"zone in\": byte 7"));
    step = a_step();
    step.spec.avoid = STR("7");
    assert_int_equal(resource_fits(&resource, &step, NOW, *state, &err), ERR_BAD_REQUEST);
    assert_non_null(strstr(err.detail, "avoid must be an array"));
}

struct fitting {
    struct resource resource;
    struct step step;
};

static bool fits_in(struct arena *arena, void *data)
{
    struct fitting *fitting = data;
    return resource_fits(&fitting->resource, &fitting->step, NOW, arena, NULL) != ERR_NO_MEMORY;
}

static bool labels_in(struct arena *arena, void *data)
{
    struct label *labels;
    uint32_t count;
    return labels_read(*(struct str *)data, 9, "labels", arena, &labels, &count, NULL) !=
           ERR_NO_MEMORY;
}

static void without_memory_it_fails_as_no_memory(void **state)
{
    if (!STARVING)
        skip();
    struct fitting fitting = {a_resource(*state), a_step()};
    fitting.step.spec.capabilities = STR("[\"g\\u0070u\"]");
    assert_true(starve(fits_in, &fitting) >= 5);
    struct str labels = STR("{\"\\u0061\":\"\\u0062\"}");
    assert_true(starve(labels_in, &labels) >= 3);
}

/* ---- rest ---- */

static struct resource resting_after(int64_t failures, int64_t within_ms, int64_t for_ms)
{
    return (struct resource){
        .id = STR("r"), .slots = 1, .expires_at = INT64_MAX, .rest = {failures, within_ms, for_ms}};
}

static void a_resource_that_fails_too_often_rests(void **state)
{
    (void)state;
    struct resource resource = resting_after(3, 100, 1000);
    struct err err = {0};
    assert_false(resource_record_failure(&resource, 5000));
    assert_false(resource_record_failure(&resource, 5050));
    assert_int_equal(resource.failures, 2);
    assert_int_equal(resource_check_free(&resource, 5050, &err), ERR_OK);
    assert_true(resource_record_failure(&resource, 5099));
    assert_int_equal(resource.cooldown_until, 6099);
    assert_int_equal(resource.rests, 1);
    assert_int_equal(resource.failures, 0);
    assert_true(resource_in_cooldown(&resource, 6098));
    assert_int_equal(resource_check_free(&resource, 6098, &err), ERR_INVALID_TRANSITION);
    assert_string_equal(err.detail,
                        "resource \"r\" is in cooldown for another 1 ms after too many failures");
    assert_false(resource_in_cooldown(&resource, 6099));
    assert_int_equal(resource_check_free(&resource, 6099, &err), ERR_OK);
}

static void failures_far_apart_rest_nobody(void **state)
{
    (void)state;
    struct resource resource = resting_after(2, 100, 1000);
    for (int64_t now = 1000; now < 2000; now += 100)
        assert_false(resource_record_failure(&resource, now));
    assert_int_equal(resource.failures, 1);
    assert_true(resource_record_failure(&resource, 1999));
}

static void failures_of_one_that_rests_are_not_counted(void **state)
{
    (void)state;
    struct resource resource = resting_after(1, 100, 1000);
    assert_true(resource_record_failure(&resource, 1000));
    assert_false(resource_record_failure(&resource, 1001));
    assert_false(resource_record_failure(&resource, 1999));
    assert_int_equal(resource.cooldown_until, 2000);
    assert_int_equal(resource.rests, 1);
}

static void a_rest_soon_after_another_is_twice_as_long(void **state)
{
    (void)state;
    struct resource resource = resting_after(3, 100, 1000);
    int64_t now = 1000;
    for (int i = 0; i < 3; i++)
        (void)resource_record_failure(&resource, now);
    for (int i = 1; i <= COOLDOWN_LONGER_MAX + 2; i++) {
        int longer = i < COOLDOWN_LONGER_MAX ? i : COOLDOWN_LONGER_MAX;
        now = resource.cooldown_until + 99;
        assert_true(resource_record_failure(&resource, now));
        assert_int_equal(resource.cooldown_until, now + 1000 * (1 << longer));
        assert_int_equal(resource.rests, i + 1);
    }
    /* Then it has got over it. */
    now = resource.cooldown_until + 100;
    assert_false(resource_record_failure(&resource, now));
    assert_int_equal(resource.rests, 0);
    assert_int_equal(resource.failures, 1);
}

static void a_resource_may_be_told_never_to_rest(void **state)
{
    (void)state;
    struct resource resource = resting_after(0, 100, 1000);
    for (int i = 0; i < 100; i++)
        assert_false(resource_record_failure(&resource, 1000));
    assert_int_equal(resource.cooldown_until, 0);
    struct cooldown_policy usual = cooldown_policy_default();
    assert_true(usual.failures > 0 && usual.within_ms > 0 && usual.for_ms > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ARENA(an_absent_list_has_no_names),
        WITH_ARENA(names_are_read_in_their_order),
        WITH_ARENA(a_list_that_is_not_one_of_names_is_refused),
        WITH_ARENA(covering_needs_every_name),
        WITH_ARENA(labels_are_read_in_their_order),
        WITH_ARENA(labels_that_are_not_strings_are_refused),
        WITH_ARENA(a_labels_value_has_at_most_128_bytes),
        WITH_ARENA(a_step_fits_where_all_it_asks_for_is_there),
        WITH_ARENA(a_step_that_asks_for_nothing_fits_everywhere),
        WITH_ARENA(a_resource_that_did_not_renew_takes_nothing),
        WITH_ARENA(a_draining_resource_takes_nothing_new),
        WITH_ARENA(a_full_resource_takes_nothing_more),
        WITH_ARENA(a_missing_capability_is_named),
        WITH_ARENA(the_label_that_does_not_match_is_shown),
        WITH_ARENA(an_avoided_resource_is_never_taken),
        WITH_ARENA(damaged_lists_of_a_step_are_a_bad_request),
        WITH_ARENA(without_memory_it_fails_as_no_memory),
        cmocka_unit_test(a_resource_that_fails_too_often_rests),
        cmocka_unit_test(failures_far_apart_rest_nobody),
        cmocka_unit_test(failures_of_one_that_rests_are_not_counted),
        cmocka_unit_test(a_rest_soon_after_another_is_twice_as_long),
        cmocka_unit_test(a_resource_may_be_told_never_to_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
