#include "core/job_state.h"

#include <assert.h>

#include "base/json.h"
#include "base/record_pack.h"
#include "core/job_records.h"
#include "core/plan.h"

static void write_record(const struct record_type *type, const void *record, uint64_t mask,
                         enum state_form form, struct buf *buf)
{
    struct json_writer writer;
    if (form == STATE_PACKED) {
        record_pack(type, record, mask, buf);
        return;
    }
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    record_write(type, record, mask, &writer);
    json_end_object(&writer);
}

/* What stores hand back was checked when it was written; if it cannot be read now, it is damaged.
 */
static enum error_code damaged(enum error_code code, const char *what, struct err *err)
{
    if (code == ERR_OK || code == ERR_NO_MEMORY)
        return code;
    struct str detail = err == NULL ? (struct str){NULL, 0} : str_from(err->detail);
    char kept[sizeof err->detail];
    memcpy(kept, str_start(detail), detail.len);
    return err_set(err, ERR_CORRUPT, "%s cannot be read: %.*s", what, (int)detail.len, kept);
}

static enum error_code read_record(const struct record_type *type, struct str json, uint64_t mask,
                                   const char *what, struct arena *arena, void *record,
                                   struct err *err)
{
    if (record_is_packed(json))
        return record_unpack(type, json, mask, record)
                   ? ERR_OK
                   : err_set(err, ERR_CORRUPT, "%s cannot be read: its bytes are damaged", what);
    return damaged(record_read(type, json, mask, RECORD_STORED, NULL, arena, record, err), what,
                   err);
}

void job_state_write(const struct job *job, enum state_form form, struct buf *buf)
{
    write_record(&job_record, job, RECORD_FROM(JOB_COLUMNS), form, buf);
}

enum error_code job_state_read(struct str state, struct arena *arena, struct job *job,
                               struct err *err)
{
    return read_record(&job_record, state, RECORD_FROM(JOB_COLUMNS), "the state of a job", arena,
                       job, err);
}

bool job_copy_texts(struct job *job, const struct spec *same_spec, struct arena *arena)
{
    struct spec spec = job->spec;
    job->spec = (struct spec){0};
    if (!record_copy_texts(&job_record, job, arena))
        return false;
    if (same_spec == NULL && !record_copy_texts(&spec_record, &spec, arena))
        return false;
    job->spec = same_spec != NULL ? *same_spec : spec;
    job->changed = 0;
    return true;
}

bool effect_copy_texts(struct effect *effect, struct arena *arena)
{
    struct str name = arena_copy(arena, effect->name);
    if (!str_is_set(name) || !record_copy_texts(&effect_record, effect, arena))
        return false;
    effect->name = name;
    effect->changed = false;
    return true;
}

enum error_code job_spec_read(struct str payload, struct arena *arena, struct spec *spec,
                              struct err *err)
{
    if (!str_is_set(payload))
        return ERR_OK;
    return read_record(&spec_record, payload, RECORD_ALL, "the spec of a job", arena, spec, err);
}

void effect_state_write(const struct effect *effect, enum state_form form, struct buf *buf)
{
    write_record(&effect_record, effect, RECORD_FROM(EFFECT_COLUMNS), form, buf);
}

static enum error_code read_effect(struct str state, uint64_t mask, struct arena *arena,
                                   struct effect *effect, struct err *err)
{
    enum error_code code =
        read_record(&effect_record, state, mask, "the state of an effect", arena, effect, err);
    if (code == ERR_OK && !str_is_set(effect->key))
        code = err_set(err, ERR_CORRUPT, "an effect has no key");
    if (code != ERR_OK)
        return code;
    effect->name = effect_name(effect->step, effect->key, arena);
    return str_is_set(effect->name) ? ERR_OK : err_set(err, ERR_NO_MEMORY, "out of memory");
}

enum error_code effect_state_read(struct str state, struct arena *arena, struct effect *effect,
                                  struct err *err)
{
    return read_effect(state, RECORD_FROM(EFFECT_COLUMNS), arena, effect, err);
}

void effect_write_whole(const struct effect *effect, struct buf *buf)
{
    write_record(&effect_record, effect, RECORD_ALL, STATE_PACKED, buf);
}

enum error_code effect_read_whole(struct str packed, struct arena *arena, struct effect *effect,
                                  struct err *err)
{
    return read_effect(packed, RECORD_ALL, arena, effect, err);
}

/* A step that thousands must come before is read whenever one of them ends: its dependencies stand
 * last, and it is said how long they are, so that they are not walked over. */
enum { DEPS_WORTH_A_HINT = 256 };

/* The children of a fan stand one after the other: a row of them is written as its ends, "1-999",
 * since a step is read as often as one of its parents ends. */
