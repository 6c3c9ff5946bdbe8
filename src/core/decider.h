/* What the parts of decide share; no one else includes this.
 *
 * A decider holds the decision in the making. decider_emit appends an event and folds it into
 * `after` at once, so that what follows sees the job as the event leaves it. */
#ifndef PAWL_CORE_DECIDER_H
#define PAWL_CORE_DECIDER_H

#include "core/decide.h"

struct decider {
    const struct command *command;
    const struct context *context;
    int64_t now;        /* never before the job's last event */
    struct cause cause; /* goes into every event */
    struct decision *out;
    struct job *job;   /* the header as it stands: &out->after.job */
    struct step *step; /* the step that the command is about, if any */
    struct err *err;
};

/* What ends a wait or answers a question: a person, a signal, or the time that is over. */
struct reply {
    enum outcome outcome;
    struct str correlation_key; /* of the wait; a step has its own */
    struct str payload;         /* raw JSON: the answer itself */
    struct str choices;         /* of a wait that ends before it blocks, where it has any */
    struct str by;              /* who says to have answered; absent: no person did */
    struct str comment;         /* what they added */
    bool has_result;            /* the result of an effect in doubt, apart from the payload */
    struct str result;          /* raw JSON */
    struct str signal_id;       /* of the signal that brings it, if it has one */
    int64_t signal_version;     /* of the event that stored the signal; 0: it comes now */
};

/* The handlers of the commands on a job, one line each in decide.c's table. */
enum error_code decide_submit(struct decider *d);
enum error_code decide_claim(struct decider *d);
enum error_code decide_start(struct decider *d);
enum error_code decide_heartbeat(struct decider *d);
enum error_code decide_complete(struct decider *d);
enum error_code decide_fail(struct decider *d);
enum error_code decide_release(struct decider *d);
enum error_code decide_wait(struct decider *d);
enum error_code decide_cancelled(struct decider *d);
enum error_code decide_abandon(struct decider *d);
enum error_code decide_effect_begin(struct decider *d);
enum error_code decide_effect_commit(struct decider *d);
enum error_code decide_effect_abort(struct decider *d);
enum error_code decide_append(struct decider *d);
enum error_code decide_signal(struct decider *d);
enum error_code decide_job_answer(struct decider *d);
enum error_code decide_cancel(struct decider *d);
enum error_code decide_dead_letter(struct decider *d);
enum error_code decide_requeue(struct decider *d);
enum error_code decide_plan(struct decider *d);
enum error_code decide_expire(struct decider *d);
enum error_code decide_wake(struct decider *d);
enum error_code decide_cancel_due(struct decider *d);
enum error_code decide_lifetime(struct decider *d);
enum error_code decide_run(struct decider *d);
enum error_code decide_repin(struct decider *d);

/* The handlers of the commands on a step: d->step is set. */
enum error_code decide_step_claim(struct decider *d);
enum error_code decide_step_start(struct decider *d);
enum error_code decide_step_complete(struct decider *d);
enum error_code decide_step_fail(struct decider *d);
enum error_code decide_step_release(struct decider *d);
enum error_code decide_step_cancelled(struct decider *d);
enum error_code decide_step_expire(struct decider *d);
enum error_code decide_step_wake(struct decider *d);
enum error_code decide_verdict(struct decider *d);
enum error_code decide_step_answer(struct decider *d);

/* A new event of this command at the end of the decision, its data still empty; NULL when there is
 * no memory. The caller fills in the data and calls decider_fold before it adds another. */
struct event *decider_add(struct decider *d, enum event_type type);

/* Folds the event added last into `after`. Its move must be legal: that is asserted, since every
 * handler checks first. */
enum error_code decider_fold(struct decider *d);

/* decider_add and decider_fold in one, for an event without data. */
enum error_code decider_emit(struct decider *d, enum event_type type);

/* no_memory, for allocations that failed. */
enum error_code decider_no_memory(struct decider *d);

/* Raw JSON of a command as it is kept: without white space around it, null as absent, at most 1
 * MiB. */
enum error_code decider_json(struct decider *d, const char *what, struct str raw, struct str *ret);

/* Text of a command: valid UTF-8 of at most TEXT_BYTES_MAX bytes. */
enum error_code decider_text(struct decider *d, const char *what, struct str text);

/* A name of a command, when it is given. */
enum error_code decider_name(struct decider *d, const char *what, struct str name);

/* Whether the caller may not read the job: a refusal then names nothing of it but its
 * id, status and version, and what the command said itself. The holder of a live lease may read
 * it. */
bool decider_blind(const struct decider *d);

/* invalid_transition: cannot `verb` the job in its state. */
enum error_code decider_refuse(struct decider *d, const char *verb);

/* Refuses unless the machine allows `type` now. */
enum error_code decider_allows(struct decider *d, enum event_type type, const char *verb);

/* ---- leases (decide_lease.c), stale tokens (token.c) ---- */

/* Checks the command's token and finds its step: OK when the lease is live, or when this command
 * ended it before (then result.repeated is set); stale_lease otherwise. */
enum error_code decider_token(struct decider *d);

/* Terms resolved (claim > job > kind > default) into the lease fields of a job_leased or step_*
 * event, with a fresh token, whose text goes into the result. */
enum error_code decider_lease_data(struct decider *d, int64_t attempt, struct event_data *data);

/* Completes the job, or the step d->step, with raw JSON. */
enum error_code decider_complete(struct decider *d, struct str raw);
enum error_code decider_step_complete(struct decider *d, struct str raw);

