/*
 * The answering side: a process of its own, so that bytes that unknown peers
 * send to an open port are not read by the process that knows the results. One
 * poll(2) loop serves a few connections. If there are too many, the one that
 * has sent no hello, and was silent longest, is closed.
 *
 * A peer that sends anything else than frames of ours is closed at once; one
 * that sends nothing is closed after HELLO_US or SILENT_US.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "launcher/preflight/link.h"
#include "launcher/preflight/wire.h"
#include "rendezvous/base/mono.h"

#define CLIENTS   16
#define HELLO_US  (3 * MONO_S)
#define SILENT_US (20 * MONO_S)

struct responder_peer {
    int fd; /* -1: free */
    bool known;
    int64_t heard_us;
    size_t got;       /* bytes of the frame, or of the hello */
    uint64_t to_skip; /* bytes of DATA that are still to come */
    union {
        struct preflight_frame frame;
        char bytes[sizeof(struct preflight_frame) + PREFLIGHT_SECRET_MAX];
    } in;
};

struct responder {
    int listen_fd;
    char secret[PREFLIGHT_SECRET_MAX];
    struct responder_peer client[CLIENTS];
};

static void drop(struct responder_peer *c)
{
    (void)close(c->fd); /* a peer that is gone, or none of ours */
    c->fd = -1;
}

/* -- frames ---------------------------------------------------------------- */

/* 16 bytes fit into an empty socket; if not, the peer does not read. */
static bool answer(struct responder_peer *c)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts); /* cannot fail */
    struct preflight_frame f = {
        .op = PREFLIGHT_PING,
        .value = htobe64((uint64_t)ts.tv_sec * 1000000 +
                         (uint64_t)ts.tv_nsec / 1000),
    };
    return send(c->fd, &f, sizeof(f), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof(f);
}

/* Bytes of this frame that are looked at. */
static size_t wanted(const struct responder_peer *c)
{
    return c->known ? sizeof(c->in.frame) : sizeof(c->in.bytes);
}

/* Handles a whole frame or hello; false: it is none of ours. */
static bool take(const struct responder *r, struct responder_peer *c)
{
    c->got = 0;
    if (!c->known) {
        c->known = c->in.frame.op == PREFLIGHT_HELLO &&
                   memcmp(c->in.bytes + sizeof(c->in.frame), r->secret,
                          sizeof(r->secret)) == 0;
        return c->known;
    }
    if (c->in.frame.op == PREFLIGHT_PING)
        return answer(c);
    c->to_skip = PREFLIGHT_DATA_LEN;
    return c->in.frame.op == PREFLIGHT_DATA;
}

/* One read; false: the connection is over. */
static bool read_some(const struct responder *r, struct responder_peer *c)
{
    static char waste[PREFLIGHT_DATA_LEN];
    bool skips = c->to_skip > 0;
    size_t len = skips ? (size_t)c->to_skip : wanted(c) - c->got;
    ssize_t n =
        recv(c->fd, skips ? waste : c->in.bytes + c->got, len, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    c->heard_us = mono_now_us();
    if (skips) {
        c->to_skip -= (uint64_t)n;
        return true;
    }
    c->got += (size_t)n;
    ddp_assert(c->got <= wanted(c));
    return c->got < wanted(c) || take(r, c);
}

/* -- connections ----------------------------------------------------------- */

/* A free place. If there is none the oldest peer goes, one without a hello
 * before one with: a flood of unknown peers closes only these. */
static struct responder_peer *place_for_one(struct responder *r)
{
    struct responder_peer *oldest = NULL; /* the first to be closed */
    for (int i = 0; i < CLIENTS; i++) {
        struct responder_peer *c = &r->client[i];
        if (c->fd < 0)
            return c;
        if (oldest == NULL || (oldest->known && !c->known) ||
            (oldest->known == c->known && c->heard_us < oldest->heard_us))
            oldest = c;
    }
    drop(oldest);
    return oldest;
}

static void let_in(struct responder *r)
{
    int on = 1;
    int fd = accept4(r->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct responder_peer *c = place_for_one(r);
    *c = (struct responder_peer){.fd = fd, .heard_us = mono_now_us()};
}

static void drop_silent(struct responder *r)
{
    int64_t now_us = mono_now_us();
    for (int i = 0; i < CLIENTS; i++) {
        struct responder_peer *c = &r->client[i];
        int64_t most_us = c->known ? SILENT_US : HELLO_US;
        if (c->fd >= 0 && now_us - c->heard_us > most_us)
            drop(c);
    }
}

/* Returns only if waiting fails. */
static void serve(int listen_fd, const char *secret)
{
    static struct responder r;
    memset(&r, 0, sizeof(r));
    r.listen_fd = listen_fd;
    (void)snprintf(r.secret, sizeof(r.secret), "%s", secret);
    for (int i = 0; i < CLIENTS; i++)
        r.client[i].fd = -1;
    for (;;) {
        struct pollfd p[CLIENTS + 1];
        for (int i = 0; i < CLIENTS; i++)
            p[i] = (struct pollfd){.fd = r.client[i].fd, .events = POLLIN};
        p[CLIENTS] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
        int n = poll(p, CLIENTS + 1, 1000);
        if (n < 0 && errno != EINTR)
            return;
        for (int i = 0; n > 0 && i < CLIENTS; i++)
            if (p[i].revents != 0 && !read_some(&r, &r.client[i]))
                drop(&r.client[i]);
        if (n > 0 && (p[CLIENTS].revents & (POLLERR | POLLNVAL)) != 0)
            return;
        if (n > 0 && p[CLIENTS].revents != 0)
            let_in(&r);
        drop_silent(&r);
    }
}

pid_t preflight_responder_start(int listen_fd,
                                const char *secret,
                                struct ddp_err *err)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        ddp_err_sys(err, DDP_E_NOMEM, "cannot start the responder");
        return -1;
    }
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        serve(listen_fd, secret);
    _exit(0);
}
