#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/fate.h"
#include "cli/result.h"
#include "cli/text.h"
#include "cli/when.h"
#include "cli/work_step.h"

enum {
    GRACE_MS = 10 * 1000, /* from SIGTERM to SIGKILL, when a job is cancelled */
    HASTE_MS = 2 * 1000,  /* the same when its lease is lost, or we are told to end at once */

    /* Where a command cannot be started because something is short, so often is it tried. */
    STARTS_MAX = 5,
    START_PAUSE_MS = 500, /* before the second try; twice as long before each one after it */

    /* Linux takes no setting of more than 128 KiB. */
    SETTING_BYTES_MAX = 100 * 1024,
};

/* Why a command was ended before it was done. */
enum why { WHY_NOT, WHY_CANCELLED, WHY_LOST, WHY_TOLD };

/* A command that runs, or whose outcome is being reported. */
struct running {
    struct work *work;
    const struct pawl_task *task;
    long long since; /* on the steady clock, as is kill_at: ms */
    enum why why;
    long long kill_at;
    atomic_bool started;
    struct running *next;
};

/* What is known of a lack of files, memory or processes. */
struct shortage {
    int tries;          /* so often in a row it was found, one after the other */
    long long until_ms; /* nothing is tried before this moment of the steady clock */
};

struct work {
    const struct args *args;
    struct pawl *pawl;
    char *path;
    char *store_url;
    bool terminal;
    bool judge;
    atomic_int told;   /* how many signals have come */
    atomic_int broken; /* errno: the command cannot be started any more */
    atomic_bool over;
    _Atomic(struct pawl_worker *) worker;
    pthread_mutex_t lock;
    struct running *running; /* under the lock */
    struct shortage shortage;
};

static long long steady_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- what is said about it ---------------------------------------------------------------- */

