/* A fixed life of a SQLite store (sim/disk_script.def) in which one file call fails, or one and all
 * after it, or one allocation; every one of them in turn. Nothing that was acknowledged is lost,
 * what failed has left nothing behind, the caller is told why, nothing is damaged, and when the
 * fault is over life goes on to the same end. The process may end itself only where that is
 * promised: when a sync fails, or the log in front of the database cannot be written.
 *
 * At each call this process forks: in the child it fails, and the child lives on. PAWL_POINT=… runs
 * one of them only, PAWL_SHARDS=4 PAWL_SHARD=0 to 3 a part of all of them; PAWL_LIE=…, a name in
 * sim/disk_lie.def, breaks the disk in that way, which must make this fail; PAWL_VERBOSE=1 shows
 * everything that is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk_script.h"

enum {
    CALL_SHARE = 60,    /* in the short form one of so many file calls fails, */
    MEMORY_SHARE = 400, /* and one of so many allocations */
    FIRST_KILL = 34,    /* steps after which the process is killed, and again */
    SECOND_KILL = 75,
    REOPENED_EVERY = 8, /* and then one of so many stores is closed and looked at again */
    TRIES_MAX = 3,
    CHILD_SECONDS_MAX = 60,
};

enum fault_sort { FAULT_IO, FAULT_FULL, FAULT_SHORT, FAULT_SYNC, FAULT_MEMORY, FAULT_SORTS };

static const char *const fault_names[] = {"EIO", "ENOSPC", "short", "failed sync", "no memory"};
static const int fault_numbers[] = {EIO, ENOSPC, DISK_SHORT, EIO, ENOMEM};

/* What all processes together came to. */
struct tally {
    uint32_t points;
    uint32_t tried;
    uint32_t runs[FAULT_SORTS][2]; /* once, and for good */
    uint32_t told;                 /* times that a caller was told */
    uint32_t ended;                /* processes that ended themselves, as promised */
    uint32_t failures;
    char complaint[COMPLAINT_BYTES];
};

/* The malloc below has no argument to keep it in. */
static struct {
    struct tally *tally;
    struct life *life;
    struct disk *disk;
    uint32_t share;
    uint32_t only;  /* this point; 0: all */
    uint32_t shard; /* of `share` points this one */
    bool counts_memory;
    bool child;
    /* A child's: */
    enum fault_sort sort;
    bool for_good;
    bool healed;
    bool fired; /* in this step */
    bool may_end;
    uint32_t cut_at; /* so many steps: the power is cut then */
    uint32_t tries;
    char where[160];
    sigjmp_buf ended;
} trial;

/* ---- children ---- */

static _Noreturn void child_end(void)
{
    struct tally *tally = trial.tally;
    const char *what = trial.life->complaint;
    if (what[0] != '\0' && getenv("PAWL_VERBOSE") != NULL)
        (void)fprintf(stderr, "%s: %s\n", trial.where, what);
    if (what[0] != '\0' && tally->failures++ == 0)
        (void)snprintf(tally->complaint, sizeof tally->complaint, "%s: %.1800s", trial.where, what);
    _exit(0);
}

static void await(pid_t child, const char *where)
{
    int status = 0;
    struct tally *tally = trial.tally;
    bool good = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                WEXITSTATUS(status) == 0;
    if (!good && tally->failures++ == 0)
        (void)snprintf(tally->complaint, sizeof tally->complaint, "%s: the child ended with %x",
                       where, (unsigned)status);
}

static void on_abort(int number)
{
    (void)number;
    siglongjmp(trial.ended, 1);
}

/* Whether a process is allowed to end because of it. */
static bool may_end_for(enum disk_verb verb, const char *path)
{
    return verb == DISK_SYNC || (verb == DISK_TRUNCATE && strstr(path, "-ahead") != NULL);
}

