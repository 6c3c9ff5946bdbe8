/* The checker: proves a history right, or says which event breaks which rule.
 *
 * It shares the tables and the fold with the rest, and no code with decide, so that one can catch
 * the other: it keeps its own account of leases, attempts, failures, effects, signals and steps
 * from the events alone. */
#ifndef PAWL_CORE_VERIFY_H
#define PAWL_CORE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "core/event.h"
#include "core/job.h"

enum verify_rule {
#define VERIFY_RULE(symbol, name, text) VERIFY_##symbol,
#include "core/verify.def"
#undef VERIFY_RULE
    VERIFY_RULE_COUNT,
};

/* Short name ("legal_move") and the rule as a sentence. */
struct str verify_rule_name(enum verify_rule rule);
struct str verify_rule_text(enum verify_rule rule);

struct violation {
    enum verify_rule rule;
    int64_t version; /* of the event; 0: of the row */
    struct str detail;
};

enum { VIOLATIONS_MAX = 100 };

struct verify_report {
    struct violation *violations; /* the first VIOLATIONS_MAX, in stream order */
    uint32_t violation_count;
    bool partial; /* an event was redacted: from there on only types and causes were checked */
    int64_t version;
    enum job_status status; /* as derived from the events */
    uint8_t head[HASH_LEN];
};

/* What is to be checked. */
struct verify_input {
    struct uuid id;
    const struct event *events; /* opened, oldest first; never changed */
    size_t count;
    const uint8_t *salt;         /* NULL: erased by redaction, digests are taken as they are */
    const struct job_slice *row; /* what the fold must equal; NULL: there is no row to compare */
    uint64_t seed;               /* for look-up tables; changes no result */
};

/* Checks a history. Returns OK whatever it finds, no_memory when it could not finish. Everything in
 * the report lives in `arena`. */
enum error_code job_verify(const struct verify_input *input, struct arena *arena,
                           struct verify_report *ret, struct err *err);

#endif