static void write_line(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

/* A line about the worker as a whole. */
static void say(const struct work *work, const char *event, const char *text)
{
    if (work->terminal) {
        char *visible = text_visible(text, strlen(text));
        if (visible != NULL)
            write_line(visible);
        free(visible);
        return;
    }
    char at[WHEN_LEN_MAX];
    struct pawl_object *line = pawl_object_new();
    when_write(when_now(), at);
    pawl_object_text(line, "at", at);
    pawl_object_text(line, "event", event);
    pawl_object_text(line, "message", text);
    const char *written = pawl_object_str(line);
    if (written != NULL)
        write_line(written);
    pawl_object_free(line);
}

/* A line about a job: what came of it. `fate` says what comes next; NULL: nothing does. */
static void say_job(const struct work *work, const struct pawl_task *task, const char *how,
                    long long ms, const char *detail, const struct fate *fate)
{
    if (work->terminal) {
        char took[DURATION_LEN_MAX];
        char next[128] = "";
        char line[1024];
        duration_write(ms, took);
        if (fate != NULL)
            fate_next(fate, next, sizeof next);
        (void)snprintf(line, sizeof line, "%-9s %s %s%s%s, attempt %lld, %s%s%s%s%s", how,
                       task->job_id, task->step != NULL ? task->step : "",
                       task->step != NULL ? " " : "", task->kind, task->attempt, took,
                       next[0] != '\0' ? ", " : "", next, *detail != '\0' ? ": " : "", detail);
        say(work, how, line);
        return;
    }
    char at[WHEN_LEN_MAX];
    struct pawl_object *line = pawl_object_new();
    when_write(when_now(), at);
    pawl_object_text(line, "at", at);
    pawl_object_text(line, "event", how);
    pawl_object_text(line, "job_id", task->job_id);
    if (task->step != NULL)
        pawl_object_text(line, "step", task->step);
    pawl_object_text(line, "kind", task->kind);
    pawl_object_int(line, "attempt", task->attempt);
    pawl_object_int(line, "took_ms", ms);
    if (fate != NULL) {
        pawl_object_text(line, "next", fate->next);
        pawl_object_text(line, "run_at", fate->run_at[0] != '\0' ? fate->run_at : NULL);
        pawl_object_text(line, "reason_code",
                         fate->reason_code[0] != '\0' ? fate->reason_code : NULL);
    }
    pawl_object_text(line, "message", *detail != '\0' ? detail : NULL);
    const char *written = pawl_object_str(line);
    if (written != NULL)
        write_line(written);
    pawl_object_free(line);
}

/* ---- running the command ------------------------------------------------------------------ */

static struct running *running_begin(struct work *work, const struct pawl_task *task)
{
    struct running *running = calloc(1, sizeof *running);
    if (running == NULL)
        return NULL;
    *running = (struct running){.work = work, .task = task, .since = steady_ms()};
    pthread_mutex_lock(&work->lock);
    running->next = work->running;
    work->running = running;
    pthread_mutex_unlock(&work->lock);
    return running;
}

/* Takes it out of the list; NULL: it never was in it. */
static struct running *running_end(struct work *work, const struct pawl_task *task)
{
    pthread_mutex_lock(&work->lock);
    struct running **at = &work->running;
    while (*at != NULL && (*at)->task != task)
        at = &(*at)->next;
    struct running *running = *at;
    if (running != NULL)
        *at = running->next;
    pthread_mutex_unlock(&work->lock);
    return running;
}

static enum child_wish wish(void *arg)
{
    struct running *running = arg;
    struct work *work = running->work;
    atomic_store(&running->started, true);
    enum pawl_end end = pawl_task_cancelled(running->task);
    int told = atomic_load(&work->told);
    enum why why = running->why;
    if (end == PAWL_LEASE_LOST)
        why = WHY_LOST;
    else if (told >= 2 && why != WHY_CANCELLED)
        why = WHY_TOLD;
    else if (end == PAWL_CANCEL_ASKED)
        why = WHY_CANCELLED;
    if (why == WHY_NOT)
        return CHILD_GO_ON;
    if (why != running->why) {
        running->why = why;
        running->kill_at = steady_ms() + HASTE_MS;
    }
    if (told >= 3 || (why != WHY_CANCELLED && steady_ms() >= running->kill_at))
        return CHILD_KILL;
    return CHILD_END;
}

/* Why the job woke, as a setting: without the payload where that is too long for one. */
static char *resume_text(const struct pawl_task *task)
{
    struct pawl_json resume = pawl_json_get(pawl_json_read(task->claim), "resume");
    if (resume.at == NULL)
        return NULL;
    if (resume.len <= SETTING_BYTES_MAX)
        return pawl_json_text(resume);

    struct pawl_object *object = pawl_object_new();
    char *key = pawl_json_text(pawl_json_get(resume, "correlation_key"));
    char *outcome = pawl_json_text(pawl_json_get(resume, "outcome"));
    pawl_object_text(object, "correlation_key", key);
    pawl_object_text(object, "outcome", outcome);
    pawl_object_json(object, "payload", "null");
    pawl_object_flag(object, "too_large", 1);
    char *text = pawl_copy(pawl_object_str(object));
    pawl_free(key);
    pawl_free(outcome);
    pawl_object_free(object);
    return text;
}

/* What a claim says of the job: in the job, or, for a step, beside it. NULL: nothing, or more than
 * a setting may have. */
static char *said_of_job(const struct pawl_task *task, const char *key)
{
    struct pawl_json claim = pawl_json_read(task->claim);
    struct pawl_json said =
        pawl_json_get(task->step != NULL ? claim : pawl_json_get(claim, "job"), key);
    return said.at == NULL || said.len > SETTING_BYTES_MAX ? NULL : pawl_json_text(said);
}

static int run_command(struct running *running, struct child_end *ret)
{
    const struct pawl_task *task = running->task;
    struct work *work = running->work;
    struct pawl_json job =
        pawl_json_get(pawl_json_read(task->claim), task->step != NULL ? "step" : "job");
    struct pawl_json cursor = pawl_json_get(job, "cursor");
    char attempt[32];
    int why = ENOMEM;
    (void)snprintf(attempt, sizeof attempt, "%lld", task->attempt);
    char *cursor_text = cursor.at != NULL ? pawl_json_text(cursor) : NULL;
    char *resume = resume_text(task);
    char *correlation = said_of_job(task, "correlation_id");
    char *agent = said_of_job(task, "agent_id");
    char *goal = said_of_job(task, "goal");

    /* clang-format off */
    const char *const pairs[] = {
        "PAWL_JOB_ID", task->job_id,
        "PAWL_ATTEMPT", attempt,
        "PAWL_LEASE", task->token,
        "PAWL_STORE", work->store_url,
        "PAWL_KIND", task->kind,
        "PAWL_TRACEPARENT", task->traceparent,
        "PAWL_CORRELATION_ID", correlation,
        "PAWL_AGENT_ID", agent,
        "PAWL_GOAL", goal,
        "PAWL_CURSOR", cursor_text,
        "PAWL_RESUME", resume,
        "PAWL_STEP", task->step,
        NULL,
    };
    /* clang-format on */
    char *input = step_input(task, work->judge);
    size_t input_len = input != NULL ? strlen(input) : 0;
    char **environment = child_environment(pairs);
    if (input != NULL && environment != NULL) {
        input[input_len] = '\n'; /* in place of its end: the length counts */
        struct child_task child = {
            .path = work->path,
            .argv = work->args->command,
            .environment = environment,
            .input = input,
            .input_len = input_len + 1,
            .output_max = RESULT_BYTES_MAX + 1,
            .own_group = true,
            .keep_tail = true,
            .grace_ms = GRACE_MS,
            .wish = wish,
            .arg = running,
        };
        why = child_run(&child, ret);
    }
    free(environment);
    free(input);
    pawl_free(goal);
    pawl_free(agent);
    pawl_free(correlation);
    pawl_free(resume);
    pawl_free(cursor_text);
    return why;
}

/* ---- what comes of it --------------------------------------------------------------------- */

static bool is_permanent(const struct work *work, int code)
{
    if (code == EXIT_PERMANENT)
        return true;
    size_t count = cli_count(work->args, "--permanent-exit");
    for (size_t i = 0; i < count; i++)
        if (strtol(cli_value_at(work->args, "--permanent-exit", i), NULL, 10) == code)
            return true;
    return false;
}

static void fail(struct pawl_outcome *outcome, const char *error_class, const char *message)
{
    outcome->how = PAWL_FAIL;
    outcome->error_class = error_class;
    (void)snprintf(outcome->message, sizeof outcome->message, "%s", message);
}

/* The end of what it said on stderr, from the first whole character on, as the message. */
static void take_tail(struct pawl_outcome *outcome, const struct child_end *end)
{
    const char *tail = end->tail;
    size_t len = end->tail_len;
    if (len == CHILD_TAIL_MAX)
        for (int i = 0; i < 3 && len > 0 && ((unsigned char)*tail & 0xC0) == 0x80; i++) {
            tail++;
            len--;
        }
    while (len > 0 && (tail[len - 1] == '\n' || tail[len - 1] == '\r' || tail[len - 1] == ' '))
        len--;
    if (len == 0)
        return;
    memcpy(outcome->message, tail, len);
    outcome->message[len] = '\0';
    for (size_t i = 0; i < len; i++)
        if (outcome->message[i] == '\0')
            outcome->message[i] = '?';
}

static const char *class_of(const struct work *work, const struct pawl_task *task, int code)
{
    if (is_permanent(work, code))
        return "permanent";
    if (task->step != NULL && code == EXIT_RESOURCE)
        return "resource";
    return code == EXIT_VALIDATION ? "validation" : "transient";
}

static void take_failure(const struct running *running, const struct child_end *end,
                         struct pawl_outcome *outcome)
{
    char text[128];
    struct pawl_object *details = pawl_object_new();
    if (end->signal != 0) {
        (void)snprintf(text, sizeof text, "the command was killed by signal %d", end->signal);
        pawl_object_int(details, "signal", end->signal);
        fail(outcome, "transient", text);
        (void)snprintf(outcome->error_code, sizeof outcome->error_code, "signal %d", end->signal);
    } else {
        (void)snprintf(text, sizeof text, "the command exited with code %d", end->code);
        pawl_object_int(details, "exit_code", end->code);
        fail(outcome, class_of(running->work, running->task, end->code), text);
        (void)snprintf(outcome->error_code, sizeof outcome->error_code, "exit %d", end->code);
    }
    outcome->details = pawl_copy(pawl_object_str(details));
    pawl_object_free(details);
    take_tail(outcome, end);
}

static void take_result(const struct child_end *end, struct pawl_outcome *outcome)
{
    char *json = result_json(end->output, end->output_len, false);
    outcome->result = pawl_copy(json);
    if (outcome->result == NULL)
        fail(outcome, "transient", "out of memory for the output of the command");
    free(json);
}

/* What a critic has said. One that fails, or says nothing that can be understood, changes nothing:
 * the step is given back, to be judged again. */
static void take_verdict(const struct running *running, const struct child_end *end,
                         struct pawl_outcome *outcome)
{
    struct pawl_error error = {0};
    outcome->how = PAWL_ENDED;
    if (end->code == 0 && end->signal == 0) {
        enum pawl_code code = step_verdict(running->task, end->output, end->output_len, &error);
        if (code == PAWL_OK || code == PAWL_STALE_LEASE)
            return;
        fail(outcome, NULL, error.message);
    } else {
        take_failure(running, end, outcome);
    }
    outcome->how = PAWL_RELEASE;
}

static void take_end(const struct running *running, const struct child_end *end,
                     struct pawl_outcome *outcome)
{
    switch (running->why) {
    case WHY_CANCELLED:
        outcome->how = PAWL_CANCELLED;
        return;
    case WHY_LOST:
        outcome->how = PAWL_ENDED;
        return;
    case WHY_TOLD:
        outcome->how = PAWL_RELEASE;
        (void)snprintf(outcome->message, sizeof outcome->message, "the worker is shutting down");
        return;
    case WHY_NOT:
        break;
    }
    if (running->work->judge)
        take_verdict(running, end, outcome);
    else if (end->output_cut || end->output_len > RESULT_BYTES_MAX + 1)
        fail(outcome, "permanent",
             "the output of the command exceeds 1 MiB, the limit of a result; write a file and "
             "print its path instead");
    else if (end->code == 0)
        take_result(end, outcome);
    else
        take_failure(running, end, outcome);
}

static void stop(struct work *work)
{
    pawl_worker_stop(atomic_load(&work->worker));
}

/* ---- commands that cannot be started ------------------------------------------------------ */

/* What to look at when there is not enough of something; NULL: it is not that. */
static const char *short_of(int why)
{
    switch (why) {
    case EMFILE:
        return "; see 'ulimit -n'";
    case ENFILE:
        return "; too many open files on this machine";
    case EAGAIN:
        return "; see 'ulimit -u'";
    case ENOMEM:
        return "; see 'ulimit -v', or lower --concurrency";
    default:
        return NULL;
    }
}

/* Whether a command runs: when it has ended there may be enough for another. Under the lock. */
static bool any_started(const struct work *work)
{
    for (const struct running *at = work->running; at != NULL; at = at->next)
        if (atomic_load(&at->started))
            return true;
    return false;
}

static void not_started(struct work *work, int why)
{
    bool over = short_of(why) == NULL;
    pthread_mutex_lock(&work->lock);
    struct shortage *shortage = &work->shortage;
    /* Those that were started at the same time have all found the same. */
    if (steady_ms() >= shortage->until_ms) {
        shortage->tries += shortage->tries < STARTS_MAX;
        shortage->until_ms = steady_ms() + ((long long)START_PAUSE_MS << (shortage->tries - 1));
    }
    if (shortage->tries == STARTS_MAX && !any_started(work))
        over = true;
    pthread_mutex_unlock(&work->lock);
    if (over) {
        atomic_store(&work->broken, why);
        stop(work);
    }
}

static void was_started(struct work *work)
{
    pthread_mutex_lock(&work->lock);
    work->shortage = (struct shortage){0};
    pthread_mutex_unlock(&work->lock);
}

/* Takes no other job before there is a point in trying again. */
static void wait_for_more(struct work *work)
{
    enum { NAP_MS = 50 };
    for (;;) {
        pthread_mutex_lock(&work->lock);
        long long left = work->shortage.until_ms - steady_ms();
        pthread_mutex_unlock(&work->lock);
        if (left <= 0 || atomic_load(&work->told) > 0 || atomic_load(&work->broken) != 0)
            return;
        struct timespec nap = {.tv_nsec = (left < NAP_MS ? left : NAP_MS) * 1000000L};
        (void)nanosleep(&nap, NULL);
    }
}

static void handle(void *arg, const struct pawl_task *task, struct pawl_outcome *outcome)
{
    struct work *work = arg;
    struct child_end end = {0};
    if (pawl_json_get(pawl_json_read(task->claim), "inputs_left").at != NULL) {
        outcome->how = PAWL_FAIL;
        (void)snprintf(outcome->message, sizeof outcome->message,
                       "some inputs of the step were left out: see inputs_left in the claim");
        return;
    }
    struct running *running = running_begin(work, task);
    int why = running != NULL ? run_command(running, &end) : ENOMEM;
    if (why == 0) {
        was_started(work);
        take_end(running, &end, outcome);
    } else {
        /* Nothing is wrong with the job. When we are short of something that may pass; a command
         * that cannot be run fails all jobs, so no more are taken. */
        outcome->how = PAWL_RELEASE;
        (void)snprintf(outcome->message, sizeof outcome->message, "cannot run the command: %s%s",
                       strerror(why), short_of(why) != NULL ? short_of(why) : "");
        not_started(work, why);
    }
    free(end.output);
}

/* A job whose lease was over before anything could be reported. */
static void say_ended(const struct work *work, const struct pawl_task *task, long long ms)
{
    struct fate fate;
    fate_read(work->pawl, task, &fate);
    if (fate.how != NULL)
        say_job(work, task, fate.how, ms, fate.detail, &fate);
    else
        say_job(work, task, "ended", ms, "the lease expired; nothing is reported", NULL);
}

static void say_failed(const struct work *work, const struct pawl_task *task, long long ms,
                       const struct pawl_outcome *outcome)
{
    struct fate fate;
    char detail[600];
    fate_read(work->pawl, task, &fate);
    (void)snprintf(detail, sizeof detail, "%s: %.500s",
                   outcome->error_class != NULL ? outcome->error_class : "transient",
                   outcome->message);
    say_job(work, task, "failed", ms, detail, &fate);
}

static void reported(void *arg, const struct pawl_task *task, const struct pawl_outcome *outcome,
                     const struct pawl_error *error)
{
    struct work *work = arg;
    struct running *running = running_end(work, task);
    long long ms = running != NULL ? steady_ms() - running->since : 0;
    free(running);
    if (error != NULL && error->code != PAWL_STALE_LEASE) {
        char detail[600];
        (void)snprintf(detail, sizeof detail, "cannot store the outcome: %s", error->message);
        say_job(work, task, "lost", ms, detail, NULL);
        return;
    }
    if (error != NULL) {
        say_ended(work, task, ms);
        return;
    }
    switch (outcome->how) {
    case PAWL_ENDED:
        if (work->judge)
            say_job(work, task, "judged", ms, "", NULL);
        else
            say_ended(work, task, ms);
        return;
    case PAWL_FAIL:
        say_failed(work, task, ms, outcome);
        return;
    case PAWL_RELEASE:
        say_job(work, task, "released", ms, outcome->message, NULL);
        wait_for_more(work);
        return;
    case PAWL_CANCELLED:
        say_job(work, task, "cancelled", ms, "", NULL);
        return;
    case PAWL_COMPLETE:
        say_job(work, task, "completed", ms, "", NULL);
        return;
    }
}

static void trouble(void *arg, const struct pawl_error *error)
{
    const struct work *work = arg;
    char text[600];
    if (error == NULL) {
        say(work, "store_back", "the store is available again");
        return;
    }
    (void)snprintf(text, sizeof text, "the store is unavailable, retrying: %s", error->message);
    say(work, "store_away", text);
}

/* ---- signals ------------------------------------------------------------------------------ */

static void our_signals(sigset_t *ret)
{
    (void)sigemptyset(ret);
    (void)sigaddset(ret, SIGINT);
    (void)sigaddset(ret, SIGTERM);
    (void)sigaddset(ret, SIGUSR1); /* from ourselves: it is over */
}

/* Takes the signals, which are blocked everywhere else. */
static void *signals_main(void *arg)
{
    struct work *work = arg;
    sigset_t ours;
    int signal;
    our_signals(&ours);
    while (sigwait(&ours, &signal) == 0 && !atomic_load(&work->over)) {
        if (signal == SIGUSR1)
            continue;
        if (atomic_fetch_add(&work->told, 1) == 0)
            say(work, "draining",
                "no longer claiming jobs; waiting for running jobs; a second signal ends them");
        else
            say(work, "ending", "ending the running commands and releasing their jobs");
        stop(work);
    }
    return NULL;
}

/* ---- the verb ----------------------------------------------------------------------------- */

/* A SQLite file is named from the root on, since the command may change its directory. */
static char *absolute_url(const char *url)
{
    static const char scheme[] = "sqlite:";
    size_t len = sizeof scheme - 1;
    if (strncmp(url, scheme, len) != 0 || url[len] == '/' || url[len] == '\0')
        return strdup(url);
    char *here = getcwd(NULL, 0);
    if (here == NULL)
        return strdup(url);
    size_t size = len + strlen(here) + 1 + strlen(url + len) + 1;
    char *absolute = malloc(size);
    if (absolute != NULL)
        (void)snprintf(absolute, size, "%s%s/%s", scheme, here, url + len);
    free(here);
    return absolute;
}

/* All values of an option that may come again; to be freed. */
static const char **values_of(const struct args *args, const char *name, size_t *ret_count)
{
    size_t count = cli_count(args, name);
    const char **values = calloc(count + 1, sizeof *values);
    for (size_t i = 0; values != NULL && i < count; i++)
        values[i] = cli_value_at(args, name, i);
    *ret_count = count;
    return values;
}

static enum cli_exit check_permanent_exits(const struct args *args)
{
    size_t count = cli_count(args, "--permanent-exit");
    for (size_t i = 0; i < count; i++) {
        const char *value = cli_value_at(args, "--permanent-exit", i);
        char *end;
        long code = strtol(value, &end, 10);
        if (*value == '\0' || *end != '\0' || code < 1 || code > 255)
            return cli_usage(args->verb,
                             "--permanent-exit requires exit codes from 1 to 255, not '%s'", value);
    }
    return CLI_DONE;
}

/* Runs the worker until it has ended. */
/* A worker on the wrong store, or for a kind that was mistyped, waits for ever: so it says what it
 * waits for. */
static void say_waiting(const struct work *work)
{
    char kinds[256] = "";
    char text[1024];
    size_t count = cli_count(work->args, "--kind");
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(kinds);
        (void)snprintf(kinds + len, sizeof kinds - len, "%s%s", i > 0 ? ", " : "",
                       cli_value_at(work->args, "--kind", i));
    }
    char *store = cli_url_text(cli_store_url(work->args));
    (void)snprintf(text, sizeof text, "waiting for %s of kind %s in %s",
                   cli_has(work->args, "--resource") || work->judge ? "steps" : "jobs", kinds,
                   store != NULL ? store : "the store");
    say(work, "waiting", text);
    free(store);
}

