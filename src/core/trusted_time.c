#include "core/trusted_time.h"

#include <assert.h>

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void trusted_time_begin(struct trusted_time *trusted, int64_t noted, int64_t clock, int64_t steady)
{
    bool is_new = noted == 0;
    *trusted = (struct trusted_time){
        .is_known = true,
        .at = is_new ? clock : sooner(noted, clock),
        .clock_at = clock,
        .steady_at = steady,
        .steady_since = is_new ? steady - TRUSTED_AFTER_MS : steady,
    };
}

void trusted_time_see(struct trusted_time *trusted, int64_t clock, int64_t steady)
{
    assert(trusted->is_known);
    int64_t elapsed = steady - trusted->steady_at;
    int64_t drift = clock - trusted->clock_at - elapsed;
    if (drift > TRUSTED_JUMP_MS || drift < -TRUSTED_JUMP_MS)
        trusted->steady_since = steady;
    bool is_plausible = steady - trusted->steady_since >= TRUSTED_AFTER_MS;
    trusted->at = is_plausible ? clock : sooner(trusted->at + 2 * elapsed, clock);
    trusted->clock_at = clock;
    trusted->steady_at = steady;
    assert(trusted->at <= clock);
}

int64_t trusted_time_now(const struct trusted_time *trusted, int64_t steady)
{
    return trusted->is_known ? trusted->at + (steady - trusted->steady_at) : 0;
}
