/*
 * Happy path: fork; the child closes every descriptor that it was not given,
 * forgets the token, and runs.
 *
 * Failure modes: the parent dies before the child has asked for its
 * parent-death signal (getppid has changed then); there are too few
 * descriptors, and the child says so and ends; it must not be signalled (a
 * sandbox), and helper_kill does not wait for it: it dies with its parent.
 */
#include "rendezvous/net/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/open_files.h"
#include "rendezvous/net/tls.h"

#define KEPT_FD 3 /* the first descriptor that a helper is given */
#define KEPT    3

#define WAIT_STEP_US (10 * 1000)

/* A copy high above what is kept; fd -1: there is none. *why: errno. */
static int copy_high(int fd, int *why)
{
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD, KEPT_FD + KEPT);
    *why = fd >= 0 && copy < 0 ? errno : *why;
    return copy;
}

static int put_at(int copy, int at, int *why)
{
    int fd = copy < 0 ? -1 : dup2(copy, at);
    *why = copy >= 0 && fd < 0 ? errno : *why;
    if (copy < 0)
        (void)close(at); /* what the parent has there */
    return fd;
}

/* Closes all but 0 to 2 and the given ones, which become 3 to 5. Returns 0, or
 * errno, and then the channel is still open: too few descriptors. */
static int keep_only(const struct helper_fds *fds, struct helper_fds *kept)
{
    int why = 0;
    /* High copies first: one may be where the other is to go. */
    int listener = copy_high(fds->listener, &why);
    int chan = copy_high(fds->chan, &why);
    int also = copy_high(fds->also > 0 ? fds->also : -1, &why);
    if (why != 0)
        return why;
    kept->listener = put_at(listener, KEPT_FD, &why);
    kept->chan = put_at(chan, KEPT_FD + 1, &why);
    int also_fd = put_at(also, KEPT_FD + 2, &why);
    kept->also = also_fd > 0 ? also_fd : 0;
    if (why == 0)
        open_files_close(KEPT_FD + KEPT, ~0u);
    return why;
}

__attribute__((noreturn)) static void become(const struct helper_fds *fds,
                                             pid_t parent,
                                             helper_main run,
                                             const void *arg)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGABRT, SIG_DFL);
    /* The agent's loop, its pidfds and above all its connection must not stay
     * open here: the server takes the last close for the end of the node. */
    struct helper_fds kept = {.token = fds->token};
    errno = keep_only(fds, &kept);
    if (errno != 0) { /* said before the parent sees its end of the channel */
        log_warn("a helper process cannot keep its descriptors (ulimit -n)");
        _exit(ddp_code_exit(DDP_E_NOMEM));
    }
    if (!fds->token)
        tls_forget();
    run(&kept, arg);
    _exit(ddp_code_exit(DDP_E_BUG));
}

int helper_start(pid_t *pid,
                 const struct helper_fds *fds,
                 helper_main run,
                 const void *arg,
                 struct ddp_err *err)
{
    pid_t parent = getpid();
    *pid = fork();
    if (*pid == 0)
        become(fds, parent, run, arg);
    if (*pid > 0)
        return 0;
    *pid = 0;
    return ddp_err_sys(
        err, DDP_E_NOMEM, "fork%s",
        errno == EAGAIN
            ? " (no more processes are allowed: raise the limit, ulimit -u "
              "or a container's pids.max)"
            : "");
}

void helper_take_signals(void)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_DFL); /* those that an agent ignores */
    (void)signal(SIGXFSZ, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Wait's status; that of exit code 255 if it cannot be had. */
static int reap(pid_t *pid, int how)
{
    int status = 0;
    pid_t ended;
    do
        ended = waitpid(*pid, &status, how);
    while (ended < 0 && errno == EINTR);
    int rc = ended == *pid ? status : 0xff00;
    *pid = 0;
    return rc;
}

int helper_reap(pid_t *pid)
{
    ddp_assert(*pid > 0);
    return reap(pid, 0);
}

void helper_kill(pid_t *pid)
{
    if (*pid <= 0)
        return;
    (void)reap(pid, kill(*pid, SIGKILL) == 0 ? 0 : WNOHANG);
}

void helper_abandon(pid_t *pid)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, SIGKILL); /* or it dies with its parent */
    (void)reap(pid, WNOHANG);
}

void helper_wait(pid_t *pid, int64_t until_us)
{
    pid_t ended = 0;
    while (*pid > 0 && mono_now_us() < until_us &&
           ((ended = waitpid(*pid, NULL, WNOHANG)) == 0 ||
            (ended < 0 && errno == EINTR)))
        (void)usleep(WAIT_STEP_US);
    if (ended == *pid)
        *pid = 0;
    helper_abandon(pid);
}
