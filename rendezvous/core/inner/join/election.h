/*
 * core/inner/join/election: inside the rendezvous core: what nodes say to a
 * server that they do not obey (yet): the round that a node holds, the round
 * that it accepted, the term that it promised. All that is noted, and
 * takeover.h acts by the notes. Nothing outside rendezvous/core includes this.
 */
#ifndef RENDEZVOUS_CORE_INNER_JOIN_ELECTION_H
#define RENDEZVOUS_CORE_INNER_JOIN_ELECTION_H

#include "rendezvous/core/inner/state/node.h"

/* Whether a node that joins so may begin a run without any round: it came to
 * the first address of the list, or so many nodes are needed that two runs
 * cannot have them. */
bool election_may_found(const struct run *run, const struct msg_join *j);

/* Takes a term above all that were heard of in this run, and above those that
 * this server ever had. */
void election_begin(struct rdzv *r, struct run *run);

/* A run is opened: nobody is known to have it, so that this server leads. Its
 * term is above `heard`. */
void election_open(struct rdzv *r, struct run *run, int64_t heard);

/* Whether what it tells proves that another server has led since,
 * so that all that is known of the run here is out of date. */
bool election_outdates(const struct run *run, const struct msg_join *j);

/* It is: all nodes have to come again, and tell what they know. */
void election_forget(struct rdzv *r, struct run *run, const char *node);

/* Whether this agent's id tells it from others. False: it was
 * refused. `run` is NULL if it opens one. */
bool election_is_sound(struct rdzv *r,
                       const struct run *run,
                       const struct msg_join *j,
                       int conn);

/*
 * A node that was not known joins. True: it does not obey this server yet, so
 * that it has no place: it is JOINING. Else it was told who leads.
 */
bool election_join(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg_join *j);

/* It has gone over to another instance of the run: it is none of ours. */
bool election_is_foreign(const struct run *run, const struct msg_join *j);

/* The same of a node that is back on another connection. True: it is told
 * nothing until it obeys (node.untold). */
bool election_rejoin(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_join *j);

/* False: what it says proves that the run is out of date here (see above). */
bool election_voted(struct rdzv *r,
                    struct run *run,
                    struct node *n,
                    const struct msg_vote *v);

/*
 * A launcher said farewell, at `heard_us`: if it is a voter, what it had
 * accepted is noted, and it is dead. Nothing if that was done. False: it had
 * promised to obey a server of a higher term than the one in which this one
 * leads: the run is out of date here (see above).
 */
bool election_farewell(struct rdzv *r,
                       struct run *run,
                       const struct msg_vote *f,
                       int64_t heard_us);

void election_promise(struct rdzv *r,
                      struct run *run,
                      struct node *n,
                      const struct msg_promise *p);

void election_beat(struct run *run, const struct node *n);

/* failed, ready, done, or leave of a node that is JOINING. */
void election_note(struct rdzv *r,
                   struct run *run,
                   struct node *n,
                   const struct msg *m);

/*
 * A node holds an end of the run that did not come about: the run goes on, and
 * this server is the leader, in a term above that of the end. Refuses it, at
 * its connection, which must have been shown the term before or is shown it
 * now.
 */
void election_void_end(struct rdzv *r,
                       const struct run *run,
                       const struct msg_join *j,
                       int conn);

/* Tells nodes that are JOINING who is here and who is missing. */
void election_tell(struct rdzv *r, struct run *run);

#endif
