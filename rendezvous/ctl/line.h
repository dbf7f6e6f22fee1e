/*
 * ctl/line: a connection of ddpctl to a rendezvous, plain or, with a
 * token, inside TLS: bytes out, bytes in, and a deadline that nothing exceeds.
 * Blocking: ddpctl has one thing to do at a time.
 */
#ifndef RENDEZVOUS_CTL_LINE_H
#define RENDEZVOUS_CTL_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "rendezvous/base/err.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/tls.h"

struct ctl_line;

/* Where, and with what. */
struct ctl_peer {
    char host[256];
    int port;
    struct addr_list addrs; /* by ctl_resolve */
    struct tls_key *key;    /* owned by main; NULL: no token */
};

/* Fills `addrs`. Where no name server answers in time the process ends with a
 * sentence: libc's resolver cannot be called back. Errors: DDP_E_UNREACHABLE.
 */
int ctl_resolve(struct ctl_peer *peer, int64_t timeout_us, struct ddp_err *err);

/*
 * Connects, to the first address that answers, within the deadline (mono_now_us
 * time), which holds for all that is done with the line. Borrows `peer` for its
 * life. NULL: DDP_E_UNREACHABLE, DDP_E_CONFIG (tokens), DDP_E_NOMEM.
 */
struct ctl_line *ctl_line_open(const struct ctl_peer *peer,
                               int64_t deadline_us,
                               struct ddp_err *err);
void ctl_line_close(struct ctl_line *l); /* NULL is fine */

/* All of it. Errors as for ctl_line_read. */
int ctl_line_write(struct ctl_line *l,
                   const void *data,
                   size_t len,
                   struct ddp_err *err);

/*
 * What there is, at least one byte; 0: the end of all. -1: DDP_E_UNREACHABLE
 * (broken, or too late), DDP_E_CONFIG (one end has no token, or another one),
 * DDP_E_PROTO (what answers speaks something else), DDP_E_ABORTED: a signal
 * came.
 */
long ctl_line_read(struct ctl_line *l,
                   void *room,
                   size_t room_len,
                   struct ddp_err *err);

#endif
