/*
 * daemon/server_log: the server's log: connections that were closed, and the
 * core's notes (core/note), a line each on stderr. The lines are limited
 * (base/log_limit); how many were left out is told every ten seconds. Rejected
 * connections are counted as well, all of them. On the server's loop.
 */
#ifndef RENDEZVOUS_DAEMON_SERVER_LOG_H
#define RENDEZVOUS_DAEMON_SERVER_LOG_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/core/note.h"
#include "rendezvous/http/status.h"

struct server_log;

struct server_log_conf {
    struct status_counts *counts; /* borrowed: `rejected` is counted here */
    bool debug;                   /* notes of the lowest level, and all lines */
    bool quiet;                   /* no notes */
};

/* Owned by the caller, given back by server_log_close. Dies out of memory. */
struct server_log *server_log_open(uv_loop_t *loop,
                                   const struct server_log_conf *conf);

/* Tells what was left out so far; memory goes as the loop runs on. */
void server_log_close(struct server_log *l);

void server_log_note(struct server_log *l, const struct note *n);

/* A connection is closed, and why. `c` may be NULL: it is gone already. */
void server_log_closed(struct server_log *l,
                       const struct conn *c,
                       const char *why);

/* A node's connection broke. Not said if notes are not: what becomes of the
 * node is what matters then. */
void server_log_broken(struct server_log *l,
                       const struct conn *c,
                       const char *why);

/* A connection that had not joined is closed, and counted as rejected. */
void server_log_rejected(struct server_log *l,
                         const struct conn *c,
                         enum reject what,
                         const char *why);

/* A connection waits in the kernel's queue, since there is no descriptor. */
void server_log_stuck(struct server_log *l, const char *why);

#endif
