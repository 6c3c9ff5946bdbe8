/* Hex digits. */
#ifndef PAWL_BASE_HEX_H
#define PAWL_BASE_HEX_H

/* The value of a digit, of either case, or -1. */
static inline int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    /* Upper and lower case differ in one bit. */
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

#endif
