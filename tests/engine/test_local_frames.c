/* The frames on the socket beside a SQLite file: too many, garbage, other versions, keys that come
 * again, and those who are deaf or stopped. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>

#include "base/clock.h"
#include "engine/local_protocol.h"
#include "many_processes.h"

static int connect_raw(const struct place *place)
{
    int socket = local_connect(place->path);
    assert_true(socket >= 0);
    return socket;
}

static struct local_frame hear_frame(struct place *place, int socket)
{
    struct local_frame frame;
    assert_int_equal(local_receive(socket, clock_monotonic_ms() + 5000, &place->arena, &frame),
                     LOCAL_DONE);
    assert_int_equal(frame.type, LOCAL_ANSWER);
    return frame;
}

static void send_frame(int socket, const struct local_frame *frame)
{
    assert_int_equal(local_send(socket, frame, clock_monotonic_ms() + 5000), LOCAL_DONE);
}

static const struct local_frame hello = {.type = LOCAL_HELLO, .texts = {STR_INIT("0.0.1")}};

static int connect_and_greet(struct place *place)
{
    int socket = connect_raw(place);
    send_frame(socket, &hello);
    assert_int_equal(hear_frame(place, socket).code, ERR_OK);
    return socket;
}

static void assert_hangs_up(int socket)
{
    char byte;
    for (int i = 0; i < 1000 && !local_is_gone(socket); i++)
        rest_ms(5);
    assert_true(recv(socket, &byte, 1, MSG_DONTWAIT) <= 0);
    (void)close(socket);
}

static void the_257th_connection_is_told_to_come_again(void **state)
{
    enum { COUNT = 300, MAX = 256 };
    struct place *place = *state;
    int sockets[COUNT];
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    int refused = 0;
    for (int i = 0; i < COUNT; i++) {
        sockets[i] = connect_raw(place);
        (void)local_send(sockets[i], &hello, clock_monotonic_ms() + 5000);
        struct local_frame answer = hear_frame(place, sockets[i]);
        assert_int_equal(answer.code, i < MAX ? ERR_OK : ERR_UNAVAILABLE);
        refused += answer.code != ERR_OK;
    }
    assert_int_equal(refused, COUNT - MAX);
    for (int i = 0; i < COUNT; i++)
        (void)close(sockets[i]);
    /* There is room again as soon as that was noticed; until then the library tries again. */
    struct pawl *pawl = open_at(place->path, 0);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
    pawl_close(pawl);
    finish(&owner);
}

static void send_bytes(int socket, const void *bytes, size_t len)
{
    assert_int_equal(send(socket, bytes, len, MSG_NOSIGNAL), len);
}

/* A header with numbers as given. */
static void make_header(uint8_t ret[LOCAL_HEADER_BYTES], uint8_t version, uint8_t type,
                        const uint32_t lengths[LOCAL_TEXTS])
{
    static const uint8_t magic[] = {'P', 'A', 'W', 'L'};
    memset(ret, 0, LOCAL_HEADER_BYTES);
    memcpy(ret, magic, sizeof magic);
    ret[5] = version;
    ret[7] = type;
    for (int i = 0; i < LOCAL_TEXTS; i++)
        for (int j = 0; j < 4; j++)
            ret[16 + 4 * i + j] = (uint8_t)(lengths[i] >> (24 - 8 * j));
}

static void garbage_is_answered_and_hung_up_on(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    static const uint32_t none[LOCAL_TEXTS] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                               UINT32_MAX};
    static const uint32_t huge[LOCAL_TEXTS] = {4, UINT32_MAX, UINT32_MAX, 4, UINT32_MAX - 1};
    uint8_t header[LOCAL_HEADER_BYTES];
    uint8_t noise[4096];
    uint32_t seed = 12345;

    int socket = connect_raw(place);
    send_bytes(socket, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 36);
    assert_int_equal(hear_frame(place, socket).code, ERR_BAD_REQUEST);
    assert_hangs_up(socket);

    socket = connect_raw(place);
    make_header(header, LOCAL_VERSION, LOCAL_CALL, none);
    send_bytes(socket, header, sizeof header);
    assert_int_equal(hear_frame(place, socket).code, ERR_BAD_REQUEST);
    assert_hangs_up(socket);

    socket = connect_and_greet(place);
    make_header(header, LOCAL_VERSION, 9, none);
    send_bytes(socket, header, sizeof header);
    assert_int_equal(hear_frame(place, socket).code, ERR_BAD_REQUEST);
    assert_hangs_up(socket);

    socket = connect_and_greet(place);
    make_header(header, LOCAL_VERSION, LOCAL_CALL, huge);
    send_bytes(socket, header, sizeof header);
    assert_int_equal(hear_frame(place, socket).code, ERR_PAYLOAD_TOO_LARGE);
    assert_hangs_up(socket);

    for (int i = 0; i < 200; i++) {
        socket = i % 2 == 0 ? connect_raw(place) : connect_and_greet(place);
        for (size_t j = 0; j < sizeof noise; j++) {
            seed = seed * 1103515245 + 12345;
            noise[j] = (uint8_t)(seed >> 16);
        }
        if (i % 4 > 1)
            make_header(noise, LOCAL_VERSION, LOCAL_CALL, none);
        (void)send(socket, noise, i % 3 == 0 ? sizeof noise : 1 + seed % 60, MSG_NOSIGNAL);
        (void)close(socket);
    }
    struct pawl *pawl = open_at(place->path, 0);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
    pawl_close(pawl);
    finish(&owner);
}

