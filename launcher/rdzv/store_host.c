/*
 * Happy path: store_host_open listens before the node joins, so that the join
 * can tell the port. When a round begins the listener is watched; the first
 * connection starts the store's process, which inherits the listener. A launch
 * whose workers use no store pays for none. When the workers are dead the
 * process is killed, and the listener is kept for the next round.
 *
 * Failure modes:
 *   - The port is taken: another one is used, and MASTER_PORT tells it.
 *   - A worker of the next round connects early (its launcher heard of the
 *     world first): its connection is kept, and passed to that round's store. A
 *     connection of a worker that is dead has hung up, and is closed.
 *   - The process does not start, or ends twice in a round: tried again after
 *     AGAIN_MS.
 */
#include "launcher/rdzv/store_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/allow.h"
#include "rendezvous/net/fd_pass.h"
#include "rendezvous/net/helper.h"
#include "rendezvous/store/process.h"

#define EARLY_MAX 256 /* connections between two rounds */
/* Before a store that did not start, or ended twice in a round, starts. */
#define AGAIN_MS         1000
#define STORE_HOST_MAGIC 0x53544f48u

static struct store_host *store_host_of(void *data)
{
    struct store_host *h = data;
    ddp_assert(h != NULL && h->magic == STORE_HOST_MAGIC);
    return h;
}

/* -- addresses that may use it --------------------------------------------- */

/* One word of the list. */
static int
allow_word(struct conf *c, struct allow *a, char *word, struct ddp_err *err)
{
    if (strcmp(word, "nodes") != 0) {
        int rc = allow_add_net(a, word, err);
        return rc == 0 ? 0
                       : ddp_err_wrap(err, "must be nodes, networks, or a list "
                                           "of both");
    }
    c->store_for_nodes = true;
    if (c->nnodes_max <= STORE_HOST_NODES_MAX)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE, /* messages: ok, it is 4096 */
                       "'nodes' is possible for up to %d nodes: name networks "
                       "instead",
                       STORE_HOST_NODES_MAX);
}

int store_host_allow(struct conf *c, struct ddp_err *err)
{
    char text[sizeof(c->store_allow)];
    char *rest = text;
    char *word;
    struct allow *a = allow_new();
    if (a == NULL)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for a list of addresses");
    msg_set(text, c->store_allow);
    while ((word = strsep(&rest, ",")) != NULL) {
        if (allow_word(c, a, word, err) != 0) {
            allow_free(a);
            return ddp_err_wrap(err, "--worker_store_allow");
        }
    }
    c->store_nets = a;
    return 0;
}

void store_host_members(struct store_host *h, const struct msg_members *m)
{
    char word[ADDR_TEXT_MAX];
    if (!h->conf->store_for_nodes)
        return;
    if (m->round != h->members_round || h->members == NULL) {
        allow_free(h->members);
        h->members = allow_copy_nets(h->conf->store_nets);
        h->members_round = m->round;
    }
    for (const char *p = m->addrs; *p != '\0'; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        if (len < sizeof(word) && h->members != NULL) {
            memcpy(word, p, len);
            word[len] = '\0';
            (void)allow_add_addr(h->members, word, NULL); /* else it may not */
        }
        p += len;
    }
}

/* If the server told of no members, only this node may. A store that takes
 * another's place in its round has that one's list. */
static void find_allowed(struct store_host *h, int64_t round)
{
    bool told = h->members != NULL && h->members_round == round;
    if (h->conf->store_nets == NULL ||
        (!told && h->allow != NULL && h->allow_round == round))
        return;
    allow_free(h->allow);
    h->allow_round = round;
    if (told) {
        h->allow = h->members;
        h->members = NULL;
    } else {
        h->allow = allow_copy_nets(h->conf->store_nets);
    }
    if (h->allow == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for a list of addresses");
}

/* -- the process ----------------------------------------------------------- */

/* By which connections come that were accepted elsewhere; -1: none. */
static int channel(const struct store_host *h)
{
    return h->take >= 0 ? h->take : h->own_take;
}

static void run_store(const struct helper_fds *fds, const void *arg)
{
    const struct store_host *h = arg;
    store_process_main(fds, h->allow);
}

static void wait_a_while(struct store_host *h);

static void start(struct store_host *h)
{
    ddp_assert(h->open && h->pid == 0 && h->fd >= 0);
    struct helper_fds fds = {.listener = h->fd, .chan = channel(h)};
    struct ddp_err err;
    if (helper_start(&h->pid, &fds, run_store, h, &err) == 0)
        return;
    log_warnx("cannot start the workers' store: %s; trying again in %d ms",
              err.text, AGAIN_MS);
    h->early = true;
    wait_a_while(h);
}

/* The process starts with the first connection. */
static void on_wanted(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct store_host *h = store_host_of(poll->data);
    (void)uv_poll_stop(&h->poll);
    if (h->take >= 0)
        (void)uv_poll_stop(&h->take_poll);
    start(h);
}

/* At once if it is wanted already. */
static void start_when_wanted(struct store_host *h)
{
    if (h->early) {
        start(h);
        return;
    }
    (void)uv_poll_start(&h->poll, UV_READABLE, on_wanted);
    if (h->take >= 0)
        (void)uv_poll_start(&h->take_poll, UV_READABLE, on_wanted);
}

static void on_again(uv_timer_t *timer)
{
    start_when_wanted(store_host_of(timer->data));
}

static void wait_a_while(struct store_host *h)
{
    (void)uv_timer_start(&h->again, on_again, AGAIN_MS, 0);
}

void store_host_end(struct store_host *h)
{
    if (h->fd < 0 || !h->open)
        return;
    h->open = false;
    helper_kill(&h->pid);
    (void)uv_timer_stop(&h->again);
    (void)uv_poll_stop(&h->poll);
    if (h->take >= 0)
        (void)uv_poll_stop(&h->take_poll);
}

/* -- connections between two rounds ---------------------------------------- */

/* A worker of the old round is dead, and its connection has hung up; one that
 * is open is from a worker of the next round. */
static bool is_hung_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0; /* if it cannot be seen, the store finds out */
}

