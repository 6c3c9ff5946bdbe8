/* Settings of kinds, and how long a soft cancel waits, on every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "engine/desk.h"

static void changes_kinds(struct desk *d)
{
    well(d, VERB_kinds, "{}");
    assert_string_equal(d->answer, "{\"kinds\":[],\"next_cursor\":null}");
    well(d, VERB_kind_set,
         "{\"kind\":\"mail\",\"timeout_ms\":1000,\"retry\":{\"max_attempts\":3}}");
    says(d, "version", "1");
    says(d, "retry.initial_ms", "500");
    well(d, VERB_kind_patch,
         "{\"kind\":\"mail\",\"cancel_grace_ms\":5000,\"retry\":{\"initial_ms\":100},\"expected_"
         "version\":1}");
    says(d, "version", "2");
    says(d, "timeout_ms", "1000");
    says(d, "cancel_grace_ms", "5000");
    says(d, "retry.max_attempts", "3");
    says(d, "retry.initial_ms", "100");
    well(d, VERB_kind_patch,
         "{\"kind\":\"mail\",\"timeout_ms\":null,\"retry\":{\"max_attempts\":null}}");
    says(d, "timeout_ms", "");
    says(d, "retry.max_attempts", "20");
    says(d, "retry.initial_ms", "100");
    says(d, "version", "3");
    /* Nothing changes, and nobody has to look again. */
    well(d, VERB_kind_patch, "{\"kind\":\"mail\"}");
    says(d, "version", "3");
    well(d, VERB_kind_get, "{\"kind\":\"mail\"}");
    says(d, "version", "3");
    says(d, "cancel_grace_ms", "5000");
    says(d, "retry.initial_ms", "100");
}

static void the_settings_of_a_kind_are_changed_one_by_one(void **state)
{
    (void)state;
    at_every_desk(changes_kinds);
}

static void refuses_changes(struct desk *d)
{
    well(d, VERB_kind_set, "{\"kind\":\"mail\",\"timeout_ms\":1000}");
    ill(d, VERB_kind_patch, ERR_VERSION_MISMATCH, "the kind has version 1, not the expected 2",
        "{\"kind\":\"mail\",\"timeout_ms\":7,\"expected_version\":2}");
    ill(d, VERB_kind_set, ERR_VERSION_MISMATCH, "the expected 0",
        "{\"kind\":\"mail\",\"expected_version\":0}");
    ill(d, VERB_kind_patch, ERR_UNKNOWN_FIELD, "colour", "{\"kind\":\"mail\",\"colour\":null}");
    ill(d, VERB_kind_patch, ERR_BAD_REQUEST, "timeout_ms",
        "{\"kind\":\"mail\",\"timeout_ms\":\"1s\"}");
    ill(d, VERB_kind_patch, ERR_BAD_REQUEST, "cancel_grace_ms",
        "{\"kind\":\"mail\",\"cancel_grace_ms\":-1}");
    ill(d, VERB_kind_patch, ERR_BAD_REQUEST, "heartbeat_ms",
        "{\"kind\":\"mail\",\"lease_ttl_ms\":1000,\"heartbeat_ms\":2000}");
    ill(d, VERB_kind_patch, ERR_BAD_REQUEST, "retry", "{\"kind\":\"mail\",\"retry\":7}");
    ill(d, VERB_kind_patch, ERR_BAD_REQUEST, "kind is required", "{\"timeout_ms\":1}");
    well(d, VERB_kind_get, "{\"kind\":\"mail\"}");
    says(d, "version", "1");
    says(d, "timeout_ms", "1000");
}

static void a_change_that_cannot_be_made_changes_nothing(void **state)
{
    (void)state;
    at_every_desk(refuses_changes);
}

