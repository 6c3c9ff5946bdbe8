#include "random_commands.h"

#include <assert.h>
#include <stdio.h>
#include <strings.h>

#include "base/buf.h"
#include "base/times.h"
#include "core/lifetime.h"
#include "random_changes.h"
#include "random_schedule_entry.h"
#include "slice_loader.h"

enum { TOKENS_KEPT = 6, STEPS_MOST = 8, RESOURCES = 3 };

struct run {
    struct world *world;
    bool plans;
    struct str tokens[TOKENS_KEPT]; /* newest first */
    struct resource resources[RESOURCES];
    struct label zones[RESOURCES];
    struct str gpu;
    struct random_stats *stats;
    const char *fault;
};

static uint64_t below(struct run *run, uint64_t limit)
{
    return world_random(run->world) % limit;
}

static bool chance(struct run *run, uint64_t percent)
{
    return below(run, 100) < percent;
}

static struct str pick(struct run *run, const struct str *from, size_t count)
{
    return from[below(run, count)];
}

#define PICK(run, list) pick(run, list, sizeof(list) / sizeof((list)[0]))

static const struct str keys[] = {{"alpha", 5}, {"beta", 4}, {"gamma", 5}};
static const struct str values[] = {{"1", 1},    {"\"two\"", 5}, {"{\"n\":3.10}", 10},
                                    {"null", 4}, {" [4] ", 5},   {NULL, 0}};
static const struct str ids[] = {{"id-1", 4}, {"id-2", 4}, {"id-3", 4}, {NULL, 0}, {NULL, 0}};
static const struct str resource_ids[RESOURCES] = {{"r1", 2}, {"r2", 2}, {"r3", 2}};

static struct spec random_spec(struct run *run)
{
    struct spec spec = world_spec();
    spec.payload = PICK(run, values);
    spec.retry.max_attempts = (int64_t)below(run, 4) + 1;
    spec.retry.initial_ms = chance(run, 30) ? 0 : 100;
    spec.retry.max_ms = 1000;
    spec.retry.on_exhausted = chance(run, 50) ? EXHAUSTED_FAIL : EXHAUSTED_DEAD_LETTER;
    spec.retry.on_permanent = chance(run, 30) ? EXHAUSTED_DEAD_LETTER : EXHAUSTED_NONE;
    spec.in_doubt = (enum doubt_policy)(below(run, 3) + 1);
    spec.delay_ms = chance(run, 20) ? 500 : 0;
    spec.timeout_ms = chance(run, 20) ? 4000 : 0;
    spec.expires_ms = chance(run, 15) ? 2000 : 0;
    spec.deadline_ms = chance(run, 15) ? (int64_t)below(run, 20000) + 600 : 0;
    spec.lease_ttl_ms = chance(run, 50) ? 1000 : 0;
    if (chance(run, 20))
        spec.correlation_id = STR("order-7");
    return spec;
}

/* A random plan: each step may depend on earlier ones. */
static struct str random_plan(struct run *run)
{
    struct buf buf;
    buf_init(&buf, &run->world->arena, 512);
    uint64_t count = below(run, STEPS_MOST) + 1;
    buf_add_char(&buf, '[');
    for (uint64_t i = 0; i < count; i++) {
        bool waits = chance(run, 15);
        buf_addf(&buf, "%s{\"id\":\"s%d\",\"deps\":[", i > 0 ? "," : "", (int)i);
        bool first = true;
        for (uint64_t dep = 0; dep < i; dep++) {
            if (!chance(run, 30))
                continue;
            buf_addf(&buf, "%s\"s%d\"", first ? "" : ",", (int)dep);
            first = false;
        }
        buf_addf(&buf, "],\"retry\":{\"max_attempts\":%d,\"initial_ms\":50}",
                 (int)below(run, 3) + 1);
        if (waits && chance(run, 50))
            buf_addf(&buf, ",\"wait\":{\"type\":\"timer\",\"delay_ms\":200}");
        else if (waits)
            buf_addf(&buf,
                     ",\"wait\":{\"type\":\"signal\",\"correlation_key\":\"alpha\","
                     "\"timeout_ms\":900%s}",
                     chance(run, 40) ? ",\"choices\":[\"yes\",\"no\"]" : "");
        if (!waits && chance(run, 20))
            buf_addf(&buf, ",\"critic\":true");
        if (!waits && chance(run, 20))
            buf_addf(&buf, ",\"timeout_ms\":700");
        if (chance(run, 40))
            buf_addf(&buf, ",\"on_failure\":\"continue\"");
        if (!waits && chance(run, 20))
            buf_addf(&buf, ",\"avoid\":[\"r1\"]");
        if (!waits && chance(run, 10))
            buf_addf(&buf, ",\"selector\":\"zone in (a), !old\"");
        if (!waits && chance(run, 10))
            buf_addf(&buf, ",\"capabilities\":[\"gpu\"]");
        buf_add_char(&buf, '}');
    }
    buf_add_char(&buf, ']');
    return buf_str(&buf);
}

/* Mostly the live token; sometimes an old one, one with a forged secret, or nonsense. */
static struct str random_token(struct run *run)
{
    uint64_t which = below(run, 100);
    struct str token = run->tokens[which < 82 ? 0 : below(run, TOKENS_KEPT)];
    if (run->plans)
        token = run->tokens[below(run, which < 60 ? 2 : TOKENS_KEPT)];
    if (which >= 96)
        return STR("not-a-token");
    if (which >= 92 && token.len > 4) {
        char *forged = arena_alloc(&run->world->arena, token.len);
        memcpy(forged, token.at, token.len);
        forged[token.len - 1] = forged[token.len - 1] == '0' ? '1' : '0';
        return (struct str){forged, token.len};
    }
    return token;
}

