#include "launcher/helper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEPT_FD 3

__attribute__((noreturn)) static void
become(int listen_fd, pid_t agent, helper_main run, const void *arg)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent)
        _exit(128 + SIGKILL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0);
    (void)signal(SIGCHLD, SIG_DFL);
    /* The agent's loop, its connection and its pidfds are not ours to hold:
     * the connection above all, whose last holder's end is the farewell. */
    if (listen_fd != KEPT_FD)
        (void)dup2(listen_fd, KEPT_FD);
    if (syscall(SYS_close_range, KEPT_FD + 1, ~0u, 0) != 0)
        for (int fd = KEPT_FD + 1; fd < 4096; fd++) /* before Linux 5.9 */
            (void)close(fd);
    run(KEPT_FD, arg);
    _exit(ddp_code_exit(DDP_E_BUG));
}

int helper_start(pid_t *pid,
                 int listen_fd,
                 helper_main run,
                 const void *arg,
                 struct ddp_err *err)
{
    pid_t agent = getpid();
    *pid = fork();
    if (*pid == 0)
        become(listen_fd, agent, run, arg);
    if (*pid > 0)
        return 0;
    *pid = 0;
    return ddp_err_sys(err, DDP_E_NOMEM, "cannot start a process of ours");
}

void helper_kill(pid_t *pid)
{
    if (*pid <= 0)
        return;
    (void)kill(*pid, SIGKILL);
    (void)waitpid(*pid, NULL, 0);
    *pid = 0;
}
