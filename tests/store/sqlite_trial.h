/* A trial on a SQLite store whose file is known: closed, opened again, and looked into. */
#ifndef PAWL_TESTS_STORE_SQLITE_TRIAL_H
#define PAWL_TESTS_STORE_SQLITE_TRIAL_H

#include <sqlite3.h>

#include "store/fixture.h"
#include "store/sqlite_place.h"

static inline enum error_code open_place(void *arg, const struct store_options *options,
                                         struct store **ret, struct err *err)
{
    struct place *place = arg;
    return sqlite_store_open(str_from(place->path), options, ret, err);
}

static inline void discard_place(void *arg)
{
    (void)arg;
}

static struct store_factory factory = {
    .name = "sqlite", .open = open_place, .discard = discard_place};

static inline struct trial *trial_in(struct place *place)
{
    void *state = &factory;
    factory.arg = place;
    assert_int_equal(trial_setup(&state), 0);
    return state;
}

static inline void end(struct trial *t)
{
    void *state = t;
    assert_int_equal(trial_teardown(&state), 0);
}

static inline void reopen(struct trial *t)
{
    struct store_options options = t->store->options;
    store_close(t->store);
    ok(t, factory.open(factory.arg, &options, &t->store, &t->w.err));
}

/* A text from the file, which a store may have open. */
static inline const char *ask(struct place *place, const char *sql)
{
    static char text[256];
    sqlite3 *db;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(place->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(db));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    (void)snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(statement, 0));
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return text;
}

#endif
