/* Opening a connection that leads where it should; and, where the URL names several hosts, looking
 * at all of them. */
#include <signal.h>

#include "store/postgres/hosts.h"
#include "store/postgres/postgres.h"

enum {
    HOST_MS = 2000,       /* for one host to answer */
    PATROL_MS = 5 * 1000, /* between two looks at all hosts */
};

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- all hosts ---- */

/* What was seen at each host. */
struct survey {
    struct origin at[HOSTS_MAX];
    bool answers[HOSTS_MAX];
};

static bool open_host(struct postgres *store, struct connection *connection, uint32_t host,
                      int64_t deadline)
{
    struct err ignored;
    int64_t until = earlier(deadline, clock_monotonic_ms() + HOST_MS);
    return connection_open_at(connection, store->url, &store->hosts.at[host], until, &ignored) ==
           ERR_OK;
}

static void look_at_hosts(struct postgres *store, int64_t deadline, struct survey *ret)
{
    struct err ignored;
    *ret = (struct survey){0};
    for (uint32_t i = 0; i < store->hosts.count; i++) {
        struct connection connection = {.timeout_ms = HOST_MS};
        ret->answers[i] = open_host(store, &connection, i, deadline) &&
                          origin_look(&connection, &ret->at[i], &ignored) == ERR_OK;
        connection_close(&connection);
    }
}

static bool is_later(const struct origin *a, const struct origin *b)
{
    return a->system != 0 && a->system == b->system && a->timeline > b->timeline;
}

/* The host with the latest timeline of those that may be used; hosts.count: none. */
static uint32_t best_host(struct postgres *store, const struct survey *survey)
{
    uint32_t best = store->hosts.count;
    (void)pthread_mutex_lock(&store->mutex);
    struct origin known = store->origin;
    (void)pthread_mutex_unlock(&store->mutex);
    for (uint32_t i = 0; i < store->hosts.count; i++) {
        const struct origin *seen = &survey->at[i];
        const char *why = NULL;
        if (!survey->answers[i] || seen->is_standby || seen->timeline == 0)
            continue;
        /* A later timeline may have no row of its own yet. */
        bool usable = is_later(seen, &known) || known.number == 0 ||
                      origin_judge(&known, seen, &why) != ORIGIN_REFUSED;
        if (usable && (best == store->hosts.count || is_later(seen, &survey->at[best])))
            best = i;
    }
    return best;
}

/* Leaves a note at every primary of an earlier timeline: servers that are still there, or come
 * there first, cannot know otherwise. */
static void note_hosts(struct postgres *store, const struct survey *survey, int64_t deadline)
{
    struct err ignored;
    (void)pthread_mutex_lock(&store->mutex);
    struct origin known = store->origin;
    (void)pthread_mutex_unlock(&store->mutex);
    for (uint32_t i = 0; i < store->hosts.count; i++) {
        const struct origin *seen = &survey->at[i];
        struct connection connection = {.timeout_ms = HOST_MS};
        if (!survey->answers[i] || seen->is_standby || seen->number == 0 || seen->timeline == 0 ||
            !is_later(&known, seen) || seen->superseded_by >= known.timeline)
            continue;
        if (open_host(store, &connection, i, deadline))
            (void)origin_note(&connection, known.timeline, &ignored);
        connection_close(&connection);
    }
}

/* ---- opening ---- */

/* Opens a connection to the best of all hosts, if there is one. */
static enum error_code explore(struct postgres *store, struct connection *connection,
                               int64_t deadline, struct err *err)
{
    struct survey survey;
    enum origin_verdict verdict;
    look_at_hosts(store, deadline, &survey);
    uint32_t best = best_host(store, &survey);
    if (best == store->hosts.count)
        return err_set(err, ERR_UNAVAILABLE, "none of the %u hosts is a usable primary",
                       store->hosts.count);
    connection_close(connection);
    if (!open_host(store, connection, best, deadline))
        return err_set(err, ERR_UNAVAILABLE, "the connection to PostgreSQL was lost");
    enum error_code code = origin_settle(store, connection, &verdict, err);
    store->preferred = code == ERR_OK ? best : HOSTS_MAX;
    if (code == ERR_OK)
        note_hosts(store, &survey, deadline);
    return code;
}