static struct str random_step(struct run *run)
{
    const struct job_slice *slice = &run->world->slice;
    if (slice->step_count == 0 || chance(run, 3))
        return STR("nobody");
    return slice->steps[below(run, slice->step_count)].spec.id;
}

/* A step that stands there, if there is one. */
static struct str standing_step(struct run *run, enum step_standing standing)
{
    const struct job_slice *slice = &run->world->slice;
    for (uint32_t i = 0, at = (uint32_t)below(run, 8); i < slice->step_count; i++) {
        const struct step *step = &slice->steps[(at + i) % slice->step_count];
        if (step_standing(step) == standing && chance(run, 90))
            return step->spec.id;
    }
    return random_step(run);
}

static void random_claim(struct run *run, struct command *command)
{
    command->claim.worker_id = chance(run, 50) ? STR("w1") : STR("w2");
    command->claim.start = chance(run, 80);
    command->claim.terms.lease_ttl_ms = chance(run, 30) ? 700 : 0;
    if (command->type != COMMAND_STEP_CLAIM)
        return;
    command->claim.resource = &run->resources[below(run, RESOURCES)];
    command->claim.judge = chance(run, 25);
    command->step = standing_step(run, command->claim.judge ? STANDING_HELD : STANDING_READY);
}

static void random_wait(struct run *run, struct command *command)
{
    struct wait_request *wait = &command->wait;
    wait->type = (enum wait_type)(below(run, 4) + WAIT_WEBHOOK);
    wait->park = chance(run, 20);
    if (wait->type == WAIT_TIMER) {
        wait->delay_ms = chance(run, 70) ? 300 : 0;
        wait->until = wait->delay_ms == 0 ? run->world->now + (int64_t)below(run, 300) - 100 : 0;
        return;
    }
    wait->correlation_key = PICK(run, keys);
    wait->timeout_ms = chance(run, 50) ? (chance(run, 20) ? 2 * PARK_AFTER_MS : 800) : 0;
    wait->prompt = chance(run, 30) ? STR("May I?\n\"Yes\" or no") : (struct str){NULL, 0};
    wait->choices = chance(run, 60) ? STR("[\"yes\",\"no\"]") : (struct str){NULL, 0};
    wait->default_answer = chance(run, 50) ? STR("\"no\"") : (struct str){NULL, 0};
}

static void random_verdict(struct run *run, struct command *command)
{
    command->verdict.decision = (enum verdict)(below(run, 5) + VERDICT_ACCEPT);
    command->verdict.reason = STR("because");
    command->verdict.result = PICK(run, values);
    command->verdict.question = (struct question){.prompt = STR("Go on?"),
                                                  .choices = STR("[\"yes\",\"no\"]"),
                                                  .timeout_ms = chance(run, 50) ? 600 : 0,
                                                  .default_answer = STR("\"no\"")};
    if (chance(run, 40))
        command->token = (struct str){NULL, 0};
    command->step = str_is_set(command->token) ? (struct str){NULL, 0} : random_step(run);
}

static void random_signal(struct run *run, struct command *command)
{
    static const struct str choices[] = {{"\"yes\"", 5}, {"\"no\"", 4}, {"\"n\\u006f\"", 9}};
    static const struct str doubt[] = {
        {"\"retry\"", 7}, {"\"fail\"", 6}, {"{\"decision\":\"done\",\"result\":5}", 30}};
    command->signal.correlation_key = PICK(run, keys);
    command->signal.payload = chance(run, 60) ? PICK(run, values) : PICK(run, choices);
    command->signal.signal_id = PICK(run, ids);
    command->signal.early = chance(run, 40);
    if (str_is_set(run->world->slice.job.wait.effect) && chance(run, 80)) {
        command->signal.correlation_key = run->world->slice.job.wait.correlation_key;
        command->signal.payload = PICK(run, doubt);
    }
}

static void random_append(struct run *run, struct command *command)
{
    static const struct appended some[] = {{{"billing.invoice_sent", 20}, {"{\"n\":1}", 7}},
                                           {{"node_started", 12}, {NULL, 0}}};
    static const struct appended bad[] = {{{"job_completed", 13}, {"{}", 2}}};
    static const struct appended compensated[] = {{{"job_compensated", 15}, {"{}", 2}}};
    command->append.events = chance(run, 80) ? some : chance(run, 50) ? bad : compensated;
    command->append.count = command->append.events == some ? (uint32_t)below(run, 2) + 1 : 1;
    command->append.expected_version = chance(run, 50) ? -1 : run->world->slice.job.version;
    if (chance(run, 20))
        command->append.expected_version = run->world->slice.job.version - 1;
    if (chance(run, 20))
        command->token = (struct str){NULL, 0};
}

static void random_answer(struct run *run, struct command *command)
{
    static const struct str answers[] = {{"\"yes\"", 5}, {"\"no\"", 4}, {"\"maybe\"", 7}};
    const struct job *job = &run->world->slice.job;
    if (job_has_plan(job))
        command->step = standing_step(run, STANDING_ASKING);
    command->answer.answer = PICK(run, answers);
    command->answer.by = chance(run, 70) ? STR("bob") : (struct str){NULL, 0};
    command->answer.comment = chance(run, 40) ? STR("as agreed") : (struct str){NULL, 0};
    const struct step *step = job_step(&run->world->slice, command->step);
    struct str effect = step != NULL ? step->question.effect : job->wait.effect;
    if (str_is_set(effect)) {
        static const struct str words[] = {{"\"retry\"", 7}, {"\"fail\"", 6}, {"\"done\"", 6}};
        command->answer.answer = PICK(run, words);
        command->answer.has_result =
            str_eq(command->answer.answer, STR("\"done\"")) && chance(run, 80);
        command->answer.result = PICK(run, values);
    }
}

