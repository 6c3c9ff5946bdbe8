#include "core/lane.h"

#include <assert.h>

#include "base/json.h"
#include "base/record.h"
#include "core/resource_owner.h"

static const struct str work_names[] = {STR_INIT("job"), STR_INIT("step"), STR_INIT("judge")};

static enum error_code no_memory(struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "out of memory");
}

/* Lists are short, and mostly sorted already. */
static void sort_names(struct names *names)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < names->count; i++) {
        struct str name = names->at[i];
        uint32_t at = kept;
        while (at > 0 && str_cmp(names->at[at - 1], name) > 0)
            at--;
        if (at > 0 && str_eq(names->at[at - 1], name))
            continue;
        for (uint32_t k = kept; k > at; k--)
            names->at[k] = names->at[k - 1];
        names->at[at] = name;
        kept++;
    }
    names->count = kept;
}

/* The list of a job that was accepted: if it cannot be read now, it is damaged. */
static enum error_code read_list(struct str json, const char *what, struct arena *arena,
                                 struct names *ret, struct err *err)
{
    *ret = (struct names){0};
    if (!str_is_set(json))
        return ERR_OK;
    enum error_code code = names_read(json, UINT32_MAX, what, arena, ret, err);
    if (code == ERR_OK)
        sort_names(ret);
    return code == ERR_OK || code == ERR_NO_MEMORY
               ? code
               : err_set(err, ERR_CORRUPT, "the %s of a job cannot be read", what);
}

static void write_list(struct json_writer *writer, const struct names *names)
{
    json_begin_array(writer);
    for (uint32_t i = 0; i < names->count; i++)
        json_put_string(writer, names->at[i]);
    json_end_array(writer);
}

enum error_code lane_key(const struct lane *lane, struct arena *arena, struct str *ret,
                         struct err *err)
{
    struct buf buf;
    struct json_writer writer;
    bool pinned = str_is_set(lane->pin);
    bool flow = str_is_set(lane->limits) || str_is_set(lane->fair_key) || pinned;
    bool resource = str_is_set(lane->selector) || lane->avoid.count > 0 || flow;
    buf_init(&buf, arena, 64);
    json_writer_init(&writer, &buf);
    json_begin_array(&writer);
    json_put_string(&writer, work_names[lane->work]);
    json_put_string(&writer, lane->queue);
    json_put_string(&writer, lane->kind);
    if (lane->capabilities.count > 0 || resource)
        write_list(&writer, &lane->capabilities);
    if (resource) {
        json_put_string(&writer, lane->selector);
        write_list(&writer, &lane->avoid);
    }
    if (flow)
        json_put_raw(&writer, str_is_set(lane->limits) ? lane->limits : STR("[]"));
    if (str_is_set(lane->fair_key) || pinned)
        json_put_string(&writer, lane->fair_key);
    if (pinned)
        json_put_string(&writer, lane->pin);
    json_end_array(&writer);
    if (buf.failed)
        return no_memory(err);
    *ret = buf_str(&buf);
    return ERR_OK;
}

enum error_code lane_key_of_job(const struct job *job, struct arena *arena, struct str *ret,
                                struct err *err)
{
    struct lane lane = {
        .work = LANE_JOBS, .queue = job->spec.queue, .kind = job->spec.kind, .pin = job->pin};
    enum error_code code =
        read_list(job->spec.capabilities, "capabilities", arena, &lane.capabilities, err);
    return code == ERR_OK ? lane_key(&lane, arena, ret, err) : code;
}

/* The plan's avoid list and what the step was lost on. */
static enum error_code avoided(const struct step *step, struct arena *arena, struct names *ret,
                               struct err *err)
{
    struct names planned;
    enum error_code code = read_list(step->spec.avoid, "avoid list", arena, &planned, err);
    if (code != ERR_OK)
        return code;
    uint32_t count = planned.count + step->avoided_count;
    struct str *at = arena_zalloc(arena, count + 1, sizeof *at);
    if (at == NULL)
        return no_memory(err);
    for (uint32_t i = 0; i < count; i++)
        at[i] = i < planned.count ? planned.at[i] : step->avoided[i - planned.count];
    *ret = (struct names){at, count};
    sort_names(ret);
    return ERR_OK;
}

