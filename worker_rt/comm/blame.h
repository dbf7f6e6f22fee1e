/*
 * worker_rt/comm/blame: what ranks tell each other besides data: which of them
 * is to blame for a failure, and what they wait for. And what shows that a rank
 * is gone.
 */
#ifndef WORKER_RT_COMM_BLAME_H
#define WORKER_RT_COMM_BLAME_H

#include "worker_rt/comm/head.h"

/*
 * A message on a connection of its own. The last one says which rank is to
 * blame, and for what. Before it may come notes: the sender waits for the
 * receiver to send it something, or to receive something, in vain so far.
 */
struct wire_blame {
    uint32_t why;   /* enum wire_why */
    uint32_t rank;  /* to blame; of a note its sender */
    uint32_t seq;   /* a note: of the last collective before .. */
    uint32_t got;   /* .. how many sends of the receiver's have come .. */
    uint32_t sent;  /* .. and how many the sender has sent to it */
    uint32_t first; /* a note: of the chain of ranks that wait, see notes.c */
};
_Static_assert(sizeof(struct wire_blame) == 24, "no padding on the wire");

enum wire_why {
    WIRE_DIED = 1, /* its connections ended without a blame */
    WIRE_SILENT,   /* nothing comes from its host any more */
    WIRE_LEFT,     /* freed the communicator while others used it */
    WIRE_ABORTED,
    WIRE_LATE,
    WIRE_DIFFERS, /* found that ranks are in different calls */
    WIRE_FAILED,  /* of something else, memory for one */
    WIRE_WHYS,
    WIRE_WAITS,        /* a note: for a send .. */
    WIRE_WAITS_ALONE,  /* .. of a rank that does nothing else meanwhile */
    WIRE_WAITS_TO_SEND /* a note: for a receive, and for nothing else */
};

/* Behind "rank N": "died". Below WIRE_WHYS. */
const char *blame_text(uint32_t why);

bool blame_is_note(const struct wire_blame *b);

/*
 * Whether the sender of a note waits for a send that will never come: all that
 * this rank has sent to it (`sent`) has arrived, and this rank is in a later
 * collective; or it only waits for a send of that one (`receiving`) itself,
 * and has got (`got`) all that there was. A note that is too old shows less
 * than was sent, and proves nothing.
 */
bool blame_waits_in_vain(const struct wire_blame *note,
                         const struct wire_head *own,
                         uint32_t sent,
                         uint32_t got,
                         bool receiving);

/* Whether the sender of a note, which waits for this rank and no other, still
 * does: as far as `sent` and `got` know, and without a doubt if this rank has
 * sent nothing and received nothing from it since. */
bool blame_holds(const struct wire_blame *note, uint32_t sent, uint32_t got);

/* How a connection ended, from errno: 0 is an end of file. */
enum wire_why blame_ending(int error);

/*
 * Whether the peer's kernel has acknowledged nothing for so long though we
 * sent, or probed its closed window, more than once since. A peer that is
 * merely busy or stopped acknowledges. DIAL_SILENT_MS, or BLAME_HURRY_MS on a
 * connection that blame_hurry was called for: then keepalive finds a cut line
 * as soon, too, if nothing is under way.
 */
#define BLAME_HURRY_MS 3000
bool blame_is_silent(int fd, int silent_ms);
void blame_hurry(int fd);

#endif
