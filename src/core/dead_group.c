#include "core/dead_group.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "base/hex.h"

/* Neither names nor the first line of a message have a line feed in them, so that no two groups
 * are the same text. */
static void set_id(struct dead_group *group)
{
    bool typed = str_is_set(group->error.type);
    bool told = str_is_set(group->error.pattern);
    struct str error = typed ? group->error.type : told ? group->error.pattern : STR("");
    const struct str parts[] = {
        group->kind,
        STR("\n"),
        dead_letter_reason_names.at[group->reason_code],
        typed  ? STR("\ntype\n")
        : told ? STR("\nmessage\n")
               : STR("\n"),
        error,
    };
    uint8_t hash[HASH_LEN];
    hash_sha256(parts, sizeof parts / sizeof parts[0], hash);
    memcpy(group->id, hash, DEAD_GROUP_LEN);
}

bool dead_group_of(const struct job *job, struct arena *arena, struct dead_group *ret)
{
    assert(job->dead_letter.reason_code < dead_letter_reason_names.count);
    struct dead_group group = {.kind = job->spec.kind, .reason_code = job->dead_letter.reason_code};
    if (!failure_group_of(job->dead_letter.last_error, arena, &group.error))
        return false;
    set_id(&group);
    *ret = group;
    return true;
}

enum error_code dead_group_read(struct str text, uint8_t ret[DEAD_GROUP_LEN], struct err *err)
{
    uint8_t id[DEAD_GROUP_LEN];
    bool valid = text.len == sizeof id * 2;
    for (size_t i = 0; valid && i < sizeof id; i++) {
        int high = hex_value(text.at[2 * i]);
        int low = hex_value(text.at[2 * i + 1]);
        valid = high >= 0 && low >= 0;
        id[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    if (!valid)
        return err_set(err, ERR_BAD_REQUEST, "group must be %zu hex digits, not \"%.*s\"",
                       sizeof id * 2, STR_ARG(text));
    memcpy(ret, id, sizeof id);
    return ERR_OK;
}
