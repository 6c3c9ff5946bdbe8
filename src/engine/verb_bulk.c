/* Verbs on many jobs at once: bulk, dead_letters, redrive, drop.
 *
 * They walk through a list, page by page, and give each job on it to the engine. A job that is not
 * in a state for it is refused alone and counted. The cursor is the last job that was looked at, so
 * that jobs which leave the filter on the way change nothing. No store knows of groups of dead
 * letters: they are sifted here from what the store lists. */
#include <assert.h>

#include "base/clock.h"
#include "core/dead_group.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/filter.h"
#include "engine/listed.h"
#include "engine/verb.h"

enum {
    BULK_JOBS_MAX = STORE_LIST_MAX,
    CHUNK_MAX = 100, /* jobs in one batch */
    RATE_MAX = 1000 * 1000,
    NAP_MS = 20,
    SEARCH_MS_MAX = 1000, /* for dead letters of a group, in one answer */
};

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)
#define RANGE(type, member, min, max)                                                              \
    RECORD_FIELD_RANGE(struct type, member, #member, INT, min, max)

/* ---- walking through jobs ----------------------------------------------------------------- */

/* What is done to how many of which jobs, and how far it has come. */
struct walk {
    struct store_filter filter; /* `before` and `limit` move on */
    struct op op;               /* what each job gets */
    int64_t rate_per_s;         /* 0: as fast as it goes */
    bool dry_run;
    int64_t limit;
    struct filter_request which; /* what the store does not look for is sifted */
    bool grouped;                /* only dead letters of this group */
    uint8_t group[DEAD_GROUP_LEN];

    int64_t looked_at;
    int64_t matched;
    int64_t done;
    int64_t refused;
    struct uuid last;
    struct store_reach reach; /* of the last page */
    bool more;
};

/* Sleeps, but not longer than until the handle is to be closed. */
static void pause_for(struct verb_call *call, int64_t ms)
{
    for (; ms > 0 && !engine_interrupted(call->engine); ms -= NAP_MS)
        clock_pause(ms < NAP_MS ? ms : NAP_MS);
}

static enum error_code list_page(struct verb_call *call, struct walk *walk, struct arena *arena,
                                 struct store_job **ret, uint32_t *ret_count, struct err *err)
{
    struct store_txn *txn;
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_list(txn, &walk->filter, arena, ret, ret_count, err);
    store_rollback(txn);
    return code;
}

/* Gives a page of jobs to the engine. */
static enum error_code do_page(struct verb_call *call, struct walk *walk, struct arena *arena,
                               const struct store_job *jobs, uint32_t count, struct err *err)
{
    struct op *ops = arena_zalloc(arena, count, sizeof *ops);
    struct op **list = arena_zalloc(arena, count, sizeof(void *));
    if (ops == NULL || list == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %u jobs", count);
    for (uint32_t i = 0; i < count; i++) {
        ops[i] = walk->op;
        ops[i].job = jobs[i].id;
        ops[i].queues = call->queues;
        list[i] = &ops[i];
    }
    struct call batch = {.ops = list, .count = count, .class = CALL_RESULT};
    enum error_code code = engine_run(call->engine, &batch, err);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        enum error_code each = ops[i].code;
        if (each == ERR_UNAVAILABLE || each == ERR_NO_MEMORY)
            code = err_set(err, each, "%s", ops[i].err.detail);
        walk->done += each == ERR_OK;
        walk->refused += each != ERR_OK && code == ERR_OK;
    }
    call_release(&batch);
    return code;
}

static bool walk_sifts(const struct walk *walk)
{
    return walk->grouped || filter_sifts(&walk->which);
}

/* Leaves those that are meant, at most `most`, at the front of the list. */
static enum error_code sift(const struct walk *walk, struct store_job *jobs, uint32_t *count,
                            struct uuid *last, int64_t most, struct arena *arena, struct err *err)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *count && kept < most; i++) {
        struct dead_group group;
        *last = jobs[i].id;
        if (str_is_set(jobs[i].damaged) || !filter_passes(&walk->which, &jobs[i].slice.job))
            continue;
        if (!walk->grouped) {
            jobs[kept++] = jobs[i];
            continue;
        }
        if (!dead_group_of(&jobs[i].slice.job, arena, &group))
            return verb_no_memory(err);
        bool same = memcmp(group.id, walk->group, sizeof group.id) == 0;
        if (same)
            jobs[kept++] = jobs[i];
    }
    *count = kept;
    return ERR_OK;
}

