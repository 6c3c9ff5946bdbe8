#include "script.h"

#include <assert.h>

#include "base/buf.h"
#include "core/spec.h"

static uint64_t below(struct script *script, uint64_t limit)
{
    return next_random(&script->random) % limit;
}

static bool chance(struct script *script, uint64_t percent)
{
    return below(script, 100) < percent;
}

static struct str pick(struct script *script, const struct str *from, size_t count)
{
    return from[below(script, count)];
}

#define PICK(script, list) pick(script, list, sizeof(list) / sizeof((list)[0]))

static const struct str queues[] = {STR_INIT("default"), STR_INIT("mail"), STR_INIT("a \"b\" \\c")};
static const struct str versions[] = {STR_INIT("v41"), STR_INIT("v42")};
static const struct str kinds[] = {STR_INIT("send"), STR_INIT("index"), STR_INIT("häß'lich")};
static const struct str keys[] = {STR_INIT("alpha"), STR_INIT("beta"), STR_INIT("s1")};
static const struct str values[] = {STR_INIT("1"),
                                    STR_INIT("\"two\""),
                                    STR_INIT("{\"n\":3.10}"),
                                    STR_INIT("null"),
                                    STR_INIT("[\"\\u0000\",\"ü\"]"),
                                    {NULL, 0}};
static const struct str ids[] = {STR_INIT("id-1"), STR_INIT("id-2"), {NULL, 0}, {NULL, 0}};
static const struct str steps[] = {STR_INIT("s0"), STR_INIT("s1"), STR_INIT("s2"), STR_INIT("s3")};
static const struct str resource_ids[] = {STR_INIT("r1"), STR_INIT("r2"), STR_INIT("r3")};

static void *hold(struct script *script, const void *value, size_t size)
{
    void *copy = arena_alloc(&script->arena, size);
    assert(copy != NULL);
    memcpy(copy, value, size);
    return copy;
}

static struct names names_of(struct script *script, const struct str *from, size_t count,
                             uint64_t percent)
{
    struct names names = {arena_zalloc(&script->arena, count, sizeof *names.at), 0};
    assert(names.at != NULL);
    for (size_t i = 0; i < count; i++)
        if (chance(script, percent))
            names.at[names.count++] = from[i];
    return names;
}

void script_init(struct script *script, uint64_t seed, int64_t start)
{
    *script = (struct script){.random = seed, .now = start};
    arena_init(&script->arena);
    for (uint32_t i = 0; i < SCRIPT_RESOURCES; i++) {
        static struct str gpu[] = {STR_INIT("gpu")};
        static struct label zone[] = {{STR_INIT("zone"), STR_INIT("a")}};
        script->resources[i] = (struct resource){
            .id = resource_ids[i],
            .capabilities = {gpu, i % 2},
            .labels = zone,
            .label_count = i < 2,
            .slots = (int64_t)i + 1,
        };
    }
}

void script_release(struct script *script)
{
    arena_release(&script->arena);
}

static struct str random_plan(struct script *script)
{
    struct buf buf;
    uint64_t count = below(script, 4) + 1;
    buf_init(&buf, &script->arena, 512);
    buf_add_char(&buf, '[');
    for (uint64_t i = 0; i < count; i++) {
        bool waits = chance(script, 20);
        buf_addf(&buf, "%s{\"id\":\"s%d\",\"deps\":[", i > 0 ? "," : "", (int)i);
        bool first = true;
        for (uint64_t dep = 0; dep < i; dep++) {
            if (!chance(script, 40))
                continue;
            buf_addf(&buf, "%s\"s%d\"", first ? "" : ",", (int)dep);
            first = false;
        }
        buf_addf(&buf, "],\"retry\":{\"max_attempts\":%d,\"initial_ms\":50}",
                 (int)below(script, 3) + 1);
        if (waits && chance(script, 40))
            buf_addf(&buf, ",\"wait\":{\"type\":\"timer\",\"delay_ms\":200}");
        else if (waits)
            buf_addf(&buf, ",\"wait\":{\"type\":\"signal\",\"correlation_key\":\"alpha\"}");
        else if (chance(script, 30))
            buf_addf(&buf, ",\"critic\":true");
        if (!waits && chance(script, 20))
            buf_addf(&buf, ",\"selector\":\"zone=a\"");
        if (!waits && chance(script, 20))
            buf_addf(&buf, ",\"capabilities\":[\"gpu\"]");
        if (!waits && chance(script, 20))
            buf_addf(&buf, ",\"avoid\":[\"r3\"]");
        if (chance(script, 40))
            buf_addf(&buf, ",\"on_failure\":\"continue\"");
        buf_addf(&buf, ",\"kind\":\"send\"}");
    }
    buf_add_char(&buf, ']');
    return buf_str(&buf);
}

