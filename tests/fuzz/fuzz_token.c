/* libFuzzer target: token_parse and access_text_is_valid on any bytes. Only the form in which
 * tokens are written is read, so that what is taken is written as it was. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/access.h"
#include "core/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {size == 0 ? "" : (const char *)data, size};
    struct token token;
    char written[TOKEN_TEXT_MAX];
    if (token_parse(text, &token)) {
        size_t len = token_format(&token, written);
        if (!str_eq(text, (struct str){written, len})) {
            (void)fprintf(stderr, "taken and written otherwise: %.*s\n", (int)size, text.at);
            abort();
        }
    }
    (void)access_text_is_valid(text);
    return 0;
}
