/*
 * worker_rt/comm/blame: what ranks tell each other besides data: which of them
 * is to blame for a failure. And what shows that a rank is gone.
 */
#ifndef WORKER_RT_COMM_BLAME_H
#define WORKER_RT_COMM_BLAME_H

#include <stdbool.h>
#include <stdint.h>

/* The only message on a connection of its own: which rank is to blame, and for
 * what. */
struct wire_blame {
    uint32_t why; /* enum wire_why */
    uint32_t rank;
};
_Static_assert(sizeof(struct wire_blame) == 8, "no padding on the wire");

enum wire_why {
    WIRE_DIED = 1, /* its connections ended without a blame */
    WIRE_SILENT,   /* nothing comes from its host any more */
    WIRE_LEFT,     /* freed the communicator while others used it */
    WIRE_ABORTED,
    WIRE_LATE,
    WIRE_DIFFERS, /* found that ranks are in different calls */
    WIRE_FAILED,  /* of something else, memory for one */
    WIRE_WHYS
};

/* Behind "rank N": "died". Below WIRE_WHYS. */
const char *blame_text(uint32_t why);

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
