/* Answers: what came of a request, as HTTP. */
#ifndef PAWL_SERVER_RESPOND_H
#define PAWL_SERVER_RESPOND_H

#include "server/assets.h"
#include "server/connection.h"

/* Answers with connection->err, as problem+json. When `cut`, the connection is closed then, since
 * the rest of the request is not read. */
enum MHD_Result respond_error(struct connection *connection, bool cut);

/* Answers with connection->answer. */
enum MHD_Result respond_answer(struct connection *connection);

/* Answers with a text that stays. */
enum MHD_Result respond_text(struct connection *connection, unsigned status, const char *type,
                             struct str text);

/* Answers with a file of the dashboard, compressed if the client takes that. `stays`: anyone who
 * has it need never ask again. */
enum MHD_Result respond_asset(struct connection *connection, const struct asset *asset, bool stays);

/* A response with a text that is the connection's or stays for ever; NULL: no memory. */
struct MHD_Response *respond_make(struct str text);

/* Queues a response and lets go of it; NULL: there was no memory for it. */
enum MHD_Result respond_queue(struct connection *connection, unsigned status, const char *type,
                              struct MHD_Response *response);

#endif
