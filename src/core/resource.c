#include "core/resource.h"

#include <assert.h>

#include "base/json.h"
#include "base/record.h"
#include "core/decide.h"
#include "core/plan.h"

/* Starts to walk a list of at most `count_max` elements and counts them. */
static enum error_code list_begin(struct str json, enum json_type type, uint32_t count_max,
                                  const char *what, uint32_t *ret_count, struct err *err)
{
    struct str value = json_trim(json);
    if (json_type(value) != type) {
        return err_set(err, ERR_BAD_REQUEST, "%s must be %s, not \"%.*s\"", what,
                       type == JSON_ARRAY ? "an array of strings" : "an object of strings",
                       STR_ARG(value));
    }
    size_t count = json_count(value);
    if (count > count_max) {
        return err_set(err, ERR_BAD_REQUEST, "%s may have at most %u entries, not %zu", what,
                       count_max, count);
    }
    *ret_count = (uint32_t)count;
    return ERR_OK;
}

/* The walk ended early or late: what was counted is not what was met. */
static enum error_code damaged(const char *what, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "%s is not valid JSON", what);
}

static enum error_code no_memory(const char *what, struct err *err)
{
    return err_set(err, ERR_NO_MEMORY, "%s: out of memory", what);
}

/* Reads one element and says which one it is when it is wrong. The element's own name, as
 * capabilities[3], is put in front of a message that starts with its verb, so that it need not be
 * made while all is well. */
static enum error_code name_read(struct str raw, const struct names *before, const char *what,
                                 struct arena *arena, struct str *ret, struct err *err)
{
    struct str name;
    enum error_code code = record_string(raw, "", arena, &name, err);
    if (code == ERR_OK)
        code = record_check_name(name, "", err);
    if (code == ERR_OK && names_have(before, name))
        code = err_set(err, ERR_BAD_REQUEST, " has the duplicate entry \"%.*s\"", STR_ARG(name));
    if (code != ERR_OK)
        return err_set(err, code, "%s[%u]%s", what, before->count, err == NULL ? "" : err->detail);
    *ret = name;
    return ERR_OK;
}

enum error_code names_read(struct str json, uint32_t count_max, const char *what,
                           struct arena *arena, struct names *ret, struct err *err)
{
    assert(what != NULL);
    assert(ret != NULL);
    struct names names = {NULL, 0};
    uint32_t count = 0;
    if (!str_is_set(json)) {
        *ret = names;
        return ERR_OK;
    }
    enum error_code code = list_begin(json, JSON_ARRAY, count_max, what, &count, err);
    if (code != ERR_OK)
        return code;
    names.at = arena_zalloc(arena, count, sizeof *names.at);
    if (names.at == NULL)
        return no_memory(what, err);
    struct json_iter iter;
    struct str raw;
    (void)json_array_begin(&iter, json);
    while (names.count < count && json_array_next(&iter, &raw)) {
        code = name_read(raw, &names, what, arena, &names.at[names.count], err);
        if (code != ERR_OK)
            return code;
        names.count++;
    }
    if (json_array_next(&iter, &raw) || !json_iter_ok(&iter))
        return damaged(what, err);
    *ret = names;
    return ERR_OK;
}

bool names_have(const struct names *names, struct str name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (str_eq(names->at[i], name))
            return true;
    return false;
}

bool names_cover(const struct names *have, const struct names *need, struct str *ret_missing)
{
    for (uint32_t i = 0; i < need->count; i++) {
        if (!names_have(have, need->at[i])) {
            if (ret_missing != NULL)
                *ret_missing = need->at[i];
            return false;
        }
    }
    return true;
}

/* A label's value may be empty, and else is held to what a name is held to. */
static enum error_code label_read(struct str raw_key, struct str raw_value, const char *what,
                                  struct arena *arena, struct label *ret, struct err *err)
{
    struct label label;
    enum error_code code = record_string(raw_key, "a key", arena, &label.key, err);
    if (code == ERR_OK)
        code = record_check_name(label.key, "a key", err);
    if (code != ERR_OK)
        return err_set(err, code, "%s: %s", what, err == NULL ? "" : err->detail);
    code = record_string(raw_value, "", arena, &label.value, err);
    if (code == ERR_OK && label.value.len > 0)
        code = record_check_name(label.value, "", err);
    if (code != ERR_OK) {
        return err_set(err, code, "%s[\"%.*s\"]%s", what, STR_ARG(label.key),
                       err == NULL ? "" : err->detail);
    }
    *ret = label;
    return ERR_OK;
}

