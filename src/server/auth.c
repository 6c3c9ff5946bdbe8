#include "server/auth.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/access.h"

enum {
    KEPT_SETS = 128, /* of tokens that were found: so many times */
    KEPT_WAYS = 4,
    FOE_SETS = 512, /* of addresses that wrong tokens came from */
    FOE_WAYS = 4,
    FREE_FAILURES = 5, /* before they are slowed down */
    SLOW_MS_MIN = 100,
    SLOW_MS_MAX = 60 * 1000,
    FORGET_MS = 15 * 60 * 1000, /* without a wrong token */
    LOOK_MS = 50,               /* the store is asked for one wrong token of an address in that, */
    LOOKS_KEPT = 100,           /* or for so many at once */
    ADDRESS_LEN = 16,
};

/* A token that was found. */
struct kept {
    bool used;
    uint8_t hash[HASH_LEN];
    int64_t until; /* on the steady clock: then it must be looked for again */
    struct arena arena;
    struct access_token token;
};

/* An address that wrong tokens came from. */
struct foe {
    uint8_t address[ADDRESS_LEN];
    uint32_t failures; /* 0: not used */
    int64_t last_at;
    int64_t until;   /* wrong tokens are told to come back then */
    int64_t used_up; /* when LOOKS_KEPT looks are free again */
};

struct authority {
    struct engine *engine;
    bool loopback;    /* only this machine can reach it */
    atomic_bool open; /* no token is needed */
    bool has_admin;
    uint8_t admin_hash[HASH_LEN];
    pthread_mutex_t lock; /* of what follows */
    uint64_t forgotten;   /* how often: what was read before is not kept */
    uint64_t generation;  /* the store's, of which these were read */
    struct kept kept[KEPT_SETS][KEPT_WAYS];
    struct foe foes[FOE_SETS][FOE_WAYS];
};

/* ---- addresses ---------------------------------------------------------------------------- */

/* As IPv6, those of IPv4 mapped; all zero when it is neither. */
static void address_bytes(const struct sockaddr *address, uint8_t ret[ADDRESS_LEN])
{
    memset(ret, 0, ADDRESS_LEN);
    if (address != NULL && address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof v4);
        ret[10] = ret[11] = 0xff;
        memcpy(ret + 12, &v4.sin_addr, 4);
    } else if (address != NULL && address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof v6);
        memcpy(ret, &v6.sin6_addr, ADDRESS_LEN);
    }
}

static bool is_mapped(const uint8_t address[ADDRESS_LEN])
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(address, prefix, sizeof prefix) == 0;
}

bool address_is_loopback(const struct sockaddr *address)
{
    static const uint8_t one[ADDRESS_LEN] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    uint8_t bytes[ADDRESS_LEN];
    if (address != NULL && address->sa_family == AF_UNIX)
        return true;
    address_bytes(address, bytes);
    return is_mapped(bytes) ? bytes[12] == 127 : memcmp(bytes, one, sizeof one) == 0;
}

/* Anyone who has one address of IPv6 has all with the same first half. */
static void peer_bytes(const struct sockaddr *peer, uint8_t ret[ADDRESS_LEN])
{
    address_bytes(peer, ret);
    if (!is_mapped(ret))
        memset(ret + ADDRESS_LEN / 2, 0, ADDRESS_LEN / 2);
}

/* ---- wrong tokens ------------------------------------------------------------------------- */

static struct foe *foe_set(struct authority *authority, const uint8_t address[ADDRESS_LEN])
{
    struct str bytes = {(const char *)address, ADDRESS_LEN};
    uint8_t hash[HASH_LEN];
    hash_sha256(&bytes, 1, hash);
    return authority->foes[(hash[0] << 8 | hash[1]) % FOE_SETS];
}

static struct foe *foe_find(struct authority *authority, const uint8_t address[ADDRESS_LEN],
                            int64_t now)
{
    struct foe *set = foe_set(authority, address);
    for (int i = 0; i < FOE_WAYS; i++) {
        struct foe *foe = &set[i];
        if (foe->failures > 0 && now - foe->last_at > FORGET_MS)
            foe->failures = 0;
        if (foe->failures > 0 && memcmp(foe->address, address, ADDRESS_LEN) == 0)
            return foe;
    }
    return NULL;
}

