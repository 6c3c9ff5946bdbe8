/* What the programs under scripts/bench share: the two moments between which instructions are
 * counted, the lives that are measured, and clocks that do not depend on the machine. */
#ifndef PAWL_BENCH_MEASURE_H
#define PAWL_BENCH_MEASURE_H

#include <stdbool.h>

#include "pawl.h"

/* callgrind counts what all threads do from the one call to the other. */
void measure_begin(void);
void measure_end(void);

/* ---- measure_lives.c: jobs through pawl.h ---- */

enum { MEASURE_SINGLE = 400, MEASURE_BATCH = 100, MEASURE_BATCHES = 10 };

/* A scenario, on a store or a server: what must be there before, what is measured, and how many
 * jobs that is about. Each ends the program, saying why, when something is not as it must be. */
struct measured {
    const char *name;
    void (*prepare)(struct pawl *pawl);
    void (*work)(struct pawl *pawl);
    int jobs;
};

/* Ends with one without a name. */
extern const struct measured measured[];

const struct measured *measured_find(const char *name);

/* Prints all names, for --list. */
int measured_list(void);

/* Waits until the rows of everything that was committed are written. */
void measure_settle(struct pawl *pawl);

/* ---- measure_place.c ---- */

/* A directory of our own for a store, whose URL is returned; deleted by measure_leave. */
const char *measure_place(void);
void measure_leave(void);

/* ---- measure_tools.c ---- */

/* Prints what it is built with: other compilers and libraries make other counts. */
int measure_tools(void);

_Noreturn void measure_fail(const char *what, const char *why);

#endif
