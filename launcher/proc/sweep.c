/*
 * Happy path of a gentle sweep: SIGTERM to all that is left, busy until the
 * last one has ended, on_swept. Nothing is polled meanwhile: the agent is a
 * child subreaper, so the topmost of what is left is always its own child, and
 * each death comes as a SIGCHLD (sweep_look). What was not asked yet by then
 * (it came to us with that death) is asked.
 *
 * Failure modes:
 *   - A process ignores SIGTERM: SIGKILL after GRACE_MS.
 *   - A user asks again, or the guard is dead: SIGKILL at once (sweep_hurry).
 *   - A process cannot be killed: a warning, for one in state D after HARD_US,
 *     for another user's at once.
 */
#include "launcher/proc/sweep.h"

#include "launcher/proc/tree.h"
#include "rendezvous/base/err.h"
#include "rendezvous/base/log.h"
#include "rendezvous/base/mono.h"

#define HARD_US     (2 * MONO_S)
#define GRACE_MS    1000
#define SWEEP_MAGIC 0x53574550u

void sweep_init(struct sweep *s,
                uv_loop_t *loop,
                const struct sweep_handler *handler,
                void *ctx)
{
    *s = (struct sweep){.magic = SWEEP_MAGIC, .handler = handler, .ctx = ctx};
    (void)uv_timer_init(loop, &s->timer); /* cannot fail */
    s->timer.data = s;
}

static int find_helpers(const struct sweep *s, pid_t keep[SWEEP_KEEP_MAX])
{
    int n = s->handler->keep(s->ctx, keep);
    ddp_assert(n >= 0 && n <= SWEEP_KEEP_MAX);
    return n;
}

static int ask_all(const struct sweep *s, bool anew)
{
    pid_t keep[SWEEP_KEEP_MAX];
    return tree_ask(keep, find_helpers(s, keep), s->handler->session(s->ctx),
                    anew);
}

void sweep_hard(struct sweep *s)
{
    pid_t keep[SWEEP_KEEP_MAX];
    int n = find_helpers(s, keep);
    s->busy = false;
    (void)uv_timer_stop(&s->timer);
    pid_t session = s->handler->session(s->ctx);
    if (tree_kill(keep, n, session, false, mono_now_us() + HARD_US) > 0)
        log_warnx("some processes that the workers left behind could not be "
                  "killed; ps shows why (state D: they wait in the kernel; "
                  "another user: only that user and root may kill them)");
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
    struct sweep *s = timer->data;
    ddp_assert(s->magic == SWEEP_MAGIC);
    sweep_hurry(s);
}

void sweep_look(struct sweep *s)
{
    if (!s->busy || ask_all(s, false) > 0)
        return;
    s->busy = false;
    (void)uv_timer_stop(&s->timer);
    s->handler->on_swept(s->ctx);
}

void sweep_gently(struct sweep *s)
{
    ddp_assert(!s->busy);
    if (ask_all(s, true) == 0)
        return;
    s->busy = true;
    uv_update_time(s->timer.loop);
    (void)uv_timer_start(&s->timer, on_grace_over, GRACE_MS, 0);
}
