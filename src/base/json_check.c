#include <assert.h>
#include <stdio.h>

#include "base/json.h"
#include "base/json_scan.h"

enum {
    KEYS_LOCAL = 64, /* documents with fewer open keys take nothing from the arena */
    KEYS_FEW = 32,   /* up to here each key of an object is compared with those before it */
};

struct key {
    struct str text; /* decoded */
    uint64_t hash;
    size_t offset; /* of its opening quote */
};

/* An array or object that is not closed yet. Arrays have no keys. */
struct container {
    bool is_object;
    size_t keys_before; /* keys of the objects around it */
    uint64_t seen;      /* a bit for each hash: no bit, no such key so far */
};

/* Each check takes the place where it starts and returns the place where it ended, or NULL when it
 * failed and has said why. */
struct checker {
    const char *start;
    const char *end;
    const char *what;
    struct arena *arena;
    struct err *err;
    enum error_code code; /* why the check failed */
    size_t depth;
    size_t depth_max;
    struct key *keys; /* of all open objects, innermost last */
    size_t key_count;
    size_t key_cap;
    struct container open[JSON_NESTED_MAX];
    struct key local[KEYS_LOCAL];
};

static size_t offset_of(const struct checker *checker, const char *at)
{
    assert(at >= checker->start && at <= checker->end);
    return (size_t)(at - checker->start);
}

static const char *fail(struct checker *checker, const char *at, const char *problem)
{
    checker->code = err_set(checker->err, ERR_BAD_REQUEST, "%s: byte %zu: %s", checker->what,
                            offset_of(checker, at), problem);
    return NULL;
}

/* Says what was expected at `at`, and what is there instead. */
static const char *fail_expected(struct checker *checker, const char *at, const char *expected)
{
    char found[24] = "the text ends";
    if (at < checker->end) {
        unsigned char byte = (unsigned char)*at;
        bool shown = byte > 0x20 && byte < 0x7f;
        (void)snprintf(found, sizeof found, shown ? "found '%c'" : "found byte 0x%02X", byte);
    }
    checker->code = err_set(checker->err, ERR_BAD_REQUEST, "%s: byte %zu: expected %s, but %s",
                            checker->what, offset_of(checker, at), expected, found);
    return NULL;
}

static bool fail_duplicate(struct checker *checker, const struct key *key)
{
    checker->code = err_set(checker->err, ERR_BAD_REQUEST, "%s: byte %zu: duplicate key \"%.*s\"",
                            checker->what, key->offset, STR_ARG(key->text));
    return false;
}

static bool fail_memory(struct checker *checker)
{
    checker->code = err_set(checker->err, ERR_NO_MEMORY, "%s: out of memory", checker->what);
    return false;
}

/* A cheap hash of the length and of both ends of a key. It only has to tell the keys of friendly
 * documents apart: hostile ones that all hash alike are compared in full, after sorting. */
static uint64_t hash_key(struct str key)
{
    uint64_t head = 0;
    uint64_t tail = 0;
    if (key.len >= 8) {
        memcpy(&head, key.at, 8);
        memcpy(&tail, key.at + key.len - 8, 8);
    } else if (key.len >= 4) {
        memcpy(&head, key.at, 4);
        memcpy(&tail, key.at + key.len - 4, 4);
    } else if (key.len > 0) {
        head = (unsigned char)key.at[0];
        tail =
            (uint64_t)(unsigned char)key.at[key.len / 2] << 8 | (unsigned char)key.at[key.len - 1];
    }
    uint64_t hash = (head ^ key.len) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32 ^ tail) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

static bool key_eq(const struct key *a, const struct key *b)
{
    return a->hash == b->hash && str_eq(a->text, b->text);
}

/* Equal keys stand together, in the order of the text. */
static bool key_before(const struct key *a, const struct key *b)
{
    if (a->hash != b->hash)
        return a->hash < b->hash;
    int order = str_cmp(a->text, b->text);
    return order != 0 ? order < 0 : a->offset < b->offset;
}

/* Moves keys[root] down until no key below it comes after it. */
static void sift_down(struct key *keys, size_t root, size_t count)
{
    struct key moved = keys[root];
    for (;;) {
        size_t child = root * 2 + 1;
        if (child >= count)
            break;
        if (child + 1 < count && key_before(&keys[child], &keys[child + 1]))
            child++;
        if (!key_before(&moved, &keys[child]))
            break;
        keys[root] = keys[child];
        root = child;
    }
    keys[root] = moved;
}

/* Heapsort: n log n whatever the keys are, in place. The qsort of libc promises neither. */
static void sort_keys(struct key *keys, size_t count)
{
    for (size_t root = count / 2; root-- > 0;)
        sift_down(keys, root, count);
    for (size_t last = count; last-- > 1;) {
        struct key largest = keys[0];
        keys[0] = keys[last];
        keys[last] = largest;
        sift_down(keys, 0, last);
    }
}

