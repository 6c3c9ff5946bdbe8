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

/* Stands in front of '0' for NUL and of '1' for itself. */
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

/* The columns of a job in the order in which reader_job wants them; `j`, `c` (its live lease) and
 * `e` (its first event) are the tables. */
#define JOB_COLUMNS                                                                                \
    HOT_COLUMNS ", CASE WHEN j.redacted THEN j.priority END,"                                      \
                " CASE WHEN j.redacted THEN j.kind END, CASE WHEN j.redacted THEN j.queue END,"    \
                " CASE WHEN j.redacted THEN j.agent_id END,"                                       \
                " CASE WHEN j.redacted THEN j.correlation_id END,"                                 \
                " CASE WHEN j.redacted THEN j.idempotency_key END"
/* Without what the first event says too, unless it was erased. */
#define HOT_COLUMNS                                                                                \
    "j.id, j.created_at, j.updated_at, j.version, j.purge_at, j.status, j.retry_count, "           \
    "j.reason_code, j.redacted, j.head, j.salt, j.cursor, j.state"
#define CLAIM_COLUMNS                                                                              \
    "c.worker_id, c.resource_id, c.attempt, c.beat_at, c.expires_at, c.due_at, c.progress, "       \
    "c.cursor"
/* LIMIT keeps the planner from any other way than one look-up a job. */
#define CLAIM_OF(job, step_)                                                                       \
    " LEFT JOIN LATERAL (SELECT *, ctid AS place FROM pawl.job_claims WHERE job_id = " job         \
    " AND step = " step_ " LIMIT 1) AS c ON true"
#define JOB_JOINS                                                                                  \
    CLAIM_OF("j.id", "-1")                                                                         \
    " LEFT JOIN LATERAL (SELECT payload FROM pawl.job_events WHERE job_id = j.id AND version = 1"  \
    " LIMIT 1) AS e ON true "
#define WHOLE_JOB_COLUMNS JOB_COLUMNS ", " CLAIM_COLUMNS ", e.payload"
/* Where the rows of a job and of its lease are: they stay there while the job is locked. Behind
 * WHOLE_JOB_COLUMNS. */
#define PLACE_COLUMNS "j.ctid, c.place"

void reader_job(struct reader *reader, struct job_row *ret);
void reader_claim(struct reader *reader, struct claim_row *ret);

/* All of WHOLE_JOB_COLUMNS, made into a slice. */
enum error_code reader_slice(struct reader *reader, uint64_t seed, struct job_slice *ret,
                             struct err *err);

/* Where the rows of a job are; `lease` is set if it has one. */
struct row_place {
    struct uuid id;
    uint8_t job[TID_LEN];
    bool has_lease;
    uint8_t lease[TID_LEN];
};

/* PLACE_COLUMNS, of the job that was read before them. */
struct row_place reader_place(struct reader *reader, struct uuid id);

/* The columns of a resource in the order in which reader_resource wants them; `r` is the table. The
 * leases on it are counted. */
#define RESOURCE_COLUMNS                                                                           \
    "r.state, r.expires_at,"                                                                       \
    " (SELECT count(*) FROM pawl.job_claims c WHERE c.resource_id = r.id)"

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
