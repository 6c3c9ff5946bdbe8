/* Where a copy of the store may be written for a caller that is not this process itself: below one
 * directory, since the file is made with the rights of the process that has the store. */
#ifndef PAWL_ENGINE_BACKUP_PLACE_H
#define PAWL_ENGINE_BACKUP_PLACE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

/* The absolute path, without links, that `path` means: relative ones begin at `directory`.
 * bad_request when it is not below that directory: it is elsewhere, leads there by a link, or has
 * ".." in it; or when its directory or `directory` itself is not there. */
enum error_code backup_place(struct str directory, struct str path, struct arena *arena,
                             struct str *ret, struct err *err);

#endif
