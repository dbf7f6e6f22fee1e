/*
 * The health check runs in a process of its own, the helper, since a sick node
 * may block it for ever: NVML hangs in the driver when a GPU is lost, and the
 * user's command can do anything.
 *
 * health_start() forks the helper, with a memory file (memfd) for what the
 * check prints, and starts a timer. A child of the helper (said_run) checks the
 * GPUs, then executes the command, and exits with 0 if the node is fit. The
 * loop sees its end by SIGCHLD and calls health_helper_ended(), which reads the
 * last line of the file as the reason and calls on_checked.
 *
 * If the helper cannot be started, or runs too long, the timer calls on_checked
 * with the node unfit. The helper's process group is killed in each case, so
 * that nothing that the command started is left.
 */
#include "launcher/health/health.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/health/gpu_health.h"
#include "launcher/health/said.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/signals_name.h"
#include "rendezvous/net/helper.h"

#define HEALTH_MAGIC 0x6865616cu

struct health {
    unsigned magic;
    const struct conf *conf;
    const struct health_handler *handler;
    void *ctx;
    uv_timer_t timer;
    int fd;                 /* its output; -1: no check runs */
    pid_t helper;           /* 0: none */
    int64_t start_us;       /* of the kernel's log, by mono_awake_us */
    struct ddp_err problem; /* helper 0: why none could be started */
};

struct health *health_new(uv_loop_t *loop,
                          const struct conf *conf,
                          const struct health_handler *handler,
                          void *ctx)
{
    struct health *h = calloc(1, sizeof(*h));
    if (h == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory for the health check");
    h->magic = HEALTH_MAGIC;
    h->conf = conf;
    h->handler = handler;
    h->ctx = ctx;
    h->fd = -1;
    h->start_us = mono_awake_us();
    (void)uv_timer_init(loop, &h->timer); /* cannot fail */
    h->timer.data = h;
    return h;
}

/* -- in the helper --------------------------------------------------------- */

struct look {
    const struct conf *conf;
    int64_t since_us;
    int n;
    pid_t pids[HEALTH_PIDS_MAX];
};

__attribute__((noreturn)) static void check_node(const void *arg)
{
    const struct look *look = arg;
    char why[300];
    const char *visible = look->conf->gpus[0] != '\0'
                              ? look->conf->gpus
                              : getenv("CUDA_VISIBLE_DEVICES");
    if (look->conf->gpu_health_check &&
        !gpu_health(visible, true, look->since_us, look->pids, look->n, why,
                    sizeof(why))) {
        (void)dprintf(STDERR_FILENO, "%s\n", why);
        _exit(1);
    }
    if (look->conf->health_check[0] == '\0')
        _exit(0);
    said_shell(look->conf->health_check);
}

static void look_main(const struct helper_fds *fds, const void *arg)
{
    said_run(fds->chan, check_node, arg);
}

/* -- the end of a check ---------------------------------------------------- */

void health_stop(struct health *h)
{
    if (h->helper > 0)
        (void)kill(-h->helper, SIGKILL);
    helper_kill(&h->helper);
    (void)uv_timer_stop(&h->timer);
    if (h->fd >= 0)
        (void)close(h->fd); /* a memory file, read already */
    h->fd = -1;
}

/* Reports the end of a check. `how` it ended, in words; NULL: it found nothing
 * wrong. The reason is what it printed, and behind that `how`. */
static void tell(struct health *h, const char *how)
{
    char said[SAID_MAX + 1] = "", why[SAID_MAX + 400];
    if (h->fd >= 0)
        said_read(h->fd, said);
    health_stop(h);
    ddp_assert(h->helper == 0 && h->fd < 0);
    bool both = said[0] != '\0' && how != NULL;
    (void)snprintf(why, sizeof(why), "%s%s%s%s", said, both ? " (" : "",
                   how != NULL ? how : "", both ? ")" : "");
    h->handler->on_checked(h->ctx, how == NULL, why);
}

static void on_timer(uv_timer_t *timer)
{
    struct health *h = timer->data;
    char how[sizeof(h->problem.text) + 64];
    ddp_assert(h->magic == HEALTH_MAGIC);
    if (h->helper > 0)
        (void)snprintf(
            how, sizeof(how), /* fits */
            "the health check took longer than %.12g s (--health_check)",
            (double)h->conf->health_timeout_us / (double)MONO_S);
    else
        (void)snprintf(how, sizeof(how), "cannot start the health check: %s",
                       h->problem.text); /* fits */
    tell(h, how);
}

pid_t health_helper(const struct health *h)
{
    return h->helper;
}

void health_helper_ended(struct health *h)
{
    char how[64];
    ddp_assert(h->helper > 0 && h->fd >= 0);
    /* Processes that it left behind; once it is reaped, its number may be
     * another's. */
    (void)kill(-h->helper, SIGKILL);
    int status = helper_reap(&h->helper);
    if (WIFSIGNALED(status))
        (void)snprintf(how, sizeof(how), "the health check was killed by %s",
                       signals_name(WTERMSIG(status)));
    else
        (void)snprintf(how, sizeof(how),
                       "the health check ended with exit code %d",
                       WEXITSTATUS(status));
    tell(h, status == 0 ? NULL : how);
}

/* -- the start of a check -------------------------------------------------- */

static int start_helper(struct health *h, const struct look *look)
{
    h->fd = memfd_create("ddprun-health", MFD_CLOEXEC);
    if (h->fd < 0)
        return ddp_err_sys(&h->problem, DDP_E_NOMEM, "memfd_create");
    struct helper_fds fds = {.listener = -1, .chan = h->fd};
    return helper_start(&h->helper, &fds, look_main, look, &h->problem);
}

void health_start(struct health *h, const pid_t *pids, int n)
{
    static struct look look; /* large; the helper gets a copy */
    look.conf = h->conf;
    look.since_us = h->start_us;
    ddp_assert(n >= 0);
    look.n = n < HEALTH_PIDS_MAX ? n : HEALTH_PIDS_MAX;
    memcpy(look.pids, pids, (size_t)look.n * sizeof(*pids));
    uint64_t ms = (uint64_t)(h->conf->health_timeout_us / MONO_MS);
    if (start_helper(h, &look) != 0)
        ms = 0; /* on_timer reports it, from the loop */
    (void)uv_timer_start(&h->timer, on_timer, ms, 0);
}
