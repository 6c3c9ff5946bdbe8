/* The parts of the checker: what clients did (checker.c) and were answered (check_answers.c), and
 * what is stored (check_store.c). */
#ifndef PAWL_SIM_CHECKER_H
#define PAWL_SIM_CHECKER_H

#include "core/token.h"
#include "world.h"

/* What the ledger has of a call. */
struct fact {
    const struct sim_call *call;
    uint32_t place;  /* of its first event in the ledger, from 1 on; 0: none */
    uint64_t types;  /* of its events, as bits */
    uint32_t again;  /* events of a type that it had before; of a claim see `grants` */
    uint32_t grants; /* leases that begin with its events, */
    struct uuid granted[CLAIMS_MAX]; /* of which jobs, */
    int64_t granted_at;              /* the last of them then, */
    bool apart;                      /* and not all at once */
    struct token leases[CLAIMS_MAX]; /* that a claim was answered with */
};

struct facts {
    struct world *world;
    struct fact *of; /* by number of call */
};

/* Whether its request has these words in it. */
bool call_says(const struct sim_call *call, const char *words);

const struct event *event_at(const struct facts *facts, uint32_t place);

/* The event that gave a token out; NULL: none. */
const struct event *grant_of(const struct facts *facts, struct str token);

/* What the job was submitted as; NULL: it was redacted. */
const struct spec *spec_of(const struct ledger *ledger, struct uuid job);

/* Whether the answers are true. */
void check_answers(const struct facts *facts);

/* Every job by the rules of core, what is stored against the ledger, and the counts. `ended`:
 * everything must have. False: no server is up, so that nobody can be asked. */
bool check_store(struct world *world, bool ended);

#endif
