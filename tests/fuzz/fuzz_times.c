/* libFuzzer target: time_parse and duration_parse on any bytes. A time that is taken and written
 * out is read as the same time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/times.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *problem, struct str text)
{
    (void)fprintf(stderr, "%s: %.*s\n", problem, (int)text.len, text.at);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {size == 0 ? "" : (const char *)data, size};
    int64_t time_ms;
    int64_t again_ms;
    char written[TIME_TEXT_LEN];
    if (time_parse(text, &time_ms)) {
        if (time_ms < 0 || time_ms > TIME_MAX_MS)
            fail("a time out of bounds was taken", text);
        time_format(time_ms, written);
        if (!time_parse((struct str){written, sizeof written}, &again_ms) || again_ms != time_ms)
            fail("a time that was written is read otherwise", text);
    }
    if (duration_parse(text, &time_ms) && time_ms < 0)
        fail("a duration below nothing was taken", text);
    return 0;
}