static void a_call_that_makes_no_sense_is_refused_and_the_next_is_heard(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    int socket = connect_and_greet(place);
    static const struct local_frame calls[] = {
        {.type = LOCAL_CALL},
        {.type = LOCAL_CALL, .texts = {STR_INIT("explode"), {0}, {0}, STR_INIT("me")}},
        {.type = LOCAL_CALL, .texts = {STR_INIT("stats")}},
        {.type = LOCAL_CALL, .texts = {STR_INIT("stats"), {0}, {0}, STR_INIT("a\nb")}},
        {.type = LOCAL_CALL, .texts = {STR_INIT("stats"), {0}, {0}, STR_INIT("\xff")}},
        {.type = LOCAL_CALL, .texts = {STR_INIT("stats"), STR_INIT("s"), {0}, STR_INIT("me")}},
        {.type = LOCAL_CALL,
         .texts = {STR_INIT("stats"), {0}, {0}, STR_INIT("me"), STR_INIT("[]")}},
        {.type = LOCAL_CALL, .texts = {STR_INIT("stats"), {0}, {0}, STR_INIT("me"), STR_INIT("")}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        send_frame(socket, &calls[i]);
        struct local_frame answer = hear_frame(place, socket);
        assert_int_equal(answer.code, ERR_BAD_REQUEST);
        assert_int_equal(answer.status, 400);
        assert_true(answer.texts[LOCAL_MESSAGE].len > 0);
    }
    struct local_frame call = {.type = LOCAL_CALL, .texts = {STR("queues"), {0}, {0}, STR("me")}};
    send_frame(socket, &call);
    struct local_frame answer = hear_frame(place, socket);
    assert_int_equal(answer.code, ERR_OK);
    assert_int_equal(answer.status, 200);
    (void)close(socket);
    finish(&owner);
}

static struct local_frame call_frame(struct str verb, struct str key, struct str request)
{
    return (struct local_frame){
        .type = LOCAL_CALL,
        .texts = {verb, str_is_set(key) ? STR("test") : (struct str){NULL, 0}, key, STR("me"),
                  request},
    };
}

static void a_key_that_comes_again_gets_the_first_answer(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct local_frame submit = call_frame(STR("submit"), STR("once"), STR("{\"kind\":\"a\"}"));
    int first = connect_and_greet(place);
    int second = connect_and_greet(place);
    send_frame(first, &submit);
    struct local_frame answer = hear_frame(place, first);
    assert_int_equal(answer.code, ERR_OK);
    assert_int_equal(answer.status, 201);
    send_frame(second, &submit);
    struct local_frame again = hear_frame(place, second);
    assert_int_equal(again.status, 201);
    assert_str_equal(again.texts[LOCAL_BODY], answer.texts[LOCAL_BODY]);
    submit = call_frame(STR("submit"), STR("once"), STR("{\"kind\":\"b\"}"));
    send_frame(second, &submit);
    assert_int_equal(hear_frame(place, second).code, ERR_IDEMPOTENCY_MISMATCH);
    (void)close(first);
    (void)close(second);
    finish(&owner);
}

static bool has_claims(const struct local_frame *answer)
{
    struct str body = answer->texts[LOCAL_BODY];
    assert_int_equal(answer->code, ERR_OK);
    return body.len > 20 && memcmp(body.at, "{\"claims\":[{", 12) == 0;
}

/* The first look finds nothing; that must not become the answer under the key. */
static void a_claim_that_waits_under_a_key_is_answered_with_work(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct local_frame claim =
        call_frame(STR("claim"), STR("one"), STR("{\"worker_id\":\"w\",\"wait_ms\":20000}"));
    struct local_frame submit =
        call_frame(STR("submit"), (struct str){NULL, 0}, STR("{\"kind\":\"a\"}"));
    int waiting = connect_and_greet(place);
    int other = connect_and_greet(place);
    send_frame(waiting, &claim);
    rest_ms(200);
    send_frame(other, &submit);
    assert_int_equal(hear_frame(place, other).code, ERR_OK);
    struct local_frame answer = hear_frame(place, waiting);
    assert_true(has_claims(&answer));
    (void)close(waiting);
    send_frame(other, &claim);
    struct local_frame again = hear_frame(place, other);
    assert_str_equal(again.texts[LOCAL_BODY], answer.texts[LOCAL_BODY]);
    (void)close(other);
    finish(&owner);
}

static void a_call_waits_no_longer_than_its_frame_says_and_tells_what_has_not_come(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    static const struct str none = {NULL, 0};
    static const struct {
        struct str verb;
        struct str request;
    } calls[] = {
        {STR_INIT("claim"), STR_INIT("{\"worker_id\":\"w\",\"wait_ms\":55000}")},
        {STR_INIT("feed"), STR_INIT("{\"after\":\"0-0\",\"wait_ms\":55000}")},
    };
    int socket = connect_and_greet(place);
    int64_t start_ms = clock_monotonic_ms();
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct local_frame call = call_frame(calls[i].verb, none, calls[i].request);
        call.code = 50;
        send_frame(socket, &call);
        struct local_frame answer = hear_frame(place, socket);
        assert_int_equal(answer.code, ERR_OK);
        assert_true(str_is_set(answer.texts[LOCAL_UNMET]));
    }
    assert_true(clock_monotonic_ms() - start_ms < 50 * 1000);
    struct local_frame submit = call_frame(STR("submit"), none, STR("{\"kind\":\"a\"}"));
    send_frame(socket, &submit);
    assert_false(str_is_set(hear_frame(place, socket).texts[LOCAL_UNMET]));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct local_frame call = call_frame(calls[i].verb, none, calls[i].request);
        send_frame(socket, &call);
        assert_false(str_is_set(hear_frame(place, socket).texts[LOCAL_UNMET]));
    }
    (void)close(socket);
    finish(&owner);
}