static void random_expire(struct run *run, struct command *command)
{
    command->expire.attempt = run->world->slice.job.attempt;
    if (job_has_plan(&run->world->slice.job)) {
        command->step = standing_step(run, STANDING_ACTIVE);
        const struct step *step = job_step(&run->world->slice, command->step);
        command->expire.attempt = step != NULL ? step->attempt : 1;
    }
    if (chance(run, 10))
        command->expire.attempt--;
}

static struct effect_call random_call(struct run *run)
{
    static const struct str prints[] = {
        {"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", FINGERPRINT_LEN},
        {"0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF", FINGERPRINT_LEN},
        {"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", FINGERPRINT_LEN},
        {"no fingerprint", 14}};
    struct effect_call call = {
        .key = PICK(run, keys),
        .input = chance(run, 90) ? STR("{\"to\":\"x\"}") : STR("{\"to\":\"y\"}"),
    };
    if (chance(run, 40))
        call.in_doubt = (enum doubt_policy)(below(run, 3) + 1);
    if (chance(run, 20))
        call.fingerprint = PICK(run, prints);
    return call;
}

static struct str random_error(struct run *run)
{
    static const struct str errors[] = {{"{\"message\":\"429\"}", 17},
                                        {"{\"message\":\"500\",\"details\":[]}", 30},
                                        {"\"what\"", 6}};
    return errors[chance(run, 90) ? below(run, 2) : 2];
}

/* What follows a commit, more often than not nothing. */
static void random_then(struct run *run, struct effect_end *end)
{
    struct command wait = {0};
    end->then = chance(run, 40)   ? THEN_BEGIN
                : chance(run, 30) ? (enum effect_then)below(run, 4)
                                  : 0;
    end->begin = random_call(run);
    random_wait(run, &wait);
    end->wait = wait.wait;
    end->complete_result = PICK(run, values);
}

static void random_effect(struct run *run, struct command *command)
{
    struct effect_call call = random_call(run);
    if (command->type == COMMAND_EFFECT_BEGIN) {
        command->effect_begin = call;
    } else if (command->type == COMMAND_EFFECT_ABORT) {
        command->effect_abort.key = call.key;
        command->effect_abort.error = random_error(run);
    } else {
        command->effect_commit.key = call.key;
        if (chance(run, 15))
            command->effect_commit.error = random_error(run);
        else
            command->effect_commit.result = PICK(run, values);
        random_then(run, &command->effect_commit);
    }
}

/* A command that the job is ready for, so that lives get long. */
static enum command_type fitting_type(struct run *run)
{
    static const uint8_t working[] = {
        COMMAND_HEARTBEAT,     COMMAND_EFFECT_BEGIN,  COMMAND_EFFECT_BEGIN, COMMAND_EFFECT_COMMIT,
        COMMAND_EFFECT_COMMIT, COMMAND_EFFECT_COMMIT, COMMAND_WAIT,         COMMAND_WAIT,
        COMMAND_FAIL,          COMMAND_RELEASE,       COMMAND_EXPIRE,       COMMAND_APPEND,
        COMMAND_SIGNAL,        COMMAND_COMPLETE,      COMMAND_EFFECT_ABORT,
    };
    const struct job *job = &run->world->slice.job;
    if (job_status_terminal(job->status))
        return COMMAND_REQUEUE;
    if (job->wait.type != WAIT_NONE)
        return chance(run, 30) ? COMMAND_ANSWER : chance(run, 50) ? COMMAND_SIGNAL : COMMAND_WAKE;
    if (!job->lease.live)
        return COMMAND_CLAIM;
    return job->status == JOB_LEASED ? COMMAND_START : working[below(run, sizeof working)];
}

/* The same for a job with a plan: what a step that was picked at random is ready for. */
static enum command_type fitting_step_type(struct run *run)
{
    static const uint8_t working[] = {
        COMMAND_COMPLETE, COMMAND_COMPLETE,     COMMAND_COMPLETE,      COMMAND_VERDICT,
        COMMAND_FAIL,     COMMAND_EFFECT_BEGIN, COMMAND_EFFECT_COMMIT, COMMAND_HEARTBEAT,
        COMMAND_START,    COMMAND_EXPIRE,       COMMAND_EFFECT_ABORT,
    };
    const struct job *job = &run->world->slice.job;
    if (job_status_terminal(job->status))
        return COMMAND_REQUEUE;
    if (job->wait.type == WAIT_REPLAN)
        return COMMAND_PLAN;
    if (job->steps[STANDING_ASKING] > 0 && chance(run, 30))
        return chance(run, 50) ? COMMAND_ANSWER : COMMAND_WAKE;
    if (job->steps[STANDING_READY] + job->steps[STANDING_HELD] > 0 && chance(run, 60))
        return COMMAND_STEP_CLAIM;
    return working[below(run, sizeof working)];
}