static void lists_kinds(struct desk *d)
{
    static const char *const names[] = {"mail", "z", "a"};
    for (int i = 0; i < 3; i++)
        well(d, VERB_kind_set, "{\"kind\":\"%s\",\"timeout_ms\":1}", names[i]);
    well(d, VERB_kinds, "{\"limit\":2}");
    says(d, "kinds.0.kind", "a");
    says(d, "kinds.1.kind", "mail");
    says(d, "kinds.2", "");
    well(d, VERB_kinds, "{\"limit\":2,\"cursor\":\"%s\"}", said(d, "next_cursor"));
    says(d, "kinds.0.kind", "z");
    says(d, "kinds.1", "");
    says(d, "next_cursor", "");
    ill(d, VERB_kinds, ERR_BAD_REQUEST, "limit", "{\"limit\":501}");
    /* A kind without settings is not listed, and its version goes on. */
    well(d, VERB_kind_set, "{\"kind\":\"z\"}");
    says(d, "version", "2");
    well(d, VERB_kinds, "{\"cursor\":\"mail\"}");
    says(d, "kinds.0", "");
    well(d, VERB_kind_patch, "{\"kind\":\"z\",\"timeout_ms\":2}");
    says(d, "version", "3");
}

static void kinds_are_listed_by_name_page_by_page(void **state)
{
    (void)state;
    at_every_desk(lists_kinds);
}

/* A job of the kind that a worker has, which is to be cancelled. */
static const char *held_job(struct desk *d)
{
    well(d, VERB_submit, "{\"kind\":\"mail\"}");
    const char *id = said(d, "id");
    well(d, VERB_claim, "{\"worker_id\":\"w\",\"lease_ttl_ms\":600000,\"wait_ms\":0}");
    says(d, "claims.0.job.id", id);
    return id;
}

static void turns_hard_after(struct desk *d, const char *id, int64_t ms)
{
    let_time_pass(d, ms - 1000);
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "status", "running");
    let_time_pass(d, 1000);
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "status", "cancelled");
    well(d, VERB_verify, "{\"id\":\"%s\"}", id);
    says(d, "ok", "true");
}

static void cancels_with_grace(struct desk *d)
{
    const char *id = held_job(d);
    well(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    turns_hard_after(d, id, 30000);
    id = held_job(d);
    well(d, VERB_cancel, "{\"id\":\"%s\",\"grace_ms\":5000}", id);
    turns_hard_after(d, id, 5000);
    id = held_job(d);
    well(d, VERB_bulk, "{\"action\":\"cancel\",\"filter\":{},\"grace_ms\":4000}");
    turns_hard_after(d, id, 4000);
    well(d, VERB_kind_patch, "{\"kind\":\"mail\",\"cancel_grace_ms\":3000}");
    id = held_job(d);
    well(d, VERB_cancel, "{\"id\":\"%s\"}", id);
    turns_hard_after(d, id, 3000);

    id = held_job(d);
    ill(d, VERB_cancel, ERR_BAD_REQUEST, "grace_ms", "{\"id\":\"%s\",\"grace_ms\":0}", id);
    ill(d, VERB_cancel, ERR_BAD_REQUEST, "grace_ms is for a soft cancel",
        "{\"id\":\"%s\",\"mode\":\"hard\",\"grace_ms\":5}", id);
    ill(d, VERB_bulk, ERR_BAD_REQUEST, "grace_ms is for a soft cancel",
        "{\"action\":\"requeue\",\"filter\":{},\"grace_ms\":5}");
    well(d, VERB_get, "{\"id\":\"%s\"}", id);
    says(d, "cancel_requested", "false");
}

static void a_soft_cancel_turns_hard_after_its_grace(void **state)
{
    (void)state;
    at_every_desk(cancels_with_grace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_settings_of_a_kind_are_changed_one_by_one),
        cmocka_unit_test(a_change_that_cannot_be_made_changes_nothing),
        cmocka_unit_test(kinds_are_listed_by_name_page_by_page),
        cmocka_unit_test(a_soft_cancel_turns_hard_after_its_grace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
