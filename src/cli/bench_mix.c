/* What 'pawl bench backlog --mix' puts in front of its jobs: work that stands where workers look
 * and that they may not have. A third is of another kind, a third is for tomorrow, and a third is
 * in a queue that is paused. */
#include <stdio.h>

#include "cli/bench.h"

enum { SORTS = 3, TOMORROW_MS = 24 * 60 * 60 * 1000 };

static void add_obstacle(struct draft *draft, const struct site *site, long long which)
{
    const char *payload = site->bench->payload;
    draft_print(draft, "%s{\"kind\":\"%s\",\"queue\":\"%s%s\"", which > 0 ? "," : "",
                which % SORTS == 0 ? BENCH_KIND_OTHER : BENCH_KIND, site->queue,
                which % SORTS == 1 ? BENCH_PAUSED : "");
    if (which % SORTS == 2)
        draft_print(draft, ",\"delay_ms\":%d", TOMORROW_MS);
    draft_print(draft, "%s%s}", payload != NULL ? ",\"payload\":" : "",
                payload != NULL ? payload : "");
}

void mix_produce(struct client *client)
{
    struct run *run = client->run;
    struct draft *request = &client->request;
    long long count;
    while ((count = run_take(run, run->batch)) > 0) {
        request->len = 0;
        draft_text(request, "{\"jobs\":[");
        for (long long i = 0; i < count; i++)
            add_obstacle(request, run->site, i);
        draft_text(request, "]}");
        if (request->failed) {
            struct pawl_error error = {.code = PAWL_NO_MEMORY, .message = "out of memory"};
            client_fail(client, &error);
            return;
        }
        /* Counts are those of our own queue, without what is in the paused one. */
        if (!client_submit_text(client, request->at, count - (count + 1) / SORTS))
            return;
        client_did(client, count);
    }
}

enum cli_exit mix_pause(struct site *site, bool pause)
{
    char *answer;
    char queue[128];
    struct pawl_object *request = pawl_object_new();
    (void)snprintf(queue, sizeof queue, "%s" BENCH_PAUSED, site->queue);
    pawl_object_text(request, "queue", queue);
    enum cli_exit code =
        cli_ask(site->bench->args, site->pawl, pause ? pawl_pause : pawl_resume, request, &answer);
    if (code == CLI_DONE)
        pawl_free(answer);
    return code;
}
