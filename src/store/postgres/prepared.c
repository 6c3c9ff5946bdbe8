#include "store/postgres/prepared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { NAME_HASH_BYTES = 8 };

void prepared_release(struct prepared *prepared)
{
    for (uint32_t i = 0; i < prepared->count; i++)
        free(prepared->at[i].text);
    *prepared = (struct prepared){.is_refused = prepared->is_refused};
}

static void make_name(struct prepared_statement *statement)
{
    uint8_t hash[HASH_LEN];
    const struct str parts[] = {
        str_from(statement->text),
        {(const char *)statement->types, (size_t)statement->count * sizeof *statement->types},
    };
    hash_sha256(parts, 2, hash);
    int len = snprintf(statement->name, sizeof statement->name, "pawl_");
    for (size_t i = 0; i < NAME_HASH_BYTES; i++)
        len +=
            snprintf(statement->name + len, sizeof statement->name - (size_t)len, "%02x", hash[i]);
}

static bool is_same(const struct prepared_statement *statement, const char *sql,
                    const struct params *params)
{
    return statement->sql == sql && statement->count == params->count &&
           memcmp(statement->types, params->types, (size_t)params->count * sizeof *params->types) ==
               0 &&
           strcmp(statement->text, sql) == 0;
}

const char *prepared_find(struct prepared *prepared, const char *sql, const struct params *params)
{
    if (prepared->is_refused)
        return NULL;
    for (uint32_t i = 0; i < prepared->count; i++)
        if (is_same(&prepared->at[i], sql, params))
            return i < prepared->ready ? prepared->at[i].name : NULL;
    if (prepared->count == PREPARED_MAX)
        return NULL;
    struct prepared_statement *statement = &prepared->at[prepared->count];
    *statement =
        (struct prepared_statement){.sql = sql, .text = strdup(sql), .count = params->count};
    memcpy(statement->types, params->types, (size_t)params->count * sizeof *params->types);
    if (statement->text == NULL)
        return NULL;
    make_name(statement);
    prepared->count++;
    return NULL;
}

bool prepared_send(const struct prepared *prepared, PGconn *pg)
{
    for (uint32_t i = prepared->ready; i < prepared->count; i++) {
        const struct prepared_statement *statement = &prepared->at[i];
        if (!PQsendPrepare(pg, statement->name, statement->text, statement->count,
                           statement->types))
            return false;
    }
    return true;
}
