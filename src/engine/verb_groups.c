/* The verb dead_letter_groups: how many dead letters there are of each kind, reason and error.
 *
 * They are counted one by one, the newest first, so that no store has to know what a group is. An
 * answer that would take too long says that there are more. */
#include <stdlib.h>

#include "core/dead_group.h"
#include "engine/access.h"
#include "engine/answer.h"
#include "engine/filter.h"
#include "engine/page.h"
#include "engine/verb.h"

enum {
    COUNTED_MAX = 100 * 1000,
    COUNT_MS_MAX = 1500,
    GROUPS_MAX = 1000,
    AT_ONCE_MIN = 32,
    SMALL_BYTES = 4 * 1024 * 1024, /* more are read at once as long as they take less than that */
};

#define FIELD(type, member, kind) RECORD_FIELD(struct type, member, #member, kind)

struct dead_letter_groups_request {
    struct str kind;
    struct str queue;
    struct page_request page;
};

static const struct record_field dead_letter_groups_fields[] = {
    FIELD(dead_letter_groups_request, kind, NAME),
    FIELD(dead_letter_groups_request, queue, NAME),
    PAGE_FIELDS(struct dead_letter_groups_request),
};
RECORD_TABLE(dead_letter_groups);

struct group {
    struct dead_group same; /* what its dead letters have in common */
    int64_t count;
    int64_t oldest_at; /* when it became one */
    int64_t newest_at;
    struct str last_error; /* of the job that is the newest; raw JSON or absent */
};

struct grouping {
    struct page page;
    struct store_filter filter; /* `before` and `limit` move on */
    struct group *groups;
    uint32_t group_count;
    int64_t counted;
    bool more; /* there are dead letters that were not counted */
};

/* Copies a text that may be absent; false: no memory. */
static bool keep(struct arena *arena, struct str text, struct str *ret)
{
    *ret = arena_copy(arena, text);
    return str_is_set(*ret) == str_is_set(text);
}

/* The group of a job, a new one if need be; NULL: no memory, or too many. */
static struct group *group_of(struct grouping *grouping, const struct job *job, struct arena *page,
                              struct arena *arena)
{
    struct dead_group same;
    if (!dead_group_of(job, page, &same))
        return NULL;
    for (uint32_t i = 0; i < grouping->group_count; i++)
        if (memcmp(grouping->groups[i].same.id, same.id, sizeof same.id) == 0)
            return &grouping->groups[i];
    struct group group = {
        .same = same, .oldest_at = job->dead_letter.at, .newest_at = job->dead_letter.at};
    bool kept = keep(arena, same.kind, &group.same.kind) &&
                keep(arena, same.error.type, &group.same.error.type) &&
                keep(arena, same.error.pattern, &group.same.error.pattern) &&
                keep(arena, job->dead_letter.last_error, &group.last_error);
    if (!kept || grouping->group_count == GROUPS_MAX)
        return NULL;
    grouping->groups[grouping->group_count] = group;
    return &grouping->groups[grouping->group_count++];
}

/* One whose row is damaged is in no group. */
static void count_letter(struct grouping *grouping, const struct store_job *letter,
                         struct arena *page, struct arena *arena)
{
    const struct job *job = &letter->slice.job;
    struct group *group = str_is_set(letter->damaged) ? NULL : group_of(grouping, job, page, arena);
    if (group == NULL) {
        grouping->more = true;
        return;
    }
    int64_t at = job->dead_letter.at;
    group->count++;
    group->oldest_at = at < group->oldest_at ? at : group->oldest_at;
    group->newest_at = at > group->newest_at ? at : group->newest_at;
}

