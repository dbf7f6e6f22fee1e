/*
 * Refusals. Each says what differs and what to do about it: its reader sees
 * only one node. Refused is what makes no sense by itself,
 * what differs between nodes of one run, a second launcher on one host, and
 * what is over its address's share.
 */
#include "rendezvous/core/inner/join/join_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"

void join_refuse(struct rdzv *r,
                 int conn,
                 const struct msg_join *j,
                 enum ddp_code code,
                 const char *fmt,
                 ...)
{
    struct msg m = {.kind = MSG_KIND_refused};
    m.refused.code = code;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(m.refused.text, sizeof(m.refused.text), fmt, ap);
    va_end(ap);
    struct run *run = run_find(r, j->run);
    note(r, NOTE_refused, run, j->name, "%s", m.refused.text);
    if (run != NULL)
        round_tell_refusal(r, run, j->name, m.refused.text);
    reply_send(r, conn, &m);
    reply_drop(r, conn);
}

bool join_is_sound(struct rdzv *r, const struct msg_join *j, int conn)
{
    if (j->version != MSG_VERSION)
        join_refuse(
            r, conn, j, DDP_E_CONFLICT,
            "the ddprun of this node speaks version %lld of the protocol, the "
            "rendezvous version %d; install the same ddprun on all nodes",
            (long long)j->version, MSG_VERSION);
    else if (j->nodes_min > j->nodes_max || j->nodes_max > r->limits.nodes_max)
        join_refuse(
            r, conn, j, DDP_E_USAGE,
            "--nnodes=%lld:%lld: this rendezvous takes at most %d node%s (%s)",
            (long long)j->nodes_min, (long long)j->nodes_max,
            r->limits.nodes_max, r->limits.nodes_max == 1 ? "" : "s",
            r->limits.embedded
                ? "a launcher serves it: start all nodes with the same "
                  "options, or raise the limit of open files, ulimit -n, on "
                  "its node"
                : "ddprdzvd --max_nodes");
    else if (j->window_ms > 0 && j->max_restarts > BUDGET_WINDOW_MAX)
        join_refuse(
            r, conn, j, DDP_E_USAGE, /* messages: ok, it is 64 */
            "--max_restarts=%lld/...: a window takes at most %d restarts",
            (long long)j->max_restarts, BUDGET_WINDOW_MAX);
    else
        return true;
    return false;
}

/* -- one launcher on each host --------------------------------------------- */

#define HASH_LEN 16 /* of join.gpus */

/* Whether a hash of one list is in the other. */
static bool share_gpu(const char *a, const char *b)
{
    char hash[HASH_LEN + 1] = "";
    size_t len = strlen(a);
    for (size_t at = 0; at + HASH_LEN <= len; at += HASH_LEN + 1) {
        memcpy(hash, a + at, HASH_LEN);
        if (strstr(b, hash) != NULL)
            return true;
    }
    return false;
}

/* One that is about to go, or whose host may be lost, gives way. */
static bool
is_firm(const struct rdzv *r, const struct run *run, const struct node *n)
{
    return n->conn >= 0 && !n->drained && n->state != NODE_LEAVING &&
           n->state != NODE_STALE && n->state != NODE_DRAINED &&
           n->state != NODE_ENDING && n->state != NODE_ENDED &&
           r->now_us - n->heard_us <= run->conf.heartbeat_us;
}

/* What a launcher of the run has that this one has too, on one boot of one
 * host; NULL: nothing. The boot alone proves nothing: containers share it. */
static const char *shared_thing(const struct rdzv *r,
                                const struct run *run,
                                const struct msg_join *j,
                                const struct node **other)
{
    uint64_t boot = node_boot(j);
    for (int i = 0; boot != 0 && i < r->fresh_node; i++) {
        const struct node *n = *other = &r->nodes[i];
        if (r->boots[i] != boot || n->state == NODE_FREE ||
            n->run != run_index(r, run) || !is_firm(r, run, n))
            continue;
        if (j->place[0] != '\0' && strcmp(j->place, n->place) == 0)
            return "the scheduler gave both the same place";
        if (share_gpu(j->gpus, n->gpus))
            return "the workers of both use the same GPU";
    }
    return NULL;
}

/* The other launcher may have died since its last message, and this launcher
 * may have come in its place: only a message of the other one from the time in
 * which both lived is a proof. A message may have been on its way for a while.
 */
static bool lives_beside(const struct rdzv *r,
                         const struct run *run,
                         const struct node *other,
                         const struct msg_join *j)
{
    int64_t born_us = r->now_us - j->age_ms * MONO_MS;
    return other->heard_us > born_us + run->conf.heartbeat_us / 20;
}

/* Without proof it is to come again: until then there is one, or the other one
 * is lost. */
static void refuse_second(struct rdzv *r,
                          const struct run *run,
                          const struct msg_join *j,
                          int conn,
                          const struct node *other,
                          const char *shared)
{
    if (!lives_beside(r, run, other, j)) {
        reply_drop(r, conn);
        return;
    }
    join_refuse(r, conn, j, DDP_E_USAGE,
                "run '%s' has another ddprun on this host, %s, and %s; each "
                "would start all workers of the node: start one ddprun on each "
                "host (Slurm: srun --ntasks-per-node=1), or give each its own "
                "GPUs (--gpus) or run (--rdzv_id)",
                run->id, other->name, shared);
}

