/*
 * daemon/outbox: what the core sends in one step goes out when the step is
 * over: one write for each connection, however many messages it is sent. On the
 * server's loop.
 */
#ifndef RENDEZVOUS_DAEMON_OUTBOX_H
#define RENDEZVOUS_DAEMON_OUTBOX_H

#include "rendezvous/daemon/conn_slots.h"
#include "rendezvous/proto/msg.h"

struct outbox;

/* Owned by the caller; the slots are borrowed until outbox_del. Aborts when out
 * of memory. */
struct outbox *outbox_new(struct conn_slots *slots);
void outbox_del(struct outbox *o); /* NULL is fine */

/* To the connection of a slot that is in use. It may be freed before the next
 * outbox_flush, after conn_finish, which sends what it has. */
void outbox_send(struct outbox *o, struct conn_slot *slot, const struct msg *m);

/* The step is over. */
void outbox_flush(struct outbox *o);

#endif
