#define _GNU_SOURCE /* NOLINT: memmem */

#include "disk_script.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/history.h"
#include "pawl.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"

enum {
    SLOTS = 128,
    COMMAND_MS = 300, /* between two commands */
    TURNS_MAX = 1000,
    LOG_PAGES = 60,
    SEED = 8,
};

#define SCRIPT_BEGINS INT64_C(1767225600000)

struct script_line {
    enum verb_name verb;
    bool keyed;
    const char *request;
    const char *kept;
    bool refused;
};

static const struct script_line commands[] = {
#define COMMAND(what, key, request, kept) {VERB_##what, key, request, kept, false},
#define REFUSED(what, key, request) {VERB_##what, key, request, "", true},
#include "disk_script.def"
#undef REFUSED
#undef COMMAND
};

enum { COMMANDS = sizeof commands / sizeof commands[0], STEPS = 2 * COMMANDS };

struct script_answer {
    enum error_code code;
    struct str text;
};

struct script {
    struct arena arena;
    struct str slots[SLOTS];
    struct script_answer answers[COMMANDS];
    struct str states[STEPS + 1]; /* after so many steps */
};

uint32_t script_command_count(void)
{
    return COMMANDS;
}

uint32_t script_steps(void)
{
    return STEPS;
}

bool life_complain(struct life *life, const char *format, ...)
{
    va_list arguments;
    if (life->complaint[0] != '\0')
        return false;
    va_start(arguments, format);
    (void)vsnprintf(life->complaint, sizeof life->complaint, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- opening ---- */

static int64_t life_time(void *arg)
{
    return ((const struct life *)arg)->clock;
}

static int64_t life_steady(void *arg)
{
    return ((const struct life *)arg)->clock - SCRIPT_BEGINS;
}

/* The clock of a step. */
static int64_t step_time(uint32_t step)
{
    return SCRIPT_BEGINS + (int64_t)COMMAND_MS * (step / 2);
}

enum error_code life_open_engine(struct life *life, struct err *err)
{
    struct engine_options options = {.lent = life->store,
                                     .by_hand = true,
                                     .steady = life_steady,
                                     .steady_arg = life,
                                     .trusts_clock = true};
    if (life->engine != NULL)
        engine_close(life->engine);
    life->engine = NULL;
    return engine_open(STR("memory:"), &options, &life->engine, err);
}

static struct store_options options_of(struct life *life)
{
    life->clock = step_time(life->done);
    return (struct store_options){
        .clock = life_time, .clock_arg = life, .create = true, .seed = SEED};
}

enum error_code life_open(struct life *life, struct err *err)
{
    struct store_options options = options_of(life);
    enum error_code code =
        sqlite_store_open_with(STR(SCRIPT_PATH), &options, LOG_PAGES, &life->store, err);
    if (code == ERR_OK)
        code = life_open_engine(life, err);
    if (code != ERR_OK)
        life_close(life);
    return code;
}

void life_close(struct life *life)
{
    if (life->engine != NULL)
        engine_close(life->engine);
    if (life->store != NULL)
        store_close(life->store);
    life->engine = NULL;
    life->store = NULL;
}

/* ---- commands ---- */

/* The request as it is sent: see disk_script.def. */
static struct str expand(const struct script *script, const char *request, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, 512);
    while (*request != '\0') {
        char c = *request++;
        if (c == '@') {
            struct str kept = script->slots[(unsigned char)*request++];
            buf_add(&buf, kept);
        } else if (c == '#') {
            char *end;
            for (long left = strtol(request, &end, 10); left > 0; left--)
                buf_add_char(&buf, (char)('a' + left % 26));
            request = end;
        } else {
            buf_add_char(&buf, c == '\'' ? '"' : c);
        }
    }
    return buf.failed ? (struct str){NULL, 0} : buf_str(&buf);
}

static enum error_code run(struct life *life, enum verb_name verb, struct str request,
                           struct str key, struct arena *arena, struct buf *answer, struct err *err)
{
    struct verb_call call = {
        .engine = life->engine,
        .arena = arena,
        .name = verb,
        .request = request,
        .actor = STR("ann"),
    };
    if (str_is_set(key)) {
        call.scope = STR("ann");
        call.key = key;
    }
    buf_init(answer, arena, 512);
    return verb_respond(&call, answer, err);
}

static enum error_code ask(struct life *life, uint32_t number, struct arena *arena,
                           struct buf *answer, struct err *err)
{
    const struct script_line *command = &commands[number];
    char key[32];
    (void)snprintf(key, sizeof key, "key-%u", number);
    struct str request = expand(life->script, command->request, arena);
    if (!str_is_set(request))
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    return run(life, command->verb, request, command->keyed ? str_from(key) : (struct str){NULL, 0},
               arena, answer, err);
}

/* Whether a code is the answer, and not that there was none. */
static bool is_answer(enum error_code code)
{
    return code != ERR_UNAVAILABLE && code != ERR_NO_MEMORY && code != ERR_CORRUPT;
}

/* Says where two texts begin to differ. */
static void complain_of(struct life *life, const char *what, struct str is, struct str should)
{
    enum { SHOWN = 300, BEFORE = 100 };
    size_t at = 0;
    while (at < is.len && at < should.len && is.at[at] == should.at[at])
        at++;
    at = at > BEFORE ? at - BEFORE : 0;
    (void)life_complain(life, "command %u, step %u of %d, %s\n…%.*s\nand not\n…%.*s",
                        life->done / 2 + 1, life->done, STEPS, what,
                        (int)(is.len - at < SHOWN ? is.len - at : SHOWN), is.at + at,
                        (int)(should.len - at < SHOWN ? should.len - at : SHOWN), should.at + at);
}

/* Whether a list tells of a job that could not be read, which ends no list. */
static bool says_damaged(struct str answer)
{
    static const char member[] = "\"damaged\":";
    return memmem(answer.at, answer.len, member, sizeof member - 1) != NULL;
}

/* Whether an answer is what it should be. What a claim could not read once it was committed it
 * leaves to be asked for, and says so. */
static bool is_same_answer(struct str is, struct str should)
{
    static const char left[] = "\"inputs\":{},\"inputs_left\":";
    const char *from = memmem(is.at, is.len, left, sizeof left - 1);
    if (from == NULL)
        return str_eq(is, should);
    size_t len = (size_t)(from - is.at);
    return should.len >= len && memcmp(is.at, should.at, len) == 0;
}

static enum error_code step_ask(struct life *life, uint32_t number, struct err *err)
{
    const struct script_answer *expected = &life->script->answers[number];
    struct arena arena;
    struct buf answer;
    arena_init(&arena);
    enum error_code code = ask(life, number, &arena, &answer, err);
    struct str text = code == ERR_OK ? buf_str(&answer) : str_from(err->detail);
    bool same = code == expected->code && is_same_answer(text, expected->text);
    if (!same && code == ERR_OK && says_damaged(text))
        code = err_set(err, ERR_CORRUPT, "a job could not be read");
    if (!same && is_answer(code))
        complain_of(life, "is answered with", text, expected->text);
    arena_release(&arena);
    return same ? ERR_OK : code;
}

static void settle(struct life *life)
{
    int64_t wait_ms = 0;
    for (int i = 0; wait_ms == 0 && i < TURNS_MAX; i++)
        engine_turn(life->engine, &wait_ms);
    if (wait_ms == 0)
        (void)life_complain(life, "the engine does not come to rest");
}

enum error_code life_step(struct life *life, struct err *err)
{
    uint32_t number = life->done / 2;
    enum error_code code = ERR_OK;
    life->clock = step_time(life->done);
    virtual_random_repeat(SEED + life->done);
    if (life->done % 2 == 0)
        settle(life);
    else
        code = step_ask(life, number, err);
    if (code == ERR_OK)
        life->done++;
    return code;
}

bool life_finish(struct life *life)
{
    while (life->done < STEPS && life->complaint[0] == '\0') {
        struct err err = {0};
        if (life_step(life, &err) != ERR_OK)
            return life_complain(life, "command %u: %s", life->done / 2 + 1, err.detail);
    }
    return life->complaint[0] == '\0';
}

/* ---- looking at everything ---- */

static void show(struct life *life, enum verb_name verb, const char *request, struct arena *arena,
                 struct buf *ret)
{
    struct buf answer;
    struct err err = {0};
    enum error_code code = run(life, verb, expand(life->script, request, arena),
                               (struct str){NULL, 0}, arena, &answer, &err);
    if (code == ERR_NOT_FOUND) /* as jobs of which nobody knows yet */
        return;
    buf_addf(ret, "%.*s %s: ", STR_ARG(verb_text(verb)), request);
    buf_add(ret, code == ERR_OK ? buf_str(&answer) : str_from(err.detail));
    buf_add_char(ret, '\n');
}

/* Everything that can be seen, at one and the same time. */
static struct str show_all(struct life *life, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, 64 * 1024);
    life->clock = step_time(STEPS);
    for (size_t i = 0; i < COMMANDS; i++) {
        char request[32];
        if (commands[i].kept[0] < 'a' || !str_is_set(life->script->slots[(int)commands[i].kept[0]]))
            continue;
        (void)snprintf(request, sizeof request, "{'id':'@%c'}", commands[i].kept[0]);
        show(life, VERB_export, request, arena, &buf);
    }
    show(life, VERB_list, "{}", arena, &buf);
    show(life, VERB_queues, "{}", arena, &buf);
    show(life, VERB_workers, "{}", arena, &buf);
    show(life, VERB_resources, "{}", arena, &buf);
    show(life, VERB_kind_get, "{'kind':'brief'}", arena, &buf);
    life->clock = step_time(life->done);
    return buf_str(&buf);
}

