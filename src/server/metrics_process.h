/* Figures of the process, from /proc: memory, time, open files. */
#ifndef PAWL_SERVER_METRICS_PROCESS_H
#define PAWL_SERVER_METRICS_PROCESS_H

#include "base/buf.h"

/* Writes them; those that cannot be had are left out. */
void process_figures_write(struct buf *text);

#endif
