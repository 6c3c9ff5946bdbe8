#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/screen.h"
#include "cli/when.h"

enum { BAR_WIDTH = 30, EVERY_MS = 100 };

struct progress progress_begin(const char *what, long long total)
{
    return (struct progress){
        .what = what,
        .total = total,
        .visible = isatty(STDERR_FILENO) == 1 && !screen_is_dumb(),
    };
}

void progress_show(struct progress *progress, long long done)
{
    long long now = progress->visible ? when_now() : 0;
    progress->done = done;
    if (!progress->visible || (now >= progress->shown_at && now < progress->shown_at + EVERY_MS))
        return;
    progress->shown_at = now;
    if (progress->total > 0) {
        long long part = done < progress->total ? done : progress->total;
        int filled = (int)(part * BAR_WIDTH / progress->total);
        fprintf(stderr, "\r[%.*s%.*s] %lld/%lld %s\033[K", filled, "##############################",
                BAR_WIDTH - filled, "..............................", done, progress->total,
                progress->what);
    } else {
        fprintf(stderr, "\r%lld %s\033[K", done, progress->what);
    }
    fflush(stderr);
}

void progress_clear(struct progress *progress)
{
    if (progress->visible && progress->shown_at != 0)
        fputs("\r\033[K", stderr);
    progress->shown_at = 0;
}

void progress_end(struct progress *progress)
{
    progress_clear(progress);
    progress->visible = false;
}
