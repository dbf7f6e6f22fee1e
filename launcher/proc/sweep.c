/*
 * Whoever dies below us is reported by SIGCHLD sooner or later: the agent is a
 * child subreaper, so the topmost of what is left is always its own child. So
 * nothing is polled while the grace runs.
 */
#include "launcher/proc/sweep.h"

#include <signal.h>

#include "launcher/proc/tree.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define HARD_US     (2 * MONO_S)
#define GRACE_MS    1000
#define SWEEP_MAGIC 0x53574550u

static struct sweep *sweep_of(void *data)
{
    struct sweep *s = data;
    ddp_assert(s != NULL && s->magic == SWEEP_MAGIC);
    return s;
}

void sweep_init(struct sweep *s,
                uv_loop_t *loop,
                const struct sweep_handler *handler,
                void *ctx)
{
    *s = (struct sweep){.magic = SWEEP_MAGIC, .handler = handler, .ctx = ctx};
    (void)uv_timer_init(loop, &s->timer); /* cannot fail */
    s->timer.data = s;
}

static int signal_all(const struct sweep *s, int signo)
{
    pid_t keep[SWEEP_KEEP_MAX];
    return tree_signal(keep, s->handler->keep(s->ctx, keep), signo);
}

void sweep_hard(struct sweep *s)
{
    pid_t keep[SWEEP_KEEP_MAX];
    int n = s->handler->keep(s->ctx, keep);
    s->busy = false;
    (void)uv_timer_stop(&s->timer);
    if (tree_kill(keep, n, mono_now_us() + HARD_US) > 0)
        log_warnx("some processes that the workers left behind could not be "
                  "killed");
}

void sweep_hurry(struct sweep *s)
{
    if (!s->busy)
        return;
    sweep_hard(s);
    s->handler->on_swept(s->ctx);
}

static void on_grace_over(uv_timer_t *timer)
{
    sweep_hurry(sweep_of(timer->data));
}

void sweep_look(struct sweep *s)
{
    if (!s->busy || signal_all(s, 0) > 0)
        return;
    s->busy = false;
    (void)uv_timer_stop(&s->timer);
    s->handler->on_swept(s->ctx);
}

void sweep_gently(struct sweep *s)
{
    if (signal_all(s, SIGTERM) == 0)
        return;
    (void)signal_all(s, SIGCONT); /* a stopped one would not hear it */
    s->busy = true;
    uv_update_time(s->timer.loop);
    (void)uv_timer_start(&s->timer, on_grace_over, GRACE_MS, 0);
}