/* Lists the next jobs that the walk is about, at most `most`, and moves it on behind them. */
static enum error_code next_jobs(struct verb_call *call, struct walk *walk, uint32_t most,
                                 struct arena *arena, struct store_job **ret, uint32_t *ret_count,
                                 struct err *err)
{
    uint32_t count = 0;
    walk->filter.limit = walk_sifts(walk) && most < CHUNK_MAX ? CHUNK_MAX : most;
    walk->filter.reach = &walk->reach;
    enum error_code code = list_page(call, walk, arena, ret, &count, err);
    if (code != ERR_OK)
        return code;
    *ret_count = count;
    bool stopped = walk->reach.stopped;
    walk->looked_at += (int64_t)count + stopped;
    walk->more = count == walk->filter.limit || stopped;
    if (count > 0) {
        struct uuid end = (*ret)[count - 1].id;
        walk->last = end;
        if (walk_sifts(walk))
            code = sift(walk, *ret, ret_count, &walk->last, most, arena, err);
        walk->more = walk->more || !uuid_eq(walk->last, end);
        stopped = stopped && uuid_eq(walk->last, end);
    }
    if (stopped)
        walk->last = walk->reach.at;
    if (count > 0 || stopped)
        walk->filter.before = walk->last;
    return code;
}

/* Counts what would be refused, as far as the jobs on the list tell. */
static void count_refusals(struct walk *walk, const struct store_job *jobs, uint32_t count)
{
    if (walk->op.type != OP_COMMAND)
        return;
    for (uint32_t i = 0; i < count; i++)
        walk->refused += !job_takes(&jobs[i].slice.job, walk->op.command.type);
}

/* How many jobs go into the next batch. */
static uint32_t chunk_size(const struct walk *walk)
{
    int64_t size = walk->limit - walk->matched;
    if (walk->dry_run)
        return (uint32_t)size;
    int64_t tenth = walk->rate_per_s / 10;
    if (size > CHUNK_MAX)
        size = CHUNK_MAX;
    if (walk->rate_per_s > 0 && size > tenth)
        size = tenth > 0 ? tenth : 1;
    return (uint32_t)size;
}

static enum error_code walk_page(struct verb_call *call, struct walk *walk, struct arena *arena,
                                 struct err *err)
{
    struct store_job *jobs = NULL;
    uint32_t count = 0;
    enum error_code code = next_jobs(call, walk, chunk_size(walk), arena, &jobs, &count, err);
    if (code == ERR_OK && count > 0 && !walk->dry_run)
        code = do_page(call, walk, arena, jobs, count, err);
    if (code != ERR_OK)
        return code;
    if (walk->dry_run)
        count_refusals(walk, jobs, count);
    walk->matched += count;
    if (walk->rate_per_s > 0 && walk->more && !walk->dry_run && walk->matched < walk->limit)
        pause_for(call, (int64_t)count * 1000 / walk->rate_per_s);
    return ERR_OK;
}

/* Walks until the limit, the end of the list, or the time that a call may take. What was done
 * before something went wrong is told; anyone who goes on from there will hear of it. */
static enum error_code walk_all(struct verb_call *call, struct walk *walk, struct err *err)
{
    int64_t until = engine_steady(call->engine) + WAIT_MS_MAX;
    struct arena arena;
    enum error_code code = ERR_OK;
    arena_init(&arena);
    walk->more = true;
    while (code == ERR_OK && walk->more && walk->matched < walk->limit) {
        if (walk->looked_at > 0 &&
            (engine_steady(call->engine) >= until || engine_interrupted(call->engine)))
            break;
        code = walk_page(call, walk, &arena, err);
        arena_clear(&arena);
    }
    arena_release(&arena);
    return walk->matched > 0 ? ERR_OK : code;
}

static void write_counts(const struct verb_call *call, struct json_writer *writer)
{
    const struct walk *walk = call->result.data;
    json_begin_object(writer);
    answer_int(writer, STR("matched"), walk->matched);
    answer_int(writer, STR("done"), walk->done);
    answer_int(writer, STR("refused"), walk->refused);
    cursor_write(writer, walk->more, walk->last);
    json_end_object(writer);
}

/* ---- bulk --------------------------------------------------------------------------------- */

enum bulk_action { BULK_NONE, BULK_REQUEUE, BULK_CANCEL, BULK_REPIN };

