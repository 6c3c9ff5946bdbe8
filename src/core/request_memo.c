#include "core/request_memo.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/times.h"
#include "base/utf8.h"

enum { MEMO_FORMAT = 1, NUMBER_BYTES_MAX = 9 };

enum {
    FLAG_REPEATED = 1,
    FLAG_DUPLICATE = 2,
    FLAG_CANCEL_REQUESTED = 4,
    FLAG_EXPIRES_AT = 8,
    FLAG_EFFECT_KEY = 16,
    FLAG_BEATS = 32,
    FLAG_PROGRESS = 64,
    FLAG_CURSOR = 128,
};

bool request_is_memo(struct str kept)
{
    return kept.len > 0 && kept.at[0] == MEMO_FORMAT;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_byte(struct buf *buf, int value)
{
    buf_add_char(buf, (char)value);
}

static void put_number(struct buf *buf, int64_t value)
{
    assert(value >= 0);
    for (; value > 127; value >>= 7)
        put_byte(buf, (int)(value & 127) | 128);
    put_byte(buf, (int)value);
}

static void put_bytes(struct buf *buf, const uint8_t *bytes, size_t len)
{
    buf_add(buf, (struct str){(const char *)bytes, len});
}

static void put_text(struct buf *buf, struct str text)
{
    put_number(buf, (int64_t)text.len);
    buf_add(buf, text);
}

static void put_job(struct buf *buf, const struct request_entry *entry)
{
    const struct decision_result *answer = &entry->job.result;
    const struct request_beats *beats = &entry->job.beats;
    bool progress = beats->set && str_is_set(beats->progress);
    bool cursor = beats->set && str_is_set(beats->cursor);
    put_bytes(buf, entry->job.job.bytes, sizeof entry->job.job.bytes);
    put_number(buf, entry->job.version);
    put_byte(buf,
             (answer->repeated ? FLAG_REPEATED : 0) | (answer->duplicate ? FLAG_DUPLICATE : 0) |
                 (answer->cancel_requested ? FLAG_CANCEL_REQUESTED : 0) |
                 (answer->expires_at > 0 ? FLAG_EXPIRES_AT : 0) |
                 (entry->job.has_effect_key ? FLAG_EFFECT_KEY : 0) | (beats->set ? FLAG_BEATS : 0) |
                 (progress ? FLAG_PROGRESS : 0) | (cursor ? FLAG_CURSOR : 0));
    put_byte(buf, (int)answer->signal | (int)answer->effect << 4);
    if (answer->expires_at > 0)
        put_number(buf, answer->expires_at);
    if (beats->set) {
        put_number(buf, beats->beat_at);
        put_number(buf, beats->expires_at);
    }
    if (progress)
        put_text(buf, beats->progress);
    if (cursor)
        put_text(buf, beats->cursor);
}

static void put_claim(struct buf *buf, const struct request_entry *entry)
{
    put_number(buf, entry->claim.count);
    for (uint32_t i = 0; i < entry->claim.count; i++) {
        const struct request_lease *lease = &entry->claim.leases[i];
        put_bytes(buf, lease->job.bytes, sizeof lease->job.bytes);
        put_number(buf, lease->version);
        put_number(buf, lease->of_step ? (int64_t)lease->step + 1 : 0);
        put_bytes(buf, lease->secret, sizeof lease->secret);
    }
}

void request_memo_write(const struct request_memo *memo, struct buf *buf)
{
    put_byte(buf, MEMO_FORMAT);
    for (uint32_t i = 0; i < memo->count; i++) {
        const struct request_entry *entry = &memo->entries[i];
        put_byte(buf, (int)entry->type);
        switch (entry->type) {
        case REQUEST_JOB:
            put_job(buf, entry);
            break;
        case REQUEST_CLAIM:
            put_claim(buf, entry);
            break;
        case REQUEST_REFUSED:
            put_number(buf, (int64_t)entry->refused.code);
            put_number(buf, entry->refused.at);
            put_text(buf, entry->refused.detail);
            break;
        case REQUEST_BODY:
            put_number(buf, entry->body.status);
            put_text(buf, entry->body.text);
            break;
        }
    }
}

/* ---- reading ------------------------------------------------------------------------------ */

/* What is left to read. Each take_ function moves past what it read, or marks it damaged and
 * returns zeros. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    struct arena *arena;
    bool damaged;
    bool no_memory;
};

static const uint8_t *take_bytes(struct reader *reader, uint64_t len)
{
    if (reader->damaged || len > (uint64_t)(reader->end - reader->at)) {
        reader->damaged = true;
        return NULL;
    }
    const uint8_t *bytes = reader->at;
    reader->at += len;
    return bytes;
}

static int take_byte(struct reader *reader)
{
    const uint8_t *byte = take_bytes(reader, 1);
    return byte != NULL ? *byte : 0;
}

static int64_t take_number(struct reader *reader, int64_t max)
{
    uint64_t number = 0;
    int byte = 128;
    for (int i = 0; i < NUMBER_BYTES_MAX && byte > 127; i++) {
        byte = take_byte(reader);
        number |= (uint64_t)(byte & 127) << (7 * i);
    }
    if (byte > 127 || number > (uint64_t)max)
        reader->damaged = true;
    return reader->damaged ? 0 : (int64_t)number;
}

static void take_into(struct reader *reader, void *ret, size_t len)
{
    const uint8_t *bytes = take_bytes(reader, len);
    if (bytes != NULL)
        memcpy(ret, bytes, len);
}

static struct str take_text(struct reader *reader)
{
    int64_t len = take_number(reader, INT64_MAX);
    const uint8_t *bytes = take_bytes(reader, (uint64_t)len);
    return (struct str){(const char *)bytes, bytes != NULL ? (size_t)len : 0};
}

static void note(struct reader *reader, enum error_code code)
{
    reader->no_memory = reader->no_memory || code == ERR_NO_MEMORY;
    reader->damaged = reader->damaged || code != ERR_OK;
}

/* A text that goes into a response as it is. */
static struct str take_json(struct reader *reader)
{
    struct str text = take_text(reader);
    if (!reader->damaged)
        note(reader, json_check_answer(text, "the record", reader->arena, NULL));
    return text;
}

static struct str take_utf8(struct reader *reader)
{
    struct str text = take_text(reader);
    if (!reader->damaged && !utf8_valid(text))
        reader->damaged = true;
    return text;
}

static void take_job(struct reader *reader, struct request_entry *ret)
{
    take_into(reader, ret->job.job.bytes, sizeof ret->job.job.bytes);
    ret->job.version = take_number(reader, INT64_MAX);
    int flags = take_byte(reader);
    int fates = take_byte(reader);
    struct decision_result *answer = &ret->job.result;
    struct request_beats *beats = &ret->job.beats;
    answer->repeated = (flags & FLAG_REPEATED) != 0;
    answer->duplicate = (flags & FLAG_DUPLICATE) != 0;
    answer->cancel_requested = (flags & FLAG_CANCEL_REQUESTED) != 0;
    ret->job.has_effect_key = (flags & FLAG_EFFECT_KEY) != 0;
    beats->set = (flags & FLAG_BEATS) != 0;
    answer->signal = (enum signal_fate)(fates & 15);
    answer->effect = (enum effect_status)(fates >> 4);
    if ((fates & 15) > SIGNAL_REPEATED || fates >> 4 > EFFECT_IN_DOUBT || ret->job.version == 0)
        reader->damaged = true;
    if ((flags & FLAG_EXPIRES_AT) != 0)
        answer->expires_at = take_number(reader, TIME_MAX_MS);
    if (beats->set) {
        beats->beat_at = take_number(reader, TIME_MAX_MS);
        beats->expires_at = take_number(reader, TIME_MAX_MS);
    }
    if ((flags & FLAG_PROGRESS) != 0)
        beats->progress = take_json(reader);
    if ((flags & FLAG_CURSOR) != 0)
        beats->cursor = take_utf8(reader);
}

static void take_claim(struct reader *reader, struct request_entry *ret)
{
    /* A lease takes more than its secret: a count that there is no room for asks for no memory. */
    int64_t most = (reader->end - reader->at) / TOKEN_SECRET_LEN;
    ret->claim.count = (uint32_t)take_number(reader, most < UINT32_MAX ? most : UINT32_MAX);
    ret->claim.leases = arena_zalloc(reader->arena, ret->claim.count, sizeof *ret->claim.leases);
    if (ret->claim.leases == NULL && ret->claim.count > 0)
        note(reader, ERR_NO_MEMORY);
    for (uint32_t i = 0; i < ret->claim.count && !reader->damaged; i++) {
        struct request_lease *lease = &ret->claim.leases[i];
        take_into(reader, lease->job.bytes, sizeof lease->job.bytes);
        lease->version = take_number(reader, INT64_MAX);
        int64_t step = take_number(reader, UINT32_MAX);
        lease->of_step = step > 0;
        lease->step = step > 0 ? (uint32_t)(step - 1) : 0;
        take_into(reader, lease->secret, sizeof lease->secret);
        if (lease->version == 0)
            reader->damaged = true;
    }
}

static bool is_error(int64_t number)
{
    switch ((enum error_code)number) {
#define ERROR(symbol, number, name, http, exit, title) case ERR_##symbol:
#include "base/error.def"
#undef ERROR
        return number != ERR_OK;
    }
    return false;
}

static void take_refused(struct reader *reader, struct request_entry *ret)
{
    int64_t number = take_number(reader, INT32_MAX);
    reader->damaged = reader->damaged || !is_error(number);
    ret->refused.code = (enum error_code)number;
    ret->refused.at = (uint32_t)take_number(reader, UINT32_MAX);
    ret->refused.detail = take_text(reader);
}

static void take_entry(struct reader *reader, struct request_entry *ret)
{
    *ret = (struct request_entry){.type = (enum request_entry_type)take_byte(reader)};
    switch (ret->type) {
    case REQUEST_JOB:
        take_job(reader, ret);
        return;
    case REQUEST_CLAIM:
        take_claim(reader, ret);
        return;
    case REQUEST_REFUSED:
        take_refused(reader, ret);
        return;
    case REQUEST_BODY:
        ret->body.status = (int)take_number(reader, 299);
        ret->body.text = take_json(reader);
        reader->damaged = reader->damaged || ret->body.status < 200;
        return;
    }
    reader->damaged = true;
}

enum error_code request_memo_read(struct str kept, struct arena *arena, struct request_memo *ret,
                                  struct err *err)
{
    struct reader reader = {.at = (const uint8_t *)kept.at, .arena = arena};
    struct request_memo memo = {0};
    uint32_t cap = 0;
    if (!request_is_memo(kept))
        return err_set(err, ERR_CORRUPT, "the record of the request is not a memo");
    reader.end = reader.at + kept.len;
    (void)take_byte(&reader);
    while (reader.at < reader.end && !reader.damaged) {
        if (memo.count == cap) {
            size_t old = cap * sizeof *memo.entries;
            cap = cap == 0 ? 1 : cap * 4;
            memo.entries = arena_grow(arena, memo.entries, old, cap * sizeof *memo.entries);
        }
        if (memo.entries == NULL)
            note(&reader, ERR_NO_MEMORY);
        else
            take_entry(&reader, &memo.entries[memo.count++]);
    }
    if (reader.no_memory)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    if (reader.damaged || memo.count == 0)
        return err_set(err, ERR_CORRUPT, "the record of the request is damaged");
    *ret = memo;
    return ERR_OK;
}

/* ---- leases ------------------------------------------------------------------------------- */

bool request_memo_holds(const struct request_memo *memo, const struct token *token)
{
    for (uint32_t i = 0; i < memo->count; i++) {
        const struct request_entry *entry = &memo->entries[i];
        for (uint32_t k = 0; entry->type == REQUEST_CLAIM && k < entry->claim.count; k++) {
            const struct request_lease *lease = &entry->claim.leases[k];
            if (uuid_eq(lease->job, token->job) &&
                memcmp(lease->secret, token->secret, TOKEN_SECRET_LEN) == 0)
                return true;
        }
    }
    return false;
}

bool request_memo_disclaim(struct request_memo *memo)
{
    bool any = false;
    for (uint32_t i = 0; i < memo->count; i++) {
        struct request_entry *entry = &memo->entries[i];
        if (entry->type == REQUEST_CLAIM)
            entry->claim.count = 0;
        any = any || entry->type == REQUEST_JOB || entry->type == REQUEST_BODY;
    }
    return any;
}