static enum command_type random_type(struct run *run)
{
    static const uint8_t for_jobs[] = {
        COMMAND_CLAIM,         COMMAND_CLAIM,         COMMAND_CLAIM,        COMMAND_START,
        COMMAND_HEARTBEAT,     COMMAND_HEARTBEAT,     COMMAND_COMPLETE,     COMMAND_FAIL,
        COMMAND_FAIL,          COMMAND_RELEASE,       COMMAND_WAIT,         COMMAND_WAIT,
        COMMAND_CANCELLED,     COMMAND_ABANDON,       COMMAND_EFFECT_BEGIN, COMMAND_EFFECT_BEGIN,
        COMMAND_EFFECT_COMMIT, COMMAND_EFFECT_COMMIT, COMMAND_APPEND,       COMMAND_SIGNAL,
        COMMAND_SIGNAL,        COMMAND_SIGNAL,        COMMAND_DEAD_LETTER,  COMMAND_REQUEUE,
        COMMAND_REQUEUE,       COMMAND_EXPIRE,        COMMAND_EXPIRE,       COMMAND_WAKE,
        COMMAND_WAKE,          COMMAND_CANCEL_DUE,    COMMAND_CANCEL,       COMMAND_LIFETIME,
        COMMAND_LIFETIME,      COMMAND_RUN,           COMMAND_RUN,          COMMAND_EFFECT_ABORT,
    };
    static const uint8_t for_plans[] = {
        COMMAND_STEP_CLAIM,  COMMAND_STEP_CLAIM,   COMMAND_STEP_CLAIM,   COMMAND_STEP_CLAIM,
        COMMAND_STEP_CLAIM,  COMMAND_STEP_CLAIM,   COMMAND_START,        COMMAND_HEARTBEAT,
        COMMAND_COMPLETE,    COMMAND_COMPLETE,     COMMAND_COMPLETE,     COMMAND_FAIL,
        COMMAND_RELEASE,     COMMAND_CANCELLED,    COMMAND_EFFECT_BEGIN, COMMAND_EFFECT_COMMIT,
        COMMAND_APPEND,      COMMAND_SIGNAL,       COMMAND_REQUEUE,      COMMAND_PLAN,
        COMMAND_VERDICT,     COMMAND_VERDICT,      COMMAND_ANSWER,       COMMAND_ANSWER,
        COMMAND_EXPIRE,      COMMAND_EXPIRE,       COMMAND_WAKE,         COMMAND_WAKE,
        COMMAND_CANCEL_DUE,  COMMAND_CLAIM,        COMMAND_LIFETIME,     COMMAND_RUN,
        COMMAND_DEAD_LETTER, COMMAND_EFFECT_ABORT,
    };
    bool planned = job_has_plan(&run->world->slice.job);
    if (run->plans && chance(run, planned ? 2 : 8))
        return planned ? COMMAND_CANCEL : COMMAND_PLAN;
    if (chance(run, 75))
        return planned ? fitting_step_type(run) : fitting_type(run);
    return planned ? for_plans[below(run, sizeof for_plans)]
                   : for_jobs[below(run, sizeof for_jobs)];
}

static void random_failure(struct run *run, struct failure *failure)
{
    failure->error_class = (enum error_class)(chance(run, 70) ? CLASS_TRANSIENT : below(run, 6));
    failure->message = STR("broken\tpipe");
    if (chance(run, 20)) {
        failure->type = STR("Broken");
        failure->code = STR("32");
        failure->stack = STR("at 1\n at 2");
    }
    failure->has_retry_after = chance(run, 20);
    failure->retry_after_ms = 250;
}

static struct command random_command(struct run *run)
{
    struct command command = {.type = random_type(run), .actor = STR("tester")};
    if (command_type_by(command.type) == COMMAND_BY_WORKER)
        command.token = random_token(run);
    switch (command.type) {
    case COMMAND_CLAIM:
    case COMMAND_STEP_CLAIM:
        random_claim(run, &command);
        break;
    case COMMAND_HEARTBEAT:
        command.heartbeat.progress = PICK(run, values);
        command.heartbeat.cursor = chance(run, 30) ? STR("page=2") : (struct str){NULL, 0};
        break;
    case COMMAND_COMPLETE:
        command.complete.result = PICK(run, values);
        break;
    case COMMAND_FAIL:
        random_failure(run, &command.fail);
        break;
    case COMMAND_WAIT:
        random_wait(run, &command);
        break;
    case COMMAND_EFFECT_BEGIN:
    case COMMAND_EFFECT_COMMIT:
    case COMMAND_EFFECT_ABORT:
        random_effect(run, &command);
        break;
    case COMMAND_APPEND:
        random_append(run, &command);
        break;
    case COMMAND_SIGNAL:
        random_signal(run, &command);
        break;
    case COMMAND_CANCEL:
        command.cancel.mode = (enum cancel_mode)below(run, 3);
        command.cancel.reason = STR("no longer wanted");
        command.cancel.soft_ms = chance(run, 50) ? 400 : 0;
        break;
    case COMMAND_ABANDON:
    case COMMAND_DEAD_LETTER:
        command.dead_letter.reason_code = (enum dead_letter_reason)(below(run, 8) + 1);
        command.dead_letter.message = STR("give up");
        break;
    case COMMAND_REQUEUE:
        command.requeue.reason = STR("again");
        command.requeue.fresh = chance(run, 30);
        break;
    case COMMAND_PLAN:
        command.plan.steps = random_plan(run);
        break;
    case COMMAND_VERDICT:
        random_verdict(run, &command);
        break;
    case COMMAND_ANSWER:
        random_answer(run, &command);
        break;
    case COMMAND_EXPIRE:
        random_expire(run, &command);
        break;
    case COMMAND_WAKE:
        if (job_has_plan(&run->world->slice.job))
            command.step = standing_step(run, STANDING_ASKING);
        break;
    default:
        break;
    }
    return command;
}

