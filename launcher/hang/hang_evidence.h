/*
 * launcher/hang/hang_evidence: looks at the workers of a node that stands
 * still, by all the means that there are, beside those of other nodes, and
 * concludes which rank the others wait for. Runs in a process of its own; what
 * it found so far lies in memory that the launcher shares.
 */
#ifndef LAUNCHER_HANG_HANG_EVIDENCE_H
#define LAUNCHER_HANG_HANG_EVIDENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "launcher/hang/flight.h"
#include "launcher/hang/odd_rank.h"
#include "launcher/hang/rank_meet.h"
#include "launcher/hang/stacks.h"

/* Which rank this node tells of. */
struct hang_finding {
    int64_t rank;
    bool collective;              /* a rank waits for its peers */
    bool over;                    /* ranks of a node were silent for too long,
                                     and not only of one that suspects them */
    char text[ODD_RANK_TEXT_MAX]; /* what it does, and then all others */
};

/* Written by one process, read by another one at any time: a finding is not
 * changed once it counts. */
struct hang_findings {
    atomic_int look;  /* enum pauses_look; -1: not known yet */
    atomic_int saved; /* 0: all stacks are in the file, else errno; -1: not
                         known yet */
    atomic_int n;
    struct hang_finding list[2]; /* by /proc alone, and by all evidence */
};

struct hang_evidence {
    struct stacks_of stacks;
    const char *path;  /* where the stacks are saved, borrowed; "": nowhere */
    const pid_t *pids; /* of all workers, borrowed: `stacks` may have fewer */
    int n;
    const struct flight_of *flight; /* borrowed */
    struct rank_meet meet;
    bool learned;      /* whether all stand still is to be seen first */
    bool moves;        /* ... and these have just moved */
    bool tells;        /* of any rank of the round, not of this node's alone */
    bool over;         /* these were silent for too long */
    int64_t others_us; /* how long other nodes are waited for */
    struct hang_findings *findings; /* shared memory, zeroed */
};

/* A node that finds the cause on another one leaves it to that node for so
 * long to tell. */
#define HANG_EVIDENCE_HOLD_US INT64_C(3000000)

/* A file system has so long to take the stacks. */
#define HANG_EVIDENCE_SAVE_US INT64_C(3000000)

/*
 * Writes the stacks to `stacks_fd` (and copies them to `path`), what PyTorch
 * says to `flight_fd` (-1: nowhere), and the findings. Takes as long as the
 * tools (struct stacks_of), HANG_EVIDENCE_SAVE_US, others_us and
 * HANG_EVIDENCE_HOLD_US in all.
 * With `learned`, if ranks of a node work, the findings' look says so, and no
 * finding counts. Where no node's limit is over all tell of any rank.
 */
void hang_evidence_take(int stacks_fd, int flight_fd, struct hang_evidence *e);

/* Tells the other nodes if ranks of this one work, and else nothing. */
void hang_evidence_answer(const struct hang_evidence *e);

/* The last finding; NULL: there is none, or `findings` is NULL. */
const struct hang_finding *
hang_evidence_last(const struct hang_findings *findings);

#endif
