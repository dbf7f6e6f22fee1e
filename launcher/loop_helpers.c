#include <sys/types.h>

#include "launcher/health/drain_check.h"
#include "launcher/health/health.h"
#include "launcher/loop_priv.h"
#include "launcher/output/output.h"
#include "launcher/rdzv/client.h"
#include "launcher/standby/standby.h"
#include "launcher/worker/hang_watch.h"
#include "launcher/worker/workers.h"
#include "rendezvous/base/log.h"
#include "rendezvous/net/helper.h"

enum helper {
    HELPER_SERVER,
    HELPER_STORE,
    HELPER_RELAY,
    HELPER_STACKS,
    HELPER_HEALTH,
    HELPER_DRAIN,
    HELPER_STANDBY, /* the importer */
    HELPER_PMIX,
    HELPER_HWLOC,
    HELPERS
};

_Static_assert(HELPERS <= SWEEP_KEEP_MAX, "more helpers than a sweep spares");

/* 0 for each that does not live. */
static void find_pids(const struct loop *l, pid_t pids[HELPERS])
{
    pids[HELPER_SERVER] = rdzv_client_server(l->client);
    pids[HELPER_STORE] = l->store.pid;
    pids[HELPER_RELAY] = output_pid(l->output);
    pids[HELPER_STACKS] = hang_watch_helper(l->hang_watch);
    pids[HELPER_HEALTH] = health_helper(l->health);
    pids[HELPER_DRAIN] = drain_check_helper(l->drain_check);
    pids[HELPER_STANDBY] = standby_importer(l->standby);
    pids[HELPER_PMIX] = workers_mpi_helper(l->workers, MPI_HELPER_PMIX);
    pids[HELPER_HWLOC] = workers_mpi_helper(l->workers, MPI_HELPER_HWLOC);
}

int loop_helpers_keep(void *ctx, pid_t pids[SWEEP_KEEP_MAX])
{
    find_pids(loop_of(ctx), pids);
    return HELPERS;
}

/* Standbys are not known by their pids. */
pid_t loop_helpers_session(void *ctx)
{
    return standby_session(loop_of(ctx)->standby);
}

/* Its owner starts another one when that is needed. */
static void on_helper_died(struct loop *l, enum helper which)
{
    pid_t pid;
    switch (which) {
    case HELPER_SERVER:
        rdzv_client_server_ended(l->client);
        if (l->state == LOOP_CLOSING)
            uv_stop(&l->uv); /* it was waited for */
        return;
    case HELPER_STORE:
        store_host_fell(&l->store, l->agent.round.world.round);
        return;
    case HELPER_RELAY:
        pid = output_pid(l->output);
        output_restart(l->output, helper_reap(&pid));
        return;
    case HELPER_STACKS:
        hang_watch_helper_ended(l->hang_watch);
        return;
    case HELPER_HEALTH:
        health_helper_ended(l->health);
        return;
    case HELPER_DRAIN:
        drain_check_helper_ended(l->drain_check);
        return;
    case HELPER_STANDBY:
        standby_importer_ended(l->standby);
        return;
    case HELPER_PMIX:
        workers_mpi_helper_ended(l->workers, MPI_HELPER_PMIX);
        return;
    case HELPER_HWLOC:
        workers_mpi_helper_ended(l->workers, MPI_HELPER_HWLOC);
        return;
    case HELPERS:
        break;
    }
    DDP_WRONG("helper");
}

void loop_helpers_reap(struct loop *l)
{
    for (;;) {
        pid_t ours[HELPERS];
        find_pids(l, ours);
        pid_t pid = workers_reap_orphans(l->workers, ours, HELPERS);
        if (pid == 0)
            return;
        ddp_assert(pid > 0);
        for (int i = 0; i < HELPERS; i++)
            if (ours[i] == pid)
                on_helper_died(l, (enum helper)i);
    }
}
