/* What a whole life of a job costs in the core: created, leased, running, completed, with a payload
 * of 200 bytes.
 *
 *   life      decide and evolve, nothing else
 *   sealed    the same, with the events' JSON written and their hash chain computed
 *   replay    the four sealed events opened again from their bytes and folded
 *   verified  the checker over them, chain included
 *
 * scripts/bench runs this under callgrind; on its own it only says how much it did. With --tools it
 * says what all of these programs are built with. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/decide.h"
#include "core/evolve.h"
#include "core/verify.h"
#include "measure.h"

enum { JOBS = 2000, LIFE_EVENTS = 4 };

struct bench {
    struct arena arena;   /* of the life */
    struct arena scratch; /* of those who read it */
    struct spec spec;
    bool seal;
    struct event events[LIFE_EVENTS];
    uint32_t event_count;
    struct job_slice job;
};

static void decide(struct bench *bench, const struct command *command)
{
    struct context context = {.now = 1767225600000, .arena = &bench->arena};
    struct decision decision;
    struct err err;
    uint8_t head[HASH_LEN];
    memcpy(head, bench->job.job.head, HASH_LEN);
    enum error_code code = job_decide(&bench->job, command, &context, &decision, &err);
    if (code == ERR_OK && bench->seal)
        code = decision_seal(&decision, head, &bench->arena, &err);
    assert(code == ERR_OK);
    (void)code;
    for (uint32_t i = 0; bench->seal && i < decision.count; i++)
        bench->events[bench->event_count++] = decision.events[i];
    bench->job = decision.after;
    if (command->type == COMMAND_CLAIM)
        bench->job.job.cursor = decision.result.token; /* kept here for the completion */
}

static void live(struct bench *bench)
{
    struct command submit = {.type = COMMAND_SUBMIT, .actor = STR("producer")};
    struct command claim = {.type = COMMAND_CLAIM, .actor = STR("worker-1")};
    struct command complete = {.type = COMMAND_COMPLETE, .actor = STR("worker-1")};
    arena_clear(&bench->arena);
    bench->event_count = 0;
    job_slice_init(&bench->job, (struct uuid){{1}}, 1);
    submit.submit.spec = &bench->spec;
    decide(bench, &submit);
    claim.claim.worker_id = STR("worker-1");
    claim.claim.start = true;
    decide(bench, &claim);
    complete.token = bench->job.job.cursor;
    complete.complete.result = STR("{\"ok\":true}");
    decide(bench, &complete);
    assert(bench->job.job.status == JOB_COMPLETED && bench->job.job.version == LIFE_EVENTS);
}

static void replay(struct bench *bench)
{
    struct job_slice job;
    struct err err;
    arena_clear(&bench->scratch);
    job_slice_init(&job, (struct uuid){{1}}, 1);
    for (uint32_t i = 0; i < bench->event_count; i++) {
        enum error_code code = event_open(&bench->events[i], 1, &bench->scratch, &err);
        if (code == ERR_OK)
            code = job_evolve(&job, &bench->events[i], &bench->scratch, &err);
        assert(code == ERR_OK);
        (void)code;
    }
    assert(job.job.status == JOB_COMPLETED);
}

static void verify(struct bench *bench)
{
    struct verify_report report;
    struct err err;
    struct verify_input input = {.id = {{1}},
                                 .events = bench->events,
                                 .count = bench->event_count,
                                 .salt = bench->job.job.salt};
    arena_clear(&bench->scratch);
    enum error_code code = job_verify(&input, &bench->scratch, &report, &err);
    assert(code == ERR_OK && report.violation_count == 0);
    (void)code;
}

static const struct {
    const char *name;
    bool seal;
    void (*work)(struct bench *bench);
} scenarios[] = {
    {"life", false, live},
    {"sealed", true, live},
    {"replay", true, replay},
    {"verified", true, verify},
};

int main(int argc, char **argv)
{
    static char payload[200];
    memset(payload, 'x', sizeof payload);
    payload[0] = payload[sizeof payload - 1] = '"';
    struct bench bench = {.spec = spec_defaults(NULL)};
    bench.spec.kind = STR("mail.send");
    bench.spec.payload = (struct str){payload, sizeof payload};
    arena_init(&bench.arena);
    arena_init(&bench.scratch);
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "--tools") == 0)
        return measure_tools();

    int status = 2;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strcmp(argv[1], "--list") == 0) {
            status = puts(scenarios[i].name) < 0;
        } else if (strcmp(argv[1], scenarios[i].name) == 0) {
            bench.seal = scenarios[i].seal;
            live(&bench);
            measure_begin();
            for (int job = 0; job < JOBS; job++)
                scenarios[i].work(&bench);
            measure_end();
            status = printf("%d job\n", JOBS) < 0;
        }
    }
    arena_release(&bench.arena);
    arena_release(&bench.scratch);
    return status;
}
