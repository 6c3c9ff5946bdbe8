/* The rules: a command on a job at a moment gives the events to append, or one clear error.
 *
 * job_decide is pure. Time, randomness and everything known of the job come in; events, the state
 * after them, and the answer for the caller go out. On an error nothing has changed anywhere. */
#ifndef PAWL_CORE_DECIDE_H
#define PAWL_CORE_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "core/command_type.h"
#include "core/event.h"
#include "core/failure.h"
#include "core/job.h"
#include "core/resource.h"
#include "core/spec.h"
#include "core/token.h"

enum {
    SOFT_CANCEL_MS_DEFAULT = 30 * 1000,
    STORED_SIGNALS_MAX = 1000,
    APPEND_MAX = 1000,
    PARK_AFTER_MS = 60 * 60 * 1000, /* a wait with a longer timeout is parked */
};

/* How a claim wants its lease; 0: as the job, the kind, or the default says. */
struct lease_terms {
    int64_t lease_ttl_ms;
    int64_t heartbeat_ms;
};

struct wait_request {
    enum wait_type type;
    struct str correlation_key; /* may be absent for a timer */
    int64_t timeout_ms;         /* 0: for ever */
    int64_t delay_ms;           /* timer */
    int64_t until;              /* timer, instead of delay_ms */
    bool park;
    struct str prompt;
    struct str choices; /* raw JSON array */
    struct str assignee;
    struct str default_answer; /* raw JSON: the payload when timeout_ms is over */
};

/* An effect that is to be begun. */
struct effect_call {
    struct str key;
    struct str input;           /* raw JSON */
    struct str fingerprint;     /* of the input, compared instead of it: 64 hex digits */
    enum doubt_policy in_doubt; /* DOUBT_NONE: as its first begin said, or else the job */
};

/* What follows a commit, in the same decision: both happen or neither. */
enum effect_then { THEN_NONE, THEN_BEGIN, THEN_WAIT, THEN_COMPLETE };

struct effect_end {
    struct str key;
    struct str result; /* raw JSON */
    struct str error;  /* raw JSON object with a message; instead of a result */
    enum effect_then then;
    struct effect_call begin;
    struct wait_request wait;
    struct str complete_result; /* raw JSON */
};

struct question {
    struct str prompt;
    struct str choices; /* raw JSON array */
    struct str assignee;
    int64_t timeout_ms; /* 0: for ever */
    struct str default_answer;
};

struct appended {
    struct str type;
    struct str payload; /* raw JSON */
};

/* A command and what it carries. `step` names the step that a CALLER's or ENGINE's command is
 * about; a WORKER's token says that itself. */
struct command {
    enum command_type type;
    struct str actor; /* who: a worker, a user, "pawl" */
    struct str token; /* WORKER's commands; absent for an operator's APPEND and VERDICT */
    struct str step;
    bool no_answer; /* the caller may not answer questions to people */
    bool blind;     /* the caller may not read the job: see decider_blind */
    union {
        struct {
            const struct spec *spec;     /* checked by decide */
            const struct job *duplicate; /* the job that has its idempotency key, if any */
        } submit;
        struct {
            struct str worker_id;
            struct lease_terms terms;
            const struct names *capabilities; /* of the worker; NULL: none */
            const struct resource *resource;  /* STEP_CLAIM, unless judging */
            bool start;                       /* run at once: both events in one commit */
            bool judge;                       /* STEP_CLAIM: take a finished step to judge it */
            struct str code_version;          /* CLAIM: that the worker runs; absent: not told */
        } claim;                              /* CLAIM, STEP_CLAIM */
        struct {
            struct str progress; /* raw JSON */
            struct str cursor;
        } heartbeat;
        struct {
            struct str result; /* raw JSON */
        } complete;
        struct failure fail;
        struct wait_request wait;
        struct effect_call effect_begin;
        struct effect_end effect_commit;
        struct {
            struct str key;
            struct str error; /* raw JSON object with a message */
        } effect_abort;
        struct {
            int64_t expected_version; /* -1: any */
            const struct appended *events;
            uint32_t count;
        } append;
        struct {
            struct str correlation_key;
            struct str payload; /* raw JSON */
            struct str signal_id;
            bool early; /* store it although the job waits for another key */
        } signal;
        struct {
            enum cancel_mode mode; /* CANCEL_NONE: soft */
            struct str reason;
            int64_t soft_ms; /* until it turns hard; 0: as the kind or the default says */
        } cancel;
        struct {
            enum dead_letter_reason reason_code;
            enum stage stage;
            struct str message;
        } dead_letter; /* DEAD_LETTER, ABANDON */
        struct {
            struct str reason;
            bool fresh; /* forget effects, results of steps, cursor and progress */
        } requeue;
        struct {
            struct str reason;
        } run;
        struct {
            struct str to;
            struct str from; /* only if it is bound to this; absent: to any */
            struct str reason;
        } repin;
        struct {
            struct str steps; /* raw JSON array */
            struct str reason;
        } plan;
        struct {
            enum verdict decision;
            struct str reason;
            struct str result;        /* accept: instead of the held one; raw JSON */
            struct question question; /* needs_user */
        } verdict;
        struct {
            struct str answer; /* raw JSON */
            struct str by;     /* absent: the actor */
            struct str comment;
            bool has_result;            /* the result of an effect in doubt is known */
            struct str result;          /* raw JSON */
            struct str correlation_key; /* set: only to the question with this key */
            bool has_attempt;           /* only to the question that this attempt has asked */
            int64_t attempt;
        } answer;
        struct {
            int64_t attempt;    /* of the lease that was seen to end */
            bool resource_lost; /* a step's: its resource is gone, however well the worker beats */
        } expire;
    };
};