static enum cli_exit work_with(struct work *work, const struct pawl_worker_options *wanted)
{
    struct pawl_worker *worker;
    struct pawl_error error = {0};
    pthread_t signals;
    if (pthread_create(&signals, NULL, signals_main, work) != 0) {
        cli_complain(work->args->verb, "cannot start a thread");
        return CLI_FAILED;
    }

    long long done = 0;
    enum pawl_code code = pawl_worker_start(work->pawl, wanted, &worker, &error);
    if (code == PAWL_OK) {
        atomic_store(&work->worker, worker);
        if (!wanted->drain)
            say_waiting(work);
        /* A stop that was requested before the child was there. */
        if (atomic_load(&work->told) > 0 || atomic_load(&work->broken) != 0)
            pawl_worker_stop(worker);
        (void)pawl_worker_wait(worker, -1);
    }
    atomic_store(&work->over, true);
    (void)pthread_kill(signals, SIGUSR1);
    (void)pthread_join(signals, NULL);
    if (code == PAWL_OK)
        code = pawl_worker_join(worker, &done, &error);

    if (code != PAWL_OK)
        return cli_failed(work->args->verb, &error);
    if (atomic_load(&work->broken) != 0) {
        int why = atomic_load(&work->broken);
        cli_complain(work->args->verb, "cannot run the command %s any more: %s%s", work->path,
                     strerror(why), short_of(why) != NULL ? short_of(why) : "");
        return CLI_FAILED;
    }
    return CLI_DONE;
}

