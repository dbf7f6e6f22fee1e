#include "rendezvous/core/inner/state/stands.h"

#include "rendezvous/base/mono.h"
#include "rendezvous/core/inner/state/rdzv_state.h"
#include "rendezvous/core/inner/state/reply.h"

void stands_begin(struct run *run)
{
    run->stands = (struct run_stands){.looks = 0};
}

/* Counts those of the round's nodes that ask, and those that tell. */
static void
count(const struct rdzv *r, const struct run *run, int *asking, int *telling)
{
    *asking = *telling = 0;
    for (int i = run->head; i >= 0; i = r->nodes[i].next) {
        const struct node *n = &r->nodes[i];
        *asking += node_in_round(n) && n->asks;
        *telling += node_in_round(n) && n->stands;
    }
}

static void begin_to_tell(struct rdzv *r, struct run *run, const struct node *n)
{
    run->stands.since_us = r->now_us;
    note(r, NOTE_stands, run, n->name, "%s", run->stands.text);
}

static void end_telling(struct rdzv *r, struct run *run)
{
    int64_t s = (r->now_us - run->stands.since_us) / MONO_S;
    run->stands.node[0] = run->stands.text[0] = '\0';
    note(r, NOTE_goes_on, run, "", "after another %lld s", (long long)s);
}

void stands_beat(struct rdzv *r,
                 struct run *run,
                 struct node *n,
                 const struct msg_beat *b)
{
    bool asks = b->asks != 0, stands = b->stands[0] != '\0';
    int asking, telling;
    if (run->state != RUN_ACTIVE || b->round != run->round.number ||
        !node_in_round(n) || (asks == n->asks && stands == n->stands))
        return;
    n->asks = asks;
    n->stands = stands;
    count(r, run, &asking, &telling);
    run->stands.looks += asking > 0 && !run->stands.asked;
    run->stands.asked = asking > 0;
    if (stands && run->stands.node[0] == '\0') {
        msg_set(run->stands.node, n->name);
        msg_set(run->stands.text, b->stands);
        begin_to_tell(r, run, n);
    } else if (telling == 0 && run->stands.node[0] != '\0') {
        end_telling(r, run);
    }
}
