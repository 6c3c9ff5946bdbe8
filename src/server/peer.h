/* Who is at the other end of a loopback connection: the user that the kernel has on record as the
 * owner of the peer's socket. */
#ifndef PAWL_SERVER_PEER_H
#define PAWL_SERVER_PEER_H

#include <stdbool.h>

/* Whether the peer of a connected TCP socket is trusted without a token: a process of this server's
 * own user or of root. Asks the kernel (sock_diag), which takes some microseconds and blocks for
 * nobody else. False whenever the kernel does not say whose socket it is: the peer has closed it,
 * it is not on this machine, or sock_diag is not to be had. Sockets that are not of TCP over IP
 * (AF_UNIX) are trusted: the permissions of their file decide. */
bool peer_is_trusted(int socket);

#endif
