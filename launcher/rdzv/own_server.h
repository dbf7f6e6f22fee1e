/*
 * launcher/rdzv/own_server: the rendezvous server of this launcher, a process
 * of its own. It is started where an endpoint is an address of this node and no
 * other server was ever there; and once a node that has lost its server
 * connects to this launcher's spare port. Until then nothing runs for that
 * port: the launcher only listens, so that it can tell the port in its join.
 */
#ifndef LAUNCHER_RDZV_OWN_SERVER_H
#define LAUNCHER_RDZV_OWN_SERVER_H

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "launcher/conf/conf.h"

/* The caller's storage, for the life of the process; the fields are
 * own_server.c's own. */
struct own_server {
    uint32_t magic;
    const struct conf *conf;
    bool debug;
    int store_chan;

    pid_t pid;        /* of the process, 0: none */
    int64_t began_us; /* when it was started */
    bool served;      /* there was one, at an endpoint */
    int failed;       /* so often in a row it could not be started */

    /* The endpoint at which it has served, which is an address of this node. */
    struct sockaddr_storage home;
    int home_port; /* at which the process serves there, 0: it does not */
    bool has_home;
    bool lost; /* the process died there, and none was started since */

    int spare_fd;   /* the listener, -1: none */
    int spare_port; /* 0: none */
    uv_poll_t poll; /* of spare_fd, active while no process runs */
    uv_timer_t again;
};

/* Opens the spare port, but for a launch that stands alone; without one (the
 * log says why) this node never serves in another's place. Borrows conf for its
 * life. `store_chan` as in rdzv_client_new. */
void own_server_init(struct own_server *s,
                     uv_loop_t *loop,
                     const struct conf *conf,
                     int store_chan,
                     bool debug);

/* The spare port, for the join; 0: there is none. */
int own_server_spare_port(const struct own_server *s);

/*
 * Serves at an endpoint: `sa` is its address, which is this node's own. If a
 * process runs already nothing happens. Returns its pid; 0: another program has
 * the port. Errors: -1, DDP_E_CONFIG it cannot listen there, DDP_E_NOMEM the
 * process cannot be started; after START_TRIES in a row, and if no server was
 * ever reached (`first`), that ends the launch, as does a port that is taken
 * where this node was told to serve (is_host).
 */
pid_t own_server_serve(struct own_server *s,
                       const struct sockaddr *sa,
                       bool first,
                       struct ddp_err *err);

/* The port of the endpoint at which it serves; 0: at none. */
int own_server_home_port(const struct own_server *s);

/* Whether what answers at this address is the process, or starts it. */
bool own_server_is_at(const struct own_server *s, const struct sockaddr *sa);

pid_t own_server_pid(const struct own_server *s); /* 0: none runs */
/* It was told to be dead: reaps it. Ends the launch if it could not serve at an
 * endpoint, has said so, and no server was ever heard (`first`). */
void own_server_ended(struct own_server *s, bool first);
void own_server_kill(struct own_server *s);

#endif
