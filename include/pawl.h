/* Pawl: durable jobs and workflows. This is the only header that a program includes, and the manual
 * of the library.
 *
 *     struct pawl_options options = {.create = 1};
 *     struct pawl_error error;
 *     struct pawl *pawl;
 *     char *job;
 *     if (pawl_open("sqlite:pawl.db", &options, &pawl, &error) == PAWL_OK) {
 *         if (pawl_submit(pawl, "{\"kind\": \"email\"}", &job, &error) == PAWL_OK) {
 *             puts(job);
 *             pawl_free(job);
 *         }
 *         pawl_close(pawl);
 *     }
 *
 * What holds for every function, unless its own text says otherwise:
 *
 *   Errors     A function that can fail returns an enum pawl_code: PAWL_OK, or what went wrong. Its
 *              text lists the codes to expect; a later version may add to them, so treat a code
 *              that you do not know as a failure. `error` may be NULL.
 *   Outputs    are named ret_x and are written only when PAWL_OK is returned. Where NULL is
 *              not allowed, for these or for a store, PAWL_BAD_REQUEST says so.
 *   Ownership  Text that is returned through a char ** is the caller's, NUL-terminated UTF-8, and
 *              is given back with pawl_free. Text that is returned as const char * is the
 *              library's. What a function is given it copies, or needs only until it returns.
 *   Threads    Any function may be called from any thread at any time, also on one handle. The
 *              library has no global state and installs no signal handler. A handle has threads of
 *              its own, from pawl_open to pawl_close; they take no signals.
 *   Silence    Nothing is printed, and the process is never ended because of what a caller asked
 *              for. A failed assertion is a bug of the library, and does end it; so does an fsync
 *              that fails on a SQLite file, since nobody can tell what is on the disk then. */
#ifndef PAWL_H
#define PAWL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What leaves the library. Everything else in it is hidden. */
#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#else
#define PAWL_API
#endif

/* The version of this header: "major.minor.patch", with "-dev" between releases. */
#define PAWL_VERSION "0.2.0-dev"

/* Everything that can go wrong. Numbers are for ever: they are added to, never reused. */
enum pawl_code {
    PAWL_OK = 0,
    PAWL_BAD_REQUEST = 1,
    PAWL_UNKNOWN_FIELD = 2,
    PAWL_UNAUTHORIZED = 3,
    PAWL_FORBIDDEN = 4,
    PAWL_NOT_FOUND = 5,
    PAWL_STALE_LEASE = 6,
    PAWL_VERSION_MISMATCH = 7,
    PAWL_INVALID_TRANSITION = 8,
    PAWL_WRONG_CORRELATION_KEY = 9,
    PAWL_REPLAY_MISMATCH = 10,
    PAWL_PAYLOAD_TOO_LARGE = 11,
    PAWL_UNSUPPORTED_MEDIA_TYPE = 12,
    PAWL_UNPROCESSABLE_PLAN = 13,
    PAWL_IDEMPOTENCY_MISMATCH = 14,
    PAWL_RATE_LIMITED = 15,
    PAWL_UNAVAILABLE = 16,
    PAWL_NO_MEMORY = 17,
    PAWL_CORRUPT = 18,
    PAWL_METHOD_NOT_ALLOWED = 19, /* HTTP only */
    PAWL_BATCH_REFUSED = 20,
    PAWL_FEED_RESET = 21,
};

/* The version of the library that runs, which may be newer than the PAWL_VERSION that a program was
 * compiled with. Cannot fail. */
PAWL_API const char *pawl_version(void);

/* A code in words, for people: "There is not enough memory". Any number may be asked for; one that
 * is not of the list gives "Unknown error". Cannot fail. */
PAWL_API const char *pawl_code_text(enum pawl_code code);

/* Gives back what the library returned through a char **. NULL is allowed and does nothing. Do not
 * use free(): the program's may be another one. */
PAWL_API void pawl_free(void *memory);

/* What went wrong, in words: which value, and what to do about it. Functions that take one fill it
 * in when they fail, and leave it alone otherwise; NULL means that nobody wants to know. */
struct pawl_error {
    enum pawl_code code;
    char message[512]; /* NUL-terminated UTF-8 without control characters */
};

/* ---- opening ------------------------------------------------------------------------------ */

/* A store that is open: everything below works on one. */
struct pawl;

struct pawl_options {
    const char *actor;   /* who acts, as histories will say; NULL: "library". Never "token:..." */
    int create;          /* make the store when it is not there; else PAWL_NOT_FOUND */
    int patience_ms;     /* how long to try before PAWL_UNAVAILABLE; 0: 30 s */
    int queue_bytes_max; /* calls that wait at once, in bytes, before PAWL_UNAVAILABLE; 0: 64 MiB */

    /* Milliseconds since 1970, for tests; NULL: the system's clock, or PostgreSQL's. */
    long long (*clock)(void *arg);
    void *clock_arg;

    const char *token;   /* for a server that wants one; NULL: none */
    const char *ca_file; /* for https: a PEM file of the authorities to trust instead of the
                            system's; NULL: those */
};

/* Opens the store at `url`: "memory:", "sqlite:PATH" or "postgres://...", or the server at
 * "http://HOST:PORT" or "https://HOST:PORT". `options` may be NULL.
 *
 * A SQLite file belongs to one process at a time. Whoever opens it while another process has it
 * reaches it through that process, by a socket beside the file; when that process ends, even by
 * kill -9, one of the others takes over. Callers see nothing of this but a moment's delay: a call
 * that was under way is repeated, and is not carried out twice. When one of the files is deleted or
 * replaced under the process that has it, every call fails with PAWL_UNAVAILABLE until that process
 * has closed the store: nothing is acknowledged that would be lost.
 *
 * With a server it is the same: a call whose answer was lost is sent again until `patience_ms` is
 * over, and is not carried out twice. `create`, `queue_bytes_max` and `clock` are the server's
 * business then. `actor` is believed when no token is needed or the token is an admin's; else
 * histories say "token:" and the token's name. Neither proxies nor redirects are
 * followed. A server may take its time for an answer, 35 s or `patience_ms` when that is more.
 *
 * PAWL_BAD_REQUEST  the URL is none, or the token cannot be one
 * PAWL_NOT_FOUND    there is no store, and `create` is 0
 * PAWL_UNAVAILABLE  it is out of reach, on a full disk, read-only, not one of Pawl's, or of a
 *                   version that this library cannot use; or nobody answers there as a server does,
 *                   or its certificate is not to be trusted
 * PAWL_UNAUTHORIZED, PAWL_FORBIDDEN  the server does not let us in
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_open(const char *url, const struct pawl_options *options,
                                  struct pawl **ret_pawl, struct pawl_error *error);

/* Closes it, after all calls on it have returned. NULL does nothing. What was acknowledged stays;
 * leases stay until they end. */
