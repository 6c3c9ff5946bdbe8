/* Jobs for people: all of one, or many as a table. */
#ifndef PAWL_CLI_JOB_VIEW_H
#define PAWL_CLI_JOB_VIEW_H

#include "cli/cli.h"
#include "cli/table.h"

/* Prints all that an answer says of a job. */
void job_print(struct pawl_json job);

/* Prints rules of retries on one line; nothing when there are none. */
void retry_print(struct pawl_json retry);

/* A table of jobs, without rows, and its rows. */
struct table *jobs_table(void);
void jobs_table_add(struct table *table, struct pawl_json job);

#endif
