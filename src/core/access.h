/* Access tokens: what its bearer may do, and with the jobs of which queues. They have
 * nothing to do with the tokens of leases (core/token.h). */
#ifndef PAWL_CORE_ACCESS_H
#define PAWL_CORE_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/str.h"
#include "base/uuid.h"
#include "core/resource.h"

/* What may be done. Admin may do everything that the others may. */
enum access_scope {
    ACCESS_READ = 1,
    ACCESS_SUBMIT = 2,
    ACCESS_WORK = 4,
    ACCESS_ADMIN = 8,
    ACCESS_ANSWER = 16, /* for people: answers to questions */
    ACCESS_ALL = 31,
};

enum {
    ACCESS_QUEUES_MAX = 100,
    ACCESS_SECRET_LEN = 32,
    ACCESS_TEXT_LEN = 48,    /* "pawl_" and 43 characters */
    ACCESS_LIVE_MAX = 1000,  /* tokens of one store that open something */
    ACCESS_ENDED_MAX = 1000, /* and those that do not any more, and can still be looked up */
};

/* For so long after their end. */
#define ACCESS_KEPT_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* A token as it is kept: without itself. */
struct access_token {
    struct uuid id;
    struct str name;
    uint8_t hash[HASH_LEN]; /* of the token */
    uint32_t scopes;        /* of enum access_scope */
    struct names queues;    /* none: all */
    int64_t created_at;
    int64_t expires_at; /* 0: never */
    int64_t revoked_at; /* 0: it is not */
};

/* Whether it opens anything at `now`. */
bool access_is_live(const struct access_token *token, int64_t now);

/* Sorts out the tokens of a store, in the order in which they were made: how many open something,
 * and in `ret_gone`, which has room for all of them, the ids of those that need not be kept any
 * longer. */
uint32_t access_sort_out(const struct access_token *tokens, uint32_t count, int64_t now,
                         struct uuid *ret_gone, uint32_t *ret_gone_count);

/* Who acts, as histories say it, when a request came with a token: this prefix and the token's
 * name, cut to what a name may have. The server's own admin token has a name that no other may
 * have. Absent: no memory. */
#define ACCESS_ACTOR_PREFIX "token:"
#define ACCESS_ADMIN_NAME "PAWL_TOKEN"
struct str access_actor(struct str name, struct arena *arena);

/* Whether a name could be mistaken for that of a token: neither workers nor callers who say who
 * they are may be called so. */
bool access_is_reserved(struct str name);

/* The token that is made of 32 random bytes: "pawl_" and their URL-safe base64. No NUL. */
void access_text(const uint8_t secret[ACCESS_SECRET_LEN], char ret[ACCESS_TEXT_LEN]);

/* Whether the text could be one. */
bool access_text_is_valid(struct str text);

/* What is kept of a token. */
void access_hash(struct str text, uint8_t ret[HASH_LEN]);

/* The scope of that name; 0: none. And all scopes as "read,work", and back: corrupt. */
uint32_t access_scope_parse(struct str name);
struct str access_scope_name(enum access_scope scope);
void access_scopes_write(uint32_t scopes, struct buf *buf);
enum error_code access_scopes_read(struct str text, uint32_t *ret, struct err *err);

/* Queues as a JSON array, and back: corrupt or no_memory. */
void access_queues_write(const struct names *queues, struct buf *buf);
enum error_code access_queues_read(struct str json, struct arena *arena, struct names *ret,
                                   struct err *err);

#endif
