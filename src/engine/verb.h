/* Verbs: what callers ask for, whichever way they come: through pawl.h, over the socket beside a
 * SQLite file, or over HTTP.
 *
 * A verb either makes operations for the engine and takes its result from what came of them, or
 * does all of its work in the caller's thread. The result is a struct; its JSON is written once, by
 * verb_write, at the edge that sends it. verbs.def lists the verbs; each is defined in the verb_*.c
 * that owns it. */
#ifndef PAWL_ENGINE_VERB_H
#define PAWL_ENGINE_VERB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/record.h"
#include "base/str.h"
#include "engine/engine.h"
#include "engine/shown_event.h"

enum {
    REQUEST_BYTES_MAX = 8 * 1024 * 1024,
    EXPORT_BYTES_MAX = 64 * 1024 * 1024,        /* a job with all of its history, */
    IMPORT_BYTES_MAX = EXPORT_BYTES_MAX + 1024, /* and a request with that in it */
    WAIT_MS_MAX = 55 * 1000, /* the longest that a call waits for something to happen */
};

enum verb_name {
#define VERB(name, ...) VERB_##name,
#include "engine/verbs.def"
#undef VERB
    VERB_COUNT,
};

/* What came of a call that went well. What it points to is valid until verb_call_release. */
struct verb_result {
    int status;      /* HTTP's: 200, 201, 202 */
    bool has_come;   /* WATCH and CLAIM: there is what the caller may wait for */
    bool passed;     /* events and feed: some were passed over, since they are not for the caller */
    int64_t version; /* get: the version of the job */
    struct event_place next;          /* events and feed: where to go on */
    const struct shown_event *events; /* events and feed */
    uint32_t event_count;
    const void *data; /* the verb's own struct, for its `write` */
    size_t bytes;     /* about how much was read for it, besides what is in the operations */
    struct str text;  /* set: the response itself, as it was kept for repetitions */
};

/* One call, from request to response. The server or library fills in the first members; all of it
 * lives in `arena`, and on one thread. */
struct verb_call {
    struct engine *engine;
    struct arena *arena;
    enum verb_name name;
    struct str request; /* a JSON object that has passed json_check */
    bool from_query;    /* its numbers and flags may be strings */
    struct str actor;
    struct str traceparent;     /* of the caller: for jobs that bring none; in `arena` or absent */
    uint32_t scopes;            /* of enum access_scope; 0: all */
    const struct names *queues; /* only jobs of these queues; NULL: all */
    struct str scope;           /* with `key`: whose request key; absent: the request has none */
    struct str key;
    bool (*wanted)(void *arg); /* as in struct call; NULL: yes */
    void *wanted_arg;
    bool own;                 /* of this very process, which may write files where its user says */
    const char *no_claims;    /* why none is granted now, also in a batch; NULL: they are */
    struct event_place after; /* events and feed: set: go on there, whatever the request says */
    int64_t slice_ms; /* WATCH and CLAIM: wait no longer, and be called again; 0: as it says */

    struct call call; /* WRITE: what prepare made of it */
    uint32_t op_cap;
    bool rendering;    /* the result is asked for within the transaction, for the record: the store
                          must not be read then */
    bool brief;        /* the response is long enough: nothing more is read for it */
    void *state;       /* what the verb keeps from prepare to finish */
    int64_t wait_ms;   /* out of prepare or run: what the request says; -1: nothing */
    struct arena look; /* of the last look of a WATCH that has looked again */
    struct verb_result result; /* out */
};

struct verb {
    /* The members that a request may have, for anyone who describes the verb; NULL: none. */
    const struct record_type *request;
    /* WRITE: reads the request, checks it, and adds operations with verb_op. */
    enum error_code (*prepare)(struct verb_call *call, struct err *err);
    /* WRITE: whether prepare may read the store, and so block. */
    bool reads_first;
    /* WRITE: after the commit: fails with what was wrong with the operations, else completes
     * call->result. NULL: verb_outcome. Also used where a request was carried out before, with
     * what its operations came to then; and, of verbs that are not about jobs, for the response
     * that is kept for repetitions. */
    enum error_code (*finish)(struct verb_call *call, struct err *err);
    /* WRITE: whether finish reads the store, after what came of the operations; NULL: it never
     * does. */
    bool (*reads)(const struct verb_call *call);
    /* READ, WATCH and LONG: all of it, up to call->result. May block. */
    enum error_code (*run)(struct verb_call *call, struct err *err);
    /* All: writes the JSON of the result, as a value where the writer stands. Takes no memory but
     * the writer's buffer, reads nothing, and fails only with that buffer. */
    void (*write)(const struct verb_call *call, struct json_writer *writer);
};