static bool check_database(struct life *life)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int result = sqlite3_open_v2(SCRIPT_PATH, &db, SQLITE_OPEN_READONLY, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL);
    if (result == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW) {
        const char *said = (const char *)sqlite3_column_text(statement, 0);
        if (strcmp(said, "ok") != 0)
            (void)life_complain(life, "integrity_check: %s", said);
    } else {
        (void)life_complain(life, "integrity_check: %s", sqlite3_errmsg(db));
    }
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return life->complaint[0] == '\0';
}

static void check_history(struct life *life, struct str id, struct arena *arena)
{
    struct verb_call call = {.engine = life->engine, .arena = arena, .name = VERB_verify};
    struct history history;
    struct history_report found;
    struct uuid job;
    struct err err = {0};
    if (!uuid_parse(id, &job))
        abort();
    enum error_code code = history_load(&call, job, &history, &err);
    if (code == ERR_NOT_FOUND)
        return;
    if (code == ERR_OK)
        code = history_verify(&call, job, &history, &found, &err);
    const struct violation *violation = code == ERR_OK ? history_violation(&found) : NULL;
    if (code != ERR_OK)
        (void)life_complain(life, "verify %.*s: %s", STR_ARG(id), err.detail);
    else if (violation != NULL)
        (void)life_complain(life, "verify %.*s: %.*s: %.*s", STR_ARG(id),
                            STR_ARG(verify_rule_name(violation->rule)), STR_ARG(violation->detail));
}

