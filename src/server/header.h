/* The headers of a request that are looked at. */
#ifndef PAWL_SERVER_HEADER_H
#define PAWL_SERVER_HEADER_H

enum header_rule {
    HEADER_ANY,
    HEADER_ONCE,      /* it may be sent only once */
    HEADER_FORWARDED, /* the request came through another server; so does every X-Forwarded-... */
};

/* HEADER(symbol, name, rule) */
#define HEADERS(HEADER)                                                                            \
    HEADER(ACCEPT, "Accept", ANY)                                                                  \
    HEADER(ACCEPT_ENCODING, "Accept-Encoding", ANY)                                                \
    HEADER(AUTHORIZATION, "Authorization", ONCE)                                                   \
    HEADER(CF_CONNECTING_IP, "CF-Connecting-IP", FORWARDED)                                        \
    HEADER(CONTENT_ENCODING, "Content-Encoding", ONCE)                                             \
    HEADER(CONTENT_LENGTH, "Content-Length", ANY)                                                  \
    HEADER(CONTENT_TYPE, "Content-Type", ANY)                                                      \
    HEADER(FORWARDED_BY, "Forwarded", FORWARDED)                                                   \
    HEADER(HOST, "Host", ONCE)                                                                     \
    HEADER(IDEMPOTENCY_KEY, "Idempotency-Key", ONCE)                                               \
    HEADER(IF_NONE_MATCH, "If-None-Match", ANY)                                                    \
    HEADER(LAST_EVENT_ID, "Last-Event-ID", ONCE)                                                   \
    HEADER(ORIGIN, "Origin", ONCE)                                                                 \
    HEADER(PAWL_ACTOR, "Pawl-Actor", ANY)                                                          \
    HEADER(SEC_FETCH_MODE, "Sec-Fetch-Mode", ANY)                                                  \
    HEADER(SEC_FETCH_SITE, "Sec-Fetch-Site", ANY)                                                  \
    HEADER(TRACEPARENT, "traceparent", ANY)                                                        \
    HEADER(TRANSFER_ENCODING, "Transfer-Encoding", ANY)                                            \
    HEADER(TRUE_CLIENT_IP, "True-Client-IP", FORWARDED)                                            \
    HEADER(VIA, "Via", FORWARDED)                                                                  \
    HEADER(X_FORWARDED_HOST, "X-Forwarded-Host", FORWARDED)                                        \
    HEADER(X_FORWARDED_PROTO, "X-Forwarded-Proto", FORWARDED)                                      \
    HEADER(X_PAWL_CSRF, "X-Pawl-CSRF", ANY)                                                        \
    HEADER(X_REAL_IP, "X-Real-IP", FORWARDED)

enum header {
#define HEADER(symbol, name, rule) HEADER_##symbol,
    HEADERS(HEADER)
#undef HEADER
        HEADER_COUNT
};

#endif
