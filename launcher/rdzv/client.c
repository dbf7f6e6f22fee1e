/*
 * Happy path of a try (rdzv_client_connect):
 *
 *     IDLE -> RESOLVING -> DIALLING -> UP
 *
 * A numeric endpoint needs no resolver and goes from IDLE to DIALLING. Before
 * the first address is dialled, the client starts a server if an address is
 * local and the port is free. Addresses are dialled one after the other.
 *
 * Failure modes:
 *  - The name does not resolve, or every address failed: FAILING, and
 *    on_disconnected from a timer of 0 ms. The caller is inside a step of the
 *    agent's core, and must not be called back from there.
 *  - The resolver hangs: the try ends after RESOLVE_MS. The resolver cannot be
 *    called back, so it runs on; what it says later is for the next try.
 *  - An address does not answer: the next one is dialled after dial_ms.
 *  - The server has another token: the launcher and the rendezvous never get
 *    together. If no address let this launcher in, and none ever did, that ends
 *    the launch. Later it does not: nothing proves that such an answer comes
 *    from the rendezvous, and it must not end a run that works.
 *  - A connection that was up breaks: on_disconnected at once, state IDLE.
 */
#include "launcher/rdzv/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/guard.h"
#include "launcher/rdzv/resolver.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/daemon/server.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/helper.h"

#define DIAL_MS    5000 /* at most; less where read_timeout is */
#define RESOLVE_MS 2000 /* a resolver may well take longer, but not unsaid */
/* A daemon that is gone is likely to be started again. Its port is left to it
 * for this time before a launcher on its host serves there instead. */
#define TAKE_OVER_US (3 * MONO_S)
#define START_TRIES  3 /* of the server, before this launcher gives up */

#define CLIENT_MAGIC 0x525a434cu

enum client_state {
    CLIENT_IDLE,
    CLIENT_RESOLVING, /* the timer ends it */
    CLIENT_DIALLING,  /* `conn` is not up; the timer ends it */
    CLIENT_FAILING,   /* the timer tells of it */
    CLIENT_UP,
};

enum reached {
    NEVER_UP,
    WAS_UP,
    WAS_HEARD, /* a server has said something */
};

/* What a try has come to so far. */
struct attempt {
    bool refused;       /* by all addresses that were tried */
    bool token_differs; /* said one of them */
    char why[256];      /* "": nothing went wrong yet */
};

struct rdzv_client {
    uint32_t magic;
    uv_loop_t *loop;
    const struct conf *conf;
    int guard_fd;
    const struct rdzv_client_handler *handler;
    void *ctx;
    bool debug;
    int store_chan;

    enum client_state state;
    uv_timer_t timer; /* a dial's end, or a failure to be told */
    struct attempt attempt;
    struct conn *conn; /* DIALLING and UP only */
    struct addr_list addrs;
    int next_addr;

    struct resolver resolver; /* it may be busy for a try that is over */
    bool fresh;               /* `addrs` came from it, and were not tried yet */

    enum reached reached; /* by any try */
    bool foreign;    /* the server that we were up with last was not ours ... */
    int64_t lost_us; /* ... and when we lost it */

    pid_t server; /* of our own, 0: none runs */
    bool served;  /* there was one */
    int failed;   /* so often in a row its process could not be started */
    int port;     /* where to dial: the server's own choice for port 0 */
};

static struct rdzv_client *client_of(void *data)
{
    struct rdzv_client *cl = data;
    ddp_assert(cl != NULL && cl->magic == CLIENT_MAGIC);
    return cl;
}

/* What holds in each state, when no callback is under way. */
static void check_client(const struct rdzv_client *cl)
{
    bool connected = cl->state == CLIENT_DIALLING || cl->state == CLIENT_UP;
    ddp_assert((cl->conn != NULL) == connected);
    ddp_assert(cl->state != CLIENT_RESOLVING ||
               resolver_is_busy(&cl->resolver));
    ddp_assert(cl->state != CLIENT_UP || cl->reached != NEVER_UP);
}

static void
on_resolved(void *ctx, const struct addr_list *list, const struct ddp_err *err);

