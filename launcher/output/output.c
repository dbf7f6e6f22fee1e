/*
 * Happy path: output_open makes the pipes of a worker and sends the relay its
 * ends with one message. A copy of each stays here until the worker is dead.
 *
 * Failure modes:
 * - The relay is killed, or ends for lack of descriptors: another one gets the
 *   copies (output_restart), at most RESTARTS times; then the copies are
 *   closed, so that workers get EPIPE instead of waiting for ever.
 * - The relay hangs (a disk that does not answer): it is waited for SEND_MS
 *   when a worker starts, TAIL_MS for last words, and not at all for events.
 *   Once it did not answer it is not asked again before the late answer is
 *   there (`silent`).
 * - No pipe or terminal can be made: a stream that only passes through is
 *   inherited; one that is to go to a file is an error.
 * - At the end a console takes nothing: the relay decides when to give up,
 *   earlier after a signal; a second signal to the launcher (output_hurry)
 *   ends it at once. A relay that hangs in a disk is waited for without end, or
 *   for DISK_MS after a signal.
 */
#include "launcher/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "launcher/output/relay.h"
#include "launcher/proc/pidfd.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/opts.h"
#include "rendezvous/net/helper.h"

#define PIPE_BYTES  (256 * 1024) /* of streams that may be large */
#define QUEUE_BYTES (1024 * 1024)
#define SEND_MS     2000 /* longest wait for a relay that hangs */
#define TAIL_MS     100
#define DISK_MS     10000
#define LOOK_MS     10
#define RESTARTS    10

/* What the relay was told about a worker; kept for another relay. */
struct handed {
    int fds[2]; /* our own copies, -1: none */
    struct relay_msg *msg;
    size_t size;
};

struct output {
    const struct conf *conf;
    pid_t pid;
    int ctl;
    int restarts;
    bool silent;           /* it has not answered the last question yet */
    bool terminal[2];      /* stdout, stderr is one: so is the workers' */
    struct handed *handed; /* by local rank */
    _Atomic int64_t *seen; /* the same, what the relay counts; or NULL */
};

