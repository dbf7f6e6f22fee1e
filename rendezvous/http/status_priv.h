/*
 * http/status: the parts of the document (http/overview).
 */
#ifndef RENDEZVOUS_HTTP_STATUS_PRIV_H
#define RENDEZVOUS_HTTP_STATUS_PRIV_H

#include "rendezvous/base/json.h"
#include "rendezvous/core/status.h"
#include "rendezvous/http/status.h"

/* The members of an object that is open; without its nodes. */
void status_write_run(struct json *j, const struct status_run *run);

/* The same of what is behind it: goodput, the last rounds, progress. */
void status_write_history(struct json *j,
                          const struct rdzv *r,
                          const struct account *account,
                          int run,
                          const struct status_when *when,
                          int rounds_max,
                          const struct status_progress *progress);

/* An object of its own, into a list. */
void status_write_node(struct json *j, const struct status_node *n);

#endif