enum error_code labels_read(struct str json, uint32_t count_max, const char *what,
                            struct arena *arena, struct label **ret, uint32_t *ret_count,
                            struct err *err)
{
    assert(what != NULL);
    assert(ret != NULL && ret_count != NULL);
    uint32_t count = 0;
    if (!str_is_set(json)) {
        *ret = NULL;
        *ret_count = 0;
        return ERR_OK;
    }
    enum error_code code = list_begin(json, JSON_OBJECT, count_max, what, &count, err);
    if (code != ERR_OK)
        return code;
    struct label *labels = arena_zalloc(arena, count, sizeof *labels);
    if (labels == NULL)
        return no_memory(what, err);
    struct json_iter iter;
    struct str key;
    struct str value;
    uint32_t done = 0;
    (void)json_object_begin(&iter, json);
    while (done < count && json_object_next(&iter, &key, &value)) {
        code = label_read(key, value, what, arena, &labels[done], err);
        if (code != ERR_OK)
            return code;
        done++;
    }
    if (json_object_next(&iter, &key, &value) || !json_iter_ok(&iter))
        return damaged(what, err);
    *ret = labels;
    *ret_count = count;
    return ERR_OK;
}

enum error_code names_check_shown(const struct names *names, const char *what, struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < names->count && code == ERR_OK; i++)
        code = record_check_shown(names->at[i], what, err);
    return code;
}

enum error_code labels_check_shown(const struct label *labels, uint32_t count, struct err *err)
{
    enum error_code code = ERR_OK;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        code = record_check_shown(labels[i].key, "a key of labels", err);
        if (code == ERR_OK)
            code = record_check_shown(labels[i].value, "labels", err);
    }
    return code;
}

/* ---- which step fits where ---- */

static enum error_code capabilities_fit(const struct resource *resource, const struct step *step,
                                        struct arena *arena, struct err *err)
{
    struct names need = {NULL, 0};
    struct str missing;
    enum error_code code =
        names_read(step->spec.capabilities, CAPABILITIES_MAX, "capabilities", arena, &need, err);
    if (code == ERR_OK && !names_cover(&resource->capabilities, &need, &missing)) {
        code = err_set(err, ERR_INVALID_TRANSITION,
                       "resource \"%.*s\" lacks the capability \"%.*s\" required by step \"%.*s\"",
                       STR_ARG(resource->id), STR_ARG(missing), STR_ARG(step->spec.id));
    }
    return code;
}

static enum error_code labels_fit(const struct resource *resource, const struct step *step,
                                  struct arena *arena, struct err *err)
{
    if (!str_is_set(step->spec.selector))
        return ERR_OK;
    struct selector selector;
    enum error_code code = selector_parse(step->spec.selector, arena, &selector, err);
    if (code != ERR_OK)
        return code;
    /* One requirement at a time, so that the reason can say which one failed. */
    for (uint32_t i = 0; i < selector.count; i++) {
        struct selector one = {&selector.at[i], 1};
        if (selector_matches(&one, resource->labels, resource->label_count))
            continue;
        const struct label *label =
            label_find(resource->labels, resource->label_count, selector.at[i].key);
        return err_set(err, ERR_INVALID_TRANSITION,
                       "resource \"%.*s\" does not match the selector \"%.*s\" of step \"%.*s\": "
                       "its label %.*s is %s%.*s%s",
                       STR_ARG(resource->id), STR_ARG(step->spec.selector), STR_ARG(step->spec.id),
                       STR_ARG(selector.at[i].key), label == NULL ? "missing" : "\"",
                       STR_ARG(label == NULL ? STR("") : label->value), label == NULL ? "" : "\"");
    }
    return ERR_OK;
}

