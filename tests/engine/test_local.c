/* One SQLite file and many processes: they reach it through its owner, and take over when that
 * ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "engine/local_protocol.h"
#include "many_processes.h"

/* ---- the owner and the others ---- */

static void a_second_process_works_through_the_owner(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct pawl *pawl = open_at(place->path, 0);
    char *job = ask(pawl, pawl_submit, "{\"kind\":\"mail\",\"payload\":{\"n\":1.10}}");
    char *claims = ask(pawl, pawl_claim, "{\"worker_id\":\"w\",\"kinds\":[\"mail\"]}");
    char *id = text_of(job, "id");
    char *claimed = text_of(claims, "claims.0.job.id");
    char *payload = text_of(claims, "claims.0.job.payload");
    char *token = text_of(claims, "claims.0.lease.token");
    char request[512];
    assert_string_equal(id, claimed);
    assert_string_equal(payload, "{\"n\":1.10}");
    (void)snprintf(request, sizeof request, "{\"token\":\"%s\",\"result\":[1]}", token);
    ask_and_forget(pawl, pawl_complete, request);
    assert_int_equal(owner_of(place), owner.pid);

    /* Errors come with their code and their words. */
    char *answer = NULL;
    struct pawl_error error;
    assert_int_equal(pawl_get(pawl, "{\"id\":\"nonsense\"}", &answer, &error), PAWL_BAD_REQUEST);
    assert_says(error.message, "nonsense");
    assert_int_equal(pawl_get(pawl, "not JSON", &answer, &error), PAWL_BAD_REQUEST);
    assert_int_equal(pawl_get(pawl, "", &answer, &error), PAWL_BAD_REQUEST);
    assert_int_equal(pawl_submit(pawl, "{\"kind\":\"a\",\"x\":1}", &answer, &error),
                     PAWL_UNKNOWN_FIELD);
    assert_null(answer);

    finish(&owner);
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
    char *ended = ask(pawl, pawl_get, request);
    assert_int_equal(owner_of(place), getpid());
    assert_true(pawl_json_is(pawl_json_get(pawl_json_read(ended), "status"), "completed"));
    pawl_close(pawl);
    assert_false(is_there(beside(place, ".sock")));
    pawl_free(ended);
    pawl_free(token);
    pawl_free(payload);
    pawl_free(claimed);
    pawl_free(id);
    pawl_free(claims);
    pawl_free(job);
}

static void submit_when_told(const struct place *place, int line)
{
    if (!hear(line))
        _exit(91);
    struct pawl *pawl = open_at(place->path, 1);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"both\"}");
    say(line);
    (void)hear(line);
    pawl_close(pawl);
}

static void all_who_create_a_store_at_once_can_use_it(void **state)
{
    enum { COUNT = 8 };
    struct place *place = *state;
    struct child children[COUNT];
    for (int i = 0; i < COUNT; i++)
        children[i] = start(submit_when_told, place);
    for (int i = 0; i < COUNT; i++)
        say(children[i].line);
    for (int i = 0; i < COUNT; i++)
        assert_true(hear(children[i].line));
    struct pawl *pawl = open_at(place->path, 0);
    assert_int_equal(count_jobs(pawl, "both"), COUNT);
    for (int i = 0; i < COUNT; i++)
        finish(&children[i]);
    assert_int_equal(count_jobs(pawl, "both"), COUNT);
    pawl_close(pawl);
}

static void what_cannot_be_opened_is_refused_at_once(void **state)
{
    struct place *place = *state;
    struct pawl_error error;
    int64_t start_at = clock_monotonic_ms();
    assert_int_equal(open_fails(place->path, 0, &error), PAWL_NOT_FOUND);
    assert_int_equal(open_fails("", 1, &error), PAWL_BAD_REQUEST);
    assert_int_equal(open_fails(place->directory, 1, &error), PAWL_UNAVAILABLE);
    assert_string_equal(files_in(place), "");
    write_file(place->path, STR("This is somebody's letter, and nothing that Pawl has written."));
    assert_int_equal(open_fails(place->path, 1, &error), PAWL_UNAVAILABLE);
    assert_says(error.message, "not a Pawl store");
    assert_true(clock_monotonic_ms() - start_at < 5000);
}

