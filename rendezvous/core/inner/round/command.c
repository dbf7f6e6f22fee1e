/*
 * Orders of an operator: ddpctl's drain, end and go-on. Each comes on a
 * connection of its own, is carried out or refused at once, and answered.
 *
 * go-on is for a server that lacks voters. It is no proof: the operator answers
 * for it that those that are missing are dead. The others decide without them
 * (authority_give_up); leases that they may hold are waited for all the same.
 * Those that come after all count again. They may know of terms and rounds
 * that nobody here knows of: both numbers leap.
 *
 * A node that is drained is not trusted to have heard of it: it is marked, and
 * told whenever it comes back (rejoin in join.c), until it says leave itself.
 * Until then it is what a node that leaves is, so that nothing of it gets into
 * another round.
 *
 * Without a token anybody may connect. So an order is carried out if the shell
 * trusts its host (rdzv_event.trusted), or if it comes from the host of a node
 * that is connected and has a place in the run's last round: a spare anybody
 * can become.
 *
 * A node may ask for its own drain (ddprun --drain_check). It is not answered
 * unless it is drained, and asks again.
 */
#include "rendezvous/core/inner/round/command.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/round/propose.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/round.h"
#include "rendezvous/core/inner/round/round_seal.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"

#define AGENT_PREFIX_MIN 4  /* digits of an agent id that are taken for one */
#define SHOWN            8  /* digits of an agent id in a text */
#define CANDIDATES_MAX   4  /* that are named */
#define RUN_SHOWN        30 /* bytes of a run's id in a list */

/* -- answering ------------------------------------------------------------- */

static void answer(struct rdzv *r, int conn, const char *text)
{
    struct msg m = {.kind = MSG_KIND_answered};
    msg_set(m.answered.text, text);
    reply_send(r, conn, &m);
    reply_drop(r, conn);
}

static const char *name_of(enum msg_verb verb)
{
    switch (verb) {
    case MSG_ORDER_DRAIN:
        return "drain";
    case MSG_ORDER_END:
        return "end";
    case MSG_ORDER_GO_ON:
        return "go-on";
    case MSG_ORDER_STACKS:
        return "stacks";
    }
    DDP_WRONG("order");
}

__attribute__((format(printf, 5, 6))) static void
refuse(struct rdzv *r,
       const struct rdzv_event *ev,
       const struct run *run, /* may be NULL */
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
    note(r, NOTE_order_refused, run, "", "%s, by ddpctl from %s: %s",
         name_of((enum msg_verb)ev->msg->order.verb), ev->peer_addr,
         m.refused.text);
    reply_send(r, ev->conn, &m);
    reply_drop(r, ev->conn);
}

static bool same_version(struct rdzv *r, const struct rdzv_event *ev)
{
    int64_t version = ev->msg->order.version;
    if (version == MSG_VERSION)
        return true;
    refuse(r, ev, NULL, DDP_E_CONFLICT,
           "this ddpctl speaks version %lld of the protocol, the rendezvous "
           "version %d; use the ddpctl that was installed with it",
           (long long)version, MSG_VERSION);
    return false;
}

static bool
is_of_member(const struct rdzv *r, const struct run *run, const char *addr)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->conn >= 0 && n->group_rank >= 0 &&
            strcmp(n->peer_addr, addr) == 0)
            return true;
    }
    return false;
}

/* False: refused. */
static bool
may_order(struct rdzv *r, const struct rdzv_event *ev, const struct run *run)
{
    if (ev->trusted || is_of_member(r, run, ev->peer_addr))
        return true;
    refuse(r, ev, run, DDP_E_CONFIG,
           "without a token, orders for run '%s' are taken from the hosts of "
           "its round and from the rendezvous' own host only: run ddpctl "
           "there, or start ddprdzvd with --token_file or with --orders=any",
           run->id);
    return false;
}

