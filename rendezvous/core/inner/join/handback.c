/*
 * Happy path: handback_offer for each node that tells this daemon of the run;
 * at the leader handback_hear for each of them; the last one is answered by
 * `serves` to all.
 *
 * Failure modes: a voter does not reach the daemon, or is away, or a round is
 * under way: nothing follows, and the offers are heard again a second later.
 */
#include "rendezvous/core/inner/join/handback.h"

#include <string.h>

#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"
#include "rendezvous/core/inner/state/run.h"

void handback_offer(struct rdzv *r, const struct msg_serves *s, int conn)
{
    struct msg m = {.kind = MSG_KIND_serves}; /* term 0: it does not lead */
    if (r->limits.embedded)
        return;
    msg_set(m.serves.term.id, r->limits.server);
    msg_set_name(m.serves.instance, s->instance);
    reply_send(r, conn, &m);
}

/* A new leader would have to wait for nothing. */
static bool is_settled(const struct rdzv *r, const struct run *run)
{
    return run->state == RUN_ACTIVE && run->absent == 0 &&
           run->count[NODE_STALE] == 0 && !run->authority.pending &&
           !run->authority.in_doubt && r->handover.conn < 0 &&
           run_may_act(run, r->now_us);
}

static bool all_voters_reach(const struct rdzv *r,
                             const struct run *run,
                             const char *daemon)
{
    const struct voters *voters = &run->authority.sets[AUTHORITY_NOW];
    int n = authority_tally(&run->authority, 0).dead;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        n += strcmp(r->nodes[i].daemon, daemon) == 0 &&
             voters_find(voters, r->nodes[i].agent) >= 0;
    return n == voters->n;
}

void handback_hear(struct rdzv *r, struct node *n, const struct msg_serves *s)
{
    struct run *run = &r->runs[n->run];
    struct msg m = {.kind = MSG_KIND_serves}; /* addr "": to the endpoint */
    msg_set(n->daemon, s->term.id);
    if (!r->limits.embedded || !is_settled(r, run) ||
        !all_voters_reach(r, run, n->daemon))
        return;
    note(r, NOTE_handed_back, run, "", "to the daemon at the endpoint, %s",
         s->addr);
    m.serves.term = run->authority.term;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (r->nodes[i].conn >= 0)
            reply_node(r, &r->nodes[i], &m);
    run_forget(r, run);
}
