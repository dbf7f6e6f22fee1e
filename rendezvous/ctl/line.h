/*
 * ctl/line: a connection of ddpctl to a rendezvous, plain or, with a token,
 * inside TLS: bytes out, bytes in, and a deadline for all of it. Blocking:
 * ddpctl does one thing at a time.
 */
#ifndef RENDEZVOUS_CTL_LINE_H
#define RENDEZVOUS_CTL_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/tls.h"

struct ctl_line;

/* Which rendezvous, and with which token. */
struct ctl_peer {
    char host[256];
    int port;
    struct addr_list addrs; /* by ctl_resolve */
    struct tls_key *key;    /* owned by main; NULL: no token */
};

/* Fills `addrs`. If no name server answers in time, the process ends with a
 * message: libc's resolver cannot be interrupted. Errors: DDP_E_UNREACHABLE. */
int ctl_resolve(struct ctl_peer *peer, int64_t timeout_us, struct ddp_err *err);

/*
 * Connects to the first address that answers. The deadline (mono_now_us time)
 * holds for everything that is done with the line. Borrows `peer` for the
 * line's life. NULL: DDP_E_UNREACHABLE, DDP_E_CONFIG (tokens), DDP_E_NOMEM.
 */
struct ctl_line *ctl_line_open(const struct ctl_peer *peer,
                               int64_t deadline_us,
                               struct ddp_err *err);
void ctl_line_close(struct ctl_line *l); /* NULL is fine */

/* Another deadline from now on. */
void ctl_line_renew(struct ctl_line *l, int64_t deadline_us);

/* Writes all of it. Errors as for ctl_line_read. */
int ctl_line_write(struct ctl_line *l,
                   const void *data,
                   size_t len,
                   struct ddp_err *err);

/*
 * Reads what there is, at least one byte; 0: the end. -1: DDP_E_UNREACHABLE
 * (the connection broke, or the deadline has passed), DDP_E_CONFIG (one end has
 * no token, or another one), DDP_E_PROTO (another protocol), DDP_E_ABORTED (a
 * signal).
 */
long ctl_line_read(struct ctl_line *l,
                   void *room,
                   size_t room_len,
                   struct ddp_err *err);

/* Waits until ctl_line_read has something to look at, or the deadline has come.
 * True: `fd` has one of the poll(2) events, an error or a hang-up. */
bool ctl_line_wait(const struct ctl_line *l, int fd, short events);

/* -1, DDP_E_CONFIG: the rendezvous refused a question without a token. */
int ctl_token_missing(struct ddp_err *err);

#endif
