/* The tables of a job and its parts, for those who write, read and compare them. Private to
 * job_row.c and job_state.c. */
#ifndef PAWL_CORE_JOB_RECORDS_H
#define PAWL_CORE_JOB_RECORDS_H

#include "base/record.h"
#include "core/job.h"
#include "core/resource.h"
#include "core/spec.h"

/* The first fields of a table are those that stores keep elsewhere; the rest is the state. */
enum { JOB_COLUMNS = 10, EFFECT_COLUMNS = 3, STEP_COLUMNS = 1 };
#define RECORD_FROM(first) (RECORD_ALL << (first))

extern const struct record_type job_record;
extern const struct record_type effect_record;
extern const struct record_type signal_record;
extern const struct record_type step_record;
extern const struct record_type kind_settings_record;
extern const struct record_type resource_record;

#endif