static enum cli_exit read_options(const struct args *args, struct pawl_worker_options *ret)
{
    long long concurrency = 1;
    enum cli_exit code = cli_number(args, "--concurrency", 1, 1000, &concurrency);
    if (code == CLI_DONE)
        code = cli_duration(args, "--lease-ttl", &ret->lease_ttl_ms);
    if (code == CLI_DONE)
        code = check_permanent_exits(args);
    if (code != CLI_DONE)
        return code;
    if (cli_count(args, "--kind") == 0)
        return cli_usage(args->verb, "missing --kind KIND");
    if (cli_has(args, "--resource") && cli_has(args, "--judge"))
        return cli_usage(args->verb, "--resource and --judge exclude each other");
    if (cli_count(args, "--label") > 0 && !cli_has(args, "--resource"))
        return cli_usage(args->verb, "--label requires --resource");
    if (cli_has(args, "--shared") && !cli_has(args, "--resource"))
        return cli_usage(args->verb, "--shared requires --resource");
    if (cli_has(args, "--once") && cli_has(args, "--drain"))
        return cli_usage(args->verb, "--once and --drain exclude each other");
    ret->concurrency = (int)concurrency;
    ret->once = cli_has(args, "--once");
    ret->drain = cli_has(args, "--drain");
    ret->worker_id = cli_value(args, "--worker-id");
    ret->resource_id = cli_value(args, "--resource");
    ret->resource_shared = cli_has(args, "--shared");
    ret->judge = cli_has(args, "--judge");
    ret->code_version = cli_value(args, "--code-version");
    return CLI_DONE;
}

