#include "cli/listing.h"

#include "cli/screen.h"

enum cli_exit listing_run(const struct args *args, const struct listing *listing)
{
    char *answer;
    enum cli_exit code = cli_ask_once(args, listing->call, pawl_object_new(), &answer);
    if (code != CLI_DONE)
        return code;
    if (cli_has(args, "--json")) {
        print_answer(answer);
    } else {
        struct table *table = table_new(listing->columns, listing->column_count);
        struct pawl_json list = pawl_json_get(pawl_json_read(answer), listing->path);
        struct pawl_json item = {NULL, 0};
        while (pawl_json_next(list, &item, NULL) != 0)
            listing->add_row(table, item);
        code = table_finish(args->verb, table, listing->otherwise);
    }
    pawl_free(answer);
    return code;
}
