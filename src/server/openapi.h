/* The routes as an OpenAPI 3.1 document, made from the list that serves them. */
#ifndef PAWL_SERVER_OPENAPI_H
#define PAWL_SERVER_OPENAPI_H

#include "base/buf.h"

void openapi_write(struct buf *buf);

#endif
