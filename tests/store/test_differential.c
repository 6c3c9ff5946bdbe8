/* Random scripts on all three stores at once, with memory as the oracle: the same answers, the same
 * rows, the same events to the byte.
 *
 * PAWL_SEED and PAWL_SCRIPTS choose; PAWL_STORES=2 leaves PostgreSQL out; TORTURE=1 runs forty
 * times as many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "script.h"
#include "test_stores.h"

enum { DUE_MIXED = 3 };
enum { SCRIPTS = 500, BATCHES = 16, SCRIPTS_PER_STORE = 50 };
/* The stores that play, memory first. */
struct game {
    struct player players[TEST_STORE_COUNT];
    int count;
    uint64_t seed; /* of the script */
    int64_t clock;
};

/* How many operations of each sort were carried out, so that no script passes by doing nothing. */
struct tally {
    uint64_t ops[OP_QUEUE + 1];
    uint64_t commands[COMMAND_REPIN + 1];
    uint64_t grants[LANE_JUDGING + 1];
    uint64_t repeated;
    uint64_t atomic[2]; /* operations of atomic groups that were done, that were refused */
};

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? otherwise : strtoull(text, NULL, 10);
}

static void show_around(const char *name, struct str text, size_t at)
{
    enum { BEFORE = 400, BEHIND = 200 };
    size_t from = at > BEFORE ? at - BEFORE : 0;
    size_t to = text.len - at > BEHIND ? at + BEHIND : text.len;
    fprintf(stderr, "%s: ...%.*s <HERE> %.*s...\n", name, (int)(at - from), text.at + from,
            (int)(to - at), text.at + at);
}

/* Shows the first place where two stores differ. */
static void compare(const struct player *a, const struct player *b, uint64_t seed, const char *what)
{
    struct str left = a->told;
    struct str right = b->told;
    size_t at = 0;
    if (str_eq(left, right))
        return;
    while (at < left.len && at < right.len && left.at[at] == right.at[at])
        at++;
    fprintf(stderr, "seed %llu, %s differs at byte %zu:\n", (unsigned long long)seed, what, at);
    show_around(a->name, left, at);
    show_around(b->name, right, at);
    fail();
}

static void compare_all(const struct game *game, const char *what)
{
    for (int i = 1; i < game->count; i++)
        compare(&game->players[0], &game->players[i], game->seed, what);
}

static void count(struct tally *tally, const struct op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct op *op = &ops[i];
        tally->repeated += op_is_repeated(op);
        if (op->atomic && (op->code == ERR_OK || op->code == ERR_BATCH_REFUSED))
            tally->atomic[op->code != ERR_OK]++;
        if (op->code != ERR_OK || op_is_repeated(op))
            continue;
        tally->ops[op->type]++;
        if (op->type == OP_COMMAND)
            tally->commands[op->command.type]++;
        if (op->type == OP_CLAIM)
            tally->grants[op->claim.claimer.work] += op->grant_count;
    }
}

/* What is due, given to all stores as the first of them says. */
static void play_due(struct game *game, struct script *script, struct tally *tally)
{
    struct player *players = game->players;
    uint32_t counts[TEST_STORE_COUNT] = {0};
    struct op *due[TEST_STORE_COUNT];
    for (int i = 0; i < game->count; i++)
        player_promote(&players[i], 100);
    compare_all(game, "promote");
    for (int i = 0; i < game->count; i++)
        due[i] = player_due(&players[i], 100, &counts[i]);
    compare_all(game, "what is due");
    for (int i = 0; i < game->count && counts[0] > 0; i++)
        player_run(&players[i], due[i], counts[0]);
    if (counts[0] == 0)
        return;
    compare_all(game, "due");
    count(tally, players[0].ops, players[0].op_count);
    script_learn(script, players[0].ops, players[0].op_count);
}

/* Now and then what is due stands in one batch with what users want, in front of it. */
static uint32_t mix_due(struct game *game, int batch, struct op *ret)
{
    uint32_t count = 0;
    if (batch % 4 != 1)
        return 0;
    struct op *due = player_due(&game->players[0], DUE_MIXED, &count);
    count = count < DUE_MIXED ? count : DUE_MIXED;
    memcpy(ret, due, count * sizeof *due);
    return count;
}

