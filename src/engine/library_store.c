/* The functions of pawl.h that work on a store as a whole. */
#include <stdio.h>

#include "engine/standard_files.h"
#include "pawl.h"
#include "store/store.h"

static enum pawl_code fail(enum error_code code, const struct err *err, struct pawl_error *error)
{
    if (error != NULL) {
        error->code = (enum pawl_code)code;
        (void)snprintf(error->message, sizeof error->message, "%s", err->detail);
    }
    return (enum pawl_code)code;
}

enum pawl_code pawl_migrate(const char *url, struct pawl_migration *ret_migration,
                            struct pawl_error *error)
{
    struct store_options options = {.migrate = true};
    struct store *store;
    struct err err = {0};
    if (url == NULL || ret_migration == NULL)
        return fail(
            err_set(&err, ERR_BAD_REQUEST, "pawl_migrate needs a URL and a place for what it did"),
            &err, error);
    standard_files_fill();
    enum error_code code = store_open(str_from(url), &options, &store, &err);
    if (code != ERR_OK)
        return fail(code, &err, error);
    struct pawl_migration migration = {store->schema_found, store->schema_version};
    store_close(store);
    if (migration.to == 0)
        return fail(err_set(&err, ERR_BAD_REQUEST, "%s has no schema to bring up to date", url),
                    &err, error);
    *ret_migration = migration;
    return PAWL_OK;
}
