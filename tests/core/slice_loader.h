/* What a store would load for a command: of a whole job, just the parts that core/load_set.h asks
 * for.
 *
 * The random lives decide commands on both and compare, so that needs and decide cannot part. */
#ifndef PAWL_TESTS_SLICE_LOADER_H
#define PAWL_TESTS_SLICE_LOADER_H

#include "core/decide.h"

/* The slice of `whole` that `command` needs, in `arena`. */
struct job_slice slice_for(const struct job_slice *whole, const struct command *command,
                           struct arena *arena);

#endif
