/* Fresh stores for tests: memory, a file in a directory of its own, a database of its own on the
 * server that PAWL_TEST_POSTGRES names (scripts/with-postgres starts one). */
#ifndef PAWL_TESTS_TEST_STORES_H
#define PAWL_TESTS_TEST_STORES_H

#include <stdint.h>

enum test_store { TEST_MEMORY, TEST_SQLITE, TEST_POSTGRES, TEST_STORE_COUNT };

extern const char *const test_store_names[TEST_STORE_COUNT];

struct test_stores {
    char directory[64];
    char url[1024]; /* of the last one */
    char database[64];
    uint32_t made;
    uint32_t made_databases;
};

void test_stores_init(struct test_stores *stores);

/* Deletes every file and database that was made; the stores must be closed. */
void test_stores_release(struct test_stores *stores);

/* The URL of an empty store of that sort; valid until the next call. Aborts, saying why, when there
 * is none to be had. */
const char *test_stores_fresh(struct test_stores *stores, enum test_store sort);

#endif
