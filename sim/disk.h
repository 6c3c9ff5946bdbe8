/* A disk in memory, on which power can be cut.
 *
 * Whatever this process does with paths below DISK_ROOT happens here: disk_calls.c replaces
 * the calls of the C library by which the store, and SQLite's own unix VFS, come to files. So both
 * are those that ship, and nothing in them knows of this.
 *
 * What is written is seen at once, and is on the disk only when it was synced; a name is only when
 * its directory was. A power cut leaves anything of the rest: pieces of writes by sectors of 512
 * bytes, in any order, torn, or rubbish where a file had grown. A sync that fails throws away what
 * it was to write, as kernels do: the next one says that all is well.
 *
 * One thread only. All descriptors are above DISK_DESCRIPTORS, so that they are nobody else's. */
#ifndef PAWL_SIM_DISK_H
#define PAWL_SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "virtual_random.h"

#define DISK_ROOT "/simulated"

enum { DISK_DESCRIPTORS = 1 << 20, DISK_STYLES = 20 };

enum disk_verb {
#define DISK_VERB(symbol, name, changes) DISK_##symbol,
#include "disk_verb.def"
#undef DISK_VERB
    DISK_VERB_COUNT,
};

enum disk_lie {
    DISK_HONEST,
#define DISK_LIE(symbol, text) DISK_LIE_##symbol,
#include "disk_lie.def"
#undef DISK_LIE
    DISK_LIE_COUNT,
};

const char *disk_verb_name(enum disk_verb verb);
bool disk_verb_changes(enum disk_verb verb);
const char *disk_lie_text(enum disk_lie lie);

/* By its name in disk_lie.def; DISK_HONEST if unknown, or no name. */
enum disk_lie disk_lie_find(const char *name);

struct disk;

/* A call that is about to be carried out. */
struct disk_call {
    enum disk_verb verb;
    const char *path;
    uint64_t number; /* from 1 on, for each disk */
};

/* What is to become of it: DISK_GO, an errno to fail with, or DISK_SHORT: half of it is done. */
enum { DISK_GO = 0, DISK_SHORT = -1 };
typedef int disk_watcher(void *arg, const struct disk_call *call);

/* An empty disk; and one as a process finds it when the one before has ended: as it was, with
 * nothing open. These end the process when there is no memory. */
struct disk *disk_new(void);
struct disk *disk_copy(const struct disk *from);
void disk_free(struct disk *freed);

/* The power is cut: what was not synced is there in part, by `rng` and one of DISK_STYLES styles:
 * none of it, all of it, all up to a moment, or any. Nothing may be open. */
void disk_cut(struct disk *of, struct rng *rng, uint32_t style);

/* Whose files the calls of this process are about from now on; NULL: there are none. */
void disk_use(struct disk *used);

/* Who decides what becomes of calls; NULL: they are carried out. */
void disk_watch(struct disk *of, disk_watcher *watcher, void *arg);
void disk_break(struct disk *of, enum disk_lie lie);

/* Whether a call is being carried out: what the disk itself allocates is not the program's. */
bool disk_is_busy(void);

/* ---- what disk_calls.c asks for: as the calls of that name, with errno ---- */

bool disk_has_path(const char *path);
bool disk_has_descriptor(int descriptor);
int disk_open(const char *path, int flags);
int disk_close(int descriptor);
ssize_t disk_read(int descriptor, void *ret, size_t len, size_t at);
ssize_t disk_write(int descriptor, const void *bytes, size_t len, size_t at);
int disk_truncate(int descriptor, size_t size);
int disk_sync(int descriptor);
int disk_stat(const char *path, struct stat *ret);
int disk_stat_open(int descriptor, struct stat *ret);
int disk_access(const char *path);
int disk_unlink(const char *path);
int disk_rename(const char *from, const char *to, bool keeps);
int disk_lock(int descriptor, int operation);
int disk_note(int descriptor, const struct timespec *at);
void *disk_map(int descriptor, size_t len);
bool disk_unmap(void *at);

#endif
