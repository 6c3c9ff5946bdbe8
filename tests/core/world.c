#include "world.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"

void world_init(struct world *world, uint64_t seed)
{
    *world = (struct world){0};
    arena_init(&world->arena);
    world_clear(world, seed);
}

void world_release(struct world *world)
{
    free(world->log);
    arena_release(&world->arena);
}

void world_clear(struct world *world, uint64_t seed)
{
    arena_clear(&world->arena);
    world->now = WORLD_START_MS;
    world->beats_since = 0;
    world->up_since = 0;
    world->random = seed;
    world->kind = (struct kind_settings){0};
    world->log_count = 0;
    world->token = (struct str){NULL, 0};
    world->last = (struct decision){0};
    uint8_t random[10];
    for (size_t i = 0; i < sizeof random; i++)
        random[i] = (uint8_t)world_random(world);
    job_slice_init(&world->slice, uuid_v7(world->now, random), seed);
}

/* SplitMix64. */
uint64_t world_random(struct world *world)
{
    uint64_t x = world->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void log_event(struct world *world, const struct event *event)
{
    if (world->log_count == world->log_cap) {
        world->log_cap = world->log_cap == 0 ? 64 : world->log_cap * 2;
        world->log = realloc(world->log, world->log_cap * sizeof *world->log);
        assert(world->log != NULL);
    }
    world->log[world->log_count++] = *event;
}

/* What is foretold of a command is what is decided. */
static void check_takes(const struct world *world, const struct command *command,
                        enum error_code code)
{
    const struct job *job = &world->slice.job;
    bool foretold = command->type == COMMAND_CANCEL || command->type == COMMAND_REQUEUE ||
                    command->type == COMMAND_RUN || command->type == COMMAND_DEAD_LETTER;
    bool takes = job_takes(job, command->type);
    if (job->status == JOB_NONE || str_is_set(command->step))
        return;
    assert(takes || code != ERR_OK);
    assert(!foretold || !takes || code != ERR_INVALID_TRANSITION);
}

enum error_code world_do(struct world *world, const struct command *command)
{
    struct context context = {
        .now = world->now,
        .beats_since = world->beats_since,
        .up_since = world->up_since,
        .random = world_random(world),
        .kind = &world->kind,
        .cancel_grace_ms = world->cancel_grace_ms,
        .arena = &world->arena,
    };
    for (size_t i = 0; i < sizeof context.secret; i++)
        context.secret[i] = (uint8_t)world_random(world);
    for (size_t i = 0; i < sizeof context.salt; i++)
        context.salt[i] = (uint8_t)world_random(world);

    world->context = context;

    struct decision decision;
    uint8_t head[HASH_LEN];
    memcpy(head, world->slice.job.head, HASH_LEN);
    world->err = (struct err){0};
    enum error_code code = job_decide(&world->slice, command, &context, &decision, &world->err);
    check_takes(world, command, code);
    if (code != ERR_OK)
        return code;
    code = decision_seal(&decision, head, &world->arena, &world->err);
    assert(code == ERR_OK);
    for (uint32_t i = 0; i < decision.count; i++)
        log_event(world, &decision.events[i]);
    if (!decision.result.duplicate)
        world->slice = decision.after;
    if (str_is_set(decision.result.token))
        world->token = decision.result.token;
    world->last = decision;
    return code;
}

/* The event as it would come back from a store: nothing but what is stored. */
static struct event reopened(struct world *world, const struct event *stored)
{
    struct event event = {
        .job_id = stored->job_id,
        .version = stored->version,
        .at = stored->at,
        .type = event_type_parse(event_name(stored)),
        .type_name = stored->type_name,
        .actor = stored->actor,
        .correlation_id = stored->correlation_id,
        .cause_text = stored->cause_text,
        .payload = stored->payload,
    };
    memcpy(event.digest, stored->digest, HASH_LEN);
    memcpy(event.hash, stored->hash, HASH_LEN);
    enum error_code code = event_open(&event, 1, &world->arena, &world->err);
    assert(code == ERR_OK);
    (void)code;
    return event;
}

struct event *world_stream(struct world *world, size_t *ret_count)
{
    struct event *events = arena_alloc(&world->arena, (world->log_count + 1) * sizeof *events);
    size_t count = 0;
    for (size_t i = 0; i < world->log_count; i++)
        if (event_type_class(world->log[i].type) != EVENT_CLASS_TELEMETRY)
            events[count++] = reopened(world, &world->log[i]);
    *ret_count = count;
    return events;
}

struct job_slice world_replay(struct world *world, bool telemetry)
{
    struct job_slice slice;
    job_slice_init(&slice, world->slice.job.id, 7);
    memcpy(slice.job.salt, world->slice.job.salt, SALT_LEN);
    for (size_t i = 0; i < world->log_count; i++) {
        struct event event = reopened(world, &world->log[i]);
        if (event_type_class(event.type) == EVENT_CLASS_TELEMETRY && !telemetry)
            continue;
        enum error_code code = job_evolve(&slice, &event, &world->arena, &world->err);
        assert(code == ERR_OK);
        (void)code;
    }
    return slice;
}

struct str world_row(struct world *world, const struct job_slice *slice)
{
    struct buf buf;
    buf_init(&buf, &world->arena, 2048);
    job_row_write(slice, &buf);
    assert(!buf.failed);
    return buf_str(&buf);
}

static const char *text(struct world *world, struct buf *buf)
{
    (void)world;
    buf_add_char(buf, '\0');
    return buf->at;
}

static const char *check_replay(struct world *world, struct buf *buf)
{
    struct job_slice whole = world_replay(world, true);
    if (!str_eq(world_row(world, &whole), world_row(world, &world->slice))) {
        buf_addf(buf, "replay differs:\n  replay %.*s\n  row    ", STR_ARG(STR("")));
        buf_add(buf, world_row(world, &whole));
        buf_add(buf, STR("\n  row    "));
        buf_add(buf, world_row(world, &world->slice));
        return text(world, buf);
    }
    struct job_slice stream = world_replay(world, false);
    struct row_difference difference = job_row_differs(&stream, &world->slice);
    if (!str_is_set(difference.part))
        return NULL;
    buf_addf(buf, "replay of the stream differs in %.*s %.*s: %.*s", STR_ARG(difference.part),
             STR_ARG(difference.name), STR_ARG(difference.member));
    return text(world, buf);
}

const char *world_check(struct world *world)
{
    struct buf buf;
    buf_init(&buf, &world->arena, 256);
    size_t count;
    struct event *events = world_stream(world, &count);
    if (derive_status(events, count) != world->slice.job.status)
        return "derived status is not the folded one";
    if (is_blocked(events, count) != (world->slice.job.wait.type != WAIT_NONE))
        return "is_blocked and the wait disagree";

    struct verify_report report;
    struct verify_input input = {.id = world->slice.job.id,
                                 .events = events,
                                 .count = count,
                                 .salt = world->slice.job.salt,
                                 .row = &world->slice,
                                 .seed = 3};
    enum error_code code = job_verify(&input, &world->arena, &report, &world->err);
    if (code != ERR_OK)
        return "verify could not finish";
    for (uint32_t i = 0; i < report.violation_count; i++) {
        const struct violation *violation = &report.violations[i];
        buf_addf(&buf, "version %lld breaks %.*s: %.*s\n", (long long)violation->version,
                 STR_ARG(verify_rule_name(violation->rule)), STR_ARG(violation->detail));
    }
    if (report.violation_count > 0)
        return text(world, &buf);
    return check_replay(world, &buf);
}

const char *world_trace(struct world *world)
{
    struct buf buf;
    buf_init(&buf, &world->arena, 256);
    for (size_t i = 0; i < world->log_count; i++) {
        const struct event *event = &world->log[i];
        if (event_type_class(event->type) == EVENT_CLASS_TELEMETRY)
            continue;
        if (buf.len > 0)
            buf_add_char(&buf, ' ');
        buf_add(&buf, event_name(event));
        if (str_is_set(event->data.step)) {
            buf_add_char(&buf, ':');
            buf_add(&buf, event->data.step);
        }
    }
    return text(world, &buf);
}

struct spec world_spec(void)
{
    struct spec spec = spec_defaults(NULL);
    spec.kind = STR("mail");
    return spec;
}

enum error_code world_submit(struct world *world, const struct spec *spec)
{
    struct command command = {.type = COMMAND_SUBMIT, .actor = STR("alice")};
    command.submit.spec = spec;
    return world_do(world, &command);
}

enum error_code world_claim(struct world *world)
{
    struct command command = {.type = COMMAND_CLAIM, .actor = STR("w1")};
    command.claim.worker_id = STR("w1");
    command.claim.start = true;
    return world_do(world, &command);
}

enum error_code world_complete(struct world *world, const char *result)
{
    struct command command = {.type = COMMAND_COMPLETE, .actor = STR("w1"), .token = world->token};
    command.complete.result = str_from(result);
    return world_do(world, &command);
}

enum error_code world_fail(struct world *world, enum error_class error_class)
{
    struct command command = {.type = COMMAND_FAIL, .actor = STR("w1"), .token = world->token};
    command.fail.error_class = error_class;
    command.fail.message = STR("it broke");
    return world_do(world, &command);
}

enum error_code world_token_command(struct world *world, enum command_type type)
{
    struct command command = {.type = type, .actor = STR("w1"), .token = world->token};
    return world_do(world, &command);
}