/* Finds the first duplicate in the order of the text, or NULL, by a hash table. False when that is
 * slow, which takes keys that were made to collide, and when there is no memory for it. */
static bool search_by_hash(struct arena *arena, const struct key *keys, size_t count,
                           const struct key **ret_duplicate)
{
    size_t slots = KEYS_LOCAL;
    while (slots < count * 2)
        slots *= 2;
    uint32_t *table = arena_zalloc(arena, slots, sizeof *table); /* index + 1; 0 is free */
    if (table == NULL || count >= UINT32_MAX)
        return false;
    size_t patience = count * 8;
    for (size_t i = 0; i < count; i++) {
        size_t slot = keys[i].hash & (slots - 1);
        for (; table[slot] != 0; slot = (slot + 1) & (slots - 1)) {
            if (key_eq(&keys[table[slot] - 1], &keys[i])) {
                *ret_duplicate = &keys[i];
                return true;
            }
            if (patience-- == 0)
                return false;
        }
        table[slot] = (uint32_t)(i + 1);
    }
    *ret_duplicate = NULL;
    return true;
}

/* The same by sorting. */
static const struct key *search_by_order(struct key *keys, size_t count)
{
    const struct key *duplicate = NULL;
    sort_keys(keys, count);
    for (size_t i = 1; i < count; i++)
        if (key_eq(&keys[i - 1], &keys[i]) &&
            (duplicate == NULL || keys[i].offset < duplicate->offset))
            duplicate = &keys[i];
    return duplicate;
}

static bool check_many_keys(struct checker *checker, struct key *keys, size_t count)
{
    assert(count > KEYS_FEW);
    const struct key *duplicate;
    if (!search_by_hash(checker->arena, keys, count, &duplicate))
        duplicate = search_by_order(keys, count);
    return duplicate == NULL || fail_duplicate(checker, duplicate);
}

static bool grow_keys(struct checker *checker)
{
    size_t size = checker->key_cap * sizeof *checker->keys;
    struct key *keys;
    if (checker->keys == checker->local) {
        keys = arena_alloc(checker->arena, size * 2);
        if (keys != NULL)
            memcpy(keys, checker->local, size);
    } else {
        keys = arena_grow(checker->arena, checker->keys, size, size * 2);
    }
    if (keys == NULL)
        return fail_memory(checker);
    checker->keys = keys;
    checker->key_cap *= 2;
    return true;
}

/* Notes a key of the innermost object. Beyond a few, duplicates are looked for when it closes. */
static bool add_key(struct checker *checker, struct str text, size_t offset)
{
    struct container *object = &checker->open[checker->depth - 1];
    assert(object->is_object);
    if (checker->key_count == checker->key_cap && !grow_keys(checker))
        return false;
    struct key *key = &checker->keys[checker->key_count];
    *key = (struct key){text, hash_key(text), offset};
    uint64_t bit = UINT64_C(1) << (key->hash & 63);
    if ((object->seen & bit) != 0 && checker->key_count - object->keys_before < KEYS_FEW) {
        for (struct key *k = &checker->keys[object->keys_before]; k < key; k++)
            if (key_eq(k, key))
                return fail_duplicate(checker, key);
    }
    object->seen |= bit;
    checker->key_count++;
    return true;
}

/* True when `c` stands at `at`. */
static inline bool is_at(const struct checker *checker, const char *at, char c)
{
    return at < checker->end && *at == c;
}

/* A key and its colon. */
static const char *check_key(struct checker *checker, const char *at)
{
    const char *quote = json_scan_space(at, checker->end);
    if (!is_at(checker, quote, '"'))
        return fail_expected(checker, quote, "a key in quotes");
    bool escaped = false;
    struct json_flaw flaw;
    at = json_scan_string(quote + 1, checker->end, &escaped, &flaw);
    if (at == NULL)
        return fail(checker, flaw.at, flaw.problem);
    struct str text = {quote + 1, (size_t)(at - quote) - 2};
    if (escaped) {
        char *decoded = arena_alloc(checker->arena, text.len);
        if (decoded == NULL) {
            (void)fail_memory(checker);
            return NULL;
        }
        text = (struct str){decoded, json_decode(text, decoded)};
    }
    if (!add_key(checker, text, offset_of(checker, quote)))
        return NULL;
    at = json_scan_space(at, checker->end);
    return is_at(checker, at, ':') ? at + 1 : fail_expected(checker, at, "':'");
}