PAWL_API void pawl_close(struct pawl *pawl);

/* Ends every wait for work, for a job or for events on this handle at once, now and from now on:
 * for whoever wants to close it, from any thread. */
PAWL_API void pawl_interrupt(struct pawl *pawl);

/* ---- verbs -------------------------------------------------------------------------------- */

/* All verbs look alike: a JSON object goes in, a JSON object comes out. A member of a request that
 * is not known is refused by name (PAWL_UNKNOWN_FIELD). Times are RFC 3339 in UTC, durations are
 * milliseconds and end in _ms. NULL stands for the empty request, {}.
 *
 * Every verb may fail with
 *
 *   PAWL_BAD_REQUEST, PAWL_UNKNOWN_FIELD, PAWL_PAYLOAD_TOO_LARGE  the request is not well formed
 *   PAWL_UNAVAILABLE  the store is out of reach, or too much is waiting: try again
 *   PAWL_NO_MEMORY, PAWL_CORRUPT
 *
 * and besides with the codes that are named at each; from a server also with PAWL_UNAUTHORIZED,
 * PAWL_FORBIDDEN and PAWL_RATE_LIMITED. When one fails nothing was done; but after PAWL_UNAVAILABLE
 * that may not be known, if the store, the server or the process that has it went silent in the
 * moment of a commit and did not come back in time to be asked. The message says so then. A job
 * that has an idempotency_key may be submitted again without fear.
 *
 * So may any request that makes something happen and is not safe to repeat by itself (submit,
 * claim, claim_steps, cancel, signal, requeue, append, ...) when it has a "request_key" of the
 * caller's own, 1 to 128 visible ASCII characters: the same key with the same request gets the same
 * answer for 24 hours, and nothing is done twice; with another request it is
 * PAWL_IDEMPOTENCY_MISMATCH. Of a job that was redacted meanwhile the answer shows what is left; of
 * one that was deleted it is PAWL_NOT_FOUND, whose message says that the request was carried out.
 * Keys belong to the verb. What is said under a lease takes none: the token tells a repetition.
 * Over HTTP it is the Idempotency-Key. */
#define PAWL_VERB(name)                                                                            \
    PAWL_API enum pawl_code pawl_##name(struct pawl *pawl, const char *request, char **ret_answer, \
                                        struct pawl_error *error)

/* -- jobs -- */

/* A new job: {"kind", "queue"?, "payload"?, "priority"?, "run_at"? or "delay_ms"?,
 * "idempotency_key"?, "fingerprint"?: 64 hex digits, "retry"?, "lease_ttl_ms"?, "heartbeat_ms"?,
 * "timeout_ms"?, "expires_ms"?, "deadline_ms"?, "in_doubt"?, "capabilities"?, "correlation_id"?,
 * "traceparent"?, "labels"?, "agent_id"?, "goal"?, "plan"?}, or {"jobs": [...]}: all of them or
 * none. Answers the job, or
 * {"jobs": [...]}. A job whose idempotency key its queue knows is not made again: the answer is the
 * one there is, with "duplicate": true. That one must be of the same kind and mean the same by its
 * payload, or, where both have a fingerprint, have the same one: else PAWL_IDEMPOTENCY_MISMATCH.
 *
 * PAWL_UNPROCESSABLE_PLAN, PAWL_IDEMPOTENCY_MISMATCH */
PAWL_VERB(submit);

/* {"id", "wait_ms"?}: the job; with wait_ms (at most 55,000) as soon as it has ended, or then.
 * PAWL_NOT_FOUND */
PAWL_VERB(get);

/* Jobs, the newest first: {"status"?: "a,b", "kind"?, "queue"?, "agent_id"?, "correlation_id"?,
 * "label"?: "key:value", "labels"?: [more of them], "created_after"?, "created_before"?,
 * "idempotency_key"?: with "queue" (default) the one job that has it, "search"?: text,
 * "id_prefix"?, "include"?: "payload,result", "limit"? (50, at most 500), "cursor"?}. Answers
 * {"jobs": [...], "next_cursor": null or text}. A job whose row was damaged is {"id", "damaged":
 * why}, and hides no others. `search` is part of the id, kind, queue, key, correlation id, agent,
 * goal, labels or last error, in whatever case; a page of what was found may have fewer jobs than
 * asked for, even none, and still a next_cursor. `id_prefix` is the first 4 or more hexadecimal
 * digits of an id. */
PAWL_VERB(list);

/* The history of a job: {"id", "after"?: version, "type"?: "job_completed,job_failed", "limit"?
 * (100, at most 1,000), "telemetry"?, "wait_ms"?}. Answers {"events": [...], "next": version,
 * "next_cursor": null or text}; with wait_ms as soon as there is one, or then. next is the last
 * version that was looked at, also of events that `type` left out; next_cursor says the same for
 * "cursor" as long as there may be more. Types may be called by the names of the seeds
 * (job_claimed). With telemetry the heartbeats of the last day instead, where after is a time in
 * ms. PAWL_NOT_FOUND */
PAWL_VERB(events);

/* Events of all jobs in the order of their commits: {"after"?: position, "type"?: as for events,
 * "kind"?, "queue"?, "job_id"?, "limit"?, "wait_ms"?}. Answers {"events": [{..., "kind", "queue",
 * "position"}], "next": position}; an answer may have few events or none although there are more,
 * when a filter left out those that it looked at. A position is a text such as "17-3"
 * that means nothing by itself. "after": "now" answers at once, without events: next is the end.
 *
 * PAWL_FEED_RESET: after a failover or a restore events up to this position may not exist any more,
 * and others may have taken their place. The last word of the message is the position to go on
 * from; events behind it that were read before come again, and are the same when their "id" is. */
PAWL_VERB(feed);

/* {"id", "expected_version"?, "token"?, "events": [{"type", "payload"?}]}: events of the caller's
 * own making. Answers {"version"}. PAWL_NOT_FOUND, PAWL_VERSION_MISMATCH, PAWL_STALE_LEASE,
 * PAWL_INVALID_TRANSITION */
PAWL_VERB(append);

/* {"id", "mode"?: "soft" or "hard", "reason"?, "grace_ms"?}. A soft cancel turns hard after
 * grace_ms, or else as the kind (cancel_grace_ms) or the server says, or 30 s. Answers the job.
 * PAWL_NOT_FOUND, PAWL_INVALID_TRANSITION */