static bool applies(enum fault_sort sort, enum disk_verb verb)
{
    switch (sort) {
    case FAULT_IO:
        return verb != DISK_SYNC;
    case FAULT_FULL:
        return verb == DISK_WRITE || verb == DISK_OPEN;
    case FAULT_SHORT:
        return verb == DISK_WRITE || verb == DISK_READ;
    case FAULT_SYNC:
        return verb == DISK_SYNC;
    default:
        return false;
    }
}

static int fire(const struct disk_call *call)
{
    trial.fired = true;
    trial.may_end = trial.may_end || may_end_for(call->verb, call->path);
    return fault_numbers[trial.sort];
}

/* The same process twice: true in the child, in which this happens. */
static bool happens(enum fault_sort sort, bool for_good, const char *where)
{
    (void)fflush(NULL);
    trial.tally->runs[sort][for_good]++;
    pid_t child = fork();
    if (child != 0) {
        await(child, where);
        return false;
    }
    trial.child = true;
    trial.sort = sort;
    trial.for_good = for_good;
    (void)snprintf(trial.where, sizeof trial.where, "%s", where);
    (void)signal(SIGABRT, on_abort);
    (void)alarm(CHILD_SECONDS_MAX);
    return true;
}

/* Whether this point is one that is tried. */
static bool is_chosen(void)
{
    uint32_t point = ++trial.tally->points;
    bool chosen = trial.only > 0 ? trial.only == point : point % trial.share == trial.shard;
    /* The first failure will do, unless all are wanted. */
    chosen = chosen && (trial.share == 1 || trial.tally->failures == 0);
    trial.tally->tried += chosen;
    return chosen;
}

static int watch(void *arg, const struct disk_call *call)
{
    (void)arg;
    if (trial.child && trial.for_good && !trial.healed && applies(trial.sort, call->verb))
        return fire(call);
    if (trial.child || trial.counts_memory || !is_chosen())
        return DISK_GO;
    for (enum fault_sort sort = 0; sort < FAULT_MEMORY; sort++)
        for (int for_good = 0; for_good < 2 && applies(sort, call->verb); for_good++) {
            char where[160];
            (void)snprintf(where, sizeof where, "point %u (%s %.40s, step %u), %s %s",
                           trial.tally->points, disk_verb_name(call->verb), call->path,
                           trial.life->done + 1, fault_names[sort], for_good ? "for good" : "once");
            if (happens(sort, for_good != 0, where))
                return fire(call);
        }
    return DISK_GO;
}

/* ---- memory ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STARVING 0
#else
#define STARVING 1
void *__libc_malloc(size_t size);               /* NOLINT: glibc's own */
void *__libc_calloc(size_t count, size_t size); /* NOLINT */
void *__libc_realloc(void *at, size_t size);    /* NOLINT */

/* Whether this allocation is one that fails. */
static bool fails(void)
{
    if (!trial.counts_memory || trial.child || disk_is_busy() || !is_chosen())
        return false;
    char where[160];
    (void)snprintf(where, sizeof where, "allocation %u (step %u)", trial.tally->points,
                   trial.life->done + 1);
    trial.counts_memory = false; /* while it forks */
    bool failing = happens(FAULT_MEMORY, false, where);
    trial.counts_memory = true;
    trial.fired = trial.fired || failing;
    return failing;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *at, size_t size)
{
    return fails() ? NULL : __libc_realloc(at, size);
}
#endif

/* ---- living with it ---- */

/* When the fault is over: what was acknowledged is there, and life goes on to its end. */
static void live_on(struct life *life)
{
    struct err err = {0};
    trial.healed = true;
    if (life_open(life, &err) != ERR_OK)
        (void)life_complain(life, "when the fault was over: %s", err.detail);
    else if (life_check(life, true) && life->done < script_steps() && life_finish(life))
        (void)life_check(life, false);
    life_close(life);
}

