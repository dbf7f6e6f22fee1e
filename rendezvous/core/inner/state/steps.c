#include "rendezvous/core/inner/state/steps.h"

#include <stdio.h>

#include "rendezvous/core/inner/state/phase.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/slow_ranks.h"

void steps_beat(struct rdzv *r,
                struct run *run,
                struct node *n,
                const struct msg_beat *b)
{
    if (b->steps == 0 || b->round != run->round.number || !node_in_round(n))
        return;
    const struct note_steps steps = {
        .node = (int)(n - r->nodes),
        .steps = b->steps,
        .anew = b->steps < n->pace.steps,
    };
    pace_take(&n->pace, b->steps, b->ahead, (int)b->slow, r->now_us);
    n->mirrored = b->mirrored;
    slow_ranks_beat(r, run, n, b);
    phase_tell_steps(r, run, n, &steps);
}

/* -- nodes that are not at one step ---------------------------------------- */

/* "ranks 4-7 on b were" */
static void name_ranks(const struct node *n, char *text, size_t size)
{
    if (n->nproc == 1)
        (void)snprintf(text, size, "rank %d on %s was", n->base_rank, n->name);
    else
        (void)snprintf(text, size, "ranks %d-%d on %s were", n->base_rank,
                       n->base_rank + n->nproc - 1, n->name);
}

/* The steps of its foremost worker. */
static int64_t most_steps(const struct node *n)
{
    return n->pace.steps + n->pace.ahead;
}

/* The node that is least far; NULL: there is none, or steps of this round do
 * not tell how far its nodes are. */
static const struct node *hindmost(const struct rdzv *r, const struct run *run)
{
    const struct node *last = NULL;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (!node_in_round(n) || n->pace.steps == 0)
            continue;
        if (n->pace.anew)
            return NULL;
        if (last == NULL || most_steps(n) < most_steps(last))
            last = n;
    }
    return last;
}

/*
 * Beats of nodes are told at different times, between which the steps go on: no
 * difference of their last ones proves anything. But a node whose foremost
 * worker is behind a step that all workers of another had reached before has
 * not gone on with them. One step between them is usual: some workers tell a
 * step when it begins, and others are in the one before.
 */
void steps_apart(const struct rdzv *r,
                 const struct run *run,
                 char text[STEPS_APART_MAX])
{
    const struct node *last = hindmost(r, run), *first = NULL;
    char ahead[128], behind[128];
    int64_t most = last != NULL ? most_steps(last) + 1 : 0;
    text[0] = '\0';
    if (last == NULL || run->round.world_size == 0)
        return; /* of an inherited round the ranks may not be known */
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        int64_t steps = pace_steps_by(&n->pace, last->pace.at_us);
        if (node_in_round(n) && steps > most) {
            most = steps;
            first = n;
        }
    }
    if (first == NULL)
        return;
    name_ranks(first, ahead, sizeof(ahead));
    name_ranks(last, behind, sizeof(behind));
    (void)snprintf(text, STEPS_APART_MAX, /* fits */
                   "%s at step %lld when %s at step %lld: a node that does not "
                   "find its snapshot begins anew",
                   ahead, (long long)most - 1, behind,
                   (long long)most_steps(last) - 1);
}
