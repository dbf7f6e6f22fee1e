/*
 * daemon/pending: those who have connected and have not said who they are. How
 * long they may stay, which of them goes where others want the place, and who
 * is handed to the store because he waits to be spoken to. On the server's
 * loop.
 */
#ifndef RENDEZVOUS_DAEMON_PENDING_H
#define RENDEZVOUS_DAEMON_PENDING_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/base/err.h"
#include "rendezvous/daemon/server_log.h"
#include "rendezvous/daemon/conn_slots.h"
#include "rendezvous/net/conn.h"

struct pending;

/* Owned by the caller, given back by pending_close; slots and log are borrowed
 * until then. `store_chan` is the giving end of a channel (net/fd_pass) that
 * it owns from here on, also where it fails; 0: there is no store. Errors:
 * DDP_E_NOMEM. */
int pending_open(struct pending **out,
                 uv_loop_t *loop,
                 struct conn_slots *slots,
                 struct server_log *log,
                 int store_chan,
                 struct ddp_err *err);

/* Closes no connection but those that wait to be handed over. Memory goes as
 * the loop runs on. */
void pending_close(struct pending *l);

/* One that was accepted just now, from that address, gets a place, for which
 * another one may have to go. NULL: there is none, and nobody went; the caller
 * ends it. */
struct conn_slot *
pending_take(struct pending *l, struct conn *c, const char *peer);

/* The loop has been round once: what was said up to now has been read. */
void pending_turn(struct pending *l);

/* There is no descriptor for those who come. Whether somebody went. */
bool pending_give_way(struct pending *l);

/* Hands a stranger to the store, which gives its place back. False: nothing has
 * happened, since there is no store or conn_may_yield says no. */
bool pending_hand_over(struct pending *l, struct conn_slot *slot);

#endif