/* To the moment at which something of a step is due. */
static void step_deadline(struct run *run)
{
    struct world *world = run->world;
    const struct step *step = &world->slice.steps[below(run, world->slice.step_count)];
    int64_t due = step->lease.live                    ? step->lease.expires_at
                  : step->state == STEP_RETRYING      ? step->not_before
                  : step->question.until > world->now ? step->question.until
                                                      : world->now;
    if (due > world->now)
        world->now = due;
}

/* Time passes: a little, to a deadline, past all of them; rarely it goes back. */
static void random_time(struct run *run)
{
    struct world *world = run->world;
    const struct job *job = &world->slice.job;
    uint64_t which = below(run, 100);
    if (which < 50)
        world->now += (int64_t)below(run, 50);
    else if (which < 60)
        world->now += 400;
    else if (which < 65 && job->lease.live)
        world->now = job->lease.expires_at;
    else if (which < 70 && job->run_at > world->now)
        world->now = job->run_at;
    else if (which < 73)
        world->now += 5000;
    else if (which < 76)
        world->now -= 1000;
    else if (which < 77)
        world->up_since = world->now;
    else if (which < 87 && world->slice.step_count > 0)
        step_deadline(run);
}

/* ---- the judge ---- */

struct before {
    struct job job;
    bool knew_signal; /* a signal with this id was received */
    int64_t stored;   /* version of the stored signal that must end the wait at once */
    bool knew_effect; /* the effect was begun, not forgotten */
    bool other_input; /* with another input */
    bool was_returned;
    bool was_aborted;
    struct lease lease; /* that the live token belongs to */
    int64_t step_failures;
};

static const struct lease *lease_of(const struct job_slice *slice, struct str token)
{
    struct token parsed;
    if (!token_parse(token, &parsed))
        return NULL;
    if (!parsed.of_step)
        return &slice->job.lease;
    const struct step *step = job_step_at(slice, parsed.step);
    return step == NULL ? NULL : &step->lease;
}

/* The version of the stored signal that must end the wait: the oldest of its key that is one of
 * the choices; 0: none, as always when a person is asked. */
static int64_t must_take_stored(struct run *run, const struct wait_request *wait)
{
    const struct job_slice *slice = &run->world->slice;
    if (wait->type == WAIT_HUMAN || !str_is_set(wait->correlation_key))
        return 0;
    for (uint32_t i = 0; i < slice->signal_count; i++) {
        const struct signal *signal = &slice->signals[i];
        if (!signal->delivered && str_eq(signal->correlation_key, wait->correlation_key) &&
            (!str_is_set(wait->choices) ||
             choices_have(wait->choices, signal->payload, &run->world->arena)))
            return signal->version;
    }
    return 0;
}

static const char *judge_wait(const struct world *world, const struct before *before)
{
    const struct event *last = &world->log[world->log_count - 1];
    if (last->type == EVENT_JOB_CANCELLED)
        return NULL;
    if (before->stored != 0 && last->type != EVENT_WAIT_COMPLETED)
        return "a wait blocked although its signal was there";
    return last->type == EVENT_WAIT_COMPLETED && last->data.signal_version != before->stored
               ? "a wait took another signal than the oldest that it may take"
               : NULL;
}

static struct before look(struct run *run, const struct command *command)
{
    const struct job_slice *slice = &run->world->slice;
    struct before before = {.job = slice->job};
    const struct lease *lease = lease_of(slice, command->token);
    if (lease != NULL)
        before.lease = *lease;
    for (uint32_t i = 0; i < slice->signal_count; i++) {
        const struct signal *signal = &slice->signals[i];
        if (command->type == COMMAND_SIGNAL && str_is_set(command->signal.signal_id) &&
            str_eq(signal->signal_id, command->signal.signal_id))
            before.knew_signal = true;
    }
    if (command->type == COMMAND_WAIT)
        before.stored = must_take_stored(run, &command->wait);
    if (command->type == COMMAND_EFFECT_BEGIN && !run->plans) {
        const struct effect *effect = job_effect(slice, command->effect_begin.key);
        uint8_t hash[HASH_LEN];
        hash_sha256(&command->effect_begin.input, 1, hash);
        before.knew_effect = effect != NULL;
        /* Where there are fingerprints these are compared instead. */
        struct str print = command->effect_begin.fingerprint;
        if (effect != NULL && !str_is_set(effect->fingerprint) && !str_is_set(print))
            before.other_input = memcmp(effect->input_hash, hash, INPUT_HASH_LEN) != 0;
        else if (effect != NULL && effect->fingerprint.len == print.len)
            before.other_input = strncasecmp(effect->fingerprint.at, print.at, print.len) != 0;
        before.was_returned = effect != NULL && effect->returned;
        before.was_aborted = effect != NULL && effect->aborted;
    }
    return before;
}

static const char *judge_worker(struct run *run, const struct command *command,
                                const struct before *before)
{
    const struct world *world = run->world;
    uint8_t hash[TOKEN_HASH_LEN];
    int64_t now = world->now > before->job.updated_at ? world->now : before->job.updated_at;
    token_hash(command->token, hash);
    if (memcmp(hash, before->lease.token_hash, TOKEN_HASH_LEN) != 0)
        return "a token was taken that is not the lease's";
    if (world->last.result.repeated)
        return world->last.count == 0 ? NULL : "a repeated command wrote events";
    if (!before->lease.live)
        return "a token was taken although the lease had ended";
    if (now >= before->lease.expires_at && before->lease.beat_at >= world->up_since)
        return "a token was taken although the lease had expired";
    return NULL;
}

