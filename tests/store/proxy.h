/* Stands between a client and PostgreSQL, byte for byte, until it is told to cut a connection at a
 * COMMIT. */
#ifndef PAWL_TESTS_STORE_PROXY_H
#define PAWL_TESTS_STORE_PROXY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum proxy_mode {
    PROXY_PASS,        /* everything goes through */
    PROXY_DROP_COMMIT, /* the next COMMIT is not forwarded; both sides are cut */
    PROXY_LOSE_ANSWER, /* it is carried out; the client is cut instead of hearing of it */
    PROXY_LATE_DROP,   /* the client is cut; the server waits for a COMMIT that never comes */
    PROXY_LATE_COMMIT, /* the client is cut; the server gets the COMMIT a while after that */
    PROXY_VANISH,      /* as DROP_COMMIT, and from then on nobody gets through */
};

enum { PROXY_PAIRS = 16, PROXY_BYTES = 1 << 16 };

struct proxy_pair {
    int client; /* -1: gone */
    int server;
    int64_t late_at; /* when the server is cut, or gets what is held back */
    size_t held_count;
    char held[PROXY_BYTES];
    bool started;      /* messages have types from now on */
    bool in_batch;     /* between a batch's number and its COMMIT */
    size_t kept_count; /* of a message that is not complete yet */
    char kept[PROXY_BYTES];
};

struct proxy {
    uint16_t server_port;
    uint16_t port; /* to connect to */
    int listener;
    pthread_t thread;
    _Atomic int mode; /* goes back to PASS when a COMMIT was met, but for VANISH */
    atomic_bool stopping;
    atomic_int met; /* COMMITs that were cut */
    struct proxy_pair pairs[PROXY_PAIRS];
};

enum { PROXY_AHEAD_MS = 150, PROXY_LATE_MS = 400 };

/* For a server on 127.0.0.1; aborts when it cannot be had. */
void proxy_start(struct proxy *proxy, uint16_t server_port);
void proxy_stop(struct proxy *proxy);

/* From now on. */
void proxy_set(struct proxy *proxy, enum proxy_mode mode);

#endif
