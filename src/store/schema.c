#include "store/schema.h"

#include <assert.h>

enum error_code schema_standing(const struct migrations *known, int64_t version,
                                int64_t usable_from, enum schema_standing *ret, struct err *err)
{
    assert(known->count > 0);
    int64_t newest = known->at[known->count - 1].version;
    if (version < 0 || usable_from < 0 || usable_from > version)
        return err_set(err, ERR_UNAVAILABLE,
                       "the schema says version %lld, usable from %lld: it is damaged",
                       (long long)version, (long long)usable_from);
    if (usable_from > newest)
        return err_set(err, ERR_UNAVAILABLE,
                       "the schema has version %lld and needs a Pawl that knows version %lld; this "
                       "one knows %lld: use a newer pawl",
                       (long long)version, (long long)usable_from, (long long)newest);
    *ret = version == 0 ? SCHEMA_EMPTY : version < newest ? SCHEMA_OLDER : SCHEMA_CURRENT;
    return ERR_OK;
}
