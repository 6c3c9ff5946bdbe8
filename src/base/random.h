/* Random bytes of the system, which nobody can guess.
 *
 * With base/clock.h the only thing in base that is not a matter of its arguments: core may not call
 * it, and gets what is random with its context. */
#ifndef PAWL_BASE_RANDOM_H
#define PAWL_BASE_RANDOM_H

#include <stddef.h>

/* Fills in `len` bytes. A system that has none ends the process: ids and tokens that could be
 * guessed would be worse. */
void random_fill(void *ret, size_t len);

#endif
