/* Every verb from request to response, and what verbs share. */
#include "engine/verb.h"

#include <assert.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/record.h"
#include "core/spec.h"
#include "engine/access.h"
#include "engine/keyed.h"
#include "engine/recall.h"

enum verb_class { READ, WATCH, WRITE, CLAIM, LONG };
enum { NO, YES = NO, KEY };

enum {
    /* Every commit wakes everybody who waits. A waiter that was woken so often for nothing looks
     * again only after a pause. */
    EAGER_ROUNDS = 8,
    JOB_BYTES = 1280, /* of a job in a response, with a small payload */
    NAP_MS = 5,
    /* Pages of events that are passed over in one call, since nothing in them is for the caller. */
    PASSED_MAX = 16,
};

struct entry {
    struct str name;
    struct str path;
    const struct verb *verb;
    enum verb_class class;
    bool needs_key;
};

static const struct entry entries[VERB_COUNT] = {
#define VERB(name, method, path, class, safe, ...)                                                 \
    [VERB_##name] = {STR_INIT(#name), STR_INIT(path), &verb_##name, class, (safe) == KEY},
#include "engine/verbs.def"
#undef VERB
};

enum verb_name verb_find(struct str name)
{
    int i = 0;
    while (i < VERB_COUNT && !str_eq(entries[i].name, name))
        i++;
    return (enum verb_name)i;
}

struct str verb_text(enum verb_name name)
{
    return entries[name].name;
}

const struct verb *verb_at(enum verb_name name)
{
    return entries[name].verb;
}

bool verb_is_write(enum verb_name name)
{
    return entries[name].class == WRITE || entries[name].class == CLAIM;
}

bool verb_is_claim(enum verb_name name)
{
    return entries[name].class == CLAIM;
}

bool verb_is_watch(enum verb_name name)
{
    return entries[name].class == WATCH;
}

bool verb_is_of_lease(enum verb_name name)
{
    const struct str leases = STR("/v1/leases/");
    struct str path = entries[name].path;
    return path.len > leases.len && memcmp(path.at, leases.at, leases.len) == 0;
}

bool verb_is_long(enum verb_name name)
{
    return entries[name].class == LONG;
}

bool verb_needs_key(enum verb_name name)
{
    return entries[name].needs_key;
}

int64_t verb_wait_ms(enum verb_name name, struct str request)
{
    struct arena arena;
    int64_t wait_ms;
    if ((!verb_is_claim(name) && !verb_is_watch(name)) || !str_is_set(request))
        return 0;
    arena_init(&arena);
    bool sound =
        json_check_request(request, REQUEST_BYTES_MAX, "the request", &arena, NULL) == ERR_OK;
    arena_release(&arena);
    return sound && json_int64(json_member(request, STR("wait_ms")), &wait_ms) && wait_ms > 0 &&
                   wait_ms <= WAIT_MS_MAX
               ? wait_ms
               : 0;
}

size_t verb_bytes_max(enum verb_name name)
{
    return name == VERB_import ? IMPORT_BYTES_MAX : REQUEST_BYTES_MAX;
}

enum error_code verb_no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* ---- operations --------------------------------------------------------------------------- */

/* Writes the response of a call that is not about jobs, for the record of the request, in the
 * memory and the thread of the batch. */
static int render(void *arg, struct buf *body)
{
    struct verb_call *call = arg;
    struct arena *own = call->arena;
    struct err err = {0};
    call->arena = body->arena;
    call->rendering = true;
    enum error_code code = verb_finish_own(call, &err);
    if (code == ERR_OK)
        verb_write(call, body);
    body->failed = body->failed || code != ERR_OK;
    call->rendering = false;
    call->arena = own;
    return call->result.status;
}

struct op *verb_op(struct verb_call *call)
{
    uint32_t count = call->call.count;
    if (count == BATCH_OPS_MAX)
        return NULL;
    if (count == call->op_cap) {
        uint32_t cap = count == 0 ? 1 : count * 4;
        struct op **ops =
            arena_grow(call->arena, call->call.ops, count * sizeof(void *), cap * sizeof(void *));
        if (ops == NULL)
            return NULL;
        call->call.ops = ops;
        call->op_cap = cap;
    }
    struct op *op = arena_zalloc(call->arena, 1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->queues = call->queues;
    if (count == 0) {
        op->request.render = render;
        op->request.arg = call;
    }
    call->call.ops[call->call.count++] = op;
    return op;
}

void verb_hash_request(const struct verb_call *call, uint8_t ret[HASH_LEN])
{
    const struct str body[] = {verb_text(call->name), STR("\n"), call->request};
    hash_sha256(body, sizeof body / sizeof body[0], ret);
}

/* Reads the request and makes the operations, all in memory that lives as long as the batch. */
static enum error_code prepare_kept(struct verb_call *call, struct err *err)
{
    struct arena *own = call->arena;
    struct call_kept *kept = call_kept_new(call->engine);
    call->call.kept = kept;
    if (kept == NULL)
        return verb_no_memory(err);
    struct str actor = arena_copy(&kept->arena, call->actor);
    struct str request = arena_copy(&kept->arena, call->request);
    if (!str_is_set(request) || str_is_set(actor) != str_is_set(call->actor))
        return verb_no_memory(err);
    call->actor = actor;
    call->request = request;
    call->arena = &kept->arena;
    enum error_code code = verb_at(call->name)->prepare(call, err);
    call->arena = own;
    return code;
}

enum error_code verb_prepare(struct verb_call *call, struct err *err)
{
    assert(verb_is_write(call->name));
    call->call.bytes = call->request.len;
    call->call.wanted = call->wanted;
    call->call.wanted_arg = call->wanted_arg;
    enum error_code code = access_check(call, err);
    if (code == ERR_OK)
        code = prepare_kept(call, err);
    if (code != ERR_OK)
        call_release(&call->call);
    /* The token of a lease tells a repetition by itself. */
    bool keyed = str_is_set(call->scope) && !verb_is_of_lease(call->name);
    if (code != ERR_OK || call->call.count == 0 || !keyed)
        return code;
    struct op_request *request = &call->call.ops[0]->request;
    request->scope = call->scope;
    request->key = call->key;
    verb_hash_request(call, request->body_hash);
    for (uint32_t i = 1; i < call->call.count; i++)
        call->call.ops[i]->same_request = true;
    return ERR_OK;
}

enum error_code verb_finish_own(struct verb_call *call, struct err *err)
{
    const struct verb *verb = verb_at(call->name);
    const struct op *first = call->call.count > 0 ? call->call.ops[0] : NULL;
    call->result = (struct verb_result){.status = 200};
    if (first != NULL && str_is_set(first->request.body)) {
        call->result = (struct verb_result){
            .status = first->request.status, .has_come = true, .text = first->request.body};
        return ERR_OK;
    }
    return verb->finish != NULL ? verb->finish(call, err) : verb_outcome(call, err);
}

static const struct op_request *request_of(const struct verb_call *call)
{
    static const struct op_request none;
    return call->call.count > 0 ? &call->call.ops[0]->request : &none;
}

enum error_code verb_finish(struct verb_call *call, struct err *err)
{
    const struct op_request *request = request_of(call);
    if (request->disposition == DISPOSITION_CLASHED)
        return verb_outcome(call, err);
    if (request->disposition == DISPOSITION_REPEATED) {
        call->result = (struct verb_result){0};
        enum error_code code = recall(call, request->record, err);
        if (code != ERR_OK || str_is_set(call->result.text))
            return code;
    }
    return verb_finish_own(call, err);
}

bool verb_finish_reads(const struct verb_call *call)
{
    const struct verb *verb = verb_at(call->name);
    enum disposition disposition = request_of(call)->disposition;
    return disposition == DISPOSITION_REPEATED ||
           (verb->reads != NULL && disposition != DISPOSITION_CLASHED && verb->reads(call));
}

static enum error_code do_write(struct verb_call *call, struct err *err)
{
    enum error_code code = verb_prepare(call, err);
    if (code != ERR_OK)
        return code;
    if (call->slice_ms > 0 && call->call.wait_ms > call->slice_ms)
        call->call.wait_ms = call->slice_ms;
    if (call->call.count > 0)
        code = engine_run(call->engine, &call->call, err);
    if (code == ERR_OK)
        code = verb_finish(call, err);
    if (code != ERR_OK)
        call_release(&call->call);
    return code;
}

enum error_code verb_do(struct verb_call *call, struct err *err)
{
    if (!str_is_set(call->request))
        call->request = STR("{}");
    enum error_code code = json_check_request(call->request, verb_bytes_max(call->name),
                                              "the request", call->arena, err);
    if (code != ERR_OK)
        return code;
    call->request = json_trim(call->request);
    if (json_type(call->request) != JSON_OBJECT)
        return err_set(err, ERR_BAD_REQUEST, "a request must be a JSON object");
    return verb_is_write(call->name) ? do_write(call, err) : verb_run(call, err);
}

/* One who looks again. */
struct looking {
    bool waits;
    int64_t until; /* on the engine's steady clock */
    uint64_t seen;
    uint32_t rounds;
};

/* Waits until something may have changed; `ret` false: it is time to answer. */
static enum error_code look_again(const struct verb_call *call, struct looking *looking, bool *ret,
                                  struct err *err)
{
    int64_t now = engine_steady(call->engine);
    if (!looking->waits && call->wait_ms > 0) {
        bool sliced = call->slice_ms > 0 && call->slice_ms < call->wait_ms;
        looking->waits = *ret = true; /* what came in between is not waited for */
        looking->until = now + (sliced ? call->slice_ms : call->wait_ms);
        return engine_watch(call->engine, 0, 0, &looking->seen, err);
    }
    int64_t left = looking->waits ? looking->until - now : 0;
    bool wanted = call->wanted == NULL || call->wanted(call->wanted_arg);
    *ret = left > 0 && wanted && !engine_interrupted(call->engine);
    if (!*ret)
        return ERR_OK;
    if (looking->rounds++ > EAGER_ROUNDS)
        clock_pause(NAP_MS);
    return engine_watch(call->engine, looking->seen, left, &looking->seen, err);
}

/* Each look but the first has memory of its own, which the next one takes. */
static enum error_code run_watch(struct verb_call *call, struct err *err)
{
    struct arena *own = call->arena;
    struct looking looking = {0};
    uint32_t passed = 0;
    bool again = true;
    enum error_code code = ERR_OK;
    while (code == ERR_OK && again) {
        code = verb_run_own(call, err);
        again = code == ERR_OK && !call->result.has_come;
        if (again && call->result.passed)
            again = ++passed < PASSED_MAX;
        else if (again)
            code = look_again(call, &looking, &again, err);
        if (code != ERR_OK || !again)
            break;
        if (call->result.next.set)
            call->after = call->result.next;
        arena_clear(&call->look);
        call->arena = &call->look;
    }
    call->arena = own;
    call->result.passed = call->result.passed || passed > 0;
    if (code != ERR_OK)
        verb_call_release(call);
    return code;
}

enum error_code verb_run(struct verb_call *call, struct err *err)
{
    assert(!verb_is_write(call->name));
    enum error_code code = access_check(call, err);
    if (code != ERR_OK)
        return code;
    if (verb_is_watch(call->name))
        return run_watch(call, err);
    bool keyed = str_is_set(call->scope) && verb_is_long(call->name);
    return keyed ? keyed_run(call, err) : verb_run_own(call, err);
}

enum error_code verb_run_own(struct verb_call *call, struct err *err)
{
    call->result = (struct verb_result){.status = 200};
    return verb_at(call->name)->run(call, err);
}

void verb_put(const struct verb_call *call, struct json_writer *writer)
{
    if (str_is_set(call->result.text))
        json_put_raw(writer, call->result.text);
    else
        verb_at(call->name)->write(call, writer);
}

/* What a response of many jobs will take, roughly: a buffer that doubles is copied, and its new
 * pages have to be made. */
static size_t expected_bytes(const struct verb_call *call)
{
    size_t jobs = call->call.count;
    for (uint32_t i = 0; i < call->call.count; i++)
        jobs += call->call.ops[i]->grant_count;
    return call->result.bytes + jobs * JOB_BYTES;
}

void verb_write(const struct verb_call *call, struct buf *buf)
{
    struct json_writer writer;
    (void)buf_reserve(buf, expected_bytes(call));
    json_writer_init(&writer, buf);
    verb_put(call, &writer);
}

void verb_call_release(struct verb_call *call)
{
    call_release(&call->call);
    arena_release(&call->look);
}

enum error_code verb_respond(struct verb_call *call, struct buf *buf, struct err *err)
{
    enum error_code code = verb_do(call, err);
    if (code != ERR_OK)
        return code;
    verb_write(call, buf);
    verb_call_release(call);
    return buf->failed ? verb_no_memory(err) : ERR_OK;
}

/* ---- what verbs share --------------------------------------------------------------------- */

void *verb_data(struct verb_call *call, size_t size)
{
    void *data = arena_zalloc(call->arena, 1, size);
    call->result.data = data;
    return data;
}

enum error_code verb_read(const struct verb_call *call, const struct record_type *type, void *ret,
                          struct err *err)
{
    enum record_source source = call->from_query ? RECORD_QUERY : RECORD_REQUEST;
    return record_read(type, call->request, RECORD_ALL, source, NULL, call->arena, ret, err);
}

enum error_code verb_job_id(struct str text, struct uuid *ret, struct err *err)
{
    if (!str_is_set(text))
        return err_set(err, ERR_BAD_REQUEST, "id is required: a job id");
    return uuid_parse(text, ret)
               ? ERR_OK
               : (enum error_code)err_set(err, ERR_BAD_REQUEST, "\"%.*s\" is not a job id",
                                          STR_ARG(text));
}

enum error_code verb_missing(const char *member, const char *what, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "%s is required: %s", member, what);
}

enum error_code verb_outcome(const struct verb_call *call, struct err *err)
{
    const struct op *op = call->call.ops[0];
    return op->code == ERR_OK ? ERR_OK : err_set(err, op->code, "%s", op->err.detail);
}

enum error_code verb_no_job(struct uuid id, struct err *err)
{
    char text[UUID_TEXT_LEN];
    uuid_format(id, text);
    return err_set(err, ERR_NOT_FOUND, "unknown job %.*s", UUID_TEXT_LEN, text);
}

bool verb_may_see(const struct verb_call *call, const struct job *job)
{
    return job->status != JOB_NONE && access_has_queue(call->queues, job->spec.queue);
}

enum error_code verb_check_payload(struct str json, const char *what, struct err *err)
{
    if (json.len > PAYLOAD_BYTES_MAX)
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "%s has %zu bytes; at most %d are allowed", what,
                       json.len, PAYLOAD_BYTES_MAX);
    return ERR_OK;
}

