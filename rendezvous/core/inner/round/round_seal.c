/*
 * Sealing. round_try_seal is called whenever something may have become
 * possible: a node came, one went, a lease is over, time has passed. It seals
 * when all nodes that can come are there: in the first round after the last
 * call, later as soon as the survivors are back. It does not seal while a
 * connection is broken, while leases of a server before us may be out
 * (round_known_at_us), or while a drained member has not said that it goes.
 *
 * Ranks are given before anything is sent, and every node is sent its own
 * world: O(1) per node.
 */
#include "rendezvous/core/inner/round/round_seal.h"

#include <stdio.h>
#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/round/propose.h"
#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/round/inherited.h"
#include "rendezvous/core/inner/round/round_tell.h"
#include "rendezvous/core/inner/state/run.h"
#include "rendezvous/core/inner/state/strikes.h"

/* So often it is looked whether they still do. */
#define SOUGHT_AGAIN_US (250 * MONO_MS)

/* -- who is in, and where -------------------------------------------------- */

static void add_place(struct rdzv *r, const struct node *n, int index, int at)
{
    r->places[at] = (struct ranks_node){
        .name = n->name,
        .role = n->role,
        .asked = n->asked_rank,
        .previous = n->group_rank,
        .hosts = n->hosts,
        .arrival = n->arrival,
        .nproc = n->nproc,
        .id = index,
    };
}

/*
 * The members: survivors first, then nodes that wait, also as spares, in the
 * order in which they came, up to the most that a round may have. Returns how
 * many.
 */
static int pick_members(struct rdzv *r, const struct run *run)
{
    int picked = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = run->head; i >= 0; i = r->nodes[i].next) {
            const struct node *n = &r->nodes[i];
            bool survivor = n->state == NODE_WAITING && n->group_rank >= 0;
            bool waits = n->state == NODE_WAITING || n->state == NODE_SPARE;
            if (!(pass == 0 ? survivor : waits && !survivor))
                continue;
            if (picked < run->conf.nodes_max)
                add_place(r, n, i, picked++);
        }
    }
    return picked;
}

/*
 * Where the other nodes reach group rank 0. A node on the server's own host
 * may have come over loopback: then it is reached at the address on which the
 * others came in.
 */
static void find_master(const struct rdzv *r, struct run *run, int n_members)
{
    const struct node *master = &r->nodes[r->places[0].id];
    const char *addr = master->addr;
    for (int i = 1; i < n_members && node_is_loopback(addr); i++) {
        const struct node *n = &r->nodes[r->places[i].id];
        if (!node_is_loopback(n->addr) && !node_is_loopback(n->here_addr))
            addr = n->here_addr;
    }
    msg_set(run->round.master_addr, addr);
    run->round.master_port = master->port;
}

static struct node *take_ranks(struct rdzv *r, const struct ranks_node *p)
{
    struct node *n = &r->nodes[p->id];
    n->group_rank = p->group_rank;
    n->base_rank = p->base_rank;
    n->role_rank = p->role_rank;
    n->role_world = p->role_world;
    return n;
}

void round_reckon(struct rdzv *r, struct run *run)
{
    int n_members = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (node_in_round(&r->nodes[i]) && n_members < run->round.group_world)
            add_place(r, &r->nodes[i], i, n_members++);
    if (n_members == 0 || n_members < run->round.group_world)
        return;
    run->round.world_size =
        ranks_assign(r->places, r->scratch, n_members, NULL);
    for (int i = 0; i < n_members; i++)
        (void)take_ranks(r, &r->places[i]);
    find_master(r, run, n_members);
}

/* -- sealing --------------------------------------------------------------- */

void round_begin(const struct rdzv *r, struct run *run)
{
    run->round.gone_done = 0;
    run->round.blame = BLAME_NONE;
    run->round.progressed = false;
    run->round.sealed_us = r->now_us;
    run->report.ends = (struct exits_counts){.by_term = 0};
    run->report.exits_list[0] = run->report.stopped_list[0] =
        run->report.loss.node[0] = run->report.apart[0] = '\0';
    run->report.root.round = 0;
    run->round.ran = false;
    run->round.sign_us = 0;
    run->round.sums[0] = '\0';
    stands_begin(run);
}

static void make_instance(struct rdzv *r, struct run *run)
{
    if (run->instance[0] != '\0')
        return;
    run->born_us = r->now_us;
    (void)snprintf(run->instance, /* 32 digits and NUL: cannot be cut */
                   sizeof(run->instance), "%016llx%016llx",
                   (unsigned long long)rng_next(&r->rng),
                   (unsigned long long)rng_next(&r->rng));
}

/* Nodes that are left over are spares, and hold no place of any round. */
static void make_spares(struct rdzv *r, struct run *run)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (n->state != NODE_WAITING && n->state != NODE_SPARE &&
            n->state != NODE_QUARANTINED)
            continue;
        n->group_rank = -1;
        if (n->state == NODE_WAITING)
            note(r, NOTE_spare, run, n->name, "the round is full");
        if (n->state == NODE_WAITING)
            node_set_state(r, n, NODE_SPARE);
        round_send_waiting(r, run, n); /* old spares too: the round is new */
    }
}

/*
 * Numbers are never used twice, nor are those of rounds of other instances
 * whose nodes are here: `ready` and `failed` that are under way bear the number
 * alone. After an operator has given nodes up nobody knows how far those came.
 */
#define ROUND_LEAP 1000
static void number_round(struct run *run)
{
    run->round.number++;
    if (run->round.number <= run->recovery.passed)
        run->round.number = run->recovery.passed + 1;
    run->round.number += run->takeover.leaps ? ROUND_LEAP : 0;
    run->takeover.leaps = false;
    run->recovery.passed = 0;
    run->recovery.inherited = false;
}

