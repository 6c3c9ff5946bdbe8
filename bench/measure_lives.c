#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOB_BYTES_MAX = 320,
    PAYLOAD_BYTES = 200,
    OP_BYTES_MAX = 256,
    REQUEST_BYTES_MAX = MEASURE_BATCH * JOB_BYTES_MAX + 64,
};

typedef enum pawl_code verb_call(struct pawl *pawl, const char *request, char **ret_answer,
                                 struct pawl_error *error);

static char *ask(struct pawl *pawl, verb_call *verb, const char *request)
{
    struct pawl_error error;
    char *answer;
    if (verb(pawl, request, &answer, &error) != PAWL_OK)
        measure_fail(request, error.message);
    return answer;
}

static void tell(struct pawl *pawl, verb_call *verb, const char *request)
{
    pawl_free(ask(pawl, verb, request));
}

void measure_settle(struct pawl *pawl)
{
    tell(pawl, pawl_list, "{\"limit\":1}");
}

/* ---- requests ---- */

static const char *job(void)
{
    static char text[JOB_BYTES_MAX];
    if (text[0] == '\0')
        (void)snprintf(text, sizeof text, "{\"kind\":\"mail.send\",\"payload\":\"%0*d\"}",
                       PAYLOAD_BYTES - 2, 0);
    return text;
}

static const char *jobs(void)
{
    static char text[REQUEST_BYTES_MAX];
    size_t len = (size_t)snprintf(text, sizeof text, "{\"jobs\":[");
    for (int i = 0; i < MEASURE_BATCH; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", i > 0 ? "," : "", job());
    (void)snprintf(text + len, sizeof text - len, "]}");
    return text;
}

/* What completes all that the answer to a claim has, of which there must be `count`; as one batch,
 * or the one by itself. */
static const char *completion(const char *claimed, int count)
{
    static char text[MEASURE_BATCH * OP_BYTES_MAX];
    struct pawl_json claims = pawl_json_get(pawl_json_read(claimed), "claims");
    struct pawl_json claim = {NULL, 0};
    size_t len = 0;
    int found = 0;
    if (count > 1)
        len = (size_t)snprintf(text, sizeof text, "{\"ops\":[");
    while (pawl_json_next(claims, &claim, NULL) != 0) {
        struct pawl_json token = pawl_json_get(claim, "lease.token");
        len += (size_t)snprintf(text + len, sizeof text - len, "%s{%s\"token\":%.*s}",
                                found > 0 ? "," : "", count > 1 ? "\"op\":\"complete\"," : "",
                                (int)token.len, token.at);
        found++;
    }
    if (found != count)
        measure_fail("a claim did not bring what is there", claimed);
    if (count > 1)
        (void)snprintf(text + len, sizeof text - len, "]}");
    return text;
}

static void work(struct pawl *pawl, int count)
{
    char request[96];
    (void)snprintf(request, sizeof request, "{\"worker_id\":\"worker-1\",\"max\":%d}", count);
    char *claimed = ask(pawl, pawl_claim, request);
    tell(pawl, count > 1 ? pawl_batch : pawl_complete, completion(claimed, count));
    pawl_free(claimed);
}

/* ---- scenarios ---- */

/* The first of everything costs more than the others. */
static void warm_up(struct pawl *pawl)
{
    tell(pawl, pawl_submit, jobs());
    work(pawl, MEASURE_BATCH);
    tell(pawl, pawl_submit, job());
    work(pawl, 1);
    measure_settle(pawl);
}

static void submit_each(struct pawl *pawl)
{
    for (int i = 0; i < MEASURE_SINGLE; i++)
        tell(pawl, pawl_submit, job());
    measure_settle(pawl);
}

static void fill(struct pawl *pawl)
{
    warm_up(pawl);
    for (int i = 0; i < MEASURE_SINGLE; i += MEASURE_BATCH)
        tell(pawl, pawl_submit, jobs());
    measure_settle(pawl);
}

static void work_each(struct pawl *pawl)
{
    for (int i = 0; i < MEASURE_SINGLE; i++)
        work(pawl, 1);
    measure_settle(pawl);
}

static void live_in_batches(struct pawl *pawl)
{
    for (int i = 0; i < MEASURE_BATCHES; i++) {
        tell(pawl, pawl_submit, jobs());
        work(pawl, MEASURE_BATCH);
    }
    measure_settle(pawl);
}

const struct measured measured[] = {
    {"submit", warm_up, submit_each, MEASURE_SINGLE},
    {"work", fill, work_each, MEASURE_SINGLE},
    {"batch", warm_up, live_in_batches, MEASURE_BATCH *MEASURE_BATCHES},
    {NULL, NULL, NULL, 0},
};

const struct measured *measured_find(const char *name)
{
    for (const struct measured *at = measured; at->name != NULL; at++)
        if (strcmp(at->name, name) == 0)
            return at;
    measure_fail("there is no such scenario", name);
}

int measured_list(void)
{
    int status = 0;
    for (const struct measured *at = measured; at->name != NULL; at++)
        status |= puts(at->name) < 0;
    return status;
}