static void a_lease_that_cannot_be_handed_over_is_given_back(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct local_frame claim = call_frame(STR("claim"), (struct str){NULL, 0},
                                          STR("{\"worker_id\":\"deaf\",\"wait_ms\":20000}"));
    int deaf = connect_and_greet(place);
    send_frame(deaf, &claim);
    rest_ms(200);
    /* It is still there, but hears nothing any more. */
    assert_int_equal(shutdown(deaf, SHUT_RD), 0);
    struct pawl *pawl = open_at(place->path, 0);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
    char *claims = ask(pawl, pawl_claim, "{\"worker_id\":\"w\",\"wait_ms\":10000}");
    struct pawl_json all = pawl_json_read(claims);
    assert_int_equal(pawl_json_int(pawl_json_get(all, "claims.0.lease.attempt"), 0), 2);
    assert_int_equal(pawl_json_int(pawl_json_get(all, "claims.0.job.failures"), -1), 0);
    pawl_free(claims);
    pawl_close(pawl);
    (void)close(deaf);
    finish(&owner);
}

static void an_owner_that_is_stopped_does_not_hold_up_others_for_ever(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    char url[128];
    char *answer = NULL;
    struct pawl *pawl;
    struct pawl_error error;
    struct pawl_options options = {.patience_ms = 1000};
    (void)snprintf(url, sizeof url, "sqlite:%s", place->path);
    assert_int_equal(pawl_open(url, &options, &pawl, &error), PAWL_OK);
    int status;
    assert_int_equal(kill(owner.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(owner.pid, &status, WUNTRACED), owner.pid);
    assert_true(WIFSTOPPED(status));
    int64_t start_at = clock_monotonic_ms();
    assert_int_equal(pawl_submit(pawl, "{\"kind\":\"a\"}", &answer, &error), PAWL_UNAVAILABLE);
    assert_says(error.message, "does not respond");
    /* The next has to say hello first, and is no less patient, and no more. */
    assert_true(clock_monotonic_ms() - start_at < 1900);
    start_at = clock_monotonic_ms();
    assert_int_equal(pawl_submit(pawl, "{\"kind\":\"a\"}", &answer, &error), PAWL_UNAVAILABLE);
    assert_true(clock_monotonic_ms() - start_at < 1900);
    assert_int_equal(kill(owner.pid, SIGCONT), 0);
    pawl_close(pawl);
    /* Whoever was told that it failed finds that nothing was done. */
    pawl = open_at(place->path, 0);
    assert_int_equal(count_jobs(pawl, "a"), 0);
    pawl_close(pawl);
    finish(&owner);
}

static void another_version_is_told_so(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    static const uint32_t lengths[LOCAL_TEXTS] = {5, UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                                  UINT32_MAX};
    uint8_t header[LOCAL_HEADER_BYTES];
    make_header(header, LOCAL_VERSION + 1, LOCAL_HELLO, lengths);
    int socket = connect_raw(place);
    send_bytes(socket, header, sizeof header);
    send_bytes(socket, "9.8.7", 5);
    struct local_frame answer = hear_frame(place, socket);
    char message[512] = "";
    assert_int_equal(answer.code, ERR_UNAVAILABLE);
    assert_true(answer.texts[LOCAL_MESSAGE].len < sizeof message);
    memcpy(message, answer.texts[LOCAL_MESSAGE].at, answer.texts[LOCAL_MESSAGE].len);
    assert_says(message, "9.8.7");
    assert_says(message, PAWL_VERSION);
    assert_hangs_up(socket);
    finish(&owner);
}

/* An owner of some other version. */
struct stranger {
    int listener;
    atomic_bool stop;
};

static void *refuse_all(void *arg)
{
    struct stranger *stranger = arg;
    static const char message[] = "the store is in use by version 9.9.9 of Pawl";
    static const uint32_t lengths[LOCAL_TEXTS] = {sizeof message - 1, UINT32_MAX, UINT32_MAX,
                                                  UINT32_MAX, UINT32_MAX};
    uint8_t header[LOCAL_HEADER_BYTES];
    make_header(header, LOCAL_VERSION + 8, LOCAL_ANSWER, lengths);
    header[11] = ERR_UNAVAILABLE;
    while (!atomic_load(&stranger->stop)) {
        int socket = accept(stranger->listener, NULL, NULL);
        if (socket < 0) {
            rest_ms(2);
            continue;
        }
        (void)send(socket, header, sizeof header, MSG_NOSIGNAL);
        (void)send(socket, message, sizeof message - 1, MSG_NOSIGNAL);
        (void)close(socket);
    }
    return NULL;
}

static void an_owner_of_another_version_is_not_waited_for(void **state)
{
    struct place *place = *state;
    struct pawl_error error;
    struct err err;
    struct stranger stranger = {0};
    pthread_t thread;
    pawl_close(open_at(place->path, 1));
    int lock = open(beside(place, ".lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(local_listen(place->path, &stranger.listener, &(struct local_place){0}, &err),
                     ERR_OK);
    assert_int_equal(pthread_create(&thread, NULL, refuse_all, &stranger), 0);
    int64_t start_at = clock_monotonic_ms();
    assert_int_equal(open_fails(place->path, 0, &error), PAWL_UNAVAILABLE);
    assert_true(clock_monotonic_ms() - start_at < 5000);
    assert_says(error.message, "version 9.9.9");
    atomic_store(&stranger.stop, true);
    (void)pthread_join(thread, NULL);
    (void)close(stranger.listener);
    (void)close(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(the_257th_connection_is_told_to_come_again),
        IN_PLACE(garbage_is_answered_and_hung_up_on),
        IN_PLACE(a_call_that_makes_no_sense_is_refused_and_the_next_is_heard),
        IN_PLACE(a_key_that_comes_again_gets_the_first_answer),
        IN_PLACE(a_claim_that_waits_under_a_key_is_answered_with_work),
        IN_PLACE(a_call_waits_no_longer_than_its_frame_says_and_tells_what_has_not_come),
        IN_PLACE(a_lease_that_cannot_be_handed_over_is_given_back),
        IN_PLACE(an_owner_that_is_stopped_does_not_hold_up_others_for_ever),
        IN_PLACE(another_version_is_told_so),
        IN_PLACE(an_owner_of_another_version_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
