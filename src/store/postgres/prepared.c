#include "store/postgres/prepared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void prepared_release(struct prepared *prepared)
{
    for (uint32_t i = 0; i < prepared->count; i++)
        free(prepared->at[i].text);
    *prepared = (struct prepared){.is_refused = prepared->is_refused};
}

static void name_of(uint32_t index, char ret[PREPARED_NAME_MAX])
{
    (void)snprintf(ret, PREPARED_NAME_MAX, "pawl_%u", index);
}

static bool is_same(const struct prepared_statement *statement, const char *sql,
                    const struct params *params)
{
    return statement->sql == sql && statement->count == params->count &&
           memcmp(statement->types, params->types, (size_t)params->count * sizeof *params->types) ==
               0 &&
           strcmp(statement->text, sql) == 0;
}

bool prepared_find(struct prepared *prepared, const char *sql, const struct params *params,
                   char ret[PREPARED_NAME_MAX])
{
    if (prepared->is_refused)
        return false;
    for (uint32_t i = 0; i < prepared->count; i++)
        if (is_same(&prepared->at[i], sql, params)) {
            name_of(i, ret);
            return i < prepared->ready;
        }
    if (prepared->count == PREPARED_MAX)
        return false;
    struct prepared_statement *statement = &prepared->at[prepared->count];
    *statement =
        (struct prepared_statement){.sql = sql, .text = strdup(sql), .count = params->count};
    memcpy(statement->types, params->types, (size_t)params->count * sizeof *params->types);
    if (statement->text != NULL)
        prepared->count++;
    return false;
}

bool prepared_send(const struct prepared *prepared, PGconn *pg)
{
    for (uint32_t i = prepared->ready; i < prepared->count; i++) {
        const struct prepared_statement *statement = &prepared->at[i];
        char name[PREPARED_NAME_MAX];
        name_of(i, name);
        if (!PQsendPrepare(pg, name, statement->text, statement->count, statement->types))
            return false;
    }
    return true;
}
