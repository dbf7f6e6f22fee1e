/*
 * All nodes are compared at once, now and then. Beats come at most so often as
 * leases are renewed, and the parts are means of 20 steps: they change slowly.
 */
#include "rendezvous/core/inner/state/slow_ranks.h"

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

/* Between two looks at a run: for many nodes longer, so that a look costs next
 * to nothing. */
#define LOOK_EVERY_US (500 * MONO_MS)
#define LOOK_NODE_US  500

static double ms(int64_t us)
{
    return (double)us / (double)MONO_MS;
}

static void tell_slow(struct rdzv *r,
                      const struct run *run,
                      const struct node *n,
                      int64_t median_us)
{
    const struct slow_rank *s = &n->slow;
    note(r, NOTE_slow, run, n->name,
         "rank %d (local rank %d) takes %.1f %% longer for its part of a step "
         "than the others: %.1f ms, not %.1f",
         n->base_rank + s->told.local_rank, s->told.local_rank,
         s->permille / 10.0, ms(s->told.most_us), ms(median_us));
}

static void tell_gone(struct rdzv *r, const struct run *run, struct node *n)
{
    note(r, NOTE_as_fast, run, n->name,
         "no rank is slower than the others any more, after %lld s",
         (long long)((r->now_us - n->slow.since_us) / MONO_S));
}

static void
judge(struct rdzv *r, const struct run *run, struct node *n, int64_t median_us)
{
    struct slow_rank *s = &n->slow;
    bool was = s->permille > 0;
    s->permille = slow_permille(&s->told, median_us, was);
    if (s->permille > 0 && !was) {
        s->since_us = r->now_us;
        tell_slow(r, run, n, median_us);
    }
    if (s->permille == 0 && was)
        tell_gone(r, run, n);
}

static void look(struct rdzv *r, struct run *run)
{
    int count = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (node_in_round(&r->nodes[i]))
            r->told[count++] = r->nodes[i].slow.told;
    int64_t median_us = slow_median_us(r->told, count);
    for (int i = run->head; i >= 0; i = r->nodes[i].next)
        if (node_in_round(&r->nodes[i]))
            judge(r, run, &r->nodes[i], median_us);
    run->slow_look_us =
        mono_after(r->now_us, LOOK_EVERY_US + count * LOOK_NODE_US);
}

const struct node *slow_ranks_slowest(const struct rdzv *r,
                                      const struct run *run)
{
    const struct node *slowest = NULL;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        if (n->group_rank >= 0 && n->slow.permille > 0 &&
            (slowest == NULL || n->slow.permille > slowest->slow.permille))
            slowest = n;
    }
    return slowest;
}

void slow_ranks_beat(struct rdzv *r,
                     struct run *run,
                     struct node *n,
                     const struct msg_beat *b)
{
    bool tells = b->own > 0 || n->slow.told.most_us > 0;
    int rest = n->nproc > 1 && b->own_rest > 0 ? n->nproc - 1 : 0;
    n->slow.told = (struct slow_told){
        .most_us = b->own,
        .noise_us = b->own_noise,
        .rest_us = b->own_rest,
        .rest = rest,
        .local_rank = (int)b->own_rank,
    };
    if (tells && r->now_us >= run->slow_look_us)
        look(r, run);
}