enum { ROW_MIN = 4, ROW_TEXT_MAX = 24 };

/* Writes a number, of ten digits at most, and says how long it is. */
static size_t put_digits(uint32_t number, char *ret)
{
    size_t len = 1;
    for (uint32_t rest = number; rest > 9; rest /= 10)
        len++;
    for (size_t i = len; i > 0; i--, number /= 10)
        ret[i - 1] = (char)('0' + number % 10);
    return len;
}

static void write_children(const struct step *step, struct json_writer *writer)
{
    const uint32_t *children = step->children;
    json_begin_array(writer);
    for (uint32_t i = 0; i < step->child_count;) {
        uint32_t end = i + 1;
        while (end < step->child_count && children[end] == children[end - 1] + 1)
            end++;
        if (end - i >= ROW_MIN) {
            char row[ROW_TEXT_MAX];
            size_t len = put_digits(children[i], row);
            row[len++] = '-';
            len += put_digits(children[end - 1], row + len);
            json_put_string(writer, (struct str){row, len});
            i = end;
        } else {
            json_put_int(writer, children[i++]);
        }
    }
    json_end_array(writer);
}

void step_plan_write(const struct step *step, struct buf *buf)
{
    bool hint = step->spec.deps.len >= DEPS_WORTH_A_HINT;
    struct step_spec spec = step->spec;
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    json_key(&writer, STR("children"));
    write_children(step, &writer);
    if (hint) {
        json_key(&writer, STR("deps_bytes"));
        json_put_int(&writer, (int64_t)spec.deps.len);
        spec.deps = (struct str){NULL, 0};
    }
    json_key(&writer, STR("spec"));
    json_begin_object(&writer);
    record_write(&step_spec_record, &spec, RECORD_ALL, &writer);
    if (hint) {
        json_key(&writer, STR("deps"));
        json_put_raw(&writer, step->spec.deps);
    }
    json_end_object(&writer);
    json_end_object(&writer);
}

void step_state_write(const struct step *step, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    record_write(&step_record, step, RECORD_FROM(STEP_COLUMNS), &writer);
    if (step->avoided_count > 0) {
        json_key(&writer, STR("avoided"));
        json_begin_array(&writer);
        for (uint32_t i = 0; i < step->avoided_count; i++)
            json_put_string(&writer, step->avoided[i]);
        json_end_array(&writer);
    }
    json_end_object(&writer);
}

static enum error_code bad_children(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "the children of a step cannot be read");
}

/* Takes `head` off the front of the text. */
static bool take(struct str *text, struct str head)
{
    if (text->len < head.len || memcmp(text->at, head.at, head.len) != 0)
        return false;
    *text = (struct str){text->at + head.len, text->len - head.len};
    return true;
}

/* Takes a number off the front of the text, without a sign or blanks, as they are written; false
 * if it is not below `below`. */
static bool take_number(struct str *text, uint32_t below, uint32_t *ret)
{
    uint32_t number = 0;
    size_t len = 0;
    while (len < text->len && text->at[len] >= '0' && text->at[len] <= '9' && number < below)
        number = number * 10 + (uint32_t)(text->at[len++] - '0');
    *text = (struct str){text->at + len, text->len - len};
    *ret = number;
    return len > 0 && number < below;
}

/* Takes one child, `7`, or a row of them, `"7-11"`, off the front of the list; false when it is
 * neither. */
static bool take_row(struct str *list, uint32_t *ret_first, uint32_t *ret_last)
{
    bool row = take(list, STR("\""));
    if (!take_number(list, PLAN_STEPS_MAX, ret_first))
        return false;
    *ret_last = *ret_first;
    return !row || (take(list, STR("-")) && take_number(list, PLAN_STEPS_MAX, ret_last) &&
                    take(list, STR("\"")) && *ret_last > *ret_first);
}

/* Adds a row of children; false: there is no memory. */
static bool add_children(struct step *step, uint32_t first, uint32_t last, uint32_t *cap,
                         struct arena *arena)
{
    uint32_t count = step->child_count + (last - first) + 1;
    if (count > *cap) {
        uint32_t more = count < 8 ? 8 : count * 2;
        uint32_t *grown =
            arena_grow(arena, step->children, *cap * sizeof *grown, more * sizeof *grown);
        if (grown == NULL)
            return false;
        step->children = grown;
        *cap = more;
    }
    uint32_t *to = &step->children[step->child_count];
    for (uint32_t i = 0; i <= last - first; i++)
        to[i] = first + i;
    step->child_count = count;
    return true;
}

