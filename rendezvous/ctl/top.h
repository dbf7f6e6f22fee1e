/*
 * ctl/top: ddpctl top: the status of the rendezvous on a terminal, drawn again
 * once a second, with keys; on a pipe as text, once or repeatedly.
 */
#ifndef RENDEZVOUS_CTL_TOP_H
#define RENDEZVOUS_CTL_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "rendezvous/ctl/line.h"
#include "rendezvous/ctl/text.h"

struct ctl_top {
    const struct ctl_peer *peer;
    struct ctl_style style;
    const char *where;  /* HOST:PORT, clean */
    const char *run;    /* only this one at the start; NULL: all */
    bool terminal;      /* stdout is one on which a picture can be drawn */
    int64_t timeout_us; /* of one request with its answer */
    int64_t delay_us;   /* from one request to the next */
    bool again;         /* on a pipe: every delay_us */
};

/* Returns the exit status; 0 if it was quit or interrupted. */
int ctl_top_run(struct ctl_top *t);

#endif
