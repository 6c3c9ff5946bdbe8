#include "store/postgres/connection.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"

enum {
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 2000,
    ROLLBACK_MS = 5000, /* longer, and opening a new connection is faster */
    REASON_MAX = 300,
};

/* ---- errors ---- */

const char *connection_where(const struct connection *connection, char text[CONNECTION_WHERE_MAX])
{
    const char *host = connection->pg == NULL ? NULL : PQhost(connection->pg);
    const char *port = connection->pg == NULL ? NULL : PQport(connection->pg);
    const char *name = connection->pg == NULL ? NULL : PQdb(connection->pg);
    (void)snprintf(text, CONNECTION_WHERE_MAX, "%s:%s/%s",
                   host == NULL || *host == '\0' ? "localhost" : host,
                   port == NULL || *port == '\0' ? "5432" : port, name == NULL ? "" : name);
    return text;
}

/* The first line of a message, cut to fit. */
static const char *reason(const char *message, char text[REASON_MAX])
{
    size_t len = 0;
    while (message != NULL && message[len] != '\0' && message[len] != '\n' && len < REASON_MAX - 1)
        len++;
    memcpy(text, message == NULL ? "" : message, len);
    text[len] = '\0';
    return text;
}

/* The last line that is no hint: libpq tells of each address that it tried, the last one last. */
static const char *last_reason(const char *message, char text[REASON_MAX])
{
    const char *found = message;
    for (const char *at = strchr(message, '\n'); at != NULL; at = strchr(at + 1, '\n'))
        if (at[1] != '\0' && at[1] != '\t' && at[1] != '\n')
            found = at + 1;
    return reason(found, text);
}

static enum error_code lost(struct connection *connection, struct err *err)
{
    char at[CONNECTION_WHERE_MAX];
    char why[REASON_MAX];
    connection->broken = true;
    return err_set(err, ERR_UNAVAILABLE, "the connection to PostgreSQL at %s was lost: %s",
                   connection_where(connection, at), reason(PQerrorMessage(connection->pg), why));
}

static enum error_code timed_out(struct connection *connection, struct err *err)
{
    char at[CONNECTION_WHERE_MAX];
    connection->broken = true;
    return err_set(err, ERR_UNAVAILABLE, "PostgreSQL at %s did not respond within %lld ms",
                   connection_where(connection, at), (long long)connection->timeout_ms);
}

/* What a statement's failure means. */
static enum error_code statement_failed(struct connection *connection, const PGresult *result,
                                        struct err *err)
{
    char at[CONNECTION_WHERE_MAX];
    char why[REASON_MAX];
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    const char *column = PQresultErrorField(result, PG_DIAG_COLUMN_NAME);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    column = column == NULL ? "" : column;
    state = state == NULL ? "" : state;
    constraint = constraint == NULL ? "" : constraint;
    if ((strcmp(state, "23505") == 0 && (strcmp(constraint, "job_rows_pkey") == 0 ||
                                         strcmp(constraint, "state_rows_pkey") == 0)) ||
        strcmp(constraint, "claim_rows_version") == 0 ||
        (strcmp(state, "23502") == 0 && strcmp(column, "version") == 0))
        return err_set(err, ERR_VERSION_MISMATCH, "the job already has an event with this version");
    connection->conflicted = connection->conflicted || strcmp(state, "23505") == 0;
    /* No such statement, or not as it was when it was prepared. */
    connection->is_forgetful = connection->is_forgetful || strcmp(state, "26000") == 0;
    connection->is_stale =
        connection->is_stale || connection->is_forgetful || strcmp(state, "0A000") == 0;
    if (strcmp(state, "40P01") == 0 || strcmp(state, "40001") == 0 || strcmp(state, "23505") == 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "the batch lost a race in PostgreSQL and must run again: %s",
                       reason(message, why));
    /* Data that cannot be stored will not be stored the next time either: the caller is to
     * blame, and nobody else. */
    if (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0 ||
        strncmp(state, "54", 2) == 0)
        return err_set(err, ERR_BAD_REQUEST, "PostgreSQL cannot store this: %s (%s)",
                       reason(message, why), state);
    return err_set(err, ERR_UNAVAILABLE, "PostgreSQL at %s rejected a statement: %s (%s)",
                   connection_where(connection, at),
                   reason(message == NULL ? PQresultErrorMessage(result) : message, why), state);
}

