/* The simulator: many servers, workers, clients and operators over one store, in one thread and in
 * a time of its own, with faults; all of it from one seed.
 *
 * A run has two phases. In the first, until so many commands were given, faults strike. Then the
 * world is healed: the faults stop, and everything that was begun must end. After each phase the
 * checker holds what clients were told against what is stored (checker.c says by which rules).
 *
 * The same scenario always gives the same trace, byte for byte. Nothing here may look at a clock,
 * an address or anything else that is not from the seed. */
#ifndef PAWL_SIM_SIM_H
#define PAWL_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/hash.h"
#include "core/machine.h"
#include "disk.h"
#include "engine/verb.h"

enum sim_fault {
#define SIM_FAULT(symbol, name, text) FAULT_##symbol,
#include "fault.def"
#undef SIM_FAULT
    FAULT_COUNT,
};

#define FAULTS_ALL ((UINT32_C(1) << FAULT_COUNT) - 1)
#define ACTORS_ALL UINT32_MAX

enum { COMMANDS_DEFAULT = 200, ACTORS_MAX = 32 };

/* How a store can be broken, to prove that the checker sees it. */
enum sim_lie {
    LIE_NONE,
    LIE_COMMIT, /* some commits are acknowledged and not made */
    LIE_KEYS,   /* answers are not kept for requests that come again */
    LIE_BEATS,  /* heartbeats are acknowledged and not kept */
    LIE_TIMERS, /* nothing is ever due */
};

/* Over which store the world is. */
enum sim_store {
    SIM_MEMORY, /* many servers */
    SIM_SQLITE, /* one server, on a simulated disk: crashes end its process, or cut the power */
};

/* The nth command of an actor. */
struct sim_command {
    uint16_t actor;
    uint16_t nth;
};

/* What is run. All but the seed is for making a failure smaller. */
struct scenario {
    uint64_t seed;
    enum sim_store store;
    uint32_t commands; /* in the first phase */
    uint32_t faults;   /* bit per enum sim_fault: which may strike */
    uint32_t actors;   /* bit per actor: who takes part; healing needs all of them, and has them */
    struct sim_command *skipped; /* commands that are not given */
    uint32_t skipped_count;
    enum sim_lie lie;
    enum disk_lie disk_lie; /* on SQLite */
};

/* How often what happened, over any number of runs. */
struct sim_counts {
    uint64_t runs;
    uint64_t commands; /* of the first phases */
    uint64_t calls;    /* of both */
    uint64_t ok;
    uint64_t refused;
    uint64_t unknown;
    uint64_t many; /* claims that were given more than one lease */
    uint64_t jobs;
    uint64_t purged;
    uint64_t events;
    uint64_t crashes;
    uint64_t virtual_ms;
    uint64_t verbs[VERB_COUNT]; /* those that went well */
    uint64_t faults[FAULT_COUNT];
    uint64_t ended[JOB_STATUS_COUNT];
};

enum { RULE_BYTES = 32, DETAIL_BYTES = 400 };

struct sim_result {
    bool failed;
    char rule[RULE_BYTES]; /* which of the checker's */
    char detail[DETAIL_BYTES];
    uint8_t hash[HASH_LEN]; /* of the trace */
    char *trace;            /* with its end; the result's */
    size_t trace_len;
    struct sim_command *given; /* the commands of the first phase, in their order; the result's */
    uint32_t given_count;
};

/* Runs a scenario and adds to `counts`. With `live` every line of the trace is also written there
 * as it comes, so that it is there even when an assertion ends the process. */
void sim_run(const struct scenario *scenario, FILE *live, struct sim_counts *counts,
             struct sim_result *ret);
void sim_result_release(struct sim_result *result);

/* Makes a failing scenario smaller while it fails by the same rule (NULL: by an assertion): fewer
 * faults, actors and commands. `skipped` of the result is the scenario's own, or the caller's to
 * free. */
struct scenario sim_minimise(const struct scenario *scenario, const char *rule);

const char *sim_fault_name(enum sim_fault fault);

#endif
