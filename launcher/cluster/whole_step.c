#include "launcher/cluster/whole_step.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "launcher/proc/procfs.h"
#include "rendezvous/base/mono.h"

#define DEPTH_MAX 64 /* processes between the janitor and the scheduler */

/* The agent's copy, for which it waits; false: none came. */
static bool take_own(int signo, siginfo_t *info)
{
    sigset_t set;
    struct timespec wait = {.tv_nsec = WHOLE_STEP_MS * 1000L * 1000L};
    int64_t until_us = mono_now_us() + WHOLE_STEP_MS * MONO_MS;
    int rc;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signo);
    while ((rc = sigtimedwait(&set, info, &wait)) < 0 && errno == EINTR &&
           mono_now_us() < until_us)
        ;
    return rc == signo;
}

static bool is_ancestor(pid_t pid)
{
    struct procfs_process p;
    pid_t at = getppid(); /* the janitor */
    for (int i = 0; i < DEPTH_MAX && at > 1; i++) {
        if (!procfs_read(at, &p))
            return false;
        at = p.parent;
        if (at == pid)
            return true;
    }
    return false;
}

static bool is_scheduler(pid_t sender)
{
    return sender == 0 || is_ancestor(sender);
}

bool whole_step_got(struct whole_step *w, int signo, pid_t sender)
{
    siginfo_t info;
    bool taken = w->signo == signo && w->sender == sender;
    w->signo = 0;
    if (taken)
        return true;
    return take_own(signo, &info) && info.si_pid == sender &&
           is_scheduler(sender);
}

bool whole_step_comes(struct whole_step *w, int signo)
{
    siginfo_t info;
    if (w->signo == signo)
        return true;
    if (!take_own(signo, &info) || !is_scheduler(info.si_pid))
        return false;
    *w = (struct whole_step){.signo = signo, .sender = info.si_pid};
    return true;
}
