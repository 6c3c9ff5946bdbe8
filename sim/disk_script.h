/* A fixed life of a SQLite store on the simulated disk: the commands of disk_script.def, which are
 * tried over and over with something going wrong at another place each time.
 *
 * The memory store, on which nothing goes wrong, lives it first: what it answers to each command,
 * and what is stored after each step, is what the SQLite store must answer and have stored. Time
 * and randomness are those of the step, so that one which is tried again comes to the same.
 *
 * A command is two steps: the engine does what has come due, then it is asked. */
#ifndef PAWL_SIM_DISK_SCRIPT_H
#define PAWL_SIM_DISK_SCRIPT_H

#include "base/error.h"
#include "disk.h"

enum { COMPLAINT_BYTES = 2000 };

#define SCRIPT_PATH DISK_ROOT "/jobs.db"

struct script;
struct store;
struct engine;

/* Lives it on the memory store. Ends the process when that cannot be done. */
struct script *script_learn(void);
void script_free(struct script *script);
uint32_t script_command_count(void); /* without the turns of what writes behind */
uint32_t script_steps(void);

/* A life on the disk that is in use. */
struct life {
    const struct script *script;
    struct store *store; /* NULL: not open */
    struct engine *engine;
    uint32_t done; /* steps that were carried out, and acknowledged */
    int64_t clock;
    char complaint[COMPLAINT_BYTES]; /* what is wrong; "": nothing */
};

/* Opens the store, and closes it. A failure leaves it closed. */
enum error_code life_open(struct life *life, struct err *err);
void life_close(struct life *life);

/* The engine anew, over the same store: it looks at everything that is due. */
enum error_code life_open_engine(struct life *life, struct err *err);

/* Carries out the next step. A failure that the memory store does not know leaves `done` as it is:
 * the step may be tried again. Another answer than its is a complaint. */
enum error_code life_step(struct life *life, struct err *err);

/* All that are left; false: one failed. */
bool life_finish(struct life *life);

/* Looks at everything: the database by SQLite's own check, every history by verify, and whether
 * what is stored is what was after the last step that was acknowledged, or, if `torn`, after the
 * one that was under way; `done` says then which. False, with a complaint, when something is wrong.
 * The store is open. */
bool life_check(struct life *life, bool torn);

/* Asks once more for the last command under a key that was carried out: its answer was kept, so
 * that it is the same and nothing is done. */
bool life_repeat(struct life *life);

/* For the first complaint. */
bool life_complain(struct life *life, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