enum error_code verb_load_job(struct verb_call *call, struct store_txn *txn, struct uuid id,
                              bool whole, struct store_job *ret, struct err *err)
{
    int64_t now;
    return verb_load_job_now(call, txn, id, whole, ret, &now, err);
}

enum error_code verb_load_job_now(struct verb_call *call, struct store_txn *txn, struct uuid id,
                                  bool whole, struct store_job *ret, int64_t *ret_now,
                                  struct err *err)
{
    struct store_job job = {.id = id};
    struct store_load load = {.jobs = &job, .job_count = 1};
    enum error_code code = store_load(txn, &load, call->arena, err);
    if (code != ERR_OK)
        return code;
    if (!verb_may_see(call, &job.slice.job))
        return verb_no_job(id, err);
    if (whole) {
        struct store_parts parts = {
            .job = id, .all_steps = true, .all_effects = true, .all_signals = true};
        code = store_load_parts(txn, &parts, 1, call->arena, err);
        if (code != ERR_OK)
            return code;
        job.slice.steps = parts.steps;
        job.slice.step_count = parts.step_count;
        job.slice.effects = parts.effects;
        job.slice.effect_count = job.slice.effect_cap = parts.effect_count;
        job.slice.signals = parts.signals;
        job.slice.signal_count = job.slice.signal_cap = parts.signal_count;
        code = job_slice_index(&job.slice, call->arena);
        if (code != ERR_OK)
            return verb_no_memory(err);
    }
    *ret = job;
    *ret_now = load.now;
    return ERR_OK;
}
