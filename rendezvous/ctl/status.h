/*
 * ctl/status: ddpctl status: asks the daemon and shows what it says,
 * once or again and again.
 */
#ifndef RENDEZVOUS_CTL_STATUS_H
#define RENDEZVOUS_CTL_STATUS_H

#include "rendezvous/ctl/line.h"
#include "rendezvous/ctl/view.h"

struct ctl_status {
    const struct ctl_peer *peer;
    struct ctl_view view;
    bool json;
    bool terminal;      /* stdout is one */
    int64_t timeout_us; /* of a question with its answer */
    int64_t watch_us;   /* 0: once */
};

/* Returns the exit status: of --watch, when it was interrupted, 0. */
int ctl_status_run(struct ctl_status *s);

/* Says on stderr that the rendezvous is not there, and what to check; or only
 * what the error says, where the rendezvous is. */
void ctl_complain(const struct ctl_style *style,
                  const char *where,
                  const struct ddp_err *err);

#endif
