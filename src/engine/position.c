#include "engine/position.h"

#include <assert.h>

#include "base/buf.h"
#include "engine/answer.h"

/* Digits from *at on, up to `end`. */
static bool read_number(const char **at, const char *end, uint64_t *ret)
{
    const char *start = *at;
    uint64_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return *at > start;
}

enum error_code position_read(struct str text, struct store_position *ret, struct err *err)
{
    struct store_position position = {0};
    const char *at = text.at;
    const char *end = text.at + text.len;
    bool ok = !str_is_set(text);
    if (!ok) {
        ok = read_number(&at, end, &position.major) && at < end && *at++ == '-' &&
             read_number(&at, end, &position.minor);
        if (ok && at < end)
            ok = *at++ == '-' && read_number(&at, end, &position.era) && at == end;
    }
    if (!ok)
        return err_set(err, ERR_BAD_REQUEST,
                       "invalid after \"%.*s\": use a position of the feed or \"now\"",
                       STR_ARG(text));
    *ret = position;
    return ERR_OK;
}

/* The beginning is the same in every era. */
struct str position_text(struct store_position position, char text[POSITION_TEXT_MAX])
{
    struct buf buf = {.at = text, .cap = POSITION_TEXT_MAX};
    buf_addf(&buf, "%llu-%llu", (unsigned long long)position.major,
             (unsigned long long)position.minor);
    if (position.era != 0 && position.major != 0)
        buf_addf(&buf, "-%llu", (unsigned long long)position.era);
    return buf_str(&buf);
}

void position_write(struct json_writer *writer, struct str key, struct store_position position)
{
    char text[POSITION_TEXT_MAX];
    answer_text(writer, key, position_text(position, text));
}

enum error_code position_check(struct store_txn *txn, struct store_position after,
                               uint64_t *ret_era, struct err *err)
{
    char text[POSITION_TEXT_MAX];
    struct store_feed_state state = {0};
    enum error_code code = store_feed_state(txn, after, &state, err);
    if (code != ERR_OK)
        return code;
    if (!state.is_reset) {
        *ret_era = state.era;
        return ERR_OK;
    }
    struct str from = position_text(state.from, text);
    static_assert(sizeof err->cursor >= POSITION_TEXT_MAX, "every position fits");
    if (err != NULL) {
        memcpy(err->cursor, from.at, from.len);
        err->cursor[from.len] = '\0';
    }
    return err_set(err, ERR_FEED_RESET,
                   "events up to this position may have been lost or replaced in a failover or "
                   "restore: continue from %.*s",
                   STR_ARG(from));
}
