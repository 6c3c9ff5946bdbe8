#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/listing.h"
#include "cli/screen.h"

static const struct column columns[] = {
    {.title = "ID"},      {.title = "NAME", .gives_way = true},
    {.title = "SCOPES"},  {.title = "QUEUES", .gives_way = true},
    {.title = "CREATED"}, {.title = "EXPIRES"},
    {.title = "REVOKED"},
};

static void add_row(struct table *table, struct pawl_json token)
{
    table_value(table, pawl_json_get(token, "id"));
    table_value(table, pawl_json_get(token, "name"));
    table_list(table, pawl_json_get(token, "scopes"));
    table_list(table, pawl_json_get(token, "queues"));
    table_time(table, pawl_json_get(token, "created_at"));
    table_time(table, pawl_json_get(token, "expires_at"));
    table_time(table, pawl_json_get(token, "revoked_at"));
}

static enum cli_exit list(const struct args *args)
{
    static const struct listing listing = {
        .call = pawl_token_list,
        .path = "tokens",
        .columns = columns,
        .column_count = sizeof columns / sizeof columns[0],
        .add_row = add_row,
        .otherwise = "No tokens.",
    };
    return listing_run(args, &listing);
}

/* All values of an option as a list; CLI_FAILED: no memory, which was said. */
static enum cli_exit put_list(const struct args *args, const char *name,
                              struct pawl_object *request, const char *key)
{
    size_t count = cli_count(args, name);
    if (count == 0)
        return CLI_DONE;
    const char **values = calloc(count, sizeof *values);
    if (values == NULL)
        return cli_no_memory(args->verb);
    for (size_t i = 0; i < count; i++)
        values[i] = cli_value_at(args, name, i);
    pawl_object_list(request, key, values, count);
    free(values);
    return CLI_DONE;
}

/* The token alone is on stdout, for scripts. */
static enum cli_exit print_created(const struct args *args, const char *answer)
{
    struct pawl_json created = pawl_json_read(answer);
    if (cli_has(args, "--json")) {
        print_answer(answer);
        return CLI_DONE;
    }
    char *id = pawl_json_text(pawl_json_get(created, "id"));
    print_value(pawl_json_get(created, "token"));
    putchar('\n');
    if (id != NULL)
        cli_remark("token %s created; it is shown only once", id);
    pawl_free(id);
    return CLI_DONE;
}

static enum cli_exit create(const struct args *args)
{
    char *answer;
    if (args->word_count != 2)
        return cli_usage(args->verb, "create requires exactly one NAME");
    if (cli_count(args, "--scope") == 0)
        return cli_usage(args->verb, "--scope is required: read, submit, work, answer or admin");
    struct pawl_object *request = pawl_object_new();
    if (request == NULL)
        return cli_no_memory(args->verb);
    pawl_object_text(request, "name", cli_word(args, 1));
    enum cli_exit code = put_list(args, "--scope", request, "scopes");
    if (code == CLI_DONE)
        code = put_list(args, "--queue", request, "queues");
    if (code == CLI_DONE)
        code = cli_put_duration(args, "--ttl", request, "ttl_ms");
    if (code != CLI_DONE) {
        pawl_object_free(request);
        return code;
    }
    code = cli_ask_once(args, pawl_token_create, request, &answer);
    if (code != CLI_DONE)
        return code;
    code = print_created(args, answer);
    pawl_free(answer);
    return code;
}

static enum cli_exit revoke(const struct args *args)
{
    struct pawl *pawl;
    if (args->word_count < 2)
        return cli_usage(args->verb, "missing token ID; 'pawl token ls' lists them");
    enum cli_exit result = cli_open(args, false, &pawl);
    if (result != CLI_DONE)
        return result;
    for (size_t i = 1; i < args->word_count; i++) {
        enum cli_exit code = cli_do_one(args, pawl, pawl_token_revoke, args->words[i], "revoked");
        result = result == CLI_DONE ? code : result;
    }
    pawl_close(pawl);
    return result;
}

static enum cli_exit run(const struct args *args)
{
    const char *what = cli_word(args, 0);
    if (strcmp(what, "create") == 0)
        return create(args);
    if (cli_has(args, "--scope") || cli_has(args, "--queue") || cli_has(args, "--ttl"))
        return cli_usage(args->verb, "--scope, --queue and --ttl are for 'pawl token create'");
    if (strcmp(what, "revoke") == 0)
        return revoke(args);
    if (args->word_count > 1)
        return cli_usage(args->verb, "'pawl token ls' takes no name");
    return list(args);
}

static const struct option options[] = {
    {.name = "--scope",
     .value = "read|submit|work|answer|admin",
     .field = "scopes",
     .text = "scopes of the token; admin allows everything",
     .times = OPTION_MANY},
    {.name = "--queue",
     .value = "Q",
     .field = "queues",
     .text = "limit to these queues (default: all)",
     .times = OPTION_MANY},
    {.name = "--ttl", .value = "D", .field = "ttl_ms", .text = "lifetime (default: no expiry)"},
    {0},
};

const struct verb verb_token = {
    .name = "token",
    .summary = "manage access tokens: create, ls, revoke",
    .arguments = "create|ls|revoke [NAME...]",
    .about =
        "Creates, lists and revokes access tokens for a server. create takes a name and prints\n"
        "the token once; the store keeps only its hash. revoke takes token ids, as shown by ls;\n"
        "servers elsewhere accept a revoked token for a few more seconds. Scopes: read reads;\n"
        "submit submits, signals and cancels; work claims and completes jobs; answer answers\n"
        "questions; admin allows everything.\n",
    .options = options,
    .examples = "  pawl token create ci --scope submit read --queue builds --ttl 90d\n"
                "  pawl token ls\n"
                "  pawl token revoke 0190163d-8694-739b-aea5-966c26f8ad91\n",
    .takes = TAKES_STORE | TAKES_JSON,
    .run = run,
};
