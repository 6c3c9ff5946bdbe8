/* The power is cut at every sync of a fixed life of a SQLite store (sim/disk_script.def), and again
 * while that is recovered from: nothing that was acknowledged is lost, what was under way is there
 * as a whole or not at all, the database is sound, every history verifies, and life goes on.
 *
 * At each sync this process forks: the child finds the disk as a power cut has left it, in one of
 * DISK_STYLES ways: in the short form the first, in which nothing is left that was not synced, and
 * a few of the others, at each sync different ones. PAWL_SYNC=… runs one sync point only,
 * PAWL_DAMAGE=… one way; PAWL_LIE=…, a name in sim/disk_lie.def, breaks the disk in that way, which
 * must make this fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk_script.h"

enum {
    DAMAGES = DISK_STYLES,
    SHARE = 5,        /* in the short form one of so many damages is tried */
    FINISH_EVERY = 4, /* and of the damages one in so many lives on to the end */
    RECOVERY_SYNCS = 12,
};

/* What all processes together came to. */
struct tally {
    uint32_t syncs;
    uint32_t cuts;
    uint32_t cuts_in_recovery;
    uint32_t under_way; /* cuts after which what was not acknowledged was there */
    uint32_t failures;
    char complaint[COMPLAINT_BYTES];
};

struct trial {
    struct tally *tally;
    struct life *life;
    struct disk *disk;
    uint32_t share;     /* one of so many damages at each sync */
    uint32_t only_sync; /* 0: all */
    int only_damage;    /* -1: all */
    enum disk_lie lie;
};

/* A child's. */
struct second_cut {
    struct trial *trial;
    uint32_t damage;
    uint32_t left; /* syncs until the power is cut again */
    const struct life *life;
    const char *where;
};

static void report(struct trial *trial, const char *where, uint32_t damage, const char *what)
{
    struct tally *tally = trial->tally;
    if (tally->failures++ == 0)
        (void)snprintf(tally->complaint, sizeof tally->complaint, "%s, damage %u: %.1800s", where,
                       damage, what);
}

static void await(pid_t child, struct trial *trial, const char *where, uint32_t damage)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        report(trial, where, damage, "there is no child");
    else if (WIFSIGNALED(status))
        report(trial, where, damage, strsignal(WTERMSIG(status)));
}

/* The rest of the life, and what is found when all of it is over. */
static void live_on(struct life *life)
{
    struct err err = {0};
    if (!life_finish(life) || !life_check(life, false))
        return;
    life_close(life);
    if (life_open(life, &err) != ERR_OK)
        (void)life_complain(life, "opening after the end: %s", err.detail);
    else
        (void)life_check(life, false);
}

/* In a process of its own, on the disk as it is after the cut: everything must be there. */
static void recover(struct trial *trial, struct disk *disk, struct life *life, const char *where,
                    uint32_t damage)
{
    struct err err = {0};
    uint32_t before = life->done;
    if (life_open(life, &err) != ERR_OK) {
        report(trial, where, damage, err.detail);
        return;
    }
    disk_watch(disk, NULL, NULL);
    if (life_check(life, true) && life_repeat(life)) {
        trial->tally->under_way += life->done > before;
        if (damage % FINISH_EVERY == 0)
            live_on(life);
    }
    if (life->complaint[0] != '\0')
        report(trial, where, damage, life->complaint);
    life_close(life);
}

/* The disk as a cut leaves it now, for a process that has just begun. */
static struct disk *cut_now(const struct disk *disk, uint64_t seed, uint32_t damage)
{
    struct rng rng = rng_new(seed, damage);
    struct disk *cut = disk_copy(disk);
    disk_cut(cut, &rng, damage);
    disk_use(cut);
    return cut;
}

/* Cuts the power a second time, at one of the syncs of a recovery. */
static int watch_recovery(void *arg, const struct disk_call *call)
{
    struct second_cut *second = arg;
    if (call->verb != DISK_SYNC || --second->left > 0)
        return DISK_GO;
    pid_t child = fork();
    if (child == 0) {
        char where[200];
        struct life life = {.script = second->life->script, .done = second->life->done};
        (void)snprintf(where, sizeof where, "%s, and again in recovery (%s)", second->where,
                       call->path);
        second->trial->tally->cuts_in_recovery++;
        struct disk *disk = second->trial->disk;
        recover(second->trial, cut_now(disk, call->number, second->damage), &life, where,
                second->damage);
        _exit(0);
    }
    await(child, second->trial, second->where, second->damage);
    return DISK_GO;
}