/* A process that ended is followed by another, after a power cut. */
static _Noreturn void after_end(uint32_t style)
{
    static struct life next;
    struct rng rng = rng_new(trial.tally->points, trial.sort);
    next = (struct life){.script = trial.life->script, .done = trial.life->done};
    trial.life = &next;
    if (!trial.may_end)
        (void)life_complain(&next, "the process ended itself");
    struct disk *disk = disk_copy(trial.disk);
    disk_cut(disk, &rng, style);
    disk_use(disk);
    live_on(&next);
    child_end();
}

/* This process is killed, with something in the log, and another goes on: so what it does to
 * recover can fail too. */
static void begin_anew(struct life *life)
{
    struct disk *before = trial.disk;
    bool counted = trial.counts_memory;
    trial.counts_memory = false;
    trial.disk = disk_copy(before);
    disk_watch(before, NULL, NULL);
    life_close(life);
    trial.counts_memory = counted;
    disk_free(before);
    disk_use(trial.disk);
    disk_watch(trial.disk, watch, NULL);
}

/* A step has failed: with a fault that stays the process is ended as it would be by hand, and
 * another is started when the fault is over. Else the step is tried again. */
static void failed(struct life *life, const struct err *err)
{
    struct err again = {0};
    uint32_t done = life->done;
    trial.tally->told++;
    if (!trial.child)
        (void)life_complain(life, "without a fault: %s", err->detail);
    else if (err->detail[0] == '\0')
        (void)life_complain(life, "it failed with %d and no reason", err->code);
    else if (!trial.for_good && ++trial.tries > TRIES_MAX)
        (void)life_complain(life, "it does not end: %s", err->detail);
    if (life->complaint[0] == '\0' && !trial.for_good)
        return;
    if (trial.for_good && life->engine != NULL)
        (void)life_step(life, &again);
    if (done % 2 == 0) /* nobody is told whether what is due was done */
        life->done = done;
    life_close(life);
    if (trial.child && life->complaint[0] == '\0')
        live_on(life);
    if (trial.child)
        child_end();
    fail_msg("%s", life->complaint);
}

/* What the engine does by itself fails in silence, and is done when it looks again. */
static void settle_again(struct life *life)
{
    struct err err = {0};
    life->done--;
    if (trial.for_good || life_open_engine(life, &err) != ERR_OK) {
        (void)snprintf(err.detail, sizeof err.detail, "%s", "what is due was not done");
        failed(life, &err);
    }
}

/* Who goes on after a failed sync must not have needed it: the power is cut. */
static void cut_after_sync(const struct life *life)
{
    if (!trial.child || trial.sort != FAULT_SYNC)
        return;
    if (trial.fired)
        trial.cut_at = life->done + 2;
    if (life->done >= trial.cut_at)
        after_end(0);
}

static void live(struct life *life)
{
    static const uint32_t kills[] = {FIRST_KILL, SECOND_KILL, UINT32_MAX};
    const uint32_t *kill_at = kills;
    struct err err = {0};
    while (life->done < script_steps() && life->complaint[0] == '\0') {
        bool settles = life->done % 2 == 0;
        trial.fired = false;
        err = (struct err){0};
        if (life->done == *kill_at) {
            kill_at++;
            begin_anew(life);
        }
        if (life->store == NULL && life_open(life, &err) != ERR_OK)
            failed(life, &err);
        else if (life->engine == NULL && life_open_engine(life, &err) != ERR_OK)
            failed(life, &err);
        else if (life_step(life, &err) != ERR_OK)
            failed(life, &err);
        else if (settles && trial.fired && trial.sort != FAULT_SHORT)
            settle_again(life);
        cut_after_sync(life);
    }
    if (trial.child && trial.sort == FAULT_MEMORY && trial.tally->points % REOPENED_EVERY != 0) {
        (void)life_check(life, false);
        child_end();
    }
    life_close(life);
    if (trial.child && life->complaint[0] == '\0')
        live_on(life);
    if (trial.child)
        child_end();
    if (life->complaint[0] != '\0')
        fail_msg("%s", life->complaint);
}

