/*
 * daemon/server: the rendezvous server's shell: libuv callbacks become events
 * of the core, its actions become calls. Used by ddprdzvd and, in a process of
 * its own, by the launcher on the endpoint's host. All of it on the thread of
 * the loop.
 */
#ifndef RENDEZVOUS_DAEMON_SERVER_H
#define RENDEZVOUS_DAEMON_SERVER_H

#include <uv.h>

#include "rendezvous/base/err.h"
#include "rendezvous/daemon/server_fit.h"

struct server;
struct tls_key; /* net/tls */

/* From where orders (ddpctl's drain, end and go-on) are carried out. */
enum server_orders {
    SERVER_ORDERS_DEFAULT, /* any with a token; without one from this host and
                              from those of members of the run */
    SERVER_ORDERS_ANY,     /* from every peer that may connect */
    SERVER_ORDERS_LOCAL,   /* from this host only */
    SERVER_ORDERS_NONE,
};

struct server_conf {
    struct server_limits limits;
    int frame_max;          /* bytes; 0: FRAME_AGENT_MAX */
    const char *http_hosts; /* names by which HTTP may ask, with commas, beside
                               the machine's own; borrowed for server_open */
    bool open_metrics;      /* /metrics is shown without the token, too */
    bool debug;             /* notes of the lowest level as well */
    bool quiet;    /* no notes: a launcher beside it tells them better */
    bool embedded; /* in a launcher, which has no options for the limits */
    enum server_orders orders;
    struct tls_key *key; /* of the token, borrowed; NULL: open to all */
    /* The giving end of a channel (net/fd_pass) to a c10d store, owned by the
     * server. A connection that speaks the store's protocol is handed over
     * there. So is one that says nothing for two seconds: PyTorch's older
     * clients wait for the store to speak first. 0: there is no store. */
    int store_chan;
    /* Called if a run has ended here, no other is alive and no node is left.
     * May call server_close. NULL: the server serves on. */
    void (*on_idle)(void *ctx);
    void *ctx;
};

/*
 * Serves on `listen_fd`, which it owns from here on, as it does store_chan,
 * also if it fails. Returns 0 with *out owned by the caller, given back by
 * server_close. Errors: DDP_E_NOMEM (in most cases: too few descriptors are
 * allowed), DDP_E_IO; the loop must run on after an error, too. Raises the
 * limit of open files.
 */
int server_open(struct server **out,
                uv_loop_t *loop,
                int listen_fd,
                const struct server_conf *conf,
                struct ddp_err *err);

/* Nodes, and runs that have not ended: a line for people. */
void server_describe(const struct server *s, char *text, size_t size);

/* Closes everything; memory goes as the loop runs on until it is empty. */
void server_close(struct server *s);

/* The server of one launcher. */
struct server_process {
    int listen_fd;
    int also_fd;    /* another listener; 0: none */
    int store_chan; /* this, http_hosts and key as in server_conf */
    int nodes_max;
    bool debug;
    const char *http_hosts;
    struct tls_key *key;
};

/*
 * The whole life of a process that serves the launcher's run and ends when the
 * run has ended here; else with the launcher. Never returns; ends with status
 * 0.
 */
void server_main(const struct server_process *p) __attribute__((noreturn));

#endif
