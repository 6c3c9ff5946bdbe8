#include "core/worker.h"

#include <assert.h>

#include "base/json.h"
#include "base/record.h"
#include "core/job_state.h"

bool worker_is_live(const struct worker *worker, int64_t now)
{
    return now < worker->expires_at;
}

bool worker_handles_kind(const struct worker *worker, struct str kind)
{
    return worker->kinds.count == 0 || names_have(&worker->kinds, kind);
}

bool worker_handles_queue(const struct worker *worker, struct str queue)
{
    return worker->queues.count == 0 || names_have(&worker->queues, queue);
}

void worker_cover(struct worker_coverage *coverage, const struct worker *worker, int64_t leases,
                  struct str kind, struct str queue, int64_t now)
{
    if (!worker_is_live(worker, now) || !worker_handles_kind(worker, kind))
        return;
    coverage->of_kind++;
    if (!worker_handles_queue(worker, queue))
        return;
    if (str_is_set(coverage->pin) && !str_eq(coverage->pin, worker->code_version)) {
        coverage->unfit++;
        return;
    }
    coverage->fitting++;
    coverage->free += leases < worker->slots;
    coverage->slots += worker->slots;
    coverage->used += leases < worker->slots ? leases : worker->slots;
}

void worker_coverage_tell(const struct worker_coverage *coverage, struct str kind, struct str queue,
                          struct buf *buf)
{
    if (coverage->fitting > 0) {
        buf_addf(buf, "Live workers for it: %u, with %lld of %lld slots in use%s.",
                 coverage->fitting, (long long)coverage->used, (long long)coverage->slots,
                 coverage->free == 0 ? ", all busy" : "");
        return;
    }
    if (coverage->unfit > 0) {
        buf_addf(buf,
                 "It is pinned to %.*s, no worker of that version is connected (of others: %u). "
                 "Start one, or pin it to another version: pawl kind repin.",
                 STR_ARG(coverage->pin), coverage->unfit);
        return;
    }
    buf_addf(buf, "No live worker is registered for the kind \"%.*s\"", STR_ARG(kind));
    if (coverage->of_kind > 0)
        buf_addf(buf, " in the queue \"%.*s\" (in other queues: %u)", STR_ARG(queue),
                 coverage->of_kind);
    buf_add(buf, STR(". An unregistered worker may still claim it."));
}

bool worker_is_visible(const struct worker *worker, const struct names *queues)
{
    return queues == NULL ||
           (worker->queues.count > 0 && names_cover(queues, &worker->queues, NULL));
}

int64_t worker_renewal_at(const struct worker *worker)
{
    return worker->expires_at - worker->ttl_ms / 2;
}

bool worker_renew(struct worker *worker, int64_t now, int64_t wait_ms)
{
    assert(wait_ms >= 0);
    if (now + wait_ms < worker_renewal_at(worker))
        return false;
    worker->expires_at = now + wait_ms + worker->ttl_ms;
    return true;
}

/* ---- as text ------------------------------------------------------------------------------ */

static const struct record_field state_fields[] = {
    RECORD_FIELD(struct worker, slots, "slots", INT),
    RECORD_FIELD(struct worker, code_version, "code_version", NAME),
    RECORD_FIELD(struct worker, ttl_ms, "ttl_ms", INT),
    RECORD_FIELD(struct worker, registered_at, "registered_at", TIME),
    RECORD_FIELD(struct worker, registered_by, "registered_by", NAME),
};
static const struct record_type state_record = {state_fields,
                                                sizeof state_fields / sizeof state_fields[0]};

static void write_names(struct json_writer *writer, struct str key, const struct names *names)
{
    json_key(writer, key);
    json_begin_array(writer);
    for (uint32_t i = 0; i < names->count; i++)
        json_put_string(writer, names->at[i]);
    json_end_array(writer);
}

void worker_state_write(const struct worker *worker, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    record_write(&state_record, worker, RECORD_ALL, &writer);
    write_names(&writer, STR("kinds"), &worker->kinds);
    write_names(&writer, STR("queues"), &worker->queues);
    label_pairs_write(worker->labels, worker->label_count, &writer);
    json_end_object(&writer);
}

static enum error_code damaged(enum error_code code, struct err *err)
{
    if (code == ERR_OK || code == ERR_NO_MEMORY)
        return code;
    return err_set(err, ERR_CORRUPT, "a registered worker cannot be read");
}

enum error_code worker_state_read(struct str json, struct arena *arena, struct worker *worker,
                                  struct err *err)
{
    enum error_code code = damaged(
        record_read(&state_record, json, RECORD_ALL, RECORD_STORED, "a worker", arena, worker, err),
        err);
    if (code == ERR_OK)
        code = damaged(names_read(json_member(json, STR("kinds")), UINT32_MAX, "kinds", arena,
                                  &worker->kinds, err),
                       err);
    if (code == ERR_OK)
        code = damaged(names_read(json_member(json, STR("queues")), UINT32_MAX, "queues", arena,
                                  &worker->queues, err),
                       err);
    return code == ERR_OK ? label_pairs_read(json_member(json, STR("labels")), arena,
                                             &worker->labels, &worker->label_count, err)
                          : code;
}