/* Ends the innermost array or object, whose closing bracket is at `at`. */
static const char *close_container(struct checker *checker, const char *at)
{
    assert(checker->depth > 0);
    struct container *closed = &checker->open[--checker->depth];
    size_t count = checker->key_count - closed->keys_before;
    checker->key_count = closed->keys_before;
    if (count > KEYS_FEW && !check_many_keys(checker, &checker->keys[closed->keys_before], count))
        return NULL;
    return at + 1;
}

/* Takes an opening bracket, and the closing one or the first key if that comes next. */
static const char *open_container(struct checker *checker, const char *at)
{
    bool is_object = *at == '{';
    if (checker->depth == checker->depth_max)
        return fail(checker, at,
                    checker->depth_max == JSON_DEPTH_MAX ? "nested deeper than 64 levels"
                                                         : "nested too deep");
    checker->open[checker->depth] = (struct container){is_object, checker->key_count, 0};
    checker->depth++;
    at = json_scan_space(at + 1, checker->end);
    if (is_at(checker, at, is_object ? '}' : ']'))
        return close_container(checker, at);
    return is_object ? check_key(checker, at) : at;
}

/* The start of a value: all of it, or all up to the first value inside. */
static const char *check_value(struct checker *checker, const char *at)
{
    at = json_scan_space(at, checker->end);
    if (at == checker->end)
        return fail_expected(checker, at, "a value");
    bool escaped;
    struct json_flaw flaw;
    switch (*at) {
    case '{':
    case '[':
        return open_container(checker, at);
    case '"':
        at = json_scan_string(at + 1, checker->end, &escaped, &flaw);
        break;
    case 't':
    case 'f':
    case 'n':
        at = json_scan_literal(at, checker->end, &flaw);
        break;
    default:
        if (*at != '-' && (*at < '0' || *at > '9'))
            return fail_expected(checker, at, "a value");
        at = json_scan_number(at, checker->end, &flaw);
        break;
    }
    return at != NULL ? at : fail(checker, flaw.at, flaw.problem);
}

/* What may follow a value: closing brackets, and a comma with the next key if there is one. */
static const char *check_after_value(struct checker *checker, const char *at)
{
    while (checker->depth > 0) {
        bool in_object = checker->open[checker->depth - 1].is_object;
        at = json_scan_space(at, checker->end);
        if (is_at(checker, at, ','))
            return in_object ? check_key(checker, at + 1) : at + 1;
        if (!is_at(checker, at, in_object ? '}' : ']'))
            return fail_expected(checker, at, in_object ? "',' or '}'" : "',' or ']'");
        at = close_container(checker, at);
        if (at == NULL)
            return NULL;
    }
    return at;
}

static const char *check_text(struct checker *checker)
{
    const char *at = checker->start;
    if (checker->end - at >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        return fail(checker, at, "a byte order mark is not allowed");
    do {
        size_t depth = checker->depth;
        at = check_value(checker, at);
        if (at != NULL && checker->depth <= depth)
            at = check_after_value(checker, at);
        if (at == NULL)
            return NULL;
    } while (checker->depth > 0);
    at = json_scan_space(at, checker->end);
    return at == checker->end ? at : fail_expected(checker, at, "the end of the text");
}

static enum error_code check_to_depth(struct str text, size_t bytes_max, size_t depth_max,
                                      const char *what, struct arena *arena, struct err *err)
{
    assert(what != NULL);
    assert(text.at != NULL || text.len == 0);
    if (text.len > bytes_max) {
        return err_set(err, ERR_PAYLOAD_TOO_LARGE, "%s: %zu bytes, but at most %zu are allowed",
                       what, text.len, bytes_max);
    }
    struct checker checker; /* the large arrays in it stay as they are until used */
    checker.start = text.at == NULL ? "" : text.at;
    checker.end = checker.start + text.len;
    checker.what = what;
    checker.arena = arena;
    checker.err = err;
    checker.code = ERR_OK;
    checker.depth = 0;
    checker.depth_max = depth_max;
    checker.keys = checker.local;
    checker.key_count = 0;
    checker.key_cap = KEYS_LOCAL;
    const char *end = check_text(&checker);
    assert((end != NULL) == (checker.code == ERR_OK));
    (void)end;
    return checker.code;
}

enum error_code json_check(struct str text, size_t bytes_max, const char *what, struct arena *arena,
                           struct err *err)
{
    return check_to_depth(text, bytes_max, JSON_DEPTH_MAX, what, arena, err);
}

enum error_code json_check_request(struct str text, size_t bytes_max, const char *what,
                                   struct arena *arena, struct err *err)
{
    return check_to_depth(text, bytes_max, JSON_REQUEST_MAX, what, arena, err);
}

enum error_code json_check_answer(struct str text, const char *what, struct arena *arena,
                                  struct err *err)
{
    return check_to_depth(text, SIZE_MAX, JSON_NESTED_MAX, what, arena, err);
}
