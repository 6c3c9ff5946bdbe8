/* UTF-8 as Unicode defines it: shortest form, no surrogates, nothing past U+10FFFF. */
#ifndef PAWL_BASE_UTF8_H
#define PAWL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Length of the valid sequence at `at` (1 to 4), or 0 when the bytes before `end` are not one. */
size_t utf8_length(const char *at, const char *end);

/* True when all of `s` is valid UTF-8. */
bool utf8_valid(struct str s);

/* Writes `code_point` (not a surrogate, at most 0x10FFFF) into `ret` and returns its length. */
size_t utf8_encode(uint32_t code_point, char ret[4]);

#endif
