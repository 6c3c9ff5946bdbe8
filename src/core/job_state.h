/* Jobs and their parts as stores keep them: JSON texts beside a few columns, or where a store has
 * columns for bytes, the same packed (base/record_pack.h). Readers take either.
 *
 * What users search by, and what never changes after the first event, is left out: stores keep the
 * former in columns, and the latter is in the stream already. */
#ifndef PAWL_CORE_JOB_STATE_H
#define PAWL_CORE_JOB_STATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "core/job.h"
#include "core/resource.h"

/* The header without id, status, version, failures, created_at, updated_at, spec, cursor, head and
 * salt. */
enum state_form { STATE_JSON, STATE_PACKED };
void job_state_write(const struct job *job, enum state_form form, struct buf *buf);

/* Reads what job_state_write wrote over `job`, whose other members are left alone. Fails with
 * corrupt or no_memory. Here as below views of the text are kept. */
enum error_code job_state_read(struct str state, struct arena *arena, struct job *job,
                               struct err *err);

/* Makes the job's texts copies in `arena`; those of the spec too unless `same_spec`, whose texts
 * are taken then. The copy is what a store keeps: nothing of it has changed. False: no memory. */
bool job_copy_texts(struct job *job, const struct spec *same_spec, struct arena *arena);

/* The same for an effect. */
bool effect_copy_texts(struct effect *effect, struct arena *arena);

/* The spec of a job, from the payload of its job_created. An absent payload (redacted) leaves
 * `spec` alone. */
enum error_code job_spec_read(struct str payload, struct arena *arena, struct spec *spec,
                              struct err *err);

/* An effect without its step, key and version. `name` is made by the reader. */
void effect_state_write(const struct effect *effect, enum state_form form, struct buf *buf);
enum error_code effect_state_read(struct str state, struct arena *arena, struct effect *effect,
                                  struct err *err);

/* An effect with all of that, packed; texts that are read are views of `packed`. */
void effect_write_whole(const struct effect *effect, struct buf *buf);
enum error_code effect_read_whole(struct str packed, struct arena *arena, struct effect *effect,
                                  struct err *err);

/* A step in two texts: what the plan says of it, which is written once, and the rest. The ordinal
 * is in neither. */
void step_plan_write(const struct step *step, struct buf *buf);
void step_state_write(const struct step *step, struct buf *buf);
enum error_code step_plan_read(struct str json, struct arena *arena, struct step *step,
                               struct err *err);
enum error_code step_state_read(struct str json, struct arena *arena, struct step *step,
                                struct err *err);

/* A resource as it was registered; used is not in it. */
void resource_state_write(const struct resource *resource, struct buf *buf);
enum error_code resource_state_read(struct str json, struct arena *arena, struct resource *resource,
                                    struct err *err);

/* Labels as the member "labels" of an object, and back from its value. */
void label_pairs_write(const struct label *labels, uint32_t count, struct json_writer *writer);
enum error_code label_pairs_read(struct str json, struct arena *arena, struct label **ret,
                                 uint32_t *ret_count, struct err *err);

/* The settings of a kind. */
void kind_settings_write(const struct kind_settings *kind, struct buf *buf);
bool kind_settings_same(const struct kind_settings *a, const struct kind_settings *b);
enum error_code kind_settings_read(struct str json, struct arena *arena, struct kind_settings *kind,
                                   struct err *err);

/* Erases what redaction erases of a job: everything that a caller or worker wrote in free form
 * (payloads, results, errors, progress, prompts, answers, goal, labels), the salt, and the payloads
 * of the parts that are loaded. Names by which the job is found stay. The job says that it is
 * redacted from then on. */
void job_redact(struct job_slice *slice);

#endif
