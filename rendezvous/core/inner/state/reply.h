/*
 * core/inner/state/reply: inside the rendezvous core: what a step hands out:
 * messages, dropped connections, notes. Nothing outside rendezvous/core
 * includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_STATE_REPLY_H
#define RENDEZVOUS_CORE_INNER_STATE_REPLY_H

#include "rendezvous/core/note.h"
#include "rendezvous/proto/msg.h"

struct rdzv;
struct run;
struct node;

/* Sends to a connection, be it a node's or not. */
void reply_send(struct rdzv *r, int conn, const struct msg *m);

/* Closes a connection once what was sent is out. It is nobody's from now on,
 * and no event may come for it any more. */
void reply_drop(struct rdzv *r, int conn);

/* Sends to a node; nothing if it is absent: rejoin (join.c) repeats what it
 * must know. */
void reply_node(struct rdzv *r, const struct node *n, const struct msg *m);
/* detect_us: as phase_detect_us of that round has it. MSG_AT_ONCE is said as
 * MSG_AFTER_DEATH if the round's first failure is one. */
void reply_stop(struct rdzv *r,
                const struct node *n,
                int64_t round,
                const char *why,
                enum msg_graceful graceful,
                int64_t detect_us);
void reply_drain(struct rdzv *r, const struct node *n);
/* Shows that this server is the leader, or asks for it. */
void reply_prepare(struct rdzv *r, const struct run *run, int conn);

/* Hands out a note of which the kind, the node, the text and what belongs to
 * the kind are set, and counts it. Without a run also the name, if there is one
 * that this server has not seen. */
void note_about(struct rdzv *r, const struct run *run, struct note *n);

/* Tells people, and counts: the text, which may be cut, says what the event's
 * name does not. `node` may be "". */
void note(struct rdzv *r,
          enum note_kind kind,
          const struct run *run, /* may be NULL */
          const char *node,
          const char *fmt,
          ...) __attribute__((format(printf, 5, 6)));

#endif
