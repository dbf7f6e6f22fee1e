/*
 * Happy path: resolve (numeric endpoints need no thread for it), try to serve
 * where an address is local, dial, up.
 *
 * A launcher and a rendezvous of different tokens will never get together:
 * where no address let this launcher in, and none ever did, that ends it. Later
 * it does not: what is not proved to come from the rendezvous, and this cannot
 * be, must not end a run that works.
 *
 * Failures all end in fail_soon: on_down from a timer of 0 ms, so that the
 * caller, who is inside a step of the agent's core, is never called back.
 */
#include "launcher/rdzv/client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "launcher/proc/guard.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/daemon/server.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/helper.h"

#define DIAL_MS    5000 /* at most; less where read_timeout is */
#define RESOLVE_MS 2000 /* a resolver may well take longer, but not unsaid */
/* A daemon that is gone is likely to be started again: so long its port is left
 * to it before a launcher on its host serves there instead. */
#define TAKE_OVER_US (3 * MONO_S)

struct link {
    uv_loop_t *loop;
    const struct conf *conf;
    int guard_fd;
    const struct link_handler *handler;
    void *ctx;
    bool debug;
    int store_chan;
    uv_timer_t timer; /* a dial's end, or a failure to be told */
    uv_getaddrinfo_t resolve;
    bool resolving;
    bool wanted; /* link_connect was not answered yet */
    bool fresh;  /* `addrs` came from the resolver and were not tried yet */
    struct addr_list addrs;
    int next_addr;
    struct conn *conn;
    bool up;
    bool ever_up;
    bool ever_heard;    /* a server has said something */
    bool token_differs; /* said one of the addresses */
    bool foreign;    /* the server that we were up with last was not ours ... */
    int64_t lost_us; /* ... and when we lost it */
    pid_t server;
    bool served;  /* there was one */
    int port;     /* where to dial: the server's own choice for port 0 */
    bool refused; /* by all addresses that were tried */
    char why[256];
};

struct link *link_new(uv_loop_t *loop,
                      const struct conf *conf,
                      int guard_fd,
                      const struct link_handler *handler,
                      void *ctx,
                      int store_chan,
                      bool debug)
{
    struct link *l = calloc(1, sizeof(*l));
    if (l == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory");
    l->loop = loop;
    l->conf = conf;
    l->guard_fd = guard_fd;
    l->handler = handler;
    l->ctx = ctx;
    l->debug = debug;
    l->store_chan = store_chan;
    l->port = conf->endpoint_port;
    (void)uv_timer_init(loop, &l->timer); /* cannot fail */
    l->timer.data = l->resolve.data = l;
    return l;
}

/* -- failing --------------------------------------------------------------- */

static void on_fail_timer(uv_timer_t *timer)
{
    struct link *l = timer->data;
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_CONFIG};
    l->wanted = false;
    if (!l->token_differs || l->ever_up) {
        l->handler->on_down(l->ctx, l->refused, l->why);
        return;
    }
    msg_set(no.refused.text, l->why);
    l->handler->on_msg(l->ctx, &no);
}

static void forget_reasons(struct link *l)
{
    l->refused = true;
    l->token_differs = false;
    l->why[0] = '\0';
}

/* The first reason is told. Refused is only what all addresses refused: behind
 * one that does not answer there may be a server that lives (the agent takes a
 * refusal for proof that there is none). */
static void keep_reason(struct link *l, bool refused, const char *why)
{
    l->refused &= refused;
    if (l->why[0] == '\0')
        msg_set(l->why, why);
}

static void fail_soon(struct link *l)
{
    (void)uv_timer_start(&l->timer, on_fail_timer, 0, 0);
}

/* -- serving --------------------------------------------------------------- */

struct server_args {
    int nodes_max;
    bool debug;
    struct tls_key *key;
};

static void run_server(const struct helper_fds *fds, const void *arg)
{
    const struct server_args *a = arg;
    server_main(fds->listener, fds->chan, a->nodes_max, a->debug, a->key);
}

/*
 * Where the host's own name leads to loopback only on the host itself (Debian
 * writes 127.0.1.1 into /etc/hosts), the others come from outside: listen on
 * every address then.
 */
static int listen_at(struct link *l, const struct sockaddr *sa, int *fd)
{
    struct ddp_err err;
    bool open_wide =
        l->conf->nnodes_max > 1 && addr_is_loopback(sa) && !l->conf->loopback;
    int rc = open_wide ? addr_listen_any(l->port, fd, &err)
                       : addr_listen(sa, fd, &err);
    /* Told to serve there, and the port is taken: who answers there is not
     * who the other nodes look for. */
    if (rc != 0 && l->conf->is_host == 1 && !l->served)
        fatalx(ddp_code_exit(err.code),
               "this node is to serve the rendezvous "
               "and cannot: %s%s",
               err.text,
               err.sys_errno == EADDRINUSE
                   ? "; is it another job's? Then give this one another port"
                   : "");
    /* A port that is taken says that somebody serves there; all else is why
     * nobody does. */
    if (rc != 0 && err.sys_errno != EADDRINUSE)
        keep_reason(l, true, err.text);
    return rc;
}

