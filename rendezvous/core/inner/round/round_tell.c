/*
 * What a node is told carries, besides its place, what the next server must
 * know: restarts, strikes, the age of the instance. The members are
 * the server's memory; each returns these with its next join.
 */
#include "rendezvous/core/inner/round/round_tell.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/inherited.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

#define NOTICE_EVERY_US (30 * MONO_S)
/* Several refusals at once, and a stranger who causes them without end, make
 * one notice. */
#define NOTICE_REFUSED_US (500 * MONO_MS)
#define INSTANCE_MS_MAX   INT64_C(86400000000) /* of messages.def */

/* -- the members' addresses ------------------------------------------------ */

static bool is_member(const struct node *n)
{
    return n->group_rank >= 0 &&
           (n->state == NODE_PENDING || n->state == NODE_RUNNING ||
            n->state == NODE_DONE);
}

/* Where the others came to: so a node on the server's own host, which may have
 * come over loopback, is known to them. */
static const char *address_of_here(const struct rdzv *r, const struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (is_member(&r->nodes[i]) && !node_is_loopback(r->nodes[i].here_addr))
            return r->nodes[i].here_addr;
    return "";
}

/* One more; what is full is sent before. */
static void add_member(struct rdzv *r,
                       const struct node *to,
                       const char *addr,
                       struct msg *m)
{
    char *addrs = m->members.addrs;
    size_t len = strlen(addrs), more = strlen(addr) + 1;
    if (more == 1)
        return;
    if (len + more >= sizeof(m->members.addrs)) {
        reply_node(r, to, m);
        len = 0;
    }
    memcpy(addrs + len, addr, more - 1);
    memcpy(addrs + len + more - 1, " ", 2);
}

/* Of each node the address that it gave, and the one that it came from: which
 * of them its workers connect from is not known. */
static void
send_members(struct rdzv *r, const struct run *run, const struct node *to)
{
    if (to->group_rank != 0)
        return;
    const char *here = address_of_here(r, run);
    struct msg m = {.kind = MSG_KIND_members,
                    .members.round = run->round.number};
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (!is_member(n))
            continue;
        const char *gave = node_is_loopback(n->addr) ? here : n->addr;
        const char *from = node_is_loopback(n->peer_addr) ? here : n->peer_addr;
        add_member(r, to, gave, &m);
        if (strcmp(gave, from) != 0)
            add_member(r, to, from, &m);
    }
    if (m.members.addrs[0] != '\0')
        reply_node(r, to, &m);
}

/* -- a place, and what the next server must know --------------------------- */

/* Whether the last round's failure is charged already: not to be told as of
 * before that round, since the next server will hear of the failure itself. */
static bool is_charged(const struct run *run)
{
    return run->state == RUN_GATHER && run->round.blame == BLAME_WORKER;
}

int round_restarts_before(const struct run *run)
{
    return run->budget.used - is_charged(run);
}

/* How many of them count in the window. */
static int recent(const struct rdzv *r, const struct run *run)
{
    if (run->budget.window_us == 0)
        return 0;
    int counting = budget_counting(&run->budget, r->now_us);
    return counting > 0 ? counting - is_charged(run) : 0;
}

/* How old the instance is: which of two gives way is told by that. */
static int64_t instance_ms(const struct rdzv *r, const struct run *run)
{
    return mono_min((r->now_us - run->born_us) / MONO_MS, INSTANCE_MS_MAX);
}

/* The term in which the round was, or is, proposed. */
static void fill_fence(const struct run *run, struct msg_world *w)
{
    const struct authority *a = &run->authority;
    w->pending = run->state == RUN_PENDING;
    w->term = w->pending ? a->term : a->round_term;
}

void round_send_world(struct rdzv *r,
                      const struct run *run,
                      const struct node *n)
{
    struct msg m = {.kind = MSG_KIND_world};
    msg_set(m.world.instance, run->instance);
    m.world.instance_ms = instance_ms(r, run);
    m.world.round = run->round.number;
    m.world.restarts = round_restarts_before(run);
    m.world.recent = recent(r, run);
    m.world.no_progress = run->budget.no_progress;
    m.world.strikes = strikes_of(run, n);
    msg_set(m.world.spent, run->round.sums);
    m.world.group_rank = n->group_rank;
    m.world.group_world = run->round.group_world;
    m.world.base_rank = n->base_rank;
    m.world.world_size = run->round.world_size;
    m.world.role_rank = n->role_rank;
    m.world.role_world = n->role_world;
    msg_set(m.world.master_addr, run->round.master_addr);
    m.world.master_port = run->round.master_port;
    fill_fence(run, &m.world);
    send_members(r, run, n);
    reply_node(r, n, &m);
}

/* -- who waits ------------------------------------------------------------- */