static enum cli_exit run(const struct args *args)
{
    struct pawl_worker_options wanted = {
        .handler = handle, .reported = reported, .trouble = trouble};
    enum cli_exit code = read_options(args, &wanted);
    if (code != CLI_DONE)
        return code;

    struct work work = {
        .args = args, .terminal = isatty(STDERR_FILENO) == 1, .judge = wanted.judge != 0};
    work.path = child_find(args->command[0]);
    if (work.path == NULL)
        return cli_usage(args->verb, "cannot run the command '%s': %s", args->command[0],
                         errno == ENOENT ? "program not found" : strerror(errno));
    work.store_url = absolute_url(cli_store_url(args));
    const char **kinds = values_of(args, "--kind", &wanted.kind_count);
    const char **queues = values_of(args, "--queue", &wanted.queue_count);
    const char **capabilities = values_of(args, "--capability", &wanted.capability_count);
    const char **labels = values_of(args, "--label", &wanted.label_count);
    wanted.labels = labels;
    wanted.kinds = kinds;
    wanted.queues = queues;
    wanted.capabilities = capabilities;
    wanted.arg = &work;
    (void)pthread_mutex_init(&work.lock, NULL);

    /* From here on signals are for their own thread, which all others inherit. */
    sigset_t ours;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    our_signals(&ours);
    (void)pthread_sigmask(SIG_BLOCK, &ours, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);

