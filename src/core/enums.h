/* The closed vocabularies of requests and payloads, each one list: an enum and its texts.
 *
 * Value 0 of every enum means "not given". Texts are what users write and read; the numbers may be
 * stored, so values are only ever added at the end. */
#ifndef PAWL_CORE_ENUMS_H
#define PAWL_CORE_ENUMS_H

#include "base/record.h"

/* What kind of failure a worker reports. transient and timeout are retried, resource moves a step
 * to another resource (and is retried for a plain job), permanent and validation are final. */
#define ERROR_CLASSES(ENTRY)                                                                       \
    ENTRY(CLASS_TRANSIENT, "transient")                                                            \
    ENTRY(CLASS_TIMEOUT, "timeout")                                                                \
    ENTRY(CLASS_PERMANENT, "permanent")                                                            \
    ENTRY(CLASS_VALIDATION, "validation")                                                          \
    ENTRY(CLASS_RESOURCE, "resource")

/* Where in its work a job failed. */
#define STAGES(ENTRY)                                                                              \
    ENTRY(STAGE_FETCH, "fetch")                                                                    \
    ENTRY(STAGE_INPUT, "input")                                                                    \
    ENTRY(STAGE_EXEC, "exec")                                                                      \
    ENTRY(STAGE_OUTPUT, "output")                                                                  \
    ENTRY(STAGE_COMMIT, "commit")

/* Why a job is a dead letter. */
#define DEAD_LETTER_REASONS(ENTRY)                                                                 \
    ENTRY(DEAD_PARSE_ERROR, "parse_error")                                                         \
    ENTRY(DEAD_VALIDATION_FAILED, "validation_failed")                                             \
    ENTRY(DEAD_DEPENDENCY_UNAVAILABLE, "dependency_unavailable")                                   \
    ENTRY(DEAD_TIMEOUT, "timeout")                                                                 \
    ENTRY(DEAD_EXHAUSTED_RETRIES, "exhausted_retries")                                             \
    ENTRY(DEAD_POLICY_VIOLATION, "policy_violation")                                               \
    ENTRY(DEAD_INFRASTRUCTURE_FAILURE, "infrastructure_failure")                                   \
    ENTRY(DEAD_COMPENSATION_FAILED, "compensation_failed")

/* What a job waits for. steps: people who are asked by its steps; replan: a new plan. */
#define WAIT_TYPES(ENTRY)                                                                          \
    ENTRY(WAIT_WEBHOOK, "webhook")                                                                 \
    ENTRY(WAIT_HUMAN, "human")                                                                     \
    ENTRY(WAIT_TIMER, "timer")                                                                     \
    ENTRY(WAIT_SIGNAL, "signal")                                                                   \
    ENTRY(WAIT_STEPS, "steps")                                                                     \
    ENTRY(WAIT_REPLAN, "replan")

/* What ended a wait. */
#define OUTCOMES(ENTRY)                                                                            \
    ENTRY(OUTCOME_SIGNAL, "signal")                                                                \
    ENTRY(OUTCOME_TIMEOUT, "timeout")                                                              \
    ENTRY(OUTCOME_PLAN, "plan")

#define CANCEL_MODES(ENTRY)                                                                        \
    ENTRY(CANCEL_SOFT, "soft")                                                                     \
    ENTRY(CANCEL_HARD, "hard")

/* What to do with an effect that an earlier attempt began and never committed. */
#define DOUBT_POLICIES(ENTRY)                                                                      \
    ENTRY(DOUBT_FAIL, "fail")                                                                      \
    ENTRY(DOUBT_RETRY, "retry")                                                                    \
    ENTRY(DOUBT_ASK, "ask")

/* What a person decided about an effect in doubt. */
#define RESOLUTIONS(ENTRY)                                                                         \
    ENTRY(RESOLVE_RETRY, "retry")                                                                  \
    ENTRY(RESOLVE_DONE, "done")                                                                    \
    ENTRY(RESOLVE_FAIL, "fail")

#define RETRY_STRATEGIES(ENTRY)                                                                    \
    ENTRY(RETRY_EXPONENTIAL, "exponential")                                                        \
    ENTRY(RETRY_LINEAR, "linear")                                                                  \
    ENTRY(RETRY_FIXED, "fixed")

#define JITTERS(ENTRY)                                                                             \
    ENTRY(JITTER_NONE, "none")                                                                     \
    ENTRY(JITTER_EQUAL, "equal")                                                                   \
    ENTRY(JITTER_FULL, "full")

#define EXHAUSTED_POLICIES(ENTRY)                                                                  \
    ENTRY(EXHAUSTED_DEAD_LETTER, "dead_letter")                                                    \
    ENTRY(EXHAUSTED_FAIL, "fail")

/* What the failure of a step does to its job: fail it at once, or let the branches that do not
 * depend on the step finish first. */
#define FAILURE_POLICIES(ENTRY)                                                                    \
    ENTRY(ON_FAILURE_FAIL, "fail")                                                                 \
    ENTRY(ON_FAILURE_CONTINUE, "continue")

#define ENUM_SYMBOL(symbol, text) symbol,
enum error_class { CLASS_NONE, ERROR_CLASSES(ENUM_SYMBOL) };
enum stage { STAGE_NONE, STAGES(ENUM_SYMBOL) };
enum dead_letter_reason { DEAD_NONE, DEAD_LETTER_REASONS(ENUM_SYMBOL) };
enum wait_type { WAIT_NONE, WAIT_TYPES(ENUM_SYMBOL) };
enum outcome { OUTCOME_NONE, OUTCOMES(ENUM_SYMBOL) };
enum cancel_mode { CANCEL_NONE, CANCEL_MODES(ENUM_SYMBOL) };
enum doubt_policy { DOUBT_NONE, DOUBT_POLICIES(ENUM_SYMBOL) };
enum resolution { RESOLVE_NONE, RESOLUTIONS(ENUM_SYMBOL) };
enum retry_strategy { RETRY_NONE, RETRY_STRATEGIES(ENUM_SYMBOL) };
enum jitter { JITTER_UNSET, JITTERS(ENUM_SYMBOL) };
enum exhausted_policy { EXHAUSTED_NONE, EXHAUSTED_POLICIES(ENUM_SYMBOL) };
enum failure_policy { ON_FAILURE_NONE, FAILURE_POLICIES(ENUM_SYMBOL) };
#undef ENUM_SYMBOL

extern const struct record_names error_class_names;
extern const struct record_names stage_names;
extern const struct record_names dead_letter_reason_names;
extern const struct record_names wait_type_names;
extern const struct record_names wait_request_names; /* those that a worker may ask for */
extern const struct record_names outcome_names;
extern const struct record_names cancel_mode_names;
extern const struct record_names doubt_policy_names;
extern const struct record_names resolution_names;
extern const struct record_names retry_strategy_names;
extern const struct record_names jitter_names;
extern const struct record_names exhausted_policy_names;
extern const struct record_names failure_policy_names;

#endif
