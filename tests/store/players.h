/* One script played on several stores at once: same operations, same clock, same random bytes. What
 * comes back, and what is stored in the end, is told as text, so that two stores can be compared
 * and a difference read. */
#ifndef PAWL_TESTS_PLAYERS_H
#define PAWL_TESTS_PLAYERS_H

#include "engine/batch.h"
#include "store/store.h"

/* One store with a batcher. */
struct player {
    const char *name;
    struct store *store;
    struct batcher batcher;
    struct arena arena;
    uint64_t random;      /* state of the generator behind its batcher */
    const int64_t *clock; /* shared by all players */
    struct op *ops;       /* of the last batch, with what came of them */
    uint32_t op_count;
    struct str told;                /* what came of the last batch, as text */
    struct store_position position; /* in the feed, as far as it was read */
    uint32_t fed;                   /* events that the last player_feed told of */
};

/* SplitMix64: the next number of a generator. */
uint64_t next_random(uint64_t *state);

/* The clock for store_options: `arg` is the int64_t that tells the time. */
int64_t player_clock(void *arg);

/* Opens `url` with the shared clock. Aborts, saying why, when that fails. */
void player_open(struct player *player, const char *name, const char *url, const int64_t *clock,
                 uint64_t seed);
void player_close(struct player *player);

/* Runs a copy of `ops` and tells what came of it. */
void player_run(struct player *player, const struct op *ops, uint32_t count);

/* Moves work that is due into its lanes and tells how much. */
void player_promote(struct player *player, uint32_t limit);

/* What is due, told, and as operations in the arena of the player, sorted so that stores agree. */
struct op *player_due(struct player *player, uint32_t limit, uint32_t *ret_count);

/* Tells the feed since the last time. PostgreSQL holds it back while any older transaction of the
 * server is open, other tests' too, so this waits until there are `expected` events, or ten
 * seconds. */
void player_feed(struct player *player, uint32_t expected);

/* Everything that is stored of jobs created after `since`: rows, parts, events, telemetry; what
 * is due. Each job's stream is verified against its row too: what is
 * wrong comes out in the text as "VIOLATION". */
struct str player_dump(struct player *player, int64_t since);

#endif
