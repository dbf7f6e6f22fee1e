/*
 * Happy path at an endpoint: the client finds that the endpoint is an address
 * of this node; own_server_serve listens there and starts the process.
 *
 * Happy path of a spare port: it is bound before the first join, and polled.
 * Another agent that has lost its server connects; the poll fires, and the
 * process is started on this listener, and on the endpoint's if that is this
 * node's and free. The launcher keeps its own descriptor of the spare port, but
 * does not poll it while the process lives: when that ends, connections wait in
 * the kernel's queue, and start the next process.
 *
 * There is one process at a time. So a launcher never serves a run at two
 * places, and all its ports lead to the same server.
 *
 * A connection on which nothing comes is no reason to start it: others look
 * whether the port can be reached (launcher/rdzv/reach). The kernel keeps such
 * a connection to itself, for about a second.
 *
 * Failure modes:
 *  - The spare port cannot be had: the log says so, and join.serve_port is 0.
 *  - The process cannot be started: at an endpoint the caller is told; at the
 *    spare port it is tried again AGAIN_MS later.
 *  - It ends soon after its start: the spare port is not polled for AGAIN_MS,
 *    so that a server that cannot run does not keep the agent busy.
 *  - It dies at an endpoint while the run is served elsewhere: it is started
 *    again there AGAIN_MS later.
 *  - The launcher ends: the process dies with it (net/helper), and so do its
 *    descriptors, which no worker has (close-on-exec).
 */
#include "launcher/rdzv/own_server.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/daemon/server.h"
#include "rendezvous/http/http_hosts.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/helper.h"

#define OWN_SERVER_MAGIC 0x6f776e73u
#define START_TRIES      3 /* at an endpoint, before this launcher gives up */
#define AGAIN_MS         1000

static struct own_server *own_server_of(void *data)
{
    struct own_server *s = data;
    ddp_assert(s != NULL && s->magic == OWN_SERVER_MAGIC);
    ddp_assert((s->spare_fd >= 0) == (s->spare_port > 0));
    return s;
}

/* -- the process ----------------------------------------------------------- */

struct server_args {
    int nodes_max;
    bool debug;
    const struct conf *conf;
};

/* What HTTP clients may call it. */
static void names_of(const struct conf *c, char names[HTTP_HOSTS_ROOM])
{
    size_t used = 0;
    for (int i = 0; i < c->endpoints_len; i++) {
        const char *host = c->endpoints[i].host;
        size_t len = strlen(host);
        ddp_assert(used + len + 1 + sizeof(c->http_hosts) <= HTTP_HOSTS_ROOM);
        memcpy(names + used, host, len);
        names[used + len] = ',';
        used += len + 1;
    }
    memcpy(names + used, c->http_hosts, strlen(c->http_hosts) + 1);
}
_Static_assert(CONF_ENDPOINTS_MAX *
                           sizeof(((struct conf *)0)->endpoints[0].host) +
                       sizeof(((struct conf *)0)->http_hosts) <=
                   HTTP_HOSTS_ROOM,
               "the names do not fit");

static void run_server(const struct helper_fds *fds, const void *arg)
{
    const struct server_args *a = arg;
    char names[HTTP_HOSTS_ROOM];
    names_of(a->conf, names);
    struct server_process p = {
        .listen_fd = fds->listener,
        .also_fd = fds->also,
        .store_chan = fds->chan,
        .nodes_max = a->nodes_max,
        .debug = a->debug,
        .http_hosts = names,
        .key = a->conf->token,
    };
    server_main(&p);
}