static void random_submit(struct script *script, struct op *op)
{
    struct spec spec = spec_defaults(NULL);
    uint8_t random[10] = {0};
    uint32_t number = ++script->ids;
    random[9] = (uint8_t)number;
    random[8] = (uint8_t)(number >> 8);
    spec.kind = PICK(script, kinds);
    spec.queue = PICK(script, queues);
    spec.payload = PICK(script, values);
    spec.priority = (int64_t)below(script, 3) - 1;
    spec.retry.max_attempts = (int64_t)below(script, 3) + 1;
    spec.retry.initial_ms = 100;
    spec.retry.max_ms = 1000;
    spec.retry.on_permanent = chance(script, 30) ? EXHAUSTED_DEAD_LETTER : EXHAUSTED_NONE;
    spec.in_doubt = (enum doubt_policy)(below(script, 3) + 1);
    spec.delay_ms = chance(script, 25) ? (int64_t)below(script, 900) : 0;
    spec.timeout_ms = chance(script, 20) ? 4000 : 0;
    spec.expires_ms = chance(script, 15) ? 1500 : 0;
    spec.deadline_ms = chance(script, 15) ? 6000 : 0;
    spec.lease_ttl_ms = chance(script, 60) ? 1000 : 0;
    spec.idempotency_key = chance(script, 25) ? PICK(script, keys) : (struct str){NULL, 0};
    if (chance(script, 20))
        spec.capabilities = STR("[\"gpu\"]");
    if (chance(script, 20))
        spec.correlation_id = STR("order-7");
    if (chance(script, 20))
        spec.labels = STR("{\"team\":\"x\\\"y\"}");
    if (chance(script, 20))
        spec.agent_id = STR("agent");
    if (chance(script, 10))
        spec.goal = STR("");
    if (chance(script, 35)) {
        struct buf buf;
        buf_init(&buf, &script->arena, 512);
        buf_add(&buf, STR("{\"steps\":"));
        buf_add(&buf, random_plan(script));
        buf_add_char(&buf, '}');
        spec.plan = buf_str(&buf);
    }
    op->job = uuid_v7(script->now, random);
    op->command.type = COMMAND_SUBMIT;
    op->command.submit.spec = hold(script, &spec, sizeof spec);
}

static void random_claim(struct script *script, struct op *op)
{
    uint64_t work = below(script, 10);
    static const struct str capabilities[] = {STR_INIT("gpu")};
    op->type = OP_CLAIM;
    op->command.type = work < 5 ? COMMAND_CLAIM : COMMAND_STEP_CLAIM;
    op->command.claim.worker_id = chance(script, 50) ? STR("w1") : STR("w2");
    op->command.claim.start = chance(script, 70);
    op->command.claim.judge = work >= 8;
    op->claim.claimer.work = work < 5 ? LANE_JOBS : work < 8 ? LANE_STEPS : LANE_JUDGING;
    op->claim.claimer.queues = names_of(script, queues, 3, 20);
    op->claim.claimer.kinds = names_of(script, kinds, 3, 20);
    op->claim.claimer.capabilities = names_of(script, capabilities, 1, 70);
    if (work < 5 && chance(script, 70))
        op->claim.claimer.code_version = PICK(script, versions);
    op->command.claim.code_version = op->claim.claimer.code_version;
    op->command.claim.capabilities =
        hold(script, &op->claim.claimer.capabilities, sizeof op->claim.claimer.capabilities);
    op->claim.resource_id =
        work >= 5 && work < 8 ? PICK(script, resource_ids) : (struct str){NULL, 0};
    op->claim.max = (uint32_t)below(script, 4) + 1;
}

/* Mostly one of the newest. */
static struct str random_token(struct script *script)
{
    if (script->token_count == 0 || chance(script, 3))
        return STR("nonsense");
    uint64_t reach = chance(script, 80) && script->token_count > 4 ? 4 : script->token_count;
    return script->tokens[script->token_count - 1 - below(script, reach)];
}

/* A job that somebody works on, or any. */
static struct uuid random_job(struct script *script)
{
    struct token token;
    if (chance(script, 40) && token_parse(random_token(script), &token))
        return token.job;
    return script->job_count > 0 ? script->jobs[below(script, script->job_count)]
                                 : (struct uuid){0};
}

static struct wait_request random_wait(struct script *script)
{
    struct wait_request wait = {.type = (enum wait_type)(below(script, 4) + 1),
                                .correlation_key = PICK(script, keys)};
    wait.delay_ms = wait.type == WAIT_TIMER ? 300 : 0;
    wait.timeout_ms = wait.type != WAIT_TIMER && chance(script, 50) ? 700 : 0;
    if (wait.type != WAIT_TIMER && chance(script, 50)) {
        wait.choices = STR("[\"retry\",\"stop\"]");
        wait.default_answer = STR("\"stop\"");
    }
    return wait;
}

