/*
 * daemon/server_log: what the server says of those who connect, and of what the
 * core tells it (core/note): a line each on stderr, as many as each source is
 * allowed (base/log_limit), and what was left out every ten seconds. It counts
 * strangers as well, all of them. On the server's loop.
 */
#ifndef RENDEZVOUS_DAEMON_SERVER_LOG_H
#define RENDEZVOUS_DAEMON_SERVER_LOG_H

#include <stdbool.h>
#include <uv.h>

#include "rendezvous/core/note.h"
#include "rendezvous/http/status.h"

struct server_log;

struct server_log_conf {
    struct status_counts *counts; /* borrowed: of strangers, by what they did */
    bool debug;                   /* notes of the lowest level, and all lines */
    bool quiet;                   /* no notes */
};

/* Owned by the caller, given back by server_log_close. Dies out of memory. */
struct server_log *server_log_open(uv_loop_t *loop,
                                   const struct server_log_conf *conf);

/* Says what was left out so far; memory goes as the loop runs on. */
void server_log_close(struct server_log *l);

void server_log_note(struct server_log *l, const struct note *n);

/* A connection is closed, and why. `c` may be NULL: there is none. */
void server_log_closed(struct server_log *l,
                       const struct conn *c,
                       const char *why);

/* The same of a stranger, who is counted. */
void server_log_rejected(struct server_log *l,
                         const struct conn *c,
                         enum reject what,
                         const char *why);

/* Somebody waits in the kernel's queue, since no descriptor was to be had. */
void server_log_stuck(struct server_log *l, const char *why);

#endif