    if (work.store_url == NULL || kinds == NULL || queues == NULL || capabilities == NULL ||
        labels == NULL)
        code = cli_no_memory(args->verb);
    if (code == CLI_DONE)
        code = cli_open(args, cli_has(args, "--create"), &work.pawl);
    if (code == CLI_DONE)
        code = work_with(&work, &wanted);
    pawl_close(work.pawl);
    (void)pthread_mutex_destroy(&work.lock);
    free(labels);
    free(capabilities);
    free(queues);
    free(kinds);
    free(work.store_url);
    free(work.path);
    return code;
}

static const struct option options[] = {
    {.name = "--kind",
     .value = "KIND",
     .text = "jobs of these kinds",
     .times = OPTION_MANY,
     .required = true},
    {.name = "--queue",
     .value = "Q",
     .text = "only from these queues (default: all)",
     .times = OPTION_MANY},
    {.name = "--capability",
     .value = "C",
     .text = "capability of this worker",
     .times = OPTION_MANY},
    {.name = "--resource",
     .value = "ID",
     .field = "resource_id",
     .text = "claim steps of plans on this resource instead of jobs"},
    {.name = "--shared", .text = "share the resource with workers of every queue (admin)"},
    {.name = "--label",
     .value = "K:V",
     .text = "label of the resource, for selectors",
     .times = OPTION_MANY},
    {.name = "--judge", .text = "claim finished steps and let COMMAND judge them"},
    {.name = "--concurrency", .value = "N", .text = "number of concurrent jobs (default: 1)"},
    {.name = "--once", .text = "exit after one job"},
    {.name = "--drain", .text = "exit when no job is ready"},
    {.name = "--create", .text = "create the store if it does not exist"},
    {.name = "--lease-ttl",
     .value = "D",
     .field = "lease_ttl_ms",
     .text = "lease duration: time until the job is retried if this program dies"},
    {.name = "--permanent-exit",
     .value = "N",
     .text = "exit codes after which a job is not retried, besides 77",
     .times = OPTION_MANY},
    {.name = "--code-version",
     .value = "V",
     .field = "code_version",
     .text = "the version of COMMAND, for jobs that are pinned to one"},
    {.name = "--worker-id",
     .value = "ID",
     .field = "worker_id",
     .text = "worker name (default: host, process and a random part)"},
    {0},
};

