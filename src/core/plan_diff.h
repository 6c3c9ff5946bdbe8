/* What changed from one version of a plan to another. */
#ifndef PAWL_CORE_PLAN_DIFF_H
#define PAWL_CORE_PLAN_DIFF_H

#include <stdint.h>

#include "core/plan.h"

enum plan_change_type { STEP_ADDED, STEP_REMOVED, STEP_CHANGED };

struct plan_change {
    enum plan_change_type type;
    const struct step_spec *from; /* NULL: added */
    const struct step_spec *to;   /* NULL: removed */
    uint64_t fields;              /* of step_spec_record, those that differ */
};

struct plan_diff {
    struct plan_change *changes; /* in the order of `to`, then what was removed in that of `from` */
    uint32_t count;
    uint32_t same; /* steps that are in both as they were */
};

/* Compares step by step, by id. JSON is the same when it differs in white space only. Fails with
 * no_memory only. */
enum error_code plan_diff(const struct plan *from, const struct plan *to, uint64_t seed,
                          struct arena *arena, struct plan_diff *ret, struct err *err);

#endif
