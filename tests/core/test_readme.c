/* The life of a job that docs/explanation/how-it-works.md shows is the one that the core writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static void claim(struct world *world, struct str worker)
{
    struct command command = {.type = COMMAND_CLAIM, .actor = worker};
    world->now = world->slice.job.run_at;
    command.claim.worker_id = worker;
    command.claim.start = true;
    assert_int_equal(world_do(world, &command), ERR_OK);
}

static struct command by_worker(const struct world *world, enum command_type type)
{
    return (struct command){
        .type = type, .actor = world->slice.job.lease.worker_id, .token = world->token};
}

static void live(struct world *world)
{
    struct spec spec = world_spec();
    spec.kind = STR("mail.send");
    assert_int_equal(world_submit(world, &spec), ERR_OK);
    claim(world, STR("w1"));
    struct command fail_it = by_worker(world, COMMAND_FAIL);
    fail_it.fail.message = STR("the mail server is away");
    assert_int_equal(world_do(world, &fail_it), ERR_OK);
    claim(world, STR("w2"));
    struct command wait = by_worker(world, COMMAND_WAIT);
    wait.wait.type = WAIT_HUMAN;
    wait.wait.correlation_key = STR("approve-42");
    assert_int_equal(world_do(world, &wait), ERR_OK);
    struct command signal = {.type = COMMAND_SIGNAL, .actor = STR("bob")};
    signal.signal.correlation_key = STR("approve-42");
    signal.signal.payload = STR("{\"approved\": true}");
    assert_int_equal(world_do(world, &signal), ERR_OK);
    claim(world, STR("w1"));
    struct command complete = by_worker(world, COMMAND_COMPLETE);
    complete.complete.result = STR("{\"sent\": 1}");
    assert_int_equal(world_do(world, &complete), ERR_OK);
    assert_null(world_check(world));
}

static void the_life_in_the_readme_is_what_the_core_writes(void **state)
{
    (void)state;
    struct world world;
    world_init(&world, 1);
    live(&world);
    FILE *readme = fopen(PAWL_FIXTURES "/../../docs/explanation/how-it-works.md", "r");
    assert_non_null(readme);
    char line[512];
    size_t seen = 0;
    while (fgets(line, sizeof line, readme) != NULL) {
        char version[64];
        char type[64];
        char actor[64];
        char cause[64];
        if (sscanf(line, "%63s %63s by %63s %63s", version, type, actor, cause) != 4)
            continue;
        assert_true(seen < world.log_count);
        const struct event *event = &world.log[seen++];
        assert_int_equal(event->version, strtoll(version, NULL, 10));
        assert_true(str_eq(event_name(event), str_from(type)));
        assert_true(str_eq(event->actor, str_from(actor)));
        assert_true(str_eq(event->cause_text, str_from(cause)));
    }
    (void)fclose(readme);
    assert_int_equal(seen, world.log_count);
    world_release(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_life_in_the_readme_is_what_the_core_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
