#define _GNU_SOURCE /* NOLINT: nftw */
#include "test_stores.h"

#include <ftw.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const test_store_names[TEST_STORE_COUNT] = {"memory", "sqlite", "postgres"};

static const char *server(void)
{
    const char *url = getenv("PAWL_TEST_POSTGRES");
    if (url == NULL || *url == '\0') {
        fprintf(stderr, "PAWL_TEST_POSTGRES is not set: run scripts/with-postgres COMMAND\n");
        abort();
    }
    return url;
}

static void run_sql(const char *sql)
{
    PGconn *connection = PQconnectdb(server());
    PGresult *result = PQexec(connection, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s: %s\n", sql, PQerrorMessage(connection));
        abort();
    }
    PQclear(result);
    PQfinish(connection);
}

void test_stores_init(struct test_stores *stores)
{
    *stores = (struct test_stores){0};
    const char *parent = getenv("TMPDIR");
    (void)snprintf(stores->directory, sizeof stores->directory, "%s/pawl-test-XXXXXX",
                   parent != NULL && strlen(parent) < 32 ? parent : "/tmp");
    if (mkdtemp(stores->directory) == NULL)
        abort();
}

static void database_name(const struct test_stores *stores, uint32_t number, char *ret, size_t size)
{
    (void)snprintf(ret, size, "pawl_test_%d_%s_%u", (int)getpid(),
                   strrchr(stores->directory, '-') + 1, number);
    for (char *at = ret; *at != '\0'; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at + 'a' - 'A');
}

static int delete_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

void test_stores_release(struct test_stores *stores)
{
    char text[256];
    if (nftw(stores->directory, delete_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "could not delete %s\n", stores->directory);
    for (uint32_t i = 1; i <= stores->made_databases; i++) {
        char name[128];
        database_name(stores, i, name, sizeof name);
        (void)snprintf(text, sizeof text, "DROP DATABASE IF EXISTS \"%s\" WITH (FORCE)", name);
        run_sql(text);
    }
}

/* The server's URL with another database in it: postgres://user@host:port/DATABASE?parameters */
static void put_database(const char *url, const char *name, char *ret, size_t size)
{
    const char *host = strstr(url, "://") + 3;
    const char *slash = strchr(host, '/');
    const char *parameters = strchr(host, '?');
    const char *end = slash != NULL ? slash : parameters != NULL ? parameters : host + strlen(host);
    (void)snprintf(ret, size, "%.*s/%s%s", (int)(end - url), url, name,
                   parameters != NULL ? parameters : "");
}

const char *test_stores_fresh(struct test_stores *stores, enum test_store sort)
{
    char name[128];
    char sql[256];
    switch (sort) {
    case TEST_SQLITE:
        (void)snprintf(stores->url, sizeof stores->url, "sqlite:%s/%u.db", stores->directory,
                       ++stores->made);
        return stores->url;
    case TEST_POSTGRES:
        database_name(stores, ++stores->made_databases, name, sizeof name);
        (void)snprintf(sql, sizeof sql, "CREATE DATABASE \"%s\"", name);
        run_sql(sql);
        put_database(server(), name, stores->url, sizeof stores->url);
        return stores->url;
    default:
        return "memory:";
    }
}
