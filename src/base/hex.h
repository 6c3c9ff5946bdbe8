/* Hex digits. */
#ifndef PAWL_BASE_HEX_H
#define PAWL_BASE_HEX_H

#include <stdint.h>

/* The values of all bytes as digits, plus one; 0: invalid. A table, since digits are random and
 * branches on them are guessed wrong. */
extern const uint8_t hex_values[256];

/* The value of a digit, of either case, or -1. */
static inline int hex_value(char c)
{
    return hex_values[(unsigned char)c] - 1;
}

#endif