bool life_repeat(struct life *life)
{
    uint32_t number = life->done / 2;
    while (number > 0 && !commands[number - 1].keyed)
        number--;
    if (number == 0)
        return true;
    const struct script_answer *expected = &life->script->answers[number - 1];
    struct arena arena;
    struct buf answer;
    struct err err = {0};
    arena_init(&arena);
    enum error_code code = ask(life, number - 1, &arena, &answer, &err);
    struct str text = code == ERR_OK ? buf_str(&answer) : str_from(err.detail);
    if (code != expected->code || !is_same_answer(text, expected->text))
        complain_of(life, "is answered with, when it is asked for again,", text, expected->text);
    arena_release(&arena);
    return life->complaint[0] == '\0';
}

bool life_check(struct life *life, bool torn)
{
    const struct script *script = life->script;
    struct arena arena;
    arena_init(&arena);
    for (int i = 'a'; i <= 'z'; i++)
        if (str_is_set(script->slots[i]))
            check_history(life, script->slots[i], &arena);
    struct str state = show_all(life, &arena);
    if (str_eq(state, script->states[life->done])) {
        /* as it should be */
    } else if (torn && life->done < STEPS && str_eq(state, script->states[life->done + 1])) {
        life->done++;
    } else {
        complain_of(life, "has left behind", state, script->states[life->done]);
    }
    arena_release(&arena);
    return check_database(life);
}

/* ---- the memory store ---- */

/* Keeps what the answer says for later commands. */
static void keep(struct script *script, uint32_t number)
{
    const struct script_answer *answer = &script->answers[number];
    const char *kept = commands[number].kept;
    if (*kept == '\0')
        return;
    struct pawl_json found =
        pawl_json_get((struct pawl_json){answer->text.at, answer->text.len}, kept + 2);
    struct str raw = {found.at, found.len};
    struct str *slot = &script->slots[(unsigned char)*kept];
    if (!str_is_set(raw) || !json_string(raw, &script->arena, slot)) {
        (void)fprintf(stderr, "command %u says nothing at %s: %.*s\n", number + 1, kept + 2,
                      STR_ARG(answer->text));
        abort();
    }
}

static void learn_step(struct script *script, struct life *life)
{
    uint32_t number = life->done / 2;
    struct arena arena;
    struct buf text;
    struct err err = {0};
    arena_init(&arena);
    life->clock = step_time(life->done);
    virtual_random_repeat(SEED + life->done);
    if (life->done % 2 == 0) {
        settle(life);
    } else {
        struct script_answer *answer = &script->answers[number];
        answer->code = ask(life, number, &arena, &text, &err);
        answer->text = arena_copy(&script->arena,
                                  answer->code == ERR_OK ? buf_str(&text) : str_from(err.detail));
        if ((answer->code != ERR_OK) != commands[number].refused) {
            (void)fprintf(stderr, "command %u, %s: %.*s\n", number + 1, commands[number].request,
                          STR_ARG(answer->text));
            abort();
        }
        if (answer->code == ERR_OK)
            keep(script, number);
    }
    life->done++;
    script->states[life->done] = arena_copy(&script->arena, show_all(life, &arena));
    arena_release(&arena);
}

struct script *script_learn(void)
{
    struct script *script = calloc(1, sizeof *script);
    struct err err = {0};
    if (script == NULL)
        abort();
    arena_init(&script->arena);
    struct life life = {.script = script};
    struct store_options options = options_of(&life);
    if (memory_store_open(&options, &life.store, &err) != ERR_OK ||
        life_open_engine(&life, &err) != ERR_OK)
        abort();
    struct arena arena;
    arena_init(&arena);
    script->states[0] = arena_copy(&script->arena, show_all(&life, &arena));
    arena_release(&arena);
    while (life.done < STEPS)
        learn_step(script, &life);
    life_close(&life);
    return script;
}

void script_free(struct script *script)
{
    arena_release(&script->arena);
    free(script);
}
