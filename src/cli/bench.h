/* What the parts of 'pawl bench' share: what is wanted, where the jobs are, who works on them, and
 * what was measured.
 *
 * A scenario (bench_scenarios.c) opens a site (bench_site.c), which is a store or a server with a
 * queue of its own. On it there are runs (bench_run.c): clients (bench_client.c), each a thread,
 * that do what their roles say until the run's jobs are done or its time is over. What a run took
 * becomes a measure; the measures of all repeats are a row, and bench_report.c prints the rows.
 *
 * All numbers that end in _ns are nanoseconds on the steady clock. */
#ifndef PAWL_CLI_BENCH_H
#define PAWL_CLI_BENCH_H

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cli/cli.h"

enum {
    BENCH_REPEATS_MAX = 100,
    BENCH_LEVELS_MAX = 8,
    BENCH_ROWS_MAX = 32,
    BENCH_BATCH_MAX = 1000, /* what one call takes */
    BENCH_CLIENTS_MAX = 1000,
    BENCH_POLLS_MAX = 10 * 1000,
    BENCH_STEPS_MAX = 1000,
    BENCH_BACKGROUND_MAX = 10 * 1000, /* background operations per second */
    BENCH_URL_MAX = 2048,
    BENCH_CALL_BYTES_MAX = 6 * 1024 * 1024, /* payloads in one call */
};

/* The kind of all jobs here, and of the steps in their plans. */
#define BENCH_KIND "pawl-bench"
#define BENCH_KIND_OTHER BENCH_KIND "-other"

/* What the name of the paused queue of a mix ends in. */
#define BENCH_PAUSED "-paused"

/* The names of queues for background load end in this and a number. */
#define BENCH_BACKGROUND "-background-"

/* ---- what was measured ---- */

/* One run. What is not known is less than 0. */
struct measure {
    double start; /* seconds of the steady clock */
    double seconds;
    long long count;    /* units done: jobs, renewals, steps */
    double events;      /* for each unit */
    double client_cpu;  /* seconds of this process */
    double server_cpu;  /* and of the server's */
    double latency[3];  /* ms: p50, p95, p99 */
    bool has_latencies; /* of this run */
};

/* All counted runs of one case of a scenario. */
struct row {
    const char *scenario;
    char label[48];    /* which case; "": there is but one */
    const char *unit;  /* "jobs" */
    const char *what;  /* that latencies are of */
    bool under_load;   /* the row before is the same without background load */
    long long waiting; /* jobs in front; -1: this is not what it is about */
    double bytes;      /* on disk for each job; less than 0: not known */
    size_t count;
    struct measure runs[BENCH_REPEATS_MAX];
};

/* ---- what is wanted ---- */

/* Background load of the scenario mixed, per second. */
struct background {
    long long heartbeats;
    long long waits;
    long long plans;
    long long lists;
    long long gets;
    long long effects; /* percent of lives with two effects */
};

struct bench {
    const struct args *args;
    long long jobs; /* 0: as the scenario likes */
    long long batch;
    long long clients;
    long long payload_bytes;
    long long rate; /* jobs a second, where that is given */
    long long repeat;
    long long warm_up; /* runs that are not counted */
    long long polls;   /* claims that wait besides */
    long long steps;   /* of a plan */
    long long limit_ms;
    long long levels[BENCH_LEVELS_MAX]; /* jobs that wait, in rising order */
    size_t level_count;
    bool serve;
    bool keep;
    bool mix; /* what waits is what workers may not have */
    struct background background;

    char queue[48];   /* that all jobs are in */
    char *payload;    /* JSON; NULL: none */
    sigset_t signals; /* that end it */
    bool interrupted; /* by one of them */

    struct row *rows; /* BENCH_ROWS_MAX */
    size_t row_count;

    char where[BENCH_URL_MAX + 128]; /* the store of the last site, for people */
    const char *manner;              /* "in process", "over HTTP", "pawl serve" */
    double syncs;                    /* a second, of the disk; less than 0: not known */
};

/* ---- bench_text.c: texts and times ---- */

/* A text that grows and is used again. */
struct draft {
    char *at; /* ends in NUL; NULL: nothing was added yet */
    size_t len;
    size_t cap;
    bool failed; /* there was no memory: what was added last is not there */
};

