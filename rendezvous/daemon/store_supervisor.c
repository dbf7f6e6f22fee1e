/*
 * Happy path: the store's process is started at once and lives as long as the
 * daemon, which kills it at its end.
 *
 * What else happens:
 * - it cannot be started (no process, no memory): tried again each second;
 *   meanwhile connections that were handed over wait in the channel;
 * - it dies: its keys are lost and its clients' connections end. After a second
 *   an empty store takes its place on the same channel. Clients that connect
 *   meanwhile wait;
 * - the daemon is killed: the store's process dies with it (net/helper).
 */
#include "rendezvous/daemon/store_supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/net/fd_pass.h"
#include "rendezvous/net/helper.h"
#include "rendezvous/store/process.h"

#define SUPERVISOR_MAGIC 0x73757065u
#define AGAIN_MS         1000 /* after it ended, or did not start */

static struct store_supervisor *supervisor_of(void *data)
{
    struct store_supervisor *s = data;
    ddp_assert(s->magic == SUPERVISOR_MAGIC && s->take >= 0);
    return s;
}

static void run_store(const struct helper_fds *fds, const void *arg)
{
    (void)arg;
    (void)signal(SIGTERM, SIG_DFL); /* the parent handles it otherwise */
    (void)signal(SIGINT,
                 SIG_IGN); /* a terminal's: the parent ends this process */
    store_process_main(fds, NULL);
}

static void on_again(uv_timer_t *timer);

static void start(struct store_supervisor *s)
{
    struct helper_fds fds = {.listener = -1, .chan = s->take};
    struct ddp_err err;
    ddp_assert(s->pid == 0); /* one at a time: they share the channel */
    if (helper_start(&s->pid, &fds, run_store, NULL, &err) == 0)
        return;
    log_warnx("cannot start the c10d store: %s; trying again in 1 s", err.text);
    (void)uv_timer_start(&s->again, on_again, AGAIN_MS, 0);
}

static void on_again(uv_timer_t *timer)
{
    start(supervisor_of(timer->data));
}

static void on_sigchld(uv_signal_t *handle, int signo)
{
    (void)signo;
    struct store_supervisor *s = supervisor_of(handle->data);
    int status;
    if (s->pid <= 0 || waitpid(s->pid, &status, WNOHANG) != s->pid)
        return;
    s->pid = 0;
    log_warnx("the c10d store ended unexpectedly and its keys are lost; an "
              "empty one starts in 1 s");
    (void)uv_timer_start(&s->again, on_again, AGAIN_MS, 0);
}

int store_supervisor_open(struct store_supervisor *s,
                          uv_loop_t *loop,
                          int *give,
                          struct ddp_err *err)
{
    *s = (struct store_supervisor){.magic = SUPERVISOR_MAGIC, .take = -1};
    if (fd_pass_pair(give, &s->take, err) != 0)
        return -1;
    (void)uv_timer_init(loop, &s->again); /* cannot fail */
    s->again.data = s;
    int rc = uv_signal_init(loop, &s->sigchld);
    s->sigchld.data = s;
    if (rc != 0 || uv_signal_start(&s->sigchld, on_sigchld, SIGCHLD) != 0)
        return ddp_err_set(
            err, DDP_E_NOMEM,
            "cannot supervise the c10d store: no SIGCHLD handler");
    start(s); /* behind the handler, so that no end is missed */
    return 0;
}

void store_supervisor_close(struct store_supervisor *s)
{
    uv_close((uv_handle_t *)&s->sigchld, NULL);
    uv_close((uv_handle_t *)&s->again, NULL);
    helper_kill(&s->pid);
    (void)close(s->take); /* nothing is handed over any more */
}
