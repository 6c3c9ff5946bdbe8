/* submit: one new job, or many that are made together or not at all. */
#include <assert.h>
#include <time.h>

#include "base/random.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/verb.h"

enum {
    JOBS_MAX = BATCH_OPS_MAX,
    FRACTIONS = 4096, /* of a millisecond, in an id */
    RANDOM_LEN = 8,
};

/* A moment as ids have it, so that jobs sort in the order in which they were submitted. */
struct moment {
    int64_t ms;
    int64_t fraction; /* in 4096ths */
};

/* The store's own clock where it was given one, since list and claims go by these ids. */
static struct moment moment_now(const struct verb_call *call)
{
    const struct store_options *options =
        call->engine != NULL ? &engine_store(call->engine)->options : NULL;
    if (options != NULL && options->clock != NULL)
        return (struct moment){.ms = options->clock(options->clock_arg)};
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (struct moment){
        .ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
        .fraction = now.tv_nsec % 1000000 * FRACTIONS / 1000000,
    };
}

/* The id of the job that stands at `index` in its request: they are to sort as they were given. */
static struct uuid id_of(struct moment moment, uint32_t index, const uint8_t noise[RANDOM_LEN])
{
    int64_t fraction = moment.fraction + index;
    uint8_t random[10];
    random[0] = (uint8_t)((fraction % FRACTIONS) >> 8);
    random[1] = (uint8_t)(fraction % FRACTIONS);
    memcpy(random + 2, noise, RANDOM_LEN);
    int64_t ms = moment.ms + fraction / FRACTIONS;
    return uuid_v7(ms < 0 ? 0 : ms, random);
}

/* Adds the operation that makes the job of `json`. */
static enum error_code add_job(struct verb_call *call, struct str json, struct uuid id,
                               struct err *err)
{
    struct spec *spec = arena_alloc(call->arena, sizeof *spec);
    if (spec == NULL)
        return verb_no_memory(err);
    *spec = spec_defaults(NULL);
    spec->traceparent = call->traceparent;
    enum error_code code = spec_read(json, call->arena, spec, err);
    if (code == ERR_OK)
        code = access_check_queue(call->queues, spec->queue, err);
    if (code != ERR_OK)
        return code;
    struct op *op = verb_op(call);
    if (op == NULL)
        return verb_no_memory(err);
    op->type = OP_COMMAND;
    op->job = id;
    op->command =
        (struct command){.type = COMMAND_SUBMIT, .actor = call->actor, .blind = access_blind(call)};
    op->command.submit.spec = spec;
    op->takes_kind = true;
    return ERR_OK;
}

static enum error_code add_jobs(struct verb_call *call, struct str jobs, struct err *err)
{
    struct json_iter iter;
    struct str json;
    size_t count = json_count(jobs);
    struct moment moment = moment_now(call);
    if (!json_array_begin(&iter, jobs))
        return err_set(err, ERR_BAD_REQUEST, "jobs must be an array of jobs");
    if (count == 0 || count > JOBS_MAX)
        return err_set(err, ERR_BAD_REQUEST, "jobs may have from 1 to %d entries, not %zu",
                       JOBS_MAX, count);
    uint8_t *noise = arena_alloc(call->arena, count * RANDOM_LEN);
    if (noise == NULL)
        return verb_no_memory(err);
    random_fill(noise, count * RANDOM_LEN);
    for (uint32_t i = 0; json_array_next(&iter, &json); i++) {
        struct err why = {0};
        struct uuid id = id_of(moment, i, noise + (size_t)i * RANDOM_LEN);
        enum error_code code = add_job(call, json, id, &why);
        if (code == ERR_OK) {
            struct op *op = call->call.ops[call->call.count - 1];
            op->same_request = op->atomic_with_previous = i > 0;
        }
        if (code != ERR_OK)
            return err_set(err, code, "jobs[%u]: %s", i, why.detail);
    }
    return ERR_OK;
}

/* The member that makes it a request for many; absent if missing. `ret_other` is the raw
 * name of one that stands beside it. */
static struct str jobs_member(struct str request, struct str *ret_other)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str jobs = {NULL, 0};
    (void)json_object_begin(&iter, request);
    while (json_object_next(&iter, &key, &value))
        if (json_key_is(key, STR("jobs")))
            jobs = value;
        else
            *ret_other = key;
    return jobs;
}

static enum error_code submit_prepare(struct verb_call *call, struct err *err)
{
    struct str other = {NULL, 0};
    struct str jobs = jobs_member(call->request, &other);
    call->call.class = CALL_SUBMIT;
    if (str_is_set(jobs) && str_is_set(other))
        return err_set(err, ERR_UNKNOWN_FIELD,
                       "unknown field %.*s next to jobs: set it in each job", STR_ARG(other));
    call->state = str_is_set(jobs) ? call : NULL; /* many: the answer is a list */
    if (str_is_set(jobs))
        return add_jobs(call, jobs, err);
    uint8_t noise[RANDOM_LEN];
    random_fill(noise, sizeof noise);
    return add_job(call, call->request, id_of(moment_now(call), 0, noise), err);
}

static enum error_code submit_finish(struct verb_call *call, struct err *err)
{
    const struct call *ops = &call->call;
    bool many = call->state != NULL;
    for (uint32_t i = 0; i < ops->count; i++) {
        const struct op *op = ops->ops[i];
        if (op->code == ERR_OK)
            continue;
        return many ? err_set(err, op->code, "jobs[%u]: %s", i + op->refused_at, op->err.detail)
                    : err_set(err, op->code, "%s", op->err.detail);
    }
    call->result.status = !many && ops->ops[0]->result.duplicate ? 200 : 201;
    return ERR_OK;
}

static void submit_write(const struct verb_call *call, struct json_writer *writer)
{
    bool many = call->state != NULL;
    if (many) {
        json_begin_object(writer);
        json_key(writer, STR("jobs"));
        json_begin_array(writer);
    }
    for (uint32_t i = 0; i < call->call.count; i++) {
        const struct op *op = call->call.ops[i];
        answer_submitted(writer, &op->after->job, op->result.duplicate, access_sight(call));
    }
    if (many) {
        json_end_array(writer);
        json_end_object(writer);
    }
}

const struct verb verb_submit = {.request = &spec_record,
                                 .prepare = submit_prepare,
                                 .finish = submit_finish,
                                 .write = submit_write};
