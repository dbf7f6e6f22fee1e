/*
 * Happy path: connect, send the run's secret, hear the other's clock, send as
 * much as does not fit into a few packets, and hear the clock again.
 *
 * Failure modes, each of which is a result and no error:
 * - No connection (NO): refused (a firewall rejects, or nobody listens), or no
 *   answer in time (a firewall drops, or there is no host).
 * - A connection, but no clock (MUTE): another program, or another host with
 *   this address.
 * - A clock, but no second one (STUCK): small packets pass, large ones do not,
 *   which is what a wrong MTU looks like.
 *
 * The answering side is a process of its own with one more for each peer, so
 * that bytes of unknown peers are not read by the process that knows the
 * results. A peer that sends something else, or nothing, is closed when its
 * process ends: at once, or after ANSWER_S. While PEERS_MAX are there, others
 * wait in the listener's queue.
 */
#include "launcher/preflight/reach.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/net/addr.h"

#define CONNECT_US (2500 * MONO_MS) /* SYNs after 0 and 1 s */
#define ANSWER_US  (2500 * MONO_MS) /* for each of two answers */
#define ANSWER_S   10
#define PEERS_MAX  128
#define RETRY_US   10000

_Static_assert(CONNECT_US + 2 * ANSWER_US <= REACH_MOST_US,
               "what the header promises");

/* -- which nodes ----------------------------------------------------------- */

int reach_steps(int n)
{
    return n <= REACH_ALL_MAX ? n - 1 : 1 + REACH_FEW;
}

int reach_choose(int *step, int n)
{
    int have = reach_steps(n);
    ddp_assert(n > 0);
    for (int i = 0; i < have; i++) {
        int64_t spread = (int64_t)i * (n - 2) / REACH_FEW;
        step[i] = 1 + (n <= REACH_ALL_MAX ? i : (int)spread);
    }
    return have;
}

/* -- waiting --------------------------------------------------------------- */

static volatile sig_atomic_t told_to_end;
static sigset_t while_waiting; /* what is blocked in a wait */
static struct dial_stop stop = {.told = &told_to_end};

static void on_term(int signo)
{
    (void)signo;
    told_to_end = 1;
}

/* Blocked but within ppoll(2), so that it cannot come just before a wait. */
void reach_catch_term(void)
{
    struct sigaction sa = {.sa_handler = on_term};
    sigset_t term;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, &while_waiting);
    (void)sigaction(SIGTERM, &sa, NULL); /* valid arguments, all of them */
    stop.mask = &while_waiting;
}

const struct dial_stop *reach_stop(void)
{
    return &stop;
}

/* -- the peer's side ------------------------------------------------------- */

/* For the difference of two hosts' clocks only. */
static int64_t wall_us(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts); /* cannot fail */
    return (int64_t)ts.tv_sec * MONO_S + ts.tv_nsec / 1000;
}

/* -1: errno; ETIMEDOUT, ECANCELED, what send(2) says. */
static int send_all(int fd, const char *data, size_t len, int64_t until_us)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -1;
        if (n < 0 && dial_wait(fd, POLLOUT, until_us, &stop) < 0)
            return -1;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* The other's clock. -1: errno, which is 0 if the peer closed the connection.
 */