void draft_add(struct draft *draft, const char *text, size_t len);
void draft_text(struct draft *draft, const char *text);
void draft_print(struct draft *draft, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void draft_free(struct draft *draft);

/* JSON of so many bytes, of letters that do not shrink well; NULL: no memory. To be freed. */
char *bench_payload(long long bytes);

long long bench_now_ns(void);
void bench_sleep_until(long long at_ns);

/* Seconds of this process on its processors. */
double bench_own_cpu(void);

/* ---- bench_server.c: a server that we start, and what servers cost ---- */

struct served {
    pid_t pid; /* 0: none */
    int log;   /* what it says */
    pthread_t reader;
    bool reading;
    int port;
};

/* Starts 'pawl serve' for a store, on a port of its own. Complains when it does not come up. */
enum cli_exit served_start(struct bench *bench, char *store, struct served *ret);

/* Ends it, and waits until it has ended. */
void served_stop(struct served *served);

/* Seconds of a process on its processors; of the server at a URL, as its /metrics say. Less than 0:
 * they cannot be known. */
double served_cpu(pid_t pid);
double served_remote_cpu(const char *url);

/* ---- bench_site.c: where the jobs are ---- */

struct site {
    struct bench *bench;
    char url[BENCH_URL_MAX];       /* for pawl_open */
    char path[BENCH_URL_MAX];      /* of the SQLite file; "": none here */
    char directory[BENCH_URL_MAX]; /* that was made for it; "": none */
    const char *queue;
    bool is_ours;   /* the whole store: nothing has to be cleaned up in it */
    bool is_server; /* clients have a handle each */
    struct pawl *pawl;
    struct served served;
    long long bytes;             /* on disk when it was opened */
    long long jobs;              /* in the queue then */
    long long background_queues; /* how many numbers such queues may have */
};

/* How many jobs of the queue there are. */
struct tally {
    long long all;
    long long completed;
    long long depth; /* that wait to be taken */
};

/* A name for the queue that nobody else has. */
void bench_name_queue(struct bench *bench);

enum cli_exit site_open(struct bench *bench, struct site *ret);

/* Closes it, after what is left in the queue was cancelled, unless it is to be kept. `ret_bytes` is
 * by how much it has grown on disk for each new job, less than 0: not known; may be NULL. */
enum cli_exit site_close(struct site *site, double *ret_bytes);

/* A handle for one client; NULL: *error says why not. Given back with site_drop_handle. */
struct pawl *site_handle(struct site *site, struct pawl_error *error);
void site_drop_handle(struct site *site, struct pawl *pawl);

/* Waits until everything is in the store's tables: what is left to do then is part of a run. */
void site_settle(struct site *site);

enum cli_exit site_tally(struct site *site, struct tally *ret);

/* Events in the history of a job, on average over some of the newest `jobs` of the queue that have
 * `status`. 0 if missing. */
enum cli_exit site_events(struct site *site, const char *status, long long jobs, double *ret);

/* Seconds of the server on its processors; less than 0: none, or nobody knows. */
double site_server_cpu(const struct site *site);

/* ---- bench_run.c: many clients at once ---- */

struct client;

/* What some clients of a run do: get ready, then work together with all others, then tidy up. Only
 * the second is measured; the others may be NULL. */
struct role {
    void (*prepare)(struct client *client);
    void (*work)(struct client *client);
    void (*finish)(struct client *client);
    long long count; /* of clients */
    const void *arg;
    struct measure *apart; /* latencies of its clients go here; NULL: to the run's measure */
};

struct run {
    struct site *site;
    const char *what; /* for the progress bar */
    long long jobs;   /* for producers to submit, or whatever is handed out */
    long long goal;   /* units; the run is over when so many are done */
    long long batch;  /* in one call */
    long long window; /* jobs that are submitted and not completed, at most; 0: any number */
    long long limit_ms;

    /* What follows is for bench_run.c and the clients. */
    atomic_llong handed;    /* of `jobs` */
    atomic_llong submitted; /* jobs */
    atomic_llong completed; /* jobs */
    atomic_llong finished;  /* units */
    atomic_llong ready;     /* clients that have prepared */
    atomic_llong gone;      /* clients that have ended */
    atomic_bool stop;
    sem_t room; /* in the window */
    long long start_ns;
    long long settling_ns; /* from the end of all clients until all rows are written */
    long long deadline_ns;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t begin;
    bool begun;
    struct pawl_error error; /* the first */
};

/* Runs it. CLI_FAILED, and says why: a call failed, or the store has other counts than we have. */
enum cli_exit run_do(struct run *run, const struct role *roles, size_t role_count,
                     struct measure *ret);

/* How many of `jobs` the caller is to do next, at most `most`; 0: none, the run is over. */
long long run_take(struct run *run, long long most);

/* Waits until there is room for so many more jobs in the window; false: the run is over. Anyone who
 * completes jobs makes room for as many. */
bool run_enter(struct run *run, long long count);
void run_leave(struct run *run, long long count);

/* Whether nothing more is to be done: all is done, time is over, or something went wrong. */
bool run_is_over(const struct run *run);

/* ---- bench_client.c: one thread, and what it says to the store ---- */

/* Points into an answer: a string with its quotes. */
struct token {
    const char *at;
    size_t len;
};

struct client {
    struct run *run;
    const struct role *role;
    struct pawl *pawl;
    long long number;
    pthread_t thread;
    struct draft submit; /* a request for `submit_count` jobs */
    long long submit_count;
    struct draft claim; /* a request for `claim_max` jobs that waits so long */
    long long claim_max;
    long long claim_wait_ms;
    struct draft request; /* all others */
    char *answer;         /* of the last claim; the tokens point into it */
    struct token *tokens; /* as many as a call can bring */
    long long token_count;
    long long last_ns; /* when it has last done something that counts */
    double *latencies; /* ms */
    size_t latency_count;
    size_t latency_cap;
    long long share; /* hundredths of lives whose effects are still due */
};

bool client_init(struct client *client, struct run *run, const struct role *role);
void client_release(struct client *client);

/* Each says whether it went well; if not, the run is told and ends. Their batches are of the size
 * of the run; one job goes through the verbs for one. */

/* Submits `count` jobs like all others; one job whose payload tells when it was made. */
bool client_submit(struct client *client, long long count);
bool client_submit_now(struct client *client);

/* Submits jobs from their text. */
bool client_submit_text(struct client *client, const char *request, long long count);

/* Makes any call. The response is valid until the next one. */
bool client_ask(struct client *client, cli_call call, const char *request);

/* Collects the values of all fields with this name, "\"token\"", in the response as the client's
 * tokens. */
bool client_find(struct client *client, const char *name);

/* Claims at most `most` jobs, or steps, and waits for them. The tokens are the client's until the
 * next claim. */
bool client_claim(struct client *client, long long most, long long wait_ms);
bool client_claim_steps(struct client *client, long long most, long long wait_ms);

/* Records one latency. */
bool client_note_latency(struct client *client, long long from_ns, long long to_ns);

/* How old the claimed jobs are, each of which client_submit_now has made. */
bool client_note_latencies(struct client *client, long long now_ns);

/* What the holder of a lease says. */
enum bench_op {
    BENCH_HEARTBEAT,
    BENCH_COMPLETE,
    BENCH_FINISH, /* the same, which is not counted */
    BENCH_EFFECT_BEGIN,
    BENCH_EFFECT_COMMIT,
    BENCH_WAIT,
    BENCH_GET, /* what anybody may ask, of an id */
};

/* Says the same for all tokens; `more` is what the request has besides the token, after a comma. */
bool client_say(struct client *client, enum bench_op op, const char *more);
bool client_say_one(struct client *client, enum bench_op op, const struct token *token,
                    const char *more);

/* Completes all tokens. Jobs that have completed by that are counted, also by their last step. */
bool client_complete(struct client *client);

/* So many units are done. */
void client_did(struct client *client, long long count);

void client_fail(struct client *client, const struct pawl_error *error);

/* ---- bench_mix.c: what is in the way ---- */

/* Makes the run's jobs, none of which a worker may have. */
void mix_produce(struct client *client);

/* Pauses the queue that some of them are in, or lets it go on. */
enum cli_exit mix_pause(struct site *site, bool pause);

/* ---- bench_mixed.c: background load ---- */

enum { BACKGROUND_ROLES = 5 };

/* One role for each operation whose rate is not 0; returns how many. */
size_t background_roles(const struct bench *bench, struct role ret[BACKGROUND_ROLES]);

/* Labels the row of such a role: "200 heartbeats/s", and what its latency measures. */
void background_describe(const struct bench *bench, const struct role *role, struct row *row);

/* ---- bench_polls.c: others who wait ---- */

struct polls;

/* So many claims that wait for jobs of another queue, each on a thread, until polls_stop. Ends all
 * waits on the site's own handle, too, so that the site is good for nothing but closing then.
 * polls_stop(NULL) does nothing. */
enum cli_exit polls_start(struct site *site, long long count, struct polls **ret);
void polls_stop(struct polls *polls);

/* ---- bench_scenarios.c ---- */

/* All scenarios, for the verb's description, and each by name. */
#define BENCH_SCENARIOS "submit|drain|work|latency|backlog|effects|heartbeats|plans|mixed"

enum cli_exit scenario_run(struct bench *bench, const char *name);

/* ---- bench_report.c ---- */

/* Prints all rows, for people or as JSON. */
enum cli_exit report_print(const struct bench *bench);

#endif
