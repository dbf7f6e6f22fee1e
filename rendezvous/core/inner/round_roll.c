/*
 * After a restart of the server nothing is known but what nodes tell. A round
 * that was rebuilt from that has holes: members that did not come yet, which
 * may run its workers. The next round may be sealed when no such lease can be
 * out any more (round_known_at_us), or, sooner, when the roll shows that nobody
 * is missing (round_all_are_here).
 */
#include "rendezvous/core/inner/round_roll.h"

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/rdzv_priv.h"
#include "rendezvous/proto/timing.h"

/* Nodes that come back together are looked at together. */
#define ROLL_US (20 * MONO_MS)

/* -- leases that may be out ------------------------------------------------ */

/* The longest that a member of the last known round may still run workers for:
 * long leases are only given in rounds of the fewest nodes (node.c). */
static int64_t longest_lease_us(const struct run *run)
{
    bool is_least = run->round.group_world <= run->conf.nodes_min;
    bool is_short =
        run->conf.reconnect_us < run->conf.heartbeat_us || !is_least;
    return is_short ? run->conf.heartbeat_us : run->conf.reconnect_us;
}

int64_t round_foreign_lease_us(const struct run *run)
{
    int64_t lease_us = run->conf.heartbeat_us > run->conf.reconnect_us
                           ? run->conf.heartbeat_us
                           : run->conf.reconnect_us;
    return lease_us + TIMING_REFUSED_US;
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
    return mono_after(run->recovery.rebuilt_at_us,
                      lease_us + TIMING_REFUSED_US);
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
    if (run->recovery.holes > 0 && run->recovery.roll_at_us == MONO_NEVER)
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