static int hear_clock(int fd, uint64_t *clock, int64_t until_us)
{
    for (size_t have = 0; have < sizeof(*clock);) {
        ssize_t n =
            recv(fd, (char *)clock + have, sizeof(*clock) - have, MSG_DONTWAIT);
        if (n == 0)
            errno = 0;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return -1;
        if (n < 0 && dial_wait(fd, POLLIN, until_us, &stop) < 0)
            return -1;
        have += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Sends data[0..len), hears a clock: 0; -1: errno. */
static int ask(int fd, const char *data, size_t len, int64_t *clock_us)
{
    uint64_t clock = 0;
    int64_t until_us = mono_now_us() + ANSWER_US, before_us = wall_us();
    if (send_all(fd, data, len, until_us) < 0 ||
        hear_clock(fd, &clock, until_us) < 0)
        return -1;
    *clock_us = (int64_t)be64toh(clock) - (before_us + wall_us()) / 2;
    return 0;
}

static void exchange(struct preflight_link *link, int fd, const char *secret)
{
    static const char zeros[REACH_LARGE];
    char text[REACH_SECRET_MAX] = "";
    int64_t clock_us;
    (void)snprintf(text, sizeof(text), "%s", secret);
    link->state = PREFLIGHT_OK;
    if (ask(fd, text, sizeof(text), &link->clock_us) < 0)
        link->state = PREFLIGHT_MUTE;
    else if (ask(fd, zeros, sizeof(zeros), &clock_us) < 0)
        link->state = errno == ETIMEDOUT ? PREFLIGHT_STUCK : PREFLIGHT_MUTE;
    link->code = link->state == PREFLIGHT_OK ? 0 : errno;
}

int reach_try(struct preflight_link *link,
              const char *addr,
              int port,
              const char *secret,
              struct ddp_err *err)
{
    struct addr_list list;
    ddp_assert(port > 0 && secret != NULL);
    if (addr_resolve(addr, port, &list, err) != 0)
        return -1;
    int fd = dial_any(list.at, list.n, mono_now_us() + CONNECT_US, &stop);
    link->state = PREFLIGHT_NO;
    link->code = errno;
    if (fd >= 0) {
        exchange(link, fd, secret);
        (void)close(fd); /* all was said */
    }
    if (link->state != PREFLIGHT_OK && link->code == ECANCELED)
        return ddp_err_set(err, DDP_E_ABORTED, "stopped by SIGTERM");
    return 0;
}

/* -- the answering side ---------------------------------------------------- */

static bool tell_clock(int fd)
{
    uint64_t clock = htobe64((uint64_t)wall_us());
    return send(fd, &clock, sizeof(clock), MSG_NOSIGNAL) ==
           (ssize_t)sizeof(clock);
}

/* Returns when the peer is not to be heard any more; alarm(2) ends the rest. */
static void answer(int fd, const char *secret)
{
    static char waste[REACH_LARGE];
    char want[REACH_SECRET_MAX] = "", got[REACH_SECRET_MAX];
    (void)snprintf(want, sizeof(want), "%s", secret);
    (void)alarm(ANSWER_S);
    if (recv(fd, got, sizeof(got), MSG_WAITALL) == (ssize_t)sizeof(got) &&
        memcmp(got, want, sizeof(want)) == 0 && tell_clock(fd) &&
        recv(fd, waste, sizeof(waste), MSG_WAITALL) == (ssize_t)sizeof(waste))
        (void)tell_clock(fd);
}

static void die_with_parent(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
}

/* Returns only if there is no listener any more. */
static void serve(int listen_fd, const char *secret)
{
    pid_t self = getpid();
    int fd, peers = 0;
    (void)signal(SIGCHLD, SIG_DFL);
    while ((fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0 ||
           (errno != EBADF && errno != EINVAL && errno != ENOTSOCK)) {
        while (peers > 0 &&
               waitpid(-1, NULL, peers < PEERS_MAX ? WNOHANG : 0) > 0)
            peers--;
        if (fd < 0) {
            (void)usleep(RETRY_US); /* a peer that is gone, or no memory */
            continue;
        }
        pid_t pid = fork();
        if (pid == 0) {
            die_with_parent(self);
            (void)close(listen_fd); /* a port with no probe is refused */
            answer(fd, secret);
            _exit(0);
        }
        peers += pid > 0;
        (void)close(fd); /* its process has it */
    }
}

pid_t reach_answer(int listen_fd, const char *secret, struct ddp_err *err)
{
    pid_t parent = getpid();
    int flags = fcntl(listen_fd, F_GETFL);
    if (flags < 0 || fcntl(listen_fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return ddp_err_sys(err, DDP_E_IO, "cannot prepare to answer");
    pid_t pid = fork();
    if (pid < 0)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot start the process that answers");
    if (pid > 0)
        return pid;
    die_with_parent(parent);
    serve(listen_fd, secret);
    _exit(0);
}
