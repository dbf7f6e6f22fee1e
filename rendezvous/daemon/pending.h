/*
 * daemon/pending: connections whose peers have not said yet who they are. How
 * long they may stay, which of them goes when others want its place, and which
 * are handed to the c10d store because their peer waits to be spoken to. On the
 * server's loop.
 */
#ifndef RENDEZVOUS_DAEMON_PENDING_H
#define RENDEZVOUS_DAEMON_PENDING_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/err.h"
#include "rendezvous/daemon/conn_slots.h"
#include "rendezvous/daemon/server_log.h"
#include "rendezvous/net/conn.h"

struct pending_conns;

/* Owned by the caller, given back by pending_close; slots and log are borrowed
 * until then. `store_chan` is the giving end of a channel (net/fd_pass), which
 * it owns from here on, also when it fails; 0: there is no store. Errors:
 * DDP_E_NOMEM. */
int pending_open(struct pending_conns **out,
                 uv_loop_t *loop,
                 struct conn_slots *slots,
                 struct server_log *log,
                 int store_chan,
                 struct ddp_err *err);

/* Closes no connection, except those that wait to be handed over. Memory goes
 * as the loop runs on. */
void pending_close(struct pending_conns *p);

/* A place for a connection that was accepted just now.
 * Another pending connection may have to go for it. NULL: all places are taken,
 * and none may go; the caller closes the connection. */
struct conn_slot *pending_take(struct pending_conns *p, struct conn *c);

/* The loop has been round once: all bytes that had come by then were read. */
void pending_turn(struct pending_conns *p);

/* There is no descriptor for the next connection: closes some pending ones that
 * may go. Returns whether there were any. */
bool pending_give_way(struct pending_conns *p);

/* Hands a pending connection to the store and frees its place. False: nothing
 * has happened, since there is no store or conn_may_yield says no. */
bool pending_hand_over(struct pending_conns *p, struct conn_slot *slot);

#endif