/* Numbers that the relay writes and the agent reads; NULL: no memory. */
static _Atomic int64_t *share(size_t n)
{
    void *page = mmap(NULL, n * sizeof(_Atomic int64_t), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

int64_t output_bytes(const struct output *o, int local_rank)
{
    return o->seen != NULL ? atomic_load(&o->seen[local_rank]) : 0;
}

struct output *output_new(const struct conf *conf)
{
    ddp_assert(conf->nproc >= 1);
    size_t n = (size_t)conf->nproc;
    struct output *o = calloc(1, sizeof(*o));
    if (o != NULL)
        o->handed = calloc(n, sizeof(*o->handed));
    if (o == NULL || o->handed == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for %zu worker%s", n,
               n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++)
        o->handed[i].fds[0] = o->handed[i].fds[1] = -1;
    o->conf = conf;
    if (conf->hang.how != CONF_HANG_OFF)
        o->seen = share(n);
    o->ctl = -1;
    for (int i = 0; i < 2; i++)
        o->terminal[i] = isatty(STDOUT_FILENO + i) == 1;
    return o;
}

/* -- the relay ------------------------------------------------------------- */

static void run_relay(const struct helper_fds *fds, const void *arg)
{
    const struct output *o = arg;
    relay_main(fds->chan, fds->listener, o->conf, o->seen);
}

/* The descriptor of "/dev/fd/63", which a shell writes for >(command). The
 * relay has only those of our descriptors that it is given. -1: it is none. */
static int events_fd(const char *path)
{
    static const char dir[] = "/dev/fd/";
    int64_t fd = -1;
    if (strncmp(path, dir, sizeof(dir) - 1) != 0 ||
        !opts_read_int(path + sizeof(dir) - 1, 0, INT_MAX, &fd) ||
        fcntl((int)fd, F_GETFD) < 0)
        return -1;
    return (int)fd;
}

static int start_relay(struct output *o, struct ddp_err *err)
{
    int pair[2];
    int bytes = QUEUE_BYTES;
    if (o->pid > 0)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return ddp_err_sys(err, DDP_E_NOMEM,
                           "cannot start the process for the workers' output");
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    struct helper_fds fds = {.listener = events_fd(o->conf->output.events),
                             .chan = pair[1]};
    int rc = helper_start(&o->pid, &fds, run_relay, o, err);
    (void)close(pair[1]);
    if (rc != 0)
        (void)close(pair[0]);
    else
        o->ctl = pair[0];
    return rc;
}

void output_prepare(struct output *o)
{
    struct ddp_err err;
    const struct conf_output *c = &o->conf->output;
    bool wanted = false;
    for (int i = 0; i < o->conf->nproc && !wanted; i++)
        wanted = conf_output_plan(c, i, CONF_STDOUT).piped ||
                 conf_output_plan(c, i, CONF_STDERR).piped;
    if (wanted)
        (void)start_relay(o, &err); /* tried again with the first worker */
}

/* poll(2) that signals do not end: each death of a worker is a signal. */
static bool is_ready(struct pollfd *p, int wait_ms)
{
    int64_t until_us = mono_after(mono_now_us(), wait_ms * MONO_MS);
    int n;
    do
        n = poll(p, 1, (int)mono_ms_until(mono_now_us(), until_us));
    while (n < 0 && errno == EINTR);
    return n > 0;
}

static bool send_msg(struct output *o,
                     const struct relay_msg *w,
                     size_t size,
                     const int fds[2],
                     int wait_ms)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = {.room = {0}};
    union {
        const struct relay_msg *in;
        void *out;
    } data = {.in = w}; /* sendmsg does not write to it */
    struct iovec iov = {.iov_base = data.out, .iov_len = size};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    size_t n = 0;
    int sent[2];
    ddp_assert(size >= RELAY_MSG_SIZE(0) && size <= sizeof(*w));
    for (int i = 0; i < 2 && fds != NULL; i++)
        if (fds[i] >= 0)
            sent[n++] = fds[i];
    if (n > 0) {
        m.msg_control = &control;
        m.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *c = &control.align; /* as CMSG_FIRSTHDR says */
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), sent, n * sizeof(int));
    }
    struct pollfd p = {.fd = o->ctl, .events = POLLOUT};
    do {
        if (sendmsg(o->ctl, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return true;
    } while (errno == EAGAIN && wait_ms > 0 && is_ready(&p, wait_ms));
    return false;
}

/* -- a worker's streams ---------------------------------------------------- */

/* `which` of ours: 0 stdout, 1 stderr. Does nothing to a pipe. */
static void copy_size(int which, int terminal)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO + which, TIOCGWINSZ, &size) == 0)
        (void)ioctl(terminal, TIOCSWINSZ, &size);
}

void output_resize(const struct output *o)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; o->terminal[k] && i < o->conf->nproc; i++)
            if (o->handed[i].fds[k] >= 0)
                copy_size(k, o->handed[i].fds[k]);
}

/* A program that asks whether its stream is a terminal gets the answer that it
 * would get without ddprun. The terminal is raw: it changes no byte. */
static bool make_terminal(int which, int fds[2])
{
    char name[64];
    struct termios mode;
    fds[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fds[0] < 0)
        return false;
    fds[1] = -1;
    if (grantpt(fds[0]) == 0 && unlockpt(fds[0]) == 0 &&
        ptsname_r(fds[0], name, sizeof(name)) == 0)
        fds[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fds[1] < 0) {
        (void)close(fds[0]);
        return false;
    }
    if (tcgetattr(fds[1], &mode) == 0) {
        cfmakeraw(&mode);
        (void)tcsetattr(fds[1], TCSANOW, &mode);
    }
    copy_size(which, fds[1]);
    return true;
}

static bool make_pipe(int fds[2], bool large)
{
    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    if (large)
        (void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_BYTES); /* or as it is */
    return true;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* nothing of ours was written to it */
    *fd = -1;
}

void output_close(struct output_fds *ends)
{
    close_fd(&ends->out);
    close_fd(&ends->err);
}

void output_worker_ended(struct output *o, int local_rank)
{
    ddp_assert(local_rank >= 0 && local_rank < o->conf->nproc);
    struct handed *h = &o->handed[local_rank];
    close_fd(&h->fds[0]);
    close_fd(&h->fds[1]);
    free(h->msg);
    h->msg = NULL;
}

