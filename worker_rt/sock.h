/*
 * worker_rt/sock: what the store's client and the communicator both do with a
 * TCP socket.
 *
 * TCP_USER_TIMEOUT is left alone here on purpose: it ends a connection also
 * when a peer is alive and only does not read for that long (zero window; seen
 * on Linux 6.18), and a rank that saves a snapshot, or was paused, does not
 * read. A cut line is found by keepalive where nothing is under way, and by
 * sock_is_silent where something is.
 */
#ifndef WORKER_RT_SOCK_H
#define WORKER_RT_SOCK_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "rendezvous/base/mono.h"

#define SOCK_SILENT_MS 10000 /* about what keepalive below takes */

/* No pauses, and an end to a silent connection after 4 + 3 * 2 s. Best
 * effort: a connection without these options is still one. */
static inline void sock_tune(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, 4},
                   {IPPROTO_TCP, TCP_KEEPINTVL, 2},
                   {IPPROTO_TCP, TCP_KEEPCNT, 3}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name,
                         &options[i].value, sizeof(options[i].value));
}

/*
 * Whether the peer's kernel has acknowledged nothing for SOCK_SILENT_MS though
 * we sent, or probed its closed window, more than once since. A peer that is
 * merely busy or stopped acknowledges.
 */
static inline bool sock_is_silent(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    return (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv >= SOCK_SILENT_MS;
}

/* For poll(2): milliseconds until then, -1 for never. */
static inline int sock_poll_ms(int64_t deadline_us)
{
    if (deadline_us == MONO_NEVER)
        return -1;
    return (int)mono_ms_until(mono_now_us(), deadline_us);
}

/* The error of a connect(2) that went on in the background; 0: connected. */
static inline int sock_error(int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    return error;
}

#endif
