/* JSON Merge Patch (RFC 7396). */
#include "base/json.h"

/* The raw value of the member whose raw key decodes to what `raw_key` does; absent: none. */
static bool member_of(struct str object, struct str raw_key, struct arena *arena, struct str *ret)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str wanted;
    *ret = (struct str){NULL, 0};
    if (!json_object_begin(&iter, object))
        return true;
    if (!json_string(raw_key, arena, &wanted))
        return false;
    while (json_object_next(&iter, &key, &value)) {
        struct str name;
        if (!json_string(key, arena, &name))
            return false;
        if (str_eq(name, wanted)) {
            *ret = value;
            return true;
        }
    }
    return true;
}

static bool merge(struct str target, struct str patch, struct arena *arena, struct buf *buf);

static void begin_member(struct buf *buf, bool *first, struct str raw_key)
{
    if (!*first)
        buf_add_char(buf, ',');
    *first = false;
    buf_add(buf, raw_key);
    buf_add_char(buf, ':');
}

/* Members of the target that stay or change, in their order. */
static bool merge_kept(struct str target, struct str patch, struct arena *arena, struct buf *buf,
                       bool *first)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str change;
    if (!json_object_begin(&iter, target))
        return true;
    while (json_object_next(&iter, &key, &value)) {
        if (!member_of(patch, key, arena, &change))
            return false;
        if (json_type(change) == JSON_NULL)
            continue;
        begin_member(buf, first, key);
        if (!str_is_set(change))
            buf_add(buf, value);
        else if (!merge(value, change, arena, buf))
            return false;
    }
    return true;
}

/* Then those that only the patch has. */
static bool merge_new(struct str target, struct str patch, struct arena *arena, struct buf *buf,
                      bool *first)
{
    struct json_iter iter;
    struct str key;
    struct str value;
    struct str there;
    (void)json_object_begin(&iter, patch);
    while (json_object_next(&iter, &key, &value)) {
        if (!member_of(target, key, arena, &there))
            return false;
        if (str_is_set(there) || json_type(value) == JSON_NULL)
            continue;
        begin_member(buf, first, key);
        if (!merge((struct str){NULL, 0}, value, arena, buf))
            return false;
    }
    return true;
}

static bool merge(struct str target, struct str patch, struct arena *arena, struct buf *buf)
{
    bool first = true;
    if (json_type(patch) != JSON_OBJECT) {
        buf_add(buf, patch);
        return true;
    }
    buf_add_char(buf, '{');
    bool merged = merge_kept(target, patch, arena, buf, &first) &&
                  merge_new(target, patch, arena, buf, &first);
    buf_add_char(buf, '}');
    return merged;
}

enum error_code json_merge_patch(struct str target, struct str patch, struct arena *arena,
                                 struct str *ret)
{
    struct buf buf;
    buf_init(&buf, arena, target.len + patch.len + 16);
    bool merged =
        merge(str_is_set(target) ? json_trim(target) : target, json_trim(patch), arena, &buf);
    if (!merged || buf.failed)
        return ERR_NO_MEMORY;
    *ret = buf_str(&buf);
    return ERR_OK;
}
