/*
 * Happy path: the timer forks a helper, which executes the command and keeps
 * the end of its output in a memory file (said_run). Its end comes by SIGCHLD:
 * with exit code 0 the node stays, with 1 on_drain_due is called. The timer
 * then waits for the next turn. The first one is at random, so that the nodes
 * of a job do not ask their scheduler at the same moment.
 *
 * Failure modes: the command ends in another way, does not end within
 * 30 s, or cannot be started. The node stays, since an operator's
 * word would be missing for all nodes at once. It is said, once until a check
 * works again. The helper's process group is killed in each case.
 */
#include "launcher/health/drain_check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/health/said.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/net/helper.h"

#define DRAIN_MAGIC 0x64726169u
#define DUE         1 /* the command's exit code */

/* What people were told last; the same again is not said. */
enum drain_told {
    TOLD_NOTHING,
    TOLD_DUE,
    TOLD_TROUBLE,
};

struct drain_check {
    unsigned magic;
    const struct conf *conf;
    const struct drain_check_handler *handler;
    void *ctx;
    uv_timer_t timer; /* a check runs: its limit; else the next one */
    int fd;           /* its output; -1: no check runs */
    pid_t helper;     /* 0: none */
    enum drain_told told;
};

static void on_timer(uv_timer_t *timer);

static void wait_for_next(struct drain_check *d, int64_t us)
{
    (void)uv_timer_start(&d->timer, on_timer, (uint64_t)(us / MONO_MS), 0);
}

struct drain_check *drain_check_new(uv_loop_t *loop,
                                    const struct conf *conf,
                                    const struct drain_check_handler *handler,
                                    void *ctx)
{
    if (conf->drain_check[0] == '\0')
        return NULL;
    struct drain_check *d = calloc(1, sizeof(*d));
    if (d == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the drain check");
    d->magic = DRAIN_MAGIC;
    d->conf = conf;
    d->handler = handler;
    d->ctx = ctx;
    d->fd = -1;
    (void)uv_timer_init(loop, &d->timer); /* cannot fail */
    d->timer.data = d;
    wait_for_next(
        d, (int64_t)(rng_seed() % (uint64_t)(conf->drain_interval_us + 1)));
    return d;
}

__attribute__((noreturn)) static void check(const void *arg)
{
    const struct conf *conf = arg;
    said_shell(conf->drain_check);
}

static void check_main(const struct helper_fds *fds, const void *arg)
{
    said_run(fds->chan, check, arg);
}

static int start_helper(struct drain_check *d, struct ddp_err *err)
{
    d->fd = memfd_create("ddprun-drain", MFD_CLOEXEC);
    if (d->fd < 0)
        return ddp_err_sys(err, DDP_E_NOMEM, "memfd_create");
    struct helper_fds fds = {.listener = -1, .chan = d->fd};
    return helper_start(&d->helper, &fds, check_main, d->conf, err);
}

/* -- the end of a check ---------------------------------------------------- */

static void drop(struct drain_check *d)
{
    if (d->helper > 0)
        (void)kill(-d->helper, SIGKILL);
    helper_kill(&d->helper);
    if (d->fd >= 0)
        (void)close(d->fd); /* a memory file, read already */
    d->fd = -1;
    wait_for_next(d, d->conf->drain_interval_us);
}

static void tell_trouble(struct drain_check *d, const char *how)
{
    if (d->told != TOLD_TROUBLE)
        log_warnx("the drain check %s, so this node stays; it is asked again "
                  "every %.12g s",
                  how, (double)d->conf->drain_interval_us / (double)MONO_S);
    d->told = TOLD_TROUBLE;
    drop(d);
}

static void tell_due(struct drain_check *d, const char *said)
{
    if (d->told != TOLD_DUE)
        log_info("this node is to be drained%s%s: it leaves at a step as soon "
                 "as the run can go on without it",
                 said[0] != '\0' ? ": " : "", said);
    d->told = TOLD_DUE;
    drop(d);
    d->handler->on_drain_due(d->ctx);
}

static void on_timer(uv_timer_t *timer)
{
    struct drain_check *d = timer->data;
    struct ddp_err err;
    char how[sizeof(err.text) + 64];
    ddp_assert(d->magic == DRAIN_MAGIC);
    if (d->helper > 0) {
        (void)snprintf(how, sizeof(how), /* fits */
                       "took longer than %.12g s",
                       (double)d->conf->drain_timeout_us / (double)MONO_S);
        tell_trouble(d, how);
        return;
    }
    if (start_helper(d, &err) == 0) {
        wait_for_next(d, d->conf->drain_timeout_us);
        return;
    }
    (void)snprintf(how, sizeof(how), "cannot be started: %s", err.text);
    tell_trouble(d, how);
}

/* "ended with exit code 3: sinfo: ..." */
static void describe(int status, const char *said, char *how, size_t cap)
{
    const char *colon = said[0] != '\0' ? ": " : "";
    if (WIFSIGNALED(status))
        (void)snprintf(how, cap, "was killed by %s%s%s",
                       signals_name(WTERMSIG(status)), colon, said);
    else
        (void)snprintf(how, cap, "ended with exit code %d%s%s",
                       WEXITSTATUS(status), colon, said);
}

void drain_check_helper_ended(struct drain_check *d)
{
    char said[SAID_MAX + 1], how[SAID_MAX + 64];
    ddp_assert(d->helper > 0 && d->fd >= 0);
    /* Processes that it left behind; once it is reaped, its number may be
     * another's. */
    (void)kill(-d->helper, SIGKILL);
    int status = helper_reap(&d->helper);
    said_read(d->fd, said);
    if (WIFEXITED(status) && WEXITSTATUS(status) == DUE) {
        tell_due(d, said);
    } else if (status == 0) {
        d->told = TOLD_NOTHING;
        drop(d);
    } else {
        describe(status, said, how, sizeof(how)); /* fits */
        tell_trouble(d, how);
    }
}

void drain_check_stop(struct drain_check *d)
{
    if (d == NULL)
        return;
    drop(d);
    (void)uv_timer_stop(&d->timer);
}

pid_t drain_check_helper(const struct drain_check *d)
{
    return d != NULL ? d->helper : 0;
}
