/*
 * base/stop_page: the page of memory by which a launcher asks one worker to
 * leave at a step, and the names of the memfds that it gives its workers. Both
 * sides write one word, whole, and read the other one's at any time.
 */
#ifndef RENDEZVOUS_BASE_STOP_PAGE_H
#define RENDEZVOUS_BASE_STOP_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

/* As readlink(2) of a descriptor shows them: "/memfd:NAME (deleted)". */
#define ASKED_PROGRESS_NAME "ddprun-progress"
#define ASKED_STOP_NAME     "ddprun-stop"
#define ASKED_SNAPSHOT_NAME "ddprun-snapshots"

enum asked_why {
    ASKED_NOT,
    ASKED_SCALE_UP,   /* nodes join */
    ASKED_SCALE_DOWN, /* a node leaves */
};

/* Of $DDP_STOP_FILE, which is as long as this. */
struct asked {
    _Atomic uint32_t why;   /* the launcher's: enum asked_why */
    _Atomic uint32_t looks; /* the worker's: 1 once it has looked at `why` */
};

_Static_assert(sizeof(struct asked) == 8, "two words in a file");

#endif
