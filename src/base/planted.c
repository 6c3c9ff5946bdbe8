#include "base/planted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum planted_bug planted_bug = PLANTED_NONE;

/* Before main, so that no program needs to know of it. */
__attribute__((constructor)) static void plant(void)
{
    static const char *const names[] = {
        "",
#define PLANTED_BUG(symbol, layer, text, test, name) #symbol,
#include "base/planted.def"
#undef PLANTED_BUG
    };
    const char *wanted = getenv("PLANTED_BUG");
    if (wanted == NULL || *wanted == '\0')
        return;
    for (int bug = 1; bug < PLANTED_COUNT; bug++)
        if (strcmp(names[bug], wanted) == 0)
            planted_bug = (enum planted_bug)bug;
    if (planted_bug != PLANTED_NONE)
        return;
    (void)fprintf(stderr, "PLANTED_BUG: there is no bug %s\n", wanted);
    abort();
}
