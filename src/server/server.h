/* The server: Pawl over HTTP. It has the store, and answers every verb of verbs.def on its route.
 *
 * Threads of libmicrohttpd take requests, hand them to the engine (writes) or to a pool of threads
 * (reads), and go on with other connections meanwhile. Anyone who asks to wait costs a connection
 * and some memory, but no thread. */
#ifndef PAWL_SERVER_SERVER_H
#define PAWL_SERVER_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"
#include "server/log.h"

struct server;

struct server_limits {
    uint32_t connections;            /* in all; 0: 8,192, or what the system allows */
    uint32_t connections_per_client; /* of one address; 0: half of them */
    uint32_t parked;                 /* requests that wait for something; 0: 1,024 a thread; at
                                      * most three quarters of them are no claims */
    int64_t receive_ms;              /* for a request to come in completely; 0: 30 s */
    int64_t idle_ms;                 /* between two requests; 0: 75 s */
    int64_t send_ms;                 /* to take an answer; 0: 120 s */
    size_t bytes_max;                /* of requests and answers held at once; 0: 256 MiB */
};

struct server_options {
    struct engine_options engine;
    struct str listen; /* "127.0.0.1:7295", "[::1]:0"; absent: the first */
    uint32_t threads;  /* that talk with clients; 0: as many as there are processors, up to 4 */
    struct str certificate; /* PEM files; absent: no TLS */
    struct str key;
    struct str admin_token; /* absent: none */
    bool require_tokens;    /* on loopback too */
    uint32_t rate_per_s;    /* requests of each token; 0: as many as they like */
    struct str kinds;       /* a JSON array of what the verb kind_set takes; absent: none */
    struct server_limits limits;

    /* Told a fact worth a line in a log, as JSON, on a thread of its own; NULL: nobody wants to
     * know. */
    void (*log)(void *arg, const char *line);
    void *log_arg;
    enum log_level log_level; /* LOG_NONE: LOG_INFO */

    /* Where spans go: OTLP over HTTP. */
    struct str otlp_endpoint;        /* its base, "http://127.0.0.1:4318"; absent: nowhere */
    struct str otlp_traces_endpoint; /* the whole of it, which goes first */
    struct str otlp_headers;         /* see struct otlp_options */
    struct str otlp_ca_file;
    struct str service_name; /* absent: "pawl" */
};

/* Opens the store and serves it. Everything in `options` is copied. Fails as handle_open;
 * bad_request when an option is wrong; unavailable when another process has the store or the
 * address. */
enum error_code server_open(struct str url, const struct server_options *options,
                            struct server **ret, struct err *err);

/* Takes over what can change while it serves: require_tokens, rate_per_s, kinds, and the files of
 * certificate and key, which are read again, if it serves TLS and they are named. Everything else
 * is left as it is. Fails as server_open, and then nothing has changed; but when the store went
 * away, some of the kinds may have. */
enum error_code server_reload(struct server *server, const struct server_options *options,
                              struct err *err);

/* The port that it listens on. */
uint16_t server_port(const struct server *server);

/* From now on /readyz says that it is about to end; everything else goes on. */
void server_retire(struct server *server);

/* Takes no more claims, answers new connections with unavailable, ends waits and streams, and waits
 * until what was begun is answered, but not longer than `wait_ms`. */
void server_drain(struct server *server, int64_t wait_ms);

/* Ends it. Requests that are being carried out are finished. NULL does nothing. */
void server_close(struct server *server);

#endif
