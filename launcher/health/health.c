#include "launcher/health/health.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/health/gpu_health.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/net/helper.h"

#define SAID_MAX 1024 /* of what the check prints, the end is kept */

struct health {
    const struct conf *conf;
    const struct health_handler *handler;
    void *ctx;
    uv_timer_t timer;
    int fd;           /* what it says, -1: nothing looks */
    pid_t helper;     /* 0: none */
    int64_t start_us; /* of the kernel's log */
};

static int64_t kernel_now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
    return (int64_t)t.tv_sec * MONO_S + t.tv_nsec / 1000;
}

struct health *health_new(uv_loop_t *loop,
                          const struct conf *conf,
                          const struct health_handler *handler,
                          void *ctx)
{
    struct health *h = calloc(1, sizeof(*h));
    if (h == NULL)
        fatalx(ddp_code_exit(DDP_E_NOMEM), "no memory");
    h->conf = conf;
    h->handler = handler;
    h->ctx = ctx;
    h->fd = -1;
    h->start_us = kernel_now_us();
    (void)uv_timer_init(loop, &h->timer); /* cannot fail */
    h->timer.data = h;
    return h;
}

/* -- in the process that looks --------------------------------------------- */

struct look {
    const struct conf *conf;
    int64_t since_us;
    int n;
    pid_t pids[HEALTH_PIDS_MAX];
};

__attribute__((noreturn)) static void look_main(const struct helper_fds *fds,
                                                const void *arg)
{
    int fd = fds->chan;
    const struct look *look = arg;
    char why[300];
    (void)setpgid(0, 0); /* what it starts is killed with it */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    helper_take_signals();
    if (look->conf->gpu_health_check &&
        !gpu_health(getenv("CUDA_VISIBLE_DEVICES"), true, look->since_us,
                    look->pids, look->n, why, sizeof(why))) {
        (void)dprintf(fd, "%s\n", why);
        _exit(1);
    }
    if (look->conf->health_check[0] == '\0')
        _exit(0);
    (void)execl("/bin/sh", "sh", "-c", look->conf->health_check, (char *)NULL);
    (void)dprintf(fd, "cannot execute /bin/sh: %s\n", strerror(errno));
    _exit(127);
}

/* -- the end of it --------------------------------------------------------- */

/* The last line that is not empty of what it said; "" if there is none. */
static void read_said(int fd, char text[SAID_MAX + 1])
{
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > SAID_MAX ? size - SAID_MAX : 0;
    ssize_t n = pread(fd, text, SAID_MAX, from);
    text[n > 0 ? n : 0] = '\0';
    for (size_t len = strlen(text); len > 0 && text[len - 1] <= ' '; len--)
        text[len - 1] = '\0';
    const char *last = strrchr(text, '\n');
    if (last != NULL)
        memmove(text, last + 1, strlen(last));
}

static void drop(struct health *h)
{
    if (h->helper > 0)
        (void)kill(-h->helper, SIGKILL);
    helper_kill(&h->helper);
    (void)uv_timer_stop(&h->timer);
    if (h->fd >= 0)
        (void)close(h->fd); /* memory, read already */
    h->fd = -1;
}

/* `how` it ended, in words; NULL: with 0. What it printed says more. */
static void tell(struct health *h, const char *how)
{
    char said[SAID_MAX + 1] = "", why[SAID_MAX + 400];
    if (h->fd >= 0)
        read_said(h->fd, said);
    drop(h);
    bool both = said[0] != '\0' && how != NULL;
    (void)snprintf(why, sizeof(why), "%s%s%s%s", said, both ? " (" : "",
                   how != NULL ? how : "", both ? ")" : "");
    h->handler->on_checked(h->ctx, how == NULL, why);
}

static void on_timer(uv_timer_t *timer)
{
    struct health *h = timer->data;
    char how[96];
    (void)snprintf(how, sizeof(how), /* fits */
                   h->helper > 0 ? "the health check did not end in %.12g s "
                                   "(--health_timeout)"
                                 : "the health check did not start",
                   (double)h->conf->health_timeout_us / (double)MONO_S);
    tell(h, how);
}

void health_stop(struct health *h)
{
    drop(h);
}

pid_t health_helper(const struct health *h)
{
    return h->helper;
}

void health_helper_ended(struct health *h)
{
    char how[64];
    int status = 0;
    if (waitpid(h->helper, &status, 0) != h->helper)
        status = 0xff00;
    (void)kill(-h->helper, SIGKILL); /* what it left behind */
    h->helper = 0;
    if (WIFSIGNALED(status))
        (void)snprintf(how, sizeof(how), "the health check got signal %d",
                       WTERMSIG(status));
    else
        (void)snprintf(how, sizeof(how), "the health check ended with %d",
                       WEXITSTATUS(status));
    tell(h, status == 0 ? NULL : how);
}

/* -- the start of it ------------------------------------------------------- */

void health_start(struct health *h, const pid_t *pids, int n)
{
    static struct look look; /* large; the process gets a copy */
    struct ddp_err err;
    look.conf = h->conf;
    look.since_us = h->start_us;
    look.n = n < HEALTH_PIDS_MAX ? n : HEALTH_PIDS_MAX;
    memcpy(look.pids, pids, (size_t)look.n * sizeof(*pids));
    h->fd = memfd_create("ddprun-health", MFD_CLOEXEC);
    struct helper_fds fds = {.listener = -1, .chan = h->fd};
    uint64_t ms = (uint64_t)(h->conf->health_timeout_us / MONO_MS);
    if (h->fd < 0 ||
        helper_start(&h->helper, &fds, look_main, &look, &err) != 0)
        ms = 0; /* told from the loop */
    (void)uv_timer_start(&h->timer, on_timer, ms, 0);
}
