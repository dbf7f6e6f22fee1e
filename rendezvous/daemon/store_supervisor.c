#include "rendezvous/daemon/store_supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/log.h"
#include "rendezvous/net/fd_pass.h"
#include "rendezvous/net/helper.h"
#include "rendezvous/store/process.h"

/* Before one that ended, or did not start, is started. */
#define AGAIN_MS 1000

static void run_store(const struct helper_fds *fds, const void *arg)
{
    (void)arg;
    (void)signal(SIGTERM, SIG_DFL); /* the parent's handlers are not ours */
    (void)signal(SIGINT, SIG_IGN);  /* a terminal's: the parent ends us */
    store_process_main(fds, NULL);
}

static void on_again(uv_timer_t *timer);

static void start(struct store_supervisor *c)
{
    struct helper_fds fds = {.listener = -1, .chan = c->take};
    struct ddp_err err;
    if (helper_start(&c->pid, &fds, run_store, NULL, &err) == 0)
        return;
    log_warnx("the c10d store does not start: %s; trying again", err.text);
    (void)uv_timer_start(&c->again, on_again, AGAIN_MS, 0);
}

static void on_again(uv_timer_t *timer)
{
    start(timer->data);
}

static void on_sigchld(uv_signal_t *handle, int signo)
{
    (void)signo;
    struct store_supervisor *c = handle->data;
    int status;
    if (c->pid <= 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return;
    c->pid = 0;
    log_warnx("the c10d store ended unexpectedly, and what it held is lost; "
              "an empty one takes its place");
    (void)uv_timer_start(&c->again, on_again, AGAIN_MS, 0);
}

int store_supervisor_open(struct store_supervisor *c,
                          uv_loop_t *loop,
                          int *give,
                          struct ddp_err *err)
{
    *c = (struct store_supervisor){.take = -1};
    if (fd_pass_pair(give, &c->take, err) != 0)
        return -1;
    (void)uv_signal_init(loop, &c->sigchld);
    (void)uv_timer_init(loop, &c->again); /* cannot fail */
    c->sigchld.data = c->again.data = c;
    if (uv_signal_start(&c->sigchld, on_sigchld, SIGCHLD) != 0)
        return ddp_err_set(err, DDP_E_NOMEM, "cannot watch over the store");
    start(c); /* it is watched from its first moment on */
    return 0;
}

void store_supervisor_close(struct store_supervisor *c)
{
    uv_close((uv_handle_t *)&c->sigchld, NULL);
    uv_close((uv_handle_t *)&c->again, NULL);
    helper_kill(&c->pid);
    (void)close(c->take); /* nobody takes any more */
}
