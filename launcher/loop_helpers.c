#include <sys/types.h>

#include "launcher/health/drain_check.h"
#include "launcher/health/health.h"
#include "launcher/loop_priv.h"
#include "launcher/output/output.h"
#include "launcher/rdzv/client.h"
#include "launcher/standby/standby.h"
#include "launcher/hang/hang_watch.h"
#include "launcher/hang/show_stacks.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/log.h"
#include "rendezvous/net/helper.h"

static void server_ended(struct loop *l)
{
    rdzv_client_server_ended(l->client);
    if (l->state == LOOP_CLOSING)
        uv_stop(&l->uv); /* it was waited for */
}

static void relay_ended(struct loop *l)
{
    pid_t pid = output_pid(l->output);
    output_restart(l->output, helper_reap(&pid));
}

#define HELPER(name, pid, ended)                                               \
    static pid_t pid_of_##name(const struct loop *l)                           \
    {                                                                          \
        return pid;                                                            \
    }                                                                          \
    static void on_##name##_died(struct loop *l)                               \
    {                                                                          \
        ended;                                                                 \
    }
#include "launcher/loop_helpers.def"
#undef HELPER

static const struct {
    pid_t (*pid)(const struct loop *l);
    void (*died)(struct loop *l);
} helpers[] = {
#define HELPER(name, pid, ended) {pid_of_##name, on_##name##_died},
#include "launcher/loop_helpers.def"
#undef HELPER
};
#define HELPERS ((int)(sizeof(helpers) / sizeof(helpers[0])))

_Static_assert(sizeof(helpers) / sizeof(helpers[0]) <= SWEEP_KEEP_MAX,
               "more helpers than a sweep spares");

int loop_helpers_keep(void *ctx, pid_t pids[SWEEP_KEEP_MAX])
{
    for (int i = 0; i < HELPERS; i++)
        pids[i] = helpers[i].pid(loop_of(ctx));
    return HELPERS;
}

/* Standbys are not known by their pids. */
pid_t loop_helpers_session(void *ctx)
{
    return standby_session(loop_of(ctx)->standby);
}

void loop_helpers_reap(struct loop *l)
{
    for (;;) {
        pid_t ours[SWEEP_KEEP_MAX];
        int n = loop_helpers_keep(l, ours);
        pid_t pid = workers_reap_orphans(l->workers, ours, n);
        if (pid == 0)
            return;
        ddp_assert(pid > 0);
        for (int i = 0; i < n; i++)
            if (ours[i] == pid)
                helpers[i].died(l);
    }
}
