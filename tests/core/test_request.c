#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/request.h"

enum { NOW = 1000 };

static const uint8_t body[HASH_LEN] = {1};
static const uint8_t other_body[HASH_LEN] = {2};

static struct request_record recorded(void)
{
    struct request_record record = {.key = STR("order-7"), .at = NOW, .answer = STR("{}")};
    memcpy(record.body_hash, body, HASH_LEN);
    return record;
}

static void a_key_that_is_not_known_is_a_new_request(void **state)
{
    (void)state;
    enum request_standing standing = REQUEST_REPEATED;
    assert_int_equal(request_check(NULL, body, NOW, &standing, NULL), ERR_OK);
    assert_int_equal(standing, REQUEST_NEW);
}

static void the_same_body_under_a_known_key_is_a_repeat(void **state)
{
    (void)state;
    struct request_record record = recorded();
    enum request_standing standing = REQUEST_NEW;
    assert_int_equal(request_check(&record, body, NOW + 5, &standing, NULL), ERR_OK);
    assert_int_equal(standing, REQUEST_REPEATED);
}

static void another_body_under_a_known_key_is_refused_and_names_the_key(void **state)
{
    (void)state;
    struct request_record record = recorded();
    enum request_standing standing = REQUEST_NEW;
    struct err err;
    assert_int_equal(request_check(&record, other_body, NOW + 5, &standing, &err),
                     ERR_IDEMPOTENCY_MISMATCH);
    assert_non_null(strstr(err.detail, "order-7"));
    assert_int_equal(standing, REQUEST_NEW);
}

static void a_key_is_forgotten_after_a_day_and_not_before(void **state)
{
    (void)state;
    struct request_record record = recorded();
    enum request_standing standing = REQUEST_NEW;
    struct err err;
    assert_int_equal(request_check(&record, other_body, NOW + REQUEST_KEPT_MS - 1, &standing, &err),
                     ERR_IDEMPOTENCY_MISMATCH);
    assert_int_equal(request_check(&record, other_body, NOW + REQUEST_KEPT_MS, &standing, &err),
                     ERR_OK);
    assert_int_equal(standing, REQUEST_NEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_that_is_not_known_is_a_new_request),
        cmocka_unit_test(the_same_body_under_a_known_key_is_a_repeat),
        cmocka_unit_test(another_body_under_a_known_key_is_refused_and_names_the_key),
        cmocka_unit_test(a_key_is_forgotten_after_a_day_and_not_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