/* Who wants the stacks of all ranks takes DDP_E_USAGE for the last one's end:
 * that workers have ended meanwhile is another code. */
#define NO_WORKERS DDP_E_ABORTED

/* The run of that id; NULL: there is none that could end, which is told. */
static struct run *
run_of(struct rdzv *r, const struct rdzv_event *ev, const char *id)
{
    bool stacks = ev->msg->order.verb == MSG_ORDER_STACKS;
    struct run *run = run_find(r, id);
    if (run != NULL)
        return run;
    for (int i = 0; i < r->limits.runs_max; i++)
        if (r->runs[i].state != RUN_FREE && strcmp(r->runs[i].id, id) == 0) {
            refuse(r, ev, &r->runs[i], stacks ? NO_WORKERS : DDP_E_USAGE,
                   "run '%s' is over already, with status %lld", id,
                   (long long)r->runs[i].end.msg.status);
            return NULL;
        }
    refuse(r, ev, NULL, DDP_E_USAGE,
           "there is no run '%s' here; ddpctl top --once lists all runs", id);
    return NULL;
}

/* Another server may have it, or none. */
static void refuse_without_majority(struct rdzv *r,
                                    const struct rdzv_event *ev,
                                    const struct run *run)
{
    struct authority_tally tally = authority_tally(&run->authority, 0);
    refuse(r, ev, run, DDP_E_USAGE, /* messages: ok, more than half of n */
           "this server does not have run '%s': %d of its %d voters are "
           "here, and more than half are needed; if another node serves it, "
           "give the order there",
           run->id, tally.here, tally.voters);
}

/* -- go-on ----------------------------------------------------------------- */

/* The voters, who would have to be here. */
struct missing {
    int here, all;
    const char *plural;
};

static bool is_anybody_here(const struct rdzv *r, const struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].conn >= 0)
            return true;
    return false;
}

/* False: nobody whose absence could be overruled. */
static bool find_missing(const struct run *run, struct missing *m)
{
    struct authority_tally tally = authority_tally(&run->authority, 0);
    *m = (struct missing){.here = tally.here, .all = tally.voters};
    m->plural = m->all == 1 ? "" : "s";
    return tally.lacks_voters;
}

/* The run that the order is about; NULL: refused. The nodes of a run without a
 * server try each place in turn, so that it may be here a moment later: that is
 * DDP_E_PEER. */
static struct run *
stuck_run(struct rdzv *r, const struct rdzv_event *ev, struct missing *m)
{
    const char *id = ev->msg->order.run;
    struct run *run = run_find(r, id);
    if (run == NULL || !is_anybody_here(r, run)) {
        refuse(r, ev, run, DDP_E_PEER, "no node of run '%s' is here now", id);
        return NULL;
    }
    if (find_missing(run, m))
        return run;
    if (m->all == 0 || run->authority.round == 0)
        refuse(r, ev, run, DDP_E_USAGE,
               "run '%s' had no round yet that could go on; it begins when "
               "enough nodes are here",
               id);
    else
        refuse(r, ev, run, DDP_E_USAGE,
               "run '%s' needs no such order: %d of its %d voter%s %s here, "
               "which is enough",
               id, m->here, m->all, m->plural, m->here == 1 ? "is" : "are");
    return NULL;
}

/* What an order would do, for somebody who has to decide. */
static void describe_risk(const struct run *run,
                          const struct missing *m,
                          char *text,
                          size_t size)
{
    int gone = m->all - m->here;
    (void)snprintf(
        text, size, /* fits: 128 and some 260 */
        "%d of the %d voter%s of run '%s' %s missing. If %s alive, the run "
        "goes "
        "on "
        "in two places, and both write its snapshots. Make sure first that the "
        "missing nodes are dead, or end their launchers",
        gone, m->all, m->plural, run->id, gone == 1 ? "is" : "are",
        gone == 1 ? "it is" : "they are");
}

