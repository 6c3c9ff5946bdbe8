/* Jobs that users put in with transactions of their own: each becomes a job with its id, whatever
 * is wrong with it, since its transaction has committed and somebody has that id. */
#include <assert.h>

#include "base/json.h"
#include "core/plan.h"
#include "engine/batch_private.h"

/* What can neither be taken in nor buried is tried again after so long. */
enum { QUARANTINE_MS = 60 * 1000 };

/* Settings of kinds, for the defaults of specs. */
static enum error_code read_kinds(struct batcher *batcher, struct arena *arena,
                                  struct store_load *ret, struct err *err)
{
    struct store_txn *txn;
    enum error_code code = store_begin(batcher->store, STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    *ret = (struct store_load){0};
    code = store_load(txn, ret, arena, err);
    store_rollback(txn);
    return code;
}

static struct spec defaults_of(const struct store_load *load, struct str kind)
{
    const struct kind_settings *settings = NULL;
    for (uint32_t i = 0; i < load->kind_count; i++)
        if (str_eq(load->kinds[i].kind, kind))
            settings = &load->kinds[i].settings;
    struct spec spec = spec_defaults(settings);
    spec.kind = kind;
    return spec;
}

/* The spec of a submission: its options are those of a request. */
static enum error_code read_spec(const struct store_submission *submission, struct arena *arena,
                                 struct spec *spec, struct err *err)
{
    enum error_code code = ERR_OK;
    if (str_is_set(submission->payload))
        code = json_check(submission->payload, PAYLOAD_BYTES_MAX, "payload", arena, err);
    if (code != ERR_OK)
        return code;
    spec->payload = submission->payload;
    if (!str_is_set(submission->options))
        return ERR_OK;
    code = json_check(submission->options, PLAN_BYTES_MAX, "options", arena, err);
    if (code == ERR_OK)
        code = spec_read(submission->options, arena, spec, err);
    if (code == ERR_OK &&
        (!str_eq(spec->kind, submission->kind) || !str_eq(spec->payload, submission->payload)))
        code = err_set(err, ERR_BAD_REQUEST, "options must not contain kind or payload");
    return code;
}

/* Whether the job will be taken, whenever that is. */
static enum error_code try_submit(const struct op *op, const struct store_load *load,
                                  struct arena *arena, struct err *err)
{
    struct context context = {.now = load->now, .arena = arena};
    struct job_slice nothing;
    struct decision decision;
    job_slice_init(&nothing, op->job, 1);
    return job_decide(&nothing, &op->command, &context, &decision, err);
}

/* How submissions are taken in. */
enum manner {
    MANNER_ASKED,  /* as they ask to be, and buried at once when that would be refused */
    MANNER_BURIED, /* as dead letters that say why */
    MANNER_BARE,   /* the same, without what they brought along */
};

struct outbox {
    struct batcher *batcher;
    struct store_load load; /* settings of kinds */
    struct arena *arena;
    enum manner manner;
    bool has_id;
    struct uuid id; /* of the first submission that was taken; the one to bury */
    struct str why;
};

/* What is known to be good of a submission that is buried. */
static struct spec spec_to_bury(const struct outbox *outbox,
                                const struct store_submission *submission)
{
    struct err ignored;
    struct spec spec = defaults_of(&outbox->load, submission->kind);
    if (outbox->manner == MANNER_BARE)
        return spec;
    if (str_is_set(submission->queue))
        spec.queue = submission->queue;
    spec.idempotency_key = submission->idempotency_key;
    if (str_is_set(submission->payload) && json_check(submission->payload, PAYLOAD_BYTES_MAX,
                                                      "payload", outbox->arena, &ignored) == ERR_OK)
        spec.payload = submission->payload;
    return spec;
}

/* One submission as operations: it is submitted, and buried at once where that must be. */
static uint32_t submission_ops(const struct outbox *outbox,
                               const struct store_submission *submission, struct spec *spec,
                               struct op ops[2])
{
    struct err refusal = {0};
    struct str why = outbox->why;
    ops[0] = (struct op){.type = OP_COMMAND, .job = submission->id, .keeps_id = true};
    ops[0].command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("pawl_submit")};
    ops[0].command.submit.spec = spec;
    if (outbox->manner == MANNER_ASKED) {
        *spec = defaults_of(&outbox->load, submission->kind);
        enum error_code code = read_spec(submission, outbox->arena, spec, &refusal);
        if (code == ERR_OK)
            code = try_submit(&ops[0], &outbox->load, outbox->arena, &refusal);
        if (code == ERR_OK)
            return 1;
        why = arena_copy(outbox->arena, str_from(refusal.detail));
    }
    *spec = spec_to_bury(outbox, submission);
    ops[1] = (struct op){.type = OP_COMMAND, .job = submission->id};
    ops[1].command = (struct command){.type = COMMAND_DEAD_LETTER, .actor = STR("pawl")};
    ops[1].command.dead_letter.reason_code = DEAD_VALIDATION_FAILED;
    ops[1].command.dead_letter.stage = STAGE_INPUT;
    ops[1].command.dead_letter.message = why;
    return 2;
}

