/*
 * net/conn_in: what comes in on a connection, for net/conn, which makes it.
 * Answers go by net/conn_out. On the connection's loop only.
 */
#ifndef RENDEZVOUS_NET_CONN_IN_H
#define RENDEZVOUS_NET_CONN_IN_H

#include "rendezvous/net/conn.h"

/* From now on what comes is taken, and the owner's handler called. Returns 0,
 * or libuv's error. */
int conn_start_reading(struct conn *c);

/* One that was dialled stands and is being read: greets, with a key by TLS
 * first; on_up is called, at once or when that is done. May end it. */
void conn_begin(struct conn *c);

#endif