PAWL_VERB(cancel);

/* {"id", "correlation_key", "payload"?, "signal_id"?, "early"?}. Answers {"signal": "delivered",
 * "repeated" or "stored", "job"}. PAWL_NOT_FOUND, PAWL_WRONG_CORRELATION_KEY,
 * PAWL_INVALID_TRANSITION, PAWL_RATE_LIMITED. A signal that ends a wait with choices carries one of
 * them: PAWL_BAD_REQUEST otherwise. */
PAWL_VERB(signal);

/* {"id", "reason"?, "fresh"?}: a failed job or dead letter starts anew, a retrying one now. Answers
 * the job. PAWL_NOT_FOUND, PAWL_INVALID_TRANSITION */
PAWL_VERB(requeue);

/* {"id", "reason"?}: a job that is scheduled for later or waits for a retry runs now; one that can
 * be claimed already is left as it is. Answers the job. PAWL_NOT_FOUND, PAWL_INVALID_TRANSITION */
PAWL_VERB(run_now);

/* {"id", "reason_code", "stage"?, "message"?}: makes a dead letter of a job that no worker has.
 * Answers the job. PAWL_NOT_FOUND, PAWL_INVALID_TRANSITION */
PAWL_VERB(dead_letter);

/* Many jobs: {"action": "requeue" or "cancel", "filter": {as for list}, "mode"?, "reason"?,
 * "fresh"?, "rate_per_s"?, "dry_run"?, "limit"? (500), "cursor"?}. One call does at most `limit`
 * jobs; go on with "next_cursor" until it is null. Answers {"matched", "done", "refused",
 * "next_cursor"}: refused are those that are in no state for it. With dry_run nothing is done, and
 * matched and refused say what would be. */
PAWL_VERB(bulk);

/* {"id"}: checks the whole history. Answers {"ok", "version", "status", "chain_head", "partial",
 * "violations": [{"rule", "version", "detail"}]}. PAWL_NOT_FOUND */
PAWL_VERB(verify);

/* {"id"}: why the job is where it is, and what would move it. Answers {"status", "summary",
 * "reasons": [text], "moves": [text], "actions": [name]}: moves are commands of the command line;
 * actions are what the job takes in its state and the caller may do, of answer, signal, run,
 * requeue, resume (its queue), plan, cancel, dead_letter, drop, redact. PAWL_NOT_FOUND */
PAWL_VERB(explain);

/* {"id"}: erases the payloads of a job that has ended; its hashes stay. Answers the job.
 * PAWL_NOT_FOUND, PAWL_INVALID_TRANSITION */
PAWL_VERB(redact);

/* -- plans and people -- */

/* {"id", "steps": [...], "reason"?}: gives the job a plan, or a new version of it. Answers the job.
 * PAWL_NOT_FOUND, PAWL_UNPROCESSABLE_PLAN, PAWL_INVALID_TRANSITION; PAWL_FORBIDDEN: a step asks a
 * person, or is to ask one, and the access token has not the scope answer */
PAWL_VERB(plan);

/* {"id", "limit"?, "cursor"?}. Answers {"status", "plan_version", "critical_path": {"duration_ms",
 * "steps": [id]}, "steps": [{"id", "state", ..., "started_at", "ended_at", "duration_ms",
 * "answered_at", "history":
 * [...]}], "next_cursor"}. The duration of a step goes from its first lease to its end, or to now;
 * the critical path is the chain of dependencies that took longest, or has so far. PAWL_NOT_FOUND
 */
PAWL_VERB(steps);

/* {"id", "from"?, "to"?}: what changed from one version of the plan to another; else to the newest
 * from the one before it. Before version 1 was version 0, without steps. Answers {"from", "to",
 * "versions": [{"version", "at", "actor", "reason", "steps"}], "changes": [{"step", "change":
 * "added", "removed" or "changed", "from", "to"}], "same", "kept": [id]}. From and to of a step
 * that changed have what differs, others are the whole step, or null. Same counts the steps that
 * are as they were; kept are those whose results the version `to` took over. PAWL_NOT_FOUND */
PAWL_VERB(plan_diff);

/* {"id", "step", "decision": "accept", "retry", "switch_resource", "replan" or "needs_user",
 * "reason"?, "token"?, "result"?, "question"?}. Answers the job. PAWL_NOT_FOUND, PAWL_STALE_LEASE,
 * PAWL_INVALID_TRANSITION */
PAWL_VERB(verdict);

/* A person's answer to a step that asks: {"id", "step", "answer", "by"?, "comment"?, "result"?,
 * "attempt"?}. "answer" is any JSON but null; where the question has choices it is one of them.
 * "by" is kept beside the actor, and is the actor when it is left out. About an effect in doubt
 * "answer" (or "decision") is "retry", "done" or "fail"; with "done" comes "result", which may be
 * null. With "attempt" only the question of that attempt is answered. Answers the job.
 * PAWL_BAD_REQUEST, PAWL_NOT_FOUND, PAWL_INVALID_TRANSITION: it asks nothing,
 * PAWL_VERSION_MISMATCH: of the attempt */
PAWL_VERB(answer);

/* The same to a job that asks: {"id", "answer", "by"?, "comment"?, "result"?, "correlation_key"?,
 * "attempt"?}. The next claim has in "resume" the answer as "payload", with "by" and "comment".
 * Also PAWL_WRONG_CORRELATION_KEY: it asks under another key */
PAWL_VERB(answer_job);

/* Open questions, the newest first: {"assignee"?, "limit"?, "cursor"?}. Answers {"questions":
 * [{"id", "step", "kind", "queue", "prompt", "choices", "assignee", "correlation_key", "effect",
 * "since", "until", "default_answer", "goal", "agent_id", "labels", "correlation_id", "payload"
 * (null beyond 16 KiB), "payload_left_out"}], "next_cursor"}. At `until` a step gets its default
 * answer, or "timeout" where it has none; a job wakes with the outcome timeout, and its default
 * answer as the payload. A page may have fewer than `limit`, and more may follow. */
PAWL_VERB(inbox);

/* -- workers -- */

