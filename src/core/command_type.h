/* The commands by name and number. What each carries is in decide.h. */
#ifndef PAWL_CORE_COMMAND_TYPE_H
#define PAWL_CORE_COMMAND_TYPE_H

#include "base/str.h"

enum command_by { COMMAND_BY_WORKER, COMMAND_BY_CALLER, COMMAND_BY_ENGINE };

enum command_type {
    COMMAND_NONE = 0,
#define COMMAND(symbol, number, name, by) COMMAND_##symbol = (number),
#include "core/command.def"
#undef COMMAND
};

/* "submit", …; "" for COMMAND_NONE. */
struct str command_type_name(enum command_type type);

/* The command of a name, or COMMAND_NONE. */
enum command_type command_type_parse(struct str name);

/* Who may give it. */
enum command_by command_type_by(enum command_type type);

#endif
