/*
 * A server that ends in order does it in two steps, since the next one must be
 * able to tell that long leases are out, whichever members it hears first.
 *
 * 1. It answers each node at once by a short lease that says: long ones may be
 *    out (long_out). The node beats, and says that it knows.
 * 2. Once half of the members have said so, each that has gets a lease of
 *    reconnect_ms. The next server seals nothing before more than half of the
 *    members have come to it (round_roll.c), so that one of them knows.
 *
 * All members must have confirmed the round: else one that has not heard of it
 * could tell the next server of an older round only.
 *
 * Failure modes: a node does not answer, or the round has holes: its members go
 * on under short leases, as if this server had been killed.
 */
#include "rendezvous/core/inner/state/last_lease.h"

#include "rendezvous/core/inner/state/rdzv_state.h"

static void grant_all(struct rdzv *r, const struct run *run, bool knowing)
{
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        struct node *n = &r->nodes[i];
        if (node_is_owed(r, n) && (n->knows_long || !knowing))
            node_grant(r, n, n->beat_seq, -1);
    }
}

/* The others get theirs by the answer to their own beat. */
void last_lease_try(struct rdzv *r, const struct node *n)
{
    struct run *run = &r->runs[n->run];
    if (!n->parted || run->round.parting)
        return;
    run->round.parting = true;
    grant_all(r, run, true);
}

void last_lease_begin(struct rdzv *r)
{
    r->ending = true;
    for (int i = 0; i < r->limits.runs_max; i++)
        if (run_is_live(&r->runs[i]))
            grant_all(r, &r->runs[i], false);
}

int last_lease_owed(const struct rdzv *r)
{
    int n = 0;
    for (int i = 0; i < r->fresh_node; i++)
        n += r->nodes[i].state != NODE_FREE && node_is_owed(r, &r->nodes[i]);
    return n;
}
