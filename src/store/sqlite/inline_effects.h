/* The effects of a job as bytes in its own row, as long as they are few.
 *
 * Each is its length in four bytes, the lowest first, and the packed record. A job whose effects
 * take more than INLINE_EFFECTS_BYTES_MAX has them in job_effects instead, a row each. */
#ifndef PAWL_STORE_SQLITE_INLINE_EFFECTS_H
#define PAWL_STORE_SQLITE_INLINE_EFFECTS_H

#include "core/job.h"

enum { INLINE_EFFECTS_BYTES_MAX = 1536 };

/* Reads all of them into `arena`; their texts are views of `packed`. corrupt when it is damaged. */
enum error_code inline_effects_read(struct str packed, struct arena *arena, struct effect **ret,
                                    uint32_t *ret_count, struct err *err);

/* Writes all of them to `arena`; an absent view when there is no memory. */
struct str inline_effects_write(const struct effect *effects, uint32_t count, struct arena *arena);

#endif
