#include "cli/steer.h"

#include "cli/bulk.h"
#include "cli/filter.h"
#include "cli/screen.h"

struct many {
    const struct steer *steer;
    struct pawl_object *filter;
};

static struct pawl_object *many_request(const struct args *args, void *arg)
{
    const struct many *many = arg;
    const char *filter = pawl_object_str(many->filter);
    struct pawl_object *request = filter != NULL ? pawl_object_new() : NULL;
    if (request == NULL)
        return NULL;
    pawl_object_text(request, "action", many->steer->action);
    pawl_object_json(request, "filter", filter);
    many->steer->put(args, request);
    return request;
}

static enum cli_exit steer_many(const struct args *args, const struct steer *steer)
{
    struct many many = {.steer = steer};
    enum cli_exit code = filter_read(args, &many.filter);
    if (code != CLI_DONE)
        return code;
    if (many.filter == NULL)
        return cli_no_memory(args->verb);
    struct pawl *pawl;
    code = cli_open(args, false, &pawl);
    if (code == CLI_DONE) {
        struct bulk bulk = {
            .call = pawl_bulk, .past = steer->past, .request = many_request, .arg = &many};
        code = bulk_run(args, pawl, &bulk);
        pawl_close(pawl);
    }
    pawl_object_free(many.filter);
    return code;
}

static enum cli_exit steer_each(const struct args *args, const struct steer *steer)
{
    struct pawl *pawl;
    enum cli_exit code = cli_open(args, false, &pawl);
    if (code != CLI_DONE)
        return code;
    code = each_run(args, pawl, 0, steer->one, steer->put);
    pawl_close(pawl);
    return code;
}

enum cli_exit steer_run(const struct args *args, const struct steer *steer)
{
    bool filtered = cli_has(args, "--filter");
    if (filtered && args->word_count > 0)
        return cli_usage(args->verb, "give job IDs or --filter, not both");
    if (!filtered && args->word_count == 0)
        return cli_usage(args->verb, "missing jobs: give ID... or --filter KEY=VALUE");
    if (!filtered && (cli_has(args, "--dry-run") || cli_has(args, "--rate")))
        return cli_usage(args->verb, "--dry-run and --rate require --filter");
    return filtered ? steer_many(args, steer) : steer_each(args, steer);
}
