#include "store/sqlite/inline_effects.h"

#include "core/job_state.h"

enum { LENGTH_BYTES = 4, BYTES_EACH = 192 };

/* Takes the next record off the front; false: the rest is damaged. */
static bool next(struct str *rest, struct str *ret)
{
    size_t len = 0;
    if (rest->len < LENGTH_BYTES)
        return false;
    for (int i = 0; i < LENGTH_BYTES; i++)
        len |= (size_t)(unsigned char)rest->at[i] << (8 * i);
    if (len > rest->len - LENGTH_BYTES)
        return false;
    *ret = (struct str){rest->at + LENGTH_BYTES, len};
    *rest = (struct str){ret->at + len, rest->len - LENGTH_BYTES - len};
    return true;
}

enum error_code inline_effects_read(struct str packed, struct arena *arena, struct effect **ret,
                                    uint32_t *ret_count, struct err *err)
{
    struct str record;
    uint32_t count = 0;
    for (struct str rest = packed; rest.len > 0; count++)
        if (!next(&rest, &record))
            return err_set(err, ERR_CORRUPT, "the effects of a job are damaged");
    struct effect *effects = arena_zalloc(arena, count, sizeof *effects);
    if (effects == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        (void)next(&packed, &record);
        enum error_code code = effect_read_whole(record, arena, &effects[i], err);
        if (code != ERR_OK)
            return code;
    }
    *ret = effects;
    *ret_count = count;
    return ERR_OK;
}

struct str inline_effects_write(const struct effect *effects, uint32_t count, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, (size_t)BYTES_EACH * (count + 1));
    for (uint32_t i = 0; i < count; i++) {
        size_t start = buf.len;
        buf_add(&buf, STR("\0\0\0\0"));
        effect_write_whole(&effects[i], &buf);
        size_t len = buf.len - start - LENGTH_BYTES;
        for (int b = 0; b < LENGTH_BYTES && !buf.failed; b++)
            buf.at[start + (size_t)b] = (char)(len >> (8 * b) & 0xff);
    }
    return buf.failed ? (struct str){NULL, 0} : buf_str(&buf);
}
