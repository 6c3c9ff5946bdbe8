/* Records as bytes: what record_write writes, in a third of the room.
 *
 * A field is a byte with its place in the table and the form of its value, and the value:
 *
 *   place << 2 | FORM_NUMBER   a number as a varint, negative ones interleaved (1: -1, 2: 1)
 *   place << 2 | FORM_BYTES    its length as a varint, and so many bytes
 *   place << 2 | FORM_TRUE     nothing
 *   place << 2 | FORM_RECORD   the fields of a nested record, and RECORD_PACK_END
 *
 * Places are for ever: fields are added to the end of a table. A reader leaves places alone that it
 * does not know. The first byte is RECORD_PACK_MARK, with which no JSON begins. */
#ifndef PAWL_BASE_RECORD_PACK_H
#define PAWL_BASE_RECORD_PACK_H

#include "base/buf.h"
#include "base/record.h"

enum { RECORD_PACK_MARK = 1, RECORD_PACK_END = 0xff };

/* Whether the text is a packed record. */
bool record_is_packed(struct str text);

/* Adds the fields of `mask` that are set. */
void record_pack(const struct record_type *type, const void *record, uint64_t mask,
                 struct buf *buf);

/* Reads what record_pack wrote, as record_read does of what was stored: texts are views of it.
 * False: it is damaged, and `record` is partly filled. */
bool record_unpack(const struct record_type *type, struct str packed, uint64_t mask, void *record);

#endif
