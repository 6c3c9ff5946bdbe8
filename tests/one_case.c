/* PAWL_TEST_CASE names the one case that a test program runs, for `make mutants`. Linked to every
 * test program of a build with planted bugs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

__attribute__((constructor)) static void choose(void)
{
    const char *name = getenv("PAWL_TEST_CASE");
    if (name != NULL && *name != '\0')
        cmocka_set_test_filter(name);
}
