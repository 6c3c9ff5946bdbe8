/* An ordered table of byte strings: keys to values, in the order of memcmp. An AVL tree.
 *
 * Entries are made first and put in afterwards, so that nothing but making one needs memory: what
 * was taken out or replaced comes back to the caller, who can put it in again without fail. A table
 * takes no locks. */
#ifndef PAWL_STORE_MEMORY_TABLE_H
#define PAWL_STORE_MEMORY_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct entry {
    struct entry *child[2]; /* smaller, larger */
    uint32_t key_len;
    uint32_t value_len;
    uint8_t height;
    char bytes[]; /* key, then value */
};

struct table {
    struct entry *root;
    size_t count;
};

static inline struct str entry_key(const struct entry *entry)
{
    return (struct str){entry->bytes, entry->key_len};
}

static inline struct str entry_value(const struct entry *entry)
{
    return (struct str){entry->bytes + entry->key_len, entry->value_len};
}

/* An entry with copies of both, in no table yet; NULL when there is no memory. */
struct entry *entry_new(struct str key, struct str value);
void entry_free(struct entry *entry);

/* Frees every entry. */
void table_release(struct table *table);

/* Puts the entry in and gives back the one with the same key that it replaces, or NULL. The table
 * owns the entry, the caller the one that comes back. */
struct entry *table_put(struct table *table, struct entry *entry);

/* Takes the entry of a key out; NULL if missing. The caller owns it. */
struct entry *table_take(struct table *table, struct str key);

/* The entry with this key, the first with this or a larger key, the first with a larger key, the
 * last with a smaller one; NULL if missing. Valid until the entry is taken out or replaced.
 */
const struct entry *table_get(const struct table *table, struct str key);
const struct entry *table_seek(const struct table *table, struct str key);
const struct entry *table_after(const struct table *table, struct str key);
const struct entry *table_before(const struct table *table, struct str key);

#endif