static void command_go_on(struct rdzv *r, const struct rdzv_event *ev)
{
    struct missing m;
    char text[400];
    struct run *run = stuck_run(r, ev, &m);
    if (run == NULL || !may_order(r, ev, run))
        return;
    if (!ev->msg->order.sure) {
        describe_risk(run, &m, text, sizeof(text));
        answer(r, ev->conn, text);
        return;
    }
    (void)snprintf(
        text, sizeof(text), /* fits */
        "run '%s' goes on with %d of its %d voter%s, once the leases of "
        "the others are over; those that come back are newcomers",
        run->id, m.here, m.all, m.plural);
    note(r, NOTE_ordered, run, "",
         "go-on with %d of %d voter%s, by ddpctl from %s", m.here, m.all,
         m.plural, ev->peer_addr);
    run_give_up_missing(r, run);
    run_begin_line(r, run, false);
    answer(r, ev->conn, text);
}

/* -- end ------------------------------------------------------------------- */

/* What the operator is told. */
static void describe_end(
    const struct run *run, int nodes, int64_t status, char *text, size_t size)
{
    if (nodes == 1)
        (void)snprintf(text, size, /* fits */
                       "run '%s' ends: its only node is told to stop, and its "
                       "launcher ends with status %lld",
                       run->id, (long long)status);
    else
        (void)snprintf(text, size, /* messages: ok, not 1 */
                       "run '%s' ends: its %d nodes are told to stop, and "
                       "their launchers end with status %lld",
                       run->id, nodes, (long long)status);
}

/* Without half of the voters the end would not be final, and the others may go
 * on: no launcher would end with it. */
static bool has_run(const struct rdzv *r, const struct run *run)
{
    return run->state != RUN_ELECTING && run_has_voters(run, r->now_us);
}

static void command_end(struct rdzv *r, const struct rdzv_event *ev)
{
    struct run *run = run_of(r, ev, ev->msg->order.run);
    if (run == NULL || !may_order(r, ev, run))
        return;
    if (!has_run(r, run)) {
        refuse_without_majority(r, ev, run);
        return;
    }
    struct msg_end end = {
        .status = ddp_code_exit(DDP_E_ORDERED),
        .round = run->round.number,
        .restarts = run->budget.used,
        .rank = -1,
        .local_rank = -1,
    };
    char text[400];
    int nodes = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        nodes++;
    (void)snprintf(end.text, /* fits */
                   sizeof(end.text), "ended by ddpctl from %s", ev->peer_addr);
    describe_end(run, nodes, end.status, text, sizeof(text));
    note(r, NOTE_ordered, run, "", "end, by ddpctl from %s", ev->peer_addr);
    run_end(r, run, &end);
    answer(r, ev->conn, text);
}

/* -- which node ------------------------------------------------------------ */

enum match {
    BY_NAME,
    BY_AGENT
};

static bool is_meant(const struct rdzv *r,
                     const struct node *n,
                     const struct msg_order *o,
                     enum match by)
{
    const struct run *run = &r->runs[n->run];
    size_t len = strlen(o->node);
    if (n->state == NODE_FREE || run->state == RUN_ENDED ||
        (o->run[0] != '\0' && strcmp(o->run, run->id) != 0))
        return false;
    if (by == BY_NAME)
        return strcmp(n->name, o->node) == 0;
    return len >= AGENT_PREFIX_MIN && strncmp(n->agent, o->node, len) == 0;
}

static int find_nodes(const struct rdzv *r,
                      const struct msg_order *o,
                      enum match by,
                      int found[CANDIDATES_MAX])
{
    int count = 0;
    for (int i = 0; i < r->fresh_node; i++) {
        if (!is_meant(r, &r->nodes[i], o, by))
            continue;
        if (count < CANDIDATES_MAX)
            found[count] = i;
        count++;
    }
    return count;
}