static void two_handles_of_one_process_share_the_store(void **state)
{
    struct place *place = *state;
    struct pawl *first = open_at(place->path, 1);
    struct pawl *second = open_at(place->path, 0);
    ask_and_forget(first, pawl_submit, "{\"kind\":\"a\"}");
    ask_and_forget(second, pawl_submit, "{\"kind\":\"a\"}");
    assert_int_equal(count_jobs(second, "a"), 2);
    pawl_close(first);
    ask_and_forget(second, pawl_submit, "{\"kind\":\"a\"}");
    assert_int_equal(count_jobs(second, "a"), 3);
    pawl_close(second);
}

static void a_path_may_be_longer_than_an_address(void **state)
{
    struct place *place = *state;
    char long_name[201];
    char directory[512];
    char path[1024];
    memset(long_name, 'n', 200);
    long_name[200] = '\0';
    (void)snprintf(directory, sizeof directory, "%s/%s", place->directory, long_name);
    assert_int_equal(mkdir(directory, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/%s.db", directory, long_name);
    struct pawl *first = open_at(path, 1);
    struct pawl *second = open_at(path, 0);
    ask_and_forget(second, pawl_submit, "{\"kind\":\"a\"}");
    assert_int_equal(count_jobs(first, "a"), 1);
    char name[1100];
    struct stat status;
    (void)snprintf(name, sizeof name, "%s.sock", path);
    assert_int_equal(stat(name, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    pawl_close(first);
    assert_int_equal(count_jobs(second, "a"), 1);
    pawl_close(second);
    assert_false(is_there(name));
    (void)unlink(path);
    (void)snprintf(name, sizeof name, "%s.lock", path);
    (void)unlink(name);
    assert_int_equal(rmdir(directory), 0);
}

static void only_its_user_may_use_the_socket_and_a_dead_one_is_replaced(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    kill_child(&owner);
    assert_true(is_there(beside(place, ".sock")));
    struct pawl *pawl = open_at(place->path, 0);
    struct stat status;
    assert_int_equal(stat(beside(place, ".sock"), &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 0777, 0600);
    pawl_close(pawl);

    struct pawl_error error;
    write_file(beside(place, ".sock"), STR("mine"));
    assert_int_equal(open_fails(place->path, 0, &error), PAWL_UNAVAILABLE);
    assert_says(error.message, "is not a socket");
    assert_true(is_there(beside(place, ".sock")));
}

/* ---- other users ---- */

enum { NOBODY = 65534 };

static void become_nobody(void)
{
    if (setuid(NOBODY) != 0)
        fail_here("setuid", "is refused");
}

/* Says hello as another user would. The child's exit code is the number of the first check that
 * failed. */
static int greet_as_nobody(const struct place *place)
{
    pid_t child = fork();
    if (child == 0) {
        struct arena arena;
        struct local_frame hello = {.type = LOCAL_HELLO, .texts = {STR("0.0.1")}};
        struct local_frame answer = {0};
        int64_t deadline = clock_monotonic_ms() + 5000;
        is_child = true;
        become_nobody();
        int socket = local_connect(place->path);
        if (socket < 0)
            _exit(1);
        arena_init(&arena);
        (void)local_send(socket, &hello, deadline);
        if (local_receive(socket, deadline, &arena, &answer) != LOCAL_DONE)
            _exit(2);
        _exit(answer.code == ERR_FORBIDDEN ? 0 : 3);
    }
    return child_end(child);
}

static void an_owner_that_is_root_refuses_other_users_whatever_the_mode_of_its_socket(void **state)
{
    struct place *place = *state;
    if (geteuid() != 0)
        skip();
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    assert_int_equal(chmod(place->directory, 0755), 0);
    assert_int_equal(greet_as_nobody(place), 1);
    assert_int_equal(chmod(beside(place, ".sock"), 0666), 0);
    assert_int_equal(greet_as_nobody(place), 0);
    finish(&owner);
}

static void own_as_nobody_until_told(const struct place *place, int line)
{
    become_nobody();
    own_until_told(place, line);
}

static void root_goes_through_another_user_only_to_a_file_of_that_user(void **state)
{
    struct place *place = *state;
    struct pawl_error error;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(place->directory, NOBODY, NOBODY), 0);
    struct child owner = start(own_as_nobody_until_told, place);
    assert_true(hear(owner.line));
    struct pawl *pawl = open_at(place->path, 0);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
    assert_int_equal(owner_of(place), owner.pid);
    pawl_close(pawl);

    assert_int_equal(chown(place->path, 0, 0), 0);
    assert_int_equal(open_fails(place->path, 0, &error), PAWL_FORBIDDEN);
    assert_says(error.message, "another user");
    finish(&owner);
}

/* ---- the owner is killed ---- */

enum { LINES = 32 };

/* What a thread of a worker process has done; in memory that outlives the process. */
struct line {
    atomic_int submitted; /* acknowledged */
    atomic_int completed; /* acknowledged */
    atomic_int odd;       /* what should not have been */
};

struct board {
    struct line lines[LINES];
    atomic_bool stop;
    int next;
};

static struct board *board; /* NOLINT: shared with the children */

struct work {
    struct pawl *pawl;
    int line;
};

/* Submits a job, claims it, and completes it: with nobody else on its kind each claim must give
 * just the job that was submitted, for the first time. */
static bool work_once(struct pawl *pawl, int number, struct line *line)
{
    char request[512];
    char *job = NULL;
    char *claims = NULL;
    char *done = NULL;
    (void)snprintf(request, sizeof request, "{\"kind\":\"k%d\"}", number);
    bool fine = pawl_submit(pawl, request, &job, NULL) == PAWL_OK;
    if (fine)
        atomic_fetch_add(&line->submitted, 1);
    (void)snprintf(request, sizeof request,
                   "{\"worker_id\":\"w%d\",\"kinds\":[\"k%d\"],\"max\":2,\"wait_ms\":5000}", number,
                   number);
    fine = fine && pawl_claim(pawl, request, &claims, NULL) == PAWL_OK;
    if (fine) {
        struct pawl_json all = pawl_json_read(claims);
        char *id = pawl_json_text(pawl_json_get(pawl_json_read(job), "id"));
        char *token = pawl_json_text(pawl_json_get(all, "claims.0.lease.token"));
        fine = pawl_json_is(pawl_json_get(all, "claims.0.job.id"), id) &&
               pawl_json_int(pawl_json_get(all, "claims.0.lease.attempt"), 0) == 1 &&
               pawl_json_get(all, "claims.1").at == NULL;
        (void)snprintf(request, sizeof request, "{\"token\":\"%s\"}", token);
        fine = fine && pawl_complete(pawl, request, &done, NULL) == PAWL_OK;
        pawl_free(id);
        pawl_free(token);
    }
    if (fine)
        atomic_fetch_add(&line->completed, 1);
    pawl_free(done);
    pawl_free(claims);
    pawl_free(job);
    return fine;
}

enum { JOBS_COUNTED = 500 }; /* by count_jobs */

static void *work_on(void *arg)
{
    const struct work *work = arg;
    struct line *line = &board->lines[work->line];
    while (!atomic_load(&board->stop))
        if (atomic_load(&line->submitted) == JOBS_COUNTED - 1) {
            rest_ms(5);
        } else if (!work_once(work->pawl, work->line, line)) {
            atomic_fetch_add(&line->odd, 1);
            break;
        }
    return NULL;
}

static void work_until_stopped(const struct place *place, int line)
{
    struct work works[2];
    pthread_t threads[2];
    int first = board->next;
    struct pawl *pawl = open_at(place->path, 1);
    say(line);
    for (int i = 0; i < 2; i++) {
        works[i] = (struct work){pawl, first + i};
        if (pthread_create(&threads[i], NULL, work_on, &works[i]) != 0)
            _exit(92);
    }
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    pawl_close(pawl);
}

/* The child that has the store, once it can be seen to work. */
static int find_owner(const struct place *place, const struct child *children, int count)
{
    for (int tries = 0; tries < 2000; tries++) {
        pid_t owner = owner_of(place);
        for (int i = 0; i < count; i++)
            if (children[i].pid == owner)
                return i;
        rest_ms(5);
    }
    fail_msg("nobody took over");
    return 0;
}

static void check_board(struct pawl *pawl, const bool *killed)
{
    for (int i = 0; i < board->next; i++) {
        char kind[16];
        const struct line *line = &board->lines[i];
        (void)snprintf(kind, sizeof kind, "k%d", i);
        int submitted = atomic_load(&line->submitted);
        int there = count_jobs(pawl, kind);
        assert_true(submitted < JOBS_COUNTED);
        if (killed[i / 2]) {
            assert_in_range(there, submitted, submitted + 1);
            continue;
        }
        assert_int_equal(atomic_load(&line->odd), 0);
        assert_true(submitted > 0);
        assert_int_equal(there, submitted);
        assert_int_equal(atomic_load(&line->completed), submitted);
    }
}

static void when_owners_are_killed_nothing_is_lost_and_nothing_done_twice(void **state)
{
    enum { CHILDREN = 4, KILLS = 6 };
    struct place *place = *state;
    struct child children[CHILDREN];
    int place_of[CHILDREN];
    bool killed[LINES / 2] = {false};
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    for (int i = 0; i < CHILDREN; i++) {
        place_of[i] = board->next / 2;
        children[i] = start(work_until_stopped, place);
        assert_true(hear(children[i].line));
        board->next += 2;
    }
    for (int i = 0; i < KILLS; i++) {
        rest_ms(150);
        int at = find_owner(place, children, CHILDREN);
        killed[place_of[at]] = true;
        kill_child(&children[at]);
        place_of[at] = board->next / 2;
        children[at] = start(work_until_stopped, place);
        assert_true(hear(children[at].line));
        board->next += 2;
    }
    rest_ms(150);
    atomic_store(&board->stop, true);
    for (int i = 0; i < CHILDREN; i++)
        finish(&children[i]);
    struct pawl *pawl = open_at(place->path, 0);
    check_board(pawl, killed);
    pawl_close(pawl);
    assert_int_equal(munmap(board, sizeof *board), 0);
}

/* ---- waiting ---- */

static void claim_and_wait(const struct place *place, int line)
{
    struct pawl *pawl = open_at(place->path, 0);
    char *answer = NULL;
    say(line);
    (void)pawl_claim(pawl, "{\"worker_id\":\"gone\",\"wait_ms\":50000}", &answer, NULL);
    _exit(93);
}

static void a_client_that_dies_while_it_waits_gets_no_lease(void **state)
{
    enum { COUNT = 4 };
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct child waiting[COUNT];
    for (int i = 0; i < COUNT; i++) {
        waiting[i] = start(claim_and_wait, place);
        assert_true(hear(waiting[i].line));
    }
    rest_ms(200);
    for (int i = 0; i < COUNT; i++)
        kill_child(&waiting[i]);
    struct pawl *pawl = open_at(place->path, 0);
    for (int i = 0; i < COUNT; i++) {
        ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
        char *claims = ask(pawl, pawl_claim, "{\"worker_id\":\"alive\"}");
        struct pawl_json all = pawl_json_read(claims);
        assert_int_equal(pawl_json_int(pawl_json_get(all, "claims.0.lease.attempt"), 0), 1);
        pawl_free(claims);
    }
    pawl_close(pawl);
    finish(&owner);
}

struct waiter {
    struct pawl *pawl;
    const char *request;
    verb_function verb;
    char *answer;
    int64_t took_ms;
};

static void *wait_there(void *arg)
{
    struct waiter *waiter = arg;
    int64_t start_at = clock_monotonic_ms();
    struct pawl_error error;
    if (waiter->verb(waiter->pawl, waiter->request, &waiter->answer, &error) != PAWL_OK)
        waiter->answer = NULL;
    waiter->took_ms = clock_monotonic_ms() - start_at;
    return NULL;
}

static pthread_t begin_wait(struct waiter *waiter)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_there, waiter), 0);
    return thread;
}

static void a_wait_lasts_as_long_as_asked_and_ends_when_work_comes(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct pawl *pawl = open_at(place->path, 0);
    int64_t start_at = clock_monotonic_ms();
    char *nothing = ask(pawl, pawl_claim, "{\"wait_ms\" : 1300 ,\"worker_id\":\"w\"}");
    assert_true(clock_monotonic_ms() - start_at >= 1300);
    assert_true(clock_monotonic_ms() - start_at < 2500);
    assert_string_equal(nothing, "{\"claims\":[]}");
    pawl_free(nothing);

    struct waiter claim = {pawl, "{\"worker_id\":\"w\",\"wait_ms\":20000}", pawl_claim, NULL, 0};
    struct waiter feed = {pawl, "{\"wait_ms\":20000}", pawl_feed, NULL, 0};
    pthread_t claiming = begin_wait(&claim);
    pthread_t feeding = begin_wait(&feed);
    rest_ms(1200);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
    (void)pthread_join(claiming, NULL);
    (void)pthread_join(feeding, NULL);
    assert_true(claim.took_ms < 5000 && feed.took_ms < 5000);
    char *id = text_of(claim.answer, "claims.0.job.id");
    char *token = text_of(claim.answer, "claims.0.lease.token");
    assert_non_null(pawl_json_get(pawl_json_read(feed.answer), "events.0.type").at);

    char wait_for_job[128];
    char done[512];
    (void)snprintf(wait_for_job, sizeof wait_for_job, "{\"id\":\"%s\",\"wait_ms\":20000}", id);
    (void)snprintf(done, sizeof done, "{\"token\":\"%s\"}", token);
    struct waiter get = {pawl, wait_for_job, pawl_get, NULL, 0};
    pthread_t getting = begin_wait(&get);
    rest_ms(1200);
    ask_and_forget(pawl, pawl_complete, done);
    (void)pthread_join(getting, NULL);
    assert_true(get.took_ms >= 1000 && get.took_ms < 5000);
    assert_true(pawl_json_is(pawl_json_get(pawl_json_read(get.answer), "status"), "completed"));
    pawl_free(get.answer);
    pawl_free(feed.answer);
    pawl_free(claim.answer);
    pawl_free(token);
    pawl_free(id);
    pawl_close(pawl);
    finish(&owner);
}

static void an_interrupt_ends_waits_on_the_other_side_too(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct pawl *pawl = open_at(place->path, 0);
    struct waiter waiter = {pawl, "{\"worker_id\":\"w\",\"wait_ms\":50000}", pawl_claim, NULL, 0};
    pthread_t thread = begin_wait(&waiter);
    rest_ms(100);
    pawl_interrupt(pawl);
    (void)pthread_join(thread, NULL);
    assert_true(waiter.took_ms < 3000);
    assert_string_equal(waiter.answer, "{\"claims\":[]}");
    pawl_free(waiter.answer);
    (void)wait_there(&waiter);
    assert_true(waiter.took_ms < 1000);
    pawl_free(waiter.answer);
    pawl_close(pawl);
    finish(&owner);
}

static void a_wait_outlives_the_owner(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct pawl *pawl = open_at(place->path, 0);
    struct waiter waiter = {pawl, "{\"worker_id\":\"w\",\"wait_ms\":30000}", pawl_claim, NULL, 0};
    pthread_t thread = begin_wait(&waiter);
    rest_ms(100);
    finish(&owner);
    rest_ms(100);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
    (void)pthread_join(thread, NULL);
    assert_true(waiter.took_ms < 10000);
    assert_non_null(waiter.answer);
    assert_non_null(pawl_json_get(pawl_json_read(waiter.answer), "claims.0.lease.token").at);
    pawl_free(waiter.answer);
    pawl_close(pawl);
}

static void more_threads_than_connections_take_turns(void **state)
{
    enum { THREADS = 100 };
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    struct pawl *pawl = open_at(place->path, 0);
    struct waiter waiters[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        bool waits = i % 2 == 0;
        waiters[i] = (struct waiter){
            pawl,
            waits ? "{\"worker_id\":\"w\",\"wait_ms\":300,\"kinds\":[\"none\"]}"
                  : "{\"kind\":\"a\"}",
            waits ? pawl_claim : pawl_submit,
            NULL,
            0,
        };
        threads[i] = begin_wait(&waiters[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_non_null(waiters[i].answer);
        pawl_free(waiters[i].answer);
    }
    assert_int_equal(count_jobs(pawl, "a"), THREADS / 2);
    pawl_close(pawl);
    finish(&owner);
}

/* ---- files that people delete ---- */

static void a_socket_that_is_deleted_is_made_again(void **state)
{
    struct place *place = *state;
    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    assert_int_equal(unlink(beside(place, ".sock")), 0);
    struct pawl *pawl = open_at(place->path, 0);
    ask_and_forget(pawl, pawl_submit, "{\"kind\":\"a\"}");
    assert_int_equal(owner_of(place), owner.pid);
    struct stat status;
    assert_int_equal(stat(beside(place, ".sock"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    pawl_close(pawl);
    finish(&owner);
    assert_false(is_there(beside(place, ".sock")));
}

static void
an_owner_whose_files_are_deleted_acknowledges_nothing_and_leaves_the_next_alone(void **state)
{
#if defined(__SANITIZE_THREAD__)
    skip(); /* a process that has threads is forked, and begins more: it cannot follow that */
#endif
    static const char *const suffixes[] = {"", ".lock", "-wal", "-shm", ".sock"};
    struct place *place = *state;
    struct pawl *first = open_at(place->path, 1);
    struct pawl_error error;
    char *answer = NULL;
    ask_and_forget(first, pawl_submit, "{\"kind\":\"a\"}");
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        assert_int_equal(unlink(beside(place, suffixes[i])), 0);
    assert_int_equal(pawl_submit(first, "{\"kind\":\"a\"}", &answer, &error), PAWL_UNAVAILABLE);
    assert_says(error.message, "deleted or replaced");
    assert_int_equal(pawl_list(first, "{}", &answer, &error), PAWL_UNAVAILABLE);

    struct child owner = start(own_until_told, place);
    assert_true(hear(owner.line));
    rest_ms(2500); /* until the first one has looked for its socket */
    struct pawl *second = open_at(place->path, 0);
    ask_and_forget(second, pawl_submit, "{\"kind\":\"b\"}");
    assert_int_equal(pawl_submit(first, "{\"kind\":\"a\"}", &answer, &error), PAWL_UNAVAILABLE);
    pawl_close(first);
    assert_true(is_there(beside(place, "-wal")));
    assert_true(is_there(beside(place, ".sock")));
    assert_int_equal(count_jobs(second, "a"), 0);
    assert_int_equal(count_jobs(second, "b"), 1);
    pawl_close(second);
    finish(&owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_PLACE(a_second_process_works_through_the_owner),
        IN_PLACE(all_who_create_a_store_at_once_can_use_it),
        IN_PLACE(what_cannot_be_opened_is_refused_at_once),
        IN_PLACE(two_handles_of_one_process_share_the_store),
        IN_PLACE(a_path_may_be_longer_than_an_address),
        IN_PLACE(only_its_user_may_use_the_socket_and_a_dead_one_is_replaced),
        IN_PLACE(an_owner_that_is_root_refuses_other_users_whatever_the_mode_of_its_socket),
        IN_PLACE(root_goes_through_another_user_only_to_a_file_of_that_user),
        IN_PLACE(when_owners_are_killed_nothing_is_lost_and_nothing_done_twice),
        IN_PLACE(a_client_that_dies_while_it_waits_gets_no_lease),
        IN_PLACE(a_wait_lasts_as_long_as_asked_and_ends_when_work_comes),
        IN_PLACE(an_interrupt_ends_waits_on_the_other_side_too),
        IN_PLACE(a_wait_outlives_the_owner),
        IN_PLACE(more_threads_than_connections_take_turns),
        IN_PLACE(a_socket_that_is_deleted_is_made_again),
        IN_PLACE(an_owner_whose_files_are_deleted_acknowledges_nothing_and_leaves_the_next_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
