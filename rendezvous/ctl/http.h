/*
 * ctl/http: ddpctl's question to the daemon: one GET, one answer with
 * `Connection: close`. What the daemon sends is hostile: bounded in size and
 * time, and anything but a plain whole answer is an error.
 */
#ifndef RENDEZVOUS_CTL_HTTP_H
#define RENDEZVOUS_CTL_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "rendezvous/ctl/line.h"

#define CTL_HTTP_BODY_MAX (64u << 20)
#define CTL_HTTP_HEAD_MAX (16u << 10)

struct ctl_answer {
    int status;
    char *body; /* owned: free; NUL behind it */
    size_t len;
};

/*
 * Reads an answer that has come in whole, up to its end. Pure. `all` is
 * borrowed; *body points into it. Errors: DDP_E_PROTO.
 */
int ctl_http_parse(const char *all,
                   size_t all_len,
                   int *status,
                   const char **body,
                   size_t *body_len,
                   struct ddp_err *err);

/* A path's part, as it stands in a query: `out` is 3 times as long as `text`
 * and a NUL, or it is cut. */
void ctl_http_escape(const char *text, char *out, size_t size);

/* GETs `path`. Fills `out` on 0. Errors: as ctl_line, and ctl_http_parse. */
int ctl_http_get(const struct ctl_peer *peer,
                 const char *path,
                 int64_t deadline_us,
                 struct ctl_answer *out,
                 struct ddp_err *err);

#endif
