/* What happened, line by line; its hash tells whether two runs were the same. */
#include <stdarg.h>
#include <stdlib.h>

#include "world.h"

enum { LINE_BYTES = 600 };

static void add(struct trace *trace, const char *text, size_t len)
{
    if (trace->len + len > trace->cap) {
        trace->cap = (trace->len + len) * 2;
        trace->at = need(realloc(trace->at, trace->cap));
    }
    memcpy(trace->at + trace->len, text, len);
    trace->len += len;
    if (trace->live != NULL) {
        (void)fwrite(text, 1, len, trace->live);
        (void)fflush(trace->live);
    }
}

void trace(struct world *world, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    int len = snprintf(line, sizeof line, "%5lld.%03lld ", (long long)(world->now / 1000),
                       (long long)(world->now % 1000));
    va_start(arguments, format);
    int more = vsnprintf(line + len, sizeof line - (size_t)len - 1, format, arguments);
    va_end(arguments);
    len += more < (int)sizeof line - len - 1 ? more : (int)sizeof line - len - 2;
    line[len++] = '\n';
    add(&world->trace, line, (size_t)len);
}

void trace_finish(struct world *world)
{
    struct str text = {world->trace.at, world->trace.len};
    hash_sha256(&text, 1, world->result->hash);
    world->result->trace = world->trace.at;
    world->result->trace_len = world->trace.len;
}
