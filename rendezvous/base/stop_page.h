/*
 * base/stop_page: the page of memory by which a launcher asks one worker to
 * leave at a step, or tells the worker that no such step will come; and the
 * names of the memfds that workers get. Each side writes one word of the page,
 * whole, and reads the other's at any time.
 */
#ifndef RENDEZVOUS_BASE_STOP_PAGE_H
#define RENDEZVOUS_BASE_STOP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

/* As readlink(2) of a descriptor shows them: "/memfd:NAME (deleted)". */
#define MEMFD_PROGRESS  "ddprun-progress"
#define MEMFD_STOP      "ddprun-stop"
#define MEMFD_SNAPSHOTS "ddprun-snapshots"

enum stop_page_why {
    STOP_PAGE_NOT,
    STOP_PAGE_SCALE_UP,   /* nodes join */
    STOP_PAGE_SCALE_DOWN, /* a node leaves */
    STOP_PAGE_FAILED,     /* a rank died: there is no step to leave at */
    STOP_PAGE_SIGNAL,     /* the launcher ends, or has no time to ask: a signal
                             comes, which a handler may hide from libddp */
};

/* Of $DDP_STOP_FILE, which is as long as this. */
struct stop_page {
    _Atomic uint32_t why;   /* the launcher's: enum stop_page_why */
    _Atomic uint32_t looks; /* the worker's: 1 once it has looked at `why` */
};

_Static_assert(sizeof(struct stop_page) == 8, "two words in a file");

#endif
