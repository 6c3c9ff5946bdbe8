/* Asking before something is destroyed. */
#include "cli/confirm.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum cli_exit confirm(const struct args *args, const char *format, ...)
{
    char what[256];
    char line[16] = "";
    va_list arguments;
    if (cli_has(args, "--yes"))
        return CLI_DONE;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (isatty(STDIN_FILENO) != 1)
        return cli_usage(args->verb, "this %s; confirm with --yes", what);
    fprintf(stderr, "This %s. Type yes to continue: ", what);
    fflush(stderr);
    if (fgets(line, sizeof line, stdin) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    if (strcmp(line, "yes") == 0)
        return CLI_DONE;
    cli_complain(args->verb, "not confirmed; nothing was changed");
    return CLI_FAILED;
}