static struct effect_call random_call(struct script *script)
{
    struct effect_call call = {.key = PICK(script, keys), .input = values[below(script, 2)]};
    if (chance(script, 30))
        call.in_doubt = (enum doubt_policy)(below(script, 3) + 1);
    if (chance(script, 20))
        call.fingerprint = STR("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    return call;
}

static void random_commit(struct script *script, struct effect_end *end)
{
    end->key = PICK(script, keys);
    if (chance(script, 20))
        end->error = STR("{\"message\":\"declined\"}");
    else
        end->result = PICK(script, values);
    end->then = chance(script, 50) ? THEN_NONE : (enum effect_then)(below(script, 3) + 1);
    end->begin = random_call(script);
    end->wait = random_wait(script);
    end->complete_result = PICK(script, values);
}

static void random_work(struct script *script, struct op *op)
{
    struct command *command = &op->command;
    struct token token;
    command->token = random_token(script);
    if (token_parse(command->token, &token))
        op->job = token.job;
    switch (below(script, 15)) {
    case 0:
        command->type = COMMAND_START;
        break;
    case 1:
    case 2:
        command->type = COMMAND_HEARTBEAT;
        command->heartbeat.progress = PICK(script, values);
        command->heartbeat.cursor = PICK(script, ids);
        break;
    case 3:
    case 4:
    case 5:
        command->type = COMMAND_COMPLETE;
        command->complete.result = PICK(script, values);
        break;
    case 6:
        command->type = COMMAND_FAIL;
        command->fail.error_class = (enum error_class)below(script, 6);
        command->fail.message = STR("it broke");
        break;
    case 7:
        command->type = chance(script, 50) ? COMMAND_RELEASE : COMMAND_CANCELLED;
        break;
    case 8:
        command->type = COMMAND_WAIT;
        command->wait = random_wait(script);
        break;
    case 9:
    case 10:
        command->type = COMMAND_EFFECT_BEGIN;
        command->effect_begin = random_call(script);
        break;
    case 11:
    case 12:
        command->type = COMMAND_EFFECT_COMMIT;
        random_commit(script, &command->effect_commit);
        break;
    case 13:
        command->type = COMMAND_EFFECT_ABORT;
        command->effect_abort.key = PICK(script, keys);
        command->effect_abort.error = STR("{\"message\":\"429\"}");
        break;
    default:
        command->type = COMMAND_VERDICT;
        command->verdict.decision = (enum verdict)(below(script, 4) + 1);
        command->verdict.reason = STR("so it is");
        break;
    }
}

static void random_operator(struct script *script, struct op *op)
{
    struct command *command = &op->command;
    op->job = random_job(script);
    switch (below(script, 14)) {
    case 13:
        command->type = COMMAND_REPIN;
        command->repin.to = PICK(script, versions);
        command->repin.from = chance(script, 30) ? PICK(script, versions) : (struct str){NULL, 0};
        break;
    case 12:
        command->type = COMMAND_RUN;
        break;
    case 0:
        command->type = COMMAND_CANCEL;
        command->cancel.mode = chance(script, 30) ? CANCEL_HARD : CANCEL_SOFT;
        command->cancel.soft_ms = 600;
        break;
    case 1:
        command->type = COMMAND_DEAD_LETTER;
        command->dead_letter.reason_code = DEAD_POLICY_VIOLATION;
        break;
    case 2:
    case 3:
        command->type = COMMAND_REQUEUE;
        command->requeue.reason = STR("again");
        command->requeue.fresh = chance(script, 30);
        break;
    case 4:
        command->type = COMMAND_PLAN;
        command->plan.steps = random_plan(script);
        break;
    case 5:
    case 6:
        command->type = COMMAND_ANSWER;
        if (chance(script, 50))
            command->step = PICK(script, steps);
        command->answer.answer = STR("\"retry\"");
        command->answer.by = STR("ann");
        command->answer.comment = chance(script, 50) ? STR("as agreed") : (struct str){NULL, 0};
        break;
    case 7: {
        struct appended event = {STR("billing.sent"), PICK(script, values)};
        command->type = COMMAND_APPEND;
        command->append.expected_version = -1;
        command->append.events = hold(script, &event, sizeof event);
        command->append.count = 1;
        break;
    }
    default:
        command->type = COMMAND_SIGNAL;
        command->signal.correlation_key = PICK(script, keys);
        command->signal.payload = chance(script, 30) ? STR("\"stop\"") : PICK(script, values);
        command->signal.signal_id = PICK(script, ids);
        command->signal.early = chance(script, 50);
        break;
    }
}

/* One of those who claim; so short a time that their claims renew it now and then. */
static void random_worker(struct script *script, struct op *op)
{
    struct worker worker = {.id = chance(script, 50) ? STR("w1") : STR("w2"), .slots = 2};
    struct str kind = PICK(script, kinds);
    if (chance(script, 50))
        worker.kinds = (struct names){hold(script, &kind, sizeof kind), 1};
    op->type = OP_WORKER;
    op->worker = hold(script, &worker, sizeof worker);
    op->ttl_ms = 1000;
}

static void random_setting(struct script *script, struct op *op)
{
    struct store_kind kind = {.kind = PICK(script, kinds)};
    struct resource *resource = &script->resources[below(script, SCRIPT_RESOURCES)];
    switch (below(script, 10)) {
    case 8:
        random_worker(script, op);
        break;
    case 9:
        op->type = OP_WORKER_GONE;
        op->worker_gone = chance(script, 50) ? STR("w1") : STR("w2");
        break;
    case 0:
        op->type = OP_QUEUE;
        op->queue = (struct store_queue){PICK(script, queues), chance(script, 40)};
        break;
    case 1:
        op->type = OP_KIND;
        kind.settings.lease_ttl_ms = chance(script, 50) ? 800 : 0;
        kind.settings.pin = chance(script, 40);
        kind.settings.retention_ms = chance(script, 70) ? 900 : 0;
        op->kind.kind = hold(script, &kind, sizeof kind);
        op->kind.expected_version = -1;
        break;
    case 2:
        op->type = chance(script, 50) ? OP_RESOURCE_FAILED : OP_RESOURCE_GONE;
        if (op->type == OP_RESOURCE_FAILED)
            op->failed_resource = resource->id;
        else
            op->resource_gone.id = resource->id;
        break;
    case 3:
        op->type = chance(script, 50) ? OP_DROP : OP_REDACT;
        op->job = random_job(script);
        break;
    default:
        op->type = OP_RESOURCE;
        resource->expires_at = script->now + 5000;
        op->resource = hold(script, resource, sizeof *resource);
        break;
    }
}

static void random_request(struct script *script, struct op *op)
{
    op->request.scope = chance(script, 50) ? STR("ann POST /v1/jobs") : STR("bob");
    op->request.key = PICK(script, keys);
    op->request.body_hash[0] = (uint8_t)below(script, 2);
}

/* Makes one of some operations that stand side by side: all of them or none. */
static void random_group(struct script *script, struct op *batch, uint32_t count)
{
    uint32_t first = (uint32_t)below(script, count);
    uint32_t end = first + 1 + (uint32_t)below(script, 4);
    for (uint32_t i = first; i < end && i < count; i++) {
        struct op *op = &batch[i];
        if ((op->type != OP_COMMAND && op->type != OP_CLAIM) || str_is_set(op->request.scope))
            return;
        op->atomic = true;
        op->atomic_with_previous = i > first;
    }
}

uint32_t script_batch(struct script *script, struct op batch[SCRIPT_OPS])
{
    uint32_t count = (uint32_t)below(script, SCRIPT_OPS) + 1;
    for (uint32_t i = 0; i < count; i++) {
        struct op *op = &batch[i];
        uint64_t sort = below(script, 100);
        *op = (struct op){.type = OP_COMMAND};
        op->command.actor = STR("ann");
        if (sort < 22)
            random_submit(script, op);
        else if (sort < 42)
            random_claim(script, op);
        else if (sort < 76)
            random_work(script, op);
        else if (sort < 92)
            random_operator(script, op);
        else
            random_setting(script, op);
        if (chance(script, 4))
            random_request(script, op);
    }
    if (chance(script, 20))
        random_group(script, batch, count);
    return count;
}

/* The newest is last; the oldest is forgotten. */
static void remember(struct script *script, struct str token)
{
    if (script->token_count == SCRIPT_TOKENS)
        memmove(script->tokens, script->tokens + 1, --script->token_count * sizeof *script->tokens);
    script->tokens[script->token_count++] = arena_copy(&script->arena, token);
}

void script_learn(struct script *script, const struct op *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].code != ERR_OK)
            continue;
        if (ops[i].type == OP_COMMAND && ops[i].command.type == COMMAND_SUBMIT) {
            uint32_t at = script->job_count < SCRIPT_JOBS ? script->job_count++
                                                          : (uint32_t)below(script, SCRIPT_JOBS);
            script->jobs[at] = ops[i].job;
        }
        for (uint32_t k = 0; k < ops[i].grant_count; k++)
            remember(script, ops[i].grants[k].result.token);
    }
}
