/* Versions of a schema: which binaries may use which, and what brings an older one up to date.
 *
 * Migrations are SQL files, src/store/sqlite/migrations/0001_initial.sql and so on, compiled in as
 * they are. A schema keeps its own version and the oldest version that a binary must know to use
 * it, so that servers can be upgraded one by one. */
#ifndef PAWL_STORE_SCHEMA_H
#define PAWL_STORE_SCHEMA_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct migration {
    int64_t version;     /* 1, 2, ... */
    int64_t usable_from; /* after it: the version that a binary must know at least */
    const char *name;    /* of the file */
    struct str sql;
};

struct migrations {
    const struct migration *at; /* by version, from 1 on without a gap */
    uint32_t count;
};

enum schema_standing {
    SCHEMA_EMPTY,   /* there is nothing yet */
    SCHEMA_OLDER,   /* migrations are to be applied */
    SCHEMA_CURRENT, /* as this binary wants it, or newer and still usable */
};

/* Where a schema of `version` that says `usable_from` stands for a binary that knows `known`.
 * version 0 is an empty database. unavailable, with both versions in the detail and what to do,
 * when this binary may not use it. */
enum error_code schema_standing(const struct migrations *known, int64_t version,
                                int64_t usable_from, enum schema_standing *ret, struct err *err);

#endif