/* ---- waiting ---- */

/* Waits for the socket. False when the deadline has passed. */
static bool wait_for(int socket, short events, int64_t deadline)
{
    for (;;) {
        int64_t left = deadline - clock_monotonic_ms();
        struct pollfd entry = {.fd = socket, .events = events};
        int ready = poll(&entry, 1, left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left);
        if (ready > 0)
            return true;
        if (ready == 0 && left <= 0)
            return false;
        if (ready < 0 && errno != EINTR && errno != EAGAIN)
            return true; /* libpq will see what is wrong */
    }
}

/* Sends what is queued and reads until a result is there. */
static enum error_code wait_for_result(struct connection *connection, int64_t deadline,
                                       struct err *err)
{
    for (;;) {
        int unsent = PQflush(connection->pg);
        if (unsent < 0)
            return lost(connection, err);
        if (!PQisBusy(connection->pg))
            return ERR_OK;
        short events = (short)(unsent > 0 ? POLLIN | POLLOUT : POLLIN);
        if (!wait_for(PQsocket(connection->pg), events, deadline))
            return timed_out(connection, err);
        if (!PQconsumeInput(connection->pg) && PQisBusy(connection->pg))
            return lost(connection, err);
    }
}

enum error_code connection_listen(struct connection *connection, int other_fd, int64_t deadline,
                                  struct err *err)
{
    int64_t left = deadline - clock_monotonic_ms();
    struct pollfd entries[] = {
        {.fd = PQsocket(connection->pg), .events = POLLIN},
        {.fd = other_fd, .events = POLLIN},
    };
    (void)poll(entries, other_fd < 0 ? 1 : 2, left <= 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left);
    if (entries[0].revents != 0 && !PQconsumeInput(connection->pg))
        return lost(connection, err);
    return ERR_OK;
}

/* ---- opening and closing ---- */

/* Nothing is printed. A warning at a COMMIT may say that nobody waited for a standby. */
static void take_notice(void *arg, const PGresult *result)
{
    struct connection *connection = arg;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity != NULL && strcmp(severity, "WARNING") == 0)
        connection->warned = true;
}

/* One attempt, with `host` instead of those that the URL names unless it is NULL. `ret_late`: it
 * failed, and only because time is up. */
static enum error_code connect_once(struct connection *connection, const char *url,
                                    const struct connection_host *host, int64_t deadline,
                                    bool *ret_late, struct err *err)
{
    const char *keywords[] = {
        "dbname", "fallback_application_name", "client_encoding", "host", "hostaddr", "port", NULL};
    const char *values[] = {url,
                            "pawl",
                            "UTF8",
                            host == NULL ? NULL : host->name,
                            host == NULL ? NULL : host->address,
                            host == NULL ? NULL : host->port,
                            NULL};
    *ret_late = false;
    connection->pg = PQconnectStartParams(keywords, values, 1);
    if (connection->pg == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (PQstatus(connection->pg) != CONNECTION_BAD) {
        if (status == PGRES_POLLING_READING || status == PGRES_POLLING_WRITING) {
            short events = status == PGRES_POLLING_READING ? POLLIN : POLLOUT;
            if (!wait_for(PQsocket(connection->pg), events, deadline)) {
                *ret_late = true;
                return timed_out(connection, err);
            }
        }
        status = PQconnectPoll(connection->pg);
        if (status == PGRES_POLLING_OK || status == PGRES_POLLING_FAILED)
            break;
    }
    if (PQstatus(connection->pg) != CONNECTION_OK) {
        char at[CONNECTION_WHERE_MAX];
        char why[REASON_MAX];
        return err_set(err, ERR_UNAVAILABLE, "cannot reach PostgreSQL at %s: %s",
                       connection_where(connection, at),
                       last_reason(PQerrorMessage(connection->pg), why));
    }
    (void)PQsetNoticeReceiver(connection->pg, take_notice, connection);
    if (PQsetnonblocking(connection->pg, 1) != 0 || !PQenterPipelineMode(connection->pg))
        return lost(connection, err);
    return ERR_OK;
}

static bool has_any(const char *text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(text, parts[i]) != NULL)
            return true;
    return false;
}

