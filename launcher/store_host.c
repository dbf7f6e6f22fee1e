#include "launcher/store_host.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/daemon/helper.h"
#include "rendezvous/daemon/store_doors.h"
#include "rendezvous/net/addr.h"
#include "rendezvous/net/allow.h"
#include "rendezvous/net/handover.h"

/* -- who may --------------------------------------------------------------- */

/* One word of the list. */
static int
allow_word(struct conf *c, struct allow *a, char *word, struct ddp_err *err)
{
    if (strcmp(word, "nodes") != 0)
        return allow_add_net(a, word, err);
    c->store_for_nodes = true;
    if (c->nnodes_max <= STORE_HOST_NODES_MAX)
        return 0;
    return ddp_err_set(err, DDP_E_USAGE,
                       "nodes is for up to %d of them: name networks instead",
                       STORE_HOST_NODES_MAX);
}

int store_host_allow(struct conf *c, struct ddp_err *err)
{
    char text[sizeof(c->store_allow)];
    char *rest = text;
    char *word;
    struct allow *a = allow_new();
    if (a == NULL)
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
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

/* Nobody but this node, if the server told of no members. A store that takes
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
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for addresses");
}

/* -- the process ----------------------------------------------------------- */

static void run_store(const struct helper_fds *fds, const void *arg)
{
    const struct store_host *h = arg;
    store_doors_main(fds, h->allow);
}

/* The process starts with the first connection: who needs no store pays for
 * none. */
static void on_wanted(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct store_host *h = poll->data;
    struct helper_fds fds = {.listener = h->fd, .chan = h->take};
    struct ddp_err err;
    (void)uv_poll_stop(&h->poll);
    if (h->take >= 0)
        (void)uv_poll_stop(&h->take_poll);
    if (helper_start(&h->pid, &fds, run_store, h, &err) != 0)
        log_warnx("the workers' store does not start: %s", err.text);
}

/* Connections that nobody has accepted are of workers that are dead. */
static void drain_backlog(int fd)
{
    int old;
    while ((old = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        (void)close(old);
}

void store_host_renew(struct store_host *h, int64_t round)
{
    if (h->fd < 0)
        return;
    helper_kill(&h->pid);
    find_allowed(h, round);
    if (h->used)
        drain_backlog(h->fd);
    (void)uv_poll_start(&h->poll, UV_READABLE, on_wanted);
    bool used = h->used;
    h->used = true;
    if (h->take < 0)
        return;
    if (used)
        handover_drain(h->take);
    (void)uv_poll_start(&h->take_poll, UV_READABLE, on_wanted);
}

void store_host_kill(struct store_host *h)
{
    helper_kill(&h->pid);
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
    log_warnx("port %d is taken on this node: should it get group rank 0, "
              "MASTER_PORT is another one",
              port);
    return addr_listen_any(0, fd, err);
}

static void
watch(struct store_host *h, uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    (void)uv_poll_init(loop, poll, fd); /* a socket: cannot fail */
    poll->data = h;
}

int store_host_open(struct store_host *h,
                    uv_loop_t *loop,
                    const struct conf *conf,
                    struct ddp_err *err)
{
    int fd;
    *h = (struct store_host){.conf = conf, .fd = -1, .give = -1, .take = -1};
    if (!conf->worker_store && conf->store_port != 0)
        return conf->store_port; /* for a worker to bind itself */
    if (listen_for(conf, &fd, err) != 0)
        return -1;
    int port = addr_fd_port(fd);
    if (!conf->worker_store) {
        (void)close(fd); /* as above */
        return port;
    }
    h->fd = fd;
    watch(h, loop, &h->poll, fd);
    if (!conf_shares_port(conf))
        return port;
    if (handover_pair(&h->give, &h->take, err) != 0)
        return -1;
    watch(h, loop, &h->take_poll, h->take);
    return port;
}
