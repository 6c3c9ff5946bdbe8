/* Who is asking, and what they may do: bearer tokens, the server's own admin token, and loopback,
 * which is open unless tokens are asked for.
 *
 * Histories say who it was: "token:" and the name of the token, ACCESS_ADMIN_NAME for the server's
 * own. Nobody else can be called so: access_is_reserved.
 *
 * Tokens are kept as hashes and found by them. What was found is remembered for a few seconds, so
 * that a token which was revoked elsewhere opens nothing after that. Anyone who shows wrong tokens
 * is slowed down, by address: they are told to come back later, and no thread waits for them. Right
 * tokens pass all the same, as many may share an address; but the store is asked only so often for
 * tokens of an address that turn out wrong, and beyond that a token that was never seen must wait
 * for its turn. */
#ifndef PAWL_SERVER_AUTH_H
#define PAWL_SERVER_AUTH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/access.h"
#include "engine/engine.h"
#include "engine/verb.h"

enum {
    AUTH_KEPT_MS = 3000, /* how long a token that was found is believed */
    ADMIN_TOKEN_LEN_MIN = 16,
};

struct authority;

struct authority_options {
    struct engine *engine;          /* its store has the tokens, its steady clock the time */
    struct str admin_token;         /* opens everything; absent: none */
    const struct sockaddr *address; /* that is listened on */
    bool tokens_required;           /* on loopback too */
};

/* Makes one; everything is copied. bad_request: the admin token is too short to be one, or the
 * address is not a loopback's and nobody could get in, since there is no token: that is refused
 * rather than served to everybody. Reads the store then. */
enum error_code authority_open(const struct authority_options *options, struct authority **ret,
                               struct err *err);
void authority_close(struct authority *authority);

/* Whether tokens are required on loopback, from now on; elsewhere they are in any case. Ask first
 * whether that may be: it fails as authority_open, when nobody could get in any more. */
enum error_code authority_may_require(struct authority *authority, bool required, struct err *err);
void authority_require(struct authority *authority, bool required);

/* Whether no token is needed. */
bool authority_is_open(struct authority *authority);

/* What is known of a request before its body is read. */
struct auth_request {
    enum verb_name verb;         /* VERB_COUNT: none; then `scopes` says what is needed */
    uint32_t scopes;             /* one of these, or admin; 0: any token will do */
    struct str authorization;    /* the header; absent: none */
    struct str cookie;           /* the token of a session, for when there is no such header */
    const struct sockaddr *peer; /* NULL: not known */
    bool stranger; /* on this machine, and neither of the server's own user nor of root */
    bool again;    /* it was let in before: it does not wait, and is no guess if it is wrong now */
};

struct auth {
    struct str actor;           /* for histories: "token:" and the token's name, or "http" */
    struct str caller;          /* tells callers apart, for their Idempotency-Keys */
    struct str token;           /* that was shown, where it came from; absent: none */
    bool by_cookie;             /* it came in a cookie, which a browser sends by itself */
    uint32_t scopes;            /* 0: nobody is asking, which is enough for a few pages */
    const struct names *queues; /* NULL: all */
    bool open; /* there was no token, and none is needed: anyone who asks must be on this machine */
};

/* Whether auth_check would have to read the store, and may block: then it is not for a thread that
 * others wait for. */
bool auth_must_read(struct authority *authority, const struct auth_request *request);

/* Lets a request in, or not: unauthorized (there is no token, or none that opens anything),
 * forbidden (it does not open this), rate_limited (too many were wrong: `ret_retry_ms` says when to
 * come back), unavailable. What is returned is in `arena`. Any number of threads may ask. */
enum error_code auth_check(struct authority *authority, const struct auth_request *request,
                           struct arena *arena, struct auth *ret, int64_t *ret_retry_ms,
                           struct err *err);

/* Forgets a token that was found, or all (NULL): for when one was revoked here. */
void authority_forget(struct authority *authority, const struct uuid *id);

/* Whether the address is one of this machine alone. */
bool address_is_loopback(const struct sockaddr *address);

#endif
