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
#include "rendezvous/daemon/slots.h"
#include "rendezvous/net/conn.h"

struct lobby;

/* Owned by the caller, given back by lobby_close; slots and log are borrowed
 * until then. `store_chan` is the giving end of a channel (net/fd_pass) that
 * it owns from here on, also where it fails; 0: there is no store. Errors:
 * DDP_E_NOMEM. */
int lobby_open(struct lobby **out,
               uv_loop_t *loop,
               struct slots *slots,
               struct server_log *log,
               int store_chan,
               struct ddp_err *err);

/* Closes no connection but those that wait to be handed over. Memory goes as
 * the loop runs on. */
void lobby_close(struct lobby *l);

/* One that was accepted just now, from that address, gets a place, for which
 * another one may have to go. NULL: there is none, and nobody went; the caller
 * ends it. */
struct slot *lobby_take(struct lobby *l, struct conn *c, const char *peer);

/* The loop has been round once: what was said up to now has been read. */
void lobby_turn(struct lobby *l);

/* There is no descriptor for those who come. Whether somebody went. */
bool lobby_give_way(struct lobby *l);

/* Hands a stranger to the store, which gives its place back. False: nothing has
 * happened, since there is no store or conn_may_yield says no. */
bool lobby_hand_over(struct lobby *l, struct slot *slot);

#endif
