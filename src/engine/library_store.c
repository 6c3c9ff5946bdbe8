/* The functions of pawl.h that work on a store as a whole. */
#include "engine/library_private.h"
#include "engine/standard_files.h"
#include "pawl.h"
#include "store/store.h"

enum pawl_code pawl_migrate(const char *url, struct pawl_migration *ret_migration,
                            struct pawl_error *error)
{
    struct store_options options = {.migrate = true};
    struct store *store;
    struct err err = {0};
    if (url == NULL || ret_migration == NULL)
        return library_fail(
            err_set(&err, ERR_BAD_REQUEST, "pawl_migrate requires a URL and an output argument"),
            &err, error);
    standard_files_fill();
    enum error_code code = store_open(str_from(url), &options, &store, &err);
    if (code != ERR_OK)
        return library_fail(code, &err, error);
    struct pawl_migration migration = {store->schema_found, store->schema_version};
    store_close(store);
    if (migration.to == 0)
        return library_fail(err_set(&err, ERR_BAD_REQUEST, "%s has no schema to update", url), &err,
                            error);
    *ret_migration = migration;
    return PAWL_OK;
}