const struct verb verb_work = {
    .name = "work",
    .summary = "run a command for each job",
    .about =
        "Claims jobs and runs COMMAND for each, with the payload on stdin. The store must exist;\n"
        "--create creates it. Leases are renewed automatically. The exit code of COMMAND decides\n"
        "the outcome of the job:\n"
        "\n"
        "  exit 0    completed; stdout is the result, as JSON or else as a string\n"
        "  exit 65   failed, invalid payload (validation): not retried\n"
        "  exit 77   failed permanently (permanent): not retried\n"
        "  other exit codes and signals: failed (transient), retried later\n"
        "\n"
        "A result is limited to 1 MiB of JSON; in a string, line ends and quotes count twice.\n"
        "Invalid UTF-8 is replaced by U+FFFD: for binary output print a path, or encode it.\n"
        "\n"
        "The end of stderr is the error message. COMMAND finds in its environment PAWL_JOB_ID,\n"
        "PAWL_KIND, PAWL_ATTEMPT (increases with every claim), PAWL_STORE and PAWL_LEASE, which\n"
        "'pawl lease' uses to report progress, waits and effects; PAWL_CORRELATION_ID and\n"
        "PAWL_TRACEPARENT, which 'pawl submit' inherits; PAWL_AGENT_ID, PAWL_GOAL and PAWL_CURSOR\n"
        "if the job has them; and after a wait PAWL_RESUME: JSON with correlation_key, outcome\n"
        "(signal or timeout) and payload. The rest of the environment is inherited, including\n"
        "PAWL_TOKEN.\n"
        "\n"
        "Jobs with a plan are not claimed; their steps are, with --resource. It names the\n"
        "resource on which the steps run, which is registered while this program runs, with\n"
        "--capability, --label and --concurrency slots. COMMAND gets {\"payload\", \"inputs\",\n"
        "\"answer\"?} on stdin, where inputs are the results of the dependencies, and PAWL_STEP.\n"
        "Exit 69 blames the resource (resource): the step moves to another one. The resource\n"
        "belongs to the queues of the token and gets only their steps; with --shared it serves\n"
        "all queues. A shared resource of that name is used as it is.\n"
        "\n"
        "With --judge, finished steps that await review are claimed. COMMAND also gets their\n"
        "result, and prints accept, retry, switch_resource, replan or needs_user, or JSON:\n"
        "{\"decision\", \"reason\"?, \"result\"?, \"question\"?}. If COMMAND fails, the step is "
        "judged\n"
        "again.\n"
        "\n"
        "If a job is cancelled, COMMAND and its process group get SIGTERM, and SIGKILL 10 s\n"
        "later. If the lease ends, because of 'pawl lease wait', a lost lease or the timeout of\n"
        "the attempt, COMMAND is ended (SIGKILL 2 s later) and nothing is reported. Except for\n"
        "the timeout this is noticed at the next heartbeat, within 2 s.\n"
        "\n"
        "If COMMAND cannot be started for lack of files or memory, its job is released and\n"
        "claimed again after a pause. After 5 failures in a row the exit code is 1.\n"
        "\n"
        "SIGTERM and SIGINT: no more jobs are claimed and running jobs are finished. A second\n"
        "signal ends the commands and releases their jobs. One line per job is written to stderr:\n"
        "text on a terminal, JSON elsewhere.\n",
    .options = options,
    .examples = "  pawl work --kind email -- ./send-mail.sh\n"
                "  pawl work --kind resize thumbnail --concurrency 4 --drain -- python3 image.py\n"
                "  pawl work --resource gpu-1 --capability gpu --kind train -- ./train.sh\n",
    .takes = TAKES_STORE | TAKES_COMMAND,
    .run = run,
};
