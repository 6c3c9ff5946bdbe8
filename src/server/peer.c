#define _GNU_SOURCE /* NOLINT: SOCK_CLOEXEC */
#include "server/peer.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    ANSWER_BYTES_MAX = 4096,
    KERNEL_S_MAX = 2, /* it answers at once, or not at all */
};

/* One end of a connection, IPv4 as such also where the socket is of IPv6. */
struct end {
    uint8_t family;
    uint16_t port; /* in network order */
    uint32_t address[4];
};

static bool read_end(const struct sockaddr_storage *from, struct end *ret)
{
    struct end end = {0};
    if (from->ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, from, sizeof v4);
        end.family = AF_INET;
        end.port = v4.sin_port;
        end.address[0] = v4.sin_addr.s_addr;
    } else if (from->ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, from, sizeof v6);
        end.port = v6.sin6_port;
        memcpy(end.address, &v6.sin6_addr, sizeof end.address);
        end.family = AF_INET6;
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
            end.family = AF_INET;
            end.address[0] = end.address[3];
            end.address[1] = end.address[2] = end.address[3] = 0;
        }
    }
    *ret = end;
    return end.family != 0;
}

struct question {
    struct nlmsghdr header;
    struct inet_diag_req_v2 request;
};

/* Asks for the socket whose own end is `peer` and whose other end is `here`. */
static bool ask(int kernel, const struct end *peer, const struct end *here)
{
    struct question question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .request = {.sdiag_family = peer->family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_states = UINT32_MAX,
                    .id = {.idiag_sport = peer->port,
                           .idiag_dport = here->port,
                           .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    memcpy(question.request.id.idiag_src, peer->address, sizeof peer->address);
    memcpy(question.request.id.idiag_dst, here->address, sizeof here->address);
    struct sockaddr_nl to = {.nl_family = AF_NETLINK};
    return sendto(kernel, &question, sizeof question, 0, (const struct sockaddr *)&to, sizeof to) ==
           (ssize_t)sizeof question;
}

/* Reads whose it is. A socket that its process has closed belongs to nobody, and the kernel would
 * say root: it has no inode any more. */
static bool read_owner(int kernel, const struct end *peer, uid_t *ret)
{
    _Alignas(struct nlmsghdr) char answer[ANSWER_BYTES_MAX];
    ssize_t len = recv(kernel, answer, sizeof answer, 0);
    struct nlmsghdr header;
    struct inet_diag_msg found;
    if (len < (ssize_t)(NLMSG_HDRLEN + sizeof found))
        return false;
    memcpy(&header, answer, sizeof header);
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || header.nlmsg_len < NLMSG_HDRLEN + sizeof found)
        return false;
    memcpy(&found, answer + NLMSG_HDRLEN, sizeof found);
    if (found.idiag_inode == 0 || found.id.idiag_sport != peer->port)
        return false;
    *ret = found.idiag_uid;
    return true;
}

static bool owner_of(const struct end *peer, const struct end *here, uid_t *ret)
{
    int kernel = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    const struct timeval timeout = {.tv_sec = KERNEL_S_MAX};
    if (kernel < 0)
        return false;
    (void)setsockopt(kernel, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    bool found = ask(kernel, peer, here) && read_owner(kernel, peer, ret);
    (void)close(kernel);
    return found;
}

bool peer_is_trusted(int socket)
{
    struct sockaddr_storage there = {0};
    struct sockaddr_storage mine = {0};
    socklen_t there_len = sizeof there;
    socklen_t mine_len = sizeof mine;
    struct end peer;
    struct end here;
    uid_t owner;
    if (getpeername(socket, (struct sockaddr *)&there, &there_len) != 0 ||
        getsockname(socket, (struct sockaddr *)&mine, &mine_len) != 0)
        return false;
    if (mine.ss_family == AF_UNIX)
        return true;
    return read_end(&there, &peer) && read_end(&mine, &here) && owner_of(&peer, &here, &owner) &&
           (owner == 0 || owner == geteuid());
}
