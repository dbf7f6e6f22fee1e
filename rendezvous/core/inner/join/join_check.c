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

#define OWN_LEN 17 /* of a word of join.owns */

/* What both lists have: the p or g of it; 0: nothing. */
static char shared_own(const char *a, const char *b)
{
    char own[OWN_LEN + 1] = "";
    size_t len = strlen(a);
    for (size_t at = 0; at + OWN_LEN <= len; at += OWN_LEN + 1) {
        memcpy(own, a + at, OWN_LEN);
        if (strstr(b, own) != NULL)
            return own[0];
    }
    return '\0';
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

/* What a launcher of the run has that this one has too; NULL: nothing. That
 * both are on one boot of one host proves nothing: containers share it. */
static const char *shared_thing(const struct rdzv *r,
                                const struct run *run,
                                const struct msg_join *j,
                                const struct node **other)
{
    uint32_t boot = node_boot(j);
    for (int i = 0; boot != 0 && i < r->fresh_node; i++) {
        const struct node *n = *other = &r->nodes[i];
        if (r->boots[i] != boot || n->state == NODE_FREE ||
            n->run != run_index(r, run) || !is_firm(r, run, n))
            continue;
        switch (shared_own(j->owns, n->owns)) {
        case 'p':
            return "the scheduler gave both the same place";
        case 'g':
            return "the workers of both use the same GPU";
        default: /* nothing, or nonsense */
            break;
        }
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

/* Where the line begins in which the two differ first. */
static size_t find_difference(const char *a, const char *b)
{
    size_t line = 0;
    for (size_t i = 0; a[i] != '\0' && a[i] == b[i]; i++)
        if (a[i] == '\n')
            line = i + 1;
    return line;
}

/* Behind "--option=" if both have that in common, so that it is said once. */
static const char *value_of(const char *line, const char *other)
{
    size_t name = strcspn(line, "=\n");
    bool same = line[name] == '=' && strncmp(line, other, name + 1) == 0;
    return same ? line + name + 1 : line;
}

static void refuse_options(struct rdzv *r,
                           const struct run *run,
                           const struct msg_join *j,
                           int conn)
{
    size_t at = find_difference(j->options, run->conf.options);
    const char *theirs = j->options + at, *ours = run->conf.options + at;
    int len = (int)strcspn(theirs, "\n");
    if (theirs[len] == '\0') { /* the last line */
        join_refuse(r, conn, j, DDP_E_CONFLICT,
                    "this node was started with the program '%s', run '%s' has "
                    "'%s'; start all nodes with the same program, or give this "
                    "job another --rdzv_id",
                    theirs, run->id, ours);
        return;
    }
    const char *value = value_of(ours, theirs);
    join_refuse(r, conn, j, DDP_E_CONFLICT,
                "this node was started with %.*s, run '%s' has %.*s; start all "
                "nodes with the same options, or give this job another "
                "--rdzv_id",
                len, theirs, run->id, (int)strcspn(value, "\n"), value);
}

bool join_agrees(struct rdzv *r,
                 const struct run *run,
                 const struct msg_join *j,
                 int conn)
{
    const struct node *other = NULL;
    const char *shared = shared_thing(r, run, j, &other);
    if (strcmp(j->options, run->conf.options) != 0)
        refuse_options(r, run, j, conn);
    else if (shared != NULL)
        refuse_second(r, run, j, conn, other, shared);
    else
        return true;
    return false;
}
