/*
 * ctl/status: asks a rendezvous for its document; ddpctl status --json prints
 * it.
 */
#ifndef RENDEZVOUS_CTL_STATUS_H
#define RENDEZVOUS_CTL_STATUS_H

#include "rendezvous/ctl/http.h"
#include "rendezvous/ctl/line.h"
#include "rendezvous/ctl/text.h"

struct ctl_status {
    const struct ctl_peer *peer;
    struct ctl_style style;
    const char *where;  /* HOST:PORT, clean */
    const char *run;    /* only this one; NULL: all */
    bool terminal;      /* stdout is one: the document is indented */
    int64_t timeout_us; /* of the request with its answer */
};

/* Prints the document of a rendezvous. Returns the exit status. */
int ctl_status_run(const struct ctl_status *s);

/*
 * Asks for the document of a run, or of all (`run` NULL). The caller frees
 * a->body, on an error too. Errors: as ctl_http_get; any answer but the status.
 */
int ctl_status_ask(const struct ctl_peer *peer,
                   const char *run,
                   int64_t timeout_us,
                   struct ctl_answer *a,
                   struct ddp_err *err);

/* False: `fd` cannot be written, and errno says why. If it is stdout, the other
 * one then logs it, unless a pipe was closed, and returns the exit status. */
bool ctl_status_put(int fd, const void *data, size_t len);
int ctl_status_fail_to_write(void);

/* Logs the error. If the rendezvous cannot be reached, also what to check. */
void ctl_complain(const struct ctl_style *style,
                  const char *where,
                  const struct ddp_err *err);

#endif