/* -- what must agree ------------------------------------------------------- */

static bool same_budget(const struct budget *b, const struct msg_join *j)
{
    return j->max_restarts == b->max &&
           j->window_ms * MONO_MS == b->window_us &&
           j->crash_loop == b->crash_loop;
}

/* "3" or "3/90s", and ", --crash_loop=2" if it is on. */
static void describe_budget(int64_t max,
                            int64_t window_us,
                            int64_t crash_loop,
                            char text[80])
{
    char window[32] = "";
    char loop[32] = "";
    if (window_us > 0)
        (void)snprintf(window, sizeof(window), "/%.12gs",
                       (double)window_us / (double)MONO_S);
    if (crash_loop > 0)
        (void)snprintf(loop, sizeof(loop), ", --crash_loop=%d",
                       (int)crash_loop);
    (void)snprintf(text, 80, "%d%s%s", (int)max, window, loop); /* fits */
}

static void refuse_budget(struct rdzv *r,
                          const struct run *run,
                          const struct msg_join *j,
                          int conn)
{
    const struct budget *b = &run->budget;
    char theirs[80], ours[80];
    describe_budget(j->max_restarts, j->window_ms * MONO_MS, j->crash_loop,
                    theirs);
    describe_budget(b->max, b->window_us, b->crash_loop, ours);
    join_refuse(
        r, conn, j, DDP_E_CONFLICT,
        "this node was started with --max_restarts=%s, run '%s' has %s; "
        "start all nodes with the same options",
        theirs, run->id, ours);
}

/* "2"; "2:4": as on the command line. */
static const char *nodes_text(int64_t min, int64_t max, char text[48])
{
    int n = snprintf(text, 48, "%lld", (long long)min);
    if (max != min)
        (void)snprintf(text + n, 48 - (size_t)n, ":%lld", (long long)max);
    return text;
}

static const char *mpi_text(int64_t mpi)
{
    switch ((enum msg_mpi)mpi) {
    case MSG_MPI_NONE:
        return "none";
    case MSG_MPI_PMI1:
        return "pmi1";
    case MSG_MPI_PMIX:
        return "pmix";
    case MSG_MPI_AUTO:
        return "auto";
    }
    DDP_WRONG("mpi");
}

bool join_agrees(struct rdzv *r,
                 const struct run *run,
                 const struct msg_join *j,
                 int conn)
{
    char theirs[48], ours[48];
    const struct node *other = NULL;
    const char *shared = shared_thing(r, run, j, &other);
    if (j->nodes_min != run->conf.nodes_min ||
        j->nodes_max != run->conf.nodes_max)
        join_refuse(
            r, conn, j, DDP_E_CONFLICT,
            "this node was started with --nnodes=%s, run '%s' has %s; start "
            "all nodes with the same options, or give this job another "
            "--rdzv_id",
            nodes_text(j->nodes_min, j->nodes_max, theirs), run->id,
            nodes_text(run->conf.nodes_min, run->conf.nodes_max, ours));
    else if (!same_budget(&run->budget, j))
        refuse_budget(r, run, j, conn);
    else if (j->node_strikes != run->strikes.max ||
             j->cooldown_ms * MONO_MS != run->strikes.cooldown_us)
        join_refuse(
            r, conn, j, DDP_E_CONFLICT,
            "this node was started with --node_strikes=%lld/%.12gs, run "
            "'%s' has %d/%.12gs; start all nodes with the same options",
            (long long)j->node_strikes, (double)j->cooldown_ms / 1000.0,
            run->id, run->strikes.max,
            (double)run->strikes.cooldown_us / (double)MONO_S);
    else if (strcmp(j->prog, run->conf.prog) != 0)
        join_refuse(
            r, conn, j, DDP_E_CONFLICT,
            "this node was started with the program '%s', run '%s' has '%s'; "
            "start all nodes with the same program, or give this job another "
            "--rdzv_id",
            j->prog, run->id, run->conf.prog);
    else if (strcmp(j->backend, run->conf.backend) != 0)
        join_refuse(
            r, conn, j, DDP_E_CONFLICT,
            "this node was started with --rdzv_backend=%s, run '%s' has %s; "
            "start all nodes with the same options",
            j->backend, run->id, run->conf.backend);
    else if (j->mpi != (int64_t)run->conf.mpi)
        join_refuse(r, conn, j, DDP_E_CONFLICT,
                    "this node serves --mpi=%s, run '%s' has %s; start all "
                    "nodes with the same option (auto is pmi1 on a node "
                    "without libpmix.so.2)",
                    mpi_text(j->mpi), run->id,
                    mpi_text((int64_t)run->conf.mpi));
    else if (j->heartbeat_ms * MONO_MS != run->conf.heartbeat_us ||
             j->reconnect_ms * MONO_MS != run->conf.reconnect_us)
        join_refuse(
            r, conn, j, DDP_E_CONFLICT,
            "this node was started with another heartbeat_timeout or "
            "reconnect_timeout (--rdzv_conf) than run '%s', and leases depend "
            "on both; start all nodes with the same options",
            run->id);
    else if (shared != NULL)
        refuse_second(r, run, j, conn, other, shared);
    else
        return true;
    return false;
}
