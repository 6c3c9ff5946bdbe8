/* Random lives of jobs until the judge, the checker or an assertion finds a fault; exits with 1
 * then. `make mutants` runs it with bugs, to prove that they would be found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "random_commands.h"

enum { LIVES = 8000 };

int main(void)
{
    struct world world;
    struct random_stats stats = {0};
    int status = EXIT_SUCCESS;
    world_init(&world, 1);
    for (int i = 0; i < LIVES && status == EXIT_SUCCESS; i++) {
        const char *fault = random_run(&world, (uint64_t)i + 1, i % 2 == 1, &stats);
        if (fault == NULL)
            continue;
        (void)printf("life %d: %s\n", i + 1, fault);
        status = EXIT_FAILURE;
    }
    world_release(&world);
    return status;
}