/* `home_fd`: the endpoint's listener, -1: none. There is one of the two. */
static int start_process(struct own_server *s, int home_fd, struct ddp_err *err)
{
    int nodes_max = 2 * s->conf->nnodes_max + 16; /* with room for spares */
    struct server_args args = {
        .nodes_max = nodes_max < CONF_NNODES_MAX ? nodes_max : CONF_NNODES_MAX,
        .debug = s->debug,
        .conf = s->conf,
    };
    struct helper_fds fds = {
        .listener = home_fd >= 0 ? home_fd : s->spare_fd,
        .chan = s->store_chan,
        .also = home_fd >= 0 && s->spare_fd >= 0 ? s->spare_fd : 0,
        .token = true};
    ddp_assert(fds.listener >= 0 && s->pid == 0);
    int port = home_fd >= 0 ? addr_fd_port(home_fd) : 0;
    if (home_fd >= 0 && port == 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot find its port");
    if (helper_start(&s->pid, &fds, run_server, &args, err) != 0)
        return -1;
    s->home_port = port;
    s->lost &= home_fd < 0;
    s->began_us = mono_now_us();
    if (s->spare_fd >= 0)
        (void)uv_poll_stop(&s->poll);
    return 0;
}

/* -- the spare port -------------------------------------------------------- */

static void on_spare(uv_poll_t *poll, int status, int events);

static void watch_spare(struct own_server *s)
{
    int rc = s->spare_fd < 0 || s->pid > 0
                 ? 0
                 : uv_poll_start(&s->poll, UV_READABLE, on_spare);
    ddp_assert(rc == 0); /* only epoll_ctl in the next turn can fail */
}

/* The endpoint's listener if that is this node's and free, else -1. */
static int listen_at_home(struct own_server *s)
{
    struct ddp_err err;
    int fd;
    const struct sockaddr *sa = (const struct sockaddr *)&s->home;
    return s->has_home && addr_listen(sa, &fd, &err) == 0 ? fd : -1;
}

static void on_again(uv_timer_t *timer);

static void start_later(struct own_server *s)
{
    if (s->spare_fd >= 0)
        (void)uv_poll_stop(&s->poll);
    (void)uv_timer_start(&s->again, on_again, AGAIN_MS, 0);
}

/* `home_fd`: the endpoint's listener, -1: none. `status`: of the poll. */
static void start_for_others(struct own_server *s, int home_fd, int status)
{
    struct ddp_err err;
    int rc = status < 0
                 ? ddp_err_set(&err, DDP_E_NOMEM, "%s", uv_strerror(status))
                 : start_process(s, home_fd, &err);
    if (home_fd >= 0)
        (void)close(home_fd); /* the server has it */
    if (rc == 0)
        return;
    log_warnx("cannot start the rendezvous server for other nodes: %s; trying "
              "again in %d ms",
              err.text, AGAIN_MS);
    start_later(s);
}

static void on_spare(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct own_server *s = own_server_of(poll->data);
    start_for_others(s, listen_at_home(s), status);
}

/* Newcomers look for the run at the endpoint, wherever it is served by now. If
 * the process died there, nobody but its launcher can start it again. */
static void on_again(uv_timer_t *timer)
{
    struct own_server *s = own_server_of(timer->data);
    int home_fd = s->lost && s->pid == 0 ? listen_at_home(s) : -1;
    watch_spare(s);
    if (home_fd >= 0)
        start_for_others(s, home_fd, 0);
}

/* On loopback for nodes of one machine, else where others can connect. With a
 * list of endpoints it is the first one's port if that is free here: one rule
 * of a firewall does then. Else it is not, since another job may want to serve
 * there. */
static int listen_spare(const struct conf *c, int *fd, struct ddp_err *err)
{
    struct addr_list here;
    bool v6 = strchr(c->endpoints[0].host, ':') != NULL;
    if (!c->loopback) {
        int port = c->endpoints[0].port;
        return c->endpoints_len > 1 && addr_listen_any(port, fd, err) == 0
                   ? 0
                   : addr_listen_any(0, fd, err);
    }
    if (addr_resolve(v6 ? "::1" : "127.0.0.1", 0, &here, err) != 0)
        return -1;
    return addr_listen((const struct sockaddr *)&here.at[0], fd, err);
}

static void open_spare(struct own_server *s, uv_loop_t *loop)
{
    struct ddp_err err;
    int fd = -1;
    int rc = listen_spare(s->conf, &fd, &err);
    int port = rc == 0 ? addr_fd_port(fd) : 0;
    if (rc == 0 && (port == 0 || uv_poll_init(loop, &s->poll, fd) != 0)) {
        rc = ddp_err_set(&err, DDP_E_NOMEM, "no port, or no descriptors");
        (void)close(fd);
    }
    if (rc != 0) {
        log_warnx("this node cannot take over the rendezvous if its host is "
                  "lost: %s",
                  err.text);
        return;
    }
    const int defer_s = 1; /* best effort: a server that is not needed ends */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s,
                     sizeof(defer_s));
    s->poll.data = s;
    s->spare_fd = fd;
    s->spare_port = port;
    watch_spare(s);
}

int own_server_spare_port(const struct own_server *s)
{
    return s->spare_port;
}

void own_server_init(struct own_server *s,
                     uv_loop_t *loop,
                     const struct conf *conf,
                     int store_chan,
                     bool debug)
{
    *s = (struct own_server){.magic = OWN_SERVER_MAGIC,
                             .conf = conf,
                             .debug = debug,
                             .store_chan = store_chan,
                             .spare_fd = -1};
    (void)uv_timer_init(loop, &s->again); /* cannot fail */
    s->again.data = s;
    if (!conf->standalone) /* else its own server is all that there is */
        open_spare(s, loop);
}

