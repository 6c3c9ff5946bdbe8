#include "server/clients.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024 };

struct clients {
    struct client *buckets[BUCKETS];
};

struct clients *clients_new(void)
{
    return calloc(1, sizeof(struct clients));
}

void clients_free(struct clients *clients)
{
    if (clients == NULL)
        return;
    for (int i = 0; i < BUCKETS; i++)
        assert(clients->buckets[i] == NULL);
    free(clients);
}

static void read_address(const struct sockaddr *address, uint8_t ret[16])
{
    memset(ret, 0, 16);
    if (address != NULL && address->sa_family == AF_INET)
        memcpy(ret, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    else if (address != NULL && address->sa_family == AF_INET6)
        memcpy(ret, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
}

/* Addresses that were chosen to be in one bucket are not more than there are connections. */
static struct client **bucket_of(struct clients *clients, const uint8_t address[16])
{
    uint32_t hash = 2166136261U;
    for (int i = 0; i < 16; i++)
        hash = (hash ^ address[i]) * 16777619U;
    return &clients->buckets[(hash ^ hash >> 16) % BUCKETS];
}

struct client *clients_join(struct clients *clients, const struct sockaddr *address)
{
    uint8_t bytes[16];
    read_address(address, bytes);
    struct client **bucket = bucket_of(clients, bytes);
    struct client *client = *bucket;
    while (client != NULL && memcmp(client->address, bytes, sizeof bytes) != 0)
        client = client->next;
    if (client == NULL) {
        client = calloc(1, sizeof *client);
        if (client == NULL)
            return NULL;
        memcpy(client->address, bytes, sizeof bytes);
        client->next = *bucket;
        *bucket = client;
    }
    client->count++;
    return client;
}

void clients_leave(struct clients *clients, struct client *client)
{
    if (client == NULL || --client->count > 0)
        return;
    struct client **at = bucket_of(clients, client->address);
    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    free(client);
}