/* How long it takes until the store may be asked for one more token of the address; 0: no time. */
static int64_t look_wait(struct authority *authority, const uint8_t address[ADDRESS_LEN],
                         int64_t now)
{
    const struct foe *foe = foe_find(authority, address, now);
    int64_t free_at = foe == NULL ? now : foe->used_up - (LOOKS_KEPT - 1) * LOOK_MS;
    return free_at > now ? free_at - now : 0;
}

/* Notes a wrong token; `looked`: the store was asked for it. Returns how long its bearer
 * must wait; 0: not yet at all. One that comes while it should wait changes nothing. The place of
 * the one who was quiet for the longest is taken when there is no other. Under the lock. */
static int64_t foe_note(struct authority *authority, const uint8_t address[ADDRESS_LEN],
                        bool looked, int64_t now)
{
    struct foe *foe = foe_find(authority, address, now);
    if (foe == NULL) {
        struct foe *set = foe_set(authority, address);
        foe = &set[0];
        for (int i = 1; i < FOE_WAYS; i++)
            if (set[i].failures == 0 || (foe->failures > 0 && set[i].last_at < foe->last_at))
                foe = &set[i];
        *foe = (struct foe){0};
        memcpy(foe->address, address, ADDRESS_LEN);
    }
    foe->last_at = now;
    if (looked)
        foe->used_up = (foe->used_up > now ? foe->used_up : now) + LOOK_MS;
    if (foe->until > now)
        return foe->until - now;
    if (++foe->failures <= FREE_FAILURES)
        return 0;
    uint32_t doublings = foe->failures - FREE_FAILURES - 1;
    int64_t delay = doublings > 16 ? SLOW_MS_MAX : (int64_t)SLOW_MS_MIN << doublings;
    foe->until = now + (delay > SLOW_MS_MAX ? SLOW_MS_MAX : delay);
    return 0;
}

/* ---- tokens that were found --------------------------------------------------------------- */

static struct kept *kept_find(struct authority *authority, const uint8_t hash[HASH_LEN])
{
    struct kept *set = authority->kept[hash[0] % KEPT_SETS];
    for (int i = 0; i < KEPT_WAYS; i++)
        if (set[i].used && hash_eq(set[i].hash, hash, HASH_LEN))
            return &set[i];
    return NULL;
}

static void kept_drop(struct kept *kept)
{
    if (kept->used)
        arena_release(&kept->arena);
    *kept = (struct kept){0};
}

/* A copy in `arena`; false: no memory. */
static bool copy_token(const struct access_token *token, struct arena *arena,
                       struct access_token *ret)
{
    struct access_token copy = *token;
    copy.name = arena_copy(arena, token->name);
    copy.queues.at = arena_zalloc(arena, token->queues.count + (size_t)1, sizeof *copy.queues.at);
    if (!str_is_set(copy.name) || copy.queues.at == NULL)
        return false;
    for (uint32_t i = 0; i < token->queues.count; i++) {
        copy.queues.at[i] = arena_copy(arena, token->queues.at[i]);
        if (!str_is_set(copy.queues.at[i]))
            return false;
    }
    *ret = copy;
    return true;
}

/* Remembers a token, in the place of the one that was found the longest ago. */
static void keep(struct authority *authority, const struct access_token *token, int64_t until)
{
    struct kept *set = authority->kept[token->hash[0] % KEPT_SETS];
    struct kept *place = kept_find(authority, token->hash);
    for (int i = 0; i < KEPT_WAYS && place == NULL; i++)
        if (!set[i].used)
            place = &set[i];
    if (place == NULL) {
        place = &set[0];
        for (int i = 1; i < KEPT_WAYS; i++)
            if (set[i].until < place->until)
                place = &set[i];
    }
    kept_drop(place);
    arena_init(&place->arena);
    place->used = true;
    place->until = until;
    memcpy(place->hash, token->hash, HASH_LEN);
    if (!copy_token(token, &place->arena, &place->token))
        kept_drop(place);
}

/* ---- opening ------------------------------------------------------------------------------ */

