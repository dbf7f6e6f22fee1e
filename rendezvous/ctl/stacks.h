/*
 * ctl/stacks: shows the stacks of workers while they run (ddpctl stacks).
 */
#ifndef RENDEZVOUS_CTL_STACKS_H
#define RENDEZVOUS_CTL_STACKS_H

#include <stdint.h>

#include "rendezvous/ctl/line.h"
#include "rendezvous/ctl/text.h"

struct ctl_stacks {
    const struct ctl_peer *peer; /* resolved; borrowed, as the rest */
    const struct ctl_style *style;
    const char *where; /* "head:29400", to be shown */
    int64_t timeout_us;
    const char *run;
    const char *const *ranks; /* "3", "0-7"; none: all */
    int n_ranks;
};

/* One rank after the other, on standard output. Returns an exit status; what
 * went wrong was told. */
int ctl_stacks_run(const struct ctl_stacks *s);

#endif
