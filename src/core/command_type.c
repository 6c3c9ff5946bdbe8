#include "core/command_type.h"

#include <assert.h>
#include <stddef.h>

struct command_info {
    struct str name;
    enum command_by by;
};

static const struct command_info commands[] = {
    [COMMAND_NONE] = {{"", 0}, COMMAND_BY_ENGINE},
#define COMMAND(symbol, number, name, by) [number] = {{name, sizeof(name) - 1}, COMMAND_BY_##by},
#include "core/command.def"
#undef COMMAND
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

struct str command_type_name(enum command_type type)
{
    assert((size_t)type < COMMAND_COUNT);
    return commands[type].name;
}

enum command_type command_type_parse(struct str name)
{
    for (size_t i = COMMAND_NONE + 1; i < COMMAND_COUNT; i++)
        if (commands[i].name.len > 0 && str_eq(name, commands[i].name))
            return (enum command_type)i;
    return COMMAND_NONE;
}

enum command_by command_type_by(enum command_type type)
{
    assert(type > COMMAND_NONE && (size_t)type < COMMAND_COUNT);
    return commands[type].by;
}
