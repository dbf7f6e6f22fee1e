#include "launcher/proc/aborts.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"

/* Of epoll_ctl(2), pipe2(2), write(2), after whose failures libuv aborts. */
static bool is_shortage(int why)
{
    return why == ENOMEM || why == ENOSPC || why == EMFILE || why == ENFILE ||
           why == EDQUOT;
}

/* Called by abort(3), on the thread that calls it, or since somebody has sent
 * the signal. After SA_RESETHAND it ends the process when we return. */
static void on_abort(int signo, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_pid == getpid() && is_shortage(errno)) {
        log_warn("the kernel refuses the event loop what it needs");
        _exit(ddp_code_exit(DDP_E_NOMEM));
    }
    (void)raise(signo);
}

void aborts_explain(void)
{
    struct sigaction sa = {.sa_sigaction = on_abort,
                           .sa_flags = (int)(SA_SIGINFO | SA_RESETHAND)};
    (void)sigemptyset(&sa.sa_mask);
    (void)sigaction(SIGABRT, &sa, NULL); /* valid arguments */
}
