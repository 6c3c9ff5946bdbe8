#include "cli/cli.h"
#include "cli/job_view.h"
#include "cli/screen.h"

static enum cli_exit run(const struct args *args)
{
    struct pawl_object *request = pawl_object_new();
    char *answer;
    pawl_object_text(request, "id", cli_word(args, 0));
    enum cli_exit code = cli_ask_once(args, pawl_get, request, &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json"))
        print_answer(answer);
    else
        job_print(pawl_json_read(answer));
    pawl_free(answer);
    return CLI_DONE;
}

const struct verb verb_show = {
    .name = "show",
    .summary = "show one job",
    .arguments = "ID",
    .about =
        "Prints everything about a job. 'pawl events' prints its history, 'pawl explain' explains\n"
        "its status.\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