/* Reads `[1,2,"5-99"]` at `text`, and leaves what comes after it there. */
static enum error_code read_children(struct str *text, struct arena *arena, struct step *step,
                                     struct err *err)
{
    const char *close =
        text->len > 0 && text->at[0] == '[' ? memchr(text->at, ']', text->len) : NULL;
    if (close == NULL)
        return bad_children(err);
    struct str list = {text->at + 1, (size_t)(close - text->at) - 1};
    uint32_t cap = 0;
    step->children = NULL;
    step->child_count = 0;
    bool more = list.len > 0;
    while (more) {
        uint32_t first;
        uint32_t last;
        if (!take_row(&list, &first, &last) || last - first >= PLAN_STEPS_MAX - step->child_count)
            return bad_children(err);
        if (!add_children(step, first, last, &cap, arena))
            return err_set(err, ERR_NO_MEMORY, "out of memory");
        more = take(&list, STR(","));
    }
    if (list.len > 0)
        return bad_children(err);
    *text = (struct str){close + 1, text->len - (size_t)(close + 1 - text->at)};
    return ERR_OK;
}

static enum error_code bad_plan(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "the plan of a step cannot be read");
}

/* Takes the dependencies off the end of a spec that has so many bytes of them. */
static enum error_code take_deps(struct str *spec, uint32_t bytes, struct arena *arena,
                                 struct str *ret, struct err *err)
{
    static const struct str key = STR_INIT(",\"deps\":");
    if (spec->len < bytes + key.len + 2)
        return bad_plan(err);
    size_t rest = spec->len - bytes - key.len - 1;
    struct str deps = {spec->at + rest + key.len, bytes};
    if (memcmp(spec->at + rest, key.at, key.len) != 0 || deps.at[0] != '[' ||
        deps.at[bytes - 1] != ']')
        return bad_plan(err);
    char *closed = arena_alloc(arena, rest + 1);
    if (closed == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    memcpy(closed, spec->at, rest);
    closed[rest] = '}';
    *spec = (struct str){closed, rest + 1};
    *ret = deps;
    return ERR_OK;
}

/* The text is as step_plan_write writes it, byte for byte. The spec is all the rest but for the
 * last brace. */
enum error_code step_plan_read(struct str json, struct arena *arena, struct step *step,
                               struct err *err)
{
    struct str text = json;
    struct str deps = {NULL, 0};
    uint32_t bytes = 0;
    if (!str_is_set(json) || !take(&text, STR("{\"children\":")))
        return bad_plan(err);
    enum error_code code = read_children(&text, arena, step, err);
    if (code != ERR_OK)
        return code;
    bool hint = take(&text, STR(",\"deps_bytes\":"));
    if (hint && (!take_number(&text, PLAN_BYTES_MAX, &bytes) || bytes < DEPS_WORTH_A_HINT))
        return bad_plan(err);
    if (!take(&text, STR(",\"spec\":")) || text.len < 2 || text.at[text.len - 1] != '}')
        return bad_plan(err);
    text.len--;
    if (hint)
        code = take_deps(&text, bytes, arena, &deps, err);
    if (code == ERR_OK)
        code = read_record(&step_spec_record, text, RECORD_ALL, "the plan of a step", arena,
                           &step->spec, err);
    if (code == ERR_OK && hint)
        step->spec.deps = deps;
    return code;
}

enum error_code step_state_read(struct str json, struct arena *arena, struct step *step,
                                struct err *err)
{
    enum error_code code = read_record(&step_record, json, RECORD_FROM(STEP_COLUMNS),
                                       "the state of a step", arena, step, err);
    struct str avoided = json_member(json, STR("avoided"));
    struct names names = {0};
    if (code == ERR_OK && (unsigned)step->state >= STEP_STATE_COUNT)
        code = err_set(err, ERR_CORRUPT, "a step has the unknown state %d", (int)step->state);
    if (code != ERR_OK || !str_is_set(avoided))
        return code;
    code = damaged(names_read(avoided, UINT32_MAX, "avoided", arena, &names, err),
                   "the state of a step", err);
    if (code == ERR_OK) {
        step->avoided = names.at;
        step->avoided_count = names.count;
    }
    return code;
}

static void write_names(struct json_writer *writer, struct str key, const struct names *names)
{
    json_key(writer, key);
    json_begin_array(writer);
    for (uint32_t i = 0; i < names->count; i++)
        json_put_string(writer, names->at[i]);
    json_end_array(writer);
}

/* Keys and values in turn, since a key may need escapes. */
void label_pairs_write(const struct label *labels, uint32_t count, struct json_writer *writer)
{
    json_key(writer, STR("labels"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < count; i++) {
        json_put_string(writer, labels[i].key);
        json_put_string(writer, labels[i].value);
    }
    json_end_array(writer);
}

void resource_state_write(const struct resource *resource, struct buf *buf)
{
    struct json_writer writer;
    json_writer_init(&writer, buf);
    json_begin_object(&writer);
    record_write(&resource_record, resource, RECORD_ALL, &writer);
    write_names(&writer, STR("capabilities"), &resource->capabilities);
    if (resource->queues.count > 0)
        write_names(&writer, STR("queues"), &resource->queues);
    label_pairs_write(resource->labels, resource->label_count, &writer);
    json_end_object(&writer);
}

static enum error_code bad_labels(struct err *err)
{
    return err_set(err, ERR_CORRUPT, "the stored labels cannot be read");
}

enum error_code label_pairs_read(struct str json, struct arena *arena, struct label **ret,
                                 uint32_t *ret_count, struct err *err)
{
    size_t count = json_count(json);
    struct json_iter iter;
    struct str raw;
    if (count > 2 * LABELS_MAX || count % 2 != 0 || !json_array_begin(&iter, json))
        return bad_labels(err);
    struct label *labels = arena_zalloc(arena, count / 2 + 1, sizeof *labels);
    if (labels == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; json_array_next(&iter, &raw); i++) {
        if (i == count)
            return bad_labels(err); /* as for children */
        struct str *text = i % 2 == 0 ? &labels[i / 2].key : &labels[i / 2].value;
        enum error_code code =
            damaged(record_string(raw, "label", arena, text, err), "a label", err);
        if (code != ERR_OK)
            return code;
    }
    if (!json_iter_ok(&iter))
        return bad_labels(err);
    *ret = labels;
    *ret_count = (uint32_t)(count / 2);
    return ERR_OK;
}

enum error_code resource_state_read(struct str json, struct arena *arena, struct resource *resource,
                                    struct err *err)
{
    enum error_code code =
        read_record(&resource_record, json, RECORD_ALL, "a resource", arena, resource, err);
    if (code == ERR_OK)
        code = damaged(names_read(json_member(json, STR("capabilities")), UINT32_MAX,
                                  "capabilities", arena, &resource->capabilities, err),
                       "a resource", err);
    if (code == ERR_OK)
        code = damaged(names_read(json_member(json, STR("queues")), UINT32_MAX, "queues", arena,
                                  &resource->queues, err),
                       "a resource", err);
    return code == ERR_OK ? label_pairs_read(json_member(json, STR("labels")), arena,
                                             &resource->labels, &resource->label_count, err)
                          : code;
}

void kind_settings_write(const struct kind_settings *kind, struct buf *buf)
{
    write_record(&kind_settings_record, kind, RECORD_ALL, STATE_JSON, buf);
}

bool kind_settings_same(const struct kind_settings *a, const struct kind_settings *b)
{
    return record_differs(&kind_settings_record, a, b, RECORD_ALL) == NULL;
}

enum error_code kind_settings_read(struct str json, struct arena *arena, struct kind_settings *kind,
                                   struct err *err)
{
    return read_record(&kind_settings_record, json, RECORD_ALL, "the settings of a kind", arena,
                       kind, err);
}

static void erase(struct str *text)
{
    *text = (struct str){NULL, 0};
}

static void erase_wait(struct wait *wait)
{
    erase(&wait->prompt);
    erase(&wait->choices);
    erase(&wait->default_answer);
}

static void redact_step(struct step *step)
{
    erase(&step->spec.payload);
    erase(&step->spec.wait);
    erase_wait(&step->question);
    erase(&step->default_answer);
    erase(&step->answer);
    erase(&step->answer_comment);
    erase(&step->result);
    erase(&step->error);
    erase(&step->progress);
    erase(&step->cursor);
}

void job_redact(struct job_slice *slice)
{
    struct job *job = &slice->job;
    erase(&job->spec.payload);
    erase(&job->spec.fingerprint); /* who guesses a payload could tell by it */
    erase(&job->spec.goal);
    erase(&job->spec.labels);
    erase_wait(&job->wait);
    erase(&job->resume.payload);
    erase(&job->resume.comment);
    erase(&job->dead_letter.last_error);
    erase(&job->result);
    erase(&job->error);
    erase(&job->progress);
    erase(&job->cursor);
    erase(&job->cancel_reason);
    erase(&job->replan_reason);
    memset(job->salt, 0, sizeof job->salt);
    job->redacted = true;
    for (uint32_t i = 0; i < slice->effect_count; i++) {
        erase(&slice->effects[i].result);
        erase(&slice->effects[i].error);
        /* Who guesses an input could tell by its hash. */
        erase(&slice->effects[i].fingerprint);
        memset(slice->effects[i].input_hash, 0, sizeof slice->effects[i].input_hash);
    }
    for (uint32_t i = 0; i < slice->signal_count; i++)
        erase(&slice->signals[i].payload);
    for (uint32_t i = 0; i < slice->step_count; i++)
        redact_step(&slice->steps[i]);
}