static uint64_t play(struct game *game, struct tally *tally)
{
    struct player *players = game->players;
    uint64_t seed = game->seed;
    int64_t *clock = &game->clock;
    struct script script;
    uint64_t done = 0;
    int64_t start = *clock;
    const char *violation;
    players[0].fed = 0;
    script_init(&script, seed, start);
    for (int i = 0; i < game->count; i++)
        players[i].random = seed;
    for (int batch = 0; batch < BATCHES; batch++) {
        struct op ops[SCRIPT_OPS + DUE_MIXED];
        bool leap = next_random(&script.random) % 8 == 0;
        *clock += (int64_t)(next_random(&script.random) % (leap ? 1500 : 60));
        script.now = *clock;
        if (batch % 4 == 3)
            play_due(game, &script, tally);
        uint32_t op_count = mix_due(game, batch, ops);
        op_count += script_batch(&script, ops + op_count);
        for (int i = 0; i < game->count; i++)
            player_run(&players[i], ops, op_count);
        compare_all(game, "batch");
        count(tally, players[0].ops, op_count);
        script_learn(&script, players[0].ops, players[0].op_count);
        done += op_count;
    }
    for (int i = 0; i < game->count; i++)
        players[i].told = player_dump(&players[i], start - 1);
    compare_all(game, "dump");
    violation = strstr(players[0].told.at, "VIOLATION");
    if (violation != NULL)
        fail_msg("seed %llu: %s", (unsigned long long)seed, violation);
    for (int i = 0; i < game->count; i++)
        player_feed(&players[i], players[0].fed);
    compare_all(game, "feed");
    for (int i = 0; i < game->count; i++)
        arena_clear(&players[i].arena);
    script_release(&script);
    *clock += 10000;
    return done;
}

static void show_one(const char *sort, int number, uint64_t count, bool enough)
{
    print_message("%s %d: %llu\n", sort, number, (unsigned long long)count);
    if (enough && count == 0)
        fail_msg("no %s %d was ever carried out", sort, number);
}

static void show(const struct tally *tally, bool enough)
{
    /* Histories that come from elsewhere are engine/test_move's. */
    for (int i = OP_COMMAND; i <= OP_QUEUE; i++)
        if (i != OP_IMPORT)
            show_one("operation", i, tally->ops[i], enough);
    for (int i = COMMAND_SUBMIT; i <= COMMAND_REPIN; i++)
        if (command_type_name((enum command_type)i).len > 0 &&
            command_type_by((enum command_type)i) != COMMAND_BY_ENGINE && i != COMMAND_CLAIM &&
            i != COMMAND_STEP_CLAIM && i != COMMAND_ABANDON)
            show_one("command", i, tally->commands[i], enough);
    for (int i = LANE_JOBS; i <= LANE_JUDGING; i++)
        show_one("claim", i, tally->grants[i], enough);
    show_one("repeated request", 0, tally->repeated, enough);
    show_one("operation of an atomic batch that was done", 0, tally->atomic[0], enough);
    show_one("operation of an atomic batch that was refused", 0, tally->atomic[1], enough);
}

static void random_scripts_give_the_same_on_every_store(void **state)
{
    (void)state;
    uint64_t runs = setting("PAWL_SCRIPTS", getenv("TORTURE") != NULL ? 40 * SCRIPTS : SCRIPTS);
    uint64_t seed = setting("PAWL_SEED", 1);
    uint64_t ops = 0;
    struct tally tally = {0};
    struct test_stores stores;
    struct game game = {
        .count = (int)setting("PAWL_STORES", TEST_STORE_COUNT),
        .clock = INT64_C(1767225600000),
    };
    test_stores_init(&stores);
    for (uint64_t run = 0; run < runs;) {
        for (int i = 0; i < game.count; i++)
            player_open(&game.players[i], test_store_names[i],
                        test_stores_fresh(&stores, (enum test_store)i), &game.clock, seed);
        for (int i = 0; i < SCRIPTS_PER_STORE && run < runs; i++, run++) {
            game.seed = seed + run;
            ops += play(&game, &tally);
        }
        for (int i = 0; i < game.count; i++)
            player_close(&game.players[i]);
        if (run % 1000 == 0)
            print_message("%llu scripts\n", (unsigned long long)run);
    }
    test_stores_release(&stores);
    show(&tally, runs >= 100);
    print_message("%llu scripts, %llu operations\n", (unsigned long long)runs,
                  (unsigned long long)ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_scripts_give_the_same_on_every_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