/* {"worker_id", "queues"?: [], "kinds"?: [], "capabilities"?: [], "max"? (1, at most 1,000),
 * "lease_ttl_ms"?, "heartbeat_ms"?, "wait_ms"? (0, at most 55,000), "start"? (true), "history"?,
 * "code_version"?: of pinned jobs it gets those of this version only}. Answers {"claims":
 * [{"job", "lease": {"token", "attempt", "expires_at", "heartbeat_ms", "timeout_ms"},
 * "traceparent"?, "resume"?, "effects", "waits", "effects_next"?, "events"?, "events_next"?}]}, as
 * soon as there is work, or empty after wait_ms; it ends with the job that brings its payloads to
 * 16 MiB, and others stay where they are. After the timeout_ms of a lease the attempt is over
 * however well it beats, so its holder must end the work by then; null: it may take as long as it
 * likes.
 *
 * What was done since the last fresh start comes along, so that a replay need not ask: "effects":
 * {KEY: {"status": "recorded", "open" or "aborted", "input_hash", "result" or "error", "at"}} and
 * "waits": {KEY: {"outcome", "payload", "at"}}, those that ended, but not the questions about
 * effects in doubt nor timers without a key. input_hash is the fingerprint, or without one the
 * first 32 hex digits of the SHA-256 of the input. Behind 4 MiB of them, all claims of an answer
 * counted, "effects_next" says that pawl_effects has more. */
PAWL_VERB(claim);

/* The same for steps, with "resource_id" or "judge": true. Answers {"claims": [{"step", "job_id",
 * "correlation_id"?, "inputs", "inputs_left"?, "answer"?, "lease", "traceparent"?, "effects",
 * "waits" (answers to its questions: by the id of the step), "effects_next"?}]}.
 * PAWL_NOT_FOUND: there is no such resource */
PAWL_VERB(claim_steps);

/* What the holder of a lease says, each with "token". A token that is not that of a live lease gets
 * PAWL_STALE_LEASE, and nothing is changed; one that comes again after its answer was lost gets
 * that answer again. Unless said otherwise they answer {"id", "status", "version", "attempt"}, with
 * "repeated": true when it had been said before.
 *
 *   start          {"token"}: the work begins. Answers also expires_at
 *   heartbeat      {"token", "progress"?, "cursor"?}. Answers {"expires_at", "cancel_requested"}
 *   complete       {"token", "result"?}. PAWL_INVALID_TRANSITION: an effect is open
 *   fail           {"token", "error": {"class"?, "message", "type"?, "code"?, "stage"?, "details"?,
 *                  "stack"?},
 *                  "retry_after_ms"?}
 *   wait           {"token", "type", "correlation_key", "timeout_ms"?, "park"?, "prompt"?,
 *                  "choices"?, "assignee"?}, for a timer "delay_ms" or "until". Status queued: it
 *                  did not have to wait
 *   release        {"token"}: gives the work back; costs no attempt of the retries
 *   cancelled      {"token"}: the work was ended because cancel_requested said so
 *   abandon        {"token", "reason_code", "stage"?, "message"?}: makes a dead letter of it
 *   effect_begin   {"token", "key", "input"?, "fingerprint"?, "in_doubt"?: "fail", "retry" or
 *                  "ask"}. Answers {"status": "execute", "recorded" or "in_doubt", "result"? or
 *                  "error"?, "idempotency_key"}. The fingerprint (64 hex digits) is compared
 *                  instead of the input. What an earlier attempt left open is in doubt: in_doubt
 *                  of this begin, else of the first one, else of the job says what happens then.
 *                  PAWL_REPLAY_MISMATCH: it was begun with another input
 *   effect_commit  {"token", "key", "result"? or "error"?, "then"?: {"begin": {"key", "input"?,
 *                  "fingerprint"?, "in_doubt"?}} or {"wait": {...}} or {"complete": {"result"?}}}.
 *                  An error, {"message", ...} as for fail, is a failure that is recorded and given
 *                  again. What follows is done in the same commit, or neither is; a step does not
 *                  wait. "next": {"key", ...} is the older word for then.begin. Answers
 *                  {"status": "recorded"}, or what the verb that follows would.
 *                  PAWL_REPLAY_MISMATCH: it was committed with another result
 *   effect_abort   {"token", "key", "error": {"message", ...}}: it certainly did not happen. It may
 *                  be begun again, by this attempt or a later one, and is in no doubt. Answers
 *                  {"status": "aborted"}. PAWL_INVALID_TRANSITION: it was committed, or an earlier
 *                  attempt began it
 */
PAWL_VERB(start);
PAWL_VERB(heartbeat);
PAWL_VERB(complete);
PAWL_VERB(fail);
PAWL_VERB(wait);
PAWL_VERB(release);
PAWL_VERB(cancelled);
PAWL_VERB(abandon);
PAWL_VERB(effect_begin);
PAWL_VERB(effect_commit);
PAWL_VERB(effect_abort);

/* The effects and waits that a claim carries, behind version `after`: {"token", "after"? (0)}, for
 * when they did not all fit into the claim, which then had `effects_next`. Answers {"effects",
 * "waits", "effects_next"?}. PAWL_STALE_LEASE: the token is not that of a live lease. */
PAWL_VERB(effects);

/* Many at once, in one commit, each alone: {"ops": [{"op": "submit", "claim", "start", "heartbeat",
 * "complete", ..., and what that verb takes}], "atomic"? (false)}, at most 1,000. Answers
 * {"results":
 * [{"status", "body"}]}, with HTTP's status and either the verb's answer or {"code", "title",
 * "detail"}.
 *
 * With "atomic": true all of them are done or none. It takes operations on jobs, steps and leases,
 * and claims (one that finds nothing is not refused); no settings, resources, tokens or redact.
 * PAWL_BATCH_REFUSED: an operation was refused, and nothing was done; the message begins with
 * "ops[N]: ", where N counts from 0 */
PAWL_VERB(batch);

/* -- operators -- */

/* Dead letters, the newest first: {"kind"?, "queue"?, "reason_code"?, "group"?, "limit"?,
 * "cursor"?}. Answers {"jobs", "next_cursor"}. `group` is one of dead_letter_groups; with it a page
 * may have fewer jobs than `limit`, or none, and still a next_cursor. PAWL_BAD_REQUEST: the group
 * is not 16 hex digits. */
PAWL_VERB(dead_letters);

/* How many there are: {"kind"?, "queue"?, "limit"?, "cursor"?}. Answers {"groups":
 * [{"group", "kind", "reason_code", "type", "message", "count", "oldest_at", "newest_at",
 * "last_error"}], "next_cursor", "counted", "more"}, the largest group first; `group` names it to
 * dead_letters, redrive and drop; `type` is that of their errors, `message` what those without a
 * type have in common, with "*" for numbers, ids and quoted text; `more`: not all could be counted,
 * and the oldest are left out. */
PAWL_VERB(dead_letter_groups);

