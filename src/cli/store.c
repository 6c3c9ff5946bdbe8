/* Which store a verb works on, and how it says what went wrong there. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "pawl.h"

bool cli_store_option(int argc, char **argv, int *at, const char **url)
{
    return cli_option(argc, argv, at, "--store", url);
}

const char *cli_store_url(const char *said)
{
    if (said != NULL)
        return said;
    const char *setting = getenv("PAWL_STORE");
    return setting != NULL && *setting != '\0' ? setting : "sqlite:pawl.db";
}

static enum cli_exit exit_of(enum pawl_code code)
{
    switch (code) {
    case PAWL_OK:
        return CLI_DONE;
    case PAWL_BAD_REQUEST:
    case PAWL_UNKNOWN_FIELD:
    case PAWL_PAYLOAD_TOO_LARGE:
    case PAWL_UNSUPPORTED_MEDIA_TYPE:
    case PAWL_UNPROCESSABLE_PLAN:
        return CLI_USAGE;
    case PAWL_NOT_FOUND:
        return CLI_NOT_FOUND;
    case PAWL_STALE_LEASE:
    case PAWL_VERSION_MISMATCH:
    case PAWL_INVALID_TRANSITION:
    case PAWL_WRONG_CORRELATION_KEY:
    case PAWL_REPLAY_MISMATCH:
    case PAWL_IDEMPOTENCY_MISMATCH:
        return CLI_CONFLICT;
    case PAWL_UNAVAILABLE:
        return CLI_OUT_OF_REACH;
    default:
        return CLI_FAILED;
    }
}

enum cli_exit cli_failed(const struct verb *verb, const struct pawl_error *error)
{
    fprintf(stderr, "pawl %s: %s\n", verb->name, error->message);
    return exit_of(error->code);
}
