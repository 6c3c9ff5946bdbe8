/* Random scripts on a SQLite store whose rows are written behind its commits, with memory as the
 * oracle: the same answers to the byte, also after the process that has the file was killed.
 *
 * Nothing is read between commands, or seldom: reading has all rows written, and then nothing is
 * ahead of the database any more. The store is played in a process of its own, which gets commands
 * through a pipe, is killed between two of them, and comes back. What is random (ids, salts) is
 * the same on both sides, since getrandom is ours.
 *
 * PAWL_SEED chooses the first script, PAWL_SCRIPTS how many; PAWL_TALK=1 tells what is asked.
 * Otherwise as many as fit in 5 seconds, or in 10 minutes with TORTURE=1. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "engine/verb.h"
#include "pawl.h"

enum {
    OPS = 220,
    TOKENS_MAX = 24,
    IDS_MAX = 4096,
    TURNS_MAX = 1000,
    SHOWN_MAX = 400,
    SECONDS = 5,
    SECONDS_TORTURE = 600,
};

#define CLOCK_START INT64_C(1767225600000)

/* ---- what is random ---- */

static uint64_t bytes_state;

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Takes the place of the system's: what an engine draws depends on the command alone. */
ssize_t getrandom(void *ret, size_t len, unsigned flags);

ssize_t getrandom(void *ret, size_t len, unsigned flags)
{
    uint8_t *at = ret;
    (void)flags;
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)next_random(&bytes_state);
    return (ssize_t)len;
}

/* ---- a disk that is slow for whoever writes behind ---- */

static pthread_t commander;
static bool disk_is_slow;

/* So that there is time for commands while a table is being written. Nothing needs to be synced:
 * the process is killed, not the machine. */
int fdatasync(int descriptor)
{
    static unsigned calls;
    (void)descriptor;
    if (disk_is_slow && !pthread_equal(pthread_self(), commander))
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)(calls++ % 4) * 10000000L}, NULL);
    return 0;
}

/* ---- one side: an engine that is run by hand ---- */

struct side {
    struct engine *engine;
    int64_t clock;
    int64_t steady;
    struct arena arena; /* of the last answer */
    enum error_code code;
    struct str answer; /* or what was wrong */
};

/* A command. TURNS lets the engine do what is due. */
enum { TURNS = VERB_COUNT };

struct order {
    uint32_t verb;
    uint32_t request_len;
    uint32_t key_len;
    uint64_t seed;
    int64_t clock;
};

static int64_t tell_time(void *arg)
{
    return *(int64_t *)arg;
}

static enum error_code side_open(struct side *side, const char *url, int64_t clock, struct err *err)
{
    *side = (struct side){.clock = clock, .steady = clock - CLOCK_START + 1000};
    struct engine_options options = {
        .store = {.clock = tell_time, .clock_arg = &side->clock, .create = true},
        .by_hand = true,
        .steady = tell_time,
        .steady_arg = &side->steady,
    };
    arena_init(&side->arena);
    return engine_open(str_from(url), &options, &side->engine, err);
}

static void note_done(struct call *call, void *arg)
{
    (void)call;
    *(bool *)arg = true;
}

static enum error_code carry_out(struct side *side, struct verb_call *call, struct err *err)
{
    bool done = false;
    int64_t wait_ms;
    enum error_code code = verb_prepare(call, err);
    if (code != ERR_OK)
        return code;
    call->call.done = note_done;
    call->call.arg = &done;
    if (call->call.count > 0)
        code = engine_submit(side->engine, &call->call, err);
    for (int i = 0; code == ERR_OK && call->call.count > 0 && !done && i < TURNS_MAX; i++)
        engine_turn(side->engine, &wait_ms);
    if (code == ERR_OK)
        code = verb_finish(call, err);
    return code;
}