/* At the host that was found best the last time, while it is. */
static bool open_preferred(struct postgres *store, struct connection *connection, int64_t deadline)
{
    enum origin_verdict verdict;
    struct err ignored;
    uint32_t host = store->preferred;
    if (host >= store->hosts.count)
        return false;
    connection_close(connection);
    if (open_host(store, connection, host, deadline) &&
        origin_settle(store, connection, &verdict, &ignored) == ERR_OK && verdict == ORIGIN_SAME)
        return true;
    store->preferred = HOSTS_MAX;
    return false;
}

enum error_code origin_open(struct postgres *store, struct connection *connection, int64_t deadline,
                            struct err *err)
{
    enum origin_verdict verdict = ORIGIN_REFUSED;
    bool is_first = store->base.generation == 0;
    if (open_preferred(store, connection, deadline))
        return ERR_OK;
    enum error_code code = connection_open(connection, store->url, deadline, err);
    if (code != ERR_OK)
        return code;
    code = origin_settle(store, connection, &verdict, err);
    bool certain = code == ERR_OK && verdict == ORIGIN_SAME && !is_first;
    if (store->hosts.count > 1 && !certain && !connection->broken) {
        struct err ignored;
        enum error_code found = explore(store, connection, deadline, &ignored);
        if (found == ERR_OK)
            return ERR_OK;
        if (code == ERR_OK && connection->pg == NULL)
            code = err_set(err, ERR_UNAVAILABLE, "%s", ignored.detail);
    }
    if (code != ERR_OK)
        connection_close(connection);
    return code;
}

/* ---- the patrol ---- */

/* Connections that stay open to a primary hear of no other: somebody must look. */
static void patrol_once(struct postgres *store)
{
    struct survey survey;
    struct err ignored;
    enum origin_verdict verdict;
    int64_t deadline = clock_monotonic_ms() + PATROL_MS;
    look_at_hosts(store, deadline, &survey);
    (void)pthread_mutex_lock(&store->mutex);
    struct origin known = store->origin;
    (void)pthread_mutex_unlock(&store->mutex);
    uint32_t best = best_host(store, &survey);
    if (best < store->hosts.count && is_later(&survey.at[best], &known)) {
        struct connection connection = {.timeout_ms = HOST_MS};
        if (open_host(store, &connection, best, deadline) &&
            origin_settle(store, &connection, &verdict, &ignored) == ERR_OK)
            store->preferred = best;
        connection_close(&connection);
    }
    note_hosts(store, &survey, deadline);
}

static void *patrol_run(void *arg)
{
    struct postgres *store = arg;
    (void)pthread_mutex_lock(&store->mutex);
    while (!store->closing) {
        struct timespec until = condition_deadline(PATROL_MS);
        int waited = 0;
        while (!store->closing && waited == 0)
            waited = pthread_cond_timedwait(&store->closed, &store->mutex, &until);
        if (store->closing)
            break;
        (void)pthread_mutex_unlock(&store->mutex);
        patrol_once(store);
        (void)pthread_mutex_lock(&store->mutex);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return NULL;
}

void patrol_start(struct postgres *store)
{
    sigset_t all;
    sigset_t before;
    if (store->hosts.count < 2)
        return;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    store->patrols = pthread_create(&store->patrol, NULL, patrol_run, store) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void patrol_stop(struct postgres *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    store->closing = true;
    (void)pthread_cond_broadcast(&store->closed);
    (void)pthread_mutex_unlock(&store->mutex);
    if (store->patrols)
        (void)pthread_join(store->patrol, NULL);
    store->patrols = false;
}