/* Carries out what was taken in the transaction, and ends it. */
static enum error_code run_taken(struct outbox *outbox, struct store_txn *txn,
                                 const struct store_submission *submissions, uint32_t count,
                                 struct err *err)
{
    struct arena *arena = outbox->arena;
    struct op *ops = arena_zalloc(arena, 2 * (size_t)count, sizeof *ops);
    struct op **list = arena_zalloc(arena, 2 * (size_t)count, sizeof(void *));
    struct spec *specs = arena_zalloc(arena, count, sizeof *specs);
    uint32_t op_count = 0;
    enum store_outcome outcome;
    if (ops == NULL || list == NULL || specs == NULL) {
        store_rollback(txn);
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < count; i++)
        op_count += submission_ops(outbox, &submissions[i], &specs[i], &ops[op_count]);
    for (uint32_t i = 0; i < op_count; i++)
        list[i] = &ops[i];
    return batch_run_in(outbox->batcher, txn, list, op_count, arena, &outcome, err);
}

/* Takes submissions and carries them out, all of them or none. */
static enum error_code take(struct outbox *outbox, uint32_t limit, uint32_t *ret_count,
                            struct err *err)
{
    struct batcher *batcher = outbox->batcher;
    struct store_outbox_request wanted = {.limit = limit,
                                          .quarantined = batcher->quarantined,
                                          .quarantined_count = batcher->quarantined_count};
    struct store_submission *submissions = NULL;
    struct store_txn *txn;
    uint32_t count = 0;
    bool is_one = outbox->manner != MANNER_ASKED;
    outbox->has_id = outbox->has_id && is_one;
    enum error_code code = store_begin(batcher->store, STORE_WRITE, &txn, err);
    if (code != ERR_OK)
        return code;
    code = store_outbox_drain(txn, &wanted, outbox->arena, &submissions, &count, err);
    /* Somebody else may have taken the one that is to be buried. */
    if (code == ERR_OK && count > 0 && is_one && !uuid_eq(submissions[0].id, outbox->id))
        count = 0;
    if (code != ERR_OK || count == 0) {
        store_rollback(txn);
        *ret_count = 0;
        return code;
    }
    outbox->has_id = true;
    outbox->id = submissions[0].id;
    code = run_taken(outbox, txn, submissions, count, err);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}

/* ---- one by one ---- */

/* Whether it may go well the next time, with nothing changed. */
static bool is_passing(enum error_code code)
{
    return code == ERR_UNAVAILABLE || code == ERR_NO_MEMORY;
}

/* Takes one submission: as it asks to be, or else buried, or else not, and then it is left where it
 * is for a while. `ret_any`: there was one. */
static enum error_code take_one(struct outbox *outbox, bool *ret_any, uint32_t *ret_count,
                                struct err *err)
{
    struct batcher *batcher = outbox->batcher;
    outbox->manner = MANNER_ASKED;
    enum error_code code = take(outbox, 1, ret_count, err);
    *ret_any = outbox->has_id;
    if (code != ERR_OK && outbox->has_id)
        outbox->why = arena_copy(outbox->arena, str_from(err->detail));
    while (code != ERR_OK && !is_passing(code) && outbox->has_id && outbox->manner != MANNER_BARE) {
        outbox->manner++;
        code = take(outbox, 1, ret_count, err);
    }
    if (code == ERR_OK || is_passing(code) || !outbox->has_id ||
        batcher->quarantined_count == OUTBOX_QUARANTINE_MAX)
        return code;
    if (batcher->quarantined_count == 0)
        batcher->quarantined_at = outbox->load.now;
    batcher->quarantined[batcher->quarantined_count++] = outbox->id;
    *ret_count = 0;
    return ERR_OK;
}

static enum error_code take_each(struct outbox *outbox, uint32_t limit, uint32_t *ret_count,
                                 struct err *err)
{
    enum error_code code = ERR_OK;
    uint32_t count = 0;
    bool any = true;
    for (uint32_t i = 0; i < limit && any && code == ERR_OK; i++) {
        uint32_t taken = 0;
        code = take_one(outbox, &any, &taken, err);
        if (code == ERR_OK)
            count += taken;
    }
    /* What was done is wakeups, whatever came then. */
    if (count > 0)
        code = ERR_OK;
    *ret_count = count;
    return code;
}

enum error_code batch_drain_outbox(struct batcher *batcher, uint32_t limit, struct arena *arena,
                                   uint32_t *ret_count, struct err *err)
{
    struct outbox outbox = {.batcher = batcher, .arena = arena};
    struct err why = {0};
    uint32_t count = 0;
    assert(limit > 0 && limit <= BATCH_OPS_MAX / 2);
    batcher->wakeups = (struct wakeups){.next_at = INT64_MAX};
    enum error_code code = read_kinds(batcher, arena, &outbox.load, &why);
    if (code == ERR_OK) {
        int64_t ago = outbox.load.now - batcher->quarantined_at;
        if (ago < 0 || ago >= QUARANTINE_MS)
            batcher->quarantined_count = 0;
        code = take(&outbox, limit, &count, &why);
    }
    /* One of them is to blame: the others shall not suffer. */
    if (code != ERR_OK && !is_passing(code) && outbox.has_id)
        code = take_each(&outbox, limit, &count, &why);
    if (code == ERR_OK)
        *ret_count = count;
    else if (err != NULL)
        *err = why;
    return code;
}