enum error_code lane_key_of_step(const struct job *job, const struct step *step,
                                 struct arena *arena, struct str *ret, struct err *err)
{
    struct lane lane = {
        .work = step->held ? LANE_JUDGING : LANE_STEPS,
        .queue = job->spec.queue,
        .kind = step->spec.kind,
    };
    enum error_code code = ERR_OK;
    if (lane.work == LANE_STEPS) {
        lane.selector = step->spec.selector.len > 0 ? step->spec.selector : (struct str){NULL, 0};
        code = read_list(step->spec.capabilities, "capabilities", arena, &lane.capabilities, err);
        if (code == ERR_OK)
            code = avoided(step, arena, &lane.avoid, err);
    }
    return code == ERR_OK ? lane_key(&lane, arena, ret, err) : code;
}

static enum error_code damaged(struct str key, struct err *err)
{
    return err_set(err, ERR_CORRUPT, "\"%.*s\" is not the key of a lane", STR_ARG(key));
}

/* The next text of the key; null and the end give an absent one. */
static enum error_code next_text(struct json_iter *iter, struct arena *arena, struct str *ret)
{
    struct str raw;
    if (!json_array_next(iter, &raw) || json_type(raw) == JSON_NULL)
        return ERR_OK;
    return record_string(raw, "lane", arena, ret, NULL);
}

static enum error_code next_list(struct json_iter *iter, struct arena *arena, struct names *ret)
{
    struct str raw;
    if (!json_array_next(iter, &raw))
        return ERR_OK;
    return names_read(raw, UINT32_MAX, "lane", arena, ret, NULL);
}

/* Limits as given: an array; an empty one counts as absent. */
static enum error_code next_limits(struct json_iter *iter, struct str *ret)
{
    struct str raw;
    if (!json_array_next(iter, &raw))
        return ERR_OK;
    if (json_type(raw) != JSON_ARRAY)
        return ERR_CORRUPT;
    if (json_count(raw) > 0)
        *ret = raw;
    return ERR_OK;
}

/* The members of a key, in their order; what is not there is absent. */
static enum error_code read_members(struct json_iter *iter, struct arena *arena, struct str *work,
                                    struct lane *lane)
{
    enum error_code code = next_text(iter, arena, work);
    if (code == ERR_OK)
        code = next_text(iter, arena, &lane->queue);
    if (code == ERR_OK)
        code = next_text(iter, arena, &lane->kind);
    if (code == ERR_OK)
        code = next_list(iter, arena, &lane->capabilities);
    if (code == ERR_OK)
        code = next_text(iter, arena, &lane->selector);
    if (code == ERR_OK)
        code = next_list(iter, arena, &lane->avoid);
    if (code == ERR_OK)
        code = next_limits(iter, &lane->limits);
    if (code == ERR_OK)
        code = next_text(iter, arena, &lane->fair_key);
    if (code == ERR_OK)
        code = next_text(iter, arena, &lane->pin);
    if (code == ERR_OK && str_is_set(lane->selector))
        code = selector_parse(lane->selector, arena, &lane->parsed, NULL);
    return code;
}

enum error_code lane_read(struct str key, struct arena *arena, struct lane *ret, struct err *err)
{
    struct lane lane = {0};
    struct json_iter iter;
    struct str work = {NULL, 0};
    if (!json_array_begin(&iter, key))
        return damaged(key, err);
    enum error_code code = read_members(&iter, arena, &work, &lane);
    if (code == ERR_NO_MEMORY)
        return no_memory(err);
    if (code != ERR_OK || json_array_next(&iter, &(struct str){0}) || !json_iter_ok(&iter))
        return damaged(key, err);
    size_t known = 0;
    while (known < 3 && !str_eq(work, work_names[known]))
        known++;
    if (known == 3 || !str_is_set(lane.queue))
        return damaged(key, err);
    lane.work = (enum lane_work)known;
    *ret = lane;
    return ERR_OK;
}

static bool is_among(const struct names *names, struct str name)
{
    return names->count == 0 || (str_is_set(name) && names_have(names, name));
}

bool lane_takes(const struct lane *lane, const struct claimer *claimer)
{
    const struct resource *resource = claimer->resource;
    if (lane->work != claimer->work || !is_among(&claimer->queues, lane->queue) ||
        !is_among(&claimer->kinds, lane->kind) || str_is_set(lane->limits) ||
        str_is_set(lane->fair_key) ||
        (str_is_set(lane->pin) && !str_eq(lane->pin, claimer->code_version)))
        return false;
    if (lane->work != LANE_STEPS)
        return names_cover(&claimer->capabilities, &lane->capabilities, NULL);
    return resource != NULL && resource_serves(resource, lane->queue) &&
           names_cover(&resource->capabilities, &lane->capabilities, NULL) &&
           !names_have(&lane->avoid, resource->id) &&
           selector_matches(&lane->parsed, resource->labels, resource->label_count);
}