/* Whether an effect is on record with what a repeated commit says of it. */
bool decider_commits_again(struct decider *d);

/* Refuses a failure whose numbers are out of bounds. */
enum error_code decider_check_failure(struct decider *d, const struct failure *failure);

/* Refuses unless a soft cancel was asked for. */
enum error_code decider_cancel_asked(struct decider *d);

/* Why a lease was lost, as a reason and as a failure: the resource, the attempt's timeout, or
 * silence. */
enum error_code decider_expiry(struct decider *d, const struct lease *lease, int64_t attempt,
                               struct str *ret_reason, struct failure *ret_failure);

/* The error object of a failure as JSON, its fields checked. */
enum error_code decider_error_json(struct decider *d, const struct failure *failure,
                                   struct str *ret);

/* Ends the job's lease without an end of the job: requeued for `reason` at `not_before`, or
 * cancelled when that was asked for. `error` may be absent. */
enum error_code decider_requeue(struct decider *d, struct str reason, struct str error,
                                int64_t failures, int64_t not_before);

/* Ends the job as failed or as a dead letter: `reason_code` and `stage` are for the latter. */
enum error_code decider_end_in_failure(struct decider *d, enum event_type type, struct str reason,
                                       struct str error, int64_t failures,
                                       enum dead_letter_reason reason_code, enum stage stage);

/* One more failure of the job: retried, or failed, or dead-lettered, as class and policy say. */
enum error_code decider_job_failure(struct decider *d, struct str reason,
                                    const struct failure *failure);

/* Ends the job as cancelled. */
enum error_code decider_job_cancelled(struct decider *d, enum cancel_mode mode, struct str reason);

/* What the event that ends the job's lease carries over from the heartbeats. */
void decider_carry_beats(const struct decider *d, struct event_data *data);

/* ---- waits and effects (decide_wait.c, decide_effect.c) ---- */

/* Refuses while an effect is open, naming it. */
enum error_code decider_no_open_effect(struct decider *d, const char *verb);

/* Gives up the job's lease and blocks, unless what it waits for is there. */
enum error_code decider_wait(struct decider *d, const struct wait_request *asked);

/* The oldest stored signal, among those loaded, that may end a wait of the type for the key with
 * these choices, which may be absent; NULL if missing. */
const struct signal *decider_stored_signal(const struct decider *d, enum wait_type type,
                                           struct str key, struct str choices);

/* Ends the job's wait with a reply that decider_check_reply has not looked at yet. */
enum error_code decider_end_wait(struct decider *d, const struct reply *reply);

/* ---- answers (decide_answer.c) ---- */

/* The actor of the command; absent when it has none. */
struct str decider_actor(const struct decider *d);

/* What a stored signal says to a step: no person answers at this moment. */
struct reply decider_stored_reply(const struct signal *stored);

/* Whether a payload can end a wait with these choices, which may be absent. */
bool decider_fits(const struct decider *d, struct str choices, struct str payload);

/* Refuses a reply that the question does not take, naming what it takes. For an effect in doubt it
 * is read: `ret_resolution` is RESOLVE_NONE for any other question. */
enum error_code decider_check_reply(struct decider *d, const struct wait *question,
                                    const struct reply *reply, enum resolution *ret_resolution,
                                    struct str *ret_result);

/* ---- plans (decide_plan.c) ---- */

/* Emits plan_generated and what follows from it. `steps` absent: the plan there is starts again. */
enum error_code decider_plan(struct decider *d, struct str steps, struct str reason, bool fresh);

/* The job runs from the first step's lease: emits job_running unless it does already. */
enum error_code decider_ensure_running(struct decider *d);

/* Starts d->step, a wait step that is ready. It needs no worker: the engine takes it and asks at
 * once. */
enum error_code decider_start_wait_step(struct decider *d);

/* A planned job is due: starts the wait steps that are ready, among those loaded. */
enum error_code decider_start_ready_waits(struct decider *d);

/* Starts the wait steps among the children of d->step that have become ready. */
enum error_code decider_start_waiting_children(struct decider *d);

/* Brings the job in line with its steps: completed, failed, waiting, cancelled, or left as it is.
 * d->step is the step that moved. */
enum error_code decider_settle(struct decider *d);

/* ---- steps (decide_step.c) ---- */

/* Whether the job lets its steps be claimed at all: invalid_transition says why not. */
enum error_code decider_takes_claims(struct decider *d);

/* decider_add for an event of d->step. */
struct event *decider_add_step(struct decider *d, enum event_type type);

/* The same with no other data, folded. */
enum error_code decider_emit_step(struct decider *d, enum event_type type);

/* What the event that ends the step's lease carries over from the heartbeats. */
void decider_carry_step_beats(const struct decider *d, struct event_data *data);

/* The running step fails for good. */
enum error_code decider_step_fatal(struct decider *d, struct str reason, struct str error);

/* Asks a person about the running step, which gives up its lease. `effect` is set when it is about
 * one in doubt. */
enum error_code decider_step_ask(struct decider *d, const struct question *question,
                                 struct str reason, enum verdict verdict, struct str effect);

/* Gives an answer, or the outcome of what a wait step waits for, to the step that asks. */
enum error_code decider_step_answer(struct decider *d, const struct reply *reply);

/* invalid_transition: cannot `verb` d->step in its state, and why, as the end of the sentence. */
enum error_code decider_refuse_step(struct decider *d, const char *verb, const char *why);

/* Refuses unless d->step asks a person, or waits for something else than a worker. */
enum error_code decider_step_asks(struct decider *d, const char *verb);

#endif