static enum error_code count_letters(struct verb_call *call, struct store_txn *txn,
                                     struct grouping *grouping, struct err *err)
{
    struct arena page;
    enum error_code code = ERR_OK;
    int64_t until = engine_steady(call->engine) + COUNT_MS_MAX;
    bool left = true;
    grouping->filter.limit = AT_ONCE_MIN;
    arena_init(&page);
    while (code == ERR_OK && left && grouping->counted < COUNTED_MAX &&
           engine_steady(call->engine) < until) {
        struct store_job *letters = NULL;
        uint32_t count = 0;
        code = store_list(txn, &grouping->filter, &page, &letters, &count, err);
        for (uint32_t i = 0; code == ERR_OK && i < count; i++) {
            count_letter(grouping, &letters[i], &page, call->arena);
            grouping->filter.before = letters[i].id;
        }
        grouping->counted += count;
        left = count == grouping->filter.limit;
        bool small = arena_size(&page) < SMALL_BYTES;
        uint32_t twice = grouping->filter.limit * 2;
        grouping->filter.limit = !small                   ? AT_ONCE_MIN
                                 : twice < STORE_LIST_MAX ? twice
                                                          : STORE_LIST_MAX;
        arena_clear(&page);
    }
    grouping->more = grouping->more || left;
    arena_release(&page);
    return code;
}

/* The largest first, then by name. */
static int compare(const void *a, const void *b)
{
    const struct group *one = a;
    const struct group *other = b;
    if (one->count != other->count)
        return one->count > other->count ? -1 : 1;
    int order = str_cmp(one->same.kind, other->same.kind);
    if (order == 0)
        order = (int)one->same.reason_code - (int)other->same.reason_code;
    if (order == 0)
        order = str_cmp(one->same.error.type, other->same.error.type);
    return order != 0 ? order : str_cmp(one->same.error.pattern, other->same.error.pattern);
}

static void write_group(struct json_writer *writer, const struct group *group)
{
    const struct dead_group *same = &group->same;
    json_begin_object(writer);
    json_key(writer, STR("group"));
    json_put_hex(writer, same->id, sizeof same->id);
    answer_text(writer, STR("kind"), same->kind);
    answer_word(writer, STR("reason_code"), &dead_letter_reason_names, (int)same->reason_code);
    answer_text(writer, STR("type"), same->error.type);
    answer_text(writer, STR("message"), same->error.pattern);
    answer_int(writer, STR("count"), group->count);
    answer_time(writer, STR("oldest_at"), group->oldest_at);
    answer_time(writer, STR("newest_at"), group->newest_at);
    answer_raw(writer, STR("last_error"), group->last_error);
    json_end_object(writer);
}

static enum error_code run_groups(struct verb_call *call, struct err *err)
{
    struct dead_letter_groups_request request = {0};
    struct store_txn *txn;
    struct grouping *grouping = verb_data(call, sizeof *grouping);
    if (grouping == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &dead_letter_groups_record, &request, err);
    if (code == ERR_OK)
        code = page_begin(&request.page, PAGE_BY_PLACE, &grouping->page, err);
    grouping->filter.statuses = UINT32_C(1) << JOB_DEAD_LETTERED;
    grouping->filter.kind = request.kind;
    grouping->filter.queue = request.queue;
    if (code == ERR_OK)
        code = access_filter(call, &grouping->filter, err);
    grouping->groups = arena_zalloc(call->arena, GROUPS_MAX, sizeof *grouping->groups);
    if (code == ERR_OK && grouping->groups == NULL)
        code = err_set(err, ERR_NO_MEMORY, "out of memory");
    if (code == ERR_OK)
        code = store_begin(engine_store(call->engine), STORE_READ, &txn, err);
    if (code != ERR_OK)
        return code;
    code = count_letters(call, txn, grouping, err);
    store_rollback(txn);
    qsort(grouping->groups, grouping->group_count, sizeof *grouping->groups, compare);
    return code;
}

static void write_groups(const struct verb_call *call, struct json_writer *writer)
{
    const struct grouping *grouping = call->result.data;
    struct page page = grouping->page;
    json_begin_object(writer);
    json_key(writer, STR("groups"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < grouping->group_count; i++)
        if (page_takes(&page, (struct str){NULL, 0}))
            write_group(writer, &grouping->groups[i]);
    json_end_array(writer);
    page_end(&page, writer);
    answer_int(writer, STR("counted"), grouping->counted);
    answer_bool(writer, STR("more"), grouping->more);
    json_end_object(writer);
}

const struct verb verb_dead_letter_groups = {
    .request = &dead_letter_groups_record, .run = run_groups, .write = write_groups};