static const struct str bulk_action_texts[] = {
    STR_INIT(""),
    STR_INIT("requeue"),
    STR_INIT("cancel"),
    STR_INIT("repin"),
};
static const struct record_names bulk_action_names = {
    bulk_action_texts, sizeof bulk_action_texts / sizeof bulk_action_texts[0]};

struct bulk_request {
    enum bulk_action action;
    struct str which; /* the filter, raw */
    enum cancel_mode mode;
    int64_t grace_ms;
    struct str reason;
    bool fresh;
    struct str to;   /* repin: the code version, */
    struct str from; /* and only of jobs that are pinned to this one */
    int64_t rate_per_s;
    bool dry_run;
    int64_t limit;
    struct str cursor;
};

static const struct record_field bulk_fields[] = {
    RECORD_FIELD_ENUM(struct bulk_request, action, "action", bulk_action_names),
    RECORD_FIELD(struct bulk_request, which, "filter", OBJECT),
    RECORD_FIELD_ENUM(struct bulk_request, mode, "mode", cancel_mode_names),
    RANGE(bulk_request, grace_ms, 1, DELAY_MS_MAX),
    FIELD(bulk_request, reason, TEXT),
    FIELD(bulk_request, fresh, BOOL),
    FIELD(bulk_request, to, NAME),
    FIELD(bulk_request, from, NAME),
    RANGE(bulk_request, rate_per_s, 1, RATE_MAX),
    FIELD(bulk_request, dry_run, BOOL),
    RANGE(bulk_request, limit, 1, BULK_JOBS_MAX),
    FIELD(bulk_request, cursor, TEXT),
};
RECORD_TABLE(bulk);

struct which_request {
    struct filter_request filter;
};

static const struct record_field which_fields[] = {FILTER_FIELDS(struct which_request)};
RECORD_TABLE(which);

static enum error_code check_bulk(const struct bulk_request *request, struct err *err)
{
    if (request->action == BULK_NONE)
        return err_set(err, ERR_BAD_REQUEST, "action is required: requeue, cancel or repin");
    if (!str_is_set(request->which))
        return err_set(err, ERR_BAD_REQUEST, "filter is required; {} means all jobs");
    if (request->action != BULK_REQUEUE && request->fresh)
        return err_set(err, ERR_BAD_REQUEST, "fresh is only for requeue");
    if (request->action != BULK_CANCEL && request->mode != CANCEL_NONE)
        return err_set(err, ERR_BAD_REQUEST, "mode is only for cancel");
    if (request->action != BULK_REPIN && (str_is_set(request->to) || str_is_set(request->from)))
        return err_set(err, ERR_BAD_REQUEST, "to and from are only for repin");
    if (request->action == BULK_REPIN && !str_is_set(request->to))
        return err_set(err, ERR_BAD_REQUEST, "to is required: the code version to pin jobs to");
    if (request->grace_ms > 0 && (request->action != BULK_CANCEL || request->mode == CANCEL_HARD))
        return err_set(err, ERR_BAD_REQUEST, "grace_ms is for a soft cancel");
    return ERR_OK;
}

static enum error_code read_which(struct verb_call *call, struct str json, struct walk *walk,
                                  struct err *err)
{
    struct which_request request = {0};
    enum error_code code = record_read(&which_record, json, RECORD_ALL, RECORD_REQUEST, "filter",
                                       call->arena, &request, err);
    if (code == ERR_OK)
        code = filter_read(&request.filter, &walk->filter, err);
    walk->which = request.filter;
    return code == ERR_OK ? access_filter(call, &walk->filter, err) : code;
}

static struct op command_op(const struct verb_call *call, enum command_type type)
{
    struct op op = {.type = OP_COMMAND};
    op.command = (struct command){.type = type, .actor = call->actor};
    return op;
}

static struct op requeue_op(const struct verb_call *call, struct str reason, bool fresh)
{
    struct op op = command_op(call, COMMAND_REQUEUE);
    op.command.requeue.reason = reason;
    op.command.requeue.fresh = fresh;
    return op;
}

static struct op cancel_op(const struct verb_call *call, struct str reason, enum cancel_mode mode)
{
    struct op op = command_op(call, COMMAND_CANCEL);
    op.command.cancel.reason = reason;
    op.command.cancel.mode = mode;
    return op;
}

