#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/screen.h"

static enum cli_exit run(const struct args *args)
{
    char *payload;
    enum cli_exit code = cli_json_option(args, "--payload", &payload);
    if (code != CLI_DONE)
        return code;
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id", cli_word(args, 0));
    pawl_object_text(request, "correlation_key", cli_word(args, 1));
    pawl_object_json(request, "payload", payload);
    cli_put_text(args, "--signal-id", request, "signal_id");
    if (cli_has(args, "--early"))
        pawl_object_flag(request, "early", 1);
    free(payload);

    char *answer;
    code = cli_ask_once(args, pawl_signal, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        print_value(pawl_json_get(pawl_json_read(answer), "signal"));
        fputc('\n', stdout);
    }
    pawl_free(answer);
    return CLI_DONE;
}

static const struct option options[] = {
    {.name = "--payload",
     .value = "JSON",
     .field = "payload",
     .text = "payload: JSON, @FILE or - (stdin)"},
    {.name = "--signal-id",
     .value = "TEXT",
     .field = "signal_id",
     .text = "a repeated id is delivered once"},
    {.name = "--early",
     .field = "early: true",
     .text = "store it even if the job waits for another key"},
    {0},
};

const struct verb verb_signal = {
    .name = "signal",
    .summary = "send a signal to a waiting job",
    .arguments = "ID KEY",
    .about = "Sends a signal to a job and prints the outcome: delivered to its wait, stored for a\n"
             "later wait, or repeated if it was delivered before.\n",
    .options = options,
    .examples =
        "  pawl signal 0190163d-8694-739b-aea5-966c26f8ad91 payment-17 --payload '{\"paid\": "
        "true}'\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
