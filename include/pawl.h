/* Pawl: durable jobs and workflows. This is the only header that a program includes, and the manual
 * of the library.
 *
 *     #include <pawl.h>
 *
 *     char *text;
 *     if (pawl_machine(PAWL_MACHINE_JOB, PAWL_FORMAT_TSV, &text) == PAWL_OK) {
 *         fputs(text, stdout);
 *         pawl_free(text);
 *     }
 *
 * What holds for every function, unless its own text says otherwise:
 *
 *   Errors     A function that can fail returns an enum pawl_code: PAWL_OK, or what went wrong. Its
 *              text lists the codes to expect; a later version may add to them, so treat a code
 *              that you do not know as a failure.
 *   Outputs    are the last arguments, named ret_x, and are written only when PAWL_OK is returned.
 *              They must not be NULL.
 *   Ownership  Text that is returned through a char ** is the caller's, NUL-terminated UTF-8, and
 *              is given back with pawl_free. Text that is returned as const char * is the
 *              library's, never changes, and is never freed.
 *   Threads    Any function may be called from any thread at any time. The library has no global
 *              state, starts no thread behind a program's back, and installs no signal handler.
 *   Silence    Nothing is printed, and the process is never ended because of what a caller asked
 *              for. A failed assertion is a bug of the library, and does end it. */
#ifndef PAWL_H
#define PAWL_H

#ifdef __cplusplus
extern "C" {
#endif

/* What leaves the library. Everything else in it is hidden. */
#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#else
#define PAWL_API
#endif

/* The version of this header, as "major.minor.patch". */
#define PAWL_VERSION "0.1.0"

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
