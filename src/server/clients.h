/* How many connections each address has. Anyone who uses it sees to it that it is one thread at a
 * time. */
#ifndef PAWL_SERVER_CLIENTS_H
#define PAWL_SERVER_CLIENTS_H

#include <stdint.h>
#include <sys/socket.h>

struct clients;

struct client {
    struct client *next; /* of its bucket */
    uint8_t address[16];
    uint32_t count; /* its connections */
};

/* NULL: no memory. */
struct clients *clients_new(void);

/* When all have left. NULL does nothing. */
void clients_free(struct clients *clients);

/* Counts a connection of an address; NULL: no memory. */
struct client *clients_join(struct clients *clients, const struct sockaddr *address);

/* One less; the client is gone with its last. NULL does nothing. */
void clients_leave(struct clients *clients, struct client *client);

#endif
