/*
 * tests/lib/strangers: processes that are no ranks of the round, and call where
 * one listens, or listen where one calls. To be called in a rank (rt_world); a
 * failure ends it with status 1.
 */
#ifndef STRANGERS_H
#define STRANGERS_H

#include "worker_rt/ddp.h"

enum strangers_sort {
    STRANGERS_LOOK,      /* connect, and leave */
    STRANGERS_SILENT,    /* more than are heard at once; they stay */
    STRANGERS_NONSENSE,  /* of another program; some leave */
    STRANGERS_CUT,       /* half a hello, and they leave */
    STRANGERS_HALF,      /* the same, and they stay */
    STRANGERS_ROUND,     /* of the round before, with its key */
    STRANGERS_NO_PROOF,  /* a right hello, and they leave */
    STRANGERS_OTHER_KEY, /* the same, and a proof by another key */
    STRANGERS_REPLAYED,  /* a proof that was right on another connection */
    STRANGERS_REFLECTED, /* the proof that the listener gave */
    STRANGERS_SORTS
};

/* Calls the rank that has put its address under that key in the store, as rank
 * 1 of 2 would, of the same round as `d`. Checks that nothing comes but what
 * strangers may hear, and that those that said something wrong are hung up on.
 */
void strangers_call(struct ddp *d, const char *key, enum strangers_sort sort);

/* A part of what ddp_strangers says about these; NULL: nothing. */
const char *strangers_why(enum strangers_sort sort);

/* Puts an address under the key, signed as rank 0 of 2 would on communicator 0,
 * answers the first call without the round's key, and checks that there comes a
 * hello, and no more. */
void strangers_answer(struct ddp *d, const char *key);

/* -- ranks of the round, for which a rank may take others ------------------ */

/* Rank 0 of 2, of communicator 0: puts its address under the key, and before or
 * behind it another one at which nobody listens; it comes to the calls so many
 * ms later. Checks that it is met. */
void strangers_come_late(struct ddp *d, const char *key, bool behind, int ms);

/* Rank 1 of 2: calls the rank that has put its address under that key, and lets
 * so many ms pass before each word. Checks that it is met. */
void strangers_speak_late(struct ddp *d, const char *key, int ms);

#endif
