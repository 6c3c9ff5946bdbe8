/* The two halves of the checker: what clients were told (checker.c), and what is stored
 * (check_store.c). */
#ifndef PAWL_SIM_CHECKER_H
#define PAWL_SIM_CHECKER_H

#include "world.h"

/* Every job by the rules of core, what is stored against the ledger, and the counts. `ended`:
 * everything must have. False: no server is up, so that nobody can be asked. */
bool check_store(struct world *world, bool ended);

#endif
