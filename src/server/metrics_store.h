/* Figures of what is in the store, counted when somebody asks for them.
 *
 * Counting looks at every job, and may block for as long as the store's timeout: a thread of its
 * own does it, and anyone who asks does not wait for it longer than a moment. What took long to
 * count is used again for a while, so that asking often does not keep the store busy. */
#ifndef PAWL_SERVER_METRICS_STORE_H
#define PAWL_SERVER_METRICS_STORE_H

#include "base/buf.h"
#include "engine/engine.h"

struct store_figures;

/* NULL: no memory, or no thread. */
struct store_figures *store_figures_open(struct engine *engine);

/* Ends it, when nobody asks any more. NULL does nothing. */
void store_figures_close(struct store_figures *figures);

/* Writes whether the store is there and, if so, all figures of it, and how old they are. Waits for
 * up to two seconds for new ones; those of before are written when that takes longer, as long as
 * the store is `seen` otherwise. */
void store_figures_write(struct store_figures *figures, bool seen, struct buf *text);

#endif