struct rdzv_client *rdzv_client_new(uv_loop_t *loop,
                                    const struct conf *conf,
                                    int guard_fd,
                                    const struct rdzv_client_handler *handler,
                                    void *ctx,
                                    int store_chan,
                                    bool debug)
{
    struct ddp_err err;
    struct rdzv_client *cl = calloc(1, sizeof(*cl));
    if (cl == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM),
               "no memory for the rendezvous client");
    cl->magic = CLIENT_MAGIC;
    cl->loop = loop;
    cl->conf = conf;
    cl->guard_fd = guard_fd;
    cl->handler = handler;
    cl->ctx = ctx;
    cl->debug = debug;
    cl->store_chan = store_chan;
    cl->port = conf->endpoint_port;
    (void)uv_timer_init(loop, &cl->timer); /* cannot fail */
    cl->timer.data = cl;
    if (resolver_init(&cl->resolver, loop, on_resolved, cl, &err) != 0)
        fatalx(ddp_code_exit(err.code), "%s", err.text);
    return cl;
}

/* -- failing --------------------------------------------------------------- */

static void on_fail_timer(uv_timer_t *timer)
{
    struct rdzv_client *cl = client_of(timer->data);
    const struct attempt *a = &cl->attempt;
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_CONFIG};
    check_client(cl);
    cl->state = CLIENT_IDLE;
    if (!a->token_differs || cl->reached != NEVER_UP) {
        cl->handler->on_disconnected(cl->ctx, a->refused, a->why);
        return;
    }
    msg_set(no.refused.text, a->why);
    cl->handler->on_msg(cl->ctx, &no);
}

/* The first reason is told. A try is refused only if all addresses refused: an
 * address that does not answer may have a server that lives, and the agent
 * takes a refusal for proof that there is none. */
static void keep_reason(struct rdzv_client *cl, bool refused, const char *why)
{
    cl->attempt.refused &= refused;
    if (cl->attempt.why[0] == '\0')
        msg_set(cl->attempt.why, why);
}

static void fail_soon(struct rdzv_client *cl)
{
    cl->state = CLIENT_FAILING;
    check_client(cl);
    (void)uv_timer_start(&cl->timer, on_fail_timer, 0, 0);
}

/* -- serving --------------------------------------------------------------- */

struct server_args {
    int nodes_max;
    bool debug;
    const struct conf *conf;
};

static void run_server(const struct helper_fds *fds, const void *arg)
{
    const struct server_args *a = arg;
    char names[sizeof(a->conf->endpoint_host) + sizeof(a->conf->http_hosts)];
    (void)snprintf(names, /* fits */ sizeof(names), "%s,%s",
                   a->conf->endpoint_host, a->conf->http_hosts);
    server_main(fds->listener, fds->chan, a->nodes_max, a->debug, names,
                a->conf->token);
}

/*
 * On the host itself its name may lead to loopback (Debian writes 127.0.1.1
 * into /etc/hosts), while the other nodes come from outside: with several nodes
 * it then listens on every address.
 */
static int listen_at(struct rdzv_client *cl, const struct sockaddr *sa, int *fd)
{
    struct ddp_err err;
    bool open_wide =
        cl->conf->nnodes_max > 1 && addr_is_loopback(sa) && !cl->conf->loopback;
    int rc = open_wide ? addr_listen_any(cl->port, fd, &err)
                       : addr_listen(sa, fd, &err);
    /* This node was told to serve there. If the port is taken, what answers
     * there is not the server that the other nodes look for. */
    if (rc != 0 && cl->conf->is_host == 1 && !cl->served)
        fatalx(ddp_code_exit(err.code),
               "cannot serve the rendezvous on this node: %s%s", err.text,
               err.sys_errno == EADDRINUSE
                   ? "; another job or program has that port (ss -ltnp shows "
                     "which): end it, or give this job another port "
                     "(--master_port, --rdzv_endpoint=HOST:PORT)"
                   : "");
    /* If the port is taken, a server is there already; any other error is the
     * reason that none is. */
    if (rc != 0 && err.sys_errno != EADDRINUSE)
        keep_reason(cl, true, err.text);
    return rc;
}

