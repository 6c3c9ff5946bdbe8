#include "meter.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "meter_private.h"

struct meter_line *meter_line(struct meter_reading *reading, const char *name)
{
    for (uint32_t i = 0; i < reading->count; i++)
        if (strncmp(reading->lines[i].name, name, METER_NAME_MAX - 1) == 0)
            return &reading->lines[i];
    assert(reading->count < METER_LINES_MAX);
    struct meter_line *line = &reading->lines[reading->count++];
    *line = (struct meter_line){.rows = 0};
    (void)snprintf(line->name, sizeof line->name, "%s", name);
    return line;
}

void meter_init(struct meter *meter, enum test_store sort, struct store *store)
{
    *meter = (struct meter){.sort = sort, .store = store};
}

static void read_all(struct meter *meter, struct store_txn *txn, struct meter_reading *ret)
{
    if (meter->sort == TEST_POSTGRES)
        meter_postgres_read(meter, txn, ret);
    else
        meter_sqlite_read(meter, ret);
}

void meter_settle(struct meter *meter)
{
    if (meter->sort == TEST_POSTGRES)
        meter_postgres_settle(meter);
}

void meter_start(struct meter *meter, struct store_txn *txn)
{
    if (txn == NULL)
        meter_settle(meter);
    if (meter->sort == TEST_SQLITE)
        meter_sqlite_start(meter);
    read_all(meter, txn, &meter->before);
}

void meter_stop(struct meter *meter, struct store_txn *txn, struct meter_reading *ret)
{
    struct meter_reading *now = ret;
    uint32_t kept = 0;
    read_all(meter, txn, now);
    for (uint32_t i = 0; i < now->count; i++) {
        struct meter_line line = now->lines[i];
        const struct meter_line *was = meter_line(&meter->before, line.name);
        line.rows -= was->rows;
        line.runs -= was->runs;
        line.operations -= was->operations;
        line.scanned -= was->scanned;
        line.sorted -= was->sorted;
        if (line.rows + line.runs + line.operations > 0)
            now->lines[kept++] = line;
    }
    now->count = kept;
}

uint64_t meter_rows(const struct meter_reading *reading, const char *part)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < reading->count; i++)
        if (strstr(reading->lines[i].name, part) != NULL)
            rows += reading->lines[i].rows;
    return rows;
}