static void cut_once(struct trial *trial, const struct disk_call *call, uint32_t damage)
{
    char where[160];
    struct rng rng = rng_new(call->number, damage + DAMAGES);
    struct life life = {.script = trial->life->script, .done = trial->life->done};
    struct second_cut second = {.trial = trial, .damage = damage, .life = &life, .where = where};
    (void)snprintf(where, sizeof where, "sync %u (%s, step %u)", trial->tally->syncs, call->path,
                   life.done + 1);
    trial->tally->cuts++;
    trial->disk = cut_now(trial->disk, call->number, damage);
    second.left = (uint32_t)rng_between(&rng, 1, RECOVERY_SYNCS);
    disk_watch(trial->disk, watch_recovery, &second);
    recover(trial, trial->disk, &life, where, damage);
    _exit(0);
}

static bool is_tried(const struct trial *trial, uint32_t damage)
{
    if (trial->only_damage >= 0)
        return trial->only_damage == (int)damage;
    return damage == 0 || (trial->tally->syncs + damage) % trial->share == 0;
}

static int watch_syncs(void *arg, const struct disk_call *call)
{
    struct trial *trial = arg;
    struct tally *tally = trial->tally;
    if (call->verb != DISK_SYNC)
        return DISK_GO;
    tally->syncs++;
    if ((trial->share > 1 && tally->failures > 0) ||
        (trial->only_sync > 0 && trial->only_sync != tally->syncs))
        return DISK_GO;
    for (uint32_t damage = 0; damage < DAMAGES; damage++) {
        if (!is_tried(trial, damage))
            continue;
        pid_t child = fork();
        if (child == 0)
            cut_once(trial, call, damage);
        await(child, trial, call->path, damage);
    }
    return DISK_GO;
}

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : otherwise;
}

/* One life with cuts at every sync. */
static void cut_everywhere(struct trial *trial)
{
    struct script *script = script_learn();
    struct disk *disk = disk_new();
    struct life life = {.script = script};
    struct err err = {0};
    trial->life = &life;
    trial->disk = disk;
    disk_use(disk);
    disk_break(disk, trial->lie);
    disk_watch(disk, watch_syncs, trial);
    if (life_open(&life, &err) != ERR_OK)
        fail_msg("%s", err.detail);
    if (!life_finish(&life) || !life_check(&life, false))
        fail_msg("%s", life.complaint);
    life_close(&life);
    disk_use(NULL);
    disk_free(disk);
    script_free(script);
}

static struct tally *tally_new(void)
{
    struct tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(tally != MAP_FAILED);
    return tally;
}

static void nothing_acknowledged_is_lost_when_the_power_is_cut_at_any_sync(void **state)
{
    (void)state;
    struct trial trial = {
        .tally = tally_new(),
        .only_sync = (uint32_t)setting("PAWL_SYNC", 0),
        .only_damage = (int)setting("PAWL_DAMAGE", -1),
        .lie = disk_lie_find(getenv("PAWL_LIE")),
    };
    bool one = trial.only_sync > 0 || trial.only_damage >= 0;
    trial.share = getenv("TORTURE") != NULL || one ? 1 : SHARE;
    cut_everywhere(&trial);
    const struct tally *tally = trial.tally;
    print_message(
        "%u commands, %u sync points: %u cuts, %u more in recovery; after %u of them what "
        "was under way was there; %u failures\n",
        script_command_count(), tally->syncs, tally->cuts, tally->cuts_in_recovery,
        tally->under_way, tally->failures);
    if (tally->failures > 0)
        fail_msg("%s", tally->complaint);
    assert_true(tally->under_way > 0 || one);
    assert_true(tally->cuts_in_recovery > 0 || one);
    (void)munmap(trial.tally, sizeof *trial.tally);
}

static void a_sync_that_is_left_out_anywhere_is_found_out(void **state)
{
    static const enum disk_lie lies[] = {
        DISK_LIE_WAL_SYNCED_LATE,
        DISK_LIE_WAL_NOT_SYNCED,
        DISK_LIE_DATABASE_NOT_SYNCED,
        DISK_LIE_DIRECTORY_NOT_SYNCED,
    };
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct trial trial = {
            .tally = tally_new(), .only_damage = -1, .share = SHARE, .lie = lies[i]};
        cut_everywhere(&trial);
        if (trial.tally->failures == 0)
            fail_msg("nobody sees that %s", disk_lie_text(lies[i]));
        print_message("after %u cuts: %s\n", trial.tally->cuts, disk_lie_text(lies[i]));
        (void)munmap(trial.tally, sizeof *trial.tally);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost_when_the_power_is_cut_at_any_sync),
        cmocka_unit_test(a_sync_that_is_left_out_anywhere_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
