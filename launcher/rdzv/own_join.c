#include "launcher/rdzv/own_join.h"

#include <unistd.h>

#include "rendezvous/base/err.h"
#include "rendezvous/base/mono.h"
#include "rendezvous/base/rng.h"

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
        .failover = c->nnodes_max > 1 ? (int64_t)c->failover : 0,
    };
    msg_set(j->run, c->run_id);
    rng_id(j->agent);
    msg_set(j->name, name);
    msg_set(j->backend, c->backend == CONF_STATIC ? "static" : "c10d");
    msg_set(j->prog, c->prog_name);
    msg_set(j->role, c->role);
    msg_set(j->addr, c->local_addr);
}
