/* The schema in a database file: setting it up, and bringing an older one up to date. */
#ifndef PAWL_STORE_SQLITE_SCHEMA_H
#define PAWL_STORE_SQLITE_SCHEMA_H

#include "store/schema.h"
#include "store/sqlite/owner.h"

struct sqlite_store;

/* "Pawl": by this SQLite's header says whose file it is. */
#define SQLITE_APPLICATION_ID UINT32_C(0x5061776c)

/* Makes the database as `known` wants it. An empty one is set up in one transaction; an older one
 * is copied to PATH.vN.bak first, and migrated in one transaction. unavailable: this binary may not
 * use it, or there is no room; nothing has changed then. */
enum error_code sqlite_schema_apply(struct sqlite_store *store, enum file_content content,
                                    const struct migrations *known, struct err *err);

#endif
