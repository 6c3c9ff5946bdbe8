/* Pages of lists that are read whole: queues, workers, resources, tokens, steps, groups.
 *
 * Their number is bounded by the stores, so that a list without a limit is all of it, as it always
 * was. With a limit a page ends after so many entries, and its cursor is the name of the last one,
 * or its place where entries have no order of names. */
#ifndef PAWL_ENGINE_PAGE_H
#define PAWL_ENGINE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/json.h"
#include "base/record.h"
#include "base/str.h"

enum { PAGE_ENTRIES_MAX = 1000 };

struct page_request {
    int64_t limit; /* 0: all */
    struct str cursor;
};

/* Entries for the table of a request that has a struct page_request as its member `page`. */
#define PAGE_FIELDS(type)                                                                          \
    RECORD_FIELD_RANGE(type, page.limit, "limit", INT, 1, PAGE_ENTRIES_MAX),                       \
        RECORD_FIELD(type, page.cursor, "cursor", TEXT)

enum page_order {
    PAGE_BY_NAME,  /* entries come in the order of their names, bytes compared */
    PAGE_BY_PLACE, /* in whatever order the list has */
};

struct page {
    enum page_order order;
    uint32_t limit; /* 0: none */
    struct str cursor;
    uint64_t from; /* BY_PLACE: entries before it were shown */
    uint64_t seen;
    uint32_t shown;
    struct str last; /* the name of the last one that was shown */
    bool more;
};

/* bad_request: the cursor does not come from a page. Views of the request are kept. */
enum error_code page_begin(const struct page_request *request, enum page_order order,
                           struct page *ret, struct err *err);

/* Whether the next entry is on the page; to be asked for each of the list. Entries with the same
 * name count as one, and are never on two pages. BY_PLACE takes no name. */
bool page_takes(struct page *page, struct str name);

/* Writes next_cursor: null when the list has ended. */
void page_end(const struct page *page, struct json_writer *writer);

#endif