/* The job has ended with one of its steps: as its policy says. */
static const char *judge_planned_end(const struct world *world)
{
    const struct job *job = &world->slice.job;
    const struct event *last = &world->log[world->log_count - 1];
    enum error_class class = failure_class_of(last->data.error);
    bool final = class == CLASS_PERMANENT || class == CLASS_VALIDATION;
    /* Of several steps that failed, the last one may not be the one to blame. */
    if (!str_eq(last->data.reason, STR("step_failed")) ||
        !str_is_set(json_member(last->data.error, STR("step"))))
        return NULL;
    enum exhausted_policy then =
        final ? job->spec.retry.on_permanent : job->spec.retry.on_exhausted;
    return (job->status == JOB_DEAD_LETTERED) == (then == EXHAUSTED_DEAD_LETTER)
               ? NULL
               : "a planned job did not end as its policy says";
}

static const char *judge_cancel(const struct run *run, const struct command *command, int64_t now)
{
    const struct world *world = run->world;
    int64_t grace_ms = command->cancel.soft_ms > 0       ? command->cancel.soft_ms
                       : world->kind.cancel_grace_ms > 0 ? world->kind.cancel_grace_ms
                                                         : (int64_t)SOFT_CANCEL_MS_DEFAULT;
    bool asked = world->last.count == 1 && world->last.events[0].type == EVENT_JOB_CANCEL_REQUESTED;
    return asked && world->slice.job.cancel_at != now + grace_ms
               ? "a soft cancel turns hard at another time than was asked for"
               : NULL;
}

/* The key of the job is used again: by the same submission, or by another. */
static const char *judge_key(struct run *run, const struct spec *spec)
{
    struct world *world = run->world;
    struct job_slice nothing;
    struct decision decision;
    struct err err = {0};
    struct spec again = *spec;
    struct command submit = {.type = COMMAND_SUBMIT, .actor = STR("bob")};
    struct context context = {.now = world->now, .arena = &world->arena};
    job_slice_init(&nothing, (struct uuid){{1}}, 1);
    submit.submit.spec = &again;
    submit.submit.duplicate = &world->slice.job;
    again.plan = (struct str){NULL, 0};
    if (job_decide(&nothing, &submit, &context, &decision, &err) != ERR_OK)
        return "a submission was not recognised by its key";
    again.payload = STR("{\"another\":true}");
    return job_decide(&nothing, &submit, &context, &decision, &err) == ERR_IDEMPOTENCY_MISMATCH
               ? NULL
               : "the key of another job was taken";
}

/* What ends a job's wait with choices is one of them, however the answer came. */
static const char *judge_choice(struct run *run, struct str said, const struct before *before)
{
    const struct wait *wait = &before->job.wait;
    bool ended = wait->type == WAIT_HUMAN && run->world->slice.job.wait.type == WAIT_NONE;
    if (!ended || !str_is_set(wait->choices) || str_is_set(wait->effect))
        return NULL;
    return choices_have(wait->choices, said, &run->world->arena)
               ? NULL
               : "a wait with choices ended with none of them";
}

static const char *judge_answer(struct run *run, const struct command *command,
                                const struct before *before)
{
    bool done = str_eq(command->answer.answer, STR("\"done\"")) && run->world->last.count > 0;
    if (done && !command->answer.has_result)
        return "an effect in doubt was done without its result";
    return judge_choice(run, command->answer.answer, before);
}

/* What follows a commit, in the same decision. */
static const char *judge_then(const struct run *run, enum effect_then then)
{
    const struct world *world = run->world;
    enum event_type last = world->log[world->log_count - 1].type;
    bool waits = last == EVENT_JOB_WAITING || last == EVENT_WAIT_COMPLETED;
    bool ends = job_status_terminal(world->slice.job.status);
    if (then == THEN_BEGIN && world->last.result.effect == 0)
        return "a commit did not begin the next effect";
    if (then == THEN_WAIT && !waits && last != EVENT_JOB_CANCELLED)
        return "a commit did not wait";
    return then == THEN_COMPLETE && !run->plans && !ends ? "a commit did not complete its job"
                                                         : NULL;
}

static const char *judge(struct run *run, const struct command *command,
                         const struct before *before)
{
    const struct world *world = run->world;
    const struct job *job = &before->job;
    int64_t now = world->now > job->updated_at ? world->now : job->updated_at;
    if (str_is_set(command->token)) {
        const char *fault = judge_worker(run, command, before);
        if (fault != NULL || world->last.result.repeated)
            return fault;
    }
    switch (command->type) {
    case COMMAND_CANCEL:
        return judge_cancel(run, command, now);
    case COMMAND_LIFETIME:
        return job_lifetime_at(job) == 0 || job_lifetime_at(job) > now
                   ? "a job ended before its life was over"
                   : NULL;
    case COMMAND_CLAIM:
        if (job_outlived(job, now))
            return "a job was claimed after its life was over";
        if (job->run_at > now)
            return "a job was claimed before it was due";
        return job->lease.live || job->wait.type != WAIT_NONE ? "a held job was claimed" : NULL;
    case COMMAND_HEARTBEAT:
        return world->last.result.expires_at < before->lease.expires_at
                   ? "a heartbeat made the lease shorter"
                   : NULL;
    case COMMAND_EXPIRE:
        return !run->plans && now < job->lease.expires_at ? "a live lease was reaped" : NULL;
    case COMMAND_WAKE:
        return !run->plans && (job->wait.until == 0 || job->wait.until > now)
                   ? "a wait ended before its time"
                   : NULL;
    case COMMAND_APPEND:
        return command->append.expected_version >= 0 &&
                       command->append.expected_version != job->version
                   ? "an append with the wrong version was taken"
                   : NULL;
    case COMMAND_SIGNAL:
        if (before->knew_signal && world->last.count > 0)
            return "a repeated signal did something";
        return judge_choice(run, command->signal.payload, before);
    case COMMAND_ANSWER:
        return judge_answer(run, command, before);
    case COMMAND_WAIT:
        return judge_wait(world, before);
    case COMMAND_EFFECT_COMMIT:
        return judge_then(run, command->effect_commit.then);
    case COMMAND_RUN:
        return world->slice.job.run_at > now ? "a job that is to run now is not due" : NULL;
    case COMMAND_EFFECT_BEGIN:
        if (before->other_input)
            return "an effect was begun with another input";
        if (before->was_aborted && world->last.result.effect != EFFECT_EXECUTE)
            return "an effect that certainly did not happen was not executed";
        return before->was_returned && world->last.result.effect != EFFECT_RECORDED
                   ? "a recorded effect was not answered with its record"
                   : NULL;
    default:
        return NULL;
    }
}