/* One stream: ours is in `own`, the worker's in `end`; -1 both: inherited. */
static int open_stream(const struct output *o,
                       int local_rank,
                       enum conf_stream which,
                       int *own,
                       int *end,
                       struct ddp_err *err)
{
    struct conf_plan p = conf_output_plan(&o->conf->output, local_rank, which);
    int fds[2] = {-1, -1};
    *own = *end = -1;
    if (p.null && (*end = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "cannot open /dev/null");
    if (!p.piped)
        return 0;
    int k = which == CONF_STDOUT ? 0 : 1;
    bool terminal =
        o->terminal[k] && p.console && !p.file && make_terminal(k, fds);
    if (!terminal && !make_pipe(fds, p.file)) {
        if (!p.file)
            return 0;
        return ddp_err_sys(
            err, DDP_E_NOMEM,
            "cannot make a pipe for the output of the worker with "
            "local rank %d",
            local_rank);
    }
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    *own = fds[0];
    *end = fds[1];
    return 0;
}

static struct relay_msg *
make_msg(const struct msg_world *world, int local_rank, const char *folder)
{
    size_t len = strlen(folder);
    struct relay_msg *w = calloc(1, RELAY_MSG_SIZE(len + 1));
    if (w == NULL)
        return NULL;
    w->kind = RELAY_OPEN;
    w->local_rank = local_rank;
    w->rank = world->base_rank + local_rank;
    w->round = world->round;
    memcpy(w->text, folder, len + 1);
    return w;
}

static int hand_over(struct output *o,
                     int local_rank,
                     struct relay_msg *msg,
                     struct ddp_err *err)
{
    struct handed *h = &o->handed[local_rank];
    h->msg = msg;
    if (msg == NULL)
        return ddp_err_set(err, DDP_E_NOMEM,
                           "no memory for the worker with local rank %d",
                           local_rank);
    h->size = RELAY_MSG_SIZE(strlen(msg->text) + 1);
    for (unsigned i = 0; i < 2; i++)
        if (h->fds[i] >= 0)
            msg->piped = (uint8_t)(msg->piped | 1u << i);
    /* One that has just ended is not reaped yet: the next one gets this, too.
     */
    if (send_msg(o, msg, h->size, h->fds, SEND_MS) || errno == EPIPE ||
        errno == ECONNRESET)
        return 0;
    return ddp_err_sys(
        err, DDP_E_NOMEM,
        "the process for the workers' output does not accept the "
        "worker with local rank %d",
        local_rank);
}

int output_open(struct output *o,
                const struct msg_world *world,
                int local_rank,
                const char *folder,
                struct output_fds *ends,
                struct ddp_err *err)
{
    struct handed *h = &o->handed[local_rank];
    output_worker_ended(o, local_rank);
    *ends = (struct output_fds){.out = -1, .err = -1};
    int rc =
        open_stream(o, local_rank, CONF_STDOUT, &h->fds[0], &ends->out, err);
    if (rc == 0)
        rc = open_stream(o, local_rank, CONF_STDERR, &h->fds[1], &ends->err,
                         err);
    if (rc == 0 && (h->fds[0] >= 0 || h->fds[1] >= 0)) {
        rc = start_relay(o, err);
        if (rc == 0)
            rc = hand_over(o, local_rank, make_msg(world, local_rank, folder),
                           err);
    }
    if (rc != 0) {
        output_close(ends);
        output_worker_ended(o, local_rank);
    }
    return rc;
}

/* -- asking ---------------------------------------------------------------- */

/* A relay that hangs is waited for once: it is asked again only after its late
 * answer has come. */
static bool hears(struct output *o)
{
    char late[LINES_TAIL_BYTES];
    if (o->silent)
        o->silent = recv(o->ctl, late, sizeof(late), MSG_DONTWAIT) < 0;
    return !o->silent;
}

void output_tail(struct output *o,
                 int local_rank,
                 char text[LINES_TAIL_BYTES + 1])
{
    ddp_assert(local_rank >= 0 && local_rank < o->conf->nproc);
    struct relay_msg w = {.kind = RELAY_TAIL, .local_rank = local_rank};
    struct pollfd p = {.fd = o->ctl, .events = POLLIN};
    text[0] = '\0';
    if (o->pid <= 0 || !hears(o))
        return;
    ssize_t n = 0;
    if (send_msg(o, &w, RELAY_MSG_SIZE(1), NULL, 0)) {
        (void)is_ready(&p, TAIL_MS);
        n = recv(o->ctl, text, LINES_TAIL_BYTES, MSG_DONTWAIT);
        o->silent = n < 0; /* its answer is yet to come */
    }
    if (n == 1 && text[0] == '\0') /* its way to say: nothing */
        n = 0;
    text[n > 0 ? n : 0] = '\0';
    lines_clean(text, n > 0 ? (size_t)n : 0);
}

void output_event(struct output *o, const char *line)
{
    struct relay_msg w = {.kind = RELAY_EVENT};
    struct ddp_err err;
    int n = snprintf(w.text, sizeof(w.text), "%s\n", line);
    if (n < (int)sizeof(w.text) && start_relay(o, &err) == 0)
        (void)send_msg(o, &w, RELAY_MSG_SIZE((size_t)n + 1), NULL, 0);
}

void output_interrupted(struct output *o)
{
    struct relay_msg w = {.kind = RELAY_INTERRUPTED};
    if (o->pid > 0)
        (void)send_msg(o, &w, RELAY_MSG_SIZE(0), NULL, 0); /* or all is shown */
}

/* -- its end --------------------------------------------------------------- */

pid_t output_pid(const struct output *o)
{
    return o->pid;
}

static const char *fate(int status)
{
    if (WIFSIGNALED(status))
        return "was killed";
    return WEXITSTATUS(status) == ddp_code_exit(DDP_E_NOMEM)
               ? "ended for lack of descriptors or memory"
               : "ended unexpectedly";
}

static bool start_again(struct output *o, const char *how)
{
    struct ddp_err err;
    if (++o->restarts > RESTARTS) /* messages: ok, RESTARTS is 10 */
        log_warnx("the process for the workers' output %s, after %d others "
                  "had ended; their output is lost from here on (EPIPE)",
                  how, o->restarts - 1);
    else if (start_relay(o, &err) != 0)
        log_warnx("the process for the workers' output %s and cannot be "
                  "started again: %s; their output is lost from here on "
                  "(EPIPE)",
                  how, err.text);
    else
        log_warnx("the process for the workers' output %s; another one was "
                  "started",
                  how);
    return o->pid > 0;
}

void output_restart(struct output *o, int status)
{
    ddp_assert(o->pid > 0);
    o->pid = 0;
    o->silent = false;
    close_fd(&o->ctl);
    bool started = start_again(o, fate(status));
    for (int i = 0; i < o->conf->nproc; i++) {
        const struct handed *h = &o->handed[i];
        if (!started)
            output_worker_ended(o, i); /* EPIPE, or it would wait for ever */
        else if (h->msg != NULL)
            (void)send_msg(o, h->msg, h->size, h->fds, SEND_MS);
    }
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid == pid;
}

/* The relay's end, of p[0], or of the time for it. If the kernel has no memory
 * to wait with, the relay is looked at now and then. */
static bool is_over(const struct output *o,
                    struct pollfd p[2],
                    const struct output_hurry *h,
                    int64_t until_us)
{
    int64_t now_us = mono_now_us();
    int ms = until_us == MONO_NEVER ? -1 : (int)mono_ms_until(now_us, until_us);
    int n = poll(p, 2, ms);
    if (n >= 0)
        return n == 0 || p[0].revents != 0 || h->asks(h->fd);
    if (errno == EINTR)
        return false;
    (void)usleep(LOOK_MS * 1000);
    return has_ended(o->pid) || now_us >= until_us ||
           (h->fd >= 0 && h->asks(h->fd));
}

void output_finish(struct output *o, bool line, const struct output_hurry *h)
{
    struct relay_msg w = {.kind = RELAY_FINISH, .line = line, .hurry = h->now};
    int64_t until_us = h->now ? mono_now_us() + DISK_MS * MONO_MS : MONO_NEVER;
    if (o->pid <= 0)
        return;
    int pidfd = pidfd_of(o->pid);
    struct pollfd p[2] = {{.fd = pidfd, .events = POLLIN},
                          {.fd = h->fd, .events = POLLIN}};
    if (pidfd <
        0) /* our end of the socket tells: only the relay has the other */
        p[0] = (struct pollfd){.fd = o->ctl}; /* POLLHUP */
    bool told = send_msg(o, &w, RELAY_MSG_SIZE(1), NULL, SEND_MS);
    while (told && !is_over(o, p, h, until_us))
        ;
    /* One that hangs in a disk's driver cannot be killed; it is left to the
     * guard, which says so. */
    (void)kill(o->pid, SIGKILL);
    if (is_ready(p, SEND_MS))
        helper_kill(&o->pid);
    close_fd(&o->ctl);
    close_fd(&pidfd);
}
