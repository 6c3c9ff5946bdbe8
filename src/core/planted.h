/* Planted bugs: one build of the core, for tests only, in which a bug of planted.def can be
 * switched on at run time. In every other build PLANTED is the constant false and the compiler
 * drops what stands behind it.
 *
 * They prove the checkers: a test that passes with a planted bug switched on is not a test. */
#ifndef PAWL_CORE_PLANTED_H
#define PAWL_CORE_PLANTED_H

#ifdef PAWL_PLANTED

enum planted_bug {
    PLANTED_NONE,
#define PLANTED_BUG(symbol, text) PLANTED_##symbol,
#include "core/planted.def"
#undef PLANTED_BUG
    PLANTED_COUNT,
};

extern enum planted_bug planted_bug; /* defined by the test that switches it */

#define PLANTED(symbol) (planted_bug == PLANTED_##symbol)
#else
#define PLANTED(symbol) false
#endif

#endif