static void start_server(struct link *l, int fd)
{
    struct ddp_err err;
    struct server_args args = {
        .nodes_max = 2 * l->conf->nnodes_max + 16, /* with room for spares */
        .debug = l->debug,
        .key = l->conf->token,
    };
    struct helper_fds fds = {
        .listener = fd, .chan = l->store_chan, .token = true};
    l->port = addr_fd_port(fd);
    if (helper_start(&l->server, &fds, run_server, &args, &err) != 0)
        log_warnx("%s", err.text);
    else if (l->foreign)
        log_info("nobody serves the rendezvous at %s port %d any more: this "
                 "launcher does from now on",
                 l->conf->endpoint_host, l->port);
    l->served = true;
    (void)close(fd); /* the server has it */
}

/* Serves the rendezvous if it is to be here and nobody does yet. */
static void try_to_serve(struct link *l)
{
    if (l->server > 0 || l->conf->is_host == 0)
        return;
    if (l->foreign && l->conf->is_host != 1 &&
        mono_now_us() < mono_after(l->lost_us, TAKE_OVER_US))
        return;
    for (int i = 0; i < l->addrs.n; i++) {
        const struct sockaddr *sa = (const struct sockaddr *)&l->addrs.at[i];
        int fd;
        if (l->conf->is_host != 1 && !addr_is_local(sa))
            continue;
        if (listen_at(l, sa, &fd) == 0) {
            start_server(l, fd);
            return;
        }
    }
}

/* -- dialling -------------------------------------------------------------- */

static void dial_next(struct link *l);

static void on_up(void *ctx, struct conn *c)
{
    struct link *l = ctx;
    (void)uv_timer_stop(&l->timer);
    l->up = l->ever_up = true;
    l->foreign = l->server == 0;
    const uint8_t *farewell = conn_farewell(c);
    guard_hold(l->guard_fd, conn_fd(c), farewell,
               farewell != NULL ? TLS_FAREWELL_LEN : 0);
    l->handler->on_up(l->ctx);
}

/* What every worker will find in its environment, and cannot be as the server
 * says where that is none of ours. */
static bool is_possible(const struct msg_world *w, int nproc)
{
    if (strspn(w->instance, "0123456789abcdef") != RNG_ID_LEN)
        return false;
    for (const char *p = w->master_addr; *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return false;
    return w->master_addr[0] != '\0' && w->group_rank < w->group_world &&
           w->base_rank + nproc <= w->world_size &&
           w->role_rank + nproc <= w->role_world;
}

static void on_msg(void *ctx, struct conn *c, const struct msg *m)
{
    (void)c;
    struct link *l = ctx;
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_PROTO};
    l->ever_heard = true;
    if (m->kind == MSG_KIND_world && !is_possible(&m->world, l->conf->nproc)) {
        msg_set(no.refused.text, "the place that it gave cannot be");
        m = &no; /* it would give the same again */
    }
    l->handler->on_msg(l->ctx, m);
}

static void on_closed(
    void *ctx, struct conn *c, bool orderly, bool refused, const char *why)
{
    (void)orderly;
    struct link *l = ctx;
    (void)uv_timer_stop(&l->timer);
    l->conn = NULL;
    bool was_up = l->up;
    l->up = false;
    l->lost_us = was_up ? mono_now_us() : l->lost_us;
    if (was_up) {
        l->handler->on_down(l->ctx, false, why);
        return;
    }
    if (conn_token_differs(c) && !l->token_differs) {
        l->token_differs = true;
        l->why[0] = '\0'; /* it counts for more than what was before */
    }
    keep_reason(l, refused, why);
    dial_next(l);
}

static const struct conn_handler handler = {
    .on_up = on_up,
    .on_msg = on_msg,
    .on_closed = on_closed,
};

static int64_t dial_ms(const struct link *l)
{
    return mono_min(DIAL_MS, l->conf->read_timeout_us / MONO_MS);
}

static void on_dial_timer(uv_timer_t *timer)
{
    struct link *l = timer->data;
    char why[64];
    (void)snprintf(why, sizeof(why), "no answer in %.12g s", /* it fits */
                   (double)dial_ms(l) / 1000.0);
    conn_close(l->conn);
    l->conn = NULL;
    keep_reason(l, false, why);
    dial_next(l);
}

/* The address with the port to dial, which a server of ours may have chosen. */
static void set_port(struct sockaddr_storage *ss, int port)
{
    struct sockaddr_in in;
    memcpy(&in, ss, sizeof(in));
    in.sin_port = htons((uint16_t)port);
    memcpy(ss, &in, sizeof(in)); /* the port lies at one place in v4 and v6 */
}