/* -- at an endpoint -------------------------------------------------------- */

/*
 * On the host itself its name may lead to loopback (Debian writes 127.0.1.1
 * into /etc/hosts), while the other nodes come from outside: with several nodes
 * it then listens on every address. Returns 0; 1: the port is taken; -1.
 */
static int listen_at(struct own_server *s,
                     const struct sockaddr *sa,
                     int *fd,
                     struct ddp_err *err)
{
    bool open_wide =
        s->conf->nnodes_max > 1 && addr_is_loopback(sa) && !s->conf->loopback;
    int rc = open_wide ? addr_listen_any(addr_port(sa), fd, err)
                       : addr_listen(sa, fd, err);
    /* This node was told to serve there. If the port is taken, what answers
     * there is not the server that the other nodes look for. */
    if (rc != 0 && s->conf->is_host == 1 && !s->served)
        fatalx(ddp_code_exit(err->code),
               "cannot serve the rendezvous on this node: %s%s", err->text,
               err->sys_errno == EADDRINUSE
                   ? "; another job or program has that port (ss -ltnp shows "
                     "which): end it, or give this job another port "
                     "(--master_port, --rdzv_endpoint=HOST:PORT)"
                   : "");
    return rc != 0 && err->sys_errno == EADDRINUSE ? 1 : rc;
}

/* Nobody else serves at our address, so that this would be told until
 * join_timeout. A run that has begun is not given up. */
static int start_failed(struct own_server *s, bool first, struct ddp_err *err)
{
    s->failed++;
    ddp_err_wrap(err, "cannot start the rendezvous server");
    if (s->failed >= START_TRIES && first)
        fatalx(ddp_code_exit(err->code), /* messages: ok, START_TRIES or more */
               "%s; tried %d times", err->text, s->failed);
    return -1;
}

static void remember_home(struct own_server *s, const struct sockaddr *sa)
{
    size_t size = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : sizeof(struct sockaddr_in);
    if (addr_is_loopback(sa) && !s->conf->loopback)
        return; /* other nodes come from outside */
    memset(&s->home, 0, sizeof(s->home));
    memcpy(&s->home, sa, size);
    s->has_home = true;
}

pid_t own_server_serve(struct own_server *s,
                       const struct sockaddr *sa,
                       bool first,
                       struct ddp_err *err)
{
    int fd;
    if (s->pid > 0)
        return s->pid;
    int rc = listen_at(s, sa, &fd, err);
    if (rc != 0)
        return rc > 0 ? 0 : -1;
    remember_home(s, sa);
    rc = start_process(s, fd, err);
    (void)close(fd); /* the server has it */
    if (rc != 0)
        return start_failed(s, first, err);
    s->served = true;
    s->failed = 0;
    return s->pid;
}

int own_server_home_port(const struct own_server *s)
{
    return s->home_port;
}

/* -- the process's life ---------------------------------------------------- */

bool own_server_is_at(const struct own_server *s, const struct sockaddr *sa)
{
    int port = addr_port(sa);
    bool spare = s->spare_port > 0 && port == s->spare_port;
    bool home = s->pid > 0 && port == s->home_port;
    return (spare || home) && addr_is_local(sa) == ADDR_HERE;
}

pid_t own_server_pid(const struct own_server *s)
{
    return s->pid;
}

void own_server_ended(struct own_server *s, bool first)
{
    int status = helper_reap(&s->pid);
    int64_t lived_us = mono_now_us() - s->began_us;
    bool at_home = s->home_port > 0;
    s->home_port = 0;
    /* It has said why it cannot serve; the next one could not either. */
    if (first && at_home && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        fatalx(WEXITSTATUS(status), "cannot serve the rendezvous on this node");
    if (WIFSIGNALED(status))
        log_warnx("the rendezvous server of this launcher was killed by signal "
                  "%d (%s); it is started again when it is needed",
                  WTERMSIG(status), signals_name(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        log_warnx("the rendezvous server of this launcher ended with exit code "
                  "%d; it is started again when it is needed",
                  WEXITSTATUS(status));
    s->lost = at_home && status != 0;
    start_later(s);
    if (lived_us >= AGAIN_MS * MONO_MS)
        watch_spare(s);
}

void own_server_kill(struct own_server *s)
{
    helper_kill(&s->pid);
    s->home_port = 0;
}
