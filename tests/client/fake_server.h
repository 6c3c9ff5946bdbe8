/* A server of HTTP that does what a test tells it, also what no server should do: it answers
 * requests with the bytes of a script, cuts connections, or stays silent, and remembers what it was
 * asked. GET /healthz is answered by itself, unless the script is to have that too. */
#ifndef PAWL_TESTS_CLIENT_FAKE_SERVER_H
#define PAWL_TESTS_CLIENT_FAKE_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_then {
    FAKE_KEEP, /* the connection stays open for the next request */
    FAKE_CLOSE,
    FAKE_RESET, /* as after a crash */
    FAKE_FLOOD, /* and then `headers`, if it is not a whole answer, or `body` again and again */
};

/* What becomes of the next request: an answer, raw bytes, or nothing. */
struct fake_step {
    const char *status;  /* "200 OK"; NULL: it is not a whole answer */
    const char *type;    /* NULL: application/json */
    const char *headers; /* more of them, each with its line end; NULL: none */
    const char *body;    /* of an answer, or raw bytes; NULL: none */
    enum fake_then then;
};

enum {
    FAKE_LOG_MAX = 64,
    FAKE_REQUEST_BYTES = 1 << 16,
    FAKE_LINES_MAX = 80,
};

struct fake_server {
    uint16_t port;
    char url[64];
    int listener;
    pthread_t thread;
    atomic_bool stopping;
    bool scripts_health;
    const struct fake_step *script;
    size_t script_count;
    atomic_size_t answered; /* requests of the script */

    pthread_mutex_t mutex; /* guards what follows */
    size_t connections;
    size_t log_count;
    char *log[FAKE_LOG_MAX]; /* whole requests but for /healthz */
};

/* Listens on 127.0.0.1; aborts when it cannot. What comes after the script gets 200 and {}. */
void fake_server_start(struct fake_server *server, const struct fake_step *script, size_t count);
void fake_server_stop(struct fake_server *server);

/* The request at that place as text, "" when there is none; how many there are, waiting until there
 * are at least `least`. */
const char *fake_server_request(struct fake_server *server, size_t at);
size_t fake_server_count(struct fake_server *server, size_t least);

/* Writes the value of a header of a request, or "". */
void fake_header(const char *request, const char *name, char ret[256]);

const char *fake_body(const char *request);

#endif
