/*
 * After a restart of the server nothing is known but what nodes tell. A round
 * that was rebuilt from that has holes: members that did not come yet, which
 * may run its workers. The next round may be sealed when no such lease can be
 * out any more (round_known_at_us), or, sooner, when the roll shows that nobody
 * is missing (round_all_are_here). In both cases more than half of the members
 * must have come: else they may be at another server, which goes on with them.
 */
#include "rendezvous/core/inner/round/round_roll.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

/* Nodes that come back together are looked at together. */
#define ROLL_US (20 * MONO_MS)

/* -- leases that may be out ------------------------------------------------ */

int64_t round_foreign_lease_us(const struct run *run)
{
    return run->conf.heartbeat_us > run->conf.reconnect_us
               ? run->conf.heartbeat_us
               : run->conf.reconnect_us;
}

/* The longest that a member of the last known round may still run workers for:
 * long leases are only given in rounds of the fewest nodes (node.c), or by a
 * server that ends in order, and then the members that are here know
 * (last_lease.c). */
static int64_t longest_lease_us(const struct run *run)
{
    bool is_least = run->round.group_world <= run->conf.nodes_min;
    return is_least || run->recovery.long_out ? round_foreign_lease_us(run)
                                              : run->conf.heartbeat_us;
}

/* If there was one more round, it was of the same nodes, since survivors come
 * first (pick_members) and the round took no others. None of them has heard
 * of it, and all are here. */
static bool are_the_only_ones(const struct run *run)
{
    return run->recovery.ready_members >= run->round.group_world &&
           run->round.group_world == run->conf.nodes_max &&
           run->strikes.max == 0;
}

/*
 * With failover, what the voters told says it (office.h). Without:
 *
 * While members are missing, they may run the last known round, unless it was
 * over for good. If they do not, or all are here, but all were ready, there
 * may be one more round; since not all of its members have confirmed it, only
 * short leases are out. If nothing is sure, there may be any.
 */
static int64_t known_by_promises_at_us(const struct run *run)
{
    if (!run->recovery.rebuilt ||
        (run->recovery.holes == 0 && office_is_confirmed(&run->office)))
        return 0;
    int64_t at_us = office_foreign_us(&run->office, run->conf.heartbeat_us);
    return at_us > run->takeover.own_us ? at_us : run->takeover.own_us;
}

int64_t round_known_at_us(const struct run *run)
{
    int64_t lease_us = run->conf.heartbeat_us;
    if (run->failover)
        return known_by_promises_at_us(run);
    if (!run->recovery.rebuilt ||
        (run->recovery.holes == 0 && run->recovery.anchor == ANCHOR_HELD))
        return 0;
    if (run->recovery.holes == 0 && are_the_only_ones(run))
        return 0;
    if (run->recovery.anchor == ANCHOR_NONE)
        return mono_after(run->recovery.rebuilt_at_us,
                          round_foreign_lease_us(run));
    if (run->recovery.holes > 0 && !run->recovery.was_over)
        lease_us = longest_lease_us(run);
    return mono_after(run->recovery.rebuilt_at_us, lease_us);
}

int64_t round_minority_until_us(const struct run *run)
{
    return mono_after(run->recovery.rebuilt_at_us, round_foreign_lease_us(run));
}

/* -- holes ----------------------------------------------------------------- */

static uint8_t *taken_bits(const struct rdzv *r, const struct run *run)
{
    size_t size = (size_t)r->limits.nodes_max / 8 + 1;
    return r->taken + (size_t)run_index(r, run) * size;
}

void round_open_holes(struct rdzv *r, const struct run *run)
{
    memset(taken_bits(r, run), 0, (size_t)r->limits.nodes_max / 8 + 1);
}

bool round_is_taken(const struct rdzv *r, const struct run *run, int rank)
{
    return (taken_bits(r, run)[rank / 8] & 1u << (rank % 8)) != 0;
}

void round_fill_hole(struct rdzv *r, struct run *run, int group_rank)
{
    uint8_t bit = (uint8_t)(1u << (group_rank % 8));
    taken_bits(r, run)[group_rank / 8] |= bit;
    run->recovery.holes--;
}

bool round_reopen_hole(struct rdzv *r, struct node *n)
{
    struct run *run = &r->runs[n->run];
    if (!run_is_live(run) || run_is_ours(run) || n->group_rank < 0 ||
        n->drained)
        return false;
    note(r, NOTE_absent, run, n->name,
         "it went before more than half of the nodes were back");
    uint8_t bit = (uint8_t)(1u << (n->group_rank % 8));
    taken_bits(r, run)[n->group_rank / 8] &= (uint8_t)~bit;
    run->recovery.holes++;
    run->recovery.ready_members -= n->sure_ready;
    run->round.confirmed -= n->confirmed;
    node_remove(r, n);
    return true;
}

bool round_awaits_leave(const struct rdzv *r, const struct run *run)
{
    if (run->count[NODE_DRAINED] == 0)
        return false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_DRAINED && r->nodes[i].group_rank >= 0)
            return true;
    return false;
}

/* -- the roll -------------------------------------------------------------- */

void round_call_roll(const struct rdzv *r, struct run *run)
{
    if (run->recovery.holes > 0 && run->round.roll != 0 &&
        run->recovery.roll_at_us == MONO_NEVER)
        run->recovery.roll_at_us = mono_after(r->now_us, ROLL_US);
}

struct called {
    int nodes;
    int64_t sum;
};

static void call_one(struct called *c, const struct node *n)
{
    c->nodes++;
    c->sum = (c->sum + n->roll) & ROLL_MASK;
}

static bool is_complete(const struct run *run, const struct called *c)
{
    return run->round.roll != 0 && c->nodes == run->round.group_world &&
           c->sum == run->round.roll;
}

/* Has no workers, nor a place in the round, as far as is known here. */
static bool is_idle(const struct node *n)
{
    return n->group_rank < 0 &&
           (n->state == NODE_WAITING || n->state == NODE_SPARE ||
            n->state == NODE_QUARANTINED || n->state == NODE_DRAINED);
}

/*
 * The server before us may have been gone before all heard of the round that it
 * had just sealed: those who did not are here, run nothing, and do not know
 * that they are in it. Whether it is they who are missing, or others that run
 * workers of it, tells its roll; with nodes that had been in a round before,
 * who come first, or with all that are here.
 */
bool round_all_are_here(const struct rdzv *r, const struct run *run)
{
    struct called members = {0}, all = {0};
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        bool idle = is_idle(n);
        if (!idle && n->group_rank < 0)
            continue; /* it may run something older */
        call_one(&all, n);
        if (!idle || n->came_ready)
            call_one(&members, n);
    }
    return is_complete(run, &members) || is_complete(run, &all);
}