static enum error_code not_avoided(const struct resource *resource, const struct step *step,
                                   struct arena *arena, struct err *err)
{
    struct names avoid = {NULL, 0};
    enum error_code code = names_read(step->spec.avoid, AVOID_MAX, "avoid", arena, &avoid, err);
    if (code != ERR_OK)
        return code;
    if (names_have(&avoid, resource->id)) {
        return err_set(err, ERR_INVALID_TRANSITION,
                       "resource \"%.*s\" is on the avoid list of step \"%.*s\"",
                       STR_ARG(resource->id), STR_ARG(step->spec.id));
    }
    struct names lost = {step->avoided, step->avoided_count};
    if (names_have(&lost, resource->id)) {
        return err_set(err, ERR_INVALID_TRANSITION,
                       "step \"%.*s\" already failed on resource \"%.*s\" and avoids it",
                       STR_ARG(step->spec.id), STR_ARG(resource->id));
    }
    return ERR_OK;
}

int64_t resource_ends_at(const struct resource *resource, const struct context *context)
{
    int64_t renewed_at = resource->expires_at - resource->ttl_ms;
    bool cut_off = resource->ttl_ms > 0 && renewed_at < context->up_since &&
                   resource->expires_at > context->down_since;
    int64_t grace = cut_off ? context->up_since + resource->ttl_ms : 0;
    return grace > resource->expires_at ? grace : resource->expires_at;
}

struct cooldown_policy cooldown_policy_default(void)
{
    return (struct cooldown_policy){COOLDOWN_FAILURES_DEFAULT, COOLDOWN_WITHIN_MS_DEFAULT,
                                    COOLDOWN_FOR_MS_DEFAULT};
}

bool resource_in_cooldown(const struct resource *resource, int64_t now)
{
    return now < resource->cooldown_until;
}

bool resource_record_failure(struct resource *resource, int64_t now)
{
    const struct cooldown_policy *policy = &resource->rest;
    if (policy->failures == 0 || resource_in_cooldown(resource, now))
        return false;
    if (now >= resource->failing_since + policy->within_ms) {
        resource->failing_since = now;
        resource->failures = 0;
    }
    /* One that has stood for as long as failures are counted has got over it. */
    if (now >= resource->cooldown_until + policy->within_ms)
        resource->rests = 0;
    resource->failures++;
    if (resource->failures < policy->failures && resource->rests == 0)
        return false;
    int64_t longer = resource->rests < COOLDOWN_LONGER_MAX ? resource->rests : COOLDOWN_LONGER_MAX;
    resource->cooldown_until = now + policy->for_ms * (INT64_C(1) << longer);
    resource->rests++;
    resource->failures = resource->failing_since = 0;
    return true;
}

enum error_code resource_check_free(const struct resource *resource, int64_t now, struct err *err)
{
    if (now >= resource->expires_at) {
        return err_set(err, ERR_INVALID_TRANSITION, "resource \"%.*s\" expired %lld ms ago",
                       STR_ARG(resource->id), (long long)(now - resource->expires_at));
    }
    if (resource->draining) {
        return err_set(err, ERR_INVALID_TRANSITION,
                       "resource \"%.*s\" is draining and accepts no new steps",
                       STR_ARG(resource->id));
    }
    if (resource_in_cooldown(resource, now)) {
        return err_set(
            err, ERR_INVALID_TRANSITION,
            "resource \"%.*s\" is in cooldown for another %lld ms after too many failures",
            STR_ARG(resource->id), (long long)(resource->cooldown_until - now));
    }
    if (resource->used >= resource->slots) {
        return err_set(
            err, ERR_INVALID_TRANSITION, "resource \"%.*s\" has no free slot: %lld of %lld in use",
            STR_ARG(resource->id), (long long)resource->used, (long long)resource->slots);
    }
    return ERR_OK;
}

enum error_code resource_fits(const struct resource *resource, const struct step *step, int64_t now,
                              struct arena *arena, struct err *err)
{
    assert(resource != NULL);
    assert(step != NULL);
    enum error_code code = resource_check_free(resource, now, err);
    if (code == ERR_OK)
        code = capabilities_fit(resource, step, arena, err);
    if (code == ERR_OK)
        code = labels_fit(resource, step, arena, err);
    if (code == ERR_OK)
        code = not_avoided(resource, step, arena, err);
    return code;
}