/* Their run if it is the same for all, else NULL. */
static const struct run *
run_of_all(const struct rdzv *r, const int found[CANDIDATES_MAX], int count)
{
    int run = r->nodes[found[0]].run;
    for (int i = 1; i < count; i++)
        if (i == CANDIDATES_MAX || r->nodes[found[i]].run != run)
            return NULL;
    return &r->runs[run];
}

/* " of run 'llama'"; "" if that is `known`. An id that is too long for a list
 * is cut, and shows it. */
static const char *of_run(const struct run *run,
                          const struct run *known,
                          char text[RUN_SHOWN + 20])
{
    text[0] = '\0';
    if (run != known)
        (void)snprintf(text, RUN_SHOWN + 20, " of run '%.*s%s'", RUN_SHOWN,
                       run->id, strlen(run->id) > RUN_SHOWN ? "..." : "");
    return text;
}

static void refuse_ambiguous(struct rdzv *r,
                             const struct rdzv_event *ev,
                             const int found[CANDIDATES_MAX],
                             int count)
{
    char list[320] = "", of[RUN_SHOWN + 20];
    size_t len = 0;
    const struct run *run = run_of_all(r, found, count);
    for (int i = 0; i < count && i < CANDIDATES_MAX; i++) {
        const struct node *n = &r->nodes[found[i]];
        int more = snprintf(list + len, /* fits: 4 times 64 */
                            sizeof(list) - len, "%s%.*s%s%s", i > 0 ? ", " : "",
                            SHOWN, n->agent, of_run(&r->runs[n->run], run, of),
                            n->conn < 0 ? " (absent)" : "");
        len += (size_t)more;
    }
    refuse(r, ev, NULL, DDP_E_USAGE, /* messages: ok, 2 or more */
           "'%s' matches %d nodes%s%s%s: %s%s; give one of these ids%s",
           ev->msg->order.node, count, run != NULL ? " of run '" : "",
           run != NULL ? run->id : "", run != NULL ? "'" : "", list,
           count > CANDIDATES_MAX ? ", ..." : "",
           run == NULL ? ", or --run" : "");
}

/* The one node that is meant, by name before id; NULL: refused. */
static struct node *the_node(struct rdzv *r, const struct rdzv_event *ev)
{
    const struct msg_order *o = &ev->msg->order;
    int found[CANDIDATES_MAX];
    if (o->run[0] != '\0' && run_of(r, ev, o->run) == NULL)
        return NULL;
    int count = find_nodes(r, o, BY_NAME, found);
    if (count == 0)
        count = find_nodes(r, o, BY_AGENT, found);
    if (count == 1)
        return &r->nodes[found[0]];
    if (count > 1)
        refuse_ambiguous(r, ev, found, count);
    else
        refuse(r, ev, NULL, DDP_E_USAGE,
               "there is no node '%s'%s%s%s; ddpctl top --once lists "
               "all nodes",
               o->node, o->run[0] != '\0' ? " in run '" : "", o->run,
               o->run[0] != '\0' ? "'" : "");
    return NULL;
}

/* -- drain ----------------------------------------------------------------- */

/* Nodes that are in the round, or can be in the next one. */
static int count_usable(const struct run *run)
{
    return run->count[NODE_WAITING] + run->count[NODE_SPARE] +
           run->count[NODE_QUARANTINED] + run->count[NODE_RUNNING] +
           run->count[NODE_PENDING] + run->count[NODE_DONE] +
           run->count[NODE_STOPPING] + run->count[NODE_STALE] +
           run->round.gone_done + run->recovery.holes;
}

/* Whether as many nodes are left without it as the run needs; a run that waits
 * for nodes goes on waiting. */
static bool is_spared(const struct run *run, const struct node *n)
{
    int usable = count_usable(run);
    return n->state == NODE_DONE || usable < run->conf.nodes_min ||
           usable - 1 >= run->conf.nodes_min;
}

