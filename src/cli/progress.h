/* A progress bar on stderr, for verbs that take a while; nothing where stderr is no terminal, or
 * one that cannot take a line back. */
#ifndef PAWL_CLI_PROGRESS_H
#define PAWL_CLI_PROGRESS_H

#include <stdbool.h>

struct progress {
    const char *what; /* "cancelled" */
    long long done;
    long long total; /* 0: not known, so that there is a count and no bar */
    long long shown_at;
    bool visible;
};

/* Starts one; nothing is shown before progress_show. */
struct progress progress_begin(const char *what, long long total);

/* Shows how far it is, but not so often that it flickers. */
void progress_show(struct progress *progress, long long done);

/* Takes it away until it is shown again, so that something can be printed meanwhile. */
void progress_clear(struct progress *progress);

/* Takes it away, so that what is printed next stands alone. */
void progress_end(struct progress *progress);

#endif