/* {"id"?, "kind"?, "queue"?, "reason_code"?, "group"?, "reason"?, "fresh"?, "dry_run"?,
 * "rate_per_s"?, "limit"?, "cursor"?}: dead letters start anew (redrive), or are deleted (drop);
 * with `group` only those that dead_letter_groups counts there. Answers as bulk. */
PAWL_VERB(redrive);
PAWL_VERB(drop);

/* {"limit"?, "cursor"?}. Answers {"queues": [{"queue", "paused", "depth", "oldest_at", "by_status":
 * {...}}], "next_cursor"}. Without a limit this list, like those of workers, resources, tokens,
 * steps and groups, is all there is. */
PAWL_VERB(queues);

/* {"queue"}. No claim takes work of a paused queue. Answers {"queue", "paused"}. */
PAWL_VERB(pause);
PAWL_VERB(resume);

/* {"limit"? (50, at most 500), "cursor"?}. Answers {"kinds": [settings], "next_cursor"}: those that
 * have settings, by name. */
PAWL_VERB(kinds);

/* {"kind", "lease_ttl_ms"?, "heartbeat_ms"?, "timeout_ms"?, "retry"?, "retention_ms"?,
 * "cancel_grace_ms"?, "pin"? (false), "expected_version"?}: defaults for jobs of that kind from now
 * on. With "pin" a job is bound to the "code_version" of its first claim that names one: claims of
 * other versions, and such as name none, do not get it, until it is requeued fresh. kind_set
 * puts them in place of those there were; kind_patch changes those that are named, and null removes
 * one (RFC 7396, retry included). All answer the settings, with a version that rises with every
 * change. PAWL_VERSION_MISMATCH: the kind is not at expected_version */
PAWL_VERB(kind_set);
PAWL_VERB(kind_patch);
PAWL_VERB(kind_get);

/* {"kind"}. Answers {"kind", "versions": [{"code_version", "jobs"}], "more"}: how many live jobs of
 * the kind are pinned to which code version (null: to none). More: not all were counted. */
PAWL_VERB(kind_versions);

/* {"limit"?, "cursor"?}. Answers {"workers": [{"worker_id", "leases", "last_beat_at",
 * "expires_at", "resource_id", "registered"}], "next_cursor"}: those who hold a lease, and those
 * who have registered, with what they have said of themselves. */
PAWL_VERB(workers);

/* worker_put {"id", "kinds"? (all), "queues"? (all), "slots"? (1), "code_version"?, "labels"?,
 * "ttl_ms"? (60,000)}: says which work a worker handles, so that it is listed while it is idle, and
 * explain knows whether anybody handles a job. "id" is the worker_id of its claims, which renew the
 * registration: it ends "ttl_ms" after the last of them. It takes the place of the one there was.
 * worker_delete {"id"} ends it. Both answer {"worker_id", "kinds", "queues", "slots",
 * "code_version", "labels", "ttl_ms", "registered_at", "registered_until"}. Claims need no
 * registration; a pawl_worker registers by itself. PAWL_NOT_FOUND; PAWL_FORBIDDEN: there are 10,000
 * already, or, over HTTP, the id is that of a worker in queues which the token is not for */
PAWL_VERB(worker_put);
PAWL_VERB(worker_delete);

/* {}. Answers {"resources": [...]}; the others {"id", ...} and the resource. resource_put
 * {"id", "capabilities"?, "labels"?, "slots"? (1), "ttl_ms"? (30,000), "draining"?, "rest"?:
 * {"failures" (5), "within_ms" (60,000), "for_ms" (30,000)}, "queues"?, "shared"?} registers or
 * renews. It belongs to "queues" (default: those of the access token; empty: all), and holds steps
 * of these only; to a token that is not for all of them it does not exist. With "shared": true
 * (for an admin of all queues) every token may use it. Left out by a token for all queues, both
 * stay as they are. PAWL_FORBIDDEN: the id is taken by another's.
 * So many steps that fail for its sake within such a time (of the class resource, by the verdict
 * switch_resource, or with a lease that was lost), and it is given nothing until "rested_until";
 * one more soon after that, and it rests for twice as long. "failures": 0 never rests it.
 * PAWL_NOT_FOUND */
PAWL_VERB(resources);
PAWL_VERB(resource_put);
PAWL_VERB(resource_get);
PAWL_VERB(resource_delete);

/* {}. Answers {"jobs": {status: count}, "leases", "queue_depth", "oldest_queued_at", ...,
 * "recent": {"completed_per_min", "failed_per_min", "wait_p50_ms"?, "wait_p95_ms"?, "run_p50_ms"?,
 * "run_p95_ms"?}, "kinds": [{"kind", "count", "wait_ms"?, "run_ms"?, "total_ms": {"p50", "p95"}}]}.
 * Kinds are those of the newest 1,000 jobs that have completed: how long each waited to be taken
 * (the last time), was worked on (from then on), and took from submission to completion. Half of
 * them took no longer than p50, 95 of 100 no longer than p95. Jobs with a plan have a total only.
 * `recent` is of the last minute: how many completed, how many failed or became dead letters, and
 * how long those took that completed; when all of the newest 1,000 (of those that failed 500) ended
 * in it, the rate is theirs. */
PAWL_VERB(stats);

/* Access tokens, for those who come to a server over HTTP. token_create {"name", "scopes": some of
 * "read", "submit", "work", "admin", "queues"? (all), "ttl_ms"? (for ever)} answers {"id", "name",
 * "scopes", "queues", "created_at", "expires_at", "revoked_at", "token"}: the token itself is shown
 * this once and kept nowhere, so that a repetition under an Idempotency-Key has null there.
 * token_list {"limit"?, "cursor"?} answers {"tokens": [...], "next_cursor"}, also those that have
 * ended. token_revoke {"id"} ends one and answers it. PAWL_NOT_FOUND */
PAWL_VERB(token_create);
PAWL_VERB(token_list);
PAWL_VERB(token_revoke);

/* {"id"}. Answers the job with all of its history, to be given to import; a job that was redacted
 * as what is left of it. PAWL_NOT_FOUND, PAWL_CORRUPT: the history is not right, as verify will
 * say; PAWL_PAYLOAD_TOO_LARGE: it is longer than 64 MiB */
PAWL_VERB(export);

/* {"jobs": [what export answered]}, at most 100 and 64 MiB: each is checked as verify does before
 * it is taken, all of them or none. Jobs that are there already with the same history are left
 * alone. Answers {"imported", "present"}. PAWL_CORRUPT: a history is not right;
 * PAWL_VERSION_MISMATCH: a job is there with another history; PAWL_IDEMPOTENCY_MISMATCH: its
 * idempotency key belongs to another job */