/* Starts the process behind `fd`, and finds the port to dial. */
static int run_at(struct rdzv_client *cl, int fd, struct ddp_err *err)
{
    int nodes_max = 2 * cl->conf->nnodes_max + 16; /* with room for spares */
    struct server_args args = {
        .nodes_max = nodes_max < CONF_NNODES_MAX ? nodes_max : CONF_NNODES_MAX,
        .debug = cl->debug,
        .conf = cl->conf,
    };
    struct helper_fds fds = {
        .listener = fd, .chan = cl->store_chan, .token = true};
    int port = addr_fd_port(fd);
    if (port == 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot find its port");
    if (helper_start(&cl->server, &fds, run_server, &args, err) != 0)
        return -1;
    cl->port = port;
    return 0;
}

/* Said as the reason of this try. Nobody else serves at our address, so that it
 * would be said until join_timeout. A run that has begun is not given up. */
static void start_failed(struct rdzv_client *cl, const struct ddp_err *err)
{
    char why[sizeof(err->text) + 64];
    cl->failed++;
    (void)snprintf(why, sizeof(why), "cannot start the rendezvous server: %s",
                   err->text); /* fits */
    if (cl->failed >= START_TRIES && cl->reached == NEVER_UP)
        fatalx(ddp_code_exit(err->code), /* messages: ok, START_TRIES or more */
               "%s; tried %d times", why, cl->failed);
    keep_reason(cl, true, why);
}

static void start_server(struct rdzv_client *cl, int fd)
{
    struct ddp_err err;
    int rc = run_at(cl, fd, &err);
    (void)close(fd); /* the server has it */
    if (rc != 0) {
        start_failed(cl, &err);
        return;
    }
    if (cl->foreign)
        log_info("no server answers at %s port %d any more: this launcher "
                 "serves the rendezvous from now on",
                 cl->conf->endpoint_host, cl->port);
    cl->served = true;
    cl->failed = 0;
}

/* Serves the rendezvous if it is to be here and nobody does yet. */
static void try_to_serve(struct rdzv_client *cl)
{
    if (cl->server > 0 || cl->conf->is_host == 0)
        return;
    if (cl->foreign && cl->conf->is_host != 1 &&
        mono_now_us() < mono_after(cl->lost_us, TAKE_OVER_US))
        return;
    for (int i = 0; i < cl->addrs.n; i++) {
        const struct sockaddr *sa = (const struct sockaddr *)&cl->addrs.at[i];
        int fd;
        if (cl->conf->is_host != 1 && !addr_is_local(sa))
            continue;
        if (listen_at(cl, sa, &fd) == 0) {
            start_server(cl, fd);
            return;
        }
    }
}

/* -- dialling -------------------------------------------------------------- */

static void dial_next(struct rdzv_client *cl);

static void on_up(void *ctx, struct conn *c)
{
    struct rdzv_client *cl = client_of(ctx);
    ddp_assert(cl->state == CLIENT_DIALLING && cl->conn == c);
    (void)uv_timer_stop(&cl->timer);
    cl->state = CLIENT_UP;
    if (cl->reached == NEVER_UP)
        cl->reached = WAS_UP;
    cl->foreign = cl->server == 0;
    size_t len;
    const uint8_t *farewell = conn_farewell(c, &len);
    guard_hold(cl->guard_fd, conn_fd(c), farewell, len);
    cl->handler->on_connected(cl->ctx);
}

/* Every worker finds these in its environment. A server of ours says nothing
 * impossible; something else that answers there may. */
static bool is_possible(const struct msg_world *w, int nproc)
{
    if (strspn(w->instance, "0123456789abcdef") != RNG_ID_LEN ||
        w->epoch_id[strspn(w->epoch_id, "0123456789abcdef")] != '\0')
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
    struct rdzv_client *cl = client_of(ctx);
    struct msg no = {.kind = MSG_KIND_refused, .refused.code = DDP_E_PROTO};
    ddp_assert(cl->state == CLIENT_UP);
    cl->reached = WAS_HEARD;
    if (m->kind == MSG_KIND_world && !is_possible(&m->world, cl->conf->nproc)) {
        msg_set(no.refused.text,
                "the ranks or the address that it gave are impossible");
        m = &no; /* it would give the same again */
    }
    cl->handler->on_msg(cl->ctx, m);
}

static void on_closed(
    void *ctx, struct conn *c, bool orderly, bool refused, const char *why)
{
    (void)orderly;
    struct rdzv_client *cl = client_of(ctx);
    ddp_assert(cl->conn == c);
    check_client(cl);
    (void)uv_timer_stop(&cl->timer);
    cl->conn = NULL;
    if (cl->state == CLIENT_UP) {
        cl->state = CLIENT_IDLE;
        cl->lost_us = mono_now_us();
        cl->handler->on_disconnected(cl->ctx, false, why);
        return;
    }
    if (conn_token_differs(c) && !cl->attempt.token_differs) {
        cl->attempt.token_differs = true;
        cl->attempt.why[0] = '\0'; /* it counts for more than what was before */
    }
    keep_reason(cl, refused, why);
    dial_next(cl);
}

static const struct conn_handler handler = {
    .on_up = on_up,
    .on_msg = on_msg,
    .on_closed = on_closed,
};

static int64_t dial_ms(const struct rdzv_client *cl)
{
    return mono_min(DIAL_MS, cl->conf->read_timeout_us / MONO_MS);
}

static void on_dial_timer(uv_timer_t *timer)
{
    struct rdzv_client *cl = client_of(timer->data);
    char why[64];
    ddp_assert(cl->state == CLIENT_DIALLING);
    (void)snprintf(why, sizeof(why), "no answer in %.12g s", /* it fits */
                   (double)dial_ms(cl) / 1000.0);
    conn_close(cl->conn);
    cl->conn = NULL;
    keep_reason(cl, false, why);
    dial_next(cl);
}

/* The address with the port to dial, which a server of ours may have chosen. */
static void set_port(struct sockaddr_storage *ss, int port)
{
    struct sockaddr_in in;
    memcpy(&in, ss, sizeof(in));
    in.sin_port = htons((uint16_t)port);
    memcpy(ss, &in, sizeof(in)); /* the port lies at one place in v4 and v6 */
}

static void dial_next(struct rdzv_client *cl)
{
    struct ddp_err err;
    if (cl->next_addr >= cl->addrs.n) {
        fail_soon(cl);
        return;
    }
    struct sockaddr_storage to = cl->addrs.at[cl->next_addr++];
    set_port(&to, cl->port);
    cl->conn =
        conn_dial(cl->loop, (const struct sockaddr *)&to, &handler, cl, &err);
    if (cl->conn == NULL) {
        keep_reason(cl, false, err.text);
        dial_next(cl);
        return;
    }
    cl->state = CLIENT_DIALLING;
    conn_secure(cl->conn, cl->conf->token);
    (void)uv_timer_start(&cl->timer, on_dial_timer, (uint64_t)dial_ms(cl), 0);
}

static void resolved(struct rdzv_client *cl)
{
    cl->next_addr = 0;
    cl->fresh = false;
    if (cl->addrs.n == 0)
        keep_reason(cl, false, "the host name has no address");
    try_to_serve(cl);
    dial_next(cl);
}

static void
on_resolved(void *ctx, const struct addr_list *list, const struct ddp_err *err)
{
    struct rdzv_client *cl = client_of(ctx);
    cl->fresh = list != NULL;
    if (list != NULL)
        cl->addrs = *list;
    if (cl->state != CLIENT_RESOLVING)
        return; /* late: what came is for the next try */
    (void)uv_timer_stop(&cl->timer);
    if (list != NULL) {
        resolved(cl);
        return;
    }
    keep_reason(cl, false, err->text);
    fail_soon(cl);
}

/* The resolver cannot be called back: it is left to itself. */
static void on_resolve_timer(uv_timer_t *timer)
{
    struct rdzv_client *cl = client_of(timer->data);
    char why[300];
    ddp_assert(cl->state == CLIENT_RESOLVING);
    (void)snprintf(why, sizeof(why),
                   "no name server has answered for the name '%.100s' in %d s",
                   cl->conf->endpoint_host, RESOLVE_MS / 1000);
    keep_reason(cl, false, why);
    on_fail_timer(timer);
}

/* An endpoint that needs no resolver: an address, or localhost, which is
 * loopback whatever /etc/hosts says or if there is none (RFC 6761, 6.3). */
static bool needs_no_resolver(struct rdzv_client *cl)
{
    const char *host = cl->conf->endpoint_host;
    struct ddp_err err;
    if (strcasecmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (!addr_is_number(host))
        return false;
    return addr_resolve(host, cl->port, &cl->addrs, &err) == 0;
}

static void wait_for_resolver(struct rdzv_client *cl)
{
    cl->state = CLIENT_RESOLVING;
    (void)uv_timer_start(&cl->timer, on_resolve_timer, RESOLVE_MS, 0);
}

/* There is one endpoint, whose addresses are dialled for dial_ms each. */
void rdzv_client_connect(struct rdzv_client *cl,
                         const char *target,
                         int which,
                         int64_t within_ms)
{
    (void)within_ms;
    ddp_assert(target[0] == '\0' && which == 0);
    ddp_assert(cl->state == CLIENT_IDLE);
    check_client(cl);
    cl->attempt = (struct attempt){.refused = true};
    if (resolver_is_busy(&cl->resolver)) { /* on_resolved goes on */
        wait_for_resolver(cl);
        return;
    }
    if (cl->fresh || needs_no_resolver(cl)) {
        resolved(cl);
        return;
    }
    struct ddp_err err;
    if (resolver_start(&cl->resolver, cl->conf->endpoint_host, cl->port,
                       &err) != 0) {
        keep_reason(cl, false, err.text);
        fail_soon(cl);
        return;
    }
    wait_for_resolver(cl);
}

/* -- the connection -------------------------------------------------------- */

void rdzv_client_send(struct rdzv_client *cl, const struct msg *m)
{
    struct msg said = *m;
    char end[CONN_END_MAX];
    if (cl->state != CLIENT_UP)
        return;
    if (m->kind == MSG_KIND_join) { /* the agent's core knows no sockets */
        conn_here_end(cl->conn, end);
        msg_set(said.join.here, end);
    }
    conn_send(cl->conn, &said);
}

void rdzv_client_disconnect(struct rdzv_client *cl)
{
    check_client(cl);
    (void)uv_timer_stop(&cl->timer);
    if (cl->conn != NULL)
        conn_close(cl->conn);
    cl->conn = NULL;
    cl->lost_us = cl->state == CLIENT_UP ? mono_now_us() : cl->lost_us;
    cl->state = CLIENT_IDLE;
}

void rdzv_client_finish(struct rdzv_client *cl)
{
    check_client(cl);
    (void)uv_timer_stop(&cl->timer);
    if (cl->conn != NULL)
        conn_finish(cl->conn);
    cl->conn = NULL;
    cl->state = CLIENT_IDLE;
}

void rdzv_client_local_addr(const struct rdzv_client *cl,
                            char *text,
                            size_t size)
{
    char here[ADDR_TEXT_MAX] = "";
    if (cl->conn != NULL)
        conn_here(cl->conn, here);
    (void)snprintf(text, size, "%s", here); /* fits: both hold an address */
}

void rdzv_client_peer_addr(const struct rdzv_client *cl,
                           char text[ADDR_TEXT_MAX])
{
    char end[CONN_END_MAX] = "";
    if (cl->conn != NULL)
        conn_peer_end(cl->conn, end);
    end[strcspn(end, " ")] = '\0';                  /* without the port */
    (void)snprintf(text, ADDR_TEXT_MAX, "%s", end); /* fits */
}

int rdzv_client_port(const struct rdzv_client *cl)
{
    return cl->port;
}

pid_t rdzv_client_server(const struct rdzv_client *cl)
{
    return cl->server;
}

void rdzv_client_server_ended(struct rdzv_client *cl)
{
    int status = helper_reap(&cl->server);
    /* It has said why it cannot serve; the next one could not either. */
    if (cl->reached != WAS_HEARD && WIFEXITED(status) &&
        WEXITSTATUS(status) != 0)
        fatalx(WEXITSTATUS(status), "cannot serve the rendezvous on this node");
    if (WIFSIGNALED(status))
        log_warnx("the rendezvous server of this launcher was killed by signal "
                  "%d (%s); it is started again when it is needed",
                  WTERMSIG(status), signals_name(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        log_warnx("the rendezvous server of this launcher ended with exit code "
                  "%d; it is started again when it is needed",
                  WEXITSTATUS(status));
}

void rdzv_client_server_kill(struct rdzv_client *cl)
{
    helper_kill(&cl->server);
}
