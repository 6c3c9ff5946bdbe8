#include "engine/plan_case.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MINUTE_MS = 60 * 1000 };

/* A text as of printf, with " for every '. */
const char *json(struct talk *t, const char *format, ...)
{
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert_in_range(len, 0, (int)sizeof text - 1);
    for (char *at = text; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    return phrase(t, "%s", text);
}

const char *submit_steps(struct talk *t, const char *steps)
{
    does(t, pawl_submit, "%s", json(t, "{'kind':'crew','plan':{'steps':%s}}", steps));
    return text_at(t, "id");
}

void have_resource(struct talk *t, const char *id, const char *more)
{
    does(t, pawl_resource_put, "%s", json(t, "{'id':'%s','ttl_ms':%d%s}", id, MINUTE_MS, more));
}

/* Claims a step on a resource without waiting; "" when there is none to be had. */
const char *try_claim(struct talk *t, const char *resource, const char *more)
{
    does(t, pawl_claim_steps, "%s",
         json(t, "{'worker_id':'w','resource_id':'%s','lease_ttl_ms':%d%s}", resource, STEP_TTL_MS,
              more));
    return text_at(t, "claims.0.lease.token");
}

const char *claim_step(struct talk *t, const char *resource, const char *more)
{
    const char *token = try_claim(t, resource, json(t, ",'wait_ms':%d%s", PATIENCE_MS, more));
    if (*token == '\0')
        fail_msg("%s got no step: %s", resource, t->answer);
    return token;
}

void tell(struct talk *t, pawl_verb verb, const char *token, const char *more)
{
    does(t, verb, "%s", json(t, "{'token':'%s'%s}", token, more));
}

void complete_step(struct talk *t, const char *token)
{
    tell(t, pawl_complete, token, ",'result':1");
}

const char *failure(struct talk *t, const char *class)
{
    return json(t, ",'error':{'class':'%s','message':'no'}", class);
}
