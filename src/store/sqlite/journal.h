/* The log of batches in front of the database: what is committed, and not yet in its tables.
 *
 * A batch is a record, on the disk before it is acknowledged. There are two files, PATH-ahead0 and
 * PATH-ahead1, and records go to one of them until it is long; then to the other, which is free
 * when the database has durably all that was in it. Files are written over, not deleted, while the
 * store is open: blocks that are there already are synced in half the time.
 *
 * Records are numbered. Each says which number came before its own (numbers are also given to
 * commits that go straight to the database), so that a record which does not belong to the database
 * beside it is noticed. The end of a file is where no valid record with a higher number follows. */
#ifndef PAWL_STORE_SQLITE_JOURNAL_H
#define PAWL_STORE_SQLITE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "store/sqlite/owner.h"

enum {
    JOURNAL_FILES = 2,
    JOURNAL_HEAD_LEN = 64,
    JOURNAL_LONG = 16 * 1024 * 1024, /* from here on records usually go to the other file */
};

struct journal_file {
    int descriptor;
    size_t end;  /* of its records */
    size_t size; /* of the file */
    bool made;   /* it was not there */
};

struct journal {
    struct journal_file files[JOURNAL_FILES];
    uint32_t current;
};

struct journal_record {
    int64_t number;
    int64_t previous;
    struct str body; /* in the arena */
};

/* Opens the files, making them where there are none. unavailable: they cannot be used. */
enum error_code journal_open(struct journal *journal, const struct owner *owner, struct err *err);

/* Closes them. When `empty`, nothing in them is needed any more, and they are deleted; else only
 * those that were made when they were opened and have nothing in them. `owner` is NULL when what
 * has their names may be somebody else's: then nothing is deleted. */
void journal_close(struct journal *journal, const struct owner *owner, bool empty);

/* Begins a record: `body` gets room for the head, and is for the caller to add to. */
void journal_begin(struct buf *body);

/* Adds a record, which is durable then. `body` was begun with journal_begin. unavailable: there is
 * no room; payload_too_large: above 1 GiB; nothing was added then. A disk that fails ends the
 * process, as SQLite's does. */
enum error_code journal_append(struct journal *journal, int64_t number, int64_t previous,
                               struct buf *body, struct err *err);

/* Whether it is time to go to the other file; and doing so: what is in it is not needed any more.
 */
bool journal_is_long(const struct journal *journal, size_t bytes);
void journal_turn(struct journal *journal);

/* Forgets all records, so that nothing of them is in the files. None may be needed. */
void journal_erase(struct journal *journal);

/* All records, by number, for recovery; the database has all up to the number `done`. corrupt: a
 * file cannot be read, or there is a record behind one that is damaged: a commit that was cut is
 * the last. */
enum error_code journal_read(struct journal *journal, int64_t done, struct arena *arena,
                             struct journal_record **ret, uint32_t *ret_count, struct err *err);

#endif
