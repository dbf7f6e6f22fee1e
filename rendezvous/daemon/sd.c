/*
 * sd_notify(3) and sd_listen_fds(3) without libsystemd: a datagram with lines
 * of NAME=VALUE, and descriptors from 3 on. The variables are removed once they
 * are read, since the store's process and others must not speak for the daemon.
 *
 * Failure modes: a socket that was passed and cannot be used is an error, since
 * to listen elsewhere would hide it. A notification that systemd does not take
 * is lost: it would only be late, and the daemon must never wait for it.
 */
#include "rendezvous/daemon/sd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/opts.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

/* The variable's number; 0: there is none. */
static int64_t read_number(const char *name)
{
    const char *text = getenv(name);
    int64_t number;
    if (text == NULL || !opts_read_int(text, 0, INT64_MAX, &number))
        return 0;
    return number;
}

/* "/run/..." or "@...", which is a name without a file. */
static int set_address(struct sd *sd, const char *path, struct ddp_err *err)
{
    size_t len = strlen(path);
    if ((path[0] != '/' && path[0] != '@') || len < 2 ||
        len >= sizeof(sd->to.sun_path))
        return ddp_err_set(
            err, DDP_E_CONFIG,
            "NOTIFY_SOCKET: '%.120s' is not the path of a socket", path);
    sd->to.sun_family = AF_UNIX;
    memcpy(sd->to.sun_path, path, len);
    if (path[0] == '@')
        sd->to.sun_path[0] = '\0';
    sd->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return 0;
}

int sd_open(struct sd *sd, struct ddp_err *err)
{
    *sd = (struct sd){.fd = -1};
    const char *path = getenv("NOTIFY_SOCKET");
    if (path == NULL || path[0] == '\0')
        return 0;
    if (set_address(sd, path, err) != 0)
        return -1;
    sd->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sd->fd < 0)
        return ddp_err_sys(err, DDP_E_CONFIG,
                           "cannot make a socket for systemd");
    int64_t pid = read_number("WATCHDOG_PID");
    if (pid == 0 || pid == getpid())
        sd->watchdog_us = read_number("WATCHDOG_USEC");
    (void)unsetenv("NOTIFY_SOCKET"); /* these names are valid: cannot fail */
    (void)unsetenv("WATCHDOG_PID");
    (void)unsetenv("WATCHDOG_USEC");
    return 0;
}

void sd_close(struct sd *sd)
{
    if (sd->fd >= 0)
        (void)close(sd->fd); /* datagrams: nothing is under way */
    sd->fd = -1;
}

void sd_tell(const struct sd *sd, const char *lines)
{
    if (sd->fd < 0)
        return;
    (void)sendto(sd->fd, lines, strlen(lines), MSG_NOSIGNAL,
                 (const struct sockaddr *)&sd->to, sd->to_len);
}

static bool is_tcp_listener(int fd)
{
    int domain = 0, type = 0, listens = 0;
    socklen_t len = sizeof(int);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 &&
           (domain == AF_INET || domain == AF_INET6) && type == SOCK_STREAM &&
           listens;
}

int sd_listener(int *fd, struct ddp_err *err)
{
    int64_t n = read_number("LISTEN_FDS");
    bool ours = read_number("LISTEN_PID") == getpid();
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDNAMES");
    *fd = -1;
    if (!ours || n == 0)
        return 0;
    if (n > 1)
        return ddp_err_set(err, DDP_E_CONFIG,
                           "systemd passed %lld sockets; the .socket unit must "
                           "have one ListenStream=",
                           (long long)n);
    if (!is_tcp_listener(FIRST_FD))
        return ddp_err_set(
            err, DDP_E_CONFIG,
            "systemd passed something else than a listening TCP "
            "socket; the .socket unit must have ListenStream=PORT");
    int flags = fcntl(FIRST_FD, F_GETFL);
    if (flags < 0 || fcntl(FIRST_FD, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) != 0)
        return ddp_err_sys(err, DDP_E_CONFIG,
                           "cannot use the socket that systemd passed");
    *fd = FIRST_FD;
    return 0;
}
