/* Resources: the machines, browsers, accounts or devices on which steps run; and which step fits
 * where. */
#ifndef PAWL_CORE_RESOURCE_H
#define PAWL_CORE_RESOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "core/job.h"
#include "core/selector.h"

/* A list of names, read from a JSON array. */
struct names {
    struct str *at;
    uint32_t count;
};

/* When a resource that fails often is put into a cooldown and given nothing new. */
struct cooldown_policy {
    int64_t failures;  /* so many steps failed for its sake, 0: never a cooldown, */
    int64_t within_ms; /* within such a time, */
    int64_t for_ms;    /* rest it for this long; and the next failure soon after that, for longer */
};

enum {
    COOLDOWN_FAILURES_DEFAULT = 5,
    COOLDOWN_WITHIN_MS_DEFAULT = 60 * 1000,
    COOLDOWN_FOR_MS_DEFAULT = 30 * 1000,
    REST_FAILURES_MAX = 1000,
    REST_FOR_MS_MAX = 24 * 60 * 60 * 1000,
    COOLDOWN_LONGER_MAX =
        5, /* each rest in a row is twice as long as the one before, so many times */
};

struct resource {
    struct str id;
    struct names capabilities;
    struct label *labels;
    uint32_t label_count;
    int64_t slots;       /* steps it can hold at once */
    int64_t used;        /* steps it holds */
    int64_t expires_at;  /* from when it is lost unless it renews */
    int64_t ttl_ms;      /* how long it said it would live when it last renewed; 0: not known */
    bool draining;       /* takes nothing new */
    struct names queues; /* that it belongs to; none: all (core/resource_owner.h) */
    bool shared;         /* or to everybody */
    bool owned;          /* false: registered before resources belonged to anybody */
    struct cooldown_policy rest;
    int64_t failures;       /* since failing_since, of those that rest it */
    int64_t failing_since;  /* 0: it has not failed of late */
    int64_t cooldown_until; /* end of its last cooldown; 0: it had none */
    int64_t rests;          /* in a row: soon one after the other */
};

/* Reads a JSON array of names into `ret`; absent gives none. bad_request names `what`, the limit,
 * or the element that is not a name; duplicates are refused. */
enum error_code names_read(struct str json, uint32_t count_max, const char *what,
                           struct arena *arena, struct names *ret, struct err *err);

bool names_have(const struct names *names, struct str name);

/* Whether `have` contains all of `need`; else `ret_missing` (may be NULL) is the first that is
 * missing. */
bool names_cover(const struct names *have, const struct names *need, struct str *ret_missing);

/* Reads a JSON object of strings into labels; absent gives none. */
enum error_code labels_read(struct str json, uint32_t count_max, const char *what,
                            struct arena *arena, struct label **ret, uint32_t *ret_count,
                            struct err *err);

/* Checks names and labels of a request as record_check_shown does; `what` names the list. */
enum error_code names_check_shown(const struct names *names, const char *what, struct err *err);
enum error_code labels_check_shown(const struct label *labels, uint32_t count, struct err *err);

struct context;

/* From when the resource is lost: at expires_at; or, when a break kept it from renewing, as much
 * later as it may take to renew after the break. */
int64_t resource_ends_at(const struct resource *resource, const struct context *context);

struct cooldown_policy cooldown_policy_default(void);

/* Counts the failure of a step that its resource has caused. True: that was one too many, and a
 * cooldown begins. Failures during a cooldown, of steps that the resource still has, do not count.
 */
bool resource_record_failure(struct resource *resource, int64_t now);

/* Whether it is in a cooldown at `now`. */
bool resource_in_cooldown(const struct resource *resource, int64_t now);

/* Whether the resource takes anything new at `now`: it is alive, not draining, not in a cooldown,
 * and has a free slot. OK, or invalid_transition with the reason. */
enum error_code resource_check_free(const struct resource *resource, int64_t now, struct err *err);

/* Whether `step` may run on `resource` at `now`: it takes something new, has every capability, its
 * labels satisfy the selector, and it is neither on the plan's avoid list nor one that the step was
 * lost on. OK, or invalid_transition with the reason; bad_request when the step's own lists are
 * damaged. */
enum error_code resource_fits(const struct resource *resource, const struct step *step, int64_t now,
                              struct arena *arena, struct err *err);

#endif
