/* A job with all of its history, as it is stored: for those who check it or take it elsewhere. */
#ifndef PAWL_ENGINE_HISTORY_H
#define PAWL_ENGINE_HISTORY_H

#include "core/verify.h"
#include "engine/verb.h"

struct history {
    struct store_job job; /* with all of its parts */
    struct event *events; /* by version, not opened */
    uint32_t count;
};

/* Reads all of a job as of one moment. not_found. */
enum error_code history_load(struct verb_call *call, struct uuid id, struct history *ret,
                             struct err *err);

/* What the checker found, and before it had its turn: events whose payloads cannot be read. */
struct history_report {
    struct verify_report report;
    struct violation *unreadable;
    uint32_t unreadable_count;
};

/* Opens the events, and holds all of it against the rules and the job's row against it. Returns OK
 * whatever it finds. */
enum error_code history_verify(struct verb_call *call, struct uuid id, struct history *history,
                               struct history_report *ret, struct err *err);

/* The first thing that is wrong; NULL: nothing is. */
const struct violation *history_violation(const struct history_report *report);

#endif
