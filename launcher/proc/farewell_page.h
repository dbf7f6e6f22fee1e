/*
 * launcher/proc/farewell_page: what is said for this node once all of it is
 * dead, and where. The agent writes it into memory that it shares with guard
 * and janitor, before it says what binds the node; whoever of these two
 * outlives the rest says it, on connections of its own. They need no token for
 * that, no names and no memory.
 */
#ifndef LAUNCHER_PROC_FAREWELL_PAGE_H
#define LAUNCHER_PROC_FAREWELL_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define FAREWELL_BYTES_MAX  4096
#define FAREWELL_PLACES_MAX 21 /* the server, 16 endpoints, 4 voters */

struct farewell_page {
    size_t len; /* 0: nothing is said */
    uint8_t bytes[FAREWELL_BYTES_MAX];
    /* The server that the agent was connected to last, AF_UNSPEC: that ends
     * with this launcher; and the next places where the run may be served. */
    int n_places;
    struct sockaddr_storage places[FAREWELL_PLACES_MAX];
};

/* Before the agent is forked. 0, or -1 with errno. */
int farewell_page_share(void);

/* In the agent: takes the place of what was there, whole or not at all, also if
 * the agent is killed meanwhile. Nothing if no page is shared. */
void farewell_page_write(const struct farewell_page *page);

/* In guard or janitor, when the agent and all workers are dead: says it to the
 * first place and, if no answer comes within 250 ms, to the others, for as
 * long. The answer is that the server ends the connection. */
void farewell_page_say(void);

#endif
