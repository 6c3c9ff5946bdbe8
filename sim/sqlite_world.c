/* A world on a SQLite store: one server, whose process owns the file, on a simulated disk.
 *
 * A crash may come at any file call. What the disk is like at that moment is what the next process
 * finds: as it was, when only the process ends, or as a power cut leaves it. Whatever the server
 * still does on its way down it does to a disk that is thrown away, and nobody hears of it. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "disk.h"
#include "store/sqlite/sqlite_store.h"
#include "world.h"

enum {
    CRASH_PER_MILLE = 1,
    FULL_PER_MILLE = 1,
    CUT_PER_MILLE = 600, /* of crashes */
    LAG_MS_MAX = 300,    /* of the ledger */
};

/* The disk as the next process finds it. */
static struct disk *disk_after(struct server *server)
{
    struct world *world = server->world;
    struct disk *after = disk_copy(world->disk);
    if (rng_chance(&world->luck, CUT_PER_MILLE)) {
        disk_cut(after, &world->luck, (uint32_t)rng_below(&world->luck, DISK_STYLES));
        trace(world, "the power is cut");
    }
    return after;
}

static int watch(void *arg, const struct disk_call *call)
{
    struct server *server = arg;
    struct world *world = server->world;
    if (server->doomed || server->engine == NULL || !disk_verb_changes(call->verb))
        return DISK_GO;
    if (world_strikes(world, &world->luck, FAULT_CRASH, CRASH_PER_MILLE)) {
        trace(world, "%s crashes in a call to %s", server->name, disk_verb_name(call->verb));
        server->doomed = true;
        server->turn_at = world->now;
        world->next_disk = disk_after(server);
    } else if (call->verb == DISK_WRITE &&
               world_strikes(world, &world->luck, FAULT_LOST, FULL_PER_MILLE)) {
        trace(world, "%s finds the disk full", server->name);
        return ENOSPC;
    }
    return DISK_GO;
}

void sqlite_world_begin(struct world *world)
{
    world->disk = disk_new();
    disk_break(world->disk, world->scenario->disk_lie);
    world->luck = rng_new(world->scenario->seed, UINT64_C(0x6469736b));
}

void sqlite_world_end(struct world *world)
{
    disk_use(NULL);
    disk_free(world->disk);
}

void server_open_store(struct server *server)
{
    struct world *world = server->world;
    struct store_options options = {
        .clock = world_store_time,
        .clock_arg = world,
        .create = true,
        .seed = world->scenario->seed,
    };
    int log_pages_max = (int)rng_between(&world->luck, 10, 200);
    struct err err = {0};
    disk_use(world->disk);
    disk_watch(world->disk, watch, server);
    if (sqlite_store_open_with(STR(DISK_ROOT "/jobs.db"), &options, log_pages_max, &world->store,
                               &err) != ERR_OK) {
        (void)fprintf(stderr, "seed %llu: the store does not open: %s\n",
                      (unsigned long long)world->scenario->seed, err.detail);
        abort();
    }
    server->store = faulty_store_new(server);
}

void server_close_store(struct server *server)
{
    struct world *world = server->world;
    struct disk *next = world->next_disk;
    /* Now and then a process ends as it should. */
    if (next == NULL && !rng_chance(&world->luck, 200))
        next = disk_after(server);
    disk_watch(world->disk, NULL, NULL);
    store_close(world->store);
    world->store = NULL;
    faulty_store_free(server->store);
    server->store = NULL;
    if (next != NULL) {
        disk_free(world->disk);
        world->disk = next;
    }
    world->next_disk = NULL;
}

void sqlite_world_before_turn(struct world *world)
{
    if (world->now - world->read_at >= LAG_MS_MAX || world->offset != world->read_offset)
        ledger_read(world);
}

void sqlite_world_after_turn(struct world *world)
{
    if (rng_chance(&world->luck, 300) || world->healing)
        ledger_read(world);
}
