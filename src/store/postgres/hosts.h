/* The hosts that a URL names. libpq takes the first that will do, which may be an old primary that
 * nobody has fenced; so they are also looked at one by one. */
#ifndef PAWL_STORE_POSTGRES_HOSTS_H
#define PAWL_STORE_POSTGRES_HOSTS_H

#include <stdint.h>

#include "base/error.h"
#include "store/postgres/connection.h"

enum { HOSTS_MAX = 16 };

struct hosts {
    struct connection_host at[HOSTS_MAX];
    uint32_t count;
    char *text; /* what the members are in */
};

/* Reads them; with one host, or more than HOSTS_MAX, or an unusual list, `count` is 0 and libpq
 * alone decides. */
enum error_code hosts_read(struct hosts *hosts, const char *url, struct err *err);
void hosts_release(struct hosts *hosts);

#endif
