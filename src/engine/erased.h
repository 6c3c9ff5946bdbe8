/* The row of a job whose payloads are erased, as exports carry it.
 *
 * Any other job is a fold of its events. Of this one the events say what happened and when, but no
 * longer what it was called or how often it failed: that is in the row alone, and goes with them.
 *
 *   {"kind", "queue", "priority", "agent_id", "idempotency_key", "failures", "state",
 *    "effects": [{"step", "key", "version", "state"}],
 *    "signals": [{"correlation_key", "signal_id", "version", "delivered"}],
 *    "steps": [{"plan", "state"}]}
 *
 * state and plan are as core/job_state.h writes them. What the events still say is left out. */
#ifndef PAWL_ENGINE_ERASED_H
#define PAWL_ENGINE_ERASED_H

#include "base/json.h"
#include "engine/batch.h"

/* Writes the row of a whole job as a value. no_memory. */
enum error_code erased_write(const struct job_slice *slice, struct arena *arena,
                             struct json_writer *writer, struct err *err);

/* Makes the job out of a row and of the events of `import`, and puts it into import->slice. Nothing
 * is left in it of what redaction erases, whatever the row says. Whether row and events are of one
 * job is for job_verify to tell. bad_request, corrupt, no_memory. */
enum error_code erased_read(struct str json, struct uuid id, uint64_t seed, struct arena *arena,
                            struct job_import *import, struct err *err);

#endif
