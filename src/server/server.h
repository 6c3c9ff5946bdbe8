/* The server: Pawl over HTTP. It has the store, and answers every verb of verbs.def on its route.
 *
 * Threads of libmicrohttpd take requests, hand them to the engine (writes) or to a pool of threads
 * (reads), and go on with other connections meanwhile. Whoever asks to wait costs a connection and
 * some memory, but no thread. */
#ifndef PAWL_SERVER_SERVER_H
#define PAWL_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"

struct server;

struct server_limits {
    uint32_t connections;            /* in all; 0: 8,192, or what the system allows */
    uint32_t connections_per_client; /* of one address; 0: half of them */
    uint32_t parked_per_thread;      /* requests that wait for something; 0: 1,024 */
    int64_t receive_ms;              /* for a request to come in completely; 0: 30 s */
    int64_t idle_ms;                 /* between two requests; 0: 75 s */
    int64_t send_ms;                 /* to take an answer; 0: 120 s */
    size_t bytes_max;                /* of all requests that are held at once; 0: 256 MiB */
};

struct server_options {
    struct engine_options engine;
    struct str listen; /* "127.0.0.1:7295", "[::1]:0"; absent: the first */
    uint32_t threads;  /* that talk with clients; 0: as many as there are processors, up to 4 */
    struct str certificate; /* PEM files; absent: no TLS */
    struct str key;
    struct str admin_token; /* absent: none */
    struct server_limits limits;

    /* Told a fact worth a line in a log, on any thread; NULL: nobody wants to know. */
    void (*log)(void *arg, const char *line);
    void *log_arg;
};

/* Opens the store and serves it. Everything in `options` is copied. Fails as handle_open;
 * bad_request when an option is wrong; unavailable when another process has the store or the
 * address. */
enum error_code server_open(struct str url, const struct server_options *options,
                            struct server **ret, struct err *err);

/* The port that it listens on. */
uint16_t server_port(const struct server *server);

/* Takes no new connections and claims, ends waits and streams, and waits until what was begun is
 * answered, but not longer than `wait_ms`. */
void server_drain(struct server *server, int64_t wait_ms);

/* Ends it. Requests that are being carried out are finished. NULL does nothing. */
void server_close(struct server *server);

#endif
