/* The dashboard's files: built from web/, compressed, and part of the program. scripts/build-web
 * writes the table. */
#ifndef PAWL_SERVER_ASSETS_H
#define PAWL_SERVER_ASSETS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

struct asset {
    struct str name; /* "index.html", or one that changes with the content */
    const char *type;
    const char *tag; /* an entity tag, in quotes: the same for both encodings, hence a weak one */
    const unsigned char *packed; /* gzip */
    size_t packed_len;
    size_t len;
};

extern const struct asset assets[];
extern const size_t asset_count;

/* The file of that name; NULL: none. */
const struct asset *asset_find(struct str name);

/* The file as it is, for anyone who does not take gzip; in `arena`. no_memory. */
enum error_code asset_unpack(const struct asset *asset, struct arena *arena, struct str *ret,
                             struct err *err);

#endif
