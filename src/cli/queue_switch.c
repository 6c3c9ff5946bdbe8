#include "cli/queue_switch.h"

#include <stdio.h>

#include "cli/screen.h"

enum cli_exit queue_switch(const struct args *args, cli_call call, const char *past)
{
    struct pawl *pawl;
    enum cli_exit result = cli_open(args, false, &pawl);
    if (result != CLI_DONE)
        return result;
    for (size_t i = 0; i < args->word_count; i++) {
        struct pawl_object *request = pawl_object_new();
        char *answer;
        pawl_object_text(request, "queue", args->words[i]);
        enum cli_exit code = cli_ask(args, pawl, call, request, &answer);
        if (code != CLI_DONE) {
            result = result == CLI_DONE ? code : result;
            continue;
        }
        if (cli_has(args, "--json")) {
            print_answer(answer);
        } else {
            print_text(args->words[i]);
            printf(": %s\n", past);
        }
        pawl_free(answer);
    }
    pawl_close(pawl);
    return result;
}