static void side_do(struct side *side, const struct order *order, struct str key,
                    struct str request)
{
    struct err err = {0};
    struct buf answer;
    arena_clear(&side->arena);
    side->steady += order->clock - side->clock;
    side->clock = order->clock;
    bytes_state = order->seed;
    side->code = ERR_OK;
    side->answer = STR("");
    if (order->verb == TURNS) {
        int64_t wait_ms = 0;
        for (int i = 0; i < TURNS_MAX && wait_ms == 0; i++)
            engine_turn(side->engine, &wait_ms);
        return;
    }
    enum verb_name verb = (enum verb_name)order->verb;
    struct verb_call call = {
        .engine = side->engine,
        .arena = &side->arena,
        .name = verb,
        .request = request,
        .actor = STR("ann"),
        .scope = key.len > 0 ? STR("ann") : (struct str){NULL, 0},
        .key = key.len > 0 ? key : (struct str){NULL, 0},
    };
    buf_init(&answer, &side->arena, 1024);
    side->code = json_check(request, verb_bytes_max(verb), "test", &side->arena, &err);
    if (side->code == ERR_OK)
        side->code = verb_is_write(verb)  ? carry_out(side, &call, &err)
                     : verb_is_long(verb) ? verb_run_own(&call, &err)
                                          : verb_run(&call, &err);
    if (side->code == ERR_OK)
        verb_write(&call, &answer);
    verb_call_release(&call);
    side->answer =
        arena_copy(&side->arena, side->code == ERR_OK ? buf_str(&answer) : str_from(err.detail));
}

/* ---- the other side, in a process of its own ---- */

static bool send_all(int to, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        ssize_t done = write(to, at, len);
        if (done <= 0)
            return false;
        at += done;
        len -= (size_t)done;
    }
    return true;
}

static bool receive_all(int from, void *bytes, size_t len)
{
    char *at = bytes;
    while (len > 0) {
        ssize_t done = read(from, at, len);
        if (done <= 0)
            return false;
        at += done;
        len -= (size_t)done;
    }
    return true;
}

struct reply {
    uint32_t code;
    uint64_t len;
};

/* Until the pipe is closed, which asks for the store to be closed too. */
static _Noreturn void play(const char *url, int64_t clock, int from, int to)
{
    struct side side;
    struct err err = {0};
    struct order order;
    bytes_state = 1;
    commander = pthread_self();
    disk_is_slow = true;
    if (side_open(&side, url, clock, &err) != ERR_OK) {
        (void)fprintf(stderr, "opening: %s\n", err.detail);
        _exit(1);
    }
    while (receive_all(from, &order, sizeof order)) {
        char *request = malloc(order.request_len + (size_t)order.key_len + 1);
        if (request == NULL || !receive_all(from, request, order.request_len + order.key_len))
            _exit(2);
        side_do(&side, &order, (struct str){request + order.request_len, order.key_len},
                (struct str){request, order.request_len});
        free(request);
        struct reply reply = {(uint32_t)side.code, side.answer.len};
        if (!send_all(to, &reply, sizeof reply) || !send_all(to, side.answer.at, side.answer.len))
            _exit(3);
    }
    engine_close(side.engine);
    arena_release(&side.arena);
    _exit(0);
}

struct game {
    uint64_t seed;
    uint64_t random;
    uint64_t op;
    char directory[64];
    char path[96];
    char url[128];
    struct side oracle;
    pid_t player;
    int to;
    int from;
    char *told; /* what the other side said last */
    char tokens[TOKENS_MAX][128];
    int token_count;
    char ids[IDS_MAX][40];
    int id_count;
    uint64_t well[VERB_COUNT + 1];
    bool talks;
    bool came_back; /* an engine that is new begins with the first of the queues again */
};

static uint32_t below(struct game *game, uint32_t bound)
{
    return (uint32_t)(next_random(&game->random) % bound);
}

