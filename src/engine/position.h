/* Positions in the feed as clients know them: "MAJOR-MINOR", and behind that "-ERA" where the store
 * has lives of its own. What they say is the store's; a client only keeps and returns them. */
#ifndef PAWL_ENGINE_POSITION_H
#define PAWL_ENGINE_POSITION_H

#include "base/json.h"
#include "store/store.h"

enum { POSITION_TEXT_MAX = 64 };

/* Reads one; absent is the beginning. bad_request, with the value, when it is invalid. */
enum error_code position_read(struct str text, struct store_position *ret, struct err *err);

/* One as a text, in `text`; and written as such. */
struct str position_text(struct store_position position, char text[POSITION_TEXT_MAX]);
void position_write(struct json_writer *writer, struct str key, struct store_position position);

/* Asks the store whether the events up to a position are still there, and gives the era in which it
 * is read. feed_reset: they may not be; err->cursor is the position to go on from. */
enum error_code position_check(struct store_txn *txn, struct store_position after,
                               uint64_t *ret_era, struct err *err);

#endif
