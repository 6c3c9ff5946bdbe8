/* The suite on the memory store. */
#include "store/conformance.h"
#include "store/memory/memory_store.h"

static enum error_code open_memory(void *arg, const struct store_options *options,
                                   struct store **ret, struct err *err)
{
    (void)arg;
    return memory_store_open(options, ret, err);
}

static void discard_memory(void *arg)
{
    (void)arg;
}

int main(void)
{
    const struct store_factory factory = {
        .name = "memory",
        .one_at_a_time = true,
        .one_writer = true,
        .open = open_memory,
        .discard = discard_memory,
    };
    return conformance_run(&factory);
}