/* One life, and as many more as there are points in it. */
static void try_all(uint32_t share, bool memory, enum disk_lie lie)
{
    struct script *script = script_learn();
    struct life life = {.script = script};
    const char *only = getenv("PAWL_POINT");
    memset(&trial, 0, sizeof trial);
    trial.tally =
        mmap(NULL, sizeof *trial.tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(trial.tally != MAP_FAILED);
    trial.life = &life;
    trial.disk = disk_new();
    const char *shards = getenv("PAWL_SHARDS");
    const char *shard = getenv("PAWL_SHARD");
    trial.share = shards != NULL                          ? (uint32_t)strtoul(shards, NULL, 10)
                  : getenv("TORTURE") != NULL && lie == 0 ? 1
                                                          : share;
    trial.shard = shard != NULL ? (uint32_t)strtoul(shard, NULL, 10) : 0;
    trial.only = only != NULL ? (uint32_t)strtoul(only, NULL, 10) : 0;
    disk_use(trial.disk);
    disk_break(trial.disk, lie);
    disk_watch(trial.disk, watch, NULL);
    if (sigsetjmp(trial.ended, 1) != 0) {
        trial.tally->ended++;
        after_end(trial.tally->points % DISK_STYLES);
    }
    trial.counts_memory = memory;
    live(&life);
    trial.counts_memory = false;
    disk_use(NULL);
    disk_free(trial.disk);
    script_free(script);
}

static void show_tally(const char *points)
{
    const struct tally *tally = trial.tally;
    print_message("%u commands, %u %s, %u of them tried; callers were told of %u failures, %u "
                  "processes ended themselves; %u failures of the test\n",
                  script_command_count(), tally->points, points, tally->tried, tally->told,
                  tally->ended, tally->failures);
    for (int sort = 0; sort < FAULT_SORTS; sort++)
        if (tally->runs[sort][0] > 0)
            print_message("  %s: %u once, %u for good\n", fault_names[sort], tally->runs[sort][0],
                          tally->runs[sort][1]);
}

static void nothing_is_lost_when_any_file_call_fails_once_or_for_good(void **state)
{
    (void)state;
    try_all(CALL_SHARE, false, disk_lie_find(getenv("PAWL_LIE")));
    show_tally("file calls");
    if (trial.tally->failures > 0)
        fail_msg("%s", trial.tally->complaint);
    (void)munmap(trial.tally, sizeof *trial.tally);
}

static void nothing_is_lost_when_any_allocation_fails(void **state)
{
    (void)state;
    if (!STARVING)
        skip();
    try_all(MEMORY_SHARE, true, DISK_HONEST);
    show_tally("allocations");
    if (trial.tally->failures > 0)
        fail_msg("%s", trial.tally->complaint);
    (void)munmap(trial.tally, sizeof *trial.tally);
}

static void a_failure_that_is_ignored_is_found_out(void **state)
{
    static const struct {
        enum disk_lie lie;
        uint32_t share;
    } lies[] = {
        {DISK_LIE_SHORT_WRITE_IGNORED, 20},
        {DISK_LIE_FULL_IGNORED, 20},
        {DISK_LIE_SYNC_FAILURE_IGNORED, 20},
    };
    (void)state;
    if (getenv("PAWL_SHARDS") != NULL || getenv("PAWL_POINT") != NULL)
        skip();
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        try_all(lies[i].share, false, lies[i].lie);
        if (trial.tally->failures == 0)
            fail_msg("nobody sees that %s", disk_lie_text(lies[i].lie));
        print_message("after %u calls: %s\n", trial.tally->tried, disk_lie_text(lies[i].lie));
        (void)munmap(trial.tally, sizeof *trial.tally);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_when_any_file_call_fails_once_or_for_good),
        cmocka_unit_test(a_failure_that_is_ignored_is_found_out),
        cmocka_unit_test(nothing_is_lost_when_any_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
