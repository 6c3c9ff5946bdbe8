/* Keys and values as bytes. Keys sort as what they are made of; values are compact. */
#ifndef PAWL_STORE_CODEC_H
#define PAWL_STORE_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/uuid.h"

/* Parts of a key. Numbers are big-endian, negative ones first. A text ends with two zero bytes and
 * has a 1 after each zero byte of its own, so that no text is the beginning of another. */
void key_int(struct buf *key, int64_t value);
void key_uuid(struct buf *key, struct uuid id);
void key_text(struct buf *key, struct str text);

/* A step's ordinal; the job itself (STEP_NONE) sorts before step 0. */
void key_step(struct buf *key, uint32_t step);

/* Reads a key from its beginning. `bad` is set when it is not long enough, and stays so; what is
 * then read is zero. Texts are made in `arena` where they had zero bytes. */
struct reader {
    const char *at;
    const char *end;
    bool bad;
};

struct reader reader_of(struct str bytes);
int64_t read_key_int(struct reader *reader);
struct uuid read_key_uuid(struct reader *reader);
uint32_t read_key_step(struct reader *reader);

/* Parts of a value. An absent text stays absent. */
void value_int(struct buf *value, int64_t number);
void value_text(struct buf *value, struct str text);
void value_bytes(struct buf *value, const uint8_t *bytes, size_t len);

int64_t read_int(struct reader *reader);
struct str read_text(struct reader *reader); /* a view of what is read */
void read_bytes(struct reader *reader, uint8_t *ret, size_t len);

#endif