/* Whether the server, or libpq before it has even asked one, gave a reason that will not go away by
 * waiting. */
static bool is_final(const struct connection *connection)
{
    const char *text = connection->pg == NULL ? "" : PQerrorMessage(connection->pg);
    static const char *const settings[] = {"invalid ",
                                           "could not match ",
                                           "does not support SSL",
                                           "certificate file",
                                           "private key file",
                                           "certificate verify failed",
                                           "does not match host name"};
    static const char *const passing[] = {"starting up",
                                          "shutting down",
                                          "recovery mode",
                                          "too many clients",
                                          "remaining connection slots",
                                          "terminating connection",
                                          "no more connections",
                                          "server_login_retry",
                                          "query_wait_timeout",
                                          "cannot connect to server",
                                          "not yet accepting",
                                          "server conn crashed"};
    if (connection->pg != NULL && PQconnectionNeedsPassword(connection->pg))
        return true;
    if (strstr(text, "FATAL:") == NULL)
        return has_any(text, settings, sizeof settings / sizeof settings[0]);
    return !has_any(text, passing, sizeof passing / sizeof passing[0]);
}

void connection_pause(int attempt, int64_t deadline)
{
    uint32_t random;
    random_fill(&random, sizeof random);
    int64_t longest = (int64_t)BACKOFF_MS_MIN << (attempt < 8 ? attempt : 8);
    if (longest > BACKOFF_MS_MAX)
        longest = BACKOFF_MS_MAX;
    int64_t pause = longest / 2 + (int64_t)(random % (uint32_t)(longest / 2 + 1));
    int64_t left = deadline - clock_monotonic_ms();
    clock_pause(pause < left ? pause : left);
}

enum error_code connection_open(struct connection *connection, const char *url, int64_t deadline,
                                struct err *err)
{
    struct err why = {.code = ERR_OK};
    for (int attempt = 0;; attempt++) {
        struct err last;
        bool is_late;
        connection_close(connection);
        enum error_code code = connect_once(connection, url, NULL, deadline, &is_late, &last);
        if (code == ERR_OK) {
            random_fill(&connection->session, sizeof connection->session);
            return ERR_OK;
        }
        bool again = code == ERR_UNAVAILABLE && !is_late && !is_final(connection);
        connection_close(connection);
        /* That time was up in the end tells less than what was wrong before. */
        if (why.code == ERR_OK || !is_late)
            why = last;
        if (!again || clock_monotonic_ms() >= deadline)
            return err_set(err, why.code, "%s", why.detail);
        connection_pause(attempt, deadline);
    }
}

enum error_code connection_open_at(struct connection *connection, const char *url,
                                   const struct connection_host *host, int64_t deadline,
                                   struct err *err)
{
    bool is_late;
    connection_close(connection);
    enum error_code code = connect_once(connection, url, host, deadline, &is_late, err);
    if (code == ERR_OK)
        random_fill(&connection->session, sizeof connection->session);
    else
        connection_close(connection);
    return code;
}

void connection_close(struct connection *connection)
{
    if (connection->pg != NULL)
        PQfinish(connection->pg);
    prepared_release(&connection->prepared);
    *connection = (struct connection){.timeout_ms = connection->timeout_ms};
}

