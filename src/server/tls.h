/* The server's certificate and key, which may be renewed while it serves.
 *
 * Every connection holds on to the pair that it began with: new ones get the latest, those that are
 * open go on with theirs, and a pair is freed with the last that has it. */
#ifndef PAWL_SERVER_TLS_H
#define PAWL_SERVER_TLS_H

#include <microhttpd.h>

#include "base/error.h"
#include "base/str.h"

struct tls;
struct tls_pair;

/* Reads two PEM files. bad_request: one cannot be read, is not PEM, or they do not belong together.
 */
enum error_code tls_open(struct str certificate, struct str key, struct tls **ret, struct err *err);

/* No connection may be left. NULL does nothing. */
void tls_close(struct tls *tls);

/* A pair for the connections to come: tls_read reads one, and fails as tls_open; then tls_use puts
 * it in the place of the one there is, which cannot fail, or tls_drop frees it. */
enum error_code tls_read(struct str certificate, struct str key, struct tls_pair **ret,
                         struct err *err);
void tls_use(struct tls *tls, struct tls_pair *pair);
void tls_drop(struct tls_pair *pair);

/* Gives a connection that has just been accepted its pair; and takes it back at its end. NULL: it
 * has none. */
struct tls_pair *tls_attach(struct tls *tls, struct MHD_Connection *http);
void tls_detach(struct tls *tls, struct tls_pair *pair);

/* What makes libmicrohttpd serve TLS without a certificate of its own. */
struct MHD_OptionItem tls_option(void);

#endif
