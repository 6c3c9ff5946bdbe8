/* Jobs that users put in with transactions of their own: each becomes a job with its id, whatever
 * is wrong with it, since its transaction has committed and somebody has that id. */
#include <assert.h>

#include "base/json.h"
#include "core/plan.h"
#include "engine/batch_private.h"

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
        code = err_set(err, ERR_BAD_REQUEST, "options may not give kind and payload again");
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

/* One submission as operations: it is submitted, and buried at once when that would be refused. */
static uint32_t submission_ops(const struct store_submission *submission,
                               const struct store_load *load, struct arena *arena,
                               struct spec *spec, struct op ops[2])
{
    struct err why = {0};
    *spec = defaults_of(load, submission->kind);
    enum error_code code = read_spec(submission, arena, spec, &why);
    ops[0] = (struct op){.type = OP_COMMAND, .job = submission->id, .keeps_id = true};
    ops[0].command = (struct command){.type = COMMAND_SUBMIT, .actor = STR("pawl_submit")};
    ops[0].command.submit.spec = spec;
    if (code == ERR_OK)
        code = try_submit(&ops[0], load, arena, &why);
    if (code == ERR_OK)
        return 1;
    *spec = defaults_of(load, submission->kind);
    ops[1] = (struct op){.type = OP_COMMAND, .job = submission->id};
    ops[1].command = (struct command){.type = COMMAND_DEAD_LETTER, .actor = STR("pawl")};
    ops[1].command.dead_letter.reason_code = DEAD_VALIDATION_FAILED;
    ops[1].command.dead_letter.stage = STAGE_INPUT;
    ops[1].command.dead_letter.message = arena_copy(arena, str_from(why.detail));
    return 2;
}

/* Takes submissions in the transaction and carries them out. */
static enum error_code admit_in(struct batcher *batcher, struct store_txn *txn,
                                const struct store_load *load, uint32_t limit, struct arena *arena,
                                uint32_t *ret_count, struct err *err)
{
    struct store_submission *submissions = NULL;
    struct op *ops = arena_zalloc(arena, 2 * (size_t)limit, sizeof *ops);
    struct spec *specs = arena_zalloc(arena, limit, sizeof *specs);
    uint32_t count = 0;
    uint32_t op_count = 0;
    enum store_outcome outcome;
    enum error_code code = ERR_NO_MEMORY;
    if (ops != NULL && specs != NULL)
        code = store_admit(txn, limit, arena, &submissions, &count, err);
    if (code != ERR_OK || count == 0) {
        store_rollback(txn);
        *ret_count = 0;
        return code;
    }
    for (uint32_t i = 0; i < count; i++)
        op_count += submission_ops(&submissions[i], load, arena, &specs[i], &ops[op_count]);
    code = batch_run_in(batcher, txn, ops, op_count, arena, &outcome, err);
    if (code == ERR_OK)
        *ret_count = count;
    return code;
}

enum error_code batch_admit(struct batcher *batcher, uint32_t limit, struct arena *arena,
                            uint32_t *ret_count, struct err *err)
{
    struct store_load load;
    struct store_txn *txn;
    assert(limit > 0 && limit <= BATCH_OPS_MAX / 2);
    enum error_code code = read_kinds(batcher, arena, &load, err);
    if (code == ERR_OK)
        code = store_begin(batcher->store, STORE_WRITE, &txn, err);
    return code == ERR_OK ? admit_in(batcher, txn, &load, limit, arena, ret_count, err) : code;
}