bool connection_alive(struct connection *connection)
{
    if (connection->pg == NULL || connection->broken)
        return false;
    struct pollfd entry = {.fd = PQsocket(connection->pg), .events = POLLIN};
    if (poll(&entry, 1, 0) <= 0)
        return PQstatus(connection->pg) == CONNECTION_OK;
    /* An idle server says something only when it leaves, or a parameter changed. */
    return PQconsumeInput(connection->pg) && PQstatus(connection->pg) == CONNECTION_OK &&
           (entry.revents & (POLLERR | POLLHUP)) == 0;
}

/* ---- statements ---- */

enum error_code connection_send(struct connection *connection, const char *sql,
                                struct params *params, struct err *err)
{
    assert(connection->pg != NULL);
    if (connection->broken)
        return err_set(err, ERR_UNAVAILABLE, "the connection to PostgreSQL was lost");
    if (params != NULL && params->failed)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    const char *name = NULL;
    int sent;
    if (params != NULL && connection->is_naming)
        name = prepared_find(&connection->prepared, sql, params);
    if (params == NULL)
        sent = PQsendQueryParams(connection->pg, sql, 0, NULL, NULL, NULL, NULL, 1);
    else if (name != NULL)
        sent = PQsendQueryPrepared(connection->pg, name, params->count, params->values,
                                   params->lengths, params->formats, 1);
    else
        sent = PQsendQueryParams(connection->pg, sql, params->count, params->types, params->values,
                                 params->lengths, params->formats, 1);
    if (!sent)
        return lost(connection, err);
    connection->unsent = true;
    return ERR_OK;
}

enum error_code connection_send_quiet(struct connection *connection, const char *sql,
                                      struct params *params, struct err *err)
{
    enum error_code code = connection_send(connection, sql, params, err);
    if (code == ERR_OK)
        connection->quiet++;
    return code;
}

enum error_code connection_flush(struct connection *connection, struct err *err)
{
    if (!PQsendFlushRequest(connection->pg) || PQflush(connection->pg) < 0)
        return lost(connection, err);
    connection->flights++;
    connection->unsent = false;
    return ERR_OK;
}

/* The next statement's result, whatever it is; NULL at a sync. */
static enum error_code next_result(struct connection *connection, int64_t deadline, PGresult **ret,
                                   struct err *err)
{
    for (;;) {
        enum error_code code = wait_for_result(connection, deadline, err);
        if (code != ERR_OK)
            return code;
        PGresult *result = PQgetResult(connection->pg);
        if (result == NULL && PQstatus(connection->pg) != CONNECTION_OK)
            return lost(connection, err);
        if (result == NULL)
            continue; /* the end of a statement's results */
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            result = NULL;
        }
        *ret = result;
        return ERR_OK;
    }
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

static enum error_code checked_result(struct connection *connection, int64_t deadline,
                                      PGresult **ret, struct err *err)
{
    PGresult *result = NULL;
    enum error_code code = next_result(connection, deadline, &result, err);
    if (code != ERR_OK)
        return code;
    if (result == NULL) {
        connection->broken = true;
        return err_set(err, ERR_UNAVAILABLE, "unexpected PostgreSQL response");
    }
    if (!is_good(result)) {
        code = statement_failed(connection, result, err);
        PQclear(result);
        /* The last words of a server that hangs up look like a statement's failure. */
        if (PQstatus(connection->pg) != CONNECTION_OK)
            connection->broken = true;
        return code;
    }
    *ret = result;
    return ERR_OK;
}

enum error_code connection_result(struct connection *connection, PGresult **ret, struct err *err)
{
    int64_t deadline = clock_monotonic_ms() + connection->timeout_ms;
    while (connection->quiet > 0) {
        PGresult *result = NULL;
        enum error_code code = checked_result(connection, deadline, &result, err);
        if (code != ERR_OK)
            return code;
        PQclear(result);
        connection->quiet--;
    }
    return checked_result(connection, deadline, ret, err);
}

enum error_code connection_ask(struct connection *connection, const char *sql,
                               struct params *params, PGresult **ret, struct err *err)
{
    enum error_code code = connection_send(connection, sql, params, err);
    if (code == ERR_OK)
        code = connection_flush(connection, err);
    return code == ERR_OK ? connection_result(connection, ret, err) : code;
}

