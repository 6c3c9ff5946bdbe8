#include "engine/page.h"

#include <assert.h>

#include "base/buf.h"

enum error_code page_begin(const struct page_request *request, enum page_order order,
                           struct page *ret, struct err *err)
{
    struct page page = {
        .order = order, .limit = (uint32_t)request->limit, .cursor = request->cursor};
    int64_t from = 0;
    bool placed = order == PAGE_BY_PLACE && str_is_set(request->cursor);
    if (placed && (!json_int64(request->cursor, &from) || from < 0))
        return err_set(err, ERR_BAD_REQUEST,
                       "invalid cursor \"%.*s\": use next_cursor of an earlier response",
                       STR_ARG(request->cursor));
    page.from = (uint64_t)from;
    *ret = page;
    return ERR_OK;
}

static bool is_before(struct page *page, struct str name)
{
    if (page->order == PAGE_BY_PLACE)
        return page->seen++ < page->from;
    return str_is_set(page->cursor) && str_cmp(name, page->cursor) <= 0;
}

bool page_takes(struct page *page, struct str name)
{
    if (is_before(page, name))
        return false;
    bool same = page->order == PAGE_BY_NAME && page->shown > 0 && str_eq(name, page->last);
    if (page->limit > 0 && page->shown == page->limit && !same)
        page->more = true;
    if (page->more)
        return false;
    page->shown += same ? 0 : 1;
    page->last = name;
    return true;
}

void page_end(const struct page *page, struct json_writer *writer)
{
    char text[24];
    struct buf place = {.at = text, .cap = sizeof text};
    json_key(writer, STR("next_cursor"));
    if (!page->more) {
        json_put_null(writer);
        return;
    }
    buf_add_int(&place, (int64_t)(page->from + page->shown));
    json_put_string(writer, page->order == PAGE_BY_NAME ? page->last : buf_str(&place));
}