void round_list_waiting(const struct rdzv *r,
                        const struct run *run,
                        char *names,
                        size_t size)
{
    size_t len = 0;
    names[0] = '\0';
    if (run->count[NODE_WAITING] == 0)
        return; /* a run may have many nodes, and many spares ask */
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->state != NODE_WAITING)
            continue;
        size_t name_len = strlen(n->name);
        if (len + name_len + 7 > size) {
            (void)snprintf(names + len, size - len, " ..."); /* has room */
            return;
        }
        if (len > 0) {
            memcpy(names + len, ", ", 2);
            len += 2;
        }
        memcpy(names + len, n->name, name_len + 1);
        len += name_len;
    }
}

static void
fill_waiting(const struct rdzv *r, const struct run *run, struct msg *m)
{
    *m = (struct msg){.kind = MSG_KIND_waiting};
    int64_t until_us = run->gather.seal_at_us;
    m->waiting.what_for =
        until_us != MONO_NEVER ? MSG_FOR_LAST_CALL : MSG_FOR_NODES;
    if (until_us == MONO_NEVER)
        until_us = mono_after(run->gather.since_us, run->conf.join_us);
    m->waiting.have = run->count[NODE_WAITING] + run->count[NODE_JOINING];
    m->waiting.left_ms = mono_ms_until(r->now_us, until_us);
    m->waiting.since_ms = mono_ms_until(run->gather.since_us, r->now_us);
    m->waiting.round = run->round.number;
    if (run->state == RUN_GATHER)
        msg_set(m->waiting.refused, run->gather.refused);
    struct authority_tally tally = authority_tally(&run->authority, 0);
    if (tally.lacks_voters) {
        m->waiting.voters = tally.voters;
        m->waiting.voters_here = tally.here;
    }
    round_list_waiting(r, run, m->waiting.names, sizeof(m->waiting.names));
}

static void reply_waiting(struct rdzv *r,
                          const struct run *run,
                          const struct node *n,
                          struct msg *m)
{
    run_tell_instance(run, n, m->waiting.instance);
    reply_node(r, n, m);
}

void round_send_waiting(struct rdzv *r,
                        const struct run *run,
                        const struct node *n)
{
    struct msg m;
    fill_waiting(r, run, &m);
    if (n->state == NODE_QUARANTINED)
        m.waiting.cooldown_left_ms =
            mono_ms_until(r->now_us, n->quarantined_until_us);
    if (n->state == NODE_SPARE || n->state == NODE_QUARANTINED) {
        bool grows = run_can_grow(run);
        m.waiting.what_for = grows ? MSG_FOR_GROWTH : MSG_FOR_A_PLACE;
        m.waiting.strikes = strikes_of(run, n);
        m.waiting.instance_ms = instance_ms(r, run);
        m.waiting.left_ms =
            grows ? mono_ms_until(r->now_us, run->scale_next_us) : 0;
    }
    reply_waiting(r, run, n, &m);
}

/* -- who was refused ------------------------------------------------------- */

/* `why` speaks to the refused node: for the others "this node" is "it". */
static void to_third_person(const char *why, char *text, size_t size)
{
    static const char self[] = "this node";
    size_t n = 0;
    while (*why != '\0' && n + 3 < size) {
        if (strncmp(why, self, sizeof(self) - 1) != 0) {
            text[n++] = *why++;
            continue;
        }
        text[n++] = 'i';
        text[n++] = 't';
        why += sizeof(self) - 1;
    }
    text[n] = '\0';
}

void round_tell_refusal(struct rdzv *r,
                        struct run *run,
                        const char *node,
                        const char *why)
{
    char reason[sizeof(run->gather.refused)], text[520];
    if (run->state != RUN_GATHER)
        return;
    to_third_person(why, reason, sizeof(reason));
    msg_set(run->gather.refused_node, node);
    (void)snprintf(text, sizeof(text), /* fits: 64 + 400 and some words */
                   "node %s was refused: %s", node, reason);
    text[sizeof(run->gather.refused) - 1] = '\0'; /* may be cut */
    if (strcmp(run->gather.refused, text) == 0)
        return; /* was told, or is about to be */
    msg_set(run->gather.refused, text);
    run->gather.notice_at_us = mono_min(
        run->gather.notice_at_us, mono_after(r->now_us, NOTICE_REFUSED_US));
    rdzv_touch(r, run);
}

void round_forget_refusal(struct run *run, const char *node)
{
    if (strcmp(run->gather.refused_node, node) == 0)
        run->gather.refused[0] = run->gather.refused_node[0] = '\0';
}

/* -- notices --------------------------------------------------------------- */

void round_notify_waiting(struct rdzv *r, struct run *run)
{
    run->gather.notice_at_us = mono_after(r->now_us, NOTICE_EVERY_US);
    struct msg m;
    fill_waiting(r, run, &m);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_WAITING)
            reply_waiting(r, run, &r->nodes[i], &m);
    note(r, NOTE_waiting, run, "", "%d of %d..%d are there (%s)",
         run->count[NODE_WAITING], run->conf.nodes_min, run->conf.nodes_max,
         m.waiting.names);
}