static void dial_next(struct link *l)
{
    struct ddp_err err;
    if (l->next_addr >= l->addrs.n) {
        fail_soon(l);
        return;
    }
    struct sockaddr_storage to = l->addrs.at[l->next_addr++];
    set_port(&to, l->port);
    l->conn =
        conn_dial(l->loop, (const struct sockaddr *)&to, &handler, l, &err);
    if (l->conn == NULL) {
        keep_reason(l, false, err.text);
        dial_next(l);
        return;
    }
    conn_secure(l->conn, l->conf->token);
    (void)uv_timer_start(&l->timer, on_dial_timer, (uint64_t)dial_ms(l), 0);
}

static void resolved(struct link *l)
{
    l->next_addr = 0;
    l->fresh = false;
    if (l->addrs.n == 0)
        keep_reason(l, false, "the name has no address");
    try_to_serve(l);
    dial_next(l);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *all)
{
    struct link *l = req->data;
    l->resolving = false;
    l->fresh = status == 0;
    if (status == 0) {
        addr_list_fill(&l->addrs, all);
        uv_freeaddrinfo(all);
    }
    if (!l->wanted)
        return; /* late: what came is for the next try */
    (void)uv_timer_stop(&l->timer);
    if (status == 0) {
        resolved(l);
        return;
    }
    char why[300];
    (void)snprintf(why, sizeof(why),
                   "the name '%.100s' does not resolve here (%s)",
                   l->conf->endpoint_host, uv_strerror(status));
    keep_reason(l, false, why);
    fail_soon(l);
}

/* libuv cannot call the resolver back: it is left to itself. */
static void on_resolve_timer(uv_timer_t *timer)
{
    struct link *l = timer->data;
    char why[300];
    (void)snprintf(why, sizeof(why),
                   "the name '%.100s' is being looked up, and no name server "
                   "answers",
                   l->conf->endpoint_host);
    keep_reason(l, false, why);
    on_fail_timer(timer);
}

/* An endpoint that needs no resolver: an address, or localhost, which is
 * loopback whatever /etc/hosts says or if there is none (RFC 6761, 6.3). */
static bool needs_no_resolver(struct link *l)
{
    const char *host = l->conf->endpoint_host;
    struct ddp_err err;
    if (strcasecmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (!addr_is_number(host))
        return false;
    return addr_resolve(host, l->port, &l->addrs, &err) == 0;
}

void link_connect(struct link *l)
{
    ddp_assert(l->conn == NULL);
    (void)uv_timer_stop(&l->timer);
    forget_reasons(l);
    l->wanted = true;
    if (l->resolving) {
        (void)uv_timer_start(&l->timer, on_resolve_timer, RESOLVE_MS, 0);
        return; /* on_resolved goes on */
    }
    if (l->fresh || needs_no_resolver(l)) {
        resolved(l);
        return;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", (unsigned)l->port % 65536u);
    int rc = uv_getaddrinfo(l->loop, &l->resolve, on_resolved,
                            l->conf->endpoint_host, port, &hints);
    l->resolving = rc == 0;
    if (rc != 0) {
        keep_reason(l, false, uv_strerror(rc));
        fail_soon(l);
        return;
    }
    (void)uv_timer_start(&l->timer, on_resolve_timer, RESOLVE_MS, 0);
}

/* -- the connection -------------------------------------------------------- */

void link_send(struct link *l, const struct msg *m)
{
    if (l->up)
        conn_send(l->conn, m);
}

void link_disconnect(struct link *l)
{
    (void)uv_timer_stop(&l->timer);
    l->wanted = false;
    if (l->conn != NULL)
        conn_close(l->conn);
    l->conn = NULL;
    l->lost_us = l->up ? mono_now_us() : l->lost_us;
    l->up = false;
}

void link_finish(struct link *l)
{
    (void)uv_timer_stop(&l->timer);
    l->wanted = false;
    if (l->conn != NULL)
        conn_finish(l->conn);
    l->conn = NULL;
    l->up = false;
}

void link_local_addr(const struct link *l, char *text, size_t size)
{
    char here[ADDR_TEXT_MAX] = "";
    if (l->conn != NULL)
        conn_here(l->conn, here);
    (void)snprintf(text, size, "%s", here); /* fits: both hold an address */
}

int link_port(const struct link *l)
{
    return l->port;
}

pid_t link_server(const struct link *l)
{
    return l->server;
}

void link_server_ended(struct link *l)
{
    int status;
    (void)waitpid(l->server, &status, 0);
    /* It has said why it cannot serve; the next one could not either. */
    if (!l->ever_heard && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        fatalx(WEXITSTATUS(status),
               "this node is to serve the rendezvous and cannot");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        log_warnx("the rendezvous server of this launcher ended with status "
                  "%d; it is started again when needed",
                  WIFEXITED(status) ? WEXITSTATUS(status)
                                    : 128 + WTERMSIG(status));
    l->server = 0;
}

void link_server_kill(struct link *l)
{
    helper_kill(&l->server);
}
