/* Opening on PostgreSQL: an empty database, older and newer schemas, several at once, and what is
 * not ours. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/postgres_case.h"

#define SQL_OF(text) STR_INIT(text)

/* A schema of its own for tests: small, and with two versions. */
static const struct migration versions[] = {
    {1, 1, "0001_first.sql", SQL_OF("-- usable_from: 1\nCREATE TABLE pawl.a (x int);")},
    {2, 1, "0002_second.sql", SQL_OF("CREATE TABLE pawl.b (x int); CREATE TABLE pawl.c (x int);")},
    {3, 3, "0003_third.sql", SQL_OF("DROP TABLE pawl.a;")},
};

static struct migrations known(uint32_t count)
{
    return (struct migrations){versions, count};
}

static enum error_code try_open(struct postgres_case *c, uint32_t count, bool create, bool migrate)
{
    struct store_options options = case_options();
    struct migrations migrations = known(count);
    struct store *store;
    options.create = create;
    options.migrate = migrate;
    enum error_code code =
        postgres_store_open_with(str_from(c->url), &options, &migrations, &store, &c->err);
    if (code == ERR_OK)
        store_close(store);
    return code;
}

static void an_empty_database_is_set_up_when_that_is_asked_for(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    options.create = false;
    assert_int_equal(store_open(str_from(c->url), &options, &c->store, &c->err), ERR_NOT_FOUND);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pg_namespace WHERE nspname = 'pawl'"), 0);
    case_open(c, c->url);
    assert_int_equal(sql_int(c, "SELECT max(version) FROM pawl.schema"), 7);
    submit_job(c);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.jobs"), 1);
}

static void a_schema_that_was_made_beforehand_and_is_empty_will_do(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "CREATE SCHEMA pawl");
    case_open(c, c->url);
    submit_job(c);
}

static void somebody_elses_schema_is_refused_and_left_alone(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    sql(c, "CREATE SCHEMA pawl");
    sql(c, "CREATE TABLE pawl.jobs (mine int)");
    assert_int_equal(store_open(str_from(c->url), &options, &c->store, &c->err), ERR_UNAVAILABLE);
    assert_true(has_text(c->err.detail, "does not belong to Pawl"));
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pg_class"
                                " WHERE relnamespace = 'pawl'::regnamespace"),
                     1);
}

static void tables_of_users_with_the_same_names_do_not_matter(void **state)
{
    struct postgres_case *c = *state;
    sql(c, "CREATE TABLE public.jobs (mine int)");
    sql(c, "CREATE TABLE public.job_events (mine int)");
    case_open(c, c->url);
    submit_job(c);
    assert_int_equal(sql_int(c, "SELECT count(*) FROM public.jobs"), 0);
}

static void an_older_schema_is_refused_until_it_is_migrated(void **state)
{
    struct postgres_case *c = *state;
    assert_int_equal(try_open(c, 1, true, false), ERR_OK);
    assert_int_equal(try_open(c, 2, true, false), ERR_UNAVAILABLE);
    assert_true(has_text(c->err.detail, "pawl migrate"));
    assert_string_equal(sql(c, "SELECT to_regclass('pawl.b')"), "");
    assert_int_equal(try_open(c, 2, false, true), ERR_OK);
    assert_string_equal(sql(c, "SELECT to_regclass('pawl.b')"), "pawl.b");
    assert_int_equal(sql_int(c, "SELECT max(version) FROM pawl.schema"), 2);
    assert_int_equal(try_open(c, 2, false, false), ERR_OK);
}

static void a_newer_schema_is_used_as_long_as_it_allows_that(void **state)
{
    struct postgres_case *c = *state;
    assert_int_equal(try_open(c, 2, true, false), ERR_OK);
    assert_int_equal(try_open(c, 1, true, true), ERR_OK);
    assert_int_equal(try_open(c, 3, true, true), ERR_OK);
    assert_int_equal(try_open(c, 2, true, true), ERR_UNAVAILABLE);
    assert_true(has_text(c->err.detail, "newer pawl"));
    assert_int_equal(sql_int(c, "SELECT max(version) FROM pawl.schema"), 3);
}

static void a_migration_that_fails_leaves_nothing_behind(void **state)
{
    static const struct migration bad[] = {
        {1, 1, "0001_bad.sql", SQL_OF("CREATE TABLE pawl.a (x int); SELECT 1/0;")},
    };
    struct postgres_case *c = *state;
    struct migrations migrations = {bad, 1};
    struct store_options options = case_options();
    assert_int_equal(
        postgres_store_open_with(str_from(c->url), &options, &migrations, &c->store, &c->err),
        ERR_UNAVAILABLE);
    assert_true(has_text(c->err.detail, "0001_bad.sql"));
    assert_true(has_text(c->err.detail, "division by zero"));
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pg_namespace WHERE nspname = 'pawl'"), 0);
}