static void seal(struct rdzv *r, struct run *run)
{
    int n_members = pick_members(r, run);
    run->round.world_size =
        ranks_assign(r->places, r->scratch, n_members, NULL);
    run->round.group_world = n_members;
    number_round(run);
    run->round.confirmed = 0;
    run->gather.seal_at_us = MONO_NEVER;
    run->recovery.holes = 0;
    round_begin(r, run);
    make_instance(r, run);
    find_master(r, run, n_members);
    for (int i = 0; i < n_members; i++) {
        struct node *n = take_ranks(r, &r->places[i]);
        n->confirmed = false;
        n->pace = (struct pace){.steps = 0};
        n->mirrored = 0;
        n->slow = (struct slow_rank){.permille = 0};
        n->asks = n->stands = false;
        node_set_state(r, n, NODE_PENDING);
    }
    make_spares(r, run);
    propose_round(r, run, n_members);
}

/* Whether a node that waits is due to be counted as lost: its tick comes first,
 * and it would be of no use in a round. */
static bool has_expired(const struct rdzv *r, const struct run *run)
{
    if (r->now_us < r->lease_check_us)
        return false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].lease_until_us <= r->now_us)
            return true;
    return false;
}

/* Each of those that wait has a lease with which a round's workers may start. A
 * round that came before it would be over at once. */
static bool all_are_leased(const struct rdzv *r, const struct run *run)
{
    int64_t least_us = mono_after(r->now_us, run->conf.heartbeat_us / 4);
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        bool waits = n->state == NODE_WAITING || n->state == NODE_SPARE;
        if (waits && n->told_us < least_us)
            return false;
    }
    return true;
}

/*
 * Calm: a server that could not act (all cables were dead) and can again, or
 * is elected after such an outage, has but half of the voters, and leases
 * that are over. It grants first, and waits for the others, for at most a
 * lease: else each of them would cost a round of its own.
 */
void round_be_calm(const struct rdzv *r, struct run *run)
{
    run->takeover.calm_us = mono_after(r->now_us, run->conf.heartbeat_us);
}

static bool is_calm(const struct rdzv *r, struct run *run)
{
    if (run->takeover.calm_us == MONO_NEVER)
        round_be_calm(r, run);
    if (run->authority.round == 0)
        return true;
    bool all_can_come = run->count[NODE_STALE] == 0 /* soon ready */ &&
                        authority_tally(&run->authority, 0).missing == 0;
    return r->now_us >= run->takeover.calm_us ||
           (all_can_come && all_are_leased(r, run));
}

/*
 * Whether half of the voters, and in a strict run enough launchers, vouch for
 * what this server does, so that a round may be proposed; and those that had no
 * lease have one again. If the newest round may not have been in force, its
 * voters have to say first that it is.
 */
static bool may_propose(struct rdzv *r, struct run *run)
{
    const struct authority *a = &run->authority;
    if (a->pending || run->takeover.grants == RUN_MUTE ||
        !run_may_act(run, r->now_us))
        return false;
    if (a->in_doubt) {
        propose_again(r, run);
        return false;
    }
    return is_calm(r, run);
}

/* It leads, and half of the voters of a round have not answered for a lease.
 * Those of a first round that is proposed have not answered yet. */
static bool cannot_act(const struct rdzv *r, const struct run *run)
{
    const struct authority *a = &run->authority;
    return a->state == AUTHORITY_LEADER && a->round > 0 &&
           !run_has_voters(run, r->now_us);
}

/* A server that was just started waits a lease before it founds a run that has
 * room for more nodes: a leader elsewhere, of which it knows nothing, tells it
 * by then where the run is. */
static int64_t last_call_ends_us(const struct rdzv *r, const struct run *run)
{
    int64_t at_us = mono_after(r->now_us, run->conf.last_call_us);
    int64_t told_us = mono_after(r->limits.began_us, run->conf.heartbeat_us);
    return told_us > at_us ? told_us : at_us;
}

/* Voters of a round look for a leader here: they are about to come, and to tell
 * what they accepted. A run that is founded beside theirs would never let them
 * in. */
static bool awaits_voters(const struct rdzv *r, struct run *run)
{
    if (!run->takeover.sought)
        return false;
    run->gather.seal_at_us = mono_after(r->now_us, SOUGHT_AGAIN_US);
    return true;
}

void round_try_seal(struct rdzv *r, struct run *run)
{
    if (cannot_act(r, run))
        run->takeover.calm_us = MONO_NEVER;
    if (run->state != RUN_GATHER || run->absent > 0 ||
        r->now_us < round_known_at_us(run) || round_awaits_leave(r, run))
        return;
    run->takeover.blocked = !may_propose(r, run);
    if (run->takeover.blocked)
        return;
    strikes_recall(r, run);
    int have = run->count[NODE_WAITING] + run->count[NODE_SPARE];
    if (have < run->conf.nodes_min) {
        run->gather.seal_at_us = MONO_NEVER;
        return;
    }
    /* Last call is for the first round only. */
    bool all_here = have >= run->conf.nodes_max || run->round.number > 0;
    if (all_here || r->now_us >= run->gather.seal_at_us) {
        if (!has_expired(r, run) && (all_here || !awaits_voters(r, run)))
            seal(r, run);
        return;
    }
    if (run->gather.seal_at_us != MONO_NEVER)
        return;
    run->gather.seal_at_us = last_call_ends_us(r, run);
    note(r, NOTE_last_call, run, "", "%d of %d..%d, for %lld ms", have,
         run->conf.nodes_min, run->conf.nodes_max,
         (long long)mono_ms_until(r->now_us, run->gather.seal_at_us));
}
