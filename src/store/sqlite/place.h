/* Where work stands in the tables. */
#ifndef PAWL_STORE_SQLITE_PLACE_H
#define PAWL_STORE_SQLITE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct place {
    int64_t lane; /* number; 0: in none */
    int64_t rank;
    int64_t run_at;
    int64_t due_at;
    bool leased;
};

#endif