/* The verb of that name; VERB_COUNT if missing. */
enum verb_name verb_find(struct str name);
struct str verb_text(enum verb_name name);
const struct verb *verb_at(enum verb_name name);
bool verb_is_write(enum verb_name name);
bool verb_is_claim(enum verb_name name);
bool verb_is_watch(enum verb_name name);
bool verb_is_long(enum verb_name name);
bool verb_needs_key(enum verb_name name);

/* Whether it is what the holder of a lease says. */
bool verb_is_of_lease(enum verb_name name);

/* How long a request asks to wait, before it was checked; 0: not at all, or not as it should, which
 * the verb itself will report. */
int64_t verb_wait_ms(enum verb_name name, struct str request);

/* How long a request for it may be; VERB_COUNT: for one that there is not. */
size_t verb_bytes_max(enum verb_name name);

/* Adds an operation, zeroed, to a call that is being prepared; NULL: no memory, or too many. */
struct op *verb_op(struct verb_call *call);

/* Prepares a WRITE: fills in call->call but for `done`. The engine may then run it.
 * verb_call_release is needed in any case, unless this fails. */
enum error_code verb_prepare(struct verb_call *call, struct err *err);

/* Completes call->result of a WRITE that is done: the verb's, or the one of the first time. The
 * call's memory must not have been released. */
enum error_code verb_finish(struct verb_call *call, struct err *err);

/* Whether verb_finish would read the store, and so block. */
bool verb_finish_reads(const struct verb_call *call);

/* Carries out a READ, WATCH or LONG whose request was checked, in this thread. A WATCH looks again
 * until something has come, as long as its request says. verb_call_release is needed, unless this
 * fails. */
enum error_code verb_run(struct verb_call *call, struct err *err);

/* Checks `request` (absent: the empty one) and does everything, in this thread, up to call->result.
 * verb_call_release is needed, unless this fails. */
enum error_code verb_do(struct verb_call *call, struct err *err);

/* Writes the response from call->result. It fails only with the buffer. */
void verb_write(const struct verb_call *call, struct buf *buf);

/* Gives back what the call holds besides its arena; it has no result any more. */
void verb_call_release(struct verb_call *call);

/* verb_do, verb_write and verb_call_release: for who wants the response and nothing else. */
enum error_code verb_respond(struct verb_call *call, struct buf *buf, struct err *err);

/* ---- what verbs share --------------------------------------------------------------------- */

/* What tells one request from another under the same key. */
void verb_hash_request(const struct verb_call *call, uint8_t ret[HASH_LEN]);

/* What verb_finish and verb_run do at once, without a record of the request, and the response as a
 * value where the writer stands: for entries of a batch. */
enum error_code verb_finish_own(struct verb_call *call, struct err *err);
enum error_code verb_run_own(struct verb_call *call, struct err *err);
void verb_put(const struct verb_call *call, struct json_writer *writer);

/* Memory for the verb's own struct, zeroed, which is call->result.data from then on; NULL: no
 * memory. */
void *verb_data(struct verb_call *call, size_t size);

/* Reads the request with a record table: bad_request, unknown_field. */
enum error_code verb_read(const struct verb_call *call, const struct record_type *type, void *ret,
                          struct err *err);

/* Reads the job id of a request: bad_request when it is invalid. */
enum error_code verb_job_id(struct str text, struct uuid *ret, struct err *err);

/* What every verb says alike: there is no memory, a member is missing (`what` it is for). */
enum error_code verb_no_memory(struct err *err);
enum error_code verb_missing(const char *member, const char *what, struct err *err);

/* What was wrong with the first operation of a call that is done. */
enum error_code verb_outcome(const struct verb_call *call, struct err *err);

/* Not found, as every verb says it: of ids that are unknown, and of jobs in queues that the call is
 * not for. */
enum error_code verb_no_job(struct uuid id, struct err *err);
bool verb_may_see(const struct verb_call *call, const struct job *job);

/* Reads `json`, a value that must be there, as payloads are: within `bytes_max`. */
enum error_code verb_check_payload(struct str json, const char *what, struct err *err);

/* Reads a job in a transaction of its own: the header, with all parts when `whole`.
 * not_found, also of a job in a queue that the call is not for. */
enum error_code verb_load_job(struct verb_call *call, struct store_txn *txn, struct uuid id,
                              bool whole, struct store_job *ret, struct err *err);

/* The same, with the time by which the store has it. */
enum error_code verb_load_job_now(struct verb_call *call, struct store_txn *txn, struct uuid id,
                                  bool whole, struct store_job *ret, int64_t *ret_now,
                                  struct err *err);

/* ---- the verbs ---------------------------------------------------------------------------- */

#define VERB(name, ...) extern const struct verb verb_##name;
#include "engine/verbs.def"
#undef VERB

#endif
