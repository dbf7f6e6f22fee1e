/*
 * ctl/http: ddpctl's request to the daemon: one GET, one answer with
 * `Connection: close`. The answer is taken for hostile: it is bounded in size
 * and time, and anything but a plain, complete answer is an error.
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
    char *body; /* the caller frees it; a NUL behind it */
    size_t len;
};

/*
 * Reads a complete answer. Pure. `all` is
 * borrowed; *body points into it. Errors: DDP_E_PROTO.
 */
int ctl_http_parse(const char *all,
                   size_t all_len,
                   int *status,
                   const char **body,
                   size_t *body_len,
                   struct ddp_err *err);

/* Escapes a text for a query. `out` must have 3 times the length of `text` and
 * one byte; if it is shorter, the result is cut. */
void ctl_http_escape(const char *text, char *out, size_t size);

/* GETs `path`. Fills `out` on 0. Errors: as ctl_line, and ctl_http_parse. */
int ctl_http_get(const struct ctl_peer *peer,
                 const char *path,
                 int64_t deadline_us,
                 struct ctl_answer *out,
                 struct ddp_err *err);

#endif
