/* Behind PgBouncer in transaction mode: every transaction may run on another backend, and nothing
 * may be kept on one. Skipped where PgBouncer is not installed. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_ops.h"
#include "store/postgres_case.h"

static const char program[] = "/usr/sbin/pgbouncer";

struct pooled {
    struct postgres_case *c;
    pid_t pid;
    uint16_t port;
    char directory[64];
};

static struct pooled pooled;

static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static void write_configuration(struct postgres_case *c)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/pgbouncer.ini", pooled.directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "[databases]\n* = host=127.0.0.1 port=%s user=postgres\n[pgbouncer]\n"
                  "listen_addr = 127.0.0.1\nlisten_port = %u\nunix_socket_dir =\n"
                  "auth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n"
                  "max_client_conn = 200\nlogfile = %s/log\n",
                  sql(c, "SELECT current_setting('port')"), pooled.port, pooled.directory);
    assert_int_equal(fclose(file), 0);
}

static void start_pooler(void)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/pgbouncer.ini", pooled.directory);
    const struct passwd *user = getpwnam("nobody");
    assert_non_null(user);
    /* It does not run as root, and its log must be writable for whoever it runs as. */
    if (geteuid() == 0)
        assert_int_equal(chown(pooled.directory, user->pw_uid, user->pw_gid), 0);
    assert_int_equal(chmod(path, 0644), 0);
    pooled.pid = fork();
    assert_true(pooled.pid >= 0);
    if (pooled.pid == 0) {
        if (geteuid() == 0 && (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
            _exit(1);
        (void)execl(program, program, "-q", path, (char *)NULL);
        _exit(1);
    }
}

static bool pooler_answers(const char *url)
{
    for (int i = 0; i < 100; i++) {
        struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
        PGconn *connection = PQconnectdb(url);
        bool there = PQstatus(connection) == CONNECTION_OK;
        PQfinish(connection);
        if (there)
            return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static int setup_pooled(void **state)
{
    if (access(program, X_OK) != 0) {
        *state = NULL;
        return 0;
    }
    if (case_setup_bare(state) != 0)
        return -1;
    struct postgres_case *c = *state;
    char url[256];
    pooled = (struct pooled){.c = c, .port = free_port()};
    (void)snprintf(pooled.directory, sizeof pooled.directory, "/tmp/pawl-pooler-XXXXXX");
    assert_non_null(mkdtemp(pooled.directory));
    write_configuration(c);
    start_pooler();
    (void)snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%u/%.100s", pooled.port,
                   sql(c, "SELECT current_database()"));
    if (!pooler_answers(url))
        fail_msg("%s does not answer on port %u", program, pooled.port);
    case_open(c, url);
    (void)snprintf(c->url, sizeof c->url, "%s", url);
    return 0;
}

static int teardown_pooled(void **state)
{
    if (*state == NULL)
        return 0;
    struct postgres_case *c = *state;
    if (c->store != NULL) {
        batcher_release(&c->batcher);
        store_close(c->store);
        c->store = NULL;
    }
    (void)kill(pooled.pid, SIGKILL);
    while (waitpid(pooled.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    static const char *const files[] = {"pgbouncer.ini", "log"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", pooled.directory, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(pooled.directory);
    return case_teardown(state);
}

static struct postgres_case *pooled_case(void **state)
{
    if (*state == NULL)
        skip();
    return *state;
}

static void jobs_live_and_end_behind_a_pooler(void **state)
{
    struct postgres_case *c = pooled_case(state);
    enum { JOBS = 50 };
    for (int i = 0; i < JOBS; i++)
        submit_job(c);
    assert_int_equal(claim_jobs(c, 20), 20);
    assert_int_equal(claim_jobs(c, 100), JOBS - 20);
    assert_int_equal(claim_jobs(c, 100), 0);
    struct store_due *due;
    uint32_t count;
    int64_t now;
    int64_t next;
    assert_int_equal(store_due(c->store, 10, &c->arena, &due, &count, &now, &next, &c->err),
                     ERR_OK);
    assert_int_equal(count, 0);
    assert_true(next > now);
}

/* ---- many at once, more than the pooler has backends ---- */

enum { SUBMITTERS = 8, EACH = 20 };

struct submitter {
    struct store *store;
    pthread_t thread;
    int number;
    int failed;
};

static void *submit_many(void *arg)
{
    struct submitter *submitter = arg;
    struct batcher batcher;
    struct arena arena;
    batcher_init(&batcher, submitter->store, NULL, NULL);
    arena_init(&arena);
    for (int i = 0; i < EACH; i++) {
        struct spec spec = spec_defaults(NULL);
        struct err err;
        enum store_outcome outcome;
        char kind[32];
        (void)snprintf(kind, sizeof kind, "kind-%d", (submitter->number + i) % 5);
        spec.kind = str_from(kind);
        struct op op = {
            .type = OP_COMMAND,
            .job = {{9, 9, 9, 9, 9, 9, 0x70, 9,
                     0x80, [14] = (uint8_t)submitter->number, [15] = (uint8_t)i}},
            .command = {.type = COMMAND_SUBMIT, .actor = STR("me"), .submit = {.spec = &spec}},
        };
        if (run_ops(&batcher, &op, 1, &arena, &outcome, &err) != ERR_OK || op.code != ERR_OK)
            submitter->failed++;
        arena_clear(&arena);
    }
    batcher_release(&batcher);
    arena_release(&arena);
    return NULL;
}

static void more_connections_than_backends_get_along(void **state)
{
    struct postgres_case *c = pooled_case(state);
    struct store_options options = case_options();
    struct submitter submitters[SUBMITTERS];
    struct store *store;
    options.connections = SUBMITTERS;
    if (store_open(str_from(c->url), &options, &store, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i] = (struct submitter){.store = store, .number = i};
        assert_int_equal(pthread_create(&submitters[i].thread, NULL, submit_many, &submitters[i]),
                         0);
    }
    for (int i = 0; i < SUBMITTERS; i++) {
        assert_int_equal(pthread_join(submitters[i].thread, NULL), 0);
        assert_int_equal(submitters[i].failed, 0);
    }
    store_close(store);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.jobs"), SUBMITTERS * EACH);
    assert_int_equal(claim_jobs(c, 1000), SUBMITTERS * EACH);
}

static void nothing_is_left_on_the_backends(void **state)
{
    struct postgres_case *c = pooled_case(state);
    for (int i = 0; i < 5; i++)
        submit_job(c);
    assert_int_equal(claim_jobs(c, 1), 1);
    assert_int_equal(
        sql_int(c, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database ="
                   " (SELECT oid FROM pg_database WHERE datname = current_database())"),
        0);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pg_stat_activity WHERE datname ="
                                " current_database() AND state LIKE 'idle in%'"),
                     0);
    /* Through the pooler, on whichever backend: settings are as ever, nobody listens, and no
     * statement has a name. */
    PGconn *through = PQconnectdb(c->url);
    for (int i = 0; i < 3; i++) {
        PGresult *result = PQexec(through, "SELECT current_setting('enable_seqscan') ||"
                                           " (SELECT count(*) FROM pg_listening_channels()) ||"
                                           " (SELECT count(*) FROM pg_prepared_statements)");
        assert_string_equal(PQgetvalue(result, 0, 0), "on00");
        PQclear(result);
    }
    PQfinish(through);
}

static void news_come_without_notifications(void **state)
{
    struct postgres_case *c = pooled_case(state);
    struct store_options options = case_options();
    struct store *other;
    uint64_t seen = 0;
    uint64_t last;
    if (store_open(str_from(c->url), &options, &other, &c->err) != ERR_OK)
        fail_msg("%s", c->err.detail);
    do {
        last = seen;
        assert_int_equal(store_watch(other, last, 1000, &seen, &c->err), ERR_OK);
    } while (seen != last);
    submit_job(c);
    assert_int_equal(store_watch(other, seen, 20 * 1000, &last, &c->err), ERR_OK);
    assert_true(last != seen);
    store_close(other);
}

#define POOLED(test) cmocka_unit_test_setup_teardown(test, setup_pooled, teardown_pooled)

int main(void)
{
    const struct CMUnitTest tests[] = {
        POOLED(jobs_live_and_end_behind_a_pooler),
        POOLED(more_connections_than_backends_get_along),
        POOLED(nothing_is_left_on_the_backends),
        POOLED(news_come_without_notifications),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