/* ---- several at once ---- */

enum { RACERS = 6 };

struct racer {
    struct postgres_case *c;
    pthread_t thread;
    enum error_code code;
    struct err err;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct store_options options = case_options();
    struct store *store;
    racer->code = store_open(str_from(racer->c->url), &options, &store, &racer->err);
    if (racer->code == ERR_OK)
        store_close(store);
    return NULL;
}

static void of_many_that_open_an_empty_database_at_once_all_find_it_set_up(void **state)
{
    struct postgres_case *c = *state;
    struct racer racers[RACERS];
    for (int i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.c = c};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
        assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
        if (racers[i].code != ERR_OK)
            fail_msg("%s", racers[i].err.detail);
    }
    assert_int_equal(sql_int(c, "SELECT count(*) FROM pawl.schema"), 7);
}

/* ---- servers and URLs ---- */

static void a_password_is_never_shown(void **state)
{
    struct postgres_case *c = *state;
    static const char *const urls[] = {
        "postgres://u:geheim@127.0.0.1:1/x",
        "postgres://u:geheim@[::1/x",
        "postgres://u:geheim@localhost:port/x",
        "postgres://u:geheim@localhost/x?nonsense=1",
        "postgres://u:geheim@localhost/x?password=geheim&host=%zz",
    };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct store_options options = case_options();
        options.timeout_ms = 100;
        enum error_code code = store_open(str_from(urls[i]), &options, &c->store, &c->err);
        assert_true(code == ERR_UNAVAILABLE || code == ERR_BAD_REQUEST);
        assert_false(has_text(c->err.detail, "geheim"));
        assert_true(strlen(c->err.detail) > 0);
    }
}

static void a_server_that_is_not_there_is_given_up_in_time_and_named(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    options.timeout_ms = 300;
    int64_t start = monotonic_ms();
    assert_int_equal(
        store_open(STR("postgres://127.0.0.1:1/nowhere"), &options, &c->store, &c->err),
        ERR_UNAVAILABLE);
    int64_t took = monotonic_ms() - start;
    assert_true(took >= 250 && took < 5000);
    assert_true(has_text(c->err.detail, "127.0.0.1:1/nowhere"));
    /* And why, although time was up in the end. */
    assert_true(has_text(c->err.detail, "refused"));
}

/* ---- what waiting cannot cure ---- */

static void assert_hopeless(struct postgres_case *c, const char *url, const char *why)
{
    struct store_options options = case_options();
    int64_t start = monotonic_ms();
    assert_int_equal(store_open(str_from(url), &options, &c->store, &c->err), ERR_UNAVAILABLE);
    if (monotonic_ms() - start > options.timeout_ms / 2)
        fail_msg("it took %lld ms: %s", (long long)(monotonic_ms() - start), c->err.detail);
    if (!has_text(c->err.detail, why))
        fail_msg("%s", c->err.detail);
}

static void settings_that_cannot_be_are_no_reason_to_wait(void **state)
{
    struct postgres_case *c = *state;
    char url[1100];
    assert_hopeless(c, "postgres://u@127.0.0.1:99999/x", "invalid port number");
    assert_hopeless(c, "postgres://u@127.0.0.1/x?sslmode=nonsense", "invalid sslmode value");
    /* The server of the tests has no TLS. */
    const char *server = getenv("PAWL_TEST_POSTGRES_TCP");
    assert_non_null(server);
    (void)snprintf(url, sizeof url, "%.1000s?sslmode=require", server);
    assert_hopeless(c, url, "does not support SSL");
}

/* A server that says what it is told to say. */
struct mock {
    int listener;
    uint16_t port;
    bool hangs_up_first; /* on the first that comes; */
    struct str words;    /* the others are told this, and then nothing */
    pthread_t thread;
};

static void *mock_main(void *arg)
{
    struct mock *mock = arg;
    for (bool is_first = true;; is_first = false) {
        char heard[1024];
        int client = accept(mock->listener, NULL, NULL);
        if (client < 0)
            return NULL;
        bool told = !(is_first && mock->hangs_up_first) && read(client, heard, sizeof heard) > 0 &&
                    write(client, mock->words.at, mock->words.len) == (ssize_t)mock->words.len;
        while (told && read(client, heard, sizeof heard) > 0)
            ; /* until it hangs up */
        (void)close(client);
    }
}

