/*
 * ctl/here: where the jobs of this user that have a launcher on this machine
 * are served, by this machine or by another one.
 */
#ifndef RENDEZVOUS_CTL_HERE_H
#define RENDEZVOUS_CTL_HERE_H

#include <stdbool.h>
#include <stdint.h>

#define CTL_HERE_MAX 64

struct ctl_place {
    char host[64]; /* "localhost", or a numeric address */
    int port;
};

/* Whether something takes connections at this port of the loopback address. */
bool ctl_here_answers(int port, int64_t deadline_us);

/*
 * Where launchers of this user are connected to, and where ddprdzvd of this
 * user listens here, each once; returns how many. Among them may be places that
 * are no rendezvous.
 */
int ctl_here_find(struct ctl_place at[CTL_HERE_MAX]);

#endif