PAWL_VERB(import);

/* {"path"}: a copy of a SQLite store as of this moment, while it is in use. Answers {"path",
 * "bytes"}. PAWL_BAD_REQUEST: the store is another, or the file is there already */
PAWL_VERB(backup);

/* {}. Answers {"ok", "checks": [{"name", "ok", "detail"}]}. Work that stands in no lane, where no
 * claim finds it, is put right, and "lanes" says how much that was. */
PAWL_VERB(doctor);

/* For tests, with a server that has a manual clock (pawl_server_options); PAWL_NOT_FOUND elsewhere.
 * clock {} answers {"now", "next_due"}: the time, and when something happens next, or null.
 * clock_advance {"ms"} or {"to"} or {"to_next": true} moves the clock, stops wherever something is
 * due, and answers {"now", "fired", "next_due"} when all of that is done. PAWL_BAD_REQUEST: none or
 * several of these, a time in the past or after the year 9999 */
PAWL_VERB(clock);
PAWL_VERB(clock_advance);

/* ---- JSON --------------------------------------------------------------------------------- */

/* Enough JSON to make requests and to read answers; any other library will do as well. */

/* A value in a text, which it points into. at is NULL when there is none. */
struct pawl_json {
    const char *at;
    size_t len;
};

/* The value that `text` is; none when it is not strict JSON. */
PAWL_API struct pawl_json pawl_json_read(const char *text);

/* The same for a text that somebody has to mend.
 *
 * PAWL_BAD_REQUEST  it is not strict JSON: the message says what is wrong, and at which byte
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_json_check(const char *text, struct pawl_error *error);

/* What is found on a path of names and places: pawl_json_get(answer, "claims.0.lease.token"). None
 * when it is not there or null. */
PAWL_API struct pawl_json pawl_json_get(struct pawl_json value, const char *path);

/* Walks an object or array. *item must be none at first; 0 when there are no more. `key` gets the
 * raw name, quotes and all, and is none in an array; it may be NULL. */
PAWL_API int pawl_json_next(struct pawl_json list, struct pawl_json *item, struct pawl_json *key);

/* The first letter of: object, array, string, number, true, false; '0' for null; 0: none. */
PAWL_API char pawl_json_type(struct pawl_json value);

/* A string decoded, anything else as it is written, none as "". NULL: no memory. For pawl_free. */
PAWL_API char *pawl_json_text(struct pawl_json value);

/* A whole number or `otherwise`; whether it is true; whether it is that string. */
PAWL_API long long pawl_json_int(struct pawl_json value, long long otherwise);
PAWL_API int pawl_json_true(struct pawl_json value);
PAWL_API int pawl_json_is(struct pawl_json value, const char *text);

/* An object that is being made. Values that are NULL are left out, and what goes wrong on the way
 * (no memory, a text that is not UTF-8, a raw value that is not JSON) shows at the end: then
 * pawl_object_str returns NULL. One thread at a time. */
struct pawl_object;

PAWL_API struct pawl_object *pawl_object_new(void); /* NULL: no memory, which the others take too */
PAWL_API void pawl_object_text(struct pawl_object *object, const char *key, const char *value);
PAWL_API void pawl_object_int(struct pawl_object *object, const char *key, long long value);
PAWL_API void pawl_object_flag(struct pawl_object *object, const char *key, int value);
PAWL_API void pawl_object_json(struct pawl_object *object, const char *key, const char *value);
PAWL_API void pawl_object_list(struct pawl_object *object, const char *key,
                               const char *const *values, size_t count);

/* The object as text, valid until the next addition. */
PAWL_API const char *pawl_object_str(struct pawl_object *object);
PAWL_API void pawl_object_free(struct pawl_object *object);

/* ---- a worker ----------------------------------------------------------------------------- */

/* What a handler is given: one claim. Everything lives until the handler returns. */
struct pawl_task {
    struct pawl *pawl;
    const char *job_id;
    const char *kind;
    const char *payload;     /* JSON; "null" when there is none */
    const char *token;       /* for effects, waits, progress */
    long long attempt;       /* the fencing number */
    const char *claim;       /* all of it, as pawl_claim answers */
    const char *traceparent; /* the span of this attempt, as W3C Trace Context has it, for spans of
                                the handler's own to be children of; NULL: there is no trace */
    const char *step;        /* the id of a step; NULL: the task is a job. `claim` is then as
                                pawl_claim_steps answers, with the inputs */
};

/* What came of it. A handler starts with `how` PAWL_COMPLETE and nothing else. */
enum pawl_how {
    PAWL_COMPLETE = 1,  /* with `result` */
    PAWL_FAIL = 2,      /* with `error_class`, `message`, `details`, `retry_after_ms`, and more */
    PAWL_RELEASE = 3,   /* give it back: somebody else may have it, or this worker a moment later */
    PAWL_CANCELLED = 4, /* it was ended because of pawl_task_cancelled */
    PAWL_ENDED = 5,     /* the handler has ended the lease itself: by a wait, for example */
};

struct pawl_outcome {
    enum pawl_how how;
    char *result;             /* JSON from pawl_copy, for the library to free, or NULL */
    const char *error_class;  /* NULL: transient. Not copied: a text that stays */
    char *details;            /* as `result`: more about the error, or NULL */
    long long retry_after_ms; /* instead of the backoff of the job; 0: no */
    char message[4100];       /* what is not UTF-8 in it is replaced */

    /* PAWL_FAIL: more about the error; NULL or empty: nothing. What is no name (over 128 bytes, or
     * with control characters) is left out. */
    char error_type[129]; /* what kind of error it is, such as the class of an exception: dead
                             letters are grouped by it */
    char error_code[129]; /* an error code or a status, as text */
    const char *stage;    /* "fetch", "input", "exec", "output" or "commit": where it failed. Not
                             copied: a text that stays */
    char *stack;          /* as `result`, but any text of at most 64 KiB: where in the code */
};

/* A copy of a text that pawl_free can free; NULL: no memory, or no text. */
PAWL_API char *pawl_copy(const char *text);

typedef void (*pawl_handler)(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome);

struct pawl_worker_options {
    const char *worker_id;    /* NULL: host name, process and a random part */
    const char *const *kinds; /* none: all */
    size_t kind_count;
    const char *const *queues; /* none: all */
    size_t queue_count;
    const char *const *capabilities;
    size_t capability_count;
    int concurrency;        /* handlers at once; 0: 1, at most 1,000 */
    long long lease_ttl_ms; /* 0: as the job, its kind or the default says */
    int once;               /* end after one job */
    int drain;              /* end when there is no work left that can be taken now */

