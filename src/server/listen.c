#define _GNU_SOURCE /* NOLINT: SOCK_CLOEXEC */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    HOST_LEN_MAX = 255,
    PORT_LEN_MAX = 5,
};

static enum error_code split(struct str where, char host[HOST_LEN_MAX + 1],
                             char port[PORT_LEN_MAX + 1], struct err *err)
{
    size_t colon = where.len;
    while (colon > 0 && where.at[colon - 1] != ':')
        colon--;
    struct str name = {where.at, colon == 0 ? 0 : colon - 1};
    struct str digits = {where.at + colon, where.len - colon};
    if (name.len >= 2 && name.at[0] == '[' && name.at[name.len - 1] == ']')
        name = (struct str){name.at + 1, name.len - 2};
    bool good = colon > 0 && digits.len > 0 && digits.len <= PORT_LEN_MAX &&
                name.len <= HOST_LEN_MAX && memchr(where.at, '\0', where.len) == NULL;
    for (size_t i = 0; good && i < digits.len; i++)
        good = digits.at[i] >= '0' && digits.at[i] <= '9';
    if (good) {
        memcpy(host, name.at, name.len);
        host[name.len] = '\0';
        memcpy(port, digits.at, digits.len);
        port[digits.len] = '\0';
        good = strtol(port, NULL, 10) <= UINT16_MAX;
    }
    return good ? ERR_OK
                : err_set(
                      err, ERR_BAD_REQUEST,
                      "invalid listen address \"%.*s\": use ADDRESS:PORT, such as 127.0.0.1:7295",
                      STR_ARG(where));
}

/* `ret_errno` is why it could not be had. */
static enum error_code open_at(const struct addrinfo *info, struct str where, struct listener *ret,
                               int *ret_errno, struct err *err)
{
    const int on = 1;
    const int off = 0;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 ||
        (info->ai_family == AF_INET6 &&
         setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
        bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)(void *)&bound, &len) != 0) {
        int why = *ret_errno = errno;
        char text[128] = "";
        if (fd >= 0)
            (void)close(fd);
        return err_set(err, ERR_UNAVAILABLE, "cannot listen on %.*s: %s", STR_ARG(where),
                       strerror_r(why, text, sizeof text));
    }
    *ret = (struct listener){
        .socket = fd,
        .ipv6 = info->ai_family == AF_INET6,
        .address = bound,
    };
    struct sockaddr_in ip = {0};
    struct sockaddr_in6 ip6 = {0};
    memcpy(&ip, &bound, sizeof ip);
    memcpy(&ip6, &bound, sizeof ip6);
    ret->port = ntohs(ret->ipv6 ? ip6.sin6_port : ip.sin_port);
    return ERR_OK;
}

static enum error_code find_and_open(const char *host, const char *port, int family,
                                     struct str where, struct listener *ret, int *ret_errno,
                                     struct err *err)
{
    const struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0)
        return err_set(err, ERR_BAD_REQUEST, "cannot listen on %.*s: %s", STR_ARG(where),
                       gai_strerror(result));
    enum error_code code = open_at(found, where, ret, ret_errno, err);
    freeaddrinfo(found);
    return code;
}

enum error_code listen_open(struct str where, struct listener *ret, struct err *err)
{
    char host[HOST_LEN_MAX + 1];
    char port[PORT_LEN_MAX + 1];
    int why = 0;
    enum error_code code = split(where, host, port, err);
    if (code != ERR_OK)
        return code;
    if (host[0] != '\0')
        return find_and_open(host, port, AF_UNSPEC, where, ret, &why, err);
    /* A socket of IPv6 takes those of IPv4 too. Not every system has one. */
    code = find_and_open(NULL, port, AF_INET6, where, ret, &why, err);
    if (code != ERR_OK && why != EADDRINUSE && why != EACCES)
        code = find_and_open(NULL, port, AF_INET, where, ret, &why, err);
    return code;
}
