/* What the parts of a meter share. The stores have structs of the same names, so each has a file of
 * its own. Private to meter*.c. */
#ifndef PAWL_TESTS_METER_PRIVATE_H
#define PAWL_TESTS_METER_PRIVATE_H

#include "meter.h"

/* The line of that name, which is made when there is none. */
struct meter_line *meter_line(struct meter_reading *reading, const char *name);

void meter_postgres_settle(struct meter *meter);
void meter_postgres_read(struct meter *meter, struct store_txn *txn, struct meter_reading *ret);
void meter_sqlite_start(struct meter *meter);
void meter_sqlite_read(struct meter *meter, struct meter_reading *ret);

#endif
