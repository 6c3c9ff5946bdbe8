/* Strings as views: a pointer and a length, never owned, never NUL-terminated.
 *
 * A view with at == NULL is absent, which is not the same as empty: `{NULL, 0}` means that the
 * value was not given, `{"", 0}` that it was given as nothing. Views live as long as the memory
 * they look into, which is an arena's or the caller's. */
#ifndef PAWL_BASE_STR_H
#define PAWL_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
    const char *at;
    size_t len;
};

/* A view of a string literal. */
#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})

/* The same as an initializer, for tables that must be constant. */
#define STR_INIT(literal)                                                                          \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }

/* A view of a NUL-terminated string; NULL gives an absent view. */
static inline struct str str_from(const char *text)
{
    return (struct str){text, text == NULL ? 0 : strlen(text)};
}

static inline bool str_is_set(struct str s)
{
    return s.at != NULL;
}

/* Equal bytes. An absent view equals only another absent view. */
static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len &&
           (a.at == b.at || (a.at != NULL && b.at != NULL && memcmp(a.at, b.at, a.len) == 0));
}

/* Order by bytes, as memcmp: negative, zero or positive. */
static inline int str_cmp(struct str a, struct str b)
{
    size_t shared = a.len < b.len ? a.len : b.len;
    int order = shared == 0 ? 0 : memcmp(a.at, b.at, shared);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Takes what stands before the next `mark`, or all that is left, from the front of `rest`; false:
 * nothing is left. A list that ends with a mark has nothing behind it. */
static inline bool str_take(struct str *rest, char mark, struct str *ret)
{
    if (rest->len == 0)
        return false;
    const char *found = (const char *)memchr(rest->at, mark, rest->len);
    size_t len = found == NULL ? rest->len : (size_t)(found - rest->at);
    size_t used = found == NULL ? len : len + 1;
    *ret = (struct str){rest->at, len};
    *rest = (struct str){rest->at + used, rest->len - used};
    return true;
}

/* The two arguments of printf's "%.*s": `printf("%.*s", STR_ARG(s))`. Cut at 200 bytes, since it is
 * for messages. */
static inline int str_shown(struct str s)
{
    return (int)(s.len < 200 ? s.len : 200);
}

static inline const char *str_start(struct str s)
{
    return s.at == NULL ? "" : s.at;
}

#define STR_ARG(s) str_shown(s), str_start(s)

#endif
