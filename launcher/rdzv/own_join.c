#include "launcher/rdzv/own_join.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

/* FNV-1a of 64 bits: for the server it only has to differ, and the text itself
 * is none of its business. */
static void put_hash(const char *text, char out[17])
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    (void)snprintf(out, 17, "%016llx", (unsigned long long)h);
}

/* What no other launcher of the run can have: its place in a scheduler's job,
 * and its GPUs, on this boot of this host. Without /proc nothing is said. */
static void put_own(const struct conf *c, struct msg_join *j)
{
    char id[64] = "";
    int fd = open(BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, id, sizeof(id) - 1) : -1;
    if (fd >= 0)
        (void)close(fd); /* only read */
    if (n <= 0)
        return;
    put_hash(id, j->boot);
    if (c->place[0] != '\0')
        put_hash(c->place, j->place);
    for (int i = 0; i < CONF_OWN_GPUS && c->own_gpus[i][0] != '\0'; i++) {
        char *at = j->gpus + strlen(j->gpus);
        if (i > 0)
            *at++ = ' ';
        put_hash(c->own_gpus[i], at);
    }
}

_Static_assert((int)CONF_MPI_NONE == (int)MSG_MPI_NONE &&
                   (int)CONF_MPI_PMI1 == (int)MSG_MPI_PMI1 &&
                   (int)CONF_MPI_PMIX == (int)MSG_MPI_PMIX &&
                   (int)CONF_MPI_AUTO == (int)MSG_MPI_AUTO,
               "join.mpi");

void own_join(const struct conf *c, int store_port, struct msg_join *j)
{
    char name[256] = "";
    ddp_assert(store_port > 0 && store_port <= 65535);
    (void)gethostname(name, sizeof(name) - 1);
    *j = (struct msg_join){
        .version = MSG_VERSION,
        .nodes_min = c->nnodes_min,
        .nodes_max = c->nnodes_max,
        .nproc = c->nproc,
        .max_restarts = c->max_restarts,
        .window_ms = c->restart_window_us / MONO_MS,
        .crash_loop = c->crash_loop,
        .node_strikes = c->node_strikes,
        .cooldown_ms = c->node_strikes > 0 ? c->cooldown_us / MONO_MS : 0,
        .scale_ms = c->scale_interval_us / MONO_MS,
        .node_rank = c->node_rank,
        .port = store_port,
        .members = c->store_for_nodes,
        .join_ms = c->join_timeout_us / MONO_MS,
        .last_call_ms = c->last_call_timeout_us / MONO_MS,
        .heartbeat_ms = c->heartbeat_timeout_us / MONO_MS,
        .reconnect_ms = c->reconnect_timeout_us / MONO_MS,
        .mpi = (int64_t)c->mpi,
    };
    msg_set(j->run, c->run_id);
    rng_id(j->agent);
    msg_set(j->name, name);
    msg_set(j->backend, c->backend == CONF_STATIC ? "static" : "c10d");
    msg_set(j->prog, c->prog_name);
    msg_set(j->role, c->role);
    msg_set(j->addr, c->local_addr);
    put_own(c, j);
}
