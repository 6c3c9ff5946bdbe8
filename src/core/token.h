/* Lease tokens: what a worker shows with every write.
 *
 * Text: job '.' attempt '.' secret for a job, job '.' step ordinal '.' attempt '.' secret for a
 * step; job and secret in hex. Streams and rows keep only a hash of it, so that who reads a history
 * cannot use a lease. */
#ifndef PAWL_CORE_TOKEN_H
#define PAWL_CORE_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/job.h"

enum { TOKEN_TEXT_MAX = 128, TOKEN_SECRET_LEN = 16 };

struct token {
    struct uuid job;
    bool of_step;
    uint32_t step; /* ordinal */
    int64_t attempt;
    uint8_t secret[TOKEN_SECRET_LEN];
};

/* Writes the text (no NUL) and returns its length. */
size_t token_format(const struct token *token, char ret[TOKEN_TEXT_MAX]);

/* Reads a token; false when the text is not one. Only the form that token_format writes is read. */
bool token_parse(struct str text, struct token *ret);

/* What streams and rows keep of a token. */
void token_hash(struct str text, uint8_t ret[TOKEN_HASH_LEN]);

/* Whether the token is that of the job's live lease, or of the live lease of a step that is loaded,
 * which is then in `ret_step`; else NULL is there. For those who only read: job_decide checks the
 * tokens of writers. */
bool token_is_live(const struct job_slice *slice, struct str text, const struct step **ret_step);

#endif
