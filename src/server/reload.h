/* What of a server's options can change while it serves; server_reload is there. */
#ifndef PAWL_SERVER_RELOAD_H
#define PAWL_SERVER_RELOAD_H

#include "server/server_private.h"

/* Whether the options can be right, as far as that can be said without reading anything:
 * bad_request. */
enum error_code reload_check(const struct server_options *options, struct err *err);

/* Sets the defaults of kinds, an array of what the verb kind_set takes; absent: none. All of them
 * are checked first: bad_request, unknown_field. */
enum error_code reload_kinds(struct server *server, struct str kinds, struct err *err);

#endif
