/* What became of a job when its lease ended, read off its history: what happened in that moment,
 * and not what the job has come to since. */
#ifndef PAWL_CLI_FATE_H
#define PAWL_CLI_FATE_H

#include "cli/cli.h"
#include "cli/when.h"

struct fate {
    const char *how;  /* "waiting", "failed", "cancelled", ...; NULL: nobody can say */
    char detail[600]; /* more about it; "": nothing */

    /* Of a failure, what comes now: "retry", "dead_letter" or "final"; NULL: not a failure. */
    const char *next;
    char run_at[WHEN_LEN_MAX]; /* of a retry */
    long long pause_ms;        /* until then */
    char reason_code[64];      /* of a dead letter */
};

/* Finds the event that ended the lease of a task. Of a store that cannot be asked, or a job that is
 * gone, nothing can be said. */
void fate_read(struct pawl *pawl, const struct pawl_task *task, struct fate *ret);

/* What comes now, for people: "tried again in 5s"; "" when nothing is known. */
void fate_next(const struct fate *fate, char *ret, size_t size);

#endif