    /* Does the work: called on threads of the worker, which take no signals. */
    pawl_handler handler;

    /* Told what came of a task, after its handler: `error` is NULL when the outcome is stored (for
     * PAWL_ENDED: always), else why it never will be. PAWL_STALE_LEASE: somebody else has the job.
     * On the handler's thread. NULL: nobody wants to know. */
    void (*reported)(void *arg, const struct pawl_task *task, const struct pawl_outcome *outcome,
                     const struct pawl_error *error);

    /* Told once when the store is out of reach, with the reason, and once with NULL when it is
     * back. On any thread of the worker. NULL: nobody wants to know. */
    void (*trouble)(void *arg, const struct pawl_error *error);
    void *arg;

    /* Takes steps of plans in place of jobs: those that fit this resource, which the worker
     * registers with its capabilities, these labels ("zone:eu") and a slot for each handler,
     * renews, and deletes when it ends. One worker a resource. It belongs to the queues of the
     * worker's access token. One that is shared, and that the token may not change, is used as it
     * is. NULL: jobs. */
    const char *resource_id;
    const char *const *labels;
    size_t label_count;

    /* Takes finished steps to judge them. A handler says what it thinks with pawl_verdict, by the
     * token of the task, and ends with PAWL_ENDED; with anything else the step is to be judged
     * again. */
    int judge;

    /* Shares the resource with workers of every queue, which takes an access token with the scope
     * admin for all queues. */
    int resource_shared;

    /* Which version of the program this is: jobs that are pinned to another are not claimed. NULL:
     * not told, and no pinned job is. */
    const char *code_version;
};

/* A worker: claims work, calls the handler on threads of its own, keeps leases alive with
 * heartbeats, and reports what came of it. Runs until `once` or `drain` is fulfilled, or until
 * pawl_worker_stop.
 *
 * While the store is out of reach it tries again for ever, with pauses that grow to some seconds:
 * claims as long as it is not stopped, outcomes as long as their lease can be alive. An outcome
 * that the store refuses (a result that is no JSON, an effect that is still open) makes the job
 * fail with the reason. Any other error ends the worker, as pawl_worker_join then says; handlers
 * that run meanwhile are not disturbed.
 *
 * The handle must stay open until pawl_worker_join has returned.
 *
 * PAWL_BAD_REQUEST  there is no handler, or a number is out of range
 * PAWL_UNAVAILABLE  a thread could not be started
 * PAWL_NO_MEMORY    there is not enough memory */
struct pawl_worker;

PAWL_API enum pawl_code pawl_worker_start(struct pawl *pawl,
                                          const struct pawl_worker_options *options,
                                          struct pawl_worker **ret_worker,
                                          struct pawl_error *error);

/* Takes no new work from now on; handlers that run go on. May be called from a signal handler, and
 * more than once, but not after pawl_worker_join. NULL does nothing. */
PAWL_API void pawl_worker_stop(struct pawl_worker *worker);

/* Waits until the worker has ended, but not longer than wait_ms; -1: for ever. 1 when it has: then
 * pawl_worker_join does not wait any more. So a program can make sure that nobody calls
 * pawl_worker_stop when it calls pawl_worker_join. */
PAWL_API int pawl_worker_wait(struct pawl_worker *worker, long long wait_ms);

/* Waits until the worker has ended: all handlers have returned and their outcomes are stored or
 * given up. Frees it, whatever it returns, and says how many outcomes were stored, those of
 * PAWL_RELEASE not counted. *ret_done is always written and may be NULL.
 *
 * The code is that of the error which ended the worker. */
PAWL_API enum pawl_code pawl_worker_join(struct pawl_worker *worker, long long *ret_done,
                                         struct pawl_error *error);

/* Whether a task is to end. */
enum pawl_end {
    PAWL_GO_ON = 0,
    PAWL_CANCEL_ASKED = 1, /* end soon, with PAWL_CANCELLED */
    PAWL_LEASE_LOST = 2,   /* the lease is lost or timed out: nothing it reports will be taken */
};

/* Asked of a task by its handler, from any thread until it returns. Costs nothing: ask often. */
PAWL_API enum pawl_end pawl_task_cancelled(const struct pawl_task *task);

/* Tells how far it is: JSON, and a text to go on from in a later attempt (NULL: as it was). Sent
 * with the next heartbeat, within a second or so, or with the outcome.
 *
 * PAWL_BAD_REQUEST  it is not JSON, or not UTF-8
 * PAWL_STALE_LEASE  the lease is lost
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_task_progress(const struct pawl_task *task, const char *progress,
                                           const char *cursor, struct pawl_error *error);

/* ---- a server ----------------------------------------------------------------------------- */

/* A server in this process: every verb over HTTP, as docs/reference/http.md says. */
struct pawl_server;

/* What is worth a line in the log of a server, each with all before it. */
enum pawl_log_level {
    PAWL_LOG_ERROR = 1, /* the store is away */
    PAWL_LOG_WARN = 2,  /* work that failed for good, leases that ran out, requests turned away */
    PAWL_LOG_INFO = 3,  /* retries, cancellations, what operators do, start and end */
    PAWL_LOG_DEBUG = 4, /* every event, every request */
};

struct pawl_server_options {
    const char *listen;             /* "ADDRESS:PORT", "[ADDRESS]:PORT"; NULL: "127.0.0.1:7295" */
    int create;                     /* make the store when it is not there */
    int patience_ms;                /* how long to try when the store is out of reach; 0: 30 s */
    const char *token;              /* opens everything; NULL: there is none */
    const char *certificate;        /* PEM file: TLS, together with */
    const char *key;                /* its key; NULL: plain HTTP */
    int threads;                    /* that talk with clients; 0: as many as processors, up to 4 */
    int connections_max;            /* 0: 8,192, or what the system allows */
    int connections_per_client_max; /* of one address; 0: half of them */
    long long lease_ttl_ms;         /* of leases for which nobody says how long; 0: 30 s */
    long long cancel_grace_ms;      /* until a soft cancel turns hard, where neither the caller nor
                                       the kind say; 0: 30 s */
    int require_tokens;             /* also on an address of this machine alone */
    int rate_per_s;                 /* requests of each token; 0: as many as they like */
    const char *backup_dir;         /* below which pawl_backup of others writes; NULL: the store's
                                       own directory */
    int manual_clock;               /* for tests, on "memory:": time stands still, from
                                       2000-01-01T00:00:00Z on, until pawl_clock_advance moves it */
    const char *kinds;              /* JSON: an array of what pawl_kind_set takes, which is set
                                       before anybody is served; NULL: none */