static struct op repin_op(const struct verb_call *call, const struct bulk_request *request)
{
    struct op op = command_op(call, COMMAND_REPIN);
    op.command.repin.to = request->to;
    op.command.repin.from = request->from;
    op.command.repin.reason = request->reason;
    return op;
}

static struct op bulk_op(const struct verb_call *call, const struct bulk_request *request)
{
    if (request->action == BULK_REPIN)
        return repin_op(call, request);
    if (request->action == BULK_REQUEUE)
        return requeue_op(call, request->reason, request->fresh);
    struct op op = cancel_op(call, request->reason, request->mode);
    op.command.cancel.soft_ms = request->grace_ms;
    return op;
}

static enum error_code run_bulk(struct verb_call *call, struct err *err)
{
    struct bulk_request request = {.limit = BULK_JOBS_MAX};
    struct walk *walk = verb_data(call, sizeof *walk);
    if (walk == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &bulk_record, &request, err);
    if (code == ERR_OK)
        code = check_bulk(&request, err);
    if (code == ERR_OK && request.action == BULK_REPIN && call->queues != NULL)
        code = err_set(err, ERR_FORBIDDEN, "repin takes the scope admin of all queues");
    if (code == ERR_OK)
        code = read_which(call, request.which, walk, err);
    if (code == ERR_OK)
        code = cursor_read(request.cursor, &walk->filter.before, err);
    if (code != ERR_OK)
        return code;
    walk->op = bulk_op(call, &request);
    walk->rate_per_s = request.rate_per_s;
    walk->dry_run = request.dry_run;
    walk->limit = request.limit;
    return walk_all(call, walk, err);
}

const struct verb verb_bulk = {.request = &bulk_record, .run = run_bulk, .write = write_counts};

/* ---- dead letters ------------------------------------------------------------------------- */

struct dead_request {
    struct str id;
    struct str kind;
    struct str queue;
    enum dead_letter_reason reason_code;
    struct str group; /* of dead_letter_groups */
    struct str reason;
    bool fresh;
    bool dry_run;
    int64_t rate_per_s;
    int64_t limit;
    struct str cursor;
};

#define WHICH_LETTERS                                                                              \
    FIELD(dead_request, kind, NAME), FIELD(dead_request, queue, NAME),                             \
        RECORD_FIELD_ENUM(struct dead_request, reason_code, "reason_code",                         \
                          dead_letter_reason_names),                                               \
        FIELD(dead_request, group, TEXT), RANGE(dead_request, limit, 1, BULK_JOBS_MAX),            \
        FIELD(dead_request, cursor, TEXT)

static const struct record_field dead_letters_fields[] = {WHICH_LETTERS};
RECORD_TABLE(dead_letters);

static const struct record_field redrive_fields[] = {
    FIELD(dead_request, id, TEXT),
    FIELD(dead_request, reason, TEXT),
    FIELD(dead_request, fresh, BOOL),
    FIELD(dead_request, dry_run, BOOL),
    WHICH_LETTERS,
    RANGE(dead_request, rate_per_s, 1, RATE_MAX),
};
RECORD_TABLE(redrive);

/* Anyone who drops may give a reason too; nothing is left that could keep it. */
static const struct record_field drop_fields[] = {
    FIELD(dead_request, id, TEXT),
    FIELD(dead_request, reason, TEXT),
    FIELD(dead_request, dry_run, BOOL),
    WHICH_LETTERS,
    RANGE(dead_request, rate_per_s, 1, RATE_MAX),
};
RECORD_TABLE(drop);

static enum error_code read_letters(struct verb_call *call, const struct record_type *type,
                                    struct dead_request *request, struct walk *ret, struct err *err)
{
    struct store_filter *filter = &ret->filter;
    enum error_code code = verb_read(call, type, request, err);
    if (code == ERR_OK && str_is_set(request->id))
        code = verb_job_id(request->id, &filter->id, err);
    if (code == ERR_OK && str_is_set(request->group))
        code = dead_group_read(request->group, ret->group, err);
    if (code == ERR_OK)
        code = cursor_read(request->cursor, &filter->before, err);
    filter->statuses = UINT32_C(1) << JOB_DEAD_LETTERED;
    filter->kind = request->kind;
    filter->queue = request->queue;
    filter->reason_code = request->reason_code;
    ret->grouped = str_is_set(request->group);
    ret->rate_per_s = request->rate_per_s;
    ret->dry_run = request->dry_run;
    ret->limit = request->limit;
    return code == ERR_OK ? access_filter(call, filter, err) : code;
}

