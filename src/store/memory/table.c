#include "store/memory/table.h"

#include <assert.h>
#include <stdlib.h>

/* An AVL tree of this depth has more entries than there is memory. */
enum { DEPTH_MAX = 64 };

struct entry *entry_new(struct str key, struct str value)
{
    if (key.len > UINT32_MAX || value.len > UINT32_MAX)
        return NULL;
    struct entry *entry = malloc(sizeof *entry + key.len + value.len);
    if (entry == NULL)
        return NULL;
    *entry = (struct entry){.key_len = (uint32_t)key.len, .value_len = (uint32_t)value.len};
    if (key.len > 0)
        memcpy(entry->bytes, key.at, key.len);
    if (value.len > 0)
        memcpy(entry->bytes + key.len, value.at, value.len);
    return entry;
}

void entry_free(struct entry *entry)
{
    free(entry);
}

void table_release(struct table *table)
{
    /* Turning each left child up leaves a list, which needs no stack to walk. */
    struct entry *at = table->root;
    while (at != NULL) {
        struct entry *left = at->child[0];
        if (left != NULL) {
            at->child[0] = left->child[1];
            left->child[1] = at;
            at = left;
        } else {
            struct entry *next = at->child[1];
            free(at);
            at = next;
        }
    }
    *table = (struct table){0};
}

static int height_of(const struct entry *entry)
{
    return entry == NULL ? 0 : entry->height;
}

static void measure(struct entry *entry)
{
    int left = height_of(entry->child[0]);
    int right = height_of(entry->child[1]);
    entry->height = (uint8_t)(1 + (left > right ? left : right));
}

/* Lifts the child on `side` above its parent. */
static void rotate(struct entry **link, int side)
{
    struct entry *parent = *link;
    struct entry *child = parent->child[side];
    parent->child[side] = child->child[!side];
    child->child[!side] = parent;
    measure(parent);
    measure(child);
    *link = child;
}

static void balance(struct entry **link)
{
    struct entry *entry = *link;
    if (entry == NULL)
        return;
    int lean = height_of(entry->child[1]) - height_of(entry->child[0]);
    if (lean >= -1 && lean <= 1) {
        measure(entry);
        return;
    }
    int side = lean > 0;
    struct entry *heavy = entry->child[side];
    if (height_of(heavy->child[!side]) > height_of(heavy->child[side]))
        rotate(&entry->child[side], !side);
    rotate(link, side);
}

struct entry *table_put(struct table *table, struct entry *entry)
{
    struct entry **path[DEPTH_MAX];
    int depth = 0;
    struct entry **link = &table->root;
    while (*link != NULL) {
        int order = str_cmp(entry_key(entry), entry_key(*link));
        if (order == 0) {
            struct entry *old = *link;
            entry->child[0] = old->child[0];
            entry->child[1] = old->child[1];
            entry->height = old->height;
            *link = entry;
            return old;
        }
        assert(depth < DEPTH_MAX);
        path[depth++] = link;
        link = &(*link)->child[order > 0];
    }
    entry->child[0] = NULL;
    entry->child[1] = NULL;
    entry->height = 1;
    *link = entry;
    table->count++;
    while (depth > 0)
        balance(path[--depth]);
    return NULL;
}

/* Puts the next larger entry in the place of `*path[at]`, which has two children. Returns the depth
 * of the path down to where that entry stood. */
static int replace_by_next(struct entry **path[DEPTH_MAX], int at)
{
    struct entry *gone = *path[at];
    int depth = at + 1;
    struct entry **link = &gone->child[1];
    path[depth++] = link;
    while ((*link)->child[0] != NULL) {
        link = &(*link)->child[0];
        assert(depth < DEPTH_MAX);
        path[depth++] = link;
    }
    struct entry *next = *link;
    *link = next->child[1];
    next->child[0] = gone->child[0];
    next->child[1] = gone->child[1];
    *path[at] = next;
    path[at + 1] = &next->child[1];
    return depth;
}

struct entry *table_take(struct table *table, struct str key)
{
    struct entry **path[DEPTH_MAX + 1];
    int depth = 0;
    struct entry **link = &table->root;
    for (;;) {
        if (*link == NULL)
            return NULL;
        assert(depth < DEPTH_MAX);
        path[depth++] = link;
        int order = str_cmp(key, entry_key(*link));
        if (order == 0)
            break;
        link = &(*link)->child[order > 0];
    }
    struct entry *taken = *link;
    if (taken->child[0] != NULL && taken->child[1] != NULL)
        depth = replace_by_next(path, depth - 1);
    else
        *link = taken->child[taken->child[0] == NULL];
    table->count--;
    while (depth > 0)
        balance(path[--depth]);
    return taken;
}

const struct entry *table_get(const struct table *table, struct str key)
{
    const struct entry *at = table->root;
    while (at != NULL) {
        int order = str_cmp(key, entry_key(at));
        if (order == 0)
            return at;
        at = at->child[order > 0];
    }
    return NULL;
}

/* The nearest entry on `side` (0: smaller, 1: larger) of the key, or at it when `equal` will do. */
static const struct entry *nearest(const struct table *table, struct str key, int side, bool equal)
{
    const struct entry *best = NULL;
    const struct entry *at = table->root;
    while (at != NULL) {
        int order = str_cmp(entry_key(at), key);
        if (order == 0 && equal)
            return at;
        bool beyond = side == 1 ? order > 0 : order < 0;
        if (beyond)
            best = at;
        at = at->child[beyond ? !side : side];
    }
    return best;
}

const struct entry *table_seek(const struct table *table, struct str key)
{
    return nearest(table, key, 1, true);
}

const struct entry *table_after(const struct table *table, struct str key)
{
    return nearest(table, key, 1, false);
}

const struct entry *table_before(const struct table *table, struct str key)
{
    return nearest(table, key, 0, false);
}