struct early {
    int fd;
    size_t len; /* what was read from it already */
    uint8_t data[FD_PASS_BYTES_MAX];
};

/* Into the channel; if there is none, one of our own is made. */
static bool keep(struct store_host *h, const struct early *e)
{
    struct ddp_err err;
    if (h->give < 0 && fd_pass_pair(&h->give, &h->own_take, &err) != 0)
        return false;
    return fd_pass_give(h->give, e->fd, e->data, e->len) == 0;
}

static bool take_early(const struct store_host *h, struct early *e)
{
    e->len = 0;
    e->fd = accept4(h->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (e->fd >= 0)
        return true;
    return channel(h) >= 0 &&
           fd_pass_take(channel(h), &e->fd, e->data, &e->len) > 0;
}

/* Keeps those that are open, in order. Returns whether there was one. */
static bool sort_early(struct store_host *h)
{
    static struct early early[EARLY_MAX]; /* large */
    struct early more;
    int n = 0, kept = 0;
    while (n < EARLY_MAX && take_early(h, &early[n]))
        n += early[n].fd >= 0;
    while (n == EARLY_MAX && take_early(h, &more))
        if (more.fd >= 0)
            (void)close(more.fd); /* it finds out, and tries again */
    for (int i = 0; i < n; i++) {
        kept += !is_hung_up(early[i].fd) && keep(h, &early[i]);
        (void)close(early[i].fd); /* a copy is kept */
    }
    return kept > 0;
}

static void renew(struct store_host *h, int64_t round)
{
    store_host_end(h);
    ddp_assert(h->pid == 0 && round > 0);
    find_allowed(h, round);
    h->open = true;
    h->early = h->used && sort_early(h);
    h->used = true;
}

void store_host_renew(struct store_host *h, int64_t round)
{
    if (h->fd < 0)
        return;
    renew(h, round);
    start_when_wanted(h);
}

void store_host_fell(struct store_host *h, int64_t round)
{
    bool again = h->fallen == round;
    int status = helper_reap(&h->pid);
    bool killed = WIFSIGNALED(status);
    log_warnx("the workers' store ended unexpectedly (%s %d); a new, empty one "
              "takes its place",
              killed ? "killed by signal" : "exit code",
              killed ? WTERMSIG(status) : WEXITSTATUS(status));
    h->fallen = round;
    renew(h, round);
    if (again)
        wait_a_while(h);
    else
        start_when_wanted(h);
}

void store_host_kill(struct store_host *h)
{
    helper_kill(&h->pid);
}

/* One that fell has had a visitor. */
bool store_host_is_unused(const struct store_host *h)
{
    return h->open && h->pid == 0 && !h->early && h->fallen == 0;
}

/* -- listening ------------------------------------------------------------- */

/* The port that is wanted, or any: what counts is what the workers are told. */
static int listen_for(const struct conf *c, int *fd, struct ddp_err *err)
{
    int port = conf_shares_port(c) ? 0 : c->store_port;
    if (addr_listen_any(port, fd, err) == 0)
        return 0;
    if (port == 0 || err->sys_errno != EADDRINUSE)
        return ddp_err_wrap(err, "the workers' store");
    log_warnx("port %d is taken on this node: if the node gets group rank 0, "
              "MASTER_PORT is another port",
              port);
    return addr_listen_any(0, fd, err);
}

/* libuv asks the kernel whether the descriptor can be polled, which may have no
 * memory or no place for it (fs.epoll.max_user_watches). */
static int watch(struct store_host *h,
                 uv_loop_t *loop,
                 uv_poll_t *poll,
                 int fd,
                 struct ddp_err *err)
{
    int rc = uv_poll_init(loop, poll, fd);
    poll->data = h;
    if (rc == 0)
        return 0;
    return ddp_err_set(err, DDP_E_NOMEM,
                       "cannot watch the port of the workers' store: %s",
                       uv_strerror(rc));
}

int store_host_open(struct store_host *h,
                    uv_loop_t *loop,
                    const struct conf *conf,
                    struct ddp_err *err)
{
    int fd;
    *h = (struct store_host){.magic = STORE_HOST_MAGIC,
                             .conf = conf,
                             .fd = -1,
                             .give = -1,
                             .take = -1,
                             .own_take = -1};
    if (!conf->worker_store && conf->store_port != 0)
        return conf->store_port; /* for a worker to bind itself */
    if (listen_for(conf, &fd, err) != 0)
        return -1;
    int port = addr_fd_port(fd);
    if (port == 0)
        (void)ddp_err_sys(err, DDP_E_NOMEM,
                          "the workers' store: cannot find its port");
    if (port == 0 || !conf->worker_store) {
        (void)close(fd); /* as above */
        return port == 0 ? -1 : port;
    }
    h->fd = fd;
    (void)uv_timer_init(loop, &h->again); /* cannot fail */
    h->again.data = h;
    if (watch(h, loop, &h->poll, fd, err) != 0)
        return -1;
    if (!conf_shares_port(conf))
        return port;
    if (fd_pass_pair(&h->give, &h->take, err) != 0 ||
        watch(h, loop, &h->take_poll, h->take, err) != 0)
        return -1;
    return port;
}
