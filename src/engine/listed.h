/* Jobs of a list, kept from a page of the store until they are written.
 *
 * A page may have payloads of a MiB each that the list does not show. What is shown is copied, so
 * that the page can be thrown away, and counted, so that the list ends before it is too much. */
#ifndef PAWL_ENGINE_LISTED_H
#define PAWL_ENGINE_LISTED_H

#include <stdbool.h>

#include "base/refs.h"
#include "engine/answer.h"

struct listed {
    struct sight sight; /* of all of them */
    struct refs jobs;   /* of struct store_job, of which only the header is there */
    size_t bytes;       /* about what they are in JSON */
};

/* Adds a copy of what is shown of a job. False: no memory. */
bool listed_add(struct listed *list, const struct store_job *job, struct arena *arena);

/* Writes "jobs": an entry is the job, or {"id", "damaged"} when it cannot be read. */
void listed_write(const struct listed *list, struct json_writer *writer);

#endif
