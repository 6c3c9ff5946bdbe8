#include "server/assets.h"

#include <assert.h>

#define ZLIB_CONST /* it does not write to what it reads */
#include <zlib.h>

enum { GZIP_WINDOW_BITS = 15 + 16 }; /* zlib's way to say gzip, with any window */

const struct asset *asset_find(struct str name)
{
    for (size_t i = 0; i < asset_count; i++)
        if (str_eq(assets[i].name, name))
            return &assets[i];
    return NULL;
}

enum error_code asset_unpack(const struct asset *asset, struct arena *arena, struct str *ret,
                             struct err *err)
{
    char *text = arena_alloc(arena, asset->len + 1);
    z_stream stream = {
        .next_in = asset->packed,
        .avail_in = (uInt)asset->packed_len,
        .next_out = (Bytef *)text,
        .avail_out = (uInt)asset->len,
    };
    if (text == NULL || inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    int result = inflate(&stream, Z_FINISH);
    (void)inflateEnd(&stream);
    if (result == Z_MEM_ERROR)
        return err_set(err, ERR_NO_MEMORY, "out of memory");
    assert(result == Z_STREAM_END && stream.total_out == asset->len);
    *ret = (struct str){text, asset->len};
    return ERR_OK;
}
