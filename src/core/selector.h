/* Label selectors in Kubernetes' syntax: `gpu=a100, zone in (a,b), tier!=spot, !old, fast`.
 *
 * A selector is a list of requirements that must all hold. An empty selector matches everything. */
#ifndef PAWL_CORE_SELECTOR_H
#define PAWL_CORE_SELECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

enum { SELECTOR_REQUIREMENTS_MAX = 64, SELECTOR_BYTES_MAX = 4096 };

enum selector_operator {
    SELECTOR_IN,         /* =, ==, in */
    SELECTOR_NOT_IN,     /* !=, notin: also true where the label is missing */
    SELECTOR_EXISTS,     /* key */
    SELECTOR_NOT_EXISTS, /* !key */
};

struct requirement {
    struct str key;
    enum selector_operator op;
    struct str *values;
    uint32_t value_count;
};

struct selector {
    struct requirement *at;
    uint32_t count;
};

struct label {
    struct str key;
    struct str value;
};

/* Reads a selector; bad_request names the text and the place, as an offset in bytes. Views of
 * `text` are kept. Keys and values have letters, digits, '-', '_' and '.', and start and end with
 * one of the former two; a key may have one prefix that ends in '/'; each has 128 bytes at most. */
enum error_code selector_parse(struct str text, struct arena *arena, struct selector *ret,
                               struct err *err);

/* Whether the labels satisfy the selector. */
bool selector_matches(const struct selector *selector, const struct label *labels,
                      uint32_t label_count);

/* The label of that key, or NULL. */
const struct label *label_find(const struct label *labels, uint32_t label_count, struct str key);

#endif
