/* Planted bugs: a build for tests only in which a bug of planted.def can be switched on at run
 * time. In every other build PLANTED is the constant false and the compiler drops what stands
 * behind it.
 *
 * They prove the tests: a test that passes with its bug switched on is not a test.
 *
 * Two builds have them. `make mutants` (meson's -Dplanted=true) plants every layer, and switches
 * the bug that PLANTED_BUG names on when a process starts. tests/core/test_planted.c and
 * tests/sim/test_sim_planted.c have a planted core in the ordinary build, and set `planted_bug`
 * themselves. */
#ifndef PAWL_BASE_PLANTED_H
#define PAWL_BASE_PLANTED_H

#ifdef PAWL_PLANTED

enum planted_bug {
    PLANTED_NONE,
#define PLANTED_BUG(symbol, layer, text, test, name) PLANTED_##symbol,
#include "base/planted.def"
#undef PLANTED_BUG
    PLANTED_COUNT,
};

/* Those of the core come first. */
enum {
    PLANTED_IS_core = 1,
    PLANTED_IS_base = 0,
    PLANTED_IS_store = 0,
    PLANTED_IS_memory = 0,
    PLANTED_IS_sqlite = 0,
    PLANTED_IS_postgres = 0,
    PLANTED_IS_engine = 0,
    PLANTED_IS_server = 0,
    PLANTED_IS_client = 0,
    PLANTED_IS_cli = 0,
    PLANTED_CORE_COUNT = 0
#define PLANTED_BUG(symbol, layer, text, test, name) +PLANTED_IS_##layer
#include "base/planted.def"
#undef PLANTED_BUG
};

extern enum planted_bug planted_bug;

#define PLANTED(symbol) (planted_bug == PLANTED_##symbol)
#else
#define PLANTED(symbol) false
#endif

#endif
