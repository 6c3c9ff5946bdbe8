/* The closed vocabularies of requests and payloads, each one list: an enum and its texts.
 *
 * Value 0 of every enum means "not said". Texts are what users write and read; the numbers may be
 * stored, so words are only ever added at the end. */
#ifndef PAWL_CORE_WORDS_H
#define PAWL_CORE_WORDS_H

#include "base/record.h"

/* What kind of failure a worker reports. transient and timeout are retried, resource moves a step
 * to another resource (and is retried for a plain job), permanent and validation are final. */
#define ERROR_CLASSES(WORD)                                                                        \
    WORD(CLASS_TRANSIENT, "transient")                                                             \
    WORD(CLASS_TIMEOUT, "timeout")                                                                 \
    WORD(CLASS_PERMANENT, "permanent")                                                             \
    WORD(CLASS_VALIDATION, "validation")                                                           \
    WORD(CLASS_RESOURCE, "resource")

/* Where in its work a job failed. */
#define STAGES(WORD)                                                                               \
    WORD(STAGE_FETCH, "fetch")                                                                     \
    WORD(STAGE_INPUT, "input")                                                                     \
    WORD(STAGE_EXEC, "exec")                                                                       \
    WORD(STAGE_OUTPUT, "output")                                                                   \
    WORD(STAGE_COMMIT, "commit")

/* Why a job is a dead letter. */
#define DEAD_LETTER_REASONS(WORD)                                                                  \
    WORD(DEAD_PARSE_ERROR, "parse_error")                                                          \
    WORD(DEAD_VALIDATION_FAILED, "validation_failed")                                              \
    WORD(DEAD_DEPENDENCY_UNAVAILABLE, "dependency_unavailable")                                    \
    WORD(DEAD_TIMEOUT, "timeout")                                                                  \
    WORD(DEAD_EXHAUSTED_RETRIES, "exhausted_retries")                                              \
    WORD(DEAD_POLICY_VIOLATION, "policy_violation")                                                \
    WORD(DEAD_INFRASTRUCTURE_FAILURE, "infrastructure_failure")                                    \
    WORD(DEAD_COMPENSATION_FAILED, "compensation_failed")

/* What a job waits for. steps: people who are asked by its steps; replan: a new plan. */
#define WAIT_TYPES(WORD)                                                                           \
    WORD(WAIT_WEBHOOK, "webhook")                                                                  \
    WORD(WAIT_HUMAN, "human")                                                                      \
    WORD(WAIT_TIMER, "timer")                                                                      \
    WORD(WAIT_SIGNAL, "signal")                                                                    \
    WORD(WAIT_STEPS, "steps")                                                                      \
    WORD(WAIT_REPLAN, "replan")

/* What ended a wait. */
#define OUTCOMES(WORD)                                                                             \
    WORD(OUTCOME_SIGNAL, "signal")                                                                 \
    WORD(OUTCOME_TIMEOUT, "timeout")                                                               \
    WORD(OUTCOME_PLAN, "plan")

#define CANCEL_MODES(WORD)                                                                         \
    WORD(CANCEL_SOFT, "soft")                                                                      \
    WORD(CANCEL_HARD, "hard")

/* What to do with an effect that an earlier attempt began and never committed. */
#define DOUBT_POLICIES(WORD)                                                                       \
    WORD(DOUBT_FAIL, "fail")                                                                       \
    WORD(DOUBT_RETRY, "retry")                                                                     \
    WORD(DOUBT_ASK, "ask")

/* What a person decided about an effect in doubt. */
#define RESOLUTIONS(WORD)                                                                          \
    WORD(RESOLVE_RETRY, "retry")                                                                   \
    WORD(RESOLVE_DONE, "done")                                                                     \
    WORD(RESOLVE_FAIL, "fail")

#define RETRY_STRATEGIES(WORD)                                                                     \
    WORD(RETRY_EXPONENTIAL, "exponential")                                                         \
    WORD(RETRY_LINEAR, "linear")                                                                   \
    WORD(RETRY_FIXED, "fixed")

#define JITTERS(WORD)                                                                              \
    WORD(JITTER_NONE, "none")                                                                      \
    WORD(JITTER_EQUAL, "equal")                                                                    \
    WORD(JITTER_FULL, "full")

#define EXHAUSTED_POLICIES(WORD)                                                                   \
    WORD(EXHAUSTED_DEAD_LETTER, "dead_letter")                                                     \
    WORD(EXHAUSTED_FAIL, "fail")

/* What the failure of a step does to its job: fail it at once, or let the branches that do not
 * depend on the step finish first. */
#define FAILURE_POLICIES(WORD)                                                                     \
    WORD(ON_FAILURE_FAIL, "fail")                                                                  \
    WORD(ON_FAILURE_CONTINUE, "continue")

#define WORD_SYMBOL(symbol, text) symbol,
enum error_class { CLASS_NONE, ERROR_CLASSES(WORD_SYMBOL) };
enum stage { STAGE_NONE, STAGES(WORD_SYMBOL) };
enum dead_letter_reason { DEAD_NONE, DEAD_LETTER_REASONS(WORD_SYMBOL) };
enum wait_type { WAIT_NONE, WAIT_TYPES(WORD_SYMBOL) };
enum outcome { OUTCOME_NONE, OUTCOMES(WORD_SYMBOL) };
enum cancel_mode { CANCEL_NONE, CANCEL_MODES(WORD_SYMBOL) };
enum doubt_policy { DOUBT_NONE, DOUBT_POLICIES(WORD_SYMBOL) };
enum resolution { RESOLVE_NONE, RESOLUTIONS(WORD_SYMBOL) };
enum retry_strategy { RETRY_NONE, RETRY_STRATEGIES(WORD_SYMBOL) };
enum jitter { JITTER_UNSET, JITTERS(WORD_SYMBOL) };
enum exhausted_policy { EXHAUSTED_NONE, EXHAUSTED_POLICIES(WORD_SYMBOL) };
enum failure_policy { ON_FAILURE_NONE, FAILURE_POLICIES(WORD_SYMBOL) };
#undef WORD_SYMBOL

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
