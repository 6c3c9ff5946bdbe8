/* Ids of jobs that were shortened: the first digits will do as long as only one job has them. */
#include <string.h>

#include "cli/cli.h"

enum { PREFIX_LEN_MIN = 4 };

/* Whether the word may be the beginning of an id, and is not all of one. */
static bool is_prefix(const char *word)
{
    size_t len = strlen(word);
    return len >= PREFIX_LEN_MIN && len < JOB_ID_LEN &&
           strspn(word, "0123456789abcdefABCDEF-") == len;
}

static enum cli_exit expand(const struct args *args, size_t at, struct pawl_json jobs)
{
    struct pawl_json first = {NULL, 0};
    if (pawl_json_next(jobs, &first, NULL) == 0) {
        cli_complain(args->verb, "no job has an id that starts with '%s'", args->words[at]);
        return CLI_NOT_FOUND;
    }
    struct pawl_json second = first;
    char *id = pawl_json_text(pawl_json_get(first, "id"));
    if (id == NULL || strlen(id) != JOB_ID_LEN) {
        pawl_free(id);
        return cli_no_memory(args->verb);
    }
    memcpy(args->ids[at], id, JOB_ID_LEN + 1);
    pawl_free(id);
    if (pawl_json_next(jobs, &second, NULL) == 0) {
        args->words[at] = args->ids[at];
        return CLI_DONE;
    }
    id = pawl_json_text(pawl_json_get(second, "id"));
    cli_complain(args->verb, "several jobs have an id that starts with '%s', for example %s and %s",
                 args->words[at], args->ids[at], id != NULL ? id : "another");
    pawl_free(id);
    return CLI_USAGE;
}

enum cli_exit cli_expand_id(const struct args *args, size_t at)
{
    char *answer;
    if (at >= args->word_count || !is_prefix(args->words[at]))
        return CLI_DONE;
    struct pawl_object *request = pawl_object_new();
    pawl_object_text(request, "id_prefix", args->words[at]);
    pawl_object_int(request, "limit", 2);
    enum cli_exit code = cli_ask_once(args, pawl_list, request, &answer);
    if (code != CLI_DONE)
        return code;
    code = expand(args, at, pawl_json_get(pawl_json_read(answer), "jobs"));
    pawl_free(answer);
    return code;
}

enum cli_exit cli_expand_ids(const struct args *args)
{
    const char *rest = args->verb->arguments;
    struct slot slot;
    size_t at = 0;
    enum cli_exit code = CLI_DONE;
    while (code == CLI_DONE && slot_next(&rest, &slot)) {
        bool is_id = slot.len == 2 && strncmp(slot.name, "ID", 2) == 0;
        do
            code = is_id ? cli_expand_id(args, at) : CLI_DONE;
        while (++at < args->word_count && slot.repeated && code == CLI_DONE);
    }
    return code;
}
