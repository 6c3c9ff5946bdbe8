/* The socket that the server listens on. */
#ifndef PAWL_SERVER_LISTEN_H
#define PAWL_SERVER_LISTEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/str.h"

struct listener {
    int socket;
    uint16_t port;
    bool ipv6;
    struct sockaddr_storage address;
};

/* Listens at "ADDRESS:PORT", "[ADDRESS]:PORT" or ":PORT" (all addresses, of IPv6 too where the
 * system has it); port 0: any that is free.
 * bad_request: it is no such text; unavailable: the address cannot be had. */
enum error_code listen_open(struct str where, struct listener *ret, struct err *err);

#endif