/* A page of dead letters. */
struct letters {
    struct walk walk;
    struct listed list;
};

/* Lists dead letters until there are enough. Of a group there may be few among many others, so the
 * page also ends when enough was looked at. */
static enum error_code list_letters(struct verb_call *call, struct letters *letters,
                                    struct err *err)
{
    struct walk *walk = &letters->walk;
    int64_t until = engine_steady(call->engine) + SEARCH_MS_MAX;
    enum error_code code = ERR_OK;
    struct arena page;
    arena_init(&page);
    walk->more = true;
    while (code == ERR_OK && walk->more && walk->matched < walk->limit &&
           (walk->looked_at == 0 || engine_steady(call->engine) < until)) {
        struct store_job *jobs = NULL;
        uint32_t count = 0;
        uint32_t most = (uint32_t)(walk->limit - walk->matched);
        code = next_jobs(call, walk, most, &page, &jobs, &count, err);
        for (uint32_t i = 0; code == ERR_OK && i < count; i++)
            if (!listed_add(&letters->list, &jobs[i], call->arena))
                code = verb_no_memory(err);
        walk->matched += count;
        arena_clear(&page);
    }
    arena_release(&page);
    return code;
}

static enum error_code run_dead_letters(struct verb_call *call, struct err *err)
{
    struct dead_request request = {.limit = PAGE_LIMIT_DEFAULT};
    struct letters *letters = verb_data(call, sizeof *letters);
    if (letters == NULL)
        return verb_no_memory(err);
    enum error_code code = read_letters(call, &dead_letters_record, &request, &letters->walk, err);
    letters->list.sight = access_sight_of(call, ANSWER_DETAILS);
    return code == ERR_OK ? list_letters(call, letters, err) : code;
}

static void write_letters(const struct verb_call *call, struct json_writer *writer)
{
    const struct letters *letters = call->result.data;
    json_begin_object(writer);
    listed_write(&letters->list, writer);
    cursor_write(writer, letters->walk.more, letters->walk.last);
    json_end_object(writer);
}

const struct verb verb_dead_letters = {
    .request = &dead_letters_record, .run = run_dead_letters, .write = write_letters};

/* The one job that was named is no dead letter: says what it is. */
static enum error_code no_letter(struct verb_call *call, struct uuid id, struct err *err)
{
    struct store_txn *txn;
    struct store_job job;
    enum error_code code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = verb_load_job(call, txn, id, false, &job, err);
    store_rollback(txn);
    if (code != ERR_OK)
        return code;
    return err_set(err, ERR_INVALID_TRANSITION, "the job is %.*s, not a matching dead letter",
                   STR_ARG(job_status_name(job.slice.job.status)));
}

static enum error_code walk_letters(struct verb_call *call, const struct dead_request *request,
                                    struct walk *walk, struct err *err)
{
    enum error_code code = walk_all(call, walk, err);
    if (code == ERR_OK && walk->matched == 0 && str_is_set(request->id))
        code = no_letter(call, walk->filter.id, err);
    walk->more = walk->more && !str_is_set(request->id);
    return code;
}

static enum error_code run_redrive(struct verb_call *call, struct err *err)
{
    struct dead_request request = {.limit = BULK_JOBS_MAX};
    struct walk *walk = verb_data(call, sizeof *walk);
    if (walk == NULL)
        return verb_no_memory(err);
    enum error_code code = read_letters(call, &redrive_record, &request, walk, err);
    if (code != ERR_OK)
        return code;
    walk->op = requeue_op(call, request.reason, request.fresh);
    return walk_letters(call, &request, walk, err);
}

const struct verb verb_redrive = {
    .request = &redrive_record, .run = run_redrive, .write = write_counts};

static enum error_code run_drop(struct verb_call *call, struct err *err)
{
    struct dead_request request = {.limit = BULK_JOBS_MAX};
    struct walk *walk = verb_data(call, sizeof *walk);
    if (walk == NULL)
        return verb_no_memory(err);
    enum error_code code = read_letters(call, &drop_record, &request, walk, err);
    if (code != ERR_OK)
        return code;
    walk->op = (struct op){.type = OP_DROP};
    return walk_letters(call, &request, walk, err);
}

const struct verb verb_drop = {.request = &drop_record, .run = run_drop, .write = write_counts};