static void start_player(struct game *game)
{
    int down[2];
    int up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    (void)fflush(NULL);
    game->player = fork();
    assert_true(game->player >= 0);
    if (game->player == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        play(game->url, game->oracle.clock, down[0], up[1]);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    game->to = down[1];
    game->from = up[0];
}

static void stop_player(struct game *game, bool killed)
{
    int status;
    if (killed)
        (void)kill(game->player, SIGKILL);
    (void)close(game->to);
    assert_int_equal(waitpid(game->player, &status, 0), game->player);
    (void)close(game->from);
    if (!killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
        fail_msg("seed %llu: the player ended with %d", (unsigned long long)game->seed, status);
}

static void show(const char *name, enum error_code code, struct str text, size_t at)
{
    size_t from = at > SHOWN_MAX ? at - SHOWN_MAX : 0;
    size_t to = text.len - at > SHOWN_MAX ? at + SHOWN_MAX : text.len;
    (void)fprintf(stderr, "%s, %s: ...%.*s <HERE> %.*s...\n", name, error_info(code)->name,
                  (int)(at - from), text.at + from, (int)(to - at), text.at + at);
}

/* Asks both, and compares. */
static void ask(struct game *game, uint32_t verb, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void ask(struct game *game, uint32_t verb, const char *key, const char *format, ...)
{
    char request[8192];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(request, sizeof request, format, args);
    va_end(args);
    assert_true(len >= 0 && (size_t)len < sizeof request);
    struct order order = {
        .verb = verb,
        .request_len = (uint32_t)len,
        .key_len = (uint32_t)strlen(key),
        .seed = game->seed * 1000003 + ++game->op,
        .clock = game->oracle.clock,
    };
    struct reply reply = {0};
    if (game->talks)
        (void)fprintf(stderr, "%llu: %.*s %s %s\n", (unsigned long long)game->op,
                      verb < VERB_COUNT ? (int)verb_text((enum verb_name)verb).len : 5,
                      verb < VERB_COUNT ? verb_text((enum verb_name)verb).at : "turns", request,
                      key);
    if (!send_all(game->to, &order, sizeof order) || !send_all(game->to, request, (size_t)len) ||
        !send_all(game->to, key, order.key_len) || !receive_all(game->from, &reply, sizeof reply))
        fail_msg("seed %llu, command %llu: the player is gone", (unsigned long long)game->seed,
                 (unsigned long long)game->op);
    free(game->told);
    game->told = malloc(reply.len + 1);
    assert_non_null(game->told);
    assert_true(receive_all(game->from, game->told, reply.len));
    game->told[reply.len] = '\0';

    side_do(&game->oracle, &order, str_from(key), (struct str){request, (size_t)len});
    struct str expected = game->oracle.answer;
    struct str told = {game->told, reply.len};
    game->well[verb] += game->oracle.code == ERR_OK;
    if (reply.code == (uint32_t)game->oracle.code && str_eq(told, expected))
        return;
    size_t at = 0;
    while (at < told.len && at < expected.len && told.at[at] == expected.at[at])
        at++;
    show("memory", game->oracle.code, expected, at);
    show("sqlite", (enum error_code)reply.code, told, at);
    fail_msg("seed %llu, command %llu, %.500s: differs at byte %zu", (unsigned long long)game->seed,
             (unsigned long long)game->op, request, at);
}

/* ---- commands ---- */

/* Remembers what an answer says behind every `"name":"`. */
static void collect(const struct game *game, const char *name, void (*take)(struct game *, char *),
                    struct game *into)
{
    char member[64];
    char value[128];
    (void)snprintf(member, sizeof member, "\"%s\":\"", name);
    for (const char *at = game->told; (at = strstr(at, member)) != NULL;) {
        at += strlen(member);
        (void)snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\""), at);
        take(into, value);
    }
}

static void take_token(struct game *game, char *token)
{
    int at = game->token_count < TOKENS_MAX ? game->token_count++ : (int)below(game, TOKENS_MAX);
    (void)snprintf(game->tokens[at], sizeof game->tokens[at], "%s", token);
}

static void take_id(struct game *game, char *id)
{
    for (int i = 0; i < game->id_count; i++)
        if (strcmp(game->ids[i], id) == 0)
            return;
    if (game->id_count < IDS_MAX)
        (void)snprintf(game->ids[game->id_count++], sizeof game->ids[0], "%.36s", id);
}

static const char *a_token(struct game *game)
{
    return game->token_count > 0 ? game->tokens[below(game, (uint32_t)game->token_count)] : "none";
}

static const char *newest_token(const struct game *game)
{
    return game->token_count > 0 ? game->tokens[game->token_count - 1] : "none";
}

/* A token that is used up, most of the time. */
static const char *last_token(struct game *game, char *ret)
{
    if (game->token_count == 0)
        return "none";
    uint32_t at = below(game, (uint32_t)game->token_count);
    (void)snprintf(ret, 128, "%s", game->tokens[at]);
    if (below(game, 8) > 0)
        memcpy(game->tokens[at], game->tokens[--game->token_count], sizeof game->tokens[at]);
    return ret;
}

/* One of the newer ones, most of the time. */
static const char *an_id(struct game *game)
{
    if (game->id_count == 0)
        return "01890000-0000-7000-8000-000000000000";
    uint32_t count = (uint32_t)game->id_count;
    uint32_t near = count < 12 ? count : 12;
    return game->ids[below(game, 3) > 0 ? count - 1 - below(game, near) : below(game, count)];
}

static const char *a_job(struct game *game, char *ret, size_t size)
{
    static const char *const extras[] = {
        "",
        "",
        "",
        ",\"priority\":1",
        ",\"priority\":-1",
        ",\"delay_ms\":3",
        ",\"delay_ms\":40,\"priority\":2",
        ",\"retry\":{\"max_attempts\":3,\"initial_ms\":1,\"max_ms\":5}",
        ",\"retry\":{\"max_attempts\":2,\"initial_ms\":0,\"max_ms\":0}",
        ",\"in_doubt\":\"retry\"",
        ",\"labels\":{\"a\":\"b\"},\"agent_id\":\"x\",\"correlation_id\":\"c\"",
        ",\"payload\":{\"n\":1.10,\"t\":\"\\u00e9\"}",
    };
    char key[64] = "";
    if (below(game, 4) == 0)
        (void)snprintf(key, sizeof key, ",\"idempotency_key\":\"key %u\"", below(game, 8));
    (void)snprintf(ret, size, "{\"kind\":\"k%u\",\"queue\":\"q%u\"%s%s}", below(game, 2),
                   below(game, 2), extras[below(game, sizeof extras / sizeof extras[0])], key);
    return ret;
}

static void submit(struct game *game, const char *key)
{
    char jobs[3][512];
    if (below(game, 3) == 0)
        ask(game, VERB_submit, key, "{\"jobs\":[%s,%s,%s]}", a_job(game, jobs[0], sizeof jobs[0]),
            a_job(game, jobs[1], sizeof jobs[1]), a_job(game, jobs[2], sizeof jobs[2]));
    else
        ask(game, VERB_submit, key, "%s", a_job(game, jobs[0], sizeof jobs[0]));
    collect(game, "id", take_id, game);
}

/* What to claim: of one queue, where it matters which one an engine begins with. */
static const char *which_work(struct game *game)
{
    static const char *const which[] = {
        ",\"queues\":[\"q0\"]",
        ",\"queues\":[\"q1\"]",
        ",\"queues\":[\"q0\"],\"kinds\":[\"k1\"]",
        "",
        ",\"kinds\":[\"k1\"]",
        ",\"queues\":[\"q1\",\"q0\"],\"kinds\":[\"k0\",\"k1\"]",
    };
    return which[below(game, game->came_back ? 3 : sizeof which / sizeof which[0])];
}

static void claim(struct game *game, const char *key)
{
    ask(game, VERB_claim, key, "{\"worker_id\":\"w%u\",\"max\":%u,\"lease_ttl_ms\":600000%s%s}",
        below(game, 3), 1 + below(game, 4), which_work(game),
        below(game, 3) == 0 ? ",\"start\":false" : "");
    collect(game, "token", take_token, game);
}

/* Several in one commit: things meet there that nobody would do one after the other. */
static void batch(struct game *game, const char *key)
{
    char jobs[2][512];
    char gone[128];
    ask(game, VERB_batch, key,
        "{\"ops\":[{\"op\":\"submit\",%s,{\"op\":\"claim\",\"worker_id\":\"b\",\"max\":%u%s},"
        "{\"op\":\"complete\",\"token\":\"%s\"},{\"op\":\"submit\",%s,"
        "{\"op\":\"claim\",\"worker_id\":\"b\"%s},{\"op\":\"release\",\"token\":\"%s\"}]}",
        a_job(game, jobs[0], sizeof jobs[0]) + 1, 1 + below(game, 3), which_work(game),
        last_token(game, gone), a_job(game, jobs[1], sizeof jobs[1]) + 1, which_work(game),
        a_token(game));
    collect(game, "id", take_id, game);
    collect(game, "token", take_token, game);
}

static void tell_of_lease(struct game *game)
{
    char gone[128];
    switch (below(game, 12)) {
    case 0:
    case 1:
    case 2:
        ask(game, VERB_complete, "", "{\"token\":\"%s\",\"result\":{\"n\":%u}}",
            last_token(game, gone), below(game, 5));
        break;
    case 3:
    case 4:
        ask(game, VERB_fail, "", "{\"token\":\"%s\",\"error\":{\"message\":\"no\"%s}}",
            last_token(game, gone), below(game, 3) == 0 ? ",\"class\":\"permanent\"" : "");
        break;
    case 5:
        ask(game, VERB_release, "", "{\"token\":\"%s\"}", last_token(game, gone));
        break;
    case 6:
        ask(game, VERB_start, "", "{\"token\":\"%s\"}", a_token(game));
        break;
    case 7:
    case 8:
        ask(game, VERB_effect_begin, "", "{\"token\":\"%s\",\"key\":\"e%u\"}", newest_token(game),
            below(game, 2));
        break;
    case 9:
        ask(game, VERB_effect_commit, "", "{\"token\":\"%s\",\"key\":\"e%u\",\"result\":%u%s}",
            newest_token(game), below(game, 2), below(game, 2),
            below(game, 3) == 0 ? ",\"next\":{\"key\":\"f\"}" : "");
        break;
    case 10:
        if (below(game, 2) == 0)
            ask(game, VERB_wait, "",
                "{\"token\":\"%s\",\"type\":\"timer\",\"correlation_key\":\"t\",\"delay_ms\":%u}",
                last_token(game, gone), below(game, 30));
        else
            ask(game, VERB_wait, "",
                "{\"token\":\"%s\",\"type\":\"signal\",\"correlation_key\":\"s\"}",
                last_token(game, gone));
        break;
    default:
        ask(game, VERB_abandon, "", "{\"token\":\"%s\",\"reason_code\":\"policy_violation\"}",
            last_token(game, gone));
        break;
    }
}

/* Work whose time has come is promoted within a second. One that stands where it stood with an
 * event more can be claimed here before it is, and in memory is not: so in half of the scripts time
 * goes by in steps of a second, and in the others nothing gets such events. */
enum { LOOK_MS = 1000 };

static bool takes_its_time(const struct game *game)
{
    return game->seed % 2 == 0;
}

static void tell_of_job(struct game *game, const char *key)
{
    const char *id = an_id(game);
    switch (below(game, takes_its_time(game) ? 6 : 5)) {
    case 0:
    case 1:
        ask(game, VERB_cancel, key, "{\"id\":\"%s\",\"mode\":\"%s\"}", id,
            below(game, 2) == 0 ? "soft" : "hard");
        break;
    case 2:
    case 3:
        ask(game, VERB_requeue, key, "{\"id\":\"%s\"%s}", id,
            below(game, 2) == 0 ? ",\"fresh\":true" : "");
        break;
    case 4:
        ask(game, VERB_dead_letter, key, "{\"id\":\"%s\",\"reason_code\":\"policy_violation\"}",
            id);
        break;
    default:
        ask(game, VERB_append, key,
            "{\"id\":\"%s\",\"events\":[{\"type\":\"x.said\",\"payload\":{\"n\":%u}}]}", id,
            below(game, 9));
        break;
    }
}

/* What goes straight to the database, after all that is ahead of it. */
static void go_through(struct game *game, const char *key)
{
    switch (below(game, 10)) {
    case 8:
        ask(game, VERB_claim_steps, key, "{\"worker_id\":\"s\",\"max\":2,\"queues\":[\"q0\"]}");
        collect(game, "token", take_token, game);
        break;
    case 9:
        ask(game, VERB_kind_set, "", "{\"kind\":\"k0\",\"retention_ms\":%u}",
            3600000 + below(game, 9));
        break;
    case 0:
    case 1:
        ask(game, VERB_heartbeat, "", "{\"token\":\"%s\",\"progress\":{\"n\":%u}}", a_token(game),
            below(game, 9));
        break;
    case 2:
        ask(game, VERB_signal, key,
            "{\"id\":\"%s\",\"correlation_key\":\"s\",\"payload\":1,\"early\":true}", an_id(game));
        break;
    case 3:
        ask(game, VERB_pause, "", "{\"queue\":\"q%u\"}", below(game, 2));
        break;
    case 4:
        ask(game, VERB_resume, "", "{\"queue\":\"q%u\"}", below(game, 2));
        break;
    case 5:
        ask(game, VERB_redact, key, "{\"id\":\"%s\"}", an_id(game));
        break;
    case 6:
        ask(game, VERB_drop, "", "{\"id\":\"%s\"}", an_id(game));
        break;
    default:
        ask(game, VERB_submit, key,
            "{\"kind\":\"k0\",\"queue\":\"q0\",\"plan\":{\"steps\":["
            "{\"id\":\"a\",\"kind\":\"s\"},{\"id\":\"b\",\"kind\":\"s\"}]}}");
        collect(game, "id", take_id, game);
        break;
    }
}

static void read_one(struct game *game)
{
    if (below(game, 2) == 0)
        ask(game, VERB_get, "", "{\"id\":\"%s\"}", an_id(game));
    else
        ask(game, VERB_queues, "", "{}");
}

static void pass_time(struct game *game, int64_t ms)
{
    game->oracle.steady += ms;
    game->oracle.clock += ms;
    ask(game, TURNS, "", "{}");
}

/* An engine that is new looks after everything at once, and one that is not after a second at the
 * latest: from then on the two do the same. */
static void come_back(struct game *game, bool killed)
{
    if (game->talks)
        (void)fprintf(stderr, "%s\n", killed ? "killed" : "closed");
    stop_player(game, killed);
    start_player(game);
    game->came_back = true;
    pass_time(game, LOOK_MS);
}

static void one_command(struct game *game)
{
    char key[32] = "";
    uint32_t what = below(game, 100);
    if (below(game, 6) == 0)
        (void)snprintf(key, sizeof key, "request-%u", below(game, 40));
    if (what < 24)
        submit(game, key);
    else if (what < 44)
        claim(game, key);
    else if (what < 66)
        tell_of_lease(game);
    else if (what < 72)
        batch(game, key);
    else if (what < 84)
        tell_of_job(game, key);
    else if (what < 94 && !takes_its_time(game))
        pass_time(game, 1 + below(game, 4) * below(game, 8));
    else if (what < 88)
        pass_time(game, LOOK_MS);
    else if (what < 94)
        tell_of_lease(game);
    else if (what < 96)
        go_through(game, key);
    else if (what < 97)
        read_one(game);
    else if (what < 99 && game->seed % 3 != 0)
        come_back(game, true);
    else if (game->seed % 3 == 1 && below(game, 2) == 0)
        come_back(game, false);
    else /* long enough for the thread that writes behind */
        (void)nanosleep(&(struct timespec){.tv_nsec = below(game, 120) * 1000000L}, NULL);
}

/* Everything that there is, and then all work, in its order. */
static void compare_everything(struct game *game)
{
    ask(game, VERB_list, "", "{\"limit\":500,\"include\":\"payload,result\"}");
    for (int i = 0; i < game->id_count; i++)
        ask(game, VERB_export, "", "{\"id\":\"%s\"}", game->ids[i]);
    for (int i = 0; i < game->id_count; i++)
        ask(game, VERB_verify, "", "{\"id\":\"%s\"}", game->ids[i]);
    ask(game, VERB_queues, "", "{}");
    ask(game, VERB_workers, "", "{}");
    ask(game, VERB_dead_letters, "", "{\"limit\":500}");
    ask(game, VERB_resume, "", "{\"queue\":\"q0\"}");
    ask(game, VERB_resume, "", "{\"queue\":\"q1\"}");
    pass_time(game, LOOK_MS);
    for (int i = 0; i < 2; i++)
        do
            ask(game, VERB_claim, "", "{\"worker_id\":\"last\",\"max\":3,\"queues\":[\"q%d\"]}", i);
        while (strstr(game->told, "\"token\"") != NULL);
    ask(game, VERB_list, "", "{\"limit\":500}");
}

/* ---- scripts ---- */

static void game_open(struct game *game, uint64_t seed)
{
    struct err err = {0};
    *game = (struct game){.seed = seed, .random = seed, .talks = getenv("PAWL_TALK") != NULL};
    /* Who is killed loses nothing in memory: no disk needs to be waited for. */
    (void)snprintf(game->directory, sizeof game->directory, "%s/pawl-sqlite-random-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(game->directory));
    (void)snprintf(game->path, sizeof game->path, "%s/jobs.db", game->directory);
    (void)snprintf(game->url, sizeof game->url, "sqlite:%s", game->path);
    if (side_open(&game->oracle, "memory:", CLOCK_START, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    start_player(game);
}

static void game_close(struct game *game)
{
    static const char *const suffixes[] = {"", ".lock", ".sock", "-wal", "-shm"};
    char path[128];
    engine_close(game->oracle.engine);
    arena_release(&game->oracle.arena);
    free(game->told);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", game->path, suffixes[i]);
        (void)unlink(path);
    }
    (void)rmdir(game->directory);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 10);
}

static void what_sqlite_keeps_is_as_in_memory(void **state)
{
    static struct game game;
    (void)state;
    uint64_t well[VERB_COUNT + 1] = {0};
    uint64_t first = setting("PAWL_SEED", 1);
    uint64_t scripts = setting("PAWL_SCRIPTS", UINT64_MAX);
    time_t end = time(NULL) + (setting("TORTURE", 0) != 0 ? SECONDS_TORTURE : SECONDS);
    uint64_t count = 0;
    for (; count < scripts && (scripts != UINT64_MAX || time(NULL) < end); count++) {
        game_open(&game, first + count);
        for (int i = 0; i < OPS; i++)
            one_command(&game);
        come_back(&game, below(&game, 2) == 0);
        compare_everything(&game);
        stop_player(&game, false);
        for (int i = 0; i <= VERB_COUNT; i++)
            well[i] += game.well[i];
        game_close(&game);
    }
    print_message("%llu scripts from %llu on\n", (unsigned long long)count,
                  (unsigned long long)first);
    for (int i = 0; game.talks && i < VERB_COUNT; i++)
        print_message("%.*s %llu\n", STR_ARG(verb_text((enum verb_name)i)),
                      (unsigned long long)well[i]);
    /* No script passes by doing nothing. */
    static const enum verb_name wanted[] = {
        VERB_submit,  VERB_claim, VERB_complete,     VERB_fail,   VERB_release, VERB_start,
        VERB_abandon, VERB_batch, VERB_effect_begin, VERB_cancel, VERB_requeue, VERB_append,
    };
    for (size_t i = 0; count > 3 && i < sizeof wanted / sizeof wanted[0]; i++)
        if (well[wanted[i]] == 0)
            fail_msg("%.*s never went well", STR_ARG(verb_text(wanted[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_sqlite_keeps_is_as_in_memory),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
