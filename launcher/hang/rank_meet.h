/*
 * launcher/hang/rank_meet: the nodes of a round whose workers stand still
 * tell each other what their ranks do, through the workers' store.
 *
 * Runs in the process that takes the stacks: its calls wait.
 */
#ifndef LAUNCHER_HANG_RANK_MEET_H
#define LAUNCHER_HANG_RANK_MEET_H

#include <stdbool.h>
#include <stdint.h>

#include "launcher/hang/odd_rank.h"

/* Where the nodes meet. */
struct rank_meet {
    const char *host; /* of the workers' store, borrowed */
    uint16_t port;
    int64_t round;
    int64_t group_rank; /* of this node */
    int64_t group_world;
    int64_t look; /* the lease's: which of the round's questions is answered */
};

/*
 * Tells the other nodes what this node's ranks do. `whole`: their stacks have
 * been taken; such a word replaces the one before. Without a store, or a second
 * node, nothing happens.
 */
void rank_meet_tell(const struct rank_meet *m,
                    const struct rank_look *looks,
                    int n,
                    bool whole);

/* Tells them in place of that that its ranks go on, or work. */
void rank_meet_work(const struct rank_meet *m);

/* Tells them besides, and before, that its ranks were silent for too long: no
 * node merely suspects them. */
void rank_meet_over(const struct rank_meet *m);

/* How long other nodes are waited for (mono_now_us). */
struct rank_meet_limits {
    int64_t first_us; /* one that has told nothing */
    int64_t whole_us; /* one whose stacks are being taken; not sooner */
};

/*
 * Waits until each node has told all (whole), and returns this node's ranks and
 * those of the nodes that told anything, by rank; the caller frees them. *count
 * is their number. NULL: no memory. *works: a node's ranks go on, and no other
 * one was waited for. *over: one said rank_meet_over.
 */
struct rank_look *rank_meet_gather(const struct rank_meet *m,
                                   const struct rank_look *own,
                                   int n,
                                   const struct rank_meet_limits *limits,
                                   int *count,
                                   bool *works,
                                   bool *over);

/* -- what stands in the store ---------------------------------------------- */

/* Pure. Writes the looks, as text; returns its length, 0: no room. */
#define RANK_MEET_LINE_MAX 128
size_t rank_meet_write(
    const struct rank_look *looks, int n, bool whole, char *text, size_t size);

/* Pure. Reads at most `max` looks of such a text, which may be anything.
 * Returns how many; -1: it is no such text. */
int rank_meet_read(const char *text,
                   struct rank_look *looks,
                   int max,
                   bool *whole);

#endif
