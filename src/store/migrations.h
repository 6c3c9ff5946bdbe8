/* The migrations that this binary knows, made from the SQL files by scripts/embed-sql. */
#ifndef PAWL_STORE_MIGRATIONS_H
#define PAWL_STORE_MIGRATIONS_H

#include "store/schema.h"

extern const struct migrations sqlite_migrations;
extern const struct migrations postgres_migrations;

#endif
