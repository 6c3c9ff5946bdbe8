/* What a job costs in the library with a SQLite file, all threads together.
 *
 *   submit   made one by one
 *   work     claimed and completed, one by one
 *   batch    whole lives, 100 jobs in a call
 *
 * The rows of the jobs are written within what is counted. scripts/bench runs this under callgrind;
 * on its own it only says how much it did. */
#include <stdio.h>
#include <string.h>

#include "measure.h"

int main(int argc, char **argv)
{
    const struct pawl_options options = {.create = 1, .actor = "bench"};
    struct pawl_error error;
    struct pawl *pawl;
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "--list") == 0)
        return measured_list();
    const struct measured *scenario = measured_find(argv[1]);
    if (pawl_open(measure_place(), &options, &pawl, &error) != PAWL_OK)
        measure_fail("no store", error.message);
    scenario->prepare(pawl);
    measure_begin();
    scenario->work(pawl);
    measure_end();
    pawl_close(pawl);
    measure_leave();
    return printf("%d job\n", scenario->jobs) < 0;
}
