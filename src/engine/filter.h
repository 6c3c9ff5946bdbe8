/* Which jobs a caller means, and pages of them: read from requests into a store's filter. */
#ifndef PAWL_ENGINE_FILTER_H
#define PAWL_ENGINE_FILTER_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "store/store.h"

enum {
    PAGE_LIMIT_DEFAULT = 50,
    FILTER_LABELS_MAX = 16,
    FILTER_LABEL_LEN_MAX = 512,
    PAGE_BYTES_MAX = 16 * 1024 * 1024, /* an answer ends after the entry that makes it so long */
};

/* What a request says of the jobs it is about: the members of list's, as they were given. */
struct filter_request {
    struct str status; /* names with commas between */
    struct str kind;
    struct str queue;
    struct str agent_id;
    struct str correlation_id;
    struct str label;  /* key:value */
    struct str labels; /* an array of more of them: all must be there */
    int64_t created_after;
    int64_t created_before; /* 0: whenever */
};

/* Entries for the table of a request that has a struct filter_request as its member `filter`. */
#define FILTER_FIELDS(type)                                                                        \
    RECORD_FIELD(type, filter.status, "status", TEXT),                                             \
        RECORD_FIELD(type, filter.kind, "kind", NAME),                                             \
        RECORD_FIELD(type, filter.queue, "queue", NAME),                                           \
        RECORD_FIELD(type, filter.agent_id, "agent_id", NAME),                                     \
        RECORD_FIELD(type, filter.correlation_id, "correlation_id", NAME),                         \
        RECORD_FIELD(type, filter.label, "label", TEXT),                                           \
        RECORD_FIELD(type, filter.labels, "labels", ARRAY),                                        \
        RECORD_FIELD(type, filter.created_after, "created_after", TIME),                           \
        RECORD_FIELD(type, filter.created_before, "created_before", TIME)

/* Reads it into `ret`, whose other members are left alone. bad_request names the member and its
 * value. Views of the request are kept. What no store looks for is left to filter_passes. */
enum error_code filter_read(const struct filter_request *request, struct store_filter *ret,
                            struct err *err);

/* Whether a request that was read asks for more than stores look for; and whether a job that a
 * store has listed for it is one that it means. */
bool filter_sifts(const struct filter_request *request);
bool filter_passes(const struct filter_request *request, const struct job *job);

/* Whether a job is one that somebody would look for with this text: it is part of its id, kind,
 * queue, key, correlation id, agent, goal, labels (also written key:value) or last error, in
 * whatever case. */
bool filter_has_text(const struct job *job, struct str text);

/* Where a page begins: an absent cursor gives the newest job. bad_request. */
enum error_code cursor_read(struct str cursor, struct uuid *ret, struct err *err);

/* The ids that begin with some hexadecimal digits: from `first` to the one before `behind`, which
 * is all zero at the end. */
struct id_range {
    struct uuid first;
    struct uuid behind;
};

/* Reads 4 to 32 digits, with or without the dashes of an id. bad_request. */
enum error_code id_prefix_read(struct str prefix, struct id_range *ret, struct err *err);

/* "next_cursor" of a page that ended with `last`; null when there is no more. */
void cursor_write(struct json_writer *writer, bool more, struct uuid last);

#endif
