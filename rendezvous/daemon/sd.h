/*
 * daemon/sd: tells systemd the state of the service, sd_notify(3), and takes a
 * socket from it, sd_listen_fds(3). These protocols are a datagram and two
 * variables, for which no library is needed. Without systemd all of this does
 * nothing.
 */
#ifndef RENDEZVOUS_DAEMON_SD_H
#define RENDEZVOUS_DAEMON_SD_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "rendezvous/base/err.h"

struct sd {
    int fd; /* -1: not run by systemd, or it asks for nothing */
    struct sockaddr_un to;
    socklen_t to_len;
    int64_t watchdog_us; /* the watchdog's interval; 0: there is none */
};

/*
 * Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and takes them out of
 * the environment. Errors: DDP_E_CONFIG, NOTIFY_SOCKET is no address that can
 * be sent to.
 */
int sd_open(struct sd *sd, struct ddp_err *err);
void sd_close(struct sd *sd);

/* Lines as "READY=1\nSTATUS=..."; borrows them for the call. Never blocks: a
 * line that is not taken at once is lost. */
void sd_tell(const struct sd *sd, const char *lines);

/*
 * A listening TCP socket that systemd made (a .socket unit), owned by the
 * caller; *fd is -1 if there is none. Takes LISTEN_FDS, LISTEN_PID and
 * LISTEN_FDNAMES out of the environment. Errors: DDP_E_CONFIG, more than one
 * socket or another kind of one.
 */
int sd_listener(int *fd, struct ddp_err *err);

#endif
