/*
 * A round that another server sealed may have holes: members that did not come
 * yet, which may run its workers. The next round may be sealed when no lease of
 * them can be out any more: what the voters told says it (authority.h).
 */
#include "rendezvous/core/inner/round/inherited.h"

#include <string.h>

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

/* -- leases that may be out ------------------------------------------------ */

int64_t round_known_at_us(const struct run *run)
{
    if (!run->recovery.inherited ||
        (run->recovery.holes == 0 && !run->authority.in_doubt))
        return 0;
    int64_t at_us = authority_leases(&run->authority, 0).earlier_us;
    return at_us > run->takeover.own_us ? at_us : run->takeover.own_us;
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

bool round_awaits_leave(const struct rdzv *r, const struct run *run)
{
    if (run->count[NODE_DRAINED] == 0)
        return false;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].state == NODE_DRAINED && r->nodes[i].group_rank >= 0)
            return true;
    return false;
}