/* Reads up to the next sync and returns the first failure. */
static enum error_code drain(struct connection *connection, int64_t deadline, struct err *err)
{
    enum error_code first = ERR_OK;
    connection->quiet = 0;
    for (;;) {
        PGresult *result = NULL;
        struct err ignored;
        enum error_code code =
            next_result(connection, deadline, &result, first == ERR_OK ? err : &ignored);
        if (code != ERR_OK)
            return first == ERR_OK ? code : first;
        if (result == NULL)
            return first;
        if (first == ERR_OK && !is_good(result) && PQresultStatus(result) != PGRES_PIPELINE_ABORTED)
            first = statement_failed(connection, result, err);
        if (strcmp(PQcmdStatus(result), "ROLLBACK") == 0)
            connection->rolled_back = true;
        PQclear(result);
    }
}

enum error_code connection_sync(struct connection *connection, struct err *err)
{
    if (!PQpipelineSync(connection->pg))
        return lost(connection, err);
    connection->flights++;
    connection->unsent = false;
    connection->rolled_back = false;
    connection->conflicted = false;
    return drain(connection, clock_monotonic_ms() + connection->timeout_ms, err);
}

/* Whether the server is at the other end, and no pooler, which makes up the numbers of backends. */
static enum error_code is_direct(struct connection *connection, bool *ret, struct err *err)
{
    PGresult *result = NULL;
    long pid = 0;
    enum error_code code =
        connection_ask(connection, "SELECT pg_backend_pid()::text", NULL, &result, err);
    if (code == ERR_OK && PQntuples(result) == 1)
        pid = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    if (code == ERR_OK)
        code = connection_sync(connection, err);
    *ret = code == ERR_OK && pid == PQbackendPID(connection->pg);
    return code;
}

enum error_code connection_prepare(struct connection *connection, struct err *err)
{
    struct prepared *prepared = &connection->prepared;
    if (connection->broken || prepared->is_refused || prepared->ready == prepared->count)
        return ERR_OK;
    bool direct = true;
    enum error_code code = prepared->ready == 0 ? is_direct(connection, &direct, err) : ERR_OK;
    if (code == ERR_OK && direct) {
        if (!prepared_send(prepared, connection->pg))
            return lost(connection, err);
        code = connection_sync(connection, err);
    }
    prepared->is_refused = code != ERR_OK || !direct;
    if (code == ERR_OK && direct)
        prepared->ready = prepared->count;
    return connection->broken ? code : ERR_OK;
}

void connection_rollback(struct connection *connection)
{
    struct err ignored;
    int64_t deadline = clock_monotonic_ms() + ROLLBACK_MS;
    if (connection->pg == NULL || connection->broken)
        return;
    /* After a failure the server listens again only behind a sync. */
    if (!PQpipelineSync(connection->pg) ||
        !PQsendQueryParams(connection->pg, "ROLLBACK", 0, NULL, NULL, NULL, NULL, 1) ||
        !PQpipelineSync(connection->pg)) {
        connection->broken = true;
        return;
    }
    (void)drain(connection, deadline, &ignored);
    if (!connection->broken && drain(connection, deadline, &ignored) != ERR_OK)
        connection->broken = true;
    connection->unsent = false;
}

enum error_code connection_script(struct connection *connection, const char *sql, int64_t deadline,
                                  struct err *err)
{
    if (!PQexitPipelineMode(connection->pg) || !PQsendQuery(connection->pg, sql))
        return lost(connection, err);
    enum error_code first = ERR_OK;
    for (;;) {
        enum error_code code = wait_for_result(connection, deadline, err);
        if (code != ERR_OK)
            return code;
        PGresult *result = PQgetResult(connection->pg);
        if (result == NULL)
            break;
        if (first == ERR_OK && !is_good(result))
            first = statement_failed(connection, result, err);
        PQclear(result);
    }
    if (PQstatus(connection->pg) != CONNECTION_OK || !PQenterPipelineMode(connection->pg))
        return lost(connection, err);
    return first;
}
