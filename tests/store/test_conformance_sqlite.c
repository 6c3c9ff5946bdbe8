/* The suite on SQLite, each test on a file of its own. */
#include "store/conformance.h"
#include "store/test_stores.h"

static enum error_code open_sqlite(void *arg, const struct store_options *options,
                                   struct store **ret, struct err *err)
{
    return store_open(str_from(test_stores_fresh(arg, TEST_SQLITE)), options, ret, err);
}

static void discard_sqlite(void *arg)
{
    (void)arg; /* all files go in the end */
}

int main(void)
{
    struct test_stores stores;
    const struct store_factory factory = {
        .name = "sqlite",
        .one_writer = true,
        .open = open_sqlite,
        .discard = discard_sqlite,
        .arg = &stores,
    };
    test_stores_init(&stores);
    int failed = conformance_run(&factory);
    test_stores_release(&stores);
    return failed;
}