/* Whether it takes no more to carry it out than what was asked for. */
static bool
is_harmless(struct rdzv *r, const struct rdzv_event *ev, const struct node *n)
{
    const struct run *run = &r->runs[n->run];
    int usable = count_usable(run);
    if (ev->msg->order.sure)
        return true;
    if (n->hosts) {
        refuse(r, ev, run, DDP_E_USAGE,
               "the launcher of node %s runs this rendezvous, which would end "
               "with it; --force drains the node anyway, or run ddprdzvd on "
               "another host",
               n->name);
        return false;
    }
    if (!is_spared(run, n)) {
        refuse(r, ev, run, DDP_E_USAGE,
               "%d node%s would be left, and run '%s' needs %d: it would stop "
               "and wait for another one; --force drains the node anyway",
               usable - 1, usable == 2 ? "" : "s", run->id,
               run->conf.nodes_min);
        return false;
    }
    return true;
}

/* What the operator is told; the node is as it was before the order. */
static void
describe(const struct rdzv *r, const struct node *n, char *text, size_t size)
{
    const struct run *run = &r->runs[n->run];
    int left = count_usable(run) - 1;
    bool runs = n->state == NODE_RUNNING || n->state == NODE_STOPPING;
    char rest[160];
    if (n->state == NODE_DONE)
        (void)snprintf(rest, sizeof(rest), "its workers were done");
    else if (left + 1 != run->conf.nodes_min) /* enough, or it waits already */
        (void)snprintf(rest, sizeof(rest), "%d node%s left, at least %d needed",
                       left, left == 1 ? " is" : "s are", run->conf.nodes_min);
    else
        (void)snprintf(
            rest, sizeof(rest),
            "%d node%s left, at least %d needed: the run waits %lld s "
            "for another one",
            left, left == 1 ? " is" : "s are", run->conf.nodes_min,
            (long long)(run->conf.join_us / MONO_S));
    (void)snprintf(
        text, size, "node %s leaves run '%s'%s%s; %s", n->name, run->id,
        runs ? ": its workers are asked to stop at a step" : "",
        n->conn < 0 ? " (it is absent now, and is told when it is back)" : "",
        rest);
}

static void drain(struct rdzv *r, struct node *n)
{
    struct run *run = &r->runs[n->run];
    char why[160];
    (void)snprintf(why, /* fits */ sizeof(why), "node %s is drained", n->name);
    reply_drain(r, n);
    if (n->state == NODE_PENDING)
        propose_give_up(r, run, why);
    switch (n->state) {
    case NODE_WAITING:
    case NODE_SPARE:
    case NODE_QUARANTINED:
        node_set_state(r, n, NODE_DRAINED);
        round_try_seal(r, run); /* the last call may be off */
        return;
    case NODE_RUNNING:
    case NODE_STOPPING:
        node_set_state(r, n, NODE_LEAVING);
        round_blame_node(run); /* what fails now is a consequence */
        round_over(r, run, why, MSG_SCALE_DOWN);
        round_try_drained(r, run);
        return;
    case NODE_DONE:
    case NODE_STALE:
        return; /* until it says leave */
    case NODE_JOINING:
    case NODE_PENDING:
    case NODE_LEAVING:
    case NODE_DRAINED:
    case NODE_ENDING:
    case NODE_ENDED:
    case NODE_FREE:
    case NODE_STATES:
        break;
    }
    DDP_WRONG("node state");
}

static void command_drain(struct rdzv *r, const struct rdzv_event *ev)
{
    char text[512];
    struct node *n = the_node(r, ev);
    if (n == NULL)
        return;
    struct run *run = &r->runs[n->run];
    if (!may_order(r, ev, run))
        return;
    if (n->state == NODE_JOINING) {
        refuse_without_majority(r, ev, run);
        return;
    }
    if (n->drained || n->state == NODE_LEAVING) {
        (void)snprintf(text, sizeof(text), "node %s leaves run '%s' already",
                       n->name, run->id);
        answer(r, ev->conn, text);
        return;
    }
    if (!is_harmless(r, ev, n))
        return;
    describe(r, n, text, sizeof(text));
    note(r, NOTE_ordered, run, n->name, "drain, by ddpctl from %s",
         ev->peer_addr);
    n->drained = true;
    msg_set(n->drained_by, ev->peer_addr);
    drain(r, n);
    answer(r, ev->conn, text);
}

