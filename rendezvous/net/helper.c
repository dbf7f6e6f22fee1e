/*
 * Happy path: fork; the child closes every descriptor that it was not given,
 * forgets the token, and runs.
 *
 * Failure modes: the parent dies before the child has asked for its
 * parent-death signal (getppid has changed then); there are too few
 * descriptors, and the child ends with a status that says so.
 */
#include "rendezvous/net/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/base/open_files.h"
#include "rendezvous/net/tls.h"

#define KEPT_FD 3 /* the first descriptor that a helper is given */
#define KEPT    2

/* Closes all but 0 to 2 and the given ones, which become 3 and 4. False: there
 * are too few descriptors. */
static bool keep_only(const struct helper_fds *fds, struct helper_fds *kept)
{
    /* High copies first: one may be where the other is to go. */
    int listener = fcntl(fds->listener, F_DUPFD, KEPT_FD + KEPT);
    int chan = fcntl(fds->chan, F_DUPFD, KEPT_FD + KEPT);
    *kept = (struct helper_fds){
        .listener = listener < 0 ? -1 : dup2(listener, KEPT_FD),
        .chan = chan < 0 ? -1 : dup2(chan, KEPT_FD + 1),
    };
    if (kept->listener < 0)
        (void)close(KEPT_FD);
    if (kept->chan < 0)
        (void)close(KEPT_FD + 1);
    open_files_close(KEPT_FD + KEPT, ~0u);
    return (fds->listener < 0 || kept->listener >= 0) &&
           (fds->chan < 0 || kept->chan >= 0);
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
    struct helper_fds kept;
    if (!keep_only(fds, &kept))
        fatalx(ddp_code_exit(DDP_E_NOMEM), /* its parent reaps it */
               "cannot pass descriptors to a process of this launcher (raise "
               "the limit: ulimit -n)");
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
    return ddp_err_sys(err, DDP_E_NOMEM, "fork%s",
                       errno == EAGAIN
                           ? " (too few processes: raise the limit, ulimit -u "
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

void helper_kill(pid_t *pid)
{
    if (*pid <= 0)
        return;
    /* One that may not be signalled would be waited for in vain. */
    if (kill(*pid, SIGKILL) == 0 || errno == ESRCH)
        while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
            ;
    *pid = 0;
}
