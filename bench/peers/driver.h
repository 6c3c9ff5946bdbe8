/* What the C clients of the peers share: what they are asked to do, and what they say of it.
 *
 * scripts/bench-peers starts such a client with a server that is already there. The client fills
 * the queue, prints `begin`, does what is timed, prints `end`, asks the store what is left, and
 * prints one line of JSON. Whatever goes wrong ends it with a message: a benchmark has nothing to
 * save. */
#ifndef PAWL_BENCH_PEERS_DRIVER_H
#define PAWL_BENCH_PEERS_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DRIVE_CLIENTS_MAX = 1024,
    DRIVE_BATCH_MAX = 10000,
    DRIVE_PAYLOAD_BYTES = 200,
};

struct drive {
    const char *operation; /* enqueue, work, both or latency */
    const char *target;    /* where the server or the file is */
    uint64_t jobs;
    uint64_t waiting; /* jobs that wait besides, and are still there at the end */
    uint32_t clients; /* who claim and complete */
    uint32_t producers;
    uint32_t batch; /* jobs in one request or commit */
    uint32_t rate;  /* enqueued per second, for latency */
    char payload[DRIVE_PAYLOAD_BYTES + 1];
    double started;
    double cpu_started;
    double seconds; /* between begin and end */
    double cpu_us;  /* of this process, in that time */
};

/* Reads `--name value` options and gives the process at most `--seconds` to live. */
void drive_parse(int argc, char **argv, struct drive *ret_drive);
bool drive_is(const struct drive *drive, const char *operation);

/* The timed part lies between these two. */
void drive_begin(struct drive *drive);
void drive_end(struct drive *drive);

/* Says how it went; `left` jobs are unfinished, or for enqueue there, as the store counts them.
 * Latencies, where there are any, are sorted here. */
void drive_tell(const struct drive *drive, uint64_t jobs, uint64_t left);
void drive_tell_latencies(const struct drive *drive, double *ms, uint64_t count, uint64_t left);

/* Seconds of a clock that never goes back. */
double drive_now(void);
void drive_sleep_until(double moment);

/* A share of `total` for one of `parts`, so that all shares add up. */
uint64_t drive_share(uint64_t total, uint32_t part, uint32_t parts);

void *drive_alloc(size_t count, size_t size);
_Noreturn void drive_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