static void mock_start(struct mock *mock)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    mock->listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(mock->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(mock->listener, 8), 0);
    assert_int_equal(getsockname(mock->listener, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(pthread_create(&mock->thread, NULL, mock_main, mock), 0);
    mock->port = ntohs(address.sin_port);
}

static void mock_end(struct mock *mock)
{
    (void)shutdown(mock->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(mock->thread, NULL), 0);
    (void)close(mock->listener);
}

static const char *mock_url(const struct mock *mock)
{
    static char url[256];
    (void)snprintf(url, sizeof url,
                   "postgres://u@127.0.0.1:%u/x?sslmode=disable&gssencmode=disable"
                   "&passfile=/nonexistent",
                   mock->port);
    return url;
}

static void a_password_that_was_not_given_is_no_reason_to_wait(void **state)
{
    struct postgres_case *c = *state;
    struct mock mock = {.words = STR("R\0\0\0\10\0\0\0\3")};
    mock_start(&mock);
    assert_hopeless(c, mock_url(&mock), "no password supplied");
    mock_end(&mock);
}

static void why_it_failed_is_told_although_the_last_attempt_was_not_answered(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    struct mock mock = {.hangs_up_first = true, .words = STR("")};
    options.timeout_ms = 500;
    mock_start(&mock);
    enum error_code code = store_open(str_from(mock_url(&mock)), &options, &c->store, &c->err);
    mock_end(&mock);
    assert_int_equal(code, ERR_UNAVAILABLE);
    if (!has_text(c->err.detail, "closed the connection"))
        fail_msg("%s", c->err.detail);
}

static void a_host_that_is_not_known_is_told(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    options.timeout_ms = 300;
    assert_int_equal(
        store_open(STR("postgres://no-such-host.invalid/x"), &options, &c->store, &c->err),
        ERR_UNAVAILABLE);
    assert_true(has_text(c->err.detail, "host name"));
}

static void a_database_that_does_not_exist_is_no_reason_to_wait(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    char url[1100];
    char *database;
    (void)snprintf(url, sizeof url, "%s", c->url);
    database = strstr(url, "pawl_test_");
    assert_non_null(database);
    database[0] = 'x';
    int64_t start = monotonic_ms();
    assert_int_equal(store_open(str_from(url), &options, &c->store, &c->err), ERR_UNAVAILABLE);
    assert_true(monotonic_ms() - start < 5000);
    assert_true(has_text(c->err.detail, "does not exist"));
}

static void a_database_that_is_not_utf8_is_refused(void **state)
{
    struct postgres_case *c = *state;
    struct store_options options = case_options();
    char url[1100];
    char name[128];
    char statement[256];
    (void)snprintf(name, sizeof name, "%.100s_l1", sql(c, "SELECT current_database()"));
    (void)snprintf(statement, sizeof statement,
                   "CREATE DATABASE \"%s\" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0", name);
    sql(c, statement);
    size_t end = strcspn(c->url, "?");
    (void)snprintf(url, sizeof url, "%.*s_l1%s", (int)end, c->url, c->url + end);
    enum error_code code = store_open(str_from(url), &options, &c->store, &c->err);
    (void)snprintf(statement, sizeof statement, "DROP DATABASE \"%s\" WITH (FORCE)", name);
    sql(c, statement);
    assert_int_equal(code, ERR_UNAVAILABLE);
    assert_true(has_text(c->err.detail, "UTF8"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BARE_CASE(an_empty_database_is_set_up_when_that_is_asked_for),
        BARE_CASE(a_schema_that_was_made_beforehand_and_is_empty_will_do),
        BARE_CASE(somebody_elses_schema_is_refused_and_left_alone),
        BARE_CASE(tables_of_users_with_the_same_names_do_not_matter),
        BARE_CASE(an_older_schema_is_refused_until_it_is_migrated),
        BARE_CASE(a_newer_schema_is_used_as_long_as_it_allows_that),
        BARE_CASE(a_migration_that_fails_leaves_nothing_behind),
        BARE_CASE(of_many_that_open_an_empty_database_at_once_all_find_it_set_up),
        BARE_CASE(a_password_is_never_shown),
        BARE_CASE(a_server_that_is_not_there_is_given_up_in_time_and_named),
        BARE_CASE(settings_that_cannot_be_are_no_reason_to_wait),
        BARE_CASE(a_password_that_was_not_given_is_no_reason_to_wait),
        BARE_CASE(why_it_failed_is_told_although_the_last_attempt_was_not_answered),
        BARE_CASE(a_host_that_is_not_known_is_told),
        BARE_CASE(a_database_that_does_not_exist_is_no_reason_to_wait),
        BARE_CASE(a_database_that_is_not_utf8_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