/* Everything from outside that a decision may depend on. */
struct context {
    int64_t now;
    /* Heartbeats before this moment may be missing from stored leases: a lease last renewed before
     * it counts as renewed at it. 0: none is missing. */
    int64_t beats_since;
    int64_t down_since;   /* when the last break began, as far as is known; 0: not known */
    int64_t up_since;     /* since when clock and store have been there without a break: leases last
                             renewed before get one heartbeat of grace after it */
    int64_t lease_ttl_ms; /* where neither claim, job nor kind say; 0: LEASE_TTL_MS_DEFAULT */
    int64_t cancel_grace_ms; /* where neither cancel nor kind say; 0: SOFT_CANCEL_MS_DEFAULT */
    uint64_t random;         /* for jitter and look-up tables */
    uint8_t secret[TOKEN_SECRET_LEN]; /* fresh random bytes: a token's secret */
    uint8_t salt[SALT_LEN];           /* fresh random bytes: a new job's salt */
    const struct kind_settings *kind; /* NULL: none set */
    struct arena *arena;
};

enum signal_fate { SIGNAL_DELIVERED = 1, SIGNAL_STORED, SIGNAL_REPEATED };
enum effect_status { EFFECT_EXECUTE = 1, EFFECT_RECORDED, EFFECT_IN_DOUBT };

/* The part of a decision that the caller is told besides the job itself. */
struct decision_result {
    bool repeated;      /* the command had been carried out before: no events now */
    bool duplicate;     /* SUBMIT: the idempotency key is known, `duplicate` is the job */
    struct str token;   /* CLAIM, STEP_CLAIM */
    int64_t expires_at; /* of the lease: CLAIM, STEP_CLAIM, START, HEARTBEAT */
    bool cancel_requested;
    struct str failed_resource; /* the resource for whose sake a step has failed; absent: none */
    bool wake; /* a wait step began while signals are stored: give it a WAKE in the same commit */
    enum signal_fate signal;
    enum effect_status effect;
    struct str effect_result;
    struct str effect_error;           /* instead: the failure that is recorded */
    struct str effect_idempotency_key; /* the same for every attempt: for systems downstream */
};

struct decision {
    struct event *events; /* not yet sealed */
    uint32_t count;
    uint32_t cap;
    struct job_slice after; /* the state with the events folded in */
    struct decision_result result;
};

/* Decides. `slice` is the job with the parts that the command needs:
 *
 *   effects   those named, by the command, the job's wait or the step's question; one that is open,
 *             when the header says that some are
 *             PLAN, REQUEUE: all that are open
 *   signals   SIGNAL: the newest with its key, the oldest stored with its key, the one with its id
 *             WAIT, also after a commit, a step's WAKE: the oldest stored one with the key
 *   steps     the step
 *             COMPLETE, also after a commit, VERDICT, ANSWER, WAKE: and its children
 *             SIGNAL: the step that asks for its key, and its children
 *             PLAN, REQUEUE, RUN: all
 *             a planned job's WAKE: all, or those that wait by themselves
 *
 * Raw JSON in a command must have passed json_check, and its enums must be values that there are:
 * anyone who reads the request sees to that. context->kind is that of the job's kind.
 *
 * Everything returned lives in context->arena, or points into slice, command and context. On
 * failure `ret` is untouched, and the detail has the values:
 *
 *   bad_request             the command is not well formed; also unknown_field,
 *                           payload_too_large, unprocessable_plan
 *   not_found               there is no such job, step or effect
 *   stale_lease             the token is not that of a live lease, also since there is no such job;
 *                           nothing to expire
 *   version_mismatch        APPEND: the job has moved on
 *   invalid_transition      the job or step is not in a state that allows this
 *   wrong_correlation_key   SIGNAL, ANSWER: the job waits for something else
 *   idempotency_mismatch    SUBMIT: the idempotency key belongs to a job of another kind or with
 *                           another payload
 *   replay_mismatch         an effect has another input or result on record
 *   rate_limited            SIGNAL: too many are stored
 *   no_memory               nothing was done
 *   corrupt                 the slice lacks a part that the events of this command are about */
enum error_code job_decide(const struct job_slice *slice, const struct command *command,
                           const struct context *context, struct decision *ret, struct err *err);

/* What systems downstream are given to tell an effect by: the same for every attempt of the same
 * job, step (absent: the job's own) and key, and another after a fresh start. Absent: no memory. */
struct str effect_idempotency_key(const struct job *job, struct str step, struct str key,
                                  struct arena *arena);

/* Whether CANCEL, REQUEUE, RUN, DEAD_LETTER or PLAN is for a job as it stands, which its header
 * alone tells: what job_takes denies job_decide refuses with invalid_transition. True for all other
 * commands. */
bool job_takes(const struct job *job, enum command_type type);

/* Seals the events of a decision onto `head`, the hash of the job's last event before it, and puts
 * the new head into the state after. Fails with no_memory only. */
enum error_code decision_seal(struct decision *decision, const uint8_t head[HASH_LEN],
                              struct arena *arena, struct err *err);

/* When a lease can be taken: at expires_at; or, when a break cut its holder off, one heartbeat
 * after the break, but not past the end of the attempt. */
int64_t lease_ends_at(const struct lease *lease, const struct context *context);

#endif
