#include "launcher/standby/forks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/proc/pidfd.h"
#include "launcher/standby/order.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define FORKED_MAGIC 0x77616974u

/* A standby, or one that is being forked. On the heap, since libuv closes its
 * handle later. */
struct forked {
    unsigned magic;
    uv_poll_t poll;
    struct forks *all;
    int chan;
    pid_t pid; /* 0: it has not said that it is there */
    int pidfd; /* if there is a pid */
    int place;
};

struct forks {
    uv_loop_t *loop;
    int places;
    struct forked *at[]; /* by local rank; NULL: none */
};

static struct forked *forked_of(void *data)
{
    struct forked *w = data;
    ddp_assert(w != NULL && w->magic == FORKED_MAGIC);
    return w;
}

struct forks *forks_new(uv_loop_t *loop, int places)
{
    struct forks *f = calloc(1, sizeof(*f) + (size_t)places * sizeof(f->at[0]));
    if (f == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for standbys");
    f->loop = loop;
    f->places = places;
    return f;
}

static void on_forked_closed(uv_handle_t *h)
{
    struct forked *w = forked_of(h->data);
    w->magic = 0;
    free(w);
}

/* What is left of it ends as its socket closes, unless it was taken. */
static void forget(struct forked *w, bool kill)
{
    w->all->at[w->place] = NULL;
    if (w->pid != 0 && kill)
        (void)pidfd_signal(w->pidfd, SIGKILL);
    if (w->pid != 0 && kill)
        (void)close(w->pidfd);
    uv_close((uv_handle_t *)&w->poll, on_forked_closed);
    (void)close(w->chan);
}

/* Until we reap it, the number of a child of ours is its own. */
static bool is_living_child(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

static void on_standby(uv_poll_t *poll, int status, int events)
{
    struct forked *w = forked_of(poll->data);
    char byte;
    pid_t sender = 0;
    (void)events;
    ssize_t n = order_receive(w->chan, &byte, 1, &sender);
    if (n < 0 && errno == EAGAIN && status == 0)
        return;
    if (n == 1 && w->pid == 0 && sender > 0 && is_living_child(sender)) {
        w->pidfd = pidfd_of(sender);
        if (w->pidfd >= 0) {
            w->pid = sender;
            return;
        }
    }
    forget(w, true); /* it ended, or is none that can be watched */
}

/* Asks for the standby of one place; without, its worker is started afresh. */
static void ask_for(struct forks *f, int chan, int place)
{
    int pair[2];
    struct forked *w = calloc(1, sizeof(*w));
    if (w == NULL || order_pair(pair) != 0) {
        free(w);
        return;
    }
    *w = (struct forked){
        .magic = FORKED_MAGIC, .all = f, .chan = pair[0], .place = place};
    bool ok = order_send(chan, 'f', &pair[1], 1) == 0 &&
              uv_poll_init(f->loop, &w->poll, w->chan) == 0;
    (void)close(pair[1]);
    if (!ok) {
        (void)close(w->chan);
        free(w);
        return;
    }
    w->poll.data = w;
    (void)uv_poll_start(&w->poll, UV_READABLE, on_standby); /* cannot fail */
    f->at[place] = w;
}

void forks_fill(struct forks *f, int chan)
{
    for (int i = 0; i < f->places; i++)
        if (f->at[i] == NULL)
            ask_for(f, chan, i);
}

void forks_end(struct forks *f)
{
    for (int i = 0; i < f->places; i++)
        if (f->at[i] != NULL)
            forget(f->at[i], true);
}

int forks_count(const struct forks *f)
{
    int n = 0;
    for (int i = 0; i < f->places; i++)
        n += f->at[i] != NULL && f->at[i]->pid != 0;
    return n;
}

bool forks_has(const struct forks *f, int place)
{
    ddp_assert(place >= 0 && place < f->places);
    const struct forked *w = f->at[place];
    return w != NULL && w->pid != 0 && is_living_child(w->pid);
}

/* -- an order -------------------------------------------------------------- */

/* A stdin as spawn_worker would leave it to this worker, to be closed if it is
 * not our own; -1 with errno. */
static int open_stdin(const struct spawn_request *req)
{
    if ((req->may_read && req->origin->reads_keys) || !req->origin->terminal)
        return STDIN_FILENO;
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool give_order(const struct forked *w, const struct spawn_request *req)
{
    int in = open_stdin(req);
    int order = order_write(req);
    const int fds[ORDER_FDS] = {
        order,
        in,
        req->out_fd >= 0 ? req->out_fd : STDOUT_FILENO,
        req->err_fd >= 0 ? req->err_fd : STDERR_FILENO,
    };
    bool sent =
        in >= 0 && order >= 0 && order_send(w->chan, 'o', fds, ORDER_FDS) == 0;
    if (order >= 0)
        (void)close(order); /* it has a copy */
    if (in > STDIN_FILENO)
        (void)close(in);
    return sent;
}

/* What it answers, 'k': it has its streams, its session and its order, or 'd'
 * and the name of a variable; 0: nothing. */
static char answer(const struct forked *w, char name[FORKS_NAME_MAX])
{
    struct pollfd p = {.fd = w->chan, .events = POLLIN};
    int64_t until_us = mono_now_us() + FORKS_ANSWER_MS * MONO_MS;
    char text[FORKS_NAME_MAX] = "";
    pid_t sender;
    for (;;) {
        int ms = (int)mono_ms_until(mono_now_us(), until_us);
        int n = poll(&p, 1, ms);
        if (n == 0 || (n < 0 && errno != EINTR))
            return '\0';
        if (n > 0)
            break;
    }
    if (order_receive(w->chan, text, sizeof(text) - 1, &sender) <= 0 ||
        sender != w->pid)
        return '\0';
    memcpy(name, text + 1, sizeof(text) - 1);
    return text[0];
}

bool forks_take(struct forks *f,
                const struct spawn_request *req,
                pid_t *pid,
                int *pidfd,
                char differs[FORKS_NAME_MAX])
{
    struct forked *w = f->at[req->local_rank];
    ddp_assert(w != NULL && w->pid != 0);
    char name[FORKS_NAME_MAX] = "";
    differs[0] = '\0';
    char said = give_order(w, req) ? answer(w, name) : '\0';
    if (said == 'd')
        memcpy(differs, name, sizeof(name));
    if (said != 'k') {
        forget(w, true);
        return false;
    }
    *pid = w->pid;
    *pidfd = w->pidfd;
    forget(w, false);
    return true;
}