/* Whether there is a token in the store that opens something. */
static enum error_code has_tokens(struct engine *engine, bool *ret, struct err *err)
{
    struct arena arena;
    struct store_txn *txn;
    struct store_load load = {0};
    struct store_tokens all = {0};
    bool found = false;
    enum error_code code = store_begin(engine_store(engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    arena_init(&arena);
    code = store_load(txn, &load, &arena, err);
    if (code == ERR_OK)
        code = store_tokens(txn, &all, &arena, err);
    store_rollback(txn);
    for (uint32_t i = 0; i < all.count && code == ERR_OK; i++)
        found = found || access_is_live(&all.at[i], engine_trusted(engine, load.now));
    arena_release(&arena);
    if (code == ERR_OK)
        *ret = found;
    return code;
}

static enum error_code check_admin_token(struct str token, struct err *err)
{
    if (!str_is_set(token) || token.len >= ADMIN_TOKEN_LEN_MIN)
        return ERR_OK;
    return err_set(err, ERR_BAD_REQUEST,
                   "the admin token has only %zu characters: use at least %d, for example from "
                   "`openssl rand -base64 32`",
                   token.len, ADMIN_TOKEN_LEN_MIN);
}

enum error_code authority_may_require(struct authority *authority, bool required, struct err *err)
{
    bool found = false;
    if (authority->has_admin || (authority->loopback && !required))
        return ERR_OK;
    enum error_code code = has_tokens(authority->engine, &found, err);
    if (code != ERR_OK || found)
        return code;
    return err_set(err, ERR_BAD_REQUEST,
                   "%s: set PAWL_TOKEN to an admin token, or create one with `pawl token create`",
                   authority->loopback
                       ? "tokens are required, but none exists"
                       : "listening on a public address requires tokens, but none exists");
}

void authority_require(struct authority *authority, bool required)
{
    atomic_store(&authority->open, authority->loopback && !required);
}

bool authority_is_open(struct authority *authority)
{
    return atomic_load(&authority->open);
}

enum error_code authority_open(const struct authority_options *options, struct authority **ret,
                               struct err *err)
{
    enum error_code code = check_admin_token(options->admin_token, err);
    if (code != ERR_OK)
        return code;
    struct authority *authority = calloc(1, sizeof *authority);
    if (authority == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (pthread_mutex_init(&authority->lock, NULL) != 0) {
        free(authority);
        return err_set(err, ERR_UNAVAILABLE, "cannot create a lock for the server");
    }
    authority->engine = options->engine;
    authority->loopback = address_is_loopback(options->address);
    authority->has_admin = str_is_set(options->admin_token);
    if (authority->has_admin)
        access_hash(options->admin_token, authority->admin_hash);
    authority_require(authority, options->tokens_required);
    code = authority_may_require(authority, options->tokens_required, err);
    if (code != ERR_OK) {
        authority_close(authority);
        return code;
    }
    *ret = authority;
    return ERR_OK;
}

/* Under the lock. */
static void forget(struct authority *authority, const struct uuid *id)
{
    for (int i = 0; i < KEPT_SETS; i++)
        for (int k = 0; k < KEPT_WAYS; k++)
            if (id == NULL || uuid_eq(authority->kept[i][k].token.id, *id))
                kept_drop(&authority->kept[i][k]);
    authority->forgotten++;
}

void authority_forget(struct authority *authority, const struct uuid *id)
{
    pthread_mutex_lock(&authority->lock);
    forget(authority, id);
    pthread_mutex_unlock(&authority->lock);
}

void authority_close(struct authority *authority)
{
    if (authority == NULL)
        return;
    authority_forget(authority, NULL);
    pthread_mutex_destroy(&authority->lock);
    free(authority);
}

/* ---- checking ----------------------------------------------------------------------------- */

/* The token of the header; false: there is something else in it. */
static bool read_bearer(struct str header, struct str *ret)
{
    static const char scheme[] = "bearer";
    size_t at = sizeof scheme - 1;
    size_t end = header.len;
    if (header.len <= at || strncasecmp(header.at, scheme, at) != 0 || header.at[at] != ' ')
        return false;
    while (at < end && header.at[at] == ' ')
        at++;
    while (end > at && (header.at[end - 1] == ' ' || header.at[end - 1] == '\t'))
        end--;
    *ret = (struct str){header.at + at, end - at};
    return end > at;
}

/* The token of a request, of the header or else of the cookie; false: none. */
static bool read_token(const struct auth_request *request, struct str *ret)
{
    if (str_is_set(request->authorization))
        return read_bearer(request->authorization, ret);
    if (str_is_set(request->cookie))
        *ret = request->cookie;
    return str_is_set(request->cookie);
}

/* What is known of a request's token before the store is asked. */
enum shown_standing {
    SHOWN_ADMIN,
    SHOWN_KNOWN,  /* it was found a moment ago */
    SHOWN_WRONG,  /* it cannot be one */
    SHOWN_TO_ASK, /* only the store knows */
    SHOWN_SLOWED, /* the store was asked for too many that were wrong */
};

struct shown {
    uint8_t hash[HASH_LEN];
    uint8_t peer[ADDRESS_LEN];
    struct access_token token; /* KNOWN: in the caller's arena */
    int64_t wait_ms;           /* SLOWED */
    uint64_t forgotten;        /* TO_ASK */
    bool looked;               /* the store was asked */
    bool no_memory;
};

/* Anyone who shows a right token is let in, whatever else comes from the address, which many may
 * share: what is known here is looked at first, and the store is asked for the rest. It is asked
 * for a token that was found before, and for one that was let in, in any case; for others only
 * until too many of them were wrong. Under the lock. */
static enum shown_standing look(struct authority *authority, const struct auth_request *request,
                                struct str token, struct arena *arena, struct shown *shown)
{
    int64_t now = engine_steady(authority->engine);
    /* Tokens of another store open nothing here. */
    uint64_t generation = engine_store(authority->engine)->generation;
    if (generation != authority->generation)
        forget(authority, NULL);
    authority->generation = generation;
    const struct kept *kept = kept_find(authority, shown->hash);
    if (kept != NULL && kept->until > now) {
        shown->no_memory = arena != NULL && !copy_token(&kept->token, arena, &shown->token);
        return SHOWN_KNOWN;
    }
    if (authority->has_admin && hash_eq(authority->admin_hash, shown->hash, HASH_LEN))
        return SHOWN_ADMIN;
    if (!access_text_is_valid(token))
        return SHOWN_WRONG;
    shown->forgotten = authority->forgotten;
    if (kept == NULL && !request->again)
        shown->wait_ms = look_wait(authority, shown->peer, now);
    return shown->wait_ms > 0 ? SHOWN_SLOWED : SHOWN_TO_ASK;
}

static enum shown_standing standing_of(struct authority *authority,
                                       const struct auth_request *request, struct str token,
                                       struct arena *arena, struct shown *shown)
{
    *shown = (struct shown){0};
    access_hash(token, shown->hash);
    peer_bytes(request->peer, shown->peer);
    pthread_mutex_lock(&authority->lock);
    enum shown_standing standing = look(authority, request, token, arena, shown);
    pthread_mutex_unlock(&authority->lock);
    return standing;
}

bool auth_must_read(struct authority *authority, const struct auth_request *request)
{
    struct str token;
    struct shown shown;
    return read_token(request, &token) &&
           standing_of(authority, request, token, NULL, &shown) == SHOWN_TO_ASK;
}

/* Asks the store. `ret_live`: the token opens something. */
static enum error_code ask_store(struct authority *authority, struct shown *shown,
                                 struct arena *arena, bool *ret_live, struct err *err)
{
    struct store_tokens wanted = {.hash = shown->hash};
    struct access_token token = {0};
    struct store_txn *txn;
    enum error_code code = store_begin(engine_store(authority->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_tokens(txn, &wanted, arena, err);
    store_rollback(txn);
    if (code != ERR_OK)
        return code;
    int64_t trusted = engine_trusted(authority->engine, wanted.now);
    if (wanted.count > 0)
        token = wanted.at[0];
    *ret_live = wanted.count > 0 && hash_eq(token.hash, shown->hash, HASH_LEN) &&
                access_is_live(&token, trusted);
    shown->token = token;
    int64_t keep_ms = AUTH_KEPT_MS;
    if (*ret_live && token.expires_at > 0 && token.expires_at - trusted < keep_ms)
        keep_ms = token.expires_at - trusted;
    pthread_mutex_lock(&authority->lock);
    int64_t now = engine_steady(authority->engine);
    struct kept *kept = kept_find(authority, shown->hash);
    if (*ret_live && shown->forgotten == authority->forgotten)
        keep(authority, &token, now + keep_ms);
    else if (!*ret_live && kept != NULL)
        kept_drop(kept);
    pthread_mutex_unlock(&authority->lock);
    return ERR_OK;
}

/* Whether the scopes are enough for what is asked. */
static enum error_code check_scopes(const struct auth_request *request, uint32_t scopes,
                                    struct err *err)
{
    if (request->verb != VERB_COUNT)
        return access_check_scopes(scopes, request->verb, err);
    if (request->scopes == 0 || (scopes & (request->scopes | ACCESS_ADMIN)) != 0)
        return ERR_OK;
    return err_set(err, ERR_FORBIDDEN, "the token lacks the required scope");
}

static enum error_code let_in(const struct auth_request *request, const struct access_token *token,
                              struct arena *arena, struct auth *ret, struct err *err)
{
    char *id = arena_alloc(arena, UUID_TEXT_LEN);
    struct names *queues = arena_alloc(arena, sizeof *queues);
    struct str actor = access_actor(token->name, arena);
    if (id == NULL || queues == NULL || !str_is_set(actor))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    enum error_code code = check_scopes(request, token->scopes, err);
    if (code != ERR_OK)
        return code;
    uuid_format(token->id, id);
    *queues = token->queues;
    *ret = (struct auth){
        .actor = actor,
        .caller = {id, UUID_TEXT_LEN},
        .scopes = token->scopes,
        .queues = queues->count > 0 ? queues : NULL,
    };
    return ERR_OK;
}

static enum error_code slow_down(int64_t wait_ms, int64_t *ret_retry_ms, struct err *err)
{
    *ret_retry_ms = wait_ms;
    return err_set(err, ERR_RATE_LIMITED, "too many invalid tokens from this address: wait %lld ms",
                   (long long)wait_ms);
}

/* A token that was let in before and is no longer right is no guess. */
static enum error_code refuse(struct authority *authority, const struct auth_request *request,
                              const struct shown *shown, int64_t *ret_retry_ms, struct err *err)
{
    int64_t wait_ms = 0;
    if (!request->again) {
        pthread_mutex_lock(&authority->lock);
        wait_ms = foe_note(authority, shown->peer, shown->looked, engine_steady(authority->engine));
        pthread_mutex_unlock(&authority->lock);
    }
    if (wait_ms > 0)
        return slow_down(wait_ms, ret_retry_ms, err);
    return err_set(err, ERR_UNAUTHORIZED, "the token is unknown, expired or revoked");
}

static void note_token(const struct auth_request *request, struct str token, struct auth *auth)
{
    auth->token = token;
    auth->by_cookie = !str_is_set(request->authorization);
}

enum error_code auth_check(struct authority *authority, const struct auth_request *request,
                           struct arena *arena, struct auth *ret, int64_t *ret_retry_ms,
                           struct err *err)
{
    static const struct auth admin = {
        .actor = STR_INIT(ACCESS_ACTOR_PREFIX ACCESS_ADMIN_NAME),
        .caller = STR_INIT("admin"),
        .scopes = ACCESS_ALL,
    };
    static const struct auth open = {
        .actor = STR_INIT("http"), .caller = STR_INIT("open"), .scopes = ACCESS_ALL, .open = true};
    struct str token;
    struct shown shown;
    bool live = true;
    enum error_code code = ERR_OK;
    if (!str_is_set(request->authorization) && authority_is_open(authority) && !request->stranger) {
        *ret = open;
        return ERR_OK;
    }
    if (!read_token(request, &token))
        return err_set(err, ERR_UNAUTHORIZED,
                       request->stranger ? "without a token, only the server's own user and root "
                                           "have access: send Authorization: Bearer TOKEN"
                                         : "a token is required: send Authorization: Bearer TOKEN");
    switch (standing_of(authority, request, token, arena, &shown)) {
    case SHOWN_ADMIN:
        *ret = admin;
        note_token(request, token, ret);
        return ERR_OK;
    case SHOWN_KNOWN:
        break;
    case SHOWN_WRONG:
        live = false;
        break;
    case SHOWN_TO_ASK:
        code = ask_store(authority, &shown, arena, &live, err);
        shown.looked = true;
        break;
    case SHOWN_SLOWED:
        return slow_down(shown.wait_ms, ret_retry_ms, err);
    }
    if (code != ERR_OK)
        return code;
    if (shown.no_memory)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (!live)
        return refuse(authority, request, &shown, ret_retry_ms, err);
    code = let_in(request, &shown.token, arena, ret, err);
    if (code == ERR_OK)
        note_token(request, token, ret);
    return code;
}