    /* Told a fact worth a line in a log: a JSON object {"at", "level", "event", ...} with when it
     * happened and the ids of what it is about, and never a payload or a secret. On one thread of
     * its own: who takes long loses lines, which are counted, and holds nobody up; not even
     * pawl_server_stop, which waits two seconds for a call that does not return, and makes no
     * other. NULL: nobody wants to know. */
    void (*log)(void *arg, const char *line);
    void *log_arg;
    enum pawl_log_level log_level; /* what is worth a line; 0: PAWL_LOG_INFO */

    /* Where spans of jobs, attempts, steps, effects and waits are sent: OTLP over HTTP. */
    const char *otlp_endpoint;        /* "http://HOST:4318", where /v1/traces is added; NULL:
                                         nowhere */
    const char *otlp_traces_endpoint; /* "http://HOST:4318/v1/traces", in place of it */
    const char *otlp_headers;         /* "name=value,name=value", percent-encoded; NULL: none */
    const char *otlp_ca_file;         /* for https: PEM, in place of the system's; NULL: those */
    const char *service_name;         /* as spans say it; NULL: "pawl" */
};

/* Opens the store at `url` ("memory:", "sqlite:PATH" or "postgres://...") and serves it, on threads
 * of its own, until pawl_server_stop. `options` may be NULL. Other processes reach a SQLite file
 * meanwhile as ever.
 *
 * PAWL_BAD_REQUEST  the URL or an option is wrong, or everybody could reach a server that asks for
 *                   no token
 * PAWL_NOT_FOUND    there is no store, and `create` is 0
 * PAWL_UNAVAILABLE  the store is out of reach, or in use by another process; or the address is
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_server_start(const char *url,
                                          const struct pawl_server_options *options,
                                          struct pawl_server **ret_server,
                                          struct pawl_error *error);

/* Takes over what can change while it serves: `require_tokens`, `rate_per_s`, `kinds`, and
 * `certificate` and `key`, if it serves TLS: the files are read again, and hold for connections to
 * come, while those that there are go on with theirs. All other options are left as they are.
 *
 * When it fails nothing has changed; but with PAWL_UNAVAILABLE, when the store went away meanwhile,
 * some of the kinds may have.
 *
 * PAWL_BAD_REQUEST, PAWL_UNKNOWN_FIELD  an option is wrong, a file is not what it should be, or
 *                                       tokens are required and there is none
 * PAWL_UNAVAILABLE, PAWL_NO_MEMORY */
PAWL_API enum pawl_code pawl_server_reload(struct pawl_server *server,
                                           const struct pawl_server_options *options,
                                           struct pawl_error *error);

/* The port that it listens on. */
PAWL_API int pawl_server_port(const struct pawl_server *server);

/* Says that it will be stopped soon: from now on /readyz answers 503, so that whoever stands before
 * several servers sends no more to this one. Everything else is served as before. */
PAWL_API void pawl_server_retire(struct pawl_server *server);

/* Ends it and frees it: no more claims are taken, new connections are answered with 503, waits and
 * streams end, and what was begun is answered, within drain_ms. NULL does nothing. */
PAWL_API void pawl_server_stop(struct pawl_server *server, int drain_ms);

/* ---- the store as a whole, and the machines ------------------------------------------------ */

/* What pawl_migrate has done. Equal versions: there was nothing to do. */
struct pawl_migration {
    long long from; /* version of the schema as it was */
    long long to;   /* and as it is now */
};

/* Brings the schema of the store at `url` up to date: "sqlite:PATH" (which does that by itself
 * whenever it is opened, after a copy to PATH.v1.bak or the like) or "postgres://...". Several may
 * do this at once; servers that are running go on meanwhile if the new schema lets them.
 *
 * PAWL_BAD_REQUEST  the URL is none, or that of a store without a schema
 * PAWL_NOT_FOUND    there is no store
 * PAWL_UNAVAILABLE  it is out of reach or in use, or its schema is newer than this library
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_migrate(const char *url, struct pawl_migration *ret_migration,
                                     struct pawl_error *error);

/* Checks a plan, {"steps": [...]}, without a store, and finds everything that is wrong with it, up
 * to 1,000 things. The answer, for pawl_free, is {"ok", "steps": how many, "problems": [{"step",
 * "index", "message"}], "more"}: step and index are null where it is about the plan as a whole. A
 * plan that is wrong is no failure of this function.
 *
 * PAWL_BAD_REQUEST  it is not JSON
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_plan_check(const char *plan, char **ret_answer,
                                        struct pawl_error *error);

/* What events say of a job: a JSON array of them, as pawl_events or pawl_export has it, or that
 * whole answer. Of each "type", "at" and "payload" count; other names that mean the same
 * (job_claimed, job_started, job_succeeded) are understood, and types that move no job do not
 * matter. The last state event wins, legal or not: whether it is, pawl_verify says.
 *
 * pawl_derive_status gives the status ("none" when no event moves the job), for pawl_free;
 * pawl_is_blocked whether the job waits, so that nothing may take it: 1 or 0.
 *
 * PAWL_BAD_REQUEST  it is not JSON, no array, or one of them is no event
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_derive_status(const char *events, char **ret_status,
                                           struct pawl_error *error);
PAWL_API enum pawl_code pawl_is_blocked(const char *events, int *ret_blocked,
                                        struct pawl_error *error);

/* The two machines: how a job moves, and how a step of a job's plan moves. */
enum pawl_machine_kind {
    PAWL_MACHINE_JOB = 1,
    PAWL_MACHINE_STEP = 2,
};

enum pawl_machine_format {
    PAWL_FORMAT_TABLE = 1,   /* aligned columns, for people; may change from version to version */
    PAWL_FORMAT_TSV = 2,     /* one legal move a line, without a heading, for programs */
    PAWL_FORMAT_MERMAID = 3, /* a stateDiagram-v2 */
};

/* Writes a machine as text: every state and every legal move, as this library obeys them.
 *
 * In TSV a line of the job machine is from, event and to, where the state before the first event is
 * `none`; an event that can lead to two states has two lines. A line of the step machine is from
 * and to: each state has an event of its own, `step_` and the state's name.
 *
 * PAWL_BAD_REQUEST  `which` or `format` is not of its list
 * PAWL_NO_MEMORY    there is not enough memory */
PAWL_API enum pawl_code pawl_machine(enum pawl_machine_kind which, enum pawl_machine_format format,
                                     char **ret_text);

#ifdef __cplusplus
}
#endif

#endif
