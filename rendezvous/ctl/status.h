/*
 * ctl/status: ddpctl status: asks the daemon for its status and shows it, once
 * or repeatedly.
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
    int64_t timeout_us; /* of one request with its answer */
    int64_t watch_us;   /* 0: once */
};

/* Returns the exit status; of --watch, 0 if it was interrupted. */
int ctl_status_run(struct ctl_status *s);

/* Logs the error. If the rendezvous cannot be reached, also what to check. */
void ctl_complain(const struct ctl_style *style,
                  const char *where,
                  const struct ddp_err *err);

#endif