static void keep_token(struct run *run)
{
    if (!str_is_set(run->world->last.result.token))
        return;
    memmove(run->tokens + 1, run->tokens, (TOKENS_KEPT - 1) * sizeof run->tokens[0]);
    run->tokens[0] = run->world->last.result.token;
}

static void count(struct run *run, const struct command *command)
{
    struct random_stats *stats = run->stats;
    const struct decision *last = &run->world->last;
    stats->accepted++;
    stats->by_command[command->type]++;
    stats->events += last->count;
    for (uint32_t i = 0; i < last->count; i++) {
        enum step_state state;
        if (step_event_state(last->events[i].type, &state))
            stats->by_step_state[state]++;
    }
}

/* What a command left of the loaded parts is what it left of the whole. */
static const char *compare_parts(struct world *world, const struct job_slice *part)
{
    const struct job_slice *whole = &world->last.after;
    struct job_slice same = {.job = whole->job};
    same.effects = arena_zalloc(&world->arena, part->effect_count + 1, sizeof *same.effects);
    same.signals = arena_zalloc(&world->arena, part->signal_count + 1, sizeof *same.signals);
    same.steps = arena_zalloc(&world->arena, part->step_count + 1, sizeof *same.steps);
    for (uint32_t i = 0; i < part->effect_count; i++)
        for (uint32_t k = 0; k < whole->effect_count; k++)
            if (str_eq(whole->effects[k].name, part->effects[i].name))
                same.effects[same.effect_count++] = whole->effects[k];
    for (uint32_t i = 0; i < part->signal_count; i++)
        for (uint32_t k = 0; k < whole->signal_count; k++)
            if (whole->signals[k].version == part->signals[i].version)
                same.signals[same.signal_count++] = whole->signals[k];
    for (uint32_t i = 0; i < part->step_count; i++) {
        const struct step *step = job_step_at(whole, part->steps[i].ordinal);
        if (step != NULL)
            same.steps[same.step_count++] = *step;
    }
    return str_eq(world_row(world, &same), world_row(world, part))
               ? NULL
               : "on a slice the job or a part of it differs";
}

/* The command decided once more, on no more than a store would load for it: the outcome must be the
 * same. */
static const char *compare_slices(struct run *run, const struct job_slice *given,
                                  const struct command *command, enum error_code code)
{
    struct world *world = run->world;
    struct job_slice part = slice_for(given, command, &world->arena);
    struct decision decision;
    struct err err = {0};
    if (job_decide(&part, command, &world->context, &decision, &err) != code)
        return "on a slice the command ends differently";
    if (code != ERR_OK)
        return NULL;
    if (decision_seal(&decision, given->job.head, &world->arena, &err) != ERR_OK)
        return "a slice could not be sealed";
    if (decision.count != world->last.count)
        return "on a slice there are more or fewer events";
    for (uint32_t i = 0; i < decision.count; i++)
        if (memcmp(decision.events[i].hash, world->last.events[i].hash, HASH_LEN) != 0)
            return "on a slice an event differs";
    return compare_parts(world, &decision.after);
}

/* What stores are told: a little after every command, by trial and error after some. */
static const char *check_placed(struct run *run, const struct job_slice *given,
                                const struct command *command)
{
    struct placed placed = {.world = run->world,
                            .given = given,
                            .command = command,
                            .resources = run->resources,
                            .resource_count = RESOURCES,
                            .tokens = run->tokens,
                            .token_count = TOKENS_KEPT};
    uint64_t which = below(run, 100);
    const char *fault = schedule_entries_follow(&placed);
    if (fault == NULL && which < 30)
        fault = states_survive(&placed, which < 6);
    return fault == NULL && which < 6 ? schedule_entries_hold(&placed) : fault;
}

static const char *give(struct run *run, const struct command *command)
{
    struct world *world = run->world;
    struct before before = look(run, command);
    bool compare = chance(run, 4);
    changes_forget(&world->slice);
    struct str row = compare ? world_row(world, &world->slice) : (struct str){NULL, 0};
    struct job_slice given = world->slice;
    run->stats->commands++;
    enum error_code code = world_do(world, command);
    if (compare && !str_eq(row, world_row(world, &given)))
        return "a command changed the state it was given";
    const char *sliced = chance(run, 10) ? compare_slices(run, &given, command, code) : NULL;
    if (sliced != NULL)
        return sliced;
    if (code == ERR_NO_MEMORY || code == ERR_CORRUPT)
        return world->err.detail;
    if (code != ERR_OK)
        return world->err.detail[0] == '\0' ? "an error came without a detail" : NULL;
    count(run, command);
    keep_token(run);
    const char *fault = judge(run, command, &before);
    if (fault == NULL && run->plans && world->last.count > 0 &&
        job_status_terminal(world->slice.job.status))
        fault = judge_planned_end(world);
    if (fault == NULL && derive_status(world->log, world->log_count) != world->slice.job.status)
        fault = "the derived status is not the folded one";
    if (fault == NULL)
        fault = changes_are_noted(&given, &world->slice);
    return fault == NULL ? check_placed(run, &given, command) : fault;
}

