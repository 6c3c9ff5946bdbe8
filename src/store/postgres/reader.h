/* Reads rows of a result in PostgreSQL's binary form. Texts are copied into an arena; what is
 * missing, too long or damaged is remembered, and asked for once per row. */
#ifndef PAWL_STORE_POSTGRES_READER_H
#define PAWL_STORE_POSTGRES_READER_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "store/row.h"

/* Where PostgreSQL's time begins: 2000-01-01T00:00:00Z. */
#define EPOCH_2000_MS INT64_C(946684800000)

/* A row's place, as the server writes it: a block and a number within it. */
enum { TID_LEN = 6 };

/* From this length on a record is full: what it has goes to `history`. */
enum { RECORD_BYTES_MAX = 1500 };

/* Precedes '0' for NUL and of '1' for itself. */
enum { FREE_TEXT_ESCAPE = 1 };

struct reader {
    PGresult *result;
    struct arena *arena;
    int row;
    int column;     /* of the next value */
    bool no_memory; /* sticky */
    bool damaged;   /* sticky */
};

void reader_init(struct reader *reader, PGresult *result, struct arena *arena);

/* Goes to the start of a row. */
void reader_row(struct reader *reader, int row);

/* OK, or no_memory or corrupt if anything was wrong so far; `what` names the rows. */
enum error_code reader_check(const struct reader *reader, const char *what, struct err *err);

/* Each reads the next value of the row. NULL reads as 0, false, or absent. */
int64_t reader_int(struct reader *reader);
bool reader_bool(struct reader *reader);
int64_t reader_time(struct reader *reader);
struct uuid reader_uuid(struct reader *reader);
struct str reader_str(struct reader *reader);
struct str reader_free_text(struct reader *reader);
void reader_bytes(struct reader *reader, uint8_t *ret, size_t len);
void reader_skip(struct reader *reader, int count);

/* Step ordinals are kept as numbers with -1 for the job itself. */
uint32_t reader_step(struct reader *reader);

/* The columns of a job in the order in which reader_slice wants them; `j` is its row, `s` what has
 * become of it, and `c` its live lease, with what has become of it since. What the first event says
 * too is read only where that was erased. */
#define JOB_COLUMNS                                                                                \
    "j.id, j.created_at, coalesce(c.updated_at, s.updated_at, j.created_at),"                      \
    " coalesce(c.version, s.version, 1), coalesce(c.status, s.status, j.status),"                  \
    " coalesce(c.retry_count, s.retry_count, 0), j.redacted, " JOB_HEAD ", j.salt, s.cursor,"      \
    " coalesce(c.state, s.state, j.state), CASE WHEN j.redacted THEN j.priority END,"              \
    " CASE WHEN j.redacted THEN j.kind END, CASE WHEN j.redacted THEN j.queue END,"                \
    " CASE WHEN j.redacted THEN j.agent_id END,"                                                   \
    " CASE WHEN j.redacted THEN j.correlation_id END,"                                             \
    " CASE WHEN j.redacted THEN j.idempotency_key END, " CLAIM_COLUMNS ", j.created"
/* The last hash. */
#define LAST_HASH(hashes)                                                                          \
    "WHEN octet_length(" hashes ") > 0 THEN substring(" hashes " FROM octet_length(" hashes        \
    ") - 31) "
#define JOB_HEAD "CASE " LAST_HASH("c.hashes") LAST_HASH("s.hashes") "ELSE j.hash END"
#define CLAIM_COLUMNS                                                                              \
    "c.worker_id, c.resource_id, c.attempt, c.beat_at, c.expires_at, c.due_at, c.progress, "       \
    "c.cursor"
/* LIMIT keeps the planner from any other way than one look-up a job. */
#define CLAIM_OF(job, step_)                                                                       \
    " LEFT JOIN LATERAL (SELECT * FROM pawl.claim_rows WHERE job_id = " job " AND step = " step_   \
    " LIMIT 1) AS c ON true "
#define STATE_OF(job)                                                                              \
    " LEFT JOIN LATERAL (SELECT * FROM pawl.state_rows WHERE job_id = " job                        \
    " LIMIT 1) AS s ON true "
#define JOB_JOINS STATE_OF("j.id") CLAIM_OF("j.id", "-1")
/* What writers want to know of the rows, behind JOB_COLUMNS: see struct job_note. */
#define NOTE_COLUMNS                                                                               \
    "s.job_id IS NOT NULL, octet_length(s.record)::int8, octet_length(c.record)::int8"

void reader_claim(struct reader *reader, struct claim_row *ret);

/* All of JOB_COLUMNS, made into a slice. */
enum error_code reader_slice(struct reader *reader, uint64_t seed, struct job_slice *ret,
                             struct err *err);

/* What is known of the rows of a job that is locked. */
struct job_note {
    struct uuid id;
    bool has_state;     /* there is a row in state_rows */
    bool is_state_full; /* its record has no room for more */
    bool is_claim_full; /* nor has that of the lease */
};

/* NOTE_COLUMNS, of the job that was read before them. */
struct job_note reader_note(struct reader *reader, struct uuid id);

/* The columns of a resource in the order in which reader_resource wants them; `r` is the table. The
 * leases on it are counted. */
#define RESOURCE_COLUMNS                                                                           \
    "r.state, r.expires_at,"                                                                       \
    " (SELECT count(*) FROM pawl.claim_rows c WHERE c.resource_id = r.id)"

enum error_code reader_resource(struct reader *reader, struct resource *ret, struct err *err);

/* The same for the registration of a worker; `w` is the table. */
#define REGISTRATION_COLUMNS "w.id, w.state, w.expires_at"

enum error_code reader_registration(struct reader *reader, struct worker *ret, struct err *err);

/* The columns of an event in the order in which reader_event wants them. */
#define EVENT_COLUMNS                                                                              \
    "e.job_id, e.version, e.created_at, e.redacted, e.type, e.payload, e.actor, e.cause, "         \
    "e.correlation_id, e.digest, e.hash"

void reader_event(struct reader *reader, struct event *ret);

#endif
