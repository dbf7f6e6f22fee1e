/*
 * core/inner/join/claim: inside the rendezvous core: what nodes say to a server
 * that they do not obey (yet): the round that a node holds, the round that it
 * accepted, the epoch that it promised. All that is noted, and takeover.h acts
 * by the notes. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_CLAIM_H
#define RENDEZVOUS_CORE_INNER_JOIN_CLAIM_H

#include "rendezvous/core/inner/state/node.h"

/* Whether a node that joins so may begin a run without any round: it came to
 * the first address of the list, or so many nodes are needed that two runs
 * cannot have them. */
bool claim_may_begin(const struct run *run, const struct msg_join *j);

/* Takes an epoch above all that were heard of in this run, and above those that
 * this server ever had. */
void claim_take_office(struct rdzv *r, struct run *run);

/* A run is opened: nobody is known to have it, so that this
 * server has. */
void claim_open(struct rdzv *r, struct run *run);

/* Whether what it tells proves that another server has been in office since,
 * so that all that is known of the run here is out of date. */
bool claim_outdates(const struct run *run, const struct msg_join *j);

/* It is: all nodes have to come again, and tell what they know. */
void claim_forget(struct rdzv *r, struct run *run, const char *node);

/* Whether this agent's id tells it from others. False: it was
 * refused. `run` is NULL if it opens one. */
bool claim_is_sound(struct rdzv *r,
                    const struct run *run,
                    const struct msg_join *j,
                    int conn);

/*
 * A node that was not known joins. True: it does not obey this server yet, so
 * that it has no place: it CLAIMS. Else it was told who is in office.
 */
bool claim_join(struct rdzv *r,
                struct run *run,
                struct node *n,
                const struct msg_join *j);

/* It has gone over to another instance of the run: it is none of ours. */
bool claim_is_foreign(const struct run *run, const struct msg_join *j);

/* The same of a node that is back on another connection. True: it is told
 * nothing until it obeys (node.untold). */
bool claim_rejoin(struct rdzv *r,
                  struct run *run,
                  struct node *n,
                  const struct msg_join *j);

/* False: what it says proves that the run is out of date here (see above). */
bool claim_voted(struct rdzv *r,
                 struct run *run,
                 struct node *n,
                 const struct msg_voted *v);

/*
 * A launcher said farewell, at `heard_us`: if it is a voter, what it had
 * accepted is noted, and it is struck. Nothing if that was done. False: it had
 * promised to obey a server of a higher epoch than this one is in office with:
 * the run is out of date here (see above).
 */
bool claim_farewell(struct rdzv *r,
                    struct run *run,
                    const struct msg_farewell *f,
                    int64_t heard_us);

void claim_promise(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg_promise *p);

void claim_beat(struct run *run, const struct node *n);

/* failed, ready, done, or leave of a node that CLAIMS. */
void claim_note(struct rdzv *r,
                struct run *run,
                struct node *n,
                const struct msg *m);

/*
 * A node holds an end of the run that did not come about: the run goes on, and
 * this server is in office, in an epoch above that of the end. Refuses it, at
 * its connection, which must have been shown the office before or is shown it
 * now.
 */
void claim_void_end(struct rdzv *r,
                    const struct run *run,
                    const struct msg_join *j,
                    int conn);

/* Tells nodes that CLAIM who is here and who is missing. */
void claim_tell(struct rdzv *r, struct run *run);

#endif
