/*
 * ctl/status: ddpctl status: asks the daemon for its status and shows it, once
 * or repeatedly.
 */
#ifndef RENDEZVOUS_CTL_STATUS_H
#define RENDEZVOUS_CTL_STATUS_H

#include "rendezvous/ctl/http.h"
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

/*
 * Asks for the status of a run, or of all (`run` NULL), with all nodes or some
 * hundreds of each. The caller frees a->body, on an error too. Errors: as
 * ctl_http_get; any answer but the status.
 */
int ctl_status_ask(const struct ctl_peer *peer,
                   const char *run,
                   bool all,
                   int64_t timeout_us,
                   struct ctl_answer *a,
                   struct ddp_err *err);

/* Writes to stdout; false: that cannot be written, and errno says why. Then
 * the other one logs it, unless a pipe was closed, and returns the exit status.
 */
bool ctl_status_put(const char *text, size_t len);
int ctl_status_fail_to_write(void);

/* Logs the error. If the rendezvous cannot be reached, also what to check. */
void ctl_complain(const struct ctl_style *style,
                  const char *where,
                  const struct ddp_err *err);

#endif
