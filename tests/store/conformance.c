#include "store/conformance.h"

enum { TESTS_MAX = 256 };

int conformance_run(const struct store_factory *factory)
{
    const struct conformance_tests topics[] = {
        conformance_load(),    conformance_parts(),  conformance_write(),   conformance_plans(),
        conformance_claims(),  conformance_timers(), conformance_read(),    conformance_counts(),
        conformance_threads(), conformance_tokens(), conformance_workers(),
    };
    struct CMUnitTest tests[TESTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++)
        for (size_t k = 0; k < topics[i].count; k++) {
            if (count == TESTS_MAX)
                return 1;
            tests[count] = topics[i].at[k];
            tests[count++].initial_state = (void *)(uintptr_t)factory;
        }
    return _cmocka_run_group_tests(factory->name, tests, count, NULL, NULL);
}