/* The launcher that serves can go if another one may serve after it. */
void command_drain_asked(struct rdzv *r, struct node *n)
{
    struct run *run = &r->runs[n->run];
    if (n->drained || n->state == NODE_JOINING || n->state == NODE_LEAVING ||
        n->state == NODE_ENDING || n->state == NODE_ENDED || !is_spared(run, n))
        return;
    note(r, NOTE_ordered, run, n->name, "drain, by its own check");
    n->drained = true;
    n->drained_by[0] = '\0';
    drain(r, n);
}

/* -- stacks ---------------------------------------------------------------- */

/* The node that has the rank in the round that runs; NULL: refused. */
static const struct node *
node_of_rank(struct rdzv *r, const struct rdzv_event *ev, const struct run *run)
{
    int64_t rank = ev->msg->order.rank;
    if (run->state != RUN_ACTIVE || run->round.world_size == 0) {
        refuse(r, ev, run, NO_WORKERS, "run '%s' runs no workers now", run->id);
        return NULL;
    }
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (node_in_round(n) && rank >= n->base_rank &&
            rank < n->base_rank + n->nproc)
            return n;
    }
    refuse(r, ev, run, DDP_E_USAGE, "run '%s' has no rank %lld: it has %d",
           run->id, (long long)rank, run->round.world_size);
    return NULL;
}

/* False: refused. */
static bool
can_show(struct rdzv *r, const struct rdzv_event *ev, const struct node *n)
{
    if (n->conn < 0)
        refuse(r, ev, &r->runs[n->run], DDP_E_PEER, "node %s is absent",
               n->name);
    return n->conn >= 0;
}

/* The answer says of which worker; the stacks follow it. */
static void command_stacks(struct rdzv *r, const struct rdzv_event *ev)
{
    struct msg m = {.kind = MSG_KIND_answered, .answered.more = 1};
    struct run *run = run_of(r, ev, ev->msg->order.run);
    if (run == NULL || !may_order(r, ev, run))
        return;
    const struct node *n = node_of_rank(r, ev, run);
    if (n == NULL || !can_show(r, ev, n))
        return;
    int local_rank = (int)ev->msg->order.rank - n->base_rank;
    if (!shows_begin(r, ev->conn, n, local_rank)) {
        refuse(r, ev, run, DDP_E_PEER,
               "other operators look at as many workers as may be looked at at "
               "a time: ask again");
        return;
    }
    note(r, NOTE_ordered, run, n->name,
         "stacks of rank %lld, by ddpctl from %s",
         (long long)ev->msg->order.rank, ev->peer_addr);
    (void)snprintf(m.answered.text, /* fits */
                   sizeof(m.answered.text), "rank %lld (local rank %d) on %s",
                   (long long)ev->msg->order.rank, local_rank, n->name);
    reply_send(r, ev->conn, &m);
}

void command_step(struct rdzv *r, const struct rdzv_event *ev)
{
    if (!same_version(r, ev))
        return;
    switch ((enum msg_verb)ev->msg->order.verb) {
    case MSG_ORDER_DRAIN:
        command_drain(r, ev);
        return;
    case MSG_ORDER_END:
        command_end(r, ev);
        return;
    case MSG_ORDER_GO_ON:
        command_go_on(r, ev);
        return;
    case MSG_ORDER_STACKS:
        command_stacks(r, ev);
        return;
    }
    DDP_WRONG("order");
}