/* ---- liveness ---- */

static bool accepted(struct run *run, struct command command)
{
    return world_do(run->world, &command) == ERR_OK;
}

static struct command engine_command(enum command_type type, struct str step)
{
    return (struct command){.type = type, .actor = STR("pawl"), .step = step};
}

/* Whether an engine, a worker with a resource that nobody had, or a person can move the step. */
static bool step_can_move(struct run *run, const struct step *step)
{
    struct str id = step->spec.id;
    struct resource fresh = run->resources[RESOURCES - 1];
    fresh.id = STR("fresh");
    struct command expire = engine_command(COMMAND_EXPIRE, id);
    struct command claim = engine_command(COMMAND_STEP_CLAIM, id);
    struct command answer = engine_command(COMMAND_ANSWER, id);
    expire.expire.attempt = step->attempt;
    claim.claim.worker_id = STR("w9");
    claim.claim.resource = &fresh;
    struct command judge = claim;
    judge.claim.judge = true;
    answer.answer.answer = str_is_set(step->question.effect) ? STR("\"retry\"") : STR("\"yes\"");
    return accepted(run, expire) || accepted(run, claim) || accepted(run, judge) ||
           accepted(run, answer) || accepted(run, engine_command(COMMAND_WAKE, id));
}

/* A job that has not ended can always be moved by someone other than a person who cancels it. */
static const char *stuck(struct run *run)
{
    struct world *world = run->world;
    const struct job job = world->slice.job;
    struct str no_step = {NULL, 0};
    if (job_status_terminal(job.status))
        return NULL;
    world->now += INT64_C(366) * 24 * 60 * 60 * 1000;
    struct command expire = engine_command(COMMAND_EXPIRE, no_step);
    struct command claim = engine_command(COMMAND_CLAIM, no_step);
    struct command signal = engine_command(COMMAND_SIGNAL, no_step);
    struct command plan = engine_command(COMMAND_PLAN, no_step);
    expire.expire.attempt = job.attempt;
    claim.claim.worker_id = STR("w9");
    signal.signal.correlation_key =
        str_is_set(job.wait.correlation_key) ? job.wait.correlation_key : STR("none");
    signal.signal.payload = str_is_set(job.wait.effect) ? STR("\"retry\"") : STR("\"yes\"");
    plan.plan.steps = STR("[{\"id\":\"last\"}]");
    if (accepted(run, expire) || accepted(run, claim) ||
        accepted(run, engine_command(COMMAND_CANCEL_DUE, no_step)) ||
        accepted(run, engine_command(COMMAND_LIFETIME, no_step)) ||
        (job.wait.type != WAIT_NONE && accepted(run, signal)) ||
        accepted(run, engine_command(COMMAND_WAKE, no_step)) ||
        (job.wait.type == WAIT_REPLAN && accepted(run, plan)))
        return NULL;
    for (uint32_t i = 0; i < world->slice.step_count; i++)
        if (step_can_move(run, &world->slice.steps[i]))
            return NULL;
    return "nothing can move this job any more";
}

/* The last one has all that a plan may ask for. */
static void make_resources(struct run *run)
{
    run->gpu = STR("gpu");
    for (uint32_t i = 0; i < RESOURCES; i++) {
        run->zones[i] = (struct label){STR("zone"), i == 1 ? STR("b") : STR("a")};
        run->resources[i] = (struct resource){.id = resource_ids[i],
                                              .capabilities = {&run->gpu, i > 0 ? 1 : 0},
                                              .labels = &run->zones[i],
                                              .label_count = 1,
                                              .slots = 4,
                                              .expires_at = TIME_MAX_MS};
    }
}

static struct str plan_object(struct run *run)
{
    struct buf buf;
    buf_init(&buf, &run->world->arena, 512);
    buf_add(&buf, STR("{\"steps\":"));
    buf_add(&buf, random_plan(run));
    buf_add_char(&buf, '}');
    return buf_str(&buf);
}

const char *random_run(struct world *world, uint64_t seed, bool plans, struct random_stats *stats)
{
    world_clear(world, seed);
    struct run run = {.world = world, .plans = plans, .stats = stats};
    make_resources(&run);
    struct spec spec = random_spec(&run);
    if (plans && chance(&run, 80))
        spec.plan = plan_object(&run);
    struct command submit = {.type = COMMAND_SUBMIT, .actor = STR("alice")};
    submit.submit.spec = &spec;
    world->kind.cancel_grace_ms = chance(&run, 50) ? 700 : 0;
    const char *fault = give(&run, &submit);
    if (fault == NULL)
        fault = judge_key(&run, &spec);
    uint64_t length = below(&run, 50) + 5;
    for (uint64_t i = 0; i < length && fault == NULL; i++) {
        random_time(&run);
        struct command command = random_command(&run);
        fault = give(&run, &command);
        if (fault == NULL && chance(&run, 2))
            fault = world_check(world);
    }
    stats->runs++;
    if (world->slice.job.status < JOB_STATUS_COUNT)
        stats->by_status[world->slice.job.status]++;
    if (fault == NULL)
        fault = stuck(&run);
    return fault == NULL ? world_check(world) : fault;
}
